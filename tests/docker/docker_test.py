"""What can be said of docker/ without building: pinned bases, labels, an unprivileged user, no HEALTHCHECK; and its scripts."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "docker").rglob("*.Dockerfile"))


class Dockerfiles(unittest.TestCase):
    def test_each_keeps_the_rules(self):
        self.assertGreaterEqual(len(FILES), 4)
        for path in FILES:
            with self.subTest(path.name):
                text = path.read_text()
                last = text[text.rindex("\nFROM ") :]
                self.assertRegex(last, r"(?m)^USER 65532:65532$")
                self.assertNotIn("HEALTHCHECK", text)  # probes belong to pods
                self.assertNotIn(":latest", text)
                for base in re.findall(r"(?m)^ARG (?:BASE|RUNTIME)=(\S+)$", text):
                    self.assertRegex(base, r":[\w.-]+$", "a base without a version")
                for source in re.findall(r"(?m)^FROM (\S+)", text):
                    self.assertRegex(source, r"^(\$\{\w+\}|scratch|system|tree|build)$")
                for files in re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", text):
                    for source in files.split():
                        if "$" not in source:
                            context = path.parent if source == "train.py" else ROOT
                            self.assertTrue((context / source).exists(), source)
                if path.parent.name == "docker":
                    for label in ("title", "description", "version", "revision", "licenses"):
                        self.assertIn(f"org.opencontainers.image.{label}", last)
                    self.assertIn("sbom.sh", text)

    def test_the_example_trainer_is_built_with_the_runtimes_libtorch(self):
        text = (ROOT / "docker/examples/own-trainer.Dockerfile").read_text()
        pins = (ROOT / "cmake/pins/wheels-torch.txt").read_text()
        self.assertIn(f"{re.search('torch==[0-9.]+', text)[0]} ", pins.replace("\\", " "))

    def test_the_example_is_python(self):
        text = (ROOT / "docker/examples/train.py").read_text()
        compile(text, "train.py", "exec")
        self.assertNotIn("ddpjob", text)


class Scripts(unittest.TestCase):
    def test_a_closure_is_all_that_a_program_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            subprocess.run([ROOT / "docker/closure.sh", tree, "/usr/bin/curl"], check=True)
            names = {path.name for path in tree.rglob("*") if path.is_file()}
        needed = subprocess.run(["ldd", "/usr/bin/curl"], text=True, stdout=subprocess.PIPE).stdout
        for name in re.findall(r"(\S+) => /", needed):
            self.assertIn(name, names)
        self.assertTrue(any(name.startswith("ld-linux") for name in names), names)

    def test_a_bill_of_materials_names_packages_and_wheels(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            subprocess.run([ROOT / "docker/closure.sh", tree, "/usr/bin/curl"], check=True)
            done = subprocess.run(
                [ROOT / "docker/sbom.sh", "name", "1.2.3", tree, "ca-certificates"],
                check=True,
                text=True,
                stdout=subprocess.PIPE,
                env=os.environ
                | {
                    "WHEELS": str(ROOT / "cmake/pins/wheels-torch.txt"),
                    "SOURCE_DATE_EPOCH": "1700000000",
                },
            )
        bill = json.loads(done.stdout)
        self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
        self.assertEqual(bill["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        found = {package["name"]: package for package in bill["packages"]}
        self.assertLessEqual({"name", "libc6", "libcurl4", "ca-certificates", "torch"}, set(found))
        self.assertIn("pkg:pypi/torch@", found["torch"]["externalRefs"][0]["referenceLocator"])
        ids = [package["SPDXID"] for package in bill["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        related = {relation["relatedSpdxElement"] for relation in bill["relationships"]}
        self.assertEqual(related, set(ids))


if __name__ == "__main__":
    unittest.main()
