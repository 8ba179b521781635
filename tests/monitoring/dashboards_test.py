"""The dashboards: as their script writes them, as Grafana's types want them, and with series that exist."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "manifests/monitoring"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
OWN_SERIES = r"\b(?:ddp|ddpjob|controller_runtime|workqueue|rest_client|leader_election)_[a-z0-9_]+"


def check(*paths):
    program = subprocess.run(
        [ROOT / "tests/testbed/build.sh", "dashboard-check"],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout.strip()
    done = subprocess.run([program, *paths], text=True, capture_output=True, timeout=60)
    return done.returncode, done.stderr


class Dashboards(unittest.TestCase):
    def test_they_are_as_the_script_writes_them(self):
        subprocess.run([MONITORING / "dashboards.py", "--check"], check=True)
        self.assertEqual(len(DASHBOARDS), 3)

    def test_they_are_as_grafana_wants_them(self):
        code, said = check(*DASHBOARDS)
        self.assertEqual(code, 0, said)

    def test_the_check_finds_mistakes(self):
        text = DASHBOARDS[0].read_text()
        for was, mistake in (
            ('"drawStyle"', '"drawStile"'),
            ('"unit": "none"', '"unit": 5'),
            ('"legendFormat"', '"legend"'),
            ('"title": "Finished"', '"title": "Restarts by job"'),
        ):
            with self.subTest(mistake), tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                self.assertIn(was, text)
                file.write(text.replace(was, mistake))
                file.flush()
                self.assertEqual(check(file.name)[0], 1)

    def test_any_prometheus_and_any_selection_will_do(self):
        for path in DASHBOARDS:
            board = json.loads(path.read_text())
            names = [variable["name"] for variable in board["templating"]["list"]]
            self.assertEqual(names[:2], ["datasource", "namespace"])
            for panel in board["panels"]:
                for target in panel.get("targets", []):
                    with self.subTest(f"{board['title']}: {panel['title']}"):
                        self.assertEqual(target["datasource"]["uid"], "${datasource}")
                        used = set(re.findall(r"\$\{?(\w+)", target["expr"]))
                        self.assertLessEqual(used, {*names, "__rate_interval"})

    def test_every_series_is_one_that_the_programs_have(self):
        sources = [*(ROOT / "operator").rglob("*.cc"), *(ROOT / "runtime").rglob("*.cc")]
        literals = set()
        for path in sources:
            if not path.name.endswith("_test.cc"):
                literals |= set(re.findall(r'"([a-z0-9_]+)"', path.read_text(encoding="utf-8")))
        texts = [path.read_text() for path in [*DASHBOARDS, MONITORING / "rules.yaml"]]
        used = set(re.findall(rf"(?<![:\w]){OWN_SERIES}(?![\w:-]*:)", "\n".join(texts)))
        base = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used} - {"ddp_operator"}
        unknown = {name for name in base if name not in literals}
        self.assertEqual(unknown, set())


if __name__ == "__main__":
    unittest.main()
