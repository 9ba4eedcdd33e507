#!/usr/bin/python3
"""A small part of what accuracy.py holds forecasts against, with bounds for a machine that may be
busy. Needs what cluster_test.py needs, and skips as it does."""

import os
import pathlib
import subprocess
import unittest

import cluster_test
import test_report

SCRIPT = str(cluster_test.ROOT / "tests" / "cluster" / "accuracy.py")


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster_test.skip_without_cluster()

    def test_forecasts_are_near_executions(self):
        done = subprocess.run([SCRIPT, "--quick", "--mean", "20", "--worst", "40", "--name",
                               cluster_test.NAME, "--stepcast", cluster_test.STEPCAST],
                              capture_output=True, text=True)
        print(done.stdout, done.stderr, flush=True)
        self.assertEqual(done.returncode, 0)
        self.assertFalse(list(pathlib.Path("/run/netns").glob(f"{cluster_test.NAME}-*")))


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # Bazel's leaves them out
    test_report.main()
