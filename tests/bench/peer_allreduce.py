"""The peer's all-reduce: torch.distributed over Gloo, f32, in place, ranks as processes of this host.

peer_allreduce.py RANKS prints seconds an all-reduce as {"gloo.RANKS.BYTES": seconds}.
"""

import json
import os
import sys
import time

import peer
import torch
import torch.distributed as dist

SIZES = (4 << 10, 256 << 10, 1 << 20, 25 << 20, 100 << 20)


def rank_main(rank, ranks, port):
    peer.join(rank, ranks, port)
    for size in SIZES:
        numbers = torch.ones(size // 4)
        for _ in range(3):
            dist.all_reduce(numbers)
        repetitions = min(max((200 << 20) // size, 3), 200)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repetitions):
            dist.all_reduce(numbers)
        seconds = (time.perf_counter() - start) / repetitions
        if rank == 0:
            print(json.dumps({f"gloo.{ranks}.{size}": seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    peer.spawn(rank_main, ranks)
