"""Checks that no folder includes one that is not above it in its column of the layer table.

usage: layers.py ROOT

Linking catches calls against the layers; this catches headers. It also keeps a library that is to stay behind one
interface out of every other file.
"""

import pathlib
import re
import sys

COLUMNS = {  # lowest layer first
    "operator": ["base", "json", "api", "kube", "controller", "ddpjob", "page", "cli"],
    "runtime": [
        "base", "store", "comm", "ddp", "data", "checkpoint", "api", "train", "health", "launch",
    ],  # fmt: skip
}
# The public C++ API is of headers alone (runtime/api has its code); it may show the engine, the sampler, and what lies
# above those.
PUBLIC = ("runtime", "include/ddp")

# folder: what it must not know although the table would let it
FORBIDDEN = {
    "operator/controller": [(r"operator/api/", "the controller machinery knows no DDPJob")],
    "runtime/comm": [
        (r"(torch|ATen|c10)/", "collectives take pointers, sizes and element types, no tensors")
    ],
}

# library: the folders that may include it, and in how many files besides tests
BEHIND_AN_INTERFACE = {
    r"cpprest/|pplx/": {"operator/kube": 2},
    r"yaml-cpp/": {"operator/json": 2, "runtime/train": 2},
    r"boost/": {"operator/controller": 1, "operator/ddpjob": 1},
    r"prometheus/": {"operator/controller": 1, "runtime/health": 2},
    r"CivetServer": {"runtime/health": 1},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def folder_of(path):
    """("operator", "kube") of operator/kube/client.h; the folder is None for a program's own main.cc."""
    column, *rest = path.split("/")
    if column not in COLUMNS:
        return None
    if path.startswith("/".join(PUBLIC) + "/"):
        return PUBLIC
    return (column, rest[0] if len(rest) > 1 else None)


def why_not(user, used):
    """Why a file of folder `user` may not include a header of folder `used`; None if it may."""
    if user[0] != used[0]:
        return f"{user[0]}/ and {used[0]}/ do not know each other"
    if user[1] is None or user == used:
        return None
    layers = COLUMNS[user[0]]
    if used == PUBLIC:
        return (
            None
            if user[1] in layers and layers.index(user[1]) >= layers.index("ddp")
            else "it is below the public API"
        )
    if used[1] not in layers:
        return f"{'/'.join(used)} is in no layer: add it to the table"
    top = (
        layers.index("data")
        if user == PUBLIC
        else layers.index(user[1]) if user[1] in layers else -1
    )
    return (
        None
        if layers.index(used[1]) <= top
        else f"{used[1]} is not above {user[1]} in the layer table"
    )


def problems_of(path, text, library_users):
    user = folder_of(path)
    for match in INCLUDE.finditer(text):
        included = match.group(1)
        place = f"{path}:{text.count(chr(10), 0, match.start(1)) + 1}: includes {included}"
        used = folder_of(included)
        reason = why_not(user, used) if used else None
        if reason:
            yield f"{place}: {reason}"
        folder = "/".join(filter(None, user))
        for pattern, why in FORBIDDEN.get(folder, []):
            if re.match(pattern, included):
                yield f"{place}: {why}"
        for pattern, folders in BEHIND_AN_INTERFACE.items():
            if re.match(pattern, included):
                library_users.setdefault((pattern, folder), set()).add(path)
                if folder not in folders:
                    yield f"{place}: only {' and '.join(folders)} may, behind an interface of their own"


def check(root):
    problems, library_users, files = [], {}, 0
    for column in COLUMNS:
        for path in sorted(root.joinpath(column).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh"):
                files += 1
                name = path.relative_to(root).as_posix()
                problems += problems_of(name, path.read_text(), library_users)
    for (pattern, folder), users in library_users.items():
        allowed = BEHIND_AN_INTERFACE[pattern].get(folder)
        sources = sorted(user for user in users if not user.endswith("_test.cc"))
        if allowed and len(sources) > allowed:
            problems.append(
                f"{folder}: {', '.join(sources)} include {pattern}: at most {allowed} files may"
            )
    return problems, files


def main():
    problems, files = check(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) or f"{files} files keep the layers")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
