#!/usr/bin/python3
"""A sweep and a plan that are killed again and again, the log of their store cut at any byte in
between: what comes out in the end has the same bytes as without.

A run looks at small ones and a few kills; STEPCAST_SAMPLES=all takes 30 kills each in a sweep of
100,000 rows and in a plan of more than 10^5."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast-forecast")
ALL = os.environ.get("STEPCAST_SAMPLES") == "all"
KILLS = 30 if ALL else 4
SCENARIO = """\
stepcast: 1
name: two devices
model:
  kind: layers
  layers:
    - {name: block, repeat: 2, parameters: [400000, 2000], forward: 1 ms, backward: 2 ms,
       activation: 1 MiB}
  optimizer_step: 1 ms
cluster: {topology: {kind: flat, devices: DEVICES, memory: 4 GiB,
                     link: {latency: 20 us, bandwidth: 2 GB/s}}}
training: {sequence_length: 128, micro_batch_size: 1, precision: bf16, optimizer: adamw,
           gradient_accumulation: 1}
data_parallel: {zero_stage: 0, framework: reference, bucket_size: 1 MiB}
"""


class KillsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = self.folder / "store"
        self.random = random.Random(20)

    def output_of(self, command):
        done = subprocess.run(command, capture_output=True, timeout=3000)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return done.stdout

    def cut_log(self):
        """As a disk may leave it. What it had stored is computed anew; nothing else comes out."""
        log = pathlib.Path(f"{self.store}-wal")
        size = log.stat().st_size if log.exists() else 0
        if size > 0:
            os.truncate(log, self.random.randrange(size))

    @staticmethod
    def is_damage(messages):
        """A log that is cut once its beginning is in the store leaves pages of different times: rows whose
        digests are wrong, or no store at all."""
        return b"store.damaged" in messages or b"this store is damaged" in messages

    def kill_again_and_again(self, command):
        begin = time.monotonic()
        undisturbed = self.output_of(command)
        longest = time.monotonic() - begin
        stored = [*command, "--store", str(self.store)]
        kills = wholes = damaged = 0
        while kills < KILLS:
            run = subprocess.Popen(stored, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                # At a random time between start-up and the end of the work.
                output, messages = run.communicate(timeout=self.random.uniform(0, longest))
            except subprocess.TimeoutExpired:
                run.kill()
                output, messages = run.communicate()
            if run.returncode == -signal.SIGKILL:
                kills += 1
                # Killed while printing, it has printed the beginning.
                self.assertTrue(undisturbed.startswith(output))
                self.cut_log()
                continue
            if self.is_damage(messages):
                # Part of the log was already in the store: the store reports it and is recreated.
                damaged += 1
                self.assertEqual((run.returncode, output), (2, b""))
            else:
                wholes += 1
                self.assertIn(run.returncode, (0, 3), messages)
                self.assertEqual(output, undisturbed)
            for name in ("", "-wal", "-shm"):
                pathlib.Path(f"{self.store}{name}").unlink(missing_ok=True)
        final = subprocess.run(stored, capture_output=True, timeout=3000)
        if self.is_damage(final.stderr):
            damaged += 1
        else:
            self.assertEqual(final.stdout, undisturbed)
        print(f"{kills} kills, {wholes} runs to the end, {damaged} stores damaged; "
              f"{len(undisturbed)} bytes, {longest:.1f} s undisturbed", file=sys.stderr)

    def test_a_sweep(self):
        scenario = self.folder / "sweep.yaml"
        scenario.write_text(SCENARIO.replace("DEVICES", "2"))
        accumulation = ",".join(str(i) for i in range(1, 101 if ALL else 11))
        lengths = ",".join(str(8 * i) for i in range(1, 1001 if ALL else 101))
        self.kill_again_and_again([STEPCAST, "sweep", str(scenario), "--jsonl",
                                   "--vary", f"training.gradient_accumulation={accumulation}",
                                   "--vary", f"training.sequence_length={lengths}"])

    def test_a_plan(self):
        scenario = self.folder / "plan.yaml"
        text = SCENARIO.replace("DEVICES", "16").replace("gradient_accumulation: 1",
                                                         "global_batch_size: 256")
        scenario.write_text(text)
        limits = ",".join(str(i) for i in range(1, 101 if ALL else 4))
        self.kill_again_and_again([STEPCAST, "plan", str(scenario), "--csv", "--framework", "all",
                                   "--only", "data",
                                   "--vary", f"data_parallel.bucket_size={limits} MiB".replace(
                                       ",", " MiB,")])


if __name__ == "__main__":
    test_report.main()
