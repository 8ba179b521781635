"""The Helm chart: it renders what manifests/ has, refuses typos, and suits a real API server."""

import json
import re
import subprocess
import tarfile
import tempfile
import unittest

from bed import CHART, CRD, NAMESPACE, RELEASE, ROOT, bed


class Text(unittest.TestCase):
    def test_copies_and_readme_are_in_step(self):
        subprocess.run([ROOT / "charts/sync.sh", "--check"], check=True)

    def test_the_version_is_the_projects(self):
        project = re.search(r"project\(ddp VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        chart = dict(re.findall(r"(?m)^(\w+): (\S+)$", (CHART / "Chart.yaml").read_text()))
        self.assertEqual(chart["appVersion"], project)

    def test_lint(self):
        bed().helm("lint", "--strict", "--quiet", CHART)
        bed().helm("lint", "--strict", "--quiet", CHART, "-f", "-", text=json.dumps(EVERYTHING))

    def test_packaged_it_has_all_it_needs_and_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            path = bed().helm("package", CHART, "-d", folder).split(": ")[1].strip()
            names = set(tarfile.open(path).getnames())
        top = {name.split("/")[1] for name in names}
        self.assertEqual(
            top,
            {
                ".helmignore",
                "Chart.yaml",
                "README.md",
                "files",
                "templates",
                "values.schema.json",
                "values.yaml",
            },
        )
        for name in ("ddpjob.yaml", "rules.yaml", "dashboards/ddp-training.json"):
            self.assertIn(f"ddp-operator/files/{name}", names)

    def test_an_older_kubernetes_is_refused(self):
        said = bed().render("--kube-version", "1.28.9", good=False)
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


# Every part of the chart that is off by default.
EVERYTHING = {
    "replicas": 2,
    "commonLabels": {"team": "platform"},
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "apiServer": {"cidrs": ["10.0.0.1/32"]},
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
    },
    "metrics": {"tlsSecret": "metrics-tls", "tokenSecret": "metrics-token"},
    "monitoring": {
        "labels": {"release": "prometheus"},
        "serviceMonitor": {
            "enabled": True,
            "interval": "30s",
            "scrapeTimeout": "10s",
            "relabelings": [{"action": "labeldrop", "regex": "a"}],
            "metricRelabelings": [{"action": "labeldrop", "regex": "b"}],
        },
        "workerPodMonitor": {"enabled": True, "ranks": "All", "labels": {"release": "other"}},
        "rules": {"enabled": True, "alertLabels": {"team": "ml"}, "disabled": ["DDPJobStraggler"]},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Training"}},
    },
}


