"""The Helm chart on a real node, from installation to uninstallation with a job running, and Prometheus in between."""

import json
import math
import subprocess

from operator_checks import CRD, ended
from prometheus import Prometheus, panels
from testbed import ROOT, Failed

CHART = ROOT / "charts/ddp-operator"
# A name that starts with a digit and has nothing of the chart's, and a namespace that YAML reads as a number.
RELEASE, NAMESPACE, TEAM = "7-team", "0077", "team"
NAME = f"{RELEASE}-ddp-operator"
VALUES = {
    "replicas": 2,
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "commonLabels": {"team": "platform"},
}


def job(name, epochs, spec=""):
    """A job of digits that Pod Security's `restricted` lets in."""
    return f"""
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {{name: {name}, namespace: {TEAM}}}
spec:
  replicas: 2
  checkpoint: {{path: /checkpoints, claimName: {name}}}
  {spec}
  template:
    spec:
      securityContext: {{runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
      - name: worker
        image: ddp-runtime:0.1.0
        command: [ddp-worker, train, --config-env, TRAIN_CONFIG]
        env:
        - name: TRAIN_CONFIG
          value: |
            model: {{name: convnet, channels: 16, hidden: 128}}
            data: {{path: digits}}
            optimizer: {{name: sgd, learningRate: 0.02, momentum: 0.9}}
            train: {{epochs: {epochs}, batchSize: 64, threads: 1}}
            checkpoint: {{everySteps: 50}}
        resources: {{requests: {{cpu: 100m, memory: 256Mi}}}}
        securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
"""


