#!/usr/bin/env python3
"""Benchmarks of the runtime against PyTorch DDP over Gloo: `make bench`, or

    tests/bench/bench.py [--build build/release] [--rounds 5] [SUITE...]

writes build/bench/runtime.json and prints a table. The peer is Python with PyTorch (cmake/fetch.sh peer).
To add a suite: a file here with `def suite(build): return Suite(...)` (harness.py says how), and its name in SUITES.
"""

import argparse
import importlib
import pathlib
import sys

import harness

SUITES = ["allreduce", "checkpoint", "steps", "telemetry"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--build", type=pathlib.Path, default=harness.ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.suites:
        if name not in SUITES:
            parser.error(f"no suite {name}; there are {', '.join(SUITES)}")
    rows = []
    for name in arguments.suites or SUITES:
        suite = importlib.import_module(f"{name}_suite").suite(arguments.build.resolve())
        new = harness.run_suite(suite, arguments.rounds)
        harness.write(new, harness.ROOT / "build/bench/runtime.json")
        rows += new
    print(harness.show(rows))
    missed = [row["name"] for row in rows if not row["met"]]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} targets met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
