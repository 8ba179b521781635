"""Every command in the README and in docs/ is run, or asked of the real tools as far as they can tell without doing it.

A command is a line of an indented or sh block, or what stands in `` in the text and starts with a program's name. What a tool does on a cluster is done on a control plane of the test
bed, in the order of the page, in a dry run where it has one; of commands that want a running node only their options
are checked. Links to files must lead somewhere.
"""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

from bed import CRD, ROOT, bed

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"kubectl-ddp": os.environ["KUBECTL_DDP"], "ddp-worker": os.environ.get("DDP_WORKER")}
UNKNOWN = re.compile(
    r"unknown (flag|command|shorthand)|is not a (kubectl )?command|not expected|unrecognized", re.I
)


def commands(page):
    """The commands of a page, continued lines joined."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^```(?!sh$)[^\n]+\n.*?^```$", "", text)
    text = re.sub(r"(?m)^```sh\n((?s:.*?))^```$", lambda m: re.sub(r"(?m)^", "    ", m[1]), text)
    text = re.sub(r"\\\n\s+", " ", text)
    for line in re.findall(r"(?m)^    (\S.*)$", text):
        yield re.sub(r"\s+#.*", "", line).strip()
    for line in re.findall(r"`((?:kubectl|helm|kubectl-ddp|ddp-worker|make) [^`]+)`", text):
        yield line


def is_command(line):
    return re.match(r"[a-z./][\w./-]*( |$)", line) and not re.match(r"\w+:( |$)", line)


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bed().kubectl("create", "-f", ROOT / "manifests/crd")
        bed().kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        cls.addClassCleanup(bed().kubectl, "delete", "crd", CRD)
        bed().prometheus_resources()

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
                if not target.startswith("https://"):
                    with self.subTest(f"{page.name}: {target}"):
                        self.assertTrue((page.parent / target).exists())

    def test_every_page_is_listed(self):
        index = (ROOT / "docs/README.md").read_text()
        for page in (ROOT / "docs").glob("*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)

    def test_paths_in_the_text_exist(self):
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for path in re.findall(
                r"`((?:manifests|charts|docker|docs|tests|cmake|runtime|operator)/[\w./-]*)`", text
            ):
                with self.subTest(f"{page.name}: {path}"):
                    self.assertTrue((ROOT / path).exists())

    def test_every_command(self):
        seen = 0
        for page in PAGES:
            for line in commands(page):
                if not is_command(line):
                    continue
                for part in re.split(r"\s+&&\s+", line):
                    seen += 1
                    with self.subTest(f"{page.name}: {part}"):
                        self.check(part)
        self.assertGreater(seen, 25)

    def check(self, line):
        program, *rest = shlex.split(re.sub(r"<[\w-]+>|[A-Z]+=\S*\.\.\.\S*", "name", line))
        program = pathlib.Path(program).name
        if program == "kubectl" and rest[:1] == ["ddp"]:  # its plugin
            program, rest = "kubectl-ddp", rest[1:]
        known = {
            "make": self.make,
            "helm": self.helm,
            "kubectl": self.kubectl,
            "kubectl-ddp": self.own,
            "ddp-worker": self.own,
            "cmake": self.cmake,
            "docker": self.docker,
        }
        self.assertIn(program, known, "a command that this test knows no check for")
        known[program](program, rest)

    def call(self, *command):
        done = subprocess.run(
            [str(part) for part in command],
            text=True,
            capture_output=True,
            timeout=60,
            cwd=ROOT,
            env=bed().environment,
        )
        return done.returncode, done.stdout + done.stderr

    def make(self, _, rest):
        code, said = self.call("make", "-n", "-s", *rest)
        self.assertEqual(code, 0, said)

    def helm(self, _, rest):
        if rest[0] in ("install", "upgrade", "template"):
            # The chart's own tests install and upgrade; here each command is a dry run by itself.
            rest = ["template" if part in ("install", "upgrade") else part for part in rest]
            rest = [
                part
                for part in rest
                if part not in ("--create-namespace", "--reuse-values", "--reset-then-reuse-values")
            ]
            code, said = self.call(bed().helm_program, *rest)
            self.assertEqual(code, 0, said)
        else:
            self.options_are_known([bed().helm_program, *rest])

    def kubectl(self, _, rest):
        kubectl = bed().state / "bin/kubectl"
        if "apply" in rest and len(rest) > 1:
            code, said = self.call(kubectl, *rest, "--dry-run=server")
            # In a dry run the namespace that comes first in a folder is not there for what follows.
            self.assertTrue(code == 0 or re.search(r'namespaces "[\w-]+" not found', said), said)
        else:
            self.options_are_known(
                [kubectl, *[part for part in rest if part not in ("-w", "--watch", "-f")]]
            )

    def own(self, program, rest):
        path = PROGRAMS[program]
        if path is None:
            self.skipTest(f"{program} is not built here")
        if rest[:1] == ["run"]:
            rest = ["validate", *rest[1:]]
        rest = ["manifests/samples/mnist.yaml" if part == "job.yaml" else part for part in rest]
        if rest[:1] in (["validate"], ["render"]) and "-f" in rest:
            code, said = self.call(path, *rest)
            self.assertEqual(code, 0, said)
        else:
            self.options_are_known([path, *rest])

    def cmake(self, _, rest):
        for flag in ("-S", "--install"):
            if flag in rest:
                place = rest[rest.index(flag) + 1]
                if not place.startswith("build"):
                    self.assertTrue((ROOT / place).exists())

    def docker(self, _, rest):
        self.assertEqual(rest[0], "build")
        self.assertTrue((ROOT / rest[rest.index("-f") + 1]).exists())
        self.assertTrue((ROOT / rest[-1]).is_dir())

    def options_are_known(self, command):
        """It may fail for want of what it speaks of, but not for how it is written."""
        _, said = self.call(
            *[part for part in command if not re.search(r"[<…]", str(part))], "--help"
        )
        self.assertIsNone(UNKNOWN.search(said), said)


if __name__ == "__main__":
    unittest.main()
