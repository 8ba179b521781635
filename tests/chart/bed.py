"""What the chart's tests run against: a real API server, Helm and kubectl."""

import atexit
import functools
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/ddp-operator"
CLUSTER = ROOT / "tests/testbed/cluster.sh"
CRD = "ddpjobs.ddpjob.dev"
# Names that YAML reads as numbers where they are not quoted, and that have nothing of the chart's.
RELEASE, NAMESPACE = "1e5", "0077"


@functools.cache
def bed():
    """The one Bed of this process; it goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ddp-chart.")
    atexit.register(folder.cleanup)
    made = Bed(folder.name)
    atexit.register(made.down)
    for name in (NAMESPACE, "ddp-system", "team"):
        made.kubectl("create", "namespace", name)
        made.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    return made


class Bed:
    """A control plane, and the programs that talk to it."""

    def __init__(self, folder):
        self.state = pathlib.Path(folder, "state")
        self.helm_program = self.run(ROOT / "tests/testbed/build.sh", "helm")
        self.kubeconfig = self.run(
            CLUSTER, "control-plane", self.state, "--follow", str(os.getpid())
        )
        self.environment = (
            os.environ
            | {"KUBECONFIG": self.kubeconfig}
            | {f"HELM_{kind}_HOME": f"{folder}/helm" for kind in ("CACHE", "CONFIG", "DATA")}
        )

    @staticmethod
    def run(*command):
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
            raise AssertionError(
                f"{command} ended with {done.returncode}:\n{said[-4000:]}\ninput:\n{(text or '')[:4000]}"
            )
        return done.stdout if good else said

    def helm(self, *arguments, **more):
        return self._call(self.helm_program, *arguments, **more)

    def kubectl(self, *arguments, **more):
        return self._call(self.state / "bin/kubectl", *arguments, **more)

    @functools.cached_property
    def _prometheus_resources(self):
        folder = self.run(ROOT / "tests/testbed/build.sh", "prometheus-crds")
        kinds = ("podmonitors", "servicemonitors", "prometheusrules")
        for kind in kinds:
            self.kubectl("create", "-f", f"{folder}/monitoring.coreos.com_{kind}.yaml")
        for kind in kinds:
            name = f"crd/{kind}.monitoring.coreos.com"
            self.kubectl("wait", "--for=condition=Established", name, "--timeout=30s")

    def prometheus_resources(self):
        """Teaches the API server the resources of Prometheus' operator, once."""
        return self._prometheus_resources

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
