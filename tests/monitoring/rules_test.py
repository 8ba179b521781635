"""The alerting rules, by promtool: each alert fires in the case that it is for, and is silent in the ones beside it.

A case is: series, as promtool's notation; when to look; and the labels of the alerts that fire then. What an alert says is
not compared, but that all its braces are filled in.
"""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "manifests/monitoring/rules.yaml"
J = 'namespace="team", job_name="mnist"'
O = 'namespace="ddp-system", pod="ddp-operator-0"'
JOB = {"namespace": "team", "job_name": "mnist"}
OPERATOR = {"namespace": "ddp-system", "pod": "ddp-operator-0"}


def phase(name, values):
    return f'ddpjob_job_phase{{{J}, phase="{name}"}}', values


def restarts(cause, values):
    return f'ddpjob_job_restarts{{{J}, cause="{cause}"}}', values


def twice(series):
    """The same from a leader and its standby."""
    return [
        (name.replace("{", '{pod="' + pod + '", ', 1), values)
        for name, values in series
        for pod in "ab"
    ]


LEADS = f'leader_election_master_status{{{O}, name="ddp-operator"}}', "1x60"


def waits(*rates):
    """Seconds that each rank has waited, by the share of its time; a sample a minute."""
    return [
        (f'ddp_rank_wait_seconds{{{J}, pod="mnist-1-0", rank="{rank}"}}', f"0+{60 * rate}x60")
        for rank, rate in enumerate(rates)
    ]


def requests(**rates):
    return [
        (f'rest_client_requests_total{{{O}, code="{code}", method="GET"}}', f"0+{rate}x60")
        for code, rate in rates.items()
    ]


