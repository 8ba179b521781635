"""What tests rely on in cluster.sh: it comes up, comes back, and leaves nothing behind however it ends."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CLUSTER = pathlib.Path(__file__).with_name("cluster.sh")


def processes_of(state):
    """Processes whose command line names the state folder, as those of the cluster do."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(state).encode() in command and int(folder.name) != os.getpid():
            found.append(command.replace(b"\0", b" ").decode())
    return found


class ControlPlane(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name, "state")
        self.addCleanup(subprocess.run, [CLUSTER, "down", self.state], check=True)

    def cluster(self, *arguments):
        done = subprocess.run(
            [CLUSTER, *arguments], check=True, text=True, stdout=subprocess.PIPE, timeout=90
        )
        return done.stdout.strip()

    def kubectl(self, *arguments):
        kubectl, config = self.state / "bin/kubectl", self.state / "admin.kubeconfig"
        return subprocess.run(
            [kubectl, f"--kubeconfig={config}", *arguments],
            text=True,
            timeout=60,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def assert_nothing_runs(self):
        deadline = time.monotonic() + 10
        while left := processes_of(self.state):
            self.assertLess(time.monotonic(), deadline, left)
            time.sleep(0.05)

    def test_goes_down_and_comes_up_again_where_a_killed_one_was(self):
        self.assertEqual(
            self.cluster("control-plane", self.state), str(self.state / "admin.kubeconfig")
        )
        self.assertEqual(self.kubectl("create", "namespace", "kept").returncode, 0)
        self.cluster("restart-apiserver", self.state)
        self.assertEqual(self.kubectl("get", "namespace", "kept").returncode, 0)
        self.cluster("kill-apiserver", self.state)
        self.assertIn("refused", self.kubectl("get", "namespaces").stdout)

        os.kill(int((self.state / "supervisor").read_text().split()[0]), signal.SIGKILL)
        self.assert_nothing_runs()

        self.cluster("control-plane", self.state)
        self.assertIn("NotFound", self.kubectl("get", "namespace", "kept").stdout)
        self.cluster("down", self.state)
        self.assert_nothing_runs()

    def test_ends_with_the_process_it_is_told_to_follow(self):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as followed:
            self.cluster("control-plane", self.state, "--follow", str(followed.pid))
            self.assertTrue(processes_of(self.state))
        self.assert_nothing_runs()

    def test_supervised_it_ends_with_its_parent(self):
        script = "import subprocess, sys; subprocess.run(sys.argv[1:])"
        parent = subprocess.Popen(
            [sys.executable, "-c", script, CLUSTER, "control-plane", self.state, "--supervise"],
            stdout=subprocess.PIPE,
        )
        self.assertTrue(parent.stdout.readline())
        parent.kill()
        parent.communicate(timeout=30)
        self.assert_nothing_runs()

    def test_goes_down_while_nobody_reaps_its_supervisor(self):
        supervisor = subprocess.Popen(
            [CLUSTER, "control-plane", self.state, "--supervise"], stdout=subprocess.PIPE
        )
        self.assertTrue(supervisor.stdout.readline())
        self.cluster("down", self.state)
        self.assertEqual(supervisor.wait(timeout=10), 0)
        supervisor.stdout.close()
        self.assert_nothing_runs()

    def test_refuses_a_folder_that_is_not_its_own(self):
        self.state.mkdir()
        (self.state / "precious").touch()
        done = subprocess.run(
            [CLUSTER, "control-plane", self.state], text=True, stderr=subprocess.PIPE
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no state folder of a test bed", done.stderr)
        self.assertTrue((self.state / "precious").exists())


if __name__ == "__main__":
    unittest.main()
