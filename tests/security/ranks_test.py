#!/usr/bin/python3
"""A process without a job's secret cannot join it, delay it or end it: on loopback, and in
network namespaces where this user may make some."""

import collections
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report
from jobs import ESCAPES, RANK, Job, RanksTest, frame, listening, text, wait_for

STEPCAST = os.path.abspath("src/cli/stepcast")


class WhereRanksListenTest(RanksTest):
    LOOPBACK = {"0100007F", "00000000000000000000000001000000"}

    def test_loopback_alone_when_rank_0_is_there(self):
        job = Job(self, rounds=3)
        for rank in range(3):
            job.start(rank)
        seen = set()

        def all_watched():
            for process in job.processes.values():
                seen.update(address for address, _ in listening(process.pid))
            return all(listening(process.pid) for process in job.processes.values())
        wait_for(all_watched)
        time.sleep(1)
        all_watched()
        self.assertTrue(seen <= self.LOOPBACK, seen)
        self.expect_sum(job.end(), rounds=3)

    def test_the_interface_of_master_addr_alone(self):
        """A machine with two addresses, of which MASTER_ADDR is one."""
        commands = ("ip link set lo up; ip address add 10.1.0.1/32 dev lo; "
                    "ip address add 10.2.0.1/32 dev lo; ")
        if subprocess.run(["unshare", "-n", "sh", "-ec", commands],
                          capture_output=True).returncode != 0:
            self.skipTest("this user may not make network namespaces")
        job = Job(self, ranks=2, rounds=3, MASTER_ADDR="10.1.0.1", MASTER_PORT="29500")
        job.start(0, ["unshare", "-n", "sh", "-ec",
                      commands + 'RANK=1 "$@" & "$@"; status=$?; wait $!; exit $status', "sh"])
        pids = wait_for(lambda: [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and
                                 self.is_rank_of(pid, job)] or None)
        seen = set()
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            pids = [int(pid) for pid in os.listdir("/proc")
                    if pid.isdigit() and self.is_rank_of(pid, job)]
            for pid in pids:
                try:
                    seen.update(address for address, _ in listening(pid))
                except OSError:
                    pass
            time.sleep(0.05)
        self.assertEqual(seen, {"0100010A"})  # 10.1.0.1
        status, out, error = job.end()[0]
        self.assertEqual(status, 0, error)
        self.assertEqual([line.split(",")[0] for line in out.splitlines()], ["sum 12", "sum 12"])

    @staticmethod
    def is_rank_of(pid, job):
        try:
            return (os.readlink(f"/proc/{pid}/exe") == os.path.realpath(RANK) and
                    "MASTER_ADDR=10.1.0.1" in
                    pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0"))
        except OSError:
            return False


class StrangersTest(RanksTest):
    def test_wrong_frames_end_nothing(self):
        job = Job(self)
        job.start(0)
        port = job.listening_port()
        for message in (b"GET / HTTP/1.1\r\n\r\n", frame(ESCAPES), frame(b""), frame(b"\xff" * 4096),
                        struct.pack("<Q", 1 << 40), struct.pack("<Q", (1 << 32) - 1) + b"x" * 65536):
            try:
                self.connect(port).sendall(message)
            except OSError:
                pass
        job.start(1)
        job.start(2)
        ended = job.end()
        self.expect_sum(ended)
        for _, _, error in ended.values():
            self.assertNotIn("\x1b", error)
            self.assertNotIn("\u202e", error)
        self.assertEqual(len(ended[0][2].splitlines()), 1, ended[0][2])
        self.assertRegex(ended[0][2], r"turned away \d+ connections? that did not prove to be of "
                                      r"this job: 127.0.0.1 \(\d+\)")

    def test_a_stranger_takes_no_rank(self):
        """As version 1 of the protocol greeted: words, run, ranks, rank, host, local rank."""
        job = Job(self)
        job.start(0)
        port = job.listening_port()
        run = f"127.0.0.1:{job.port} ".encode()
        for rank in (1, 2):
            self.connect(port).sendall(frame(text(b"stepcast job 1") + text(run) +
                                             bytes([3, rank]) + text(ESCAPES) + b"\0"))
        job.start(1)
        job.start(2)
        self.expect_sum(job.end())

    def test_more_connections_than_rank_0_may_have(self):
        job = Job(self)
        job.start(0, ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"])
        port = job.listening_port()
        held = []
        for _ in range(200):
            held.append(self.connect(port))
        job.start(1)
        job.start(2)
        self.expect_sum(job.end())

    def test_a_rank_that_dies_fails_the_others(self):
        job = Job(self, rounds=20)
        for rank in range(3):
            job.start(rank)
        wait_for(lambda: all(listening(process.pid) for process in job.processes.values()))
        time.sleep(1)
        job.processes[2].kill()
        ended = job.end()
        self.assertEqual(ended[0][0], 1)
        self.assertIn("rank 2 on '", ended[0][2])
        self.assertEqual(ended[1][0], 1)


class HealthyJobsTest(RanksTest):
    def test_rank_0_stops_while_another_connects(self):
        job = Job(self, ranks=2)
        first = job.start(0)
        job.listening_port()
        first.send_signal(signal.SIGSTOP)
        job.start(1)
        time.sleep(5)  # it gives two connections up
        first.send_signal(signal.SIGCONT)
        self.expect_sum(job.end(), ranks=2)

    def test_without_a_secret_on_one_machine(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            job = Job(self, STEPCAST_JOB_SECRET="", XDG_RUNTIME_DIR=folder)
            for rank in range(3):
                job.start(rank)
            self.expect_sum(job.end())
            self.assertEqual(os.listdir(folder), [])

    def test_several_machines_need_one(self):
        job = Job(self, MASTER_ADDR="192.0.2.1", STEPCAST_JOB_SECRET="")
        job.start(0)
        status, out, error = job.end()[0]
        self.assertEqual((status, out), (2, ""))
        self.assertIn("launch.missing-secret", error)


class Attacker(threading.Thread):
    """Forty of these attack one port until they are told to stop, each in its way."""

    def __init__(self, number, port, job):
        super().__init__(daemon=True)
        self.number, self.port, self.job = number, port, job
        self.way = ("garbage", "half-open", "slow", "large", "impersonating",
                    "replayed")[number % 6]
        self.ended = threading.Event()
        self.connections = 0

    def run(self):
        while not self.ended.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    self.connections += 1
                    getattr(self, self.way.replace("-", "_"))(connection)
            except OSError:
                self.ended.wait(0.05)

    def garbage(self, connection):
        connection.sendall(os.urandom(512) + ESCAPES)
        self.ended.wait(0.1)

    def half_open(self, connection):
        connection.settimeout(None)
        self.ended.wait(3)

    def slow(self, connection):
        for byte in frame(os.urandom(100)):
            connection.sendall(bytes([byte]))
            if self.ended.wait(0.2):
                return

    def large(self, connection):
        connection.sendall(struct.pack("<Q", 1 << 30))
        for _ in range(64):
            connection.sendall(bytes(1 << 20))

    def impersonating(self, connection):
        """A rank's hello, with a code made of a guessed secret."""
        connection.recv(4096)
        hello = bytes([3, 1 + self.number % 2]) + text(b"host") + b"\0" + text(b"process")
        connection.sendall(frame(text(os.urandom(32)) + text(hello) + text(os.urandom(32))))
        connection.recv(4096)

    recorded = collections.deque(maxlen=1)

    def replayed(self, connection):
        """What a rank of this job said to another connection."""
        connection.recv(4096)
        if self.recorded:
            connection.sendall(self.recorded[0])
        connection.recv(4096)


def record(job):
    """What rank 1 proves to rank 0 on a connection that leads through here."""
    server = socket.create_server(("127.0.0.1", 0))
    real = socket.create_connection(("127.0.0.1", job.listening_port()), timeout=10)
    port = server.getsockname()[1]
    visitor = subprocess.Popen([RANK], env=dict(job.environment, RANK="1", MASTER_PORT=str(port)),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        through, _ = server.accept()
        with through, real:
            through.sendall(real.recv(4096))
            time.sleep(0.5)
            return through.recv(4096)
    finally:
        visitor.kill()
        visitor.wait()
        server.close()


def parent(process):
    """Of a folder in /proc."""
    status = (process / "status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


SCENARIO = """\
stepcast: 1
name: three ranks
model: {kind: layers, layers: [{name: l, repeat: 4, parameters: [3000], forward: 20 ms,
                                backward: 40 ms, activation: 0 B}], optimizer_step: 1 ms}
cluster: {topology: {kind: flat, devices: 3, memory: 1 GiB,
                     link: {latency: 5 us, bandwidth: 25 GB/s}}}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
           optimizer: sgd}
data_parallel: {zero_stage: 0, framework: reference}
"""


class MpirunTest(RanksTest):
    """The watch of a real execution, attacked from before it meets until it ends."""

    def test_the_execution_is_right(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            scenario = pathlib.Path(folder) / "s.yaml"
            scenario.write_text(SCENARIO)
            job = subprocess.Popen(
                ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3",
                 "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none",
                 STEPCAST, "execute", str(scenario), "--backend", "host", "--steps", "5", "--check"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=dict(os.environ, TMPDIR="/tmp"))
            attacked, held = set(), []
            own = os.path.realpath(STEPCAST)
            while job.poll() is None:
                for process in pathlib.Path("/proc").iterdir():
                    try:
                        if not process.name.isdigit() or parent(process) != job.pid:
                            continue  # jobs of other tests run the same program
                        if os.readlink(process / "exe") == own:
                            # An exec changes the link to the executable before it closes what the
                            # process inherited: mpirun's own sockets.
                            inherited = listening(job.pid)
                            for address, port in listening(int(process.name)):
                                if (address, port) in inherited:
                                    continue
                                self.assertEqual(address, "0100007F")
                                attacked.add(port)
                                held.append(socket.create_connection(("127.0.0.1", port), 0.2))
                                held[-1].sendall(frame(ESCAPES) + b"x" * 10000)
                    except OSError:
                        pass
                if len(held) > 200:
                    held.pop(0).close()
                time.sleep(0.01)
            out, error = job.communicate()
            for connection in held:
                connection.close()
            self.assertEqual(job.returncode, 0, error)
            self.assertGreater(len(attacked), 0)
            self.assertIn("are those of plain data parallelism", error)
            self.assertNotIn("\x1b", out + error)


class FortyAttackersTest(RanksTest):
    def peak(self, ended):
        return max(int(re.search(r"(\d+) KiB", out).group(1)) for _, out, _ in ended.values())

    def test_the_job_finishes(self):
        quiet = Job(self)
        for rank in range(3):
            quiet.start(rank)
        alone = quiet.end()
        self.expect_sum(alone)

        job = Job(self, rounds=3)
        job.start(0)
        port = job.listening_port()
        Attacker.recorded.append(record(job))
        self.assertGreater(len(Attacker.recorded[0]), 64)
        attackers = [Attacker(number, port, job) for number in range(40)]
        for attacker in attackers:
            attacker.start()
        try:
            wait_for(lambda: all(attacker.connections for attacker in attackers))
            job.start(1)
            time.sleep(1)
            job.start(2)
            ended = job.end()
        finally:
            for attacker in attackers:
                attacker.ended.set()
            for attacker in attackers:
                attacker.join()
        self.expect_sum(ended, rounds=3)
        more = self.peak(ended) - self.peak(alone)
        named = [line for line in ended[0][2].splitlines() if "turned away" in line]
        print(f"{sum(a.connections for a in attackers)} connections of 40 attackers; "
              f"{more} KiB more memory; {named}", file=sys.stderr)
        self.assertLessEqual(more, 50 * 1024)
        self.assertEqual(len(named), 1, ended[0][2])
        self.assertEqual(len(ended[0][2].splitlines()), 1, ended[0][2])
        self.assertIn("127.0.0.1 (", named[0])


if __name__ == "__main__":
    test_report.main()
