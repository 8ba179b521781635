"""The sample job, from `kubectl apply` to its checkpoint, through every loss that it must survive."""

import re
import subprocess

from testbed import ROOT, Failed

SAMPLE = ROOT / "manifests/samples/mnist.yaml"
JOB, RANKS = "mnist", 2
SELECTOR = f"ddpjob.dev/job-name={JOB}"
LEAST_ACCURACY = 0.97


def expected_environment(job, attempt, rank):
    """The table "What each rank finds in its environment" of the design, for one rank."""
    address = f"{JOB}-{attempt}-0.{JOB}.default.svc"
    uid, world, self_ = job["metadata"]["uid"], str(RANKS), str(rank)
    return {
        "RANK": self_,
        "WORLD_SIZE": world,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": self_,
        "GROUP_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "ROLE_RANK": self_,
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": address,
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": uid,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "PET_NNODES": world,
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": self_,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": "29500",
        "NODE_RANK": self_,
        "DDP_JOB_NAME": JOB,
        "DDP_JOB_UID": uid,
        "DDP_ATTEMPT": str(attempt),
        "DDP_PROGRESS_PORT": "9410",
        "DDP_CHECKPOINT_DIR": f"{job['spec']['checkpoint']['path']}/default-{JOB}",
    }


def first_attempt(cluster):
    def attempts():
        return [
            pod["metadata"]["labels"]["ddpjob.dev/attempt"]
            for pod in cluster.list("pods", SELECTOR)
        ]

    return int(cluster.wait("the job's first pod", 30, attempts)[0])


def job_of(cluster):
    return cluster.get("ddp", JOB) or {}


def status_of(cluster):
    return cluster.status(JOB)


def live_pods(cluster):
    """Pods of the job that are not on their way out, by name."""
    pods = cluster.list("pods", SELECTOR)
    return {
        pod["metadata"]["name"]: pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and pod["status"]["phase"] in ("Pending", "Running")
    }


def group_runs(cluster, attempt):
    """All ranks of an attempt run, and nothing else does: the phase, if so."""
    names = {f"{JOB}-{attempt}-{rank}" for rank in range(RANKS)}
    pods = live_pods(cluster)
    running = {name for name, pod in pods.items() if pod["status"]["phase"] == "Running"}
    return set(pods) == names == running and status_of(cluster).get("phase") == "Running"


def progress(cluster, attempt):
    pod = cluster.get("pod", f"{JOB}-{attempt}-0") or {}
    address = pod.get("status", {}).get("podIP")
    return cluster.fetch(f"http://{address}:9410/progress") if address else None


def wait_for_training(cluster, attempt, beyond):
    """Until rank 0 reports a step after `beyond` and a checkpoint; that report."""

    def report():
        now = progress(cluster, attempt)
        return now and now["step"] > beyond and (now.get("checkpoint") or {}).get("step") and now

    return cluster.wait(
        f"attempt {attempt} to pass step {beyond} and have a checkpoint", 90, report
    )


def restarts(cluster):
    return status_of(cluster).get("restarts", {}).get("total", 0)


def check_restart(cluster, report, context, restarts_before):
    """The whole group comes back with the next attempt, from the checkpoint."""
    before, attempt = context["checkpoint"], context["attempt"] + 1
    cluster.wait(f"all ranks of attempt {attempt} to run", 90, lambda: group_runs(cluster, attempt))
    report.check(
        f"the whole group runs again as attempt {attempt}, with no pod of the old one", True
    )
    report.equal("status counts one restart more", restarts(cluster), restarts_before + 1)
    first = cluster.wait(
        "rank 0's first report",
        60,
        lambda: (progress(cluster, attempt) or {}).get("step") and progress(cluster, attempt),
    )
    report.check(
        f"training went on from the checkpoint of step {before}",
        first["step"] >= before,
        f"it is at step {first['step']}",
    )
    context["attempt"] = attempt
    context["checkpoint"] = wait_for_training(cluster, attempt, before)["checkpoint"]["step"]


