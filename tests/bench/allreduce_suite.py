"""All-reduce of f32 by size: over shared memory in place and elsewhere, and over TCP, against Gloo."""

from harness import PEER_PYTHON, ROOT, Row, Suite

KIB, MIB = 1 << 10, 1 << 20
SMALL = (4 * KIB, 256 * KIB, MIB)
LARGE = (25 * MIB, 100 * MIB)


def size(bytes_):
    return f"{bytes_ // MIB} MiB" if bytes_ >= MIB else f"{bytes_ // KIB} KiB"


def row(name, ours, ranks, bytes_, times):
    return Row(
        name=f"all-reduce {name}, {ranks} ranks, {size(bytes_)}",
        ours=f"{ours}.{ranks}.{bytes_}",
        peer=f"gloo.{ranks}.{bytes_}",
        unit="ms",
        target=f">= {times}",
        scale=1e3,
    )


def suite(build):
    program = build / "bin/allreduce_bench"
    peer = [PEER_PYTHON, ROOT / "tests/bench/peer_allreduce.py"]
    rows = [row("in place, shm", "shm.place", 2, b, t) for b, t in zip(SMALL + LARGE, (300, 100, 50, 7, 6))]
    rows += [row("in place, shm", "shm.place", 4, b, t) for b, t in ((4 * KIB, 500), (25 * MIB, 6))]
    rows += [row("of any memory, shm", "shm.copy", 2, b, t) for b, t in zip(SMALL + LARGE, (10, 10, 10, 1.8, 1.8))]
    rows += [row("over tcp", "tcp.copy", 2, b, t) for b, t in zip(SMALL + LARGE, (2, 2, 2, 1.1, 1.1))]
    return Suite(
        name="allreduce",
        sides={
            "ours, shm, 2 ranks": [program, "shm", 2],
            "gloo, 2 ranks": [*peer, 2],
            "ours, tcp, 2 ranks": [program, "tcp", 2],
            "ours, shm, 4 ranks": [program, "shm", 4],
            "gloo, 4 ranks": [*peer, 4],
        },
        rows=rows,
    )
