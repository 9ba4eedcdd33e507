#!/usr/bin/python3
"""tools/cluster, and what becomes of a run on it when a rank dies, a link stops or a user
interrupts it. Needs root, network namespaces and mpirun; skips, and says so, without."""

import atexit
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import test_report

ROOT = pathlib.Path(__file__).absolute().parents[2]
CLUSTER = str(ROOT / "tools" / "cluster")
# In the runfiles of Bazel's test, or in Bazel's output.
STEPCAST = str(next((p for p in (ROOT / "src/cli/stepcast", ROOT / "bazel-bin/src/cli/stepcast")
                     if p.exists()), "stepcast"))
# The program that takes over; the system keeps 15 characters of a process's name.
RANK = "stepcast-hardware"[:15]
SCENARIO = str(ROOT / "tests" / "cluster" / "communication-bound.yaml")
NAME = f"t{os.getpid()}"

# Sends 3 MB from rank 0 to rank 1 and back, and prints the rate of each way in Mbit/s.
TRANSFER = """
import os, socket, time
COUNT = 3_000_000
def send(peer):
    begin = time.monotonic()
    peer.sendall(bytes(COUNT))
    peer.recv(1)
    print(f"{8 * COUNT / (time.monotonic() - begin) / 1e6:.1f}", flush=True)
def receive(peer):
    left = COUNT
    while left > 0:
        left -= len(peer.recv(min(left, 1 << 20)))
    peer.sendall(b"x")
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    with socket.create_server(("", 5000)) as server:
        peer = server.accept()[0]
        receive(peer)
        send(peer)
else:
    deadline = time.monotonic() + 20
    while True:
        try:
            peer = socket.create_connection(("198.18.0.2", 5000))
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    send(peer)
    receive(peer)
"""


