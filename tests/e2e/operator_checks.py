"""The operator itself: its installation, other people's images, bad manifests, its manners."""

import re

from sample_checks import operator_is_ready, operator_pod
from testbed import ROOT

CRD = ROOT / "manifests/crd/ddpjob.yaml"
OPERATOR_USER = "system:serviceaccount:ddp-system:ddp-operator"


def install(cluster, report, context):
    """The operator is installed with kubectl apply."""
    report.check(
        "the CRD is small enough for kubectl apply",
        CRD.stat().st_size < 256 * 1024,
        f"{CRD.stat().st_size} bytes",
    )
    cluster.kubectl("apply", "-f", CRD)
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd/ddpjobs.ddpjob.dev", "--timeout=30s"
    )
    report.check("the CRD is established", True)
    cluster.kubectl("apply", "-k", ROOT / "manifests/operator")
    cluster.wait("the operator to be ready", 60, lambda: operator_is_ready(cluster))
    report.check("the operator is ready", True)
    security = operator_pod(cluster)["spec"]["containers"][0].get("securityContext", {})
    # From outside: the image has no shell.
    pid = cluster.first_process(operator_pod(cluster)["metadata"]["name"], namespace="ddp-system")
    status = cluster.run("cat", f"/proc/{pid}/status")
    uid = re.search(r"(?m)^Uid:\s+(\d+)", status)[1]
    report.check(
        "it runs as an unprivileged user",
        uid != "0" and not security.get("privileged"),
        f"uid {uid}",
    )


def manifest(name, replicas=2, image="localhost/testbed/foreign:1", spec="", container=""):
    return f"""
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  {spec}
  template:
    spec:
      containers:
      - name: worker
        image: {image}
        {container}
"""


def runs_a_foreign_image(cluster, report, context):
    """An image of someone else's, which only reads RANK, WORLD_SIZE and MASTER_*, finishes too."""
    cluster.kubectl("apply", "-f", "-", stdin=manifest("foreign", replicas=3))
    job = cluster.wait("the job to end", 120, lambda: ended(cluster, "foreign"))
    report.equal("the job ends", job["status"]["phase"], "Succeeded")
    report.equal("without a restart", job["status"]["restarts"]["total"], 0)
    pods = cluster.list("pods", "ddpjob.dev/job-name=foreign")
    logs = sorted(cluster.kubectl("logs", pod["metadata"]["name"]).strip() for pod in pods)
    report.equal(
        "each rank heard of the others",
        logs,
        [f"rank {rank} of 3: the ranks sum to 3" for rank in range(3)],
    )
    cluster.kubectl("delete", "ddp", "foreign")


def ended(cluster, name):
    job = cluster.get("ddp", name) or {}
    return job if job.get("status", {}).get("phase") in ("Succeeded", "Failed") else None


REFUSED = [
    # what, manifest, words that the sentence must have
    ("an unknown field", manifest("bad", spec="replica: 3"), ["spec.replica"]),
    ("replicas of 0", manifest("bad", replicas=0), ["spec.replicas", "1"]),
    (
        "no template",
        "apiVersion: ddpjob.dev/v1alpha1\nkind: DDPJob\nmetadata: {name: bad}\nspec: {replicas: 2}\n",
        ["spec.template"],
    ),
    ("a name too long for its pods", manifest("n" * 60), ["metadata.name"]),
    (
        "a port out of range",
        manifest("bad", spec="rendezvous: {port: 70000}"),
        ["spec.rendezvous.port"],
    ),
]


def runs_an_own_trainer(cluster, report, context):
    """A C++ trainer on the runtime's image, as docker/examples shows, trains on two ranks."""
    manifest_ = manifest(
        "own", image="docker.io/library/own-trainer:1.0.0", container='args: [/tmp/checkpoints, "3"]'
    )
    cluster.kubectl("apply", "-f", "-", stdin=manifest_)
    job = cluster.wait("the job to end", 120, lambda: ended(cluster, "own"))
    status = job["status"]
    report.check("the job ends", status["phase"] == "Succeeded", status.get("failures"))
    log = cluster.kubectl("logs", "own-1-0")
    report.check("both ranks trained together", "2 rank(s), step 75:" in log, log)
    cluster.kubectl("delete", "ddp", "own")


def refuses_bad_manifests(cluster, report, context):
    """Bad manifests are refused with a sentence that names the place."""
    for what, text, words in REFUSED:
        status, answer = cluster.kubectl("apply", "-f", "-", stdin=text, check=False)
        report.check(
            f"{what}: {' '.join(answer.split())[:150]}",
            status != 0 and all(word in answer for word in words),
            answer,
        )

    # What only the API server's own check of pods can find ends in a condition, not in a silent wait.
    broken = manifest("broken", container="env: [{name: 'not a name=', value: x}]")
    status, answer = cluster.kubectl("apply", "-f", "-", stdin=broken, check=False)
    if status == 0:
        job = cluster.wait("the job to fail", 60, lambda: ended(cluster, "broken"))
        condition = next(c for c in job["status"]["conditions"] if c["type"] == "Failed")
        report.check(
            f"a template that no pod can have: {condition['message'][:150]}",
            "env" in condition["message"],
            condition,
        )
        report.equal(
            "nothing is left running", cluster.list("pods", "ddpjob.dev/job-name=broken"), []
        )
        cluster.kubectl("delete", "ddp", "broken")
    else:
        report.check(
            f"a template that no pod can have: {' '.join(answer.split())[:150]}",
            "env" in answer,
            answer,
        )
    report.equal(
        "no job of these is left", [job["metadata"]["name"] for job in cluster.list("ddp")], []
    )


def asked_no_more_than_it_may(cluster, report, context):
    """The operator's role is enough for it."""
    requests = [entry for entry in cluster.audit() if entry.get("user", {}).get("username") == OPERATOR_USER]
    denied = {
        (entry["verb"], entry.get("objectRef", {}).get("resource"))
        for entry in requests
        if entry.get("responseStatus", {}).get("code") == 403 and not cluster.was_restarting(entry)
    }
    report.equal("none of its requests was forbidden", denied, set())
    report.check(f"it asked {len(requests)} times in all", 0 < len(requests) < 2000)