# alert, what, series, minute at which to look, labels of those that fire, in addition to the rule's own
CASES = [
    ("DDPJobFailed", "it has failed", [phase("Failed", "_x10 1x200")], "12m", [JOB]),
    ("DDPJobFailed", "it failed long ago", [phase("Failed", "1x200")], "90m", []),
    ("DDPJobFailed", "it has succeeded", [phase("Succeeded", "1x200")], "12m", []),
    ("DDPJobCrashLoop", "three failures in 20 minutes",
     [restarts("application", "0x5 1x6 2x6 3x20"), restarts("infrastructure", "0x60")], "30m", [JOB]),
    ("DDPJobCrashLoop", "failures and stalls together",
     [restarts("application", "0x5 1x30"), restarts("stall", "0x9 2x30")], "30m", [JOB]),
    ("DDPJobCrashLoop", "two failures, and a standby that tells of them too",
     twice([restarts("application", "0x5 1x6 2x30")]), "30m", []),
    ("DDPJobFailed", "a standby tells of it too", twice([phase("Failed", "_x10 1x200")]), "12m", [JOB]),
    ("DDPJobStalled", "a standby tells of it too",
     twice([(f'ddpjob_job_condition{{{J}, type="Stalled"}}', "0x5 1x10"), phase("Running", "1x20")]), "7m", [JOB]),
    ("DDPJobCrashLoop", "two failures", [restarts("application", "0x5 1x6 2x30")], "30m", []),
    ("DDPJobCrashLoop", "lost nodes only", [restarts("infrastructure", "0x5 1x6 2x6 3x20")], "30m", []),
    ("DDPJobStalled", "the operator has seen a stall",
     [(f'ddpjob_job_condition{{{J}, type="Stalled"}}', "0x5 1x10"), phase("Running", "1x20"),
      (f"ddpjob_job_last_step_timestamp_seconds{{{J}}}", "0x20")], "7m", [JOB]),
    ("DDPJobStalled", "no step for 16 minutes",
     [(f'ddpjob_job_condition{{{J}, type="Stalled"}}', "0x60"), phase("Running", "1x60"),
      (f"ddpjob_job_last_step_timestamp_seconds{{{J}}}", "60x60")], "17m1s", [JOB]),
    ("DDPJobStalled", "steps go on",
     [(f'ddpjob_job_condition{{{J}, type="Stalled"}}', "0x60"), phase("Running", "1x60"),
      (f"ddpjob_job_last_step_timestamp_seconds{{{J}}}", "0+60x60")], "40m", []),
    ("DDPJobStalled", "it has ended",
     [phase("Succeeded", "1x60"), (f"ddpjob_job_last_step_timestamp_seconds{{{J}}}", "60x60")], "40m", []),
    ("DDPJobPendingLong", "half an hour without its pods", [phase("Pending", "1x10 _x50"), phase("Starting", "_x10 1x50")], "32m", [JOB]),
    ("DDPJobPendingLong", "it starts in time", [phase("Pending", "1x20 _x50"), phase("Running", "_x20 1x50")], "32m", []),
    ("DDPJobStraggler", "rank 2 waits for nobody, the others for it", waits(0.4, 0.38, 0.02, 0.41), "20m", [JOB]),
    ("DDPJobStraggler", "all wait alike: the network is slow, no rank", waits(0.4, 0.38, 0.39, 0.41), "20m", []),
    ("DDPJobNvlinkLost", "the operator has seen it",
     [(f'ddpjob_job_condition{{{J}, type="TransportWarning"}}', "1x20")], "6m", [JOB]),
    ("DDPJobNvlinkLost", "all is well", [(f'ddpjob_job_condition{{{J}, type="TransportWarning"}}', "0x20")], "6m", []),
    ("DDPJobCheckpointOld", "none for over an hour",
     [phase("Running", "1x90"), (f"ddpjob_job_checkpoint_timestamp_seconds{{{J}}}", "60x90")], "70m", [JOB]),
    ("DDPJobCheckpointOld", "one every half hour",
     [phase("Running", "1x90"), (f"ddpjob_job_checkpoint_timestamp_seconds{{{J}}}", "60x30 1800x30 3600x30")], "80m", []),
    ("DDPJobCheckpointOld", "it has ended",
     [phase("Succeeded", "1x90"), (f"ddpjob_job_checkpoint_timestamp_seconds{{{J}}}", "60x90")], "80m", []),
    ("DDPJobCheckpointFails", "one could not be saved",
     [(f'ddp_checkpoint_failures_total{{{J}, pod="mnist-1-0"}}', "0x10 1x50")], "20m", [JOB]),
    ("DDPJobCheckpointFails", "all were saved",
     [(f'ddp_checkpoint_failures_total{{{J}, pod="mnist-1-0"}}', "0x60")], "20m", []),
    ("DDPJobReplicasDiffer", "one comparison found a difference",
     [(f'ddp_parameter_hash_mismatches_total{{{J}, pod="mnist-1-0"}}', "0x10 1x50")], "20m", [JOB]),
    ("DDPJobReplicasDiffer", "all are equal",
     [(f'ddp_parameter_hash_mismatches_total{{{J}, pod="mnist-1-0"}}', "0x60")], "20m", []),
    ("DDPOperatorDown", "nothing is scraped", [], "6m", [{}]),
    ("DDPOperatorDown", "standbys only",
     [(f'leader_election_master_status{{{O}, name="ddp-operator"}}', "0x20")], "6m", [{}]),
    ("DDPOperatorDown", "one leads",
     [(f'leader_election_master_status{{{O}, name="ddp-operator"}}', "1x20"),
      ('leader_election_master_status{namespace="ddp-system", pod="b", name="ddp-operator"}', "0x20")], "6m", []),
    ("DDPOperatorQueueGrowing", "it grows",
     [(f'workqueue_depth{{{O}, name="ddpjob"}}', "0+10x60"), LEADS], "30m", [OPERATOR | {"name": "ddpjob"}]),
    ("DDPOperatorQueueGrowing", "one job takes minutes",
     [(f'workqueue_longest_running_processor_seconds{{{O}, name="ddpjob"}}', "0+60x60"), LEADS], "30m", [OPERATOR | {"name": "ddpjob"}]),
    ("DDPOperatorQueueGrowing", "a standby's grows", [(f'workqueue_depth{{{O}, name="ddpjob"}}', "0+10x60")], "30m", []),
    ("DDPOperatorQueueGrowing", "it is worked off", [(f'workqueue_depth{{{O}, name="ddpjob"}}', "900-10x60"), LEADS], "30m", []),
    ("DDPOperatorErrors", "one in four fails",
     [(f'controller_runtime_reconcile_total{{{O}, controller="ddpjob", result="success"}}', "0+30x60"),
      (f'controller_runtime_reconcile_total{{{O}, controller="ddpjob", result="error"}}', "0+10x60"),
      (f'controller_runtime_reconcile_errors_total{{{O}, controller="ddpjob"}}', "0+10x60")], "30m", [OPERATOR]),
    ("DDPOperatorErrors", "one in a hundred fails",
     [(f'controller_runtime_reconcile_total{{{O}, controller="ddpjob", result="success"}}', "0+99x60"),
      (f'controller_runtime_reconcile_total{{{O}, controller="ddpjob", result="error"}}', "0+1x60"),
      (f'controller_runtime_reconcile_errors_total{{{O}, controller="ddpjob"}}', "0+1x60")], "30m", []),
    ("DDPOperatorApiErrors", "one in ten is a 500", requests(**{"200": 90, "500": 10}), "30m", [OPERATOR]),
    ("DDPOperatorApiErrors", "no answer at all", requests(**{"<error>": 10}), "30m", [OPERATOR]),
    ("DDPOperatorApiErrors", "conflicts are no errors", requests(**{"200": 60, "409": 40}), "30m", []),
    ("DDPOperatorUnauthorized", "the token is refused", requests(**{"200": 1, "401": 6}), "30m", [OPERATOR | {"code": "401"}]),
    ("DDPOperatorUnauthorized", "a right is missing", requests(**{"200": 60, "403": 1}), "30m", [OPERATOR | {"code": "403"}]),
    ("DDPOperatorUnauthorized", "all is allowed", requests(**{"200": 60, "404": 5}), "30m", []),
    ("DDPOperatorCertificateExpires", "in six days",
     [(f"ddpjob_metrics_certificate_expiry_timestamp_seconds{{{O}}}", f"{6 * 86400}x20")], "5m", [OPERATOR]),
    ("DDPOperatorCertificateExpires", "in thirty days",
     [(f"ddpjob_metrics_certificate_expiry_timestamp_seconds{{{O}}}", f"{30 * 86400}x20")], "5m", []),
]  # fmt: skip


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], text=True, capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def rules():
    """{name: text} of the alerts of the file, each the lines from its name to the next rule."""
    parts = re.split(r"(?m)^  - (?=alert:|record:)|^- name:", RULES.read_text())
    return {part.split()[1]: part for part in parts if part.startswith("alert:")}