def check_columns(cluster, report, **expected):
    """What `kubectl get ddp` shows, by column."""
    header, row = cluster.kubectl("get", "ddp", JOB).splitlines()[:2]
    # By place, as a column may be empty: there is no progress yet, say.
    starts = [match.start() for match in re.finditer(r"\S+", header)] + [None]
    columns = {
        header[begin:end].strip(): row[begin:end].strip() for begin, end in zip(starts, starts[1:])
    }
    shown = expected.items() <= columns.items() and re.fullmatch(
        r"(\d+[dhms])+", columns.get("AGE", "")
    )
    what = ", ".join(f"{name.lower()} {value}" for name, value in expected.items())
    report.check(f"kubectl get ddp shows {what} and the age", shown, f"{header}\n{row}")


def starts_as_designed(cluster, report, context):
    """The sample manifest starts two ranks as the design says."""
    context["volume"] = cluster.volume("mnist-checkpoints")
    cluster.kubectl("apply", "-f", SAMPLE)
    attempt = first_attempt(cluster)
    cluster.wait("both ranks to run", 120, lambda: group_runs(cluster, attempt))
    report.check("both ranks run", True)

    job = job_of(cluster)
    for rank in range(RANKS):
        name = f"{JOB}-{attempt}-{rank}"
        pod = cluster.get("pod", name)
        labels = {
            f"ddpjob.dev/{key}": value
            for key, value in {
                "job-name": JOB,
                "job-uid": job["metadata"]["uid"],
                "attempt": str(attempt),
                "rank": str(rank),
            }.items()
        }
        report.check(
            f"{name} has the labels",
            labels.items() <= pod["metadata"]["labels"].items(),
            pod["metadata"]["labels"],
        )
        report.equal(
            f"{name} has its hostname and subdomain",
            (pod["spec"]["hostname"], pod["spec"]["subdomain"]),
            (name, JOB),
        )
        report.equal(
            f"{name} is never restarted by the kubelet", pod["spec"]["restartPolicy"], "Never"
        )
        owner = pod["metadata"]["ownerReferences"][0]
        report.equal(
            f"{name} is owned by the job",
            (owner["uid"], owner["controller"]),
            (job["metadata"]["uid"], True),
        )
        text = cluster.kubectl("exec", name, "--", "env")
        variables = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        expected = expected_environment(job, attempt, rank)
        report.equal(
            f"{name} finds the environment of the table",
            {key: variables.get(key) for key in expected},
            expected,
        )
        report.check(
            f"{name} has no service links",
            not [
                key
                for key in variables
                if key.endswith("_SERVICE_HOST") and not key.startswith("KUBERNETES_")
            ],
        )
        shm = cluster.kubectl("exec", name, "--", "df", "--output=size", "/dev/shm").split()[-1]
        report.equal(f"{name} has 1 GiB of shared memory", int(shm), 1024 * 1024)
    service = cluster.get("service", JOB)["spec"]
    report.equal(
        "the service is headless and names pods early",
        (service["clusterIP"], service["publishNotReadyAddresses"]),
        ("None", True),
    )
    check_columns(cluster, report, PHASE="Running", READY=f"{RANKS}/{RANKS}", RESTARTS="0")
    context["attempt"] = context["first"] = attempt
    context["checkpoint"] = wait_for_training(cluster, attempt, 0)["checkpoint"]["step"]
    report.check("rank 0 reports progress and a checkpoint", True)


def survives_a_deleted_pod(cluster, report, context):
    """A pod deleted in the middle of training restarts the whole group."""
    before = restarts(cluster)
    cluster.kubectl("delete", "pod", f"{JOB}-{context['attempt']}-1", "--wait=false")
    check_restart(cluster, report, context, before)


def survives_a_killed_worker(cluster, report, context):
    """A worker process killed with -9 restarts the whole group."""
    before, attempt = restarts(cluster), context["attempt"]
    cluster.kill_process(f"{JOB}-{attempt}-1")
    check_restart(cluster, report, context, before)
    failure = status_of(cluster)["failures"][0]
    report.equal(
        "status tells rank and exit code of the failure",
        (failure["attempt"], failure["rank"], failure["exitCode"]),
        (attempt, 1, 137),
    )


