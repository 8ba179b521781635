"""The peer's checkpoint: torch.save of 100 MB in 50 tensors, as it is commonly used, without fsync.

peer_checkpoint.py FOLDER prints {"torch_save": seconds}: the training loop stands still for so long.
"""

import json
import pathlib
import statistics
import sys
import time

import torch


def main():
    torch.set_num_threads(1)
    tensors = {f"tensor.{i}": torch.full((500_000,), 0.5) for i in range(50)}
    path = pathlib.Path(sys.argv[1]) / "checkpoint.pt"
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        torch.save(tensors, path)
        seconds.append(time.perf_counter() - start)
    path.unlink()
    print(json.dumps({"torch_save": statistics.median(seconds[1:])}))


if __name__ == "__main__":
    main()
