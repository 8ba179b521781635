"""An asynchronous checkpoint of 100 MB, synced and checksummed, beside torch.save."""

import atexit
import shutil
import tempfile

from harness import PEER_PYTHON, ROOT, Row, Suite


def suite(build):
    folder = tempfile.mkdtemp(prefix="ddp-bench.", dir=build)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Suite(
        name="checkpoint",
        sides={
            "ours": [build / "bin/checkpoint_bench", folder],
            "torch.save": [PEER_PYTHON, ROOT / "tests/bench/peer_checkpoint.py", folder],
        },
        rows=[
            Row(
                name="checkpoint of 100 MB: training stands still",
                ours="checkpoint.stall",
                peer="torch_save",
                unit="ms",
                target="<= 0.2",
                scale=1e3,
            ),
            Row(
                name="step during a checkpoint, beside a usual step of ours",
                ours="checkpoint.step_during",
                peer="checkpoint.step",
                unit="ms",
                target="<= 1.1",
                scale=1e3,
            ),
        ],
    )
