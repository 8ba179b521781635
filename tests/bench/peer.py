"""What the peer's programs share: ranks as processes that meet over Gloo on loopback, one thread each."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def spawn(rank_main, ranks, *arguments):
    """Runs rank_main(rank, ranks, port, *arguments) in one process a rank; raises if one fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(rank_main, (ranks, port, *arguments), ranks)


def join(rank, ranks, port):
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(ranks),
        GLOO_SOCKET_IFNAME="lo",
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