class Alerts(unittest.TestCase):
    def test_the_file_is_good(self):
        code, said = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
        self.assertEqual(code, 0, said)

    def test_each_has_a_case_for_and_a_case_against_it(self):
        for name in rules():
            with self.subTest(name):
                mine = [bool(fires) for alert, _, _, _, fires in CASES if alert == name]
                self.assertIn(True, mine)
                self.assertIn(False, mine)
        self.assertEqual({case[0] for case in CASES} - set(rules()), set())

    def test_each_says_what_to_do(self):
        for name, text in rules().items():
            with self.subTest(name):
                self.assertRegex(text, r"severity: (info|warning|critical)\b")
                for part in ("summary", "description", "runbook"):
                    self.assertRegex(text, rf"(?m)^      {part}: .")

    def test_each_fires_when_it_should_and_only_then(self):
        with tempfile.TemporaryDirectory(prefix="ddp-rules.") as folder:
            for alert, what, series, at, fires in CASES:
                with self.subTest(f"{alert}: {what}"):
                    severity = re.search(r"severity: (\w+)", rules()[alert])[1]
                    said = self.run_case(
                        folder, alert, series, at, [f | {"severity": severity} for f in fires]
                    )
                    self.assertEqual(said, "")

    def run_case(self, folder, alert, series, at, fires):
        """What promtool has against the case. It compares annotations too: where they alone differ, all is well."""
        test = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": name, "values": values} for name, values in series],
                    "alert_rule_test": [
                        {
                            "eval_time": at,
                            "alertname": alert,
                            "exp_alerts": [{"exp_labels": f} for f in fires],
                        }
                    ],
                }
            ],
        }
        path = pathlib.Path(folder, "case.yaml")
        path.write_text(json.dumps(test))  # JSON is YAML too
        code, said = promtool("test", "rules", str(path))
        if not fires:
            return "" if code == 0 else said
        got = re.search(r"(?s)got:\[(.*)\]\s*$", said)
        wanted = [f | {"alertname": alert} for f in fires]
        labels = (
            [
                dict(re.findall(r'(\w+)="([^"]*)"', found))
                for found in re.findall(r"Labels:\{([^}]*)\}", got[1])
            ]
            if got
            else []
        )
        texts = re.findall(r"Annotations:\{([^}]*)\}", got[1]) if got else []
        good = labels == wanted and not [
            t for t in texts if "{{" in t or "<no value>" in t or "error" in t[:8]
        ]
        return "" if good else said


if __name__ == "__main__":
    unittest.main()
