#!/usr/bin/python3
"""tools/cluster removes what it has made, and nothing else that has such a name."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

CLUSTER = os.path.abspath("tools/cluster")
NAME = "securitytest"


def cluster(*words):
    return subprocess.run([CLUSTER, words[0], "--name", NAME, *words[1:]], capture_output=True,
                          text=True, timeout=60)


def namespaces():
    folder = pathlib.Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


class OthersTest(unittest.TestCase):
    def setUp(self):
        own = f"{NAME}-7"
        if subprocess.run(["ip", "netns", "add", own], capture_output=True).returncode != 0:
            self.skipTest("this user may not make network namespaces")
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", own], capture_output=True)
        self.addCleanup(cluster, "down")

    def test_down_leaves_what_it_has_not_made(self):
        done = cluster("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{NAME}-7", namespaces())
        done = cluster("up", "--nodes", "2", "--bandwidth", "1Gbit")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual({f"{NAME}-0", f"{NAME}-1", f"{NAME}-switch"}, namespaces())
        done = cluster("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({n for n in namespaces() if n.startswith(NAME)}, {f"{NAME}-7"})

    def test_up_takes_over_nothing(self):
        done = cluster("up", "--nodes", "8", "--bandwidth", "1Gbit")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("choose another --name", done.stderr)
        self.assertEqual({n for n in namespaces() if n.startswith(NAME)}, {f"{NAME}-7"})


if __name__ == "__main__":
    test_report.main()
