#!/usr/bin/python3
"""Tests of `import stepcast`: results equal the commands' --json, exceptions have positions, and
other threads run during a call. package_test.py runs these tests."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = os.path.abspath("src/python/package")
sys.path[:0] = [PYTHON, str(HERE.parents[1] / "tests" / "cluster")]
import stepcast
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")
DDP = "scenarios/gpt2-ddp/scenario.yaml"
TOY = {
    "stepcast": 1,
    "model": {"kind": "layers", "optimizer_step": "1 ms",
              "layers": [{"name": "block", "repeat": 4, "parameters": [1024], "forward": "1 ms",
                          "backward": "2 ms", "activation": "0 B"}]},
    "cluster": {"topology": {"kind": "flat", "devices": 1, "memory": "1 GiB"}},
    "training": {"sequence_length": 10, "micro_batch_size": 1, "gradient_accumulation": 1,
                 "precision": "bf16", "optimizer": "sgd"},
    "data_parallel": {"zero_stage": 0, "framework": "reference"},
}


def document(*arguments):
    done = subprocess.run([STEPCAST, *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return without_times(json.loads(done.stdout))


def without_times(answer):
    return {key: value for key, value in answer.items() if key != "run"}


class AnswersTest(unittest.TestCase):
    def test_simulate(self):
        self.assertEqual(without_times(stepcast.simulate(DDP)), document("simulate", DDP))
        self.assertEqual(
            without_times(stepcast.simulate(pathlib.Path(DDP), set={
                "training.micro_batch_size": 2, "data_parallel.bucket_size": "10 MiB",
                "training.compile": True})),
            document("simulate", DDP, "--set", "training.micro_batch_size=2", "--set",
                     "data_parallel.bucket_size=10 MiB", "--set", "training.compile=true"))

    def test_a_dict(self):
        """Four layers of 3 ms and an update of 1 ms."""
        self.assertEqual(stepcast.simulate(TOY)["step_time_s"], 0.013)
        self.assertEqual(stepcast.simulate(TOY, set={"model.layers.0.repeat": 5})["step_time_s"],
                         0.016)
        self.assertEqual(stepcast.simulate(stepcast.simulate(DDP)["resolved"])["step_time_s"],
                         stepcast.simulate(DDP)["step_time_s"])

    def test_one_that_does_not_fit_is_an_answer(self):
        self.assertFalse(
            stepcast.simulate(DDP, set={"training.micro_batch_size": 500})["memory"]["fits"])

    def test_sweep(self):
        rows = stepcast.sweep(DDP, {"data_parallel.zero_stage": [0, 3],
                                    "data_parallel.bucket_size": "1 MiB,25 MiB"})["rows"]
        self.assertEqual(rows, document("sweep", DDP, "--vary", "data_parallel.zero_stage=0,3",
                                        "--vary", "data_parallel.bucket_size=1 MiB,25 MiB")["rows"])
        self.assertEqual([row["status"] for row in rows], ["ok"] * 2 + ["illegal"] * 2)
        with self.assertRaises(stepcast.InputError):
            stepcast.sweep(DDP, {"training.micro_batch_size": [1, 0]})

    def test_plan(self):
        vary = {"training.micro_batch_size": [1, 2], "data_parallel.bucket_size": "5 MiB,25 MiB"}
        options = ("--framework", "ddp", "--only", "data", "--vary", "training.micro_batch_size=1,2",
                   "--vary", "data_parallel.bucket_size=5 MiB,25 MiB")
        answer = stepcast.plan(DDP, framework="ddp", only="data", vary=vary, best=2)
        self.assertEqual(without_times(answer), document("plan", DDP, *options, "--best", "2"))
        best = answer["best"][0]
        self.assertEqual(stepcast.simulate(DDP, set=best["set"])["step_time_s"],
                         best["step_time_s"])
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            stepcast.plan(DDP, framework="ddp", only="data", vary=vary, emit=folder + "/plan")
            self.assertEqual(stepcast.simulate(folder + "/plan/plan.json")["step_time_s"],
                             best["step_time_s"])
        with self.assertRaises(stepcast.InputError):
            stepcast.plan(DDP, target="beauty")
        with self.assertRaises(stepcast.InputError):
            stepcast.plan(DDP, price=0)
        # No plan leaves 99 % of 80 GB free.
        self.assertEqual(stepcast.plan(DDP, framework="ddp", only="data", vary=vary, headroom="99%")["best"], [])

    def test_memory_compare_explain(self):
        self.assertEqual(without_times(stepcast.memory(DDP, max_micro_batch=True)),
                         document("memory", DDP, "--max-micro-batch"))
        self.assertEqual(
            without_times(stepcast.compare(DDP, set_b={"training.micro_batch_size": 2})),
            document("compare", DDP, "--set-b", "training.micro_batch_size=2"))
        self.assertEqual(without_times(stepcast.explain(DDP)), document("explain", DDP))

    def test_emit(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            plan = os.path.join(folder, "plan")
            forecast = stepcast.emit(DDP, plan)
            self.assertEqual(stepcast.simulate(plan + "/plan.json")["step_time_s"],
                             forecast["step_time_s"])
            with self.assertRaises(stepcast.InputError):
                stepcast.emit(DDP, plan)
            stepcast.emit(TOY, plan, force=True)
            self.assertEqual(stepcast.simulate(plan + "/plan.json")["step_time_s"], 0.013)

    def test_data_are_found_from_anywhere(self):
        program = ("import os, sys; sys.path.insert(0, sys.argv[1]); os.chdir('/'); "
                   "import stepcast; print(stepcast.simulate(sys.argv[2])['step_time_s'])")
        environment = {key: value for key, value in os.environ.items() if key != "STEPCAST_DATA"}
        done = subprocess.run([sys.executable, "-c", program, PYTHON, DDP],
                              capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(float(done.stdout), stepcast.simulate(DDP)["step_time_s"])


class ExampleTest(unittest.TestCase):
    def test_the_notebook_runs(self):
        example = os.path.abspath("docs/examples/bucket_sweep.py")
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            done = subprocess.run(
                [sys.executable, example], capture_output=True, text=True, cwd=folder,
                env={**os.environ, "PYTHONPATH": PYTHON,
                     "MPLBACKEND": "agg", "MPLCONFIGDIR": folder})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("32 GPUs: best with buckets of", done.stdout)
        self.assertIn("unknown key", done.stdout)


class MistakesTest(unittest.TestCase):
    def test_carry_positions(self):
        with self.assertRaises(stepcast.InputError) as caught:
            stepcast.simulate(DDP, set={"training.precision": "bf17"})
        self.assertIsInstance(caught.exception, ValueError)
        mistake, = caught.exception.diagnostics
        self.assertEqual(mistake["code"], "input.unknown-word")
        self.assertEqual(mistake["file"], "--set training.precision=bf17")
        self.assertIn("bf17", mistake["message"])
        self.assertIn("bf17", str(caught.exception))

    def test_of_a_dict(self):
        scenario = json.loads(json.dumps(TOY))
        scenario["training"]["precison"] = scenario["training"].pop("precision")
        with self.assertRaises(stepcast.InputError) as caught:
            stepcast.simulate(scenario)
        unknown = next(m for m in caught.exception.diagnostics if m["code"] == "input.unknown-key")
        self.assertEqual(unknown["file"], "dict")
        # The line of the dict in the output of json.dumps(scenario, indent=1).
        line = json.dumps(scenario, indent=1).splitlines()[unknown["line"] - 1]
        self.assertIn("precison", line)
        self.assertEqual(len(caught.exception.diagnostics), 2)  # it is missing, too

    def test_of_paths_axes_and_types(self):
        for call in (lambda: stepcast.simulate("no-such.yaml"), lambda: stepcast.simulate(""),
                     lambda: stepcast.sweep(DDP, {}),
                     lambda: stepcast.sweep(DDP, {"training.precison": ["bf16"]}),
                     lambda: stepcast.sweep(DDP, {"training.precision": []}),
                     lambda: stepcast.memory(TOY, max_micro_batch=True)):
            with self.assertRaises(stepcast.InputError) as caught:
                call()
            self.assertTrue(caught.exception.diagnostics[0]["message"])
        for call in (lambda: stepcast.simulate(3), lambda: stepcast.simulate(DDP, set=[1]),
                     lambda: stepcast.simulate({"a": object()})):
            self.assertRaises(TypeError, call)


class ThreadsTest(unittest.TestCase):
    def test_others_run_meanwhile(self):
        ticks = 0
        stop = threading.Event()

        def count():
            nonlocal ticks
            while not stop.is_set():
                ticks += 1
                time.sleep(0.001)

        counter = threading.Thread(target=count)
        counter.start()
        before = ticks
        stepcast.sweep(DDP, {"training.micro_batch_size": range(1, 101),
                             "data_parallel.bucket_size": ["1 MiB", "5 MiB", "25 MiB"]})
        during = ticks - before
        stop.set()
        counter.join()
        self.assertGreater(during, 3)

    def test_several_at_once(self):
        alone = [without_times(stepcast.simulate(DDP, set={"training.micro_batch_size": size}))
                 for size in range(1, 7)]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            together = list(pool.map(
                lambda size: without_times(
                    stepcast.simulate(DDP, set={"training.micro_batch_size": size})), range(1, 7)))
            toys = list(pool.map(
                lambda repeat: stepcast.simulate(TOY, set={"model.layers.0.repeat": repeat}),
                range(1, 30)))
        self.assertEqual(alone, together)
        self.assertEqual([round(toy["step_time_s"] * 1000) for toy in toys],
                         [3 * repeat + 1 for repeat in range(1, 30)])


if __name__ == "__main__":
    test_report.main()
