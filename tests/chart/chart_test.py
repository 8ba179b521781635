"""The Helm chart: it renders what manifests/ has, refuses typos, and suits a real API server.

One control plane serves all tests. The real operator, $DDP_OPERATOR, runs on it with the account and
the arguments that the chart gives it.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/ddp-operator"
CLUSTER = ROOT / "tests/testbed/cluster.sh"
CRD = "ddpjobs.ddpjob.dev"
# Names that YAML reads as numbers where they are not quoted, and that have nothing of the chart's.
RELEASE, NAMESPACE = "1e5", "0077"

bed = None  # the one Bed, while tests run


class Bed:
    """A control plane, and the programs that talk to it."""

    def __init__(self, folder):
        self.state = pathlib.Path(folder, "state")
        self.helm_program = self._run(ROOT / "tests/testbed/build.sh", "helm")
        self.kubeconfig = self._run(
            CLUSTER, "control-plane", self.state, "--follow", str(os.getpid())
        )
        self.environment = (
            os.environ
            | {"KUBECONFIG": self.kubeconfig}
            | {f"HELM_{kind}_HOME": f"{folder}/helm" for kind in ("CACHE", "CONFIG", "DATA")}
        )

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, timeout=600)
        return done.stdout.strip()

    def down(self):
        subprocess.run([CLUSTER, "down", self.state], check=True, timeout=60)

    def _call(self, *command, text=None, good=True):
        done = subprocess.run(
            command, input=text, text=True, capture_output=True, timeout=60, env=self.environment
        )
        said = done.stdout + done.stderr
        if (done.returncode == 0) != good:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{said}\ninput:\n{text}")
        return done.stdout if good else said

    def helm(self, *arguments, **more):
        return self._call(self.helm_program, *arguments, **more)

    def kubectl(self, *arguments, **more):
        return self._call(self.state / "bin/kubectl", *arguments, **more)

    def render(self, *arguments, release=RELEASE, namespace=NAMESPACE, **more):
        return self.helm("template", release, CHART, "-n", namespace, *arguments, **more)

    def objects(self, text):
        """{"Kind namespace/name": object} of a YAML text. By kubectl: Python has no YAML."""
        said = self.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", text=text)
        found, decoder = {}, json.JSONDecoder()
        while said := said.lstrip():
            thing, end = decoder.raw_decode(said)
            said = said[end:]
            for item in thing["items"] if thing["kind"] == "List" else [thing]:
                meta = item["metadata"]
                found[f"{item['kind']} {meta.get('namespace', '')}/{meta['name']}"] = item
        return found

    def may(self, account, verb, resource, *where):
        said = subprocess.run(
            [self.state / "bin/kubectl", "auth", "can-i", verb, resource, "--as", account, *where],
            text=True,
            capture_output=True,
            timeout=60,
            env=self.environment,
        )
        return said.stdout.strip() == "yes"


def setUpModule():
    global bed
    folder = tempfile.TemporaryDirectory(prefix="ddp-chart.")
    unittest.addModuleCleanup(folder.cleanup)
    bed = Bed(folder.name)
    unittest.addModuleCleanup(bed.down)
    for name in (NAMESPACE, "ddp-system", "team"):
        bed.kubectl("create", "namespace", name)
        bed.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")


class Text(unittest.TestCase):
    def test_the_crd_is_a_copy(self):
        subprocess.run([ROOT / "charts/sync-crd.sh", "--check"], check=True)

    def test_the_version_is_the_projects(self):
        project = re.search(r"project\(ddp VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        chart = dict(re.findall(r"(?m)^(\w+): (\S+)$", (CHART / "Chart.yaml").read_text()))
        self.assertEqual((chart["version"], chart["appVersion"]), (project, project))

    def test_lint(self):
        bed.helm("lint", "--strict", "--quiet", CHART)

    def test_an_older_kubernetes_is_refused(self):
        said = bed.render("--kube-version", "1.28.9", good=False)
        self.assertIn("requires kubeVersion: >=1.29.0-0", said)

    def test_each_key_of_the_schema_is_in_the_values_and_closed(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = (CHART / "values.yaml").read_text()
        listed = set(schema["properties"]) - {"global"}
        self.assertEqual(listed, set(re.findall(r"(?m)^(\w+):", values)))

        def check(place, part):
            if "properties" in part:
                self.assertIs(part.get("additionalProperties"), False, place)
            for name, inner in part.get("properties", {}).items():
                check(f"{place}.{name}", inner)
            if "items" in part:
                check(f"{place}[]", part["items"])

        check("values", schema)


class Drift(unittest.TestCase):
    """Installed as the manifests are, the chart makes the same objects."""

    def test_every_object_is_that_of_the_manifests(self):
        wanted = bed.objects(bed.kubectl("kustomize", ROOT / "manifests/operator"))
        wanted |= bed.objects((ROOT / "manifests/crd/ddpjob.yaml").read_text())
        wanted.pop("Namespace /ddp-system")  # Helm makes none, or --create-namespace does
        got = bed.objects(bed.render(release="ddp-operator", namespace="ddp-system"))
        self.assertEqual(set(got), set(wanted))
        for name, thing in got.items():
            with self.subTest(name):
                meta = thing["metadata"]
                self.assertEqual(meta["labels"].pop("app.kubernetes.io/managed-by"), "Helm")
                meta["annotations"] = {
                    key: value
                    for key, value in meta.get("annotations", {}).items()
                    if key != "helm.sh/resource-policy"
                }
                self.plain(thing)
                self.plain(wanted[name])
                self.assertEqual(thing, wanted[name])

    def plain(self, thing):
        """Takes away what may differ: labels and empty annotations, and the default pull policy."""
        thing["metadata"].pop("labels", None)
        if not thing["metadata"].get("annotations"):
            thing["metadata"].pop("annotations", None)
        if thing["kind"] == "Deployment":
            labels = thing["spec"]["selector"]["matchLabels"]
            self.assertEqual(thing["spec"]["template"]["metadata"]["labels"], labels)
            labels.pop("app.kubernetes.io/instance", None)
            thing["spec"]["template"]["metadata"]["labels"] = dict(labels)
            for container in thing["spec"]["template"]["spec"]["containers"]:
                if container.get("imagePullPolicy") == "IfNotPresent":
                    container.pop("imagePullPolicy")


class Values(unittest.TestCase):
    def test_a_mistake_is_refused_by_name(self):
        for mistake, said in (
            ("replica=2", "'replica'"),
            ("image.tags=1", "'tags'"),
            ("image.digest=abc", "image/digest"),
            ("image.pullPolicy=Sometimes", "image/pullPolicy"),
            ("crds.enable=false", "'enable'"),
            ("crds.keep=maybe", "crds/keep"),
            ("replicas=two", "replicas"),
            ("leaderElection.enabled=true", "'leaderElection'"),
            ("serviceAccount.annotation.a=b", "'annotation'"),
            ("resources.limit.cpu=1", "'limit'"),
            ("tolerations[0].keys=gpu", "'keys'"),
            ("affinity.nodeAffinty.a=b", "'nodeAffinty'"),
            ("imagePullSecrets[0]=registry", "imagePullSecrets/0"),
            ("topologySpreadConstraints[0].skew=1", "'skew'"),
            ("watchNamespace=Team_A", "watchNamespace"),
            (r"podLabels.app\.kubernetes\.io/name=a", "app.kubernetes.io/name"),
            ("runAsUser=0", "runAsUser"),
            ("extraArgs[0]=--health-port=1", "extraArgs/0"),
            ("extraArgs[0]=debug", "extraArgs/0"),
        ):
            with self.subTest(mistake):
                text = bed.render("--set", mistake, good=False)
                self.assertIn("don't meet the specifications of the schema", text)
                self.assertIn(said, text)

    def test_all_that_can_be_set_arrives_in_the_pod(self):
        digest = "sha256:" + "0" * 64
        text = bed.render(
            "--set-json",
            'global={"of": "a parent chart"}',
            "-f",
            "-",
            text=json.dumps(
                {
                    "image": {
                        "repository": "registry.local:5000/a/b",
                        "digest": digest,
                        "pullPolicy": "Always",
                    },
                    "imagePullSecrets": [{"name": "registry"}],
                    "replicas": 2,
                    "extraArgs": ["--log-level=debug", "--workers=8"],
                    "serviceAccount": {"create": False, "name": "made-before"},
                    "podAnnotations": {
                        "prometheus.io/scrape": None,
                        "prometheus.io/port": None,
                        "a": "1",
                    },
                    "podLabels": {"b": "2"},
                    "runAsUser": 1000660000,
                    "runAsGroup": None,
                    "resources": {"limits": {"memory": "2Gi", "cpu": 1}},
                    "priorityClassName": "system-cluster-critical",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [
                        {"key": "control", "operator": "Exists", "effect": "NoSchedule"}
                    ],
                    "affinity": {
                        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}
                    },
                    "topologySpreadConstraints": [
                        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                    ],
                }
            ),
        )
        found = bed.objects(text)
        self.assertFalse([name for name in found if name.startswith("ServiceAccount")])
        bound = found[f"ClusterRoleBinding /{RELEASE}-ddp-operator"]["subjects"]
        self.assertEqual(
            [(who["namespace"], who["name"]) for who in bound], [(NAMESPACE, "made-before")]
        )
        deployment = found[f"Deployment {NAMESPACE}/{RELEASE}-ddp-operator"]["spec"]
        self.assertEqual(deployment["replicas"], 2)
        meta, pod = deployment["template"]["metadata"], deployment["template"]["spec"]
        self.assertEqual(meta["annotations"], {"a": "1"})
        self.assertEqual(
            meta["labels"],
            {
                "b": "2",
                "app.kubernetes.io/name": "ddp-operator",
                "app.kubernetes.io/instance": RELEASE,
            },
        )
        container = pod["containers"][0]
        self.assertEqual(container["image"], f"registry.local:5000/a/b@{digest}")
        self.assertEqual(container["imagePullPolicy"], "Always")
        self.assertEqual(container["args"], ["--leader-elect", "--log-level=debug", "--workers=8"])
        self.assertEqual(
            container["resources"],
            {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "2Gi", "cpu": 1},
            },
        )
        self.assertEqual(
            pod["securityContext"],
            {
                "runAsNonRoot": True,
                "runAsUser": 1000660000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        )
        self.assertEqual(pod["serviceAccountName"], "made-before")
        self.assertEqual(pod["imagePullSecrets"], [{"name": "registry"}])
        self.assertEqual(pod["priorityClassName"], "system-cluster-critical")
        self.assertEqual(pod["nodeSelector"], {"kubernetes.io/os": "linux"})
        self.assertEqual(pod["tolerations"][0]["key"], "control")
        self.assertIn("podAntiAffinity", pod["affinity"])
        self.assertEqual(pod["topologySpreadConstraints"][0]["topologyKey"], "zone")
        self.dry_run(text)

    def test_an_api_server_takes_every_object(self):
        self.dry_run(bed.render())
        self.dry_run(bed.render("--set", "watchNamespace=team,crds.keep=false"))
        names = "fullnameOverride=a,nameOverride=b,image.tag=v1,crds.enabled=false"
        self.dry_run(bed.render("--set", names))

    def dry_run(self, text):
        bed.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", text=text)
        for name, thing in bed.objects(text).items():
            self.assertNotIn("status", thing, name)
            if thing["kind"] == "Deployment":  # the namespace enforces `restricted`; on pods alone
                pod = thing["spec"]["template"]
                pod["spec"].pop("priorityClassName", None)  # the controllers' to make
                pod |= {"apiVersion": "v1", "kind": "Pod"}
                pod["metadata"] |= {"name": "operator", "namespace": thing["metadata"]["namespace"]}
                bed.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(pod))

    def test_crds_can_be_left_out_and_let_go(self):
        found = bed.objects(bed.render("--set", "crds.enabled=false"))
        self.assertFalse([name for name in found if CRD in name])
        found = bed.objects(bed.render("--set", "crds.keep=false"))
        self.assertNotIn("annotations", found[f"CustomResourceDefinition /{CRD}"]["metadata"])


JOB = """
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: small}
spec:
  replicas: 2
  template:
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 1, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: worker
        image: none
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""


