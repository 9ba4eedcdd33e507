"""Jobs of several ranks that are attacked, and the bytes that ranks send each other."""

import os
import pathlib
import socket
import struct
import subprocess
import time
import unittest

RANK = os.path.abspath("tests/security/job_of_ranks")
SECRET = "0123456789abcdef0123456789abcdef"
ESCAPES = b"\x1b[2J\x1b]0;owned\x07\xe2\x80\xae"


def free_port():
    """The first of 16 ports that nothing listens at; rank 0 tries them in order."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port <= 60000:
            return port


def frame(message):
    return struct.pack("<Q", len(message)) + message


def receive_frame(connection):
    """The next message; fails when the connection ends before."""
    def exactly(size):
        data = b""
        while len(data) < size:
            more = connection.recv(size - len(data))
            assert more, "the connection ended"
            data += more
        return data
    return exactly(struct.unpack("<Q", exactly(8))[0])


def number(value):
    """As ranks write it (src/runtime/byte_stream.h): 7 bits a byte, lowest first."""
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def signed(value):
    return number(value << 1 ^ (-1 if value < 0 else 0))


def text(value):
    return number(len(value)) + value


class Reader:
    """Reads what `number` and `text` wrote."""

    def __init__(self, data):
        self.left = data

    def number(self):
        value = shift = 0
        while True:
            byte, self.left = self.left[0], self.left[1:]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self):
        size = self.number()
        value, self.left = self.left[:size], self.left[size:]
        return value


def listening(pid):
    """(address, port) of every TCP socket that a process listens at, addresses in hexadecimal."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(link))
        except OSError:
            pass
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, port = fields[1].split(":")
                found.append((address, int(port, 16)))
    return found


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


class Job:
    """Ranks of a job by torchrun's variables, each a process."""

    def __init__(self, test, ranks=3, rounds=0, **environment):
        self.port = free_port()
        self.environment = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                                MASTER_PORT=str(self.port), STEPCAST_JOB_SECRET=SECRET)
        self.environment.update(environment)
        self.rounds = rounds
        self.processes = {}
        test.addCleanup(self.kill)

    def start(self, rank, wrapper=()):
        self.processes[rank] = subprocess.Popen(
            [*wrapper, RANK, str(self.rounds)], env=dict(self.environment, RANK=str(rank)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return self.processes[rank]

    def listening_port(self, rank=0):
        """The port where a rank, which has been started, listens."""
        pid = self.processes[rank].pid
        return wait_for(lambda: listening(pid))[0][1]

    def end(self):
        """(status, stdout, stderr) of each rank."""
        ended = {}
        for rank, process in sorted(self.processes.items()):
            out, error = process.communicate(timeout=100)
            ended[rank] = (process.returncode, out, error)
        return ended

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.stdout.close()
            process.stderr.close()
            process.wait()


class RanksTest(unittest.TestCase):
    def expect_sum(self, ended, ranks=3, rounds=0):
        right = sum(range(1, ranks + 1)) * (rounds + 1)
        for rank, (status, out, error) in ended.items():
            self.assertEqual(status, 0, f"rank {rank}: {error}")
            self.assertRegex(out, rf"^sum {right}, \d+ KiB\n$")

    def connect(self, port):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.addCleanup(connection.close)
        return connection

    def listen(self, port):
        listener = socket.create_server(("127.0.0.1", port))
        listener.settimeout(30)
        self.addCleanup(listener.close)
        return listener
