#!/usr/bin/python3
"""What a rank says that has proved to be one of the job is believed within bounds: statuses that end
a run are failures, indices are checked before they are used, and text is escaped before it is
printed. On loopback alone."""

import hashlib
import hmac
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report
from jobs import (ESCAPES, SECRET, Job, RanksTest, frame, number, receive_frame, signed, text,
                  Reader)

STEPCAST = os.path.abspath("src/cli/stepcast")
LIAR = os.path.abspath("tests/security/lying_rank")
PROBE = os.path.abspath("tests/security/libenvironment_probe.so")
GREETING = b"stepcast 2"
HEARTBEAT, FAILED, INTERRUPTED, END, BYE = range(5)


def code(secret, context, message):
    return hmac.new(secret, context + text(message), hashlib.sha256).digest()


def context(side, port, host_number, guest_number):
    return (text(GREETING) + text(side) + number(port) + text(host_number) + text(guest_number))


def introduce(connection, port, secret, hello):
    """The guest's side of src/runtime/admission.h; the host's answer."""
    greeting = Reader(receive_frame(connection))
    assert greeting.text() == GREETING
    host_number, own_number = greeting.text(), os.urandom(32)
    proof = code(secret, context(b"guest", port, host_number, own_number), hello)
    connection.sendall(frame(text(own_number) + text(hello) + text(proof)))
    return Reader(receive_frame(connection)).text()


def receive_guest(connection, port, secret, answer):
    """The host's side; the guest's hello."""
    own_number = os.urandom(32)
    connection.sendall(frame(text(GREETING) + text(own_number)))
    reader = Reader(receive_frame(connection))
    guest_number, hello = reader.text(), reader.text()
    proof = code(secret, context(b"host", port, own_number, guest_number), answer)
    connection.sendall(frame(text(answer) + text(proof)))
    return hello


def secret_of(job):
    run = f"{job.environment['MASTER_ADDR']}:{job.port} ".encode()
    return hmac.new(SECRET.encode(), run, hashlib.sha256).digest()


def endpoint(port, host=b"east", addresses=(b"127.0.0.1",)):
    return (text(host) + number(port) + number(len(addresses)) +
            b"".join(text(address) for address in addresses))


class PeersTest(RanksTest):
    def expect_printable(self, *texts):
        for printed in texts:
            self.assertNotIn("\x1b", printed)
            self.assertNotIn("\x07", printed)
            self.assertNotIn("\u202e", printed)

    def expect_failure(self, ended, rank, pattern):
        status, out, error = ended[rank]
        self.assertEqual((status, out), (1, ""), error)
        self.expect_printable(error)
        self.assertRegex(error, pattern)


class AnotherRankTest(PeersTest):
    """Rank 0 of two is real."""

    def setUp(self):
        self.job = Job(self, ranks=2)
        self.job.start(0)
        self.port = self.job.listening_port()

    def arrive(self, rank=1, ranks=2, host=b"east"):
        """The connection to rank 0, and its answer to this hello."""
        connection = self.connect(self.port)
        hello = (number(ranks) + number(rank) + text(host) + signed(-1) + text(os.urandom(16)))
        return connection, Reader(introduce(connection, self.port, secret_of(self.job), hello))

    def meet(self, own_endpoint=None):
        """As far as the watch's secret: the connection, the secret, rank 0's port."""
        connection, answer = self.arrive()
        self.assertEqual(answer.text(), b"heard")
        self.assertEqual(Reader(receive_frame(connection)).text(), b"welcome")
        connection.sendall(frame(b"here"))
        connection.sendall(frame(own_endpoint or endpoint(1)))
        book = Reader(receive_frame(connection))
        secret, first = book.text(), Reader(book.text())
        first.text()
        return connection, secret, first.number()

    def watch(self, port, secret, rank=1):
        connection = self.connect(port)
        introduce(connection, port, secret, number(rank))
        return connection

    def test_a_rank_that_does_not_exist(self):
        for rank in (2, 1 << 40, (1 << 64) - 1):
            with self.subTest(rank=rank):
                self.setUp()
                _, answer = self.arrive(rank=rank)
                self.assertEqual(answer.text(), b"refused")
                self.expect_failure(self.job.end(), 0, f"two processes were started as rank {rank}")

    def test_a_host_with_escapes_that_is_refused(self):
        self.arrive(ranks=3, host=ESCAPES)
        self.expect_failure(self.job.end(), 0, r"rank 1 on '\\x1b.*' was started as one of 3")

    def test_failures_are_failures_and_printable(self):
        for status in (0, 256, 1 << 32):
            with self.subTest(status=status):
                self.setUp()
                _, secret, port = self.meet(own_endpoint=endpoint(1, host=ESCAPES))
                watch = self.watch(port, secret)
                watch.sendall(frame(number(FAILED) + number(2) + number(status) +
                                    text(b"oh" + ESCAPES)))
                status, out, error = self.job.end()[0]
                self.assertIn(status, range(1, 256))
                self.assertEqual(out, "")
                self.expect_printable(error)
                self.assertRegex(error, r"oh\\x1b")

    def test_a_host_with_escapes_that_dies(self):
        connection, secret, port = self.meet(own_endpoint=endpoint(1, host=ESCAPES))
        self.watch(port, secret).close()
        self.expect_failure(self.job.end(), 0, r"rank 1 on '\\x1b.*' has ended unexpectedly")
        connection.close()

    def test_more_addresses_than_there_are(self):
        _, secret, port = self.meet(own_endpoint=text(b"east") + number(1) + number(1 << 60))
        self.watch(port, secret).close()
        self.expect_failure(self.job.end(), 0, "rank 1 on 'east' has ended unexpectedly")

    def test_a_watch_of_a_rank_that_does_not_exist(self):
        _, secret, port = self.meet()
        for rank in (0, 2, 1 << 40):
            strange = self.connect(port)
            with self.assertRaises((AssertionError, OSError)):
                introduce(strange, port, secret, number(rank))
        self.watch(port, secret).close()
        self.expect_failure(self.job.end(), 0, "rank 1 on 'east' has ended unexpectedly")

    def test_progress_that_cannot_be(self):
        """job_of_ranks runs a program of no operations."""
        for stage, instruction, doing in ((1, 1 << 31, "between operations of step 8"),
                                          (200, 0, "it was forecasting")):
            with self.subTest(stage=stage):
                self.setUp()
                _, secret, port = self.meet()
                watch = self.watch(port, secret)
                watch.sendall(frame(number(HEARTBEAT) + number(stage) + number(5) + number(7) +
                                    number(instruction)))
                watch.close()
                self.expect_failure(self.job.end(), 0, doing)


