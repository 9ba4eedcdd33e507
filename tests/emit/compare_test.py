#!/usr/bin/python3
"""`compare` and `memory --max-micro-batch` against the commands that they sum up."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")
DDP = "scenarios/gpt2-ddp/scenario.yaml"
ZERO3 = "scenarios/deepspeed-zero/scenario.yaml"


def run(*arguments):
    return subprocess.run([STEPCAST, *arguments], capture_output=True, text=True)


def document(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


class CompareTest(unittest.TestCase):
    def test_figures_are_those_of_simulate(self):
        change = "training.activation_checkpointing=full"
        compared = document("compare", DDP, ZERO3, "--set-b", change)
        for side, arguments in (("a", (DDP,)), ("b", (ZERO3, "--set", change))):
            simulated = document("simulate", *arguments)
            for key in ("scenario", "step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu",
                        "time_s", "communication", "memory", "resolved"):
                self.assertEqual(compared[side][key], simulated[key])

    def test_differences_are_b_less_a(self):
        compared = document("compare", DDP, ZERO3)
        a, b, difference = compared["a"], compared["b"], compared["difference"]
        self.assertAlmostEqual(difference["step_time_s"], b["step_time_s"] - a["step_time_s"], 9)
        for phase, seconds in difference["time_s"].items():
            self.assertAlmostEqual(seconds, b["time_s"][phase] - a["time_s"][phase], 9)
        # The parts of the difference add up to it.
        self.assertAlmostEqual(sum(difference["time_s"].values()), difference["step_time_s"], 9)
        for key, size in difference["memory"].items():
            self.assertEqual(size, b["memory"][key] - a["memory"][key])
        for entry in difference["collectives"]:
            def total(side):
                return sum(c["total_s"] for c in side["communication"]["collectives"]
                           if (c["collective"], c["group"]) ==
                           (entry["collective"], entry["group"]))
            self.assertAlmostEqual(entry["total_s"], total(b) - total(a), 9)

    def test_settings(self):
        compared = document("compare", DDP, "--set-b", "training.micro_batch_size=2")
        self.assertEqual(compared["settings"],
                         [{"key": "training.micro_batch_size", "a": "4", "b": "2"}])

    def test_mistakes_of_both(self):
        done = run("compare", "no-a.yaml", "no-b.yaml")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no-a.yaml", done.stderr)
        self.assertIn("no-b.yaml", done.stderr)
        done = run("compare", DDP, DDP, "--set", "training.precision=bf17")
        self.assertEqual(done.stderr.count("bf17'"), 1, done.stderr)

    def test_says_when_one_does_not_fit(self):
        """The table is the answer, whatever stands in it."""
        done = run("compare", DDP, "--set-b", "training.micro_batch_size=400")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("B does not fit", done.stdout)


class MaxMicroBatchTest(unittest.TestCase):
    def test_is_what_simulate_says(self):
        stages = document("memory", ZERO3, "--max-micro-batch")["stages"]
        for stage in stages:
            limit = stage["max_micro_batch"]
            for size, status in ((limit["micro_batch_size"], 0),
                                 (limit["micro_batch_size"] + 1, 3)):
                if size == 0:
                    continue
                done = run("simulate", ZERO3, "--set", f"data_parallel.zero_stage={stage['stage']}",
                           "--set", f"training.micro_batch_size={size}")
                self.assertEqual(done.returncode, status, done.stdout)

    def test_layer_lists_have_none(self):
        done = run("memory", "scenarios/bucket-sweep/scenario.yaml", "--max-micro-batch")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("command.no-micro-batch", done.stderr)


if __name__ == "__main__":
    test_report.main()
