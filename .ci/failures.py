#!/usr/bin/env python3
"""What failed in a log of .ci/run, each with where and why: for who sees only the end of the output.

Of a failed test: the lines that name a failed check and those after them, then the last ones. Prints nothing for a log without failures.
"""

import re
import sys

FAILED_TEST = re.compile(
    r"^ *\d+/\d+ Test +#.*(\*\*\*(Failed|Timeout|Exception|Not Run)|Subprocess aborted)"
)
NEXT_TEST = re.compile(r"^ *(Start +\d+:|\d+/\d+ Test +#)|tests passed, ")
FAILED_STEP = re.compile(r"^  FAIL |: (fatal )?error: ")
REASON = re.compile(r": Failure$|^SUMMARY: |^(FAIL|ERROR): |^\w*(Error|Exception|Failed): ")
AFTER, LAST, MOST, WIDTH = 12, 20, 80, 400


def of_test(output):
    """The lines of a failed test's output to show."""
    shown = set(range(max(0, len(output) - LAST), len(output)))
    for index, line in enumerate(output):
        if REASON.search(line) and len(shown) < MOST:
            shown.update(range(index, min(index + AFTER, len(output))))
    previous = -1
    for index in sorted(shown):
        if index != previous + 1:
            yield "..."
        yield output[index]
        previous = index


def failures(lines):
    for index, line in enumerate(lines):
        if FAILED_TEST.search(line):
            yield re.sub(r" {2,}|\.{4,}", " ", line)
            rest = lines[index + 1 : index + 20_000]
            end = next((n for n, text in enumerate(rest) if NEXT_TEST.search(text)), len(rest))
            yield from ("    " + text[:WIDTH] for text in of_test(rest[:end]))
        elif FAILED_STEP.search(line):
            yield line.strip()[:WIDTH]


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        found = list(failures(log.read().splitlines()))[:600]
    if found:
        print("\nwhat failed:")
        print("\n".join("  " + line for line in found))


if __name__ == "__main__":
    main()
