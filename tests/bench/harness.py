"""Compares our programs with their peers: both run in turn, several times, and medians are set side by side.

A suite has two or more commands ("sides"). Each prints JSON objects of numbers, one a line, on its standard output:
{"metric": value, ...}; other lines are ignored. Rows pick one metric of ours and one to compare it with, and say what is
to be reached. Times differ from machine to machine, ratios hardly do: so a row is judged by its ratio.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("DDP_CACHE") or pathlib.Path.home() / ".cache/ddp")
PEER_PYTHON = CACHE / "peer/bin/python"
# One run of one side; a benchmark that hangs must not hang the suite.
RUN_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the result.

    `target` is "AT_LEAST X" of how many times ours is better than `peer` (">= 300": the peer's time is 300 of ours), or
    "AT_MOST X" of ours over the other ("<= 1.15": ours takes at most 15 % more).
    """

    name: str
    ours: str  # metric
    peer: str  # metric of the peer, or of our own side that the target compares with
    unit: str
    target: str
    scale: float = 1.0  # from the metrics' unit to the row's, for reading only
    more_is_better: bool = False  # for "at least" targets on rates

    def judge(self, medians):
        ours, peer = medians[self.ours], medians[self.peer]
        operator, limit = self.target.split()
        if operator == ">=":
            ratio = ours / peer if self.more_is_better else peer / ours
        else:
            ratio = ours / peer
        met = ratio >= float(limit) if operator == ">=" else ratio <= float(limit)
        return {
            "name": self.name,
            "ours": round(ours * self.scale, 6),
            "peer": round(peer * self.scale, 6),
            "unit": self.unit,
            "ratio": round(ratio, 3),
            "target": self.target,
            "met": met,
        }


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    sides: dict  # name -> command (a list); run in this order, once a round
    rows: list
    environment: dict = dataclasses.field(default_factory=dict)


def run_side(name, command, environment):
    """The numbers that one run of a command prints."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=RUN_SECONDS,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{name}: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    numbers = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            numbers.update(json.loads(line))
    return numbers


def run_suite(suite, rounds):
    """Runs all sides in turn, `rounds` times; returns the judged rows."""
    samples = {}
    for turn in range(rounds):
        for side, command in suite.sides.items():
            print(f"[{suite.name}] round {turn + 1} of {rounds}: {side}", file=sys.stderr, flush=True)
            for metric, value in run_side(side, command, suite.environment).items():
                samples.setdefault(metric, []).append(value)
    medians = {metric: statistics.median(values) for metric, values in samples.items()}
    missing = {m for row in suite.rows for m in (row.ours, row.peer)} - medians.keys()
    if missing:
        sys.exit(f"{suite.name}: no side printed {', '.join(sorted(missing))}")
    return [row.judge(medians) for row in suite.rows]


def show(rows):
    """The rows as a Markdown table."""
    lines = ["| what | ours | compared with | unit | ratio | target | met |", "|---|--:|--:|---|--:|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['name']} | {row['ours']:.4g} | {row['peer']:.4g} | {row['unit']} | {row['ratio']:.2f} "
            f"| {row['target']} | {'yes' if row['met'] else '**no**'} |"
        )
    return "\n".join(lines)


def write(rows, path):
    """Replaces rows of the same names in the file, keeps the others: suites can be run one by one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else []
    names = {row["name"] for row in rows}
    path.write_text(json.dumps([row for row in kept if row["name"] not in names] + rows, indent=1) + "\n")