def why_not():
    """Why this machine cannot have an emulated cluster; None if it can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("ip", "tc", "unshare", "mpirun"):
        if shutil.which(program) is None:
            return f"{program} is not there"
    atexit.register(cluster, "down", check=False)
    done = cluster("up", "--nodes", "2", check=False)
    cluster("down")
    return None if done.returncode == 0 else done.stderr.strip()


def skip_without_cluster():
    reason = why_not()
    if reason is not None:
        raise unittest.SkipTest(f"no emulated cluster on this machine: {reason}")


def cluster(verb, *words, check=True, **options):
    done = subprocess.run([CLUSTER, verb, "--name", NAME, *words], capture_output=True, text=True,
                          timeout=300, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{verb} {words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def processes(node=None):
    nodes = range(4) if node is None else [node]
    found = []
    for i in nodes:
        done = subprocess.run(["ip", "netns", "pids", f"{NAME}-{i}"], capture_output=True,
                              text=True, check=True)
        found += map(int, done.stdout.split())
    return found


def process_named(name, node):
    for pid in processes(node):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return pid
    return None


def wait_until(what, seconds=30):
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Run:
    """`tools/cluster run` of a long execution, in the background."""

    def __init__(self, test, *options):
        test.addCleanup(self.stop)
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [CLUSTER, "run", "--name", NAME, "--", STEPCAST, "execute", SCENARIO, "--backend",
             "host", "--steps", "1000", *options],
            stdout=self.out, stderr=self.err, env=dict(os.environ, STEPCAST_DATA=str(ROOT)))

    def ranks_run(self):
        """All four ranks have been at work for a moment."""
        there = wait_until(lambda: all(process_named(RANK, i) for i in range(4)))
        time.sleep(2.5)
        return there and self.process.poll() is None

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)

    def end(self, seconds=60):
        """(exit status, stdout, stderr)."""
        status = self.process.wait(seconds)
        self.out.seek(0)
        self.err.seek(0)
        return status, self.out.read(), self.err.read()


class CommandLine(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([CLUSTER, *words], capture_output=True, text=True)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_names_what_is_wrong(self):
        for words, named in ((["up", "--bandwidth", "fast"], "'fast' is not a bandwidth"),
                             (["up", "--nodes", "0"], "'0' is not a number of nodes"),
                             (["up", "--name", "A-b"], "'A-b'"),
                             (["run"], "what is to be run?"),
                             (["down", "--", "x"], "down takes no command")):
            status, text = self.refused(*words)
            self.assertEqual(status, 2, text)
            self.assertIn(named, text)

    def test_says_that_it_needs_root(self):
        words = ["status"]
        if os.geteuid() == 0:
            # The script comes through a pipe, since the user 'nobody' may not be allowed to read
            # it.
            done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups",
                                   "/usr/bin/python3", "-", *words],
                                  input=pathlib.Path(CLUSTER).read_text(), capture_output=True,
                                  text=True)
        else:
            done = subprocess.run([CLUSTER, *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("root", done.stderr)


class OnCluster(unittest.TestCase):
    """A cluster of four nodes that each test finds whole and must leave without processes."""

    @classmethod
    def setUpClass(cls):
        skip_without_cluster()

    def setUp(self):
        cluster("up", "--nodes", "4", "--bandwidth", "1Gbit")

    def tearDown(self):
        self.doCleanups()
        self.assertEqual(processes(), [], "processes were left behind")

    def assert_ranks_run(self, run):
        if not run.ranks_run():
            run.stop()
            self.fail(f"the ranks are not at work: {run.end()}")

    def assert_next_run_works(self):
        self.assertEqual(processes(), [], "processes were left behind")
        cluster("up", "--nodes", "4", "--bandwidth", "1Gbit")
        done = cluster("run", "--", STEPCAST, "execute", SCENARIO, "--backend", "host",
                       "--steps", "1", "--warmup", "1",
                       env=dict(os.environ, STEPCAST_DATA=str(ROOT)))
        self.assertIn("step", done.stdout)


class Network(OnCluster):
    def test_ranks_have_hosts_of_their_own(self):
        done = cluster("run", "-n", "8", "--", "sh", "-c",
                       'echo "$OMPI_COMM_WORLD_RANK $(hostname) $(ip -br -4 addr show eth0)"')
        rows = sorted(line.split() for line in done.stdout.splitlines())
        self.assertEqual([(row[0], row[1], row[4]) for row in rows],
                         [(str(rank), f"{NAME}-{rank // 2}", f"198.18.0.{rank // 2 + 1}/24")
                          for rank in range(8)])

    def test_links_have_their_bandwidth_both_ways(self):
        cluster("up", "--nodes", "2", "--bandwidth", "100Mbit")
        for rate in (100, 40):
            if rate == 40:
                cluster("link", "1", "40Mbit")
            done = cluster("run", "--", "/usr/bin/python3", "-c", TRANSFER)
            rates = list(map(float, done.stdout.split()))
            self.assertEqual(len(rates), 2)
            for measured in rates:
                self.assertLess(abs(measured / rate - 1), 0.1, done.stdout)
        self.assertIn("40 Mbit/s", cluster("status").stdout)
        cluster("up", "--nodes", "4")

    def test_passes_on_exit_status_and_names_a_signal(self):
        script = 'test "$OMPI_COMM_WORLD_RANK" != 2 || {}; sleep 30'
        begin = time.monotonic()
        self.assertEqual(cluster("run", "--", "sh", "-c", script.format("exit 3"),
                                 check=False).returncode, 3)
        killed = cluster("run", "--", "sh", "-c", script.format("kill -9 $$"), check=False)
        self.assertEqual(killed.returncode, 137)
        self.assertIn("signal 9", killed.stderr)
        self.assertLess(time.monotonic() - begin, 25, "it waited for the other ranks")

    def test_runs_one_command_at_a_time(self):
        first = subprocess.Popen([CLUSTER, "run", "--name", NAME, "--", "sleep", "60"])
        try:
            self.assertTrue(wait_until(lambda: process_named("sleep", 3)))
            for verb in (["run", "--", "true"], ["down"]):
                second = cluster(*verb, check=False)
                self.assertEqual(second.returncode, 1)
                self.assertIn(f"in use by process {first.pid} (run)", second.stderr)
        finally:
            first.terminate()
            self.assertEqual(first.wait(20), 128 + signal.SIGTERM)

    def test_down_leaves_nothing_and_may_be_repeated(self):
        stray = subprocess.Popen([CLUSTER, "exec", "--name", NAME, "1", "--", "sleep", "60"])
        self.assertTrue(wait_until(lambda: process_named("sleep", 1)))
        for _ in range(2):
            cluster("down")
            self.assertEqual(cluster("status", check=False).returncode, 3)
            self.assertEqual([p.name for p in pathlib.Path("/run/netns").glob(f"{NAME}-*")], [])
            self.assertEqual(list(pathlib.Path("/etc").glob(f"netns/{NAME}-*")), [])
            self.assertEqual(list(pathlib.Path("/run/stepcast-cluster").glob(f"{NAME}.*")), [])
        stray.wait(20)
        missing = cluster("run", "--", "true", check=False)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("there is no cluster", missing.stderr)
        cluster("up", "--nodes", "4")

    def test_half_made_is_taken_down(self):
        cluster("down")
        with tempfile.TemporaryDirectory() as folder:
            # A `tc` that fails for the third node's link.
            fake = pathlib.Path(folder) / "tc"
            fake.write_text(f"""#!/bin/sh