class Installed(unittest.TestCase):
    def setUp(self):
        self.addCleanup(bed.kubectl, "delete", "crd", CRD, "--ignore-not-found")

    def install(self, *arguments, job_in):
        """Installs, runs the operator as the chart would, and sees it make a job's pods.

        Returns the operator's account, and the requests that it made."""
        before = (bed.state / "audit.log").stat().st_size
        notes = bed.helm("install", RELEASE, CHART, "-n", NAMESPACE, *arguments)
        self.addCleanup(bed.helm, "uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found")
        self.assertIn(
            f"kubectl -n {NAMESPACE} rollout status deployment/{RELEASE}-ddp-operator", notes
        )
        bed.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        with self.operator():
            bed.kubectl("-n", job_in, "create", "-f", "-", text=JOB)
            for rank in range(2):
                bed.kubectl(
                    "-n", job_in, "wait", "--for=create", f"pod/small-1-{rank}", "--timeout=30s"
                )
        account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-ddp-operator"
        log = (bed.state / "audit.log").read_bytes()[before:].decode()
        requests = [json.loads(line) for line in log.splitlines()]
        return account, [request for request in requests if request["user"]["username"] == account]

    @contextlib.contextmanager
    def operator(self):
        """The Deployment's container as a process, with its account's token."""
        name = f"{RELEASE}-ddp-operator"
        pod = json.loads(bed.kubectl("-n", NAMESPACE, "get", "deployment", name, "-o", "json"))
        pod = pod["spec"]["template"]["spec"]
        token = bed.kubectl("-n", NAMESPACE, "create", "token", pod["serviceAccountName"]).strip()
        own = bed.state / "operator.kubeconfig"
        own.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "pod",
                    "contexts": [
                        {
                            "name": "pod",
                            "context": {"cluster": "here", "user": "pod", "namespace": NAMESPACE},
                        }
                    ],
                    "users": [{"name": "pod", "user": {"token": token}}],
                    "clusters": [
                        {
                            "name": "here",
                            "cluster": {
                                "server": (bed.state / "server").read_text().strip(),
                                "certificate-authority": str(bed.state / "pki/ca.crt"),
                            },
                        }
                    ],
                }
            )
        )
        program = os.environ["DDP_OPERATOR"]
        arguments = [*pod["containers"][0]["args"], "--health-port=0", f"--kubeconfig={own}"]
        with open(bed.state / "logs/operator.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
            try:
                yield
            except BaseException:
                print((bed.state / "logs/operator.log").read_text())
                raise
            finally:
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=30), 0)

    def test_all_namespaces_and_the_resource_outlives_the_release(self):
        account, requests = self.install(job_in="team")
        self.assertEqual([r for r in requests if r["responseStatus"]["code"] == 403], [])
        self.assertIn(("create", "leases", NAMESPACE), refs(requests))
        self.assertTrue(bed.may(account, "create", "pods", "-A"))
        for verb, resource in (("create", "deployments"), ("get", "secrets"), ("delete", "nodes")):
            self.assertFalse(bed.may(account, verb, resource, "-A"), (verb, resource))

        bed.helm("upgrade", RELEASE, CHART, "-n", NAMESPACE, "--set", "replicas=2")
        bed.helm("uninstall", RELEASE, "-n", NAMESPACE)
        bed.kubectl("-n", "team", "get", "ddp/small", "pod/small-1-0")
        self.assertFalse(bed.may(account, "create", "pods", "-A"))
        bed.helm("install", RELEASE, CHART, "-n", NAMESPACE)  # over what was kept

    def test_one_namespace(self):
        account, requests = self.install("--set", "watchNamespace=team", job_in="team")
        self.assertEqual([r for r in requests if r["responseStatus"]["code"] == 403], [])
        self.assertEqual({where for _, resource, where in refs(requests) if resource}, {"team"})
        self.assertTrue(bed.may(account, "create", "pods", "-n", "team"))
        self.assertFalse(bed.may(account, "list", "ddpjobs.ddpjob.dev", "-n", NAMESPACE))
        for kind in ("clusterrole", "clusterrolebinding"):
            said = bed.kubectl("get", kind, f"{RELEASE}-ddp-operator", good=False)
            self.assertIn("NotFound", said)


def refs(requests):
    """(verb, resource, namespace) of requests of the audit log."""
    found = set()
    for request in requests:
        ref = request.get("objectRef", {})
        found.add((request["verb"], ref.get("resource", ""), ref.get("namespace", "")))
    return found


if __name__ == "__main__":
    unittest.main()
