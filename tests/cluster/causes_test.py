#!/usr/bin/python3
"""Injects causes of a slow step into executions on an emulated cluster, and asks `explain --measured`
for them: six causes alone, and two at once. Needs what cluster_test.py needs, and skips as it does.

  tests/cluster/causes_test.py            prints a row for each case
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import cluster_test
import test_report

HERE = cluster_test.ROOT / "tests" / "cluster"
SCENARIO = str(HERE / "causes.yaml")
LATE_HOST = next((p for p in (HERE / "liblate_host.so",
                              cluster_test.ROOT / "bazel-bin/tests/cluster/liblate_host.so")
                  if p.exists()), None)

SPEED = "500Mbit"  # two cores do not carry four links of 1Gbit on every machine
RIGHT = 10  # cases of 12
WITHIN = 0.1  # of the injected difference
ATTEMPTS = 3  # other programs on the machine disturb some runs


@dataclasses.dataclass
class Injection:
    cause: str  # as `explain` names it
    set: tuple = ()
    link: str = SPEED  # of node 2
    late_us: int = 0  # each call of the host
    more_calls: bool = False  # than forecast


INJECTIONS = {
    "slow link": Injection("exposed communication", link="250Mbit"),
    "slow rank": Injection("imbalance of ranks",
                           set=("cluster.slow_devices=[{device: device2, speed: 0.6}]",)),
    "slow loader": Injection("data loading",
                             set=("training.data_loading={time: 350 ms, workers: 0}",)),
    "small buckets": Injection("exposed communication", set=("data_parallel.bucket_size=0 B",),
                               more_calls=True),
    "late host": Injection("launches", late_us=5000),
    "slow kernels": Injection("kernels", set=("model.layers.0.forward=35 ms",)),
}
# The second cause makes the step longer by its size, beside the first one.
CASES = [(name,) for name in INJECTIONS] + [
    ("slow kernels", "slow link"), ("slow kernels", "slow loader"),
    ("slow kernels", "small buckets"), ("slow kernels", "slow rank"), ("slow rank", "slow link"),
    ("slow rank", "slow loader")]


def stepcast(*words):
    done = subprocess.run([cluster_test.STEPCAST, *words], capture_output=True, text=True,
                          timeout=300, env=dict(os.environ, STEPCAST_DATA=str(cluster_test.ROOT)))
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stderr}")
    return done.stdout


def on_cluster(*words):
    return cluster_test.cluster(
        "run", "--first", "--", *words,
        env=dict(os.environ, STEPCAST_DATA=str(cluster_test.ROOT))).stdout


class Causes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster_test.skip_without_cluster()
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cluster_test.cluster("up", "--nodes", "4", "--bandwidth", SPEED)
        profile = f"{cls.folder}/profile.yaml"
        on_cluster(cluster_test.STEPCAST, "calibrate", "--backend", "host", "--quick", "--only",
                   "collectives", "--collectives", "all_reduce", "--groups", "4", "--from", "64KiB",
                   "--to", "16MiB", "--output", profile)
        cls.settings = ("--set", f"calibration={profile}", "--set", "cluster.topology.link=null")
        cls.known = {}

    def execute(self, names):
        """Runs with these causes: the step time and the folder with the traces."""
        injected = [INJECTIONS[name] for name in names]
        traces = f"{self.folder}/{'-'.join(names) or 'plain'}".replace(" ", "_")
        settings = [word for one in injected for key in one.set for word in ("--set", key)]
        late = sum(one.late_us for one in injected)
        preload = ["env", f"LD_PRELOAD={LATE_HOST}", f"LATE_HOST_US={late}"] if late else []
        slow_link = next((one.link for one in injected if one.link != SPEED), None)
        with contextlib.ExitStack() as stack:
            if slow_link:
                cluster_test.cluster("link", "2", slow_link)
                stack.callback(cluster_test.cluster, "link", "2", SPEED)
            text = on_cluster("nice", "-n", "-10", *preload, cluster_test.STEPCAST, "execute",
                              SCENARIO, "--backend", "host", "--steps", "7", "--warmup", "1",
                              "--json", "--trace-dir", traces, *self.settings, *settings)
        return json.loads(text)["step_time_s"], traces

    def time_of(self, names):
        if names not in self.known:
            self.known[names] = self.execute(names)[0]
        return self.known[names]

    def explain(self, names):
        """(whether the answer is right, a row for people)."""
        self.known.pop((), None)
        time, traces = self.execute(names)
        self.known[names] = time
        sizes, before = {}, self.time_of(())
        for i, name in enumerate(names):
            after = self.time_of(names[:i + 1])
            sizes[name], before = after - before, after
        largest = max(sizes, key=sizes.get)
        answer = json.loads(stepcast("explain", SCENARIO, "--json", "--measured", traces,
                                     *self.settings))["measured"]["traced"]
        first = answer["causes"][0]
        injection = INJECTIONS[largest]
        named = first["cause"] == injection.cause and (
            first["measured_calls"] > first["forecast_calls"]) == injection.more_calls
        error = first["difference_s"] / sizes[largest] - 1
        row = (f"| {' and '.join(names)} | {first['cause']} | {1e3 * sizes[largest]:.0f} | "
               f"{1e3 * first['difference_s']:.0f} | {100 * error:+.1f} |")
        return named and abs(error) <= WITHIN, row

    def test_explains_what_was_injected(self):
        rows, right = [], 0
        for names in CASES:
            for attempt in range(ATTEMPTS):
                is_right, row = self.explain(names)
                print(row, flush=True)
                if is_right:
                    break
                for key in [key for key in self.known if key == names[:len(key)]]:
                    del self.known[key]
            right += is_right
            rows.append(row)
        print("| added cause | first cause in the answer | added ms | assigned ms | error % |")
        print("|---|---|---:|---:|---:|")
        print("\n".join(rows))
        self.assertGreaterEqual(right, RIGHT, "\n".join(rows))


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # Bazel's leaves them out
    test_report.main()
