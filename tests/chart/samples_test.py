"""The samples: what an API server and kubectl-ddp think of each, and of the pods that it would have."""

import json
import os
import subprocess
import time
import unittest

from bed import CRD, ROOT, bed

SAMPLES = sorted((ROOT / "manifests/samples").glob("*.yaml"))
CLI = os.environ["KUBECTL_DDP"]


class Samples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bed().kubectl("create", "-f", ROOT / "manifests/crd")
        bed().kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        cls.addClassCleanup(bed().kubectl, "delete", "crd", CRD)

    def test_an_api_server_takes_each(self):
        for path in SAMPLES:
            with self.subTest(path.name):
                bed().kubectl("create", "--dry-run=server", "--validate=strict", "-f", path)

    def test_so_does_kubectl_ddp_and_the_pods_are_good_too(self):
        for path in SAMPLES:
            if "kind: DDPJob\n" not in path.read_text():
                continue
            with self.subTest(path.name):
                for verb in ("validate", "render"):
                    done = subprocess.run(
                        [CLI, verb, "-f", path], text=True, capture_output=True, timeout=60
                    )
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                text = done.stdout
                self.assertIn("kind: Pod" if "kind:" in text else '"kind"', text)
                # Not served by this server: the test `gang` has one that does.
                text = "\n---\n".join(
                    part for part in text.split("\n---\n") if "\nkind: PodGroup\n" not in part
                )
                objects = bed().objects(text)
                pods = [name for name in objects if name.startswith("Pod ")]
                self.assertTrue(pods, text)
                for thing in objects.values():  # the owner is not there
                    thing["metadata"].pop("ownerReferences", None)
                    create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"]
                    bed().kubectl(*create, text=json.dumps(thing))

    def test_the_policy_limits_templates(self):
        bed().kubectl("create", "-f", ROOT / "manifests/samples/policy.yaml")
        self.addCleanup(bed().kubectl, "delete", "-f", ROOT / "manifests/samples/policy.yaml")
        bed().kubectl("create", "namespace", "limited")
        bed().kubectl("label", "namespace", "limited", "ddpjob.dev/limited=true")
        deadline = time.monotonic() + 60
        while self.create(image="docker.io/a") == "" and time.monotonic() < deadline:
            time.sleep(0.5)  # the API server takes a policy up after a while, and tells nobody when
        self.assertEqual(self.create(), "")
        for changed, said in (
            ({"image": "docker.io/a"}, "images must come from registry.example.com"),
            ({"replicas": 65}, "at most 64 ranks"),
            ({"pod": {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}}, "hostPath volumes"),
            ({"pod": {"serviceAccountName": "admin"}}, "service accounts"),
            ({"container": {"securityContext": {"privileged": True}}}, "privileged containers"),
        ):
            with self.subTest(said):
                self.assertIn(said, self.create(**changed))
        self.assertEqual(self.create(namespace="default", image="docker.io/a"), "")

    def create(self, namespace="limited", replicas=2, image="registry.example.com/a", pod=None, container=None):  # fmt: skip
        """What the API server has against such a job; "" for nothing."""
        worker = {"name": "worker", "image": image} | (container or {})
        spec = {"containers": [worker]} | (pod or {})
        job = {
            "apiVersion": "ddpjob.dev/v1alpha1",
            "kind": "DDPJob",
            "metadata": {"name": "limited", "namespace": namespace},
            "spec": {"replicas": replicas, "template": {"spec": spec}},
        }
        try:
            bed().kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(job))
        except AssertionError as refused:
            return str(refused)
        return ""


if __name__ == "__main__":
    unittest.main()
