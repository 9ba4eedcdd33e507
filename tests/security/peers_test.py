#!/usr/bin/python3
"""What a rank of a job says is believed within bounds: statuses that end a run are failures, and text
is escaped before it is printed. Ranks in processes of their own communicate by MPI alone."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")
LIAR = os.path.abspath("tests/security/lying_rank")
PROBE = os.path.abspath("tests/security/libenvironment_probe.so")


class PeersTest(unittest.TestCase):
    def expect_printable(self, *texts):
        for printed in texts:
            self.assertNotIn("\x1b", printed)
            self.assertNotIn("\x07", printed)
            self.assertNotIn("\u202e", printed)


SCENARIO = """\
stepcast: 1
name: ranks
model: {{kind: layers, layers: [{{name: l, repeat: 4, parameters: [3000], forward: 1 ms,
                                 backward: 1 ms, activation: 0 B}}], optimizer_step: 1 ms}}
cluster: {{topology: {{kind: flat, devices: {}, memory: 1 GiB,
                      link: {{latency: 5 us, bandwidth: 25 GB/s}}}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
           optimizer: sgd}}
data_parallel: {{zero_stage: 0, framework: reference}}
"""


class CommandTest(PeersTest):
    def scenario(self, devices):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "s.yaml"
        path.write_text(SCENARIO.format(devices))
        return [STEPCAST, "execute", str(path), "--backend", "host", "--steps", "1"]


class LiarsOfMpirunTest(CommandTest):
    def run_two(self, first, second):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        return subprocess.run(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader",
             "--mca", "btl_vader_single_copy_mechanism", "none",
             "-n", "1", *first, ":", "-n", "1", *second],
            capture_output=True, text=True, env=dict(os.environ, TMPDIR="/tmp"), timeout=100)

    def test_what_keeps_a_rank_from_running_is_a_failure(self):
        for status in (0, 4 + 1, 256, 1 << 32):
            with self.subTest(status=status):
                ended = self.run_two(self.scenario(2), [LIAR, "fails", str(status)])
                self.assertEqual((ended.returncode, ended.stdout), (1, ""), ended.stderr)
                self.expect_printable(ended.stderr)
                self.assertIn(r"rank 1: it is wrong\x1b", ended.stderr)

    def test_another_plan_and_a_host_with_escapes(self):
        ended = self.run_two(self.scenario(2), [LIAR, "differs"])
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        self.expect_printable(ended.stderr)
        self.assertRegex(ended.stderr, r"rank 1 on '\\x1b.*' and rank 0 have different plans")

    def test_what_rank_0_makes_known_before_a_run_is_a_failure(self):
        for status in ("0", "256", "4294967296", "no number"):
            with self.subTest(status=status):
                ended = self.run_two([LIAR, "leads", status], self.scenario(2))
                self.assertEqual((ended.returncode, ended.stdout), (1, ""), ended.stderr)


class EnvironmentTest(CommandTest):
    def test_it_changes_before_there_are_threads(self):
        """OpenBLAS reads and stepcast writes variables, which other threads may not do then."""
        environment = dict(os.environ, LD_PRELOAD=PROBE)
        environment.pop("OPENBLAS_CORETYPE", None)
        ended = subprocess.run(self.scenario(1), capture_output=True, text=True, env=environment,
                               timeout=100)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        seen = [line for line in ended.stderr.splitlines() if line.startswith("probe: ")]
        self.assertTrue(any("dlopen" in line for line in seen), ended.stderr)
        self.assertTrue(all(line.endswith(", threads 1") for line in seen), seen)
        if os.uname().machine == "x86_64" and "avx2" in pathlib.Path("/proc/cpuinfo").read_text():
            self.assertTrue(any("OPENBLAS_CORETYPE" in line for line in seen), seen)


class TorchrunTest(CommandTest):
    def test_several_ranks_are_told_which_commands_start_them(self):
        environment = dict(os.environ, RANK="1", WORLD_SIZE="4", LOCAL_WORLD_SIZE="2",
                           MASTER_ADDR="node-0", MASTER_PORT="29500")
        for command in ("execute", "validate"):
            ended = subprocess.run([STEPCAST, command, *self.scenario(2)[2:]], capture_output=True,
                                   text=True, env=environment, timeout=100)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
            self.assertIn("launch.needs-mpi", ended.stderr)
            self.assertIn("mpirun -n 4 stepcast", ended.stderr)
            self.assertIn("srun -n 4 stepcast", ended.stderr)

    def test_nothing_listens(self):
        """Ranks that are threads need no connections, whatever the environment says."""
        command = self.scenario(2)
        command[command.index("--steps") + 1] = "200"
        environment = dict(os.environ, RANK="0", WORLD_SIZE="1")
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=environment)
        try:
            sockets = set()
            while job.poll() is None:
                try:
                    for link in pathlib.Path(f"/proc/{job.pid}/fd").iterdir():
                        sockets.add(os.readlink(link))
                except OSError:
                    pass
            self.assertEqual({name for name in sockets if name.startswith("socket:")}, set())
        finally:
            job.kill()
            job.wait()


if __name__ == "__main__":
    test_report.main()
