"""A training step of three models: against the peer's, and against our own with communication off.

Both sides: same models, batches and optimizer, two ranks, one thread each. "The compute alone" is measured in the same
processes, in turn with the step.
"""

from harness import PEER_PYTHON, ROOT, Row, Suite

RANKS = 2
MIB = 1 << 20
MODELS = {"mlp": "MLP, 64 samples", "resnet18": "ResNet-18, 8 images", "gpt": "GPT, 4 x 128 tokens"}


def over_compute(model, target):
    return Row(
        name=f"step of {MODELS[model]}: over the compute alone",
        ours=f"ours.{model}.step",
        peer=f"ours.{model}.compute",
        unit="ms",
        target=target,
        scale=1e3,
    )


def over_peer(model, target):
    return Row(
        name=f"step of {MODELS[model]}: against the peer",
        ours=f"ours.{model}.step",
        peer=f"peer.{model}.step",
        unit="ms",
        target=target,
        scale=1e3,
    )


def suite(build):
    sides = {}
    for model in MODELS:
        sides[f"ours, {model}"] = [build / "bin/step_bench", model, RANKS]
        sides[f"peer, {model}"] = [PEER_PYTHON, ROOT / "tests/bench/peer_steps.py", model, RANKS]
    return Suite(
        name="steps",
        sides=sides,
        rows=[
            over_compute("mlp", "<= 1.15"),
            over_peer("resnet18", ">= 1.2"),
            over_compute("resnet18", "<= 1.05"),
            over_peer("gpt", ">= 1.15"),
            over_compute("gpt", "<= 1.05"),
            Row("peak resident memory of a rank, GPT", "ours.gpt.rss", "peer.gpt.rss", "MB", "<= 0.5", 1 / MIB),
            Row("process start to first step, MLP", "ours.mlp.start", "peer.mlp.start", "s", "<= 0.25"),
        ],
    )