class Rank0Test(PeersTest):
    """Rank 1 of two is real."""

    def setUp(self):
        self.job = Job(self, ranks=2)
        self.listener = self.listen(self.job.port)
        self.job.start(1)

    def receive(self, answer=text(b"heard") + text(b"")):
        connection, _ = self.listener.accept()
        self.addCleanup(connection.close)
        connection.settimeout(10)
        receive_guest(connection, self.job.port, secret_of(self.job), answer)
        return connection

    def watch(self, host=b"east"):
        """The connections of the job and of its watch."""
        job = self.receive()
        job.sendall(frame(text(b"welcome") + (text(host) + signed(-1)) * 2))
        self.assertEqual(receive_frame(job), b"here")
        other = receive_frame(job)
        listener = self.listen(0)
        port, secret = listener.getsockname()[1], os.urandom(32)
        job.sendall(frame(text(secret) + text(endpoint(port, host)) + text(other)))
        connection, _ = listener.accept()
        self.addCleanup(connection.close)
        connection.settimeout(10)
        receive_guest(connection, port, secret, b"")
        return job, connection

    def test_a_refusal_is_printable(self):
        self.receive(answer=text(b"refused") + text(b"no" + ESCAPES))
        self.expect_failure(self.job.end(), 1, r"no\\x1b")

    def test_fewer_ranks_than_there_are(self):
        self.receive().sendall(frame(text(b"welcome") + text(b"east")))
        self.expect_failure(self.job.end(), 1, "another version")

    def test_an_end_is_a_failure(self):
        for status in (0, 256, 1 << 32):
            with self.subTest(status=status):
                self.setUp()
                _, watch = self.watch()
                watch.sendall(frame(number(END) + number(status)))
                ended, out, _ = self.job.end()[1]
                self.assertIn(ended, range(1, 256))
                self.assertEqual(out, "")

    def test_a_host_with_escapes_that_dies(self):
        job, watch = self.watch(host=ESCAPES)
        watch.close()
        self.expect_failure(self.job.end(), 1, r"rank 0 on '\\x1b.*' has ended unexpectedly")
        job.close()

    def test_a_job_that_ends_with_escapes(self):
        job, _ = self.watch(host=ESCAPES)
        job.close()
        self.expect_failure(self.job.end(), 1, r"rank 0 on '\\x1b.*' cannot be reached any more")


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
        for status in (0, 3 + 1, 256, 1 << 32):
            with self.subTest(status=status):
                ended = self.run_two(self.scenario(2), [LIAR, "fails", str(status)])
                self.assertEqual((ended.returncode, ended.stdout), (1, ""), ended.stderr)
                self.expect_printable(ended.stderr)
                self.assertIn(r"rank 1: it is wrong\x1b", ended.stderr)

    def test_another_plan_and_a_host_with_escapes(self):
        ended = self.run_two(self.scenario(2), [LIAR, "differs"])
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        self.expect_printable(ended.stderr)
        self.assertRegex(ended.stderr, r"rank 1 on '\\x1b.*' has another plan")

    def test_what_rank_0_makes_known_before_a_run_is_a_failure(self):
        for status in ("0", "256", "4294967296", "no number"):
            with self.subTest(status=status):
                ended = self.run_two([LIAR, "leads", status], self.scenario(2))
                self.assertEqual((ended.returncode, ended.stdout), (1, ""), ended.stderr)


class EnvironmentTest(CommandTest):
    def test_it_changes_before_there_are_threads(self):
        """OpenBLAS reads and stepcast writes variables, which other threads may not do then."""
        environment = dict(os.environ, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(Job(self).port), LD_PRELOAD=PROBE,
                           STEPCAST_JOB_SECRET=SECRET)
        environment.pop("OPENBLAS_CORETYPE", None)
        ended = subprocess.run(self.scenario(1), capture_output=True, text=True, env=environment,
                               timeout=100)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        seen = [line for line in ended.stderr.splitlines() if line.startswith("probe: ")]
        self.assertTrue(any("dlopen" in line for line in seen), ended.stderr)
        self.assertTrue(all(line.endswith(", threads 1") for line in seen), seen)
        if os.uname().machine == "x86_64" and "avx2" in pathlib.Path("/proc/cpuinfo").read_text():
            self.assertTrue(any("OPENBLAS_CORETYPE" in line for line in seen), seen)


if __name__ == "__main__":
    test_report.main()