case "$*" in *"{NAME}-2 "*) echo no more >&2; exit 1;; esac
exec {shutil.which("tc")} "$@"
""")
            fake.chmod(0o755)
            done = cluster("up", "--nodes", "4", check=False,
                           env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no more", done.stderr)
        self.assertEqual([p.name for p in pathlib.Path("/run/netns").glob(f"{NAME}-*")], [])
        cluster("up", "--nodes", "4")


class Failures(OnCluster):
    def test_killed_rank(self):
        run = Run(self)
        self.assert_ranks_run(run)
        os.kill(process_named(RANK, 2), signal.SIGKILL)
        status, out, err = run.end()
        self.assertNotEqual(status, 0)
        self.assertEqual(out, "")
        self.assertRegex(err, rf"rank 2\b.*{NAME}-2")
        self.assert_next_run_works()

    def test_stopped_link(self):
        run = Run(self, "--timeout", "5 s")
        self.assert_ranks_run(run)
        cluster("link", "2", "down")
        status, out, err = run.end(40)
        self.assertEqual(status, 1, err)
        self.assertEqual(out, "")
        self.assertRegex(err, r"stepcast: .*rank")
        self.assert_next_run_works()

    def test_interrupt(self):
        run = Run(self)
        self.assert_ranks_run(run)
        run.process.send_signal(signal.SIGINT)
        status, out, err = run.end(20)
        self.assertEqual(status, 128 + signal.SIGINT)
        self.assertEqual(out, "")
        self.assertEqual(len(re.findall("interrupted", err)), 1, err)
        self.assert_next_run_works()

    def test_run_itself_is_killed(self):
        run = Run(self)
        self.assert_ranks_run(run)
        run.process.kill()
        self.assertTrue(wait_until(lambda: not processes(), 20))
        run.end()
        self.assert_next_run_works()

    def test_slow_link_slows_the_step(self):
        def step():
            done = cluster("run", "--", STEPCAST, "execute", SCENARIO, "--backend", "host",
                           "--steps", "1", "--warmup", "1", "--json",
                           env=dict(os.environ, STEPCAST_DATA=str(ROOT)))
            return float(re.search(r'"step_time_s": *([\d.e+-]+)', done.stdout)[1])
        fast = step()
        cluster("link", "3", "100Mbit")
        # 24 MiB cross the slow link 1.5 times, in 3.0 s.
        slow = step()
        self.assertGreater(slow, 2.9)
        self.assertGreater(slow, 2 * fast)


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # Bazel's leaves them out
    test_report.main()
