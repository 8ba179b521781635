"""The world that bench_operator.py measures in: one API server, the controllers under test, and a client.

Only one controller runs at a time, each as a service account of its own with exactly its role, so that the audit log
tells whose a request was. The client plays user, scheduler, kubelet and garbage collector. Standard library only.
"""

import base64
import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/testbed/cluster.sh"
JOBS = "/apis/ddpjob.dev/v1alpha1/namespaces/{}/ddpjobs"
BATCH = "/apis/batch/v1/namespaces/{}/jobs"
PODS = "/api/v1/namespaces/{}/pods"


class Failed(Exception):
    """What was waited for did not come, or the server refused."""


def wait_until(what, seconds, done):
    deadline = time.monotonic() + seconds
    while not (result := done()):
        if time.monotonic() > deadline:
            raise Failed(f"waited {seconds} s in vain for {what}")
        time.sleep(0.005)
    return result


class Api:
    """Requests as admin, on one kept connection per thread."""

    def __init__(self, state):
        server = (state / "server").read_text().strip()
        self.host, port = server.removeprefix("https://").rsplit(":", 1)
        self.port = int(port)
        self._context = ssl.create_default_context(cafile=state / "pki/ca.crt")
        self._context.load_cert_chain(state / "pki/admin.crt", state / "pki/admin.key")
        self._local = threading.local()

    def connection(self, timeout=60):
        return http.client.HTTPSConnection(self.host, self.port, context=self._context, timeout=timeout)

    def request(self, method, path, body=None, kind="application/json", accept=(200, 201)):
        if not hasattr(self._local, "kept"):
            self._local.kept = self.connection()
        kept = self._local.kept
        kept.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
        answer = kept.getresponse()
        text = answer.read()
        if answer.status not in accept:
            raise Failed(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def get(self, path):
        return self.request("GET", path)

    def create(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body, accept=(200,)):
        return self.request("PATCH", path, body, "application/merge-patch+json", accept)

    def delete(self, path, **options):
        return self.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options}, accept=(200, 202, 404))


class Watch:
    """Objects of one collection as they come, with the moment in which each event was read."""

    def __init__(self, api, path):
        self._api, self._target = api, f"{path}?watch=true&timeoutSeconds=3600"
        wait_until(f"a watch of {path}", 10, self._open)  # a resource that was defined just now may be served late
        self.first_seen = {}  # name: when
        self.objects = {}
        self.events = []  # (when, type, object)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _open(self):
        self._connection = self._api.connection(timeout=600)
        self._connection.request("GET", self._target)
        self._answer = self._connection.getresponse()
        return self._answer.status == 200

    def _read(self):
        try:
            for line in self._answer:
                now = time.monotonic()
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                if event["type"] == "DELETED":
                    self.objects.pop(name, None)
                else:
                    self.first_seen.setdefault(name, now)
                    self.objects[name] = event["object"]
                self.events.append((now, event["type"], event["object"]))
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            return  # closed

    def close(self):
        try:
            self._connection.sock.shutdown(2)
        except OSError:
            pass
        self._thread.join(5)
        self._connection.close()


class Controller:
    """A controller's process, with what it costs."""

    def __init__(self, name, user, command, log):
        self.name, self.user = name, user
        self.started = time.monotonic()
        with open(log, "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self.log = pathlib.Path(log)

    def _proc(self, file):
        return pathlib.Path(f"/proc/{self._process.pid}/{file}").read_text()

    def cpu_seconds(self):
        fields = self._proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self, peak=False):
        found = re.search(r"VmHWM:\s+(\d+)" if peak else r"VmRSS:\s+(\d+)", self._proc("status"))
        return int(found.group(1)) / 1024

    def stop(self):
        self._process.kill()
        self._process.wait(timeout=20)


