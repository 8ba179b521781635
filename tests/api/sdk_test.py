"""Installs the C++ API into a folder of its own, builds an example against it outside of the tree, and runs two ranks.

usage: sdk_test.py BUILD_FOLDER EXAMPLES_FOLDER TORCH_ROOT
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import ranks

BUILD, EXAMPLES, TORCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])


def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def main():
    work = BUILD / "sdk-test"  # the same place each time, so that the compiler cache knows it
    shutil.rmtree(work, ignore_errors=True)
    source = work / "source"
    shutil.copytree(EXAMPLES, source)
    call("cmake", "--install", BUILD, "--component", "sdk", "--prefix", work / "sdk")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    call(
        "cmake", "-S", source, "-B", work / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={work / 'sdk'}", f"-DDDP_TORCH_ROOT={TORCH}", *launcher,
    )  # fmt: skip
    call("ninja", "-C", work / "build", "ddp-example-lesson")
    with tempfile.TemporaryDirectory() as folder:
        results = ranks.run([work / "build" / "ddp-example-lesson", folder, "3"], 2, 60)
    for rank, (code, output) in enumerate(results):
        print(f"---- rank {rank} ended with {code}\n{output}")
    learned = "2 rank(s), step 75:" in results[0][1]
    return 0 if learned and all(code == 0 for code, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
