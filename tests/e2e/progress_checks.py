"""How far a job is, as its user sees it, and what happens when it gets no further."""

JOB = "slow"
STALL_SECONDS = 20

# Long enough not to end by itself.
MANIFEST = f"""
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {{name: {JOB}}}
spec:
  replicas: 2
  progress: {{stallTimeoutSeconds: {STALL_SECONDS}}}
  template:
    spec:
      containers:
      - name: worker
        image: ddp-runtime:0.1.0
        command: [ddp-worker, train, --config-env, TRAIN_CONFIG]
        env:
        - name: TRAIN_CONFIG
          value: |
            model: {{name: mlp, hidden: 64}}
            data: {{path: digits}}
            train: {{epochs: 100000, batchSize: 64, threads: 1}}
"""


def status_of(cluster):
    return cluster.status(JOB)


def runs_as(cluster, attempt):
    status = status_of(cluster)
    return status.get("attempt") == attempt and status.get("phase") == "Running"


def step_of(cluster):
    return status_of(cluster).get("progress", {}).get("step", 0)


def column(cluster, name):
    header, row = cluster.kubectl("get", "ddp", JOB).splitlines()[:2]
    start = header.index(name)
    return row[start:].split()[0] if row[start : start + 1].strip() else ""


def kubectl_ddp(cluster, context, *words, **options):
    program = context["build"] / "bin/kubectl-ddp"
    return cluster.run(program, *words, "--kubeconfig", cluster.state / "admin.kubeconfig", **options)


def shows_progress(cluster, report, context):
    """Step and logs of a running job are to be seen by kubectl and kubectl ddp."""
    cluster.kubectl("apply", "-f", "-", stdin=MANIFEST)
    cluster.wait("both ranks to run", 120, lambda: runs_as(cluster, 1))
    first = cluster.wait("a step in the status", 60, lambda: step_of(cluster))
    report.check(f"status tells of step {first}", True)
    cluster.wait("a later step", 60, lambda: step_of(cluster) > first)
    report.check("and of later ones", True)
    step = column(cluster, "STEP")
    report.check("kubectl get ddp shows the step", step.isdigit() and int(step) > 0, step)
    condition = {c["type"]: c["status"] for c in status_of(cluster)["conditions"]}
    report.equal("condition ProgressAvailable is true", condition.get("ProgressAvailable"), "True")

    text = kubectl_ddp(cluster, context, "status", JOB)
    report.check(
        "kubectl ddp status shows phase, bar and pods",
        all(words in text for words in ("Running, attempt 1", "%  step ", "pods: 2/2 ready")),
        text,
    )
    text = kubectl_ddp(cluster, context, "logs", JOB, "--rank", "all", "--tail", "1")
    report.check("kubectl ddp logs reads rank 0", text.startswith("[0] "), text)


def restarts_when_stalled(cluster, report, context):
    """A group whose rank stands still is restarted, and that is counted as a stall."""
    cluster.signal_process(f"{JOB}-1-1", "STOP")
    cluster.wait("the stall to restart the group", 120, lambda: runs_as(cluster, 2))
    status = status_of(cluster)
    report.equal(
        "it is counted as a stall",
        (status["restarts"]["stall"], status["restarts"]["application"]),
        (1, 0),
    )
    failure = status["failures"][0]
    report.check(
        f"status tells why: {failure['message'][:100]}",
        failure["reason"] == "Stalled" and "no step after step" in failure["message"],
        failure,
    )
    cluster.wait("training to go on", 60, lambda: step_of(cluster) > 0)
    report.check("training goes on", True)


def is_suspended_resumed_and_restarted(cluster, report, context):
    """kubectl ddp suspends, resumes and restarts a job, and follows its log meanwhile."""
    kubectl_ddp(cluster, context, "suspend", JOB, "--wait", "--timeout", "60s", timeout=90)
    cluster.wait(
        "its pods to go", 60, lambda: not cluster.list("pods", f"ddpjob.dev/job-name={JOB}")
    )
    report.check("a suspended job has no pods", True)
    kubectl_ddp(cluster, context, "resume", JOB, "--wait", "--timeout", "90s", timeout=120)
    report.check("it runs again as attempt 3", runs_as(cluster, 3), status_of(cluster))
    kubectl_ddp(cluster, context, "restart", JOB, "--wait", "--timeout", "90s", timeout=120)
    report.check("restart begins attempt 4", runs_as(cluster, 4), status_of(cluster))
    report.equal("neither is counted", status_of(cluster)["restarts"]["total"], 1)
    code, text = kubectl_ddp(
        cluster, context, "status", JOB, "--wait=Succeeded", "--timeout", "2s", check=False
    )
    report.equal("waiting in vain ends with 75", code, 75)
    cluster.kubectl("delete", "ddp", JOB)