class World:
    def __init__(self, state, operator):
        self.state, self.operator = pathlib.Path(state), operator
        self._namespaces = 0
        self._audit_offset, self._audit = 0, []
        self.pool = concurrent.futures.ThreadPoolExecutor(8)

    def up(self):
        subprocess.run(
            [CLUSTER, "control-plane", self.state, "--follow", str(os.getpid())],
            check=True, timeout=180, stdout=subprocess.DEVNULL,
        )
        self.api = Api(self.state)
        for arguments in (
            ["apply", "-f", ROOT / "manifests/crd/ddpjob.yaml"],
            ["apply", "-k", ROOT / "manifests/operator"],
            ["wait", "--for=condition=Established", "crd/ddpjobs.ddpjob.dev", "--timeout=30s"],
        ):
            self.kubectl(*arguments)
        token = self.kubectl("create", "token", "ddp-operator", "-n", "ddp-system", "--duration=24h").strip()
        program = subprocess.run([ROOT / "tests/testbed/build.sh", "kube"], check=True, capture_output=True, text=True).stdout.strip()
        (self.state / "bin/kube-controller-manager").symlink_to(program)  # one program that goes by many names
        self._operator_kubeconfig = self._kubeconfig("ddp-operator", {"token": token}, "ddp-system")

    def down(self):
        subprocess.run([CLUSTER, "down", self.state], check=False, timeout=60)

    def kubectl(self, *arguments):
        command = [self.state / "bin/kubectl", f"--kubeconfig={self.state}/admin.kubeconfig", *map(str, arguments)]
        return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout

    def _kubeconfig(self, name, user, namespace):
        authority = base64.b64encode((self.state / "pki/ca.crt").read_bytes()).decode()
        server = (self.state / "server").read_text().strip()
        path = self.state / f"bench-{name}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": name, "namespace": namespace}}],
            "clusters": [{"name": "bench", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": user}],
        }))
        return path

    # ---- the controllers ----

    def start_operator(self, *options):
        """As the manifests start it."""
        command = [self.operator, "--kubeconfig", self._operator_kubeconfig, "--leader-elect", "--health-port", "0", *options]
        user = "system:serviceaccount:ddp-system:ddp-operator"
        return Controller("ours", user, list(map(str, command)), self.state / "logs/ddp-operator.log")

    def start_job_controller(self, raised):
        """kube-controller-manager with its Job controller alone: the rest would only burden the measurement."""
        command = [
            self.state / "bin/kube-controller-manager", f"--kubeconfig={self.state}/controller-manager.kubeconfig",
            "--controllers=job-controller", "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials",
            f"--service-account-private-key-file={self.state}/pki/service-accounts.key", f"--root-ca-file={self.state}/pki/ca.crt",
            *(["--kube-api-qps=500", "--kube-api-burst=1000"] if raised else []),
        ]
        user = "system:serviceaccount:kube-system:job-controller"
        return Controller("raised" if raised else "shipped", user, list(map(str, command)), self.state / "logs/job-controller.log")

    def start(self, kind):
        """'ours', 'shipped' or 'raised', once it has shown that it works."""
        controller = self.start_operator() if kind == "ours" else self.start_job_controller(kind == "raised")
        with self.namespace() as place:
            place.create_job(kind, "probe", 1)
            place.wait_for_pods(1, 30)
            self.settle(controller, 1)
        return controller

    # ---- the audit log ----

    def requests(self, controller, since=0):
        """The controller's requests (verb, resource, namespace) from entry `since` on; no watch, no lease."""
        with open(self.state / "audit.log", encoding="utf-8") as log:
            log.seek(self._audit_offset)
            for line in log:
                if not line.endswith("\n"):
                    break
                self._audit_offset += len(line.encode())
                entry = json.loads(line)
                reference = entry.get("objectRef", {})
                resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
                if entry["stage"] == "ResponseComplete" and entry["verb"] != "watch" and resource != "leases":
                    self._audit.append((entry["user"].get("username", ""), entry["verb"], resource, reference.get("namespace", "")))
        return [entry[1:] for entry in self._audit[since:] if entry[0] == controller.user]

    def audit_mark(self):
        self.requests(Nobody)
        return len(self._audit)

    def settle(self, controller, quiet_seconds, longest=30):
        """Until the controller has sent nothing for a while."""
        deadline = time.monotonic() + longest
        last, since = -1, time.monotonic()
        while time.monotonic() - since < quiet_seconds and time.monotonic() < deadline:
            count = len(self.requests(controller))
            if count != last:
                last, since = count, time.monotonic()
            time.sleep(0.05)

    def namespace(self):
        self._namespaces += 1
        return Place(self, f"bench-{self._namespaces}")


class Nobody:
    user = ""


class Place:
    """A namespace of its own for one measurement; emptied at the end, whatever controller runs or not."""

    def __init__(self, world, name):
        self.world, self.api, self.name = world, world.api, name

    def __enter__(self):
        self.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.pods = Watch(self.api, PODS.format(self.name))
        return self

    def __exit__(self, *_):
        for path in (JOBS, BATCH):
            self.api.delete(path.format(self.name), propagationPolicy="Orphan")
        self.release_pods()
        wait_until("the pods to go", 120, self._gone)
        self.pods.close()

    def release_pods(self):
        names = [n for n, pod in list(self.pods.objects.items()) if pod["metadata"].get("finalizers")]
        path = PODS.format(self.name)
        free = {"metadata": {"finalizers": None}}
        list(self.world.pool.map(lambda name: self.api.patch(f"{path}/{name}", free, accept=(200, 404)), names))

    def _gone(self):
        self.api.delete(PODS.format(self.name), gracePeriodSeconds=0)
        self.release_pods()
        return not self.api.get(PODS.format(self.name) + "?limit=1")["items"]

    def create_job(self, kind, name, replicas):
        """The moment in which the create returned."""
        container = {"name": "worker", "image": "registry.example/train:1", "command": ["train"],
                     "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        if kind == "ours":
            template = {"spec": {"containers": [container]}}
            self.api.create(JOBS.format(self.name), {
                "apiVersion": "ddpjob.dev/v1alpha1", "kind": "DDPJob", "metadata": {"name": name},
                "spec": {"replicas": replicas, "template": template}})
        else:
            template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
            self.api.create(BATCH.format(self.name), {
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                "spec": {"completions": replicas, "parallelism": replicas, "completionMode": "Indexed", "template": template}})
        return time.monotonic()

    def job_path(self, kind, name):
        return f"{(JOBS if kind == 'ours' else BATCH).format(self.name)}/{name}"

    def wait_for_pods(self, count, seconds):
        wait_until(f"{count} pods in {self.name}", seconds, lambda: len(self.pods.first_seen) >= count)

    # ---- scheduler and kubelet ----

    def bind(self, pod, node="node-0"):
        self.api.create(f"{PODS.format(self.name)}/{pod}/binding", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})

    def set_running(self, pod):
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        self._set_status(pod, "Running", state, ready=True)

    def set_ended(self, pod, exit_code):
        state = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error",
                                "startedAt": "2026-01-01T00:00:00Z", "finishedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
        self._set_status(pod, "Succeeded" if exit_code == 0 else "Failed", state, ready=False)

    def _set_status(self, pod, phase, state, ready):
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": str(ready)}]
        worker = {"name": "worker", "image": "i", "imageID": "", "restartCount": 0, "ready": ready, "started": ready, "state": state}
        self.api.patch(f"{PODS.format(self.name)}/{pod}/status", {
            "status": {"phase": phase, "podIP": "192.0.2.1", "conditions": conditions, "containerStatuses": [worker]}})