def survives_the_operator_and_the_api_server(cluster, report, context):
    """Neither the operator's death nor the API server's disturbs a running job."""
    attempt, before = context["attempt"], restarts(cluster)
    pods = {pod["metadata"]["uid"] for pod in live_pods(cluster).values()}
    old = operator_pod(cluster)["metadata"]["name"]
    cluster.kill_process(old, namespace="ddp-system")
    cluster.wait(
        "the kubelet to start the operator again",
        60,
        lambda: operator_is_ready(cluster, restarted=True),
    )
    report.check("the operator is ready again after kill -9", True)
    cluster.kubectl("delete", "pod", old, "-n", "ddp-system", "--force", "--grace-period=0")
    cluster.wait(
        "another operator pod",
        60,
        lambda: operator_pod(cluster)["metadata"]["name"] != old and operator_is_ready(cluster),
    )
    report.check("another operator pod took over", True)
    cluster.restart_apiserver()
    report.check("the API server is ready again after kill -9", True)
    wait_for_training(cluster, attempt, progress(cluster, attempt)["step"])
    report.equal(
        "the same pods train on",
        {pod["metadata"]["uid"] for pod in live_pods(cluster).values()},
        pods,
    )
    report.equal("no restart was counted", restarts(cluster), before)


def operator_pod(cluster):
    pods = [
        pod
        for pod in cluster.list("pods", "app.kubernetes.io/name=ddp-operator", "ddp-system")
        if "deletionTimestamp" not in pod["metadata"]
    ]
    if len(pods) != 1:
        raise Failed(f"expected one operator pod, found {len(pods)}")
    return pods[0]


def operator_is_ready(cluster, restarted=False):
    statuses = operator_pod(cluster)["status"].get("containerStatuses")  # not before it has a node
    if not statuses:
        return False
    status = statuses[0]
    return status["ready"] and (status["restartCount"] > 0 or not restarted)


def succeeds_and_leaves_a_checkpoint(cluster, report, context):
    """The job ends Succeeded, with the accuracy of an undisturbed run and a valid checkpoint."""

    def ended():
        phase = status_of(cluster).get("phase")
        return phase if phase in ("Succeeded", "Failed") else None

    report.equal("the job ends", cluster.wait("the job to end", 240, ended), "Succeeded")
    status = status_of(cluster)
    report.equal(
        "all ranks succeeded",
        (status["succeededRanks"], status["replicas"]["succeeded"]),
        (f"0-{RANKS - 1}", RANKS),
    )
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    report.equal("condition Succeeded is true", conditions.get("Succeeded"), "True")

    log = cluster.kubectl("logs", f"{JOB}-{context['attempt']}-0")
    accuracies = [float(text) for text in re.findall(r"accuracy\D*([0-9]+(?:\.[0-9]+)?) ?%", log)]
    report.check(
        "the digits are read as well as in an undisturbed run",
        accuracies and accuracies[-1] >= 100 * LEAST_ACCURACY,
        f"accuracies in the log: {accuracies}",
    )
    folder = context["volume"] / f"default-{JOB}"
    report.check(
        "a checkpoint is on the volume", any(folder.glob("step-*/state.json")), f"in {folder}"
    )
    verify = subprocess.run(
        [context["build"] / "bin/ddp-worker", "checkpoint", "verify", folder],
        text=True,
        timeout=60,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    report.check("ddp-worker finds it valid", verify.returncode == 0, verify.stdout)

    check_columns(
        cluster, report, PHASE="Succeeded", RESTARTS=str(context["attempt"] - context["first"])
    )
    created = pods_created(cluster)
    report.equal(
        "no pod was asked for twice", {name: n for name, n in created.items() if n != 1}, {}
    )
    report.equal(
        "and none beyond one a rank and attempt",
        len(created),
        RANKS * (context["attempt"] - context["first"] + 1),
    )


def pods_created(cluster):
    """How often the creation of each pod of the job was asked for."""
    counts = {}
    for entry in cluster.audit():
        reference = entry.get("objectRef", {})
        if (
            entry["verb"] == "create"
            and reference.get("resource") == "pods"
            and not reference.get("subresource")
            and reference.get("namespace") == "default"
            and (reference.get("name") or "").startswith(JOB + "-")
        ):
            counts[reference["name"]] = counts.get(reference["name"], 0) + 1
    return counts


def is_collected_when_deleted(cluster, report, context):
    """Deleting the job takes its pods and service with it, and leaves the claim."""
    cluster.kubectl("delete", "ddp", JOB)
    cluster.wait(
        "pods and service to go",
        60,
        lambda: not cluster.list("pods", SELECTOR) and cluster.get("service", JOB) is None,
    )
    report.check("no pod and no service is left", True)
    report.equal(
        "the claim is still bound",
        cluster.get("pvc", "mnist-checkpoints")["status"]["phase"],
        "Bound",
    )
