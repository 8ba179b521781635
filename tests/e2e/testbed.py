"""The cluster that the end-to-end tests run on, and how they report.

A Cluster is brought up by tests/testbed/cluster.sh as a child of this process, and goes with it. Everything is asked of
it through kubectl, as a user would.
"""

import datetime
import json
import pathlib
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/testbed/cluster.sh"


def now():
    """As the audit log writes it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Failed(Exception):
    """A check did not hold, or what was waited for did not come."""


class Report:
    """Prints each named check as it is made, and counts."""

    def __init__(self):
        self.passed, self.failed, self.started = 0, [], time.monotonic()
        self._title = ""

    def section(self, title):
        self._title = title
        print(f"\n{title}", flush=True)

    def check(self, name, holds, detail=""):
        if not holds:
            raise Failed(f"{name}\n       {detail}".rstrip())
        self._print("ok  ", name)
        self.passed += 1

    def fail(self, reason):
        self._print("FAIL", reason)
        self.failed.append(f"{self._title}: {reason.splitlines()[0]}")

    def _print(self, mark, text):
        print(f"  {mark} {time.monotonic() - self.started:6.1f} s  {text}", flush=True)

    def equal(self, name, actual, expected):
        self.check(name, actual == expected, f"expected {expected!r}\n       got      {actual!r}")


class Cluster:
    def __init__(self, state):
        self.state = pathlib.Path(state)
        self.api_restarts = []  # from, to
        self._supervisor = None

    def up(self):
        self._supervisor = subprocess.Popen(
            [CLUSTER, "node", self.state, "--supervise"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        if not self._supervisor.stdout.readline():
            raise Failed("the cluster did not come up")

    def down(self):
        if self._supervisor:
            self._supervisor.terminate()
            self._supervisor.wait(timeout=60)

    def restart_apiserver(self):
        begun = now()
        subprocess.run([CLUSTER, "restart-apiserver", self.state], check=True, timeout=120)
        self.api_restarts.append((begun, now()))

    def was_restarting(self, entry):
        """An API server that is not ready yet refuses what its roles will allow."""
        return any(a <= entry["requestReceivedTimestamp"] <= b for a, b in self.api_restarts)

    def load_images(self, archives):
        subprocess.run([CLUSTER, "image", self.state, *archives], check=True, timeout=300)

    def run(self, *command, stdin=None, check=True, timeout=60):
        """Runs a command in the cluster's namespaces; its stdout, and stderr too if it may fail."""
        done = subprocess.run(
            [CLUSTER, "enter", self.state, *map(str, command)],
            input=stdin,
            text=True,
            timeout=timeout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if not check:
            return done.returncode, done.stdout + done.stderr
        if done.returncode != 0:
            raise Failed(
                f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def kubectl(self, *arguments, **options):
        return self.run("kubectl", *arguments, **options)

    def get(self, kind, name, namespace="default"):
        """The object, or None if there is none."""
        status, text = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", check=False)
        if status != 0 and "NotFound" in text:
            return None
        return json.loads(text) if status == 0 else {}

    def list(self, kind, selector="", namespace="default"):
        text = self.kubectl("get", kind, "-n", namespace, "-l", selector, "-o", "json")
        return json.loads(text)["items"]

    def status(self, job, namespace="default"):
        return (self.get("ddp", job, namespace) or {}).get("status", {})

    def volume(self, claim, namespace="default"):
        """A volume that only this claim may have; its folder."""
        folder = self.state / f"volumes/{claim}"
        folder.mkdir(parents=True)
        folder.chmod(0o777)  # fsGroup does not reach hostPath volumes
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin=f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {claim}}}
spec:
  capacity: {{storage: 10Gi}}
  accessModes: [ReadWriteOnce, ReadWriteMany]
  claimRef: {{namespace: {namespace}, name: {claim}}}
  hostPath: {{path: {folder}}}
""",
        )
        return folder

    def claim(self, name, namespace="default"):
        """A claim, and the volume for it; the volume's folder."""
        folder = self.volume(name, namespace)
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin=f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  resources: {{requests: {{storage: 1Gi}}}}
""",
        )
        return folder

    def wait(self, what, seconds, question, interval=0.3):
        """Asks until the answer is true, and returns it; fails with what was waited for and the last answer."""
        deadline = time.monotonic() + seconds
        while True:
            answer, trouble = None, ""
            try:
                answer = question()
            except (Failed, subprocess.TimeoutExpired, ValueError) as error:
                trouble = f": {error}"
            except (LookupError, TypeError, AttributeError) as error:
                trouble = f": {error!r}"  # a field that is not there yet
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise Failed(f"waited {seconds} s in vain for {what}{trouble}")
            time.sleep(interval)

    def fetch(self, url, seconds=2):
        return json.loads(self.run("curl", "-sS", "--fail", "--max-time", seconds, url))

    def kill_process(self, pod, container=None, namespace="default"):
        self.signal_process(pod, "KILL", container, namespace)

    def signal_process(self, pod, signal, container=None, namespace="default"):
        """A signal to a container's first process, from outside: the kernel protects it from its own container."""
        self.run("kill", f"-{signal}", self.first_process(pod, container, namespace))

    def first_process(self, pod, container=None, namespace="default"):
        """The number of a container's first process, in the cluster's namespaces."""
        statuses = self.get("pod", pod, namespace)["status"]["containerStatuses"]
        identity = next(
            s["containerID"] for s in statuses if container in (None, s["name"])
        ).removeprefix("containerd://")
        tasks = self.run(
            "ctr",
            "--address",
            self.state / "containerd.sock",
            "--namespace",
            "k8s.io",
            "tasks",
            "ls",
        )
        return next(line.split()[1] for line in tasks.splitlines() if line.startswith(identity))

    def audit(self):
        """Every request of the run so far."""
        with open(self.state / "audit.log", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("}\n")]

    def collect(self, folder):
        """Everything that helps to understand a failure, into a folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, arguments in {
            "objects.txt": [
                "get",
                "ddp,pods,services,pvc,pv,leases,deployments",
                "-A",
                "-o",
                "wide",
            ],
            "jobs.yaml": ["get", "ddp", "-A", "-o", "yaml"],
            "pods.yaml": ["get", "pods", "-A", "-o", "yaml"],
            "events.txt": ["get", "events", "-A", "--sort-by=.lastTimestamp"],
        }.items():
            (folder / name).write_text(self.kubectl(*arguments, check=False)[1], encoding="utf-8")
        shutil.copytree(self.state / "logs", folder / "cluster")
        if (self.state / "pod-logs").is_dir():
            shutil.copytree(self.state / "pod-logs", folder / "pods")
        shutil.copy(self.state / "audit.log", folder)
