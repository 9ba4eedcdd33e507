#!/usr/bin/python3
"""Tests of the Python package: its answers (answers_test.py), and its process."""

import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import unittest

os.environ["STEPCAST_PROGRAM"] = os.path.abspath("src/cli/stepcast")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from answers_test import *  # its tests, too

import stepcast._answers


class ProcessTest(unittest.TestCase):
    def process(self):
        stepcast.simulate(TOY)
        return stepcast._server._process

    def test_one_process_answers_all_questions(self):
        first = self.process()
        self.assertIs(self.process(), first)
        with self.assertRaises(stepcast.InputError):
            stepcast.simulate("no-such.yaml")
        self.assertIs(self.process(), first)

    def test_one_that_died_is_started_again(self):
        first = self.process()
        first.kill()
        first.wait()
        self.assertIsNot(self.process(), first)

    def test_an_interrupt_ends_a_question_and_not_the_next_one(self):
        self.process()
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() < began + 60:
                stepcast.sweep(DDP, {"training.micro_batch_size": "1..400 +1"})
        self.assertEqual(stepcast.simulate(TOY)["step_time_s"], 0.013)

    def test_relative_paths_follow_the_working_directory(self):
        self.process()
        before = os.getcwd()
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            pathlib.Path(folder, "toy.json").write_text(json.dumps(TOY))
            os.chdir(folder)
            try:
                self.assertEqual(stepcast.simulate("toy.json")["step_time_s"], 0.013)
                stepcast.emit("toy.json", "plan")
                self.assertTrue(os.path.exists("plan/plan.json"))
            finally:
                os.chdir(before)

    def test_a_child_has_its_own(self):
        first = self.process()
        child = os.fork()
        if child == 0:
            right = stepcast.simulate(TOY)["step_time_s"] == 0.013
            stepcast._server._end()
            os._exit(0 if right else 1)
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        self.assertIs(self.process(), first)


class TableTest(unittest.TestCase):
    def test_rows_are_flat_and_settings_go_by_their_keys(self):
        self.assertEqual(
            stepcast._answers._flat({"set": {"a.b": "1"}, "status": "ok", "warnings": ["w"],
                                     "memory": {"peak_bytes": 2}, "resolved": {"x": 1}}),
            {"a.b": "1", "status": "ok", "memory.peak_bytes": 2})

    def test_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        table = stepcast.sweep(DDP, {"training.micro_batch_size": [1, 2]}).to_dataframe()
        self.assertEqual(list(table["training.micro_batch_size"]), ["1", "2"])
        self.assertEqual(table["step_time_s"].notna().sum(), 2)


if __name__ == "__main__":
    test_report.main()
