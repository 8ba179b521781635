"""Sums the ranks of a group over TCP, knowing nothing but the variables of any env:// program."""

import os
import socket
import time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
deadline = time.monotonic() + 90


def connect():
    """The name of rank 0 may not be known yet, or be remembered as unknown."""
    while True:
        try:
            return socket.create_connection(address, timeout=5)
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"rank {rank}: no rank 0 at {address[0]}:{address[1]}: {error}")
            time.sleep(0.5)


def gather_and_answer():
    with socket.create_server(("", address[1])) as server:
        server.settimeout(90)
        peers = [server.accept()[0] for _ in range(world - 1)]
    total = rank + sum(int(peer.makefile().readline()) for peer in peers)
    for peer in peers:
        peer.sendall(f"{total}\n".encode())
    return total


def send_and_hear():
    with connect() as peer:
        peer.settimeout(90)
        peer.sendall(f"{rank}\n".encode())
        return int(peer.makefile().readline())


total = gather_and_answer() if rank == 0 else send_and_hear()
print(f"rank {rank} of {world}: the ranks sum to {total}", flush=True)
raise SystemExit(0 if total == world * (world - 1) // 2 else 70)
