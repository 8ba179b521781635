"""A real Prometheus for the end-to-end tests, which scrapes the cluster as the chart's monitors say.

What Prometheus' operator would make of the PodMonitors is made here, for the parts that the chart uses. It runs in
the cluster's namespaces, with the project's rules, and goes with the cluster.
"""

import json
import re
import subprocess
import threading
import time
import urllib.parse

from testbed import CLUSTER, ROOT, Failed

DASHBOARDS = ROOT / "manifests/monitoring/dashboards"
RULES = ROOT / "manifests/monitoring/rules.yaml"
PORT = 9090
EVERY = "2s"


def scrape_config(monitor, targets):
    """One PodMonitor as a part of prometheus.yml."""
    spec, meta = monitor["spec"], monitor["metadata"]
    (endpoint,) = spec["podMetricsEndpoints"]
    where = spec.get("namespaceSelector", {})
    relabel = []
    if not where.get("any"):
        names = "|".join(where.get("matchNames", [meta["namespace"]]))
        relabel.append(keep("__meta_kubernetes_namespace", names))
    for key, value in spec["selector"].get("matchLabels", {}).items():
        relabel.append(keep(label_of(key), re.escape(value)))
    for rule in spec["selector"].get("matchExpressions", []):
        values = {"Exists": ".+", "In": "|".join(rule.get("values", []))}[rule["operator"]]
        relabel.append(keep(label_of(rule["key"]), values))
    relabel.append(keep("__meta_kubernetes_pod_container_port_name", endpoint["port"]))
    for source, target in (("namespace", "namespace"), ("pod_name", "pod"), ("pod_container_name", "container")):  # fmt: skip
        relabel.append({"source_labels": [f"__meta_kubernetes_{source}"], "target_label": target})
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    for rule in endpoint.get("relabelings", []):
        relabel.append({names.get(key, key): value for key, value in rule.items()})
    return {
        "job_name": f"podMonitor/{meta['namespace']}/{meta['name']}",
        "honor_labels": endpoint.get("honorLabels", False),
        "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
        "relabel_configs": relabel,
    }


def discover(pods):
    """What Prometheus' own discovery of pods finds: a target for each port. (Debian's build has no such discovery.)"""
    for pod in pods:
        meta, status = pod["metadata"], pod["status"]
        if not status.get("podIP"):
            continue
        labels = {
            "__meta_kubernetes_namespace": meta["namespace"],
            "__meta_kubernetes_pod_name": meta["name"],
            "__meta_kubernetes_pod_phase": status["phase"],
        }
        labels |= {label_of(key): value for key, value in meta.get("labels", {}).items()}
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", []):
                yield {
                    "targets": [f"{status['podIP']}:{port['containerPort']}"],
                    "labels": labels
                    | {
                        "__meta_kubernetes_pod_container_name": container["name"],
                        "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
                    },
                }


def label_of(key):
    return "__meta_kubernetes_pod_label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)


def keep(source, regex):
    return {"action": "keep", "source_labels": [source], "regex": regex}


class Prometheus:
    def __init__(self, cluster, monitors):
        self.cluster = cluster
        folder = cluster.state / "prometheus"
        folder.mkdir()
        self._targets = folder / "targets.json"
        self._targets.write_text("[]")
        config = {
            "global": {"scrape_interval": EVERY, "evaluation_interval": EVERY},
            "rule_files": [str(RULES)],
            "scrape_configs": [scrape_config(monitor, self._targets) for monitor in monitors],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config, indent=1))  # JSON is YAML too
        with open(cluster.state / "logs/prometheus.log", "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [
                    *(CLUSTER, "enter", cluster.state, "prometheus"),
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{PORT}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._done = threading.Event()
        self._discovery = threading.Thread(target=self._discover, daemon=True)
        self._discovery.start()
        cluster.wait("Prometheus to be ready", 60, lambda: self.get("status/runtimeinfo"))

    def _discover(self):
        while not self._done.wait(1):
            code, text = self.cluster.kubectl("get", "pods", "-A", "-o", "json", check=False)
            if code == 0:
                new = self._targets.with_suffix(".new")
                new.write_text(json.dumps(list(discover(json.loads(text)["items"]))))
                new.rename(self._targets)

    def down(self):
        self._done.set()
        self._discovery.join(timeout=30)
        self._process.terminate()
        self._process.wait(timeout=30)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{PORT}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        answer = json.loads(self.cluster.run("curl", "-sS", "--max-time", "20", url))
        if answer["status"] != "success":
            raise Failed(f"{path} {parameters}: {answer['error']}")
        return answer["data"]

    def query(self, expression):
        return self.get("query", query=expression)["result"]

    def query_range(self, expression, seconds, step=2):
        end = time.time() // step * step  # the same times for every expression: they are stacked
        return self.get("query_range", query=expression, start=end - seconds, end=end, step=step)[
            "result"
        ]

    def targets(self):
        """{"namespace/pod": health} of what is scraped."""
        return {
            f"{target['labels']['namespace']}/{target['labels']['pod']}": target["health"]
            for target in self.get("targets", state="active")["activeTargets"]
        }

    def firing(self):
        """(name, namespace, job) of alerts that fire."""
        return {
            (a["labels"]["alertname"], a["labels"].get("namespace"), a["labels"].get("job_name"))
            for a in self.get("alerts")["alerts"]
            if a["state"] == "firing"
        }


def panels():
    """(dashboard, panel, query) of all panels, with everything selected."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield board, panel, target, plain(target["expr"])


def plain(expression):
    """With Grafana's variables filled in: all is selected."""
    return re.sub(
        r"\$(\w+)", lambda name: "1m" if name[1] == "__rate_interval" else ".*", expression
    )
