"""What only a node can show: survivors that ignore their notice, and a node whose kubelet dies."""

import json
import subprocess
import time

from operator_checks import manifest
from testbed import CLUSTER

# Whatever is asked of it, it stays: only the end of its grace ends it.
DEAF = "command: [python3, -c, 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)']"
RANKS = 8
# Ten where nothing else uses the machine (5 s of grace, the kubelet's work for eight pods): a rule for benchmarks. Here it is
# to tell a restart from a hang on a busy one.
RESTART_SECONDS = 30


def running_pods(cluster, name, attempt):
    selector = f"ddpjob.dev/job-name={name},ddpjob.dev/attempt={attempt}"
    pods = cluster.list("pods", selector)
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def restarts_in_time_though_survivors_are_deaf(cluster, report, context):
    """A group whose survivors ignore SIGTERM runs again within seconds of a rank's death."""
    cluster.kubectl("apply", "-f", "-", stdin=manifest("deaf", replicas=RANKS, container=DEAF))
    cluster.wait("all ranks to run", 120, lambda: cluster.status("deaf").get("phase") == "Running")
    cluster.kill_process("deaf-1-3")
    killed = time.monotonic()
    cluster.wait("a new group", 60, lambda: running_pods(cluster, "deaf", 2) == RANKS, interval=0.1)
    took = time.monotonic() - killed
    report.check(
        f"{RANKS} new pods run {took:.1f} s after the death of one",
        took <= RESTART_SECONDS,
        f"not within {RESTART_SECONDS} s",
    )
    failure = cluster.status("deaf")["failures"][0]
    report.equal("status tells which", (failure["rank"], failure["exitCode"]), (3, 137))
    cluster.kubectl("delete", "ddp", "deaf")
    cluster.wait("its pods to go", 60, lambda: not cluster.list("pods", "ddpjob.dev/job-name=deaf"))


# The cluster takes pods away from a node that is silent after five minutes, unless they say otherwise.
IMPATIENT = """
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 0}
"""


def is_ready(cluster, node):
    conditions = (cluster.get("node", node) or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


# Where no node is left the cluster evicts nobody, as the fault may be its own: here is one that nothing may run on.
OTHER_NODE = """
apiVersion: v1
kind: Node
metadata: {name: elsewhere}
spec: {taints: [{key: test, effect: NoSchedule}]}
"""


def beat(cluster):
    """A sign of life of the other node."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
    status = json.dumps({"status": {"conditions": [ready]}})
    cluster.kubectl("patch", "node", "elsewhere", "--subresource=status", "-p", status)


def runs_again(cluster):
    status = cluster.status("lost")
    return status.get("attempt", 1) > 1 and status.get("phase") == "Running"


def books_the_loss_of_a_node(cluster, report, context):
    """A node whose kubelet is killed costs the job nothing of its budget, and is named."""
    job = manifest("lost", container=DEAF, spec="restart: {maxRestarts: 0}") + IMPATIENT
    cluster.kubectl("apply", "-f", "-", stdin=job)
    cluster.wait("its ranks to run", 120, lambda: cluster.status("lost").get("phase") == "Running")
    node = cluster.get("pod", "lost-1-0")["spec"]["nodeName"]
    cluster.kubectl("apply", "-f", "-", stdin=OTHER_NODE)
    beat(cluster)

    def alone_missed(holds):
        beat(cluster)
        return holds()

    pid = (cluster.state / "pids/kubelet").read_text().strip()
    command = cluster.run("cat", f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
    cluster.run("kill", "-9", pid)
    try:
        cluster.wait(
            "the node to be missed",
            120,
            lambda: alone_missed(lambda: not is_ready(cluster, node)),
            interval=2,
        )
        report.check("the node is not ready", True)
        cluster.wait(
            "a new attempt",
            60,
            lambda: alone_missed(lambda: cluster.status("lost").get("attempt", 1) > 1),
            interval=2,
        )
        status = cluster.status("lost")
        booked = status["restarts"]
        report.check(  # what tolerates the taint may be put there, and taken away, again
            "it is counted as no fault of the program",
            booked["application"] == 0 and booked["infrastructure"] + booked["preemption"] > 0,
            booked,
        )
        failure = status["failures"][0]
        report.equal(f"status names the node ({failure['reason']})", failure["node"], node)
    finally:
        cluster.kubectl("delete", "node", "elsewhere", "--ignore-not-found")
        with open(cluster.state / "logs/kubelet-again.log", "wb") as log:
            kubelet = subprocess.Popen(  # ends with the cluster
                [CLUSTER, "enter", cluster.state, *command],
                cwd=cluster.state,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
    cluster.wait("the node to come back", 60, lambda: is_ready(cluster, node))
    cluster.wait("the job to run on", 120, lambda: runs_again(cluster))
    report.check("on the node that came back the job runs on", kubelet.poll() is None)
    report.equal("and its budget is whole", cluster.status("lost")["restarts"]["application"], 0)
    cluster.kubectl("delete", "ddp", "lost")
