"""The examples learn, go on where they were killed, and do so with another number of ranks.

usage: examples_test.py LESSON CONVNET
"""

import pathlib
import re
import sys
import tempfile
import unittest

import ranks

LESSON, CONVNET = sys.argv[1:3]
SECONDS = 100


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def result(self, program, name, count, *arguments):
        """What rank 0 prints at the end, as numbers by name."""
        results = ranks.run([program, f"{self.folder.name}/{name}", *arguments], count, SECONDS)
        for code, output in results:
            self.assertEqual(code, 0, output)
        found = re.search(
            r"(\d+) rank\(s\), step (\d+): accuracy ([\d.]+) %.*parameters (\w+)", results[0][1]
        )
        self.assertTrue(found, results[0][1])
        return {
            "step": int(found[2]),
            "accuracy": float(found[3]),
            "parameters": found[4],
            "output": results[0][1],
        }

    def test_the_lesson_learns_and_goes_on_to_the_bit(self):
        whole = self.result(LESSON, "whole", 2, "60")
        self.assertGreater(whole["accuracy"], 95)
        self.result(LESSON, "parts", 2, "25")
        parts = self.result(LESSON, "parts", 2, "60")
        self.assertEqual(parts["parameters"], whole["parameters"])

    def test_the_convnet_learns_also_in_16_bits(self):
        self.assertGreater(self.result(CONVNET, "f32", 2, "60")["accuracy"], 90)
        self.assertGreater(self.result(CONVNET, "bf16", 2, "60", "bf16")["accuracy"], 80)

    def test_the_convnet_goes_on_after_kill_and_with_other_ranks(self):
        whole = self.result(CONVNET, "whole", 2, "60")
        processes = ranks.start([CONVNET, f"{self.folder.name}/killed", "100000"], 2)
        saved = pathlib.Path(self.folder.name, "killed", "step-000000000020", "state.json")
        while not saved.exists() and processes[0].poll() is None:
            try:
                processes[0].wait(0.02)
            except ranks.subprocess.TimeoutExpired:
                pass
        processes[0].kill()
        code, output = ranks.finish(processes, 20)[1]
        self.assertEqual(code, 69, output)  # the other one saw it, and ended
        steps = [int(p.name[5:]) for p in saved.parent.parent.glob("step-*") if p.is_dir()]
        goal = str(max(steps) + 40)
        undisturbed = self.result(CONVNET, "undisturbed", 2, goal)
        self.assertEqual(
            self.result(CONVNET, "killed", 2, goal)["parameters"], undisturbed["parameters"]
        )
        # 2 ranks, then 3, then 1: the same batches, so the same model but for rounding.
        self.result(CONVNET, "moved", 2, "20")
        self.result(CONVNET, "moved", 3, "40")
        moved = self.result(CONVNET, "moved", 1, "60")
        self.assertAlmostEqual(moved["accuracy"], whole["accuracy"], delta=5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
