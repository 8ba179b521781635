"""The status page as a browser shows it: the real operator on a real API server, a job whose rank 0 answers with its
progress, and $DDP_BROWSER without a window.

DDP_PICTURE=FILE keeps the picture of the job's page.
"""

import http.server
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/testbed/cluster.sh"
EVIL = "<script>document.title='broken'</script>"
WAIT_SECONDS = 60


class Rank0(http.server.BaseHTTPRequestHandler):
    """Answers GET /progress as ddp-worker does; each answer is a hundred steps further."""

    step = 0

    def do_GET(self):
        Rank0.step += 100
        step, now = Rank0.step, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = json.dumps(
            {
                "step": step,
                "totalSteps": 5000,
                "epoch": 1,
                "epochs": 4,
                "loss": 2.3 * math.exp(-step / 900) + 0.08,
                "samplesPerSecond": 1834.5,
                "etaSeconds": (5000 - step) * 0.035,
                "slowestRank": 2,
                "lastStepTime": now,
                "checkpoint": {"step": step // 500 * 500, "time": now, "path": "/c"},
                "ranks": [
                    {"rank": r, "step": step - (3 if r == 2 else 0), "waitSeconds": 4.5 - r, "lastHeartbeat": now}
                    for r in range(3)
                ],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class StatusPage(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddp-page."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        state = self.folder / "state"
        started = subprocess.run(
            [CLUSTER, "control-plane", state, "--follow", str(os.getpid())],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            timeout=170,
        )
        self.addCleanup(subprocess.run, [CLUSTER, "down", state], check=True, timeout=60)
        self.kubeconfig = started.stdout.strip()
        self.kubectl_program = state / "bin/kubectl"
        self.kubectl("apply", "-f", ROOT / "manifests/crd")
        self.rank0 = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rank0)
        threading.Thread(target=self.rank0.serve_forever, daemon=True).start()
        self.addCleanup(self.rank0.shutdown)
        self.url = self.start_operator()

    def kubectl(self, *arguments, text=None):
        return subprocess.run(
            [self.kubectl_program, "--kubeconfig", self.kubeconfig, *arguments],
            input=text,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            timeout=60,
        ).stdout

    def start_operator(self):
        log = self.folder / "operator.log"
        with log.open("w") as out:
            operator = subprocess.Popen(
                [os.environ["DDP_OPERATOR"], "--kubeconfig", self.kubeconfig]
                + ["--health-port", "0", "--status-page-port", "0"],
                stderr=out,
                stdout=out,
            )

        def stop():
            operator.send_signal(signal.SIGTERM)
            operator.wait(30)

        self.addCleanup(stop)
        return self.until("the page's address", lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))[0]

    def until(self, what, look):
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            if seen := look():
                return seen
            time.sleep(0.1)
        self.fail(f"{what} did not come within {WAIT_SECONDS} s")

    def get(self, path, host=None):
        request = urllib.request.Request(self.url + path, headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def make_job(self):
        job = {
            "apiVersion": "ddpjob.dev/v1alpha1",
            "kind": "DDPJob",
            "metadata": {"name": "digits", "namespace": "default"},
            "spec": {
                "replicas": 3,
                "progress": {"port": self.rank0.server_address[1]},
                "template": {"spec": {"containers": [{"name": "worker", "image": "none", "command": ["none"]}]}},
            },
        }
        self.kubectl("apply", "-f", "-", text=json.dumps(job))

    def pods(self, attempt):
        """The names of the attempt's pods once there are three."""

        def look():
            said = self.kubectl("get", "pods", "-l", f"ddpjob.dev/attempt={attempt}", "-o", "name")
            return said.split() if len(said.split()) == 3 else None

        return self.until(f"attempt {attempt}", look)

    def set_status(self, pod, phase, state):
        status = {
            "phase": phase,
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
            "containerStatuses": [
                {
                    "name": "worker",
                    "image": "none",
                    "imageID": "none",
                    "ready": phase == "Running",
                    "restartCount": 0,
                    "started": phase == "Running",
                    "state": state,
                }
            ],
        }
        self.kubectl("patch", pod, "--subresource=status", "-p", json.dumps({"status": status}))

    def run_pods(self, attempt):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        pods = self.pods(attempt)
        for pod in pods:
            self.set_status(pod, "Running", {"running": {"startedAt": now}})
        return pods

    def browse(self, path, *options):
        """What the browser made of the page."""
        return subprocess.run(
            [os.environ["DDP_BROWSER"], "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            + [f"--user-data-dir={self.folder}/browser", "--window-size=1100,1150", *options, self.url + path],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
        ).stdout

    def test_a_browser_shows_a_job_that_failed_once_and_trains(self):
        self.assertIn("There are none.", self.browse("/", "--dump-dom"))
        self.make_job()
        first = self.run_pods(1)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended = {"exitCode": 1, "reason": "Error", "message": EVIL, "startedAt": now, "finishedAt": now}
        self.set_status(first[1], "Failed", {"terminated": ended})
        self.run_pods(2)
        self.until("the curve", lambda: "<polyline" in self.get("/job/default/digits")[2])
        self.until("the last failure", lambda: "digits-1-1" in self.get("/job/default/digits")[2])
        self.until("the progress in the list", lambda: "/ 5000" in self.get("/")[2])

        jobs = self.browse("/", "--dump-dom")
        self.assertIn("<title>DDPJobs</title>", jobs)
        self.assertRegex(jobs, r'<a href="/job/default/digits">default/digits</a>')
        page = self.browse("/job/default/digits", "--dump-dom")
        self.assertIn("<title>default/digits</title>", page)  # the message's script has not run
        self.assertNotIn("<script", page)
        for there in ("<polyline", "slowest", "exit code 1", "application", "Restarts", "Ranks"):
            self.assertIn(there, page)

        picture = pathlib.Path(os.environ.get("DDP_PICTURE", self.folder / "page.png")).absolute()
        self.browse("/job/default/digits", f"--screenshot={picture}")
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(picture.stat().st_size, 20_000, "an empty page has fewer colours")

    def test_it_is_read_only_and_for_this_machine_alone(self):
        status, headers, _ = self.get("/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(self.get("/", host="evil.example")[0], 403)
        self.assertEqual(self.get("/job/default/none")[0], 404)
        request = urllib.request.Request(self.url + "/", method="DELETE")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        self.assertEqual(refused.exception.code, 405)


if __name__ == "__main__":
    unittest.main()