def helm(cluster, *arguments, **options):
    program = subprocess.run(
        [ROOT / "tests/testbed/build.sh", "helm"], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()
    return cluster.run(program, *arguments, "--namespace", NAMESPACE, **options)


def phase(cluster, name):
    return cluster.status(name, TEAM).get("phase")


def step(cluster, name):
    """How far rank 0 is, as itself tells."""
    attempt = cluster.status(name, TEAM).get("attempt")
    pod = cluster.get("pod", f"{name}-{attempt}-0", TEAM) or {}
    address = pod.get("status", {}).get("podIP")
    return cluster.fetch(f"http://{address}:9410/progress")["step"] if address else None


def pods(cluster, name):
    found = cluster.list("pods", f"ddpjob.dev/job-name={name}", TEAM)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def leaders(cluster):
    lease = cluster.get("lease", "ddp-operator", NAMESPACE) or {}
    return lease.get("spec", {}).get("holderIdentity")


def installs_under_an_odd_name(cluster, report, context):
    """Helm installs two operators under an odd name, where Pod Security enforces `restricted`."""
    cluster.kubectl("delete", "-k", ROOT / "manifests/operator", timeout=90)
    cluster.kubectl("delete", "-f", CRD)
    for name in (NAMESPACE, TEAM):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    helm(cluster, "install", RELEASE, CHART, "-f", "-", "--wait", "--timeout", "90s", stdin=json.dumps(VALUES), timeout=120)  # fmt: skip
    ready = json.loads(cluster.kubectl("get", "deployment", NAME, "-n", NAMESPACE, "-o", "json"))[
        "status"
    ]["readyReplicas"]
    report.equal("both are ready", ready, 2)
    report.check("one of them leads", cluster.wait("a leader", 30, lambda: leaders(cluster)))


def passes_helm_test(cluster, report, context):
    """`helm test` runs the operator's own program."""
    code, said = helm(cluster, "test", RELEASE, "--timeout", "90s", timeout=120, check=False)
    report.check("it succeeds", code == 0 and "Succeeded" in said, said)


def runs_the_samples(cluster, report, context):
    """The samples that need nothing but a CPU do what they say."""
    samples = ROOT / "manifests/samples"
    expected = {"minimal": ("Succeeded", 0), "exit-codes": ("Failed", 0)}
    for name in expected:
        cluster.kubectl("apply", "-f", samples / f"{name}.yaml")
    for name, (phase_, restarts) in expected.items():
        job_ = cluster.wait(f"{name} to end", 120, lambda: ended(cluster, name))  # noqa: B023
        status = job_["status"]
        report.equal(
            f"{name} ends", (status["phase"], status["restarts"]["total"]), (phase_, restarts)
        )
        cluster.kubectl("delete", "ddp", name)
    cluster.kubectl("apply", "-f", samples / "gang.yaml")  # this cluster serves no PodGroups
    cluster.wait("the job to say so", 30, lambda: "podgroups" in str(cluster.status("gang")))  # fmt: skip
    report.check("a gang without PodGroups says why it waits", True)
    cluster.kubectl("delete", "ddp", "gang")
    status, said = cluster.kubectl("apply", "-f", samples / "policy.yaml", check=False)
    report.equal("the policy is taken", status, 0)
    cluster.kubectl("delete", "-f", samples / "policy.yaml")


def is_scraped_by_prometheus(cluster, report, context):
    """A real Prometheus scrapes operators and rank 0, as the chart's monitors say."""
    on = "monitoring.podMonitor.enabled=true,monitoring.workerPodMonitor.enabled=true"
    rendered = helm(cluster, "template", RELEASE, CHART, "--set", on, "--show-only", "templates/monitoring/monitors.yaml")  # fmt: skip
    text = cluster.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", stdin=rendered, check=False)[1]  # fmt: skip
    context["prometheus"] = Prometheus(cluster, monitors_of(text, rendered, cluster))
    # What the operators count is seen to grow only from the first scrape on.
    cluster.wait("both operators to be scraped", 60, lambda: list(context["prometheus"].targets().values()) == ["up"] * 2)  # fmt: skip
    cluster.claim("watched", TEAM)
    cluster.kubectl("apply", "-f", "-", stdin=job("watched", epochs=4000))
    cluster.wait("the job to run", 120, lambda: phase(cluster, "watched") == "Running")

    def all_up():
        targets = context["prometheus"].targets()
        kinds = sorted("operator" if NAME in name else name for name in targets)
        return kinds == ["operator", "operator", f"{TEAM}/watched-1-0"] and set(targets.values()) == {"up"}  # fmt: skip

    cluster.wait("both operators and rank 0 to be scraped", 60, all_up)
    report.check("both operators and rank 0 are, and nobody else", True)


def monitors_of(text, rendered, cluster):
    """The PodMonitors of a rendered text; the cluster does not know them, so that kubectl only turns them into JSON."""
    if "no matches for kind" not in text:
        raise Failed(f"expected kubectl not to know PodMonitors: {text}")
    renamed = rendered.replace("monitoring.coreos.com/v1", "v1").replace("kind: PodMonitor", "kind: Pod")  # fmt: skip
    text = cluster.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", stdin=renamed)  # fmt: skip
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        thing, end = decoder.raw_decode(text)
        text = text[end:]
        found += thing["items"] if thing["kind"] == "List" else [thing]
    return found


def is_number(series):
    """Whether a panel can draw it: 0 / 0 is a sample too, but shows nothing."""
    return not math.isnan(float(series["value"][1]))


def fills_every_panel(cluster, report, context):
    """Every panel of the dashboards and every rule has data."""
    prometheus = context["prometheus"]
    cluster.kubectl("delete", "pod", "watched-1-1", "-n", TEAM, "--wait=false")  # a restart to see
    cluster.wait("the second attempt", 120, lambda: (step(cluster, "watched") or 0) > 0 and "watched-2-0" in pods(cluster, "watched"))  # fmt: skip
    empty = {}

    def all_full():
        empty.clear()
        for board, panel, _, expression in panels():
            if not any(is_number(series) for series in prometheus.query(expression)):
                empty.setdefault(f"{board['title']}: {panel['title']}", expression)
        return not empty

    try:
        cluster.wait("all panels to have data", 150, all_full, interval=5)
    except Failed as failure:
        raise Failed(f"{len(empty)} panels are empty\n" + "\n".join(f"{a}: {b}" for a, b in empty.items())) from failure  # fmt: skip
    report.check(f"all {sum(1 for _ in panels())} queries of the panels return data", True)
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    report.equal("no rule fails", [r["name"] for r in rules if r["health"] != "ok"], [])
    recorded = [r["name"] for r in rules if r["type"] == "recording"]
    report.equal("all recorded series are there", [r for r in recorded if not prometheus.query(r)], [])  # fmt: skip
    report.equal("nobody raises an alarm", prometheus.firing(), set())
    if context.get("pictures"):
        cluster.wait("two minutes to draw", 180, lambda: prometheus.query("count_over_time(ddp_step[2m]) >= 55"), interval=5)  # fmt: skip
        context["pictures"](prometheus)


def raises_an_alarm_for_a_stalled_job(cluster, report, context):
    """A job whose rank stands still raises DDPJobStalled."""
    cluster.claim("stalled", TEAM)
    stall = "progress: {stallTimeoutSeconds: 5, onStall: Report}"
    cluster.kubectl("apply", "-f", "-", stdin=job("stalled", epochs=4000, spec=stall))
    cluster.wait("it to train", 120, lambda: (step(cluster, "stalled") or 0) > 20)
    cluster.signal_process("stalled-1-1", "STOP", namespace=TEAM)
    alarm = ("DDPJobStalled", TEAM, "stalled")
    cluster.wait("the alarm", 90, lambda: alarm in context["prometheus"].firing())
    report.check("DDPJobStalled fires", True)
    cluster.signal_process("stalled-1-1", "CONT", namespace=TEAM)
    cluster.wait("the alarm to end", 90, lambda: alarm not in context["prometheus"].firing())
    report.check("and ends when the rank goes on", True)
    cluster.kubectl("delete", "ddp", "stalled", "-n", TEAM)


def upgrades_with_a_job_running(cluster, report, context):
    """`helm upgrade` leaves a running job alone."""
    before, at = pods(cluster, "watched"), step(cluster, "watched")
    helm(cluster, "upgrade", RELEASE, CHART, "--set", "replicas=1,commonLabels.team=other", "--wait", "--timeout", "90s", timeout=120)  # fmt: skip
    cluster.wait("a new leader", 60, lambda: leaders(cluster))
    cluster.wait("training to go on", 30, lambda: (step(cluster, "watched") or 0) > at)
    report.equal("the same pods train on", pods(cluster, "watched"), before)


def uninstalls_with_a_job_running(cluster, report, context):
    """`helm uninstall` leaves the resource, the job and its pods; a new installation takes over."""
    before = pods(cluster, "watched")
    helm(cluster, "uninstall", RELEASE, "--wait", timeout=90)
    at = step(cluster, "watched")
    cluster.wait("training to go on", 30, lambda: (step(cluster, "watched") or 0) > at)
    report.equal("the same pods train on", pods(cluster, "watched"), before)
    helm(cluster, "install", RELEASE, CHART, "--wait", "--timeout", "90s", timeout=120)
    cluster.kubectl("delete", "pod", next(iter(before)), "-n", TEAM, "--wait=false")
    cluster.wait("the new operator to restart the group", 120, lambda: "watched-3-0" in pods(cluster, "watched"))  # fmt: skip
    report.check("the operator that is installed then looks after it", True)
    cluster.kubectl("delete", "ddp", "watched", "-n", TEAM)
    context.pop("prometheus").down()
