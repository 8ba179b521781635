"""Runs a program as N ranks on this machine, as a launcher would, and says how they ended.

usage: ranks.py N [--codes 0,69] [--within SECONDS] [--expect TEXT]... -- PROGRAM ARGUMENT...

Fails unless every rank ends within the time, with its code, and each text is in the output of some rank.
"""

import argparse
import os
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, ranks, **extra):
    """The processes, by rank; their output goes to pipes."""
    port = str(free_port())
    processes = []
    for rank in range(ranks):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
        env.update(LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        env.setdefault("OMP_NUM_THREADS", "1")
        env.update(extra)
        processes.append(
            subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    return processes


def finish(processes, seconds):
    """(exit code, output) of each; one that is not done by then is killed and has the code None."""
    deadline = time.monotonic() + seconds
    results = []
    for process in processes:
        try:
            output, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            results.append((process.returncode, output))
        except subprocess.TimeoutExpired:
            process.kill()
            results.append((None, process.communicate()[0]))
    return results


def run(command, ranks, seconds):
    return finish(start(command, ranks), seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ranks", type=int)
    parser.add_argument("--codes", default="")
    parser.add_argument("--within", type=float, default=60)
    parser.add_argument("--expect", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    codes = [int(code) for code in options.codes.split(",") if code] or [0] * options.ranks
    results = run(options.command, options.ranks, options.within)
    for rank, (code, output) in enumerate(results):
        print(f"---- rank {rank} ended with {code}\n{output}", end="")
    problems = [
        f"rank {rank} ended with {code}, not {expected}"
        for rank, ((code, _), expected) in enumerate(zip(results, codes))
        if code != expected
    ]
    problems += [
        f"nobody said: {text}"
        for text in options.expect
        if not any(text in output for _, output in results)
    ]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
