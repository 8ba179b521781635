"""The chart installed on a real API server, with the real operator, $DDP_OPERATOR, run as the chart would run it."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import unittest

from bed import CHART, CRD, NAMESPACE, RELEASE, ROOT, bed

PREVIOUS = "b0fb82622121fa4f62b83516221ffef05f0a1c8c"  # the last commit with chart version 0.1.0

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
        self.addCleanup(bed().kubectl, "delete", "crd", CRD, "--ignore-not-found")

    def install(self, *arguments, job_in):
        """Installs, runs the operator as the chart would, and sees it make a job's pods.

        Returns the operator's account, and the requests that it made."""
        before = (bed().state / "audit.log").stat().st_size
        notes = bed().helm("install", RELEASE, CHART, "-n", NAMESPACE, *arguments)
        self.addCleanup(bed().helm, "uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found")
        self.assertIn(
            f"kubectl -n {NAMESPACE} rollout status deployment/{RELEASE}-ddp-operator", notes
        )
        bed().kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        with self.operator():
            bed().kubectl("-n", job_in, "create", "-f", "-", text=JOB)
            for rank in range(2):
                bed().kubectl(
                    "-n", job_in, "wait", "--for=create", f"pod/small-1-{rank}", "--timeout=30s"
                )
            self.check_rights(*arguments)
        account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-ddp-operator"
        log = (bed().state / "audit.log").read_bytes()[before:].decode()
        requests = [json.loads(line) for line in log.splitlines()]
        own = [request for request in requests if request["user"].get("username") == account]
        # Those of the selfcheck alone, which everybody may make.
        return account, [r for r in own if "selfsubjectaccessreviews" not in r["requestURI"]]

    def check_rights(self, *arguments):
        """What `helm test` runs: it looks at each right that the role has, and at no other."""
        code, said = self.selfcheck(*arguments)
        self.assertEqual(code, 0, said)
        kind, where = ("role", ["-n", "team"]) if arguments else ("clusterrole", [])
        role = json.loads(
            bed().kubectl("get", kind, f"{RELEASE}-ddp-operator", *where, "-o", "json")
        )
        has = {
            f"may {verb} {resource}{'.' if group else ''}{group}"
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        looked_at = {line[5:] for line in said.splitlines() if line.startswith("ok   may ")}
        self.assertEqual(looked_at, has)

    def selfcheck(self, *arguments):
        """Runs the container of `helm test` as a process; its code and what it says."""
        text = bed().render(*arguments, "--show-only", "templates/tests/selfcheck.yaml")
        (pod,) = bed().objects(text).values()
        own = self.account(pod["spec"]["serviceAccountName"])
        done = subprocess.run(
            [
                os.environ["DDP_OPERATOR"],
                *pod["spec"]["containers"][0]["args"],
                f"--kubeconfig={own}",
            ],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        return done.returncode, done.stdout

    @contextlib.contextmanager
    def operator(self):
        """The Deployment's container as a process, with its account's token."""
        name = f"{RELEASE}-ddp-operator"
        pod = json.loads(bed().kubectl("-n", NAMESPACE, "get", "deployment", name, "-o", "json"))
        pod = pod["spec"]["template"]["spec"]
        own = self.account(pod["serviceAccountName"])
        program = os.environ["DDP_OPERATOR"]
        arguments = [*pod["containers"][0]["args"], "--health-port=0", f"--kubeconfig={own}"]
        with open(bed().state / "logs/operator.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
            try:
                yield
            except BaseException:
                print((bed().state / "logs/operator.log").read_text())
                raise
            finally:
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=30), 0)

    def account(self, name):
        """A kubeconfig with the token of a service account."""
        own = bed().state / f"{name}.kubeconfig"
        token = bed().kubectl("-n", NAMESPACE, "create", "token", name).strip()
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
                                "server": (bed().state / "server").read_text().strip(),
                                "certificate-authority": str(bed().state / "pki/ca.crt"),
                            },
                        }
                    ],
                }
            )
        )
        return own

    def test_all_namespaces_and_the_resource_outlives_the_release(self):
        account, requests = self.install(job_in="team")
        self.assertEqual([r for r in requests if r["responseStatus"]["code"] == 403], [])
        self.assertIn(("create", "leases", NAMESPACE), refs(requests))
        self.assertTrue(bed().may(account, "create", "pods", "-A"))
        for verb, resource in (("create", "deployments"), ("get", "secrets"), ("delete", "nodes")):
            self.assertFalse(bed().may(account, verb, resource, "-A"), (verb, resource))

        bed().helm("uninstall", RELEASE, "-n", NAMESPACE)
        self.assertFalse(bed().may(account, "create", "pods", "-A"))

    def test_one_namespace(self):
        account, requests = self.install("--set", "watchNamespace=team", job_in="team")
        self.assertEqual([r for r in requests if r["responseStatus"]["code"] == 403], [])
        self.assertEqual({where for _, resource, where in refs(requests) if resource}, {"team"})
        self.assertTrue(bed().may(account, "create", "pods", "-n", "team"))
        self.assertFalse(bed().may(account, "list", "ddpjobs.ddpjob.dev", "-n", NAMESPACE))
        for kind in ("clusterrole", "clusterrolebinding"):
            said = bed().kubectl("get", kind, f"{RELEASE}-ddp-operator", good=False)
            self.assertIn("NotFound", said)

    def test_the_selfcheck_says_what_is_amiss(self):
        bed().helm("install", RELEASE, CHART, "-n", NAMESPACE, "--set", "crds.enabled=false")
        self.addCleanup(bed().helm, "uninstall", RELEASE, "-n", NAMESPACE)
        bed().kubectl("create", "-f", ROOT / "manifests/crd")
        without = [
            {
                "op": "replace",
                "path": "/rules/2/verbs",
                "value": ["get", "list", "watch", "create", "delete"],
            }
        ]
        role = f"{RELEASE}-ddp-operator"
        bed().kubectl("patch", "clusterrole", role, "--type=json", "-p", json.dumps(without))
        bed().kubectl("-n", NAMESPACE, "delete", "lease", "ddp-operator", "--ignore-not-found")
        code, said = self.selfcheck()
        bad = [line for line in said.splitlines() if line.startswith("FAIL")]
        self.assertEqual(code, 1, said)
        self.assertEqual(len(bad), 2, said)
        self.assertIn("may deletecollection pods: the account lacks this right", bad[0])
        self.assertIn(f"{NAMESPACE}/ddp-operator: no operator has ever held it", bad[1])

    def test_upgrade_from_the_previous_version_and_uninstall_leave_jobs_alone(self):
        with self.previous_chart() as old:
            bed().helm("install", RELEASE, old, "-n", NAMESPACE)
        self.addCleanup(bed().helm, "uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found")
        bed().kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        with self.operator():
            bed().kubectl("-n", "team", "create", "-f", "-", text=JOB)
            self.wait_for_pods("small")
            before = self.pods("small")

            bed().helm("upgrade", RELEASE, CHART, "-n", NAMESPACE)
            served = json.loads(bed().kubectl("get", "crd", CRD, "-o", "json"))
            spec = served["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            self.assertIn("scheduling", spec["properties"])  # new since then
        with self.operator():  # of the new version
            bed().kubectl("-n", "team", "create", "-f", "-", text=JOB.replace("small", "later"))
            self.wait_for_pods("later")
        self.assertEqual(self.pods("small"), before)

        bed().helm("uninstall", RELEASE, "-n", NAMESPACE)
        self.assertEqual(self.pods("small"), before)
        bed().kubectl("-n", "team", "get", "ddp/small", "ddp/later", "service/small")
        bed().helm("install", RELEASE, CHART, "-n", NAMESPACE)  # over what was kept
        with self.operator():
            bed().kubectl("-n", "team", "create", "-f", "-", text=JOB.replace("small", "last"))
            self.wait_for_pods("last")
        self.assertEqual(self.pods("small"), before)

    def test_values_of_an_older_version_are_refused_with_a_word_about_what_is_missing(self):
        with self.previous_chart() as old:
            bed().helm("install", RELEASE, old, "-n", NAMESPACE)
        self.addCleanup(bed().helm, "uninstall", RELEASE, "-n", NAMESPACE)
        upgrade = ["upgrade", RELEASE, CHART, "-n", NAMESPACE]
        self.assertIn("missing properties", bed().helm(*upgrade, "--reuse-values", good=False))
        bed().helm(*upgrade, "--reset-then-reuse-values")

    @contextlib.contextmanager
    def previous_chart(self):
        """The folder of the chart before this one, from the history; where there is none, the test is skipped."""
        found = subprocess.run(
            ["git", "-C", ROOT, "archive", PREVIOUS, "charts/ddp-operator"], capture_output=True
        )
        if found.returncode != 0:
            self.skipTest(f"no history with {PREVIOUS[:7]} here: {found.stderr.decode().strip()}")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["tar", "-x", "-C", folder], input=found.stdout, check=True)
            yield f"{folder}/charts/ddp-operator"

    def wait_for_pods(self, job):
        for rank in range(2):
            pod = f"pod/{job}-1-{rank}"
            bed().kubectl("-n", "team", "wait", "--for=create", pod, "--timeout=30s")

    def pods(self, job):
        """{name: uid} of a job's pods."""
        text = bed().kubectl(
            "-n", "team", "get", "pods", "-l", f"ddpjob.dev/job-name={job}", "-o", "json"
        )
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in json.loads(text)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }


def refs(requests):
    """(verb, resource, namespace) of requests of the audit log."""
    found = set()
    for request in requests:
        ref = request.get("objectRef", {})
        found.add((request["verb"], ref.get("resource", ""), ref.get("namespace", "")))
    return found


if __name__ == "__main__":
    unittest.main()