class Drift(unittest.TestCase):
    """Installed as the manifests are, the chart makes the same objects."""

    maxDiff = 4000

    def test_every_object_is_that_of_the_manifests(self):
        self.compare("operator", crd=True)

    def test_hardened_too(self):
        self.compare(
            "hardened",
            "--set",
            "replicas=2,podDisruptionBudget.enabled=true,networkPolicy.enabled=true",
        )

    def test_monitoring_too(self):
        bed().prometheus_resources()
        on = [
            f"monitoring.{part}.enabled=true"
            for part in ("podMonitor", "workerPodMonitor", "rules", "dashboards")
        ]
        self.compare(
            "monitoring", "--set", ",".join(on), only="^(PodMonitor|PrometheusRule|ConfigMap) "
        )

    def compare(self, folder, *arguments, crd=False, only=""):
        wanted = bed().objects(bed().kubectl("kustomize", ROOT / "manifests" / folder))
        if crd:
            wanted |= bed().objects((ROOT / "manifests/crd/ddpjob.yaml").read_text())
        else:
            arguments = [*arguments, "--set", "crds.enabled=false"]
        wanted.pop("Namespace /ddp-system", None)  # Helm makes none, or --create-namespace does
        text = bed().render(*arguments, release="ddp-operator", namespace="ddp-system")
        got = {name: thing for name, thing in bed().objects(text).items() if re.search(only, name)}
        got.pop("Pod ddp-system/ddp-operator-test", None)  # of `helm test`
        self.assertEqual(set(got), set(wanted))
        for name, thing in got.items():
            with self.subTest(name):
                meta = thing["metadata"]
                self.assertEqual(meta["labels"]["app.kubernetes.io/managed-by"], "Helm")
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
        labels = thing["metadata"].pop("labels", None) or {}
        kept = {key: value for key, value in labels.items() if "rbac." in key or "grafana" in key}
        if kept:
            thing["metadata"]["labels"] = kept
        for part in ("selector", "podSelector"):  # the manifests have no instance
            found = thing.get("spec", {}).get(part, {}).get("matchLabels", {})
            found.pop("app.kubernetes.io/instance", None)
        if not thing["metadata"].get("annotations"):
            thing["metadata"].pop("annotations", None)
        if thing["kind"] == "Deployment":
            labels = thing["spec"]["template"]["metadata"]["labels"]
            labels.pop("app.kubernetes.io/instance", None)
            self.assertEqual(thing["spec"]["selector"]["matchLabels"], labels)
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
            ("extraArgs[0]=--metrics-port=1", "extraArgs/0"),
            ("extraArgs[0]=debug", "extraArgs/0"),
            ("extraEnv[0].nam=A", "'nam'"),
            ("networkPolicy.enable=true", "'enable'"),
            ("networkPolicy.apiServer.ports[0]=70000", "ports/0"),
            ("networkPolicy.metricsFrom[0].pods.a=b", "'pods'"),
            ("podDisruptionBudget.minAvailable=1", "'minAvailable'"),
            ("podDisruptionBudget.maxUnavailable=half", "maxUnavailable"),
            ("metrics.tls=secret", "'tls'"),
            ("userRoles.agregate=true", "'agregate'"),
            ("monitoring.serviceMonitor.intervall=30s", "'intervall'"),
            ("monitoring.serviceMonitor.interval=half a minute", "interval"),
            ("monitoring.workerPodMonitor.ranks=Some", "ranks"),
            ("monitoring.rules.disabled[0]=Straggler", "disabled/0"),
            ("monitoring.dashboard.enabled=true", "'dashboard'"),
            (r"commonLabels.helm\.sh/chart=a", "helm.sh/chart"),
        ):
            with self.subTest(mistake):
                text = bed().render("--set", mistake, good=False)
                self.assertIn("don't meet the specifications of the schema", text)
                self.assertIn(said, text)

    def test_all_that_can_be_set_arrives_in_the_pod(self):
        digest = "sha256:" + "0" * 64
        text = bed().render(
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
                    "extraEnv": [{"name": "TZ", "value": "UTC"}],
                    "serviceAccount": {"create": False, "name": "made-before"},
                    "jobs": {
                        "networkPolicies": {"enabled": True, "progressFrom": ["monitoring"]},
                        "forceDeleteAfterSeconds": 0,
                    },
                    "metrics": {"scrapeAnnotations": False},
                    "podAnnotations": {"a": "1"},
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
        found = bed().objects(text)
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
        self.assertEqual(
            container["args"],
            [
                "--leader-elect",
                "--network-policies",
                "--progress-from=monitoring",
                "--force-delete-after=0",
                "--job-metrics",
                "--log-level=debug",
                "--workers=8",
            ],
        )
        self.assertEqual(container["env"], [{"name": "TZ", "value": "UTC"}])
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
        self.assertEqual(
            pod["topologySpreadConstraints"],
            [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {
                        "matchLabels": {
                            "app.kubernetes.io/name": "ddp-operator",
                            "app.kubernetes.io/instance": RELEASE,
                        }
                    },
                }
            ],
        )
        self.dry_run(text)

    def test_an_api_server_takes_every_object(self):
        self.dry_run(bed().render())
        self.dry_run(bed().render("--set", "watchNamespace=team,crds.keep=false"))
        names = "fullnameOverride=a,nameOverride=b,image.tag=v1,crds.enabled=false"
        self.dry_run(bed().render("--set", names))
        self.dry_run(bed().render(release="r" * 53))

    def test_it_takes_everything_at_once(self):
        bed().prometheus_resources()
        text = bed().render("-f", "-", text=json.dumps(EVERYTHING))
        self.dry_run(text)
        found = bed().objects(text)
        self.assertEqual(
            sorted(name for name in found if "dashboard" in name or "onitor" in name or "Rule " in name),
            [f"ConfigMap {NAMESPACE}/{RELEASE}-ddp-operator-dashboard-ddp-{name}" for name in ("jobs", "operator-health", "training")]
            + [f"PodMonitor {NAMESPACE}/{RELEASE}-ddp-operator-workers", f"PrometheusRule {NAMESPACE}/{RELEASE}-ddp-operator",
               f"ServiceMonitor {NAMESPACE}/{RELEASE}-ddp-operator"],
        )  # fmt: skip
        for name, thing in found.items():
            labels = thing["metadata"]["labels"]
            self.assertEqual(labels["team"], "platform", name)
            if "onitor" in name or "Rule " in name or "ConfigMap" in name:
                self.assertEqual(
                    labels["release"], "other" if "workers" in name else "prometheus", name
                )
        monitor = found[f"ServiceMonitor {NAMESPACE}/{RELEASE}-ddp-operator"]["spec"]["endpoints"][
            0
        ]
        service = found[f"Service {NAMESPACE}/metrics-{RELEASE}-ddp-operator"]
        self.assertEqual(
            monitor["tlsConfig"]["serverName"], f"{service['metadata']['name']}.{NAMESPACE}.svc"
        )
        pod = found[f"Deployment {NAMESPACE}/{RELEASE}-ddp-operator"]["spec"]["template"]["spec"]
        ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        self.assertEqual(ports, {"health": 8080, "metrics": 8443})
        self.assertEqual(service["spec"]["ports"][0]["targetPort"], "metrics")
        rules = found[f"PrometheusRule {NAMESPACE}/{RELEASE}-ddp-operator"]["spec"]["groups"]
        alerts = {
            rule["alert"]: rule for group in rules for rule in group["rules"] if "alert" in rule
        }
        self.assertNotIn("DDPJobStraggler", alerts)
        self.assertEqual(alerts["DDPJobFailed"]["labels"], {"severity": "warning", "team": "ml"})
        self.assertIn("{{ $labels.namespace }}", alerts["DDPJobFailed"]["annotations"]["summary"])
        for name, thing in found.items():
            if thing["kind"] == "ConfigMap":
                for file, content in thing["data"].items():
                    original = (ROOT / "manifests/monitoring/dashboards" / file).read_text()
                    self.assertEqual(content, original)

    def test_two_monitors_of_one_operator_are_refused(self):
        both = "monitoring.serviceMonitor.enabled=true,monitoring.podMonitor.enabled=true"
        self.assertIn("choose one", bed().render("--set", both, good=False))

    def test_rights_to_jobs_go_with_those_to_pods(self):
        """Kubernetes' own roles select ours by its label, and have the same verbs for pods."""
        ours = bed().objects(bed().render())
        for role, of in (("viewer", ["view"]), ("editor", ["edit", "admin"])):
            mine = ours[f"ClusterRole /{RELEASE}-ddp-operator-job-{role}"]
            for name in of:
                theirs = json.loads(bed().kubectl("get", "clusterrole", name, "-o", "json"))
                labels = theirs["aggregationRule"]["clusterRoleSelectors"]
                self.assertTrue(
                    any(
                        s["matchLabels"].items() <= mine["metadata"]["labels"].items()
                        for s in labels
                    )
                )
            part = json.loads(
                bed().kubectl("get", "clusterrole", f"system:aggregate-to-{of[0]}", "-o", "json")
            )
            pods = [
                set(rule["verbs"]) for rule in part["rules"] if "pods" in rule.get("resources", [])
            ]
            self.assertEqual(set(mine["rules"][0]["verbs"]) - {"get", "list", "watch"},
                             set().union(*pods) - {"get", "list", "watch"})  # fmt: skip

    def dry_run(self, text):
        bed().kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", text=text)
        for name, thing in bed().objects(text).items():
            self.assertNotIn("status", thing, name)
            if thing["kind"] == "Deployment":  # the namespace enforces `restricted`; on pods alone
                pod = thing["spec"]["template"]
                pod["spec"].pop("priorityClassName", None)  # the controllers' to make
                pod |= {"apiVersion": "v1", "kind": "Pod"}
                pod["metadata"] |= {"name": "operator", "namespace": thing["metadata"]["namespace"]}
                bed().kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(pod))

    def test_crds_can_be_left_out_and_let_go(self):
        found = bed().objects(bed().render("--set", "crds.enabled=false"))
        self.assertFalse([name for name in found if CRD in name])
        found = bed().objects(bed().render("--set", "crds.keep=false"))
        self.assertNotIn("annotations", found[f"CustomResourceDefinition /{CRD}"]["metadata"])


if __name__ == "__main__":
    unittest.main()
