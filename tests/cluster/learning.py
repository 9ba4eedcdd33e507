#!/usr/bin/python3
"""Learns from traces of two nodes of an emulated cluster (`calibrate trace`), and forecasts four.

  tests/cluster/learning.py --stepcast bazel-bin/src/cli/stepcast    two minutes; needs a quiet machine

Exit status: 0 within the bounds (--mean, --worst, in percent); 3 beyond them. Needs root.
"""

import argparse
import json
import os
import sys
import tempfile

import accuracy

CASES = (("communication-bound", {"data_parallel.overlap": "false"}),
         ("communication-bound", {"data_parallel.bucket_size": "5 MiB"}),
         ("communication-bound", {"data_parallel.framework": "ddp",
                                  "data_parallel.bucket_size": "10 MiB"}),
         ("communication-bound", {"data_parallel.zero_stage": 3, "data_parallel.prefetch": 1}),
         ("compute-bound", {"data_parallel.bucket_size": "5 MiB"}),
         ("compute-bound", {"data_parallel.zero_stage": 2}),
         ("compute-bound", {"data_parallel.zero_stage": 3, "data_parallel.framework": "fsdp2"}))


def execute(options, nodes, folder):
    """The step time of each case on so many nodes; the traces go into folder/CASE-NODES."""
    accuracy.call(accuracy.CLUSTER, "up", "--name", options.name, "--nodes", str(nodes),
                  "--bandwidth", options.bandwidth)
    try:
        times = []
        for i, (model, settings) in enumerate(CASES):
            text = accuracy.call(
                accuracy.CLUSTER, "run", "--name", options.name, "--first", "--", "nice", "-n", "-10",
                options.stepcast, "execute", accuracy.scenario_of(model), "--backend", "host",
                "--steps", "7", "--warmup", "1", "--json", "--trace-dir", f"{folder}/{i}-{nodes}",
                *accuracy.arguments_of({**settings, "cluster.topology.devices": nodes}))
            times.append(json.loads(text)["step_time_s"])
        return times
    finally:
        accuracy.call(accuracy.CLUSTER, "down", "--name", options.name)


def forecast(options, folder, case):
    """Of four nodes, with what two nodes taught."""
    model, settings = CASES[case]
    profile = f"{folder}/{case}.yaml"
    accuracy.call(options.stepcast, "calibrate", "trace", f"{folder}/{case}-2", "--scenario",
                  accuracy.scenario_of(model), "--output", profile,
                  *accuracy.arguments_of({**settings, "cluster.topology.devices": 2}))
    text = accuracy.call(options.stepcast, "simulate", accuracy.scenario_of(model), "--json",
                         *accuracy.arguments_of({**settings, "cluster.topology.devices": 4,
                                                 "cluster.topology.link": "null",
                                                 "calibration": profile}))
    return json.loads(text)["step_time_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mean", type=float, default=3, help="bound, percent (%(default)s)")
    parser.add_argument("--worst", type=float, default=6, help="bound, percent (%(default)s)")
    parser.add_argument("--bandwidth", default="500Mbit", help="of each link; two cores do not carry four\n"
                        "links of 1Gbit on every machine (%(default)s)")
    parser.add_argument("--name", default="learning", help="of the cluster (%(default)s)")
    parser.add_argument("--stepcast", default=str(accuracy.ROOT / "bazel-bin/src/cli/stepcast"))
    options = parser.parse_args()
    os.environ["STEPCAST_DATA"] = str(accuracy.ROOT)
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        execute(options, 2, folder)
        measured = execute(options, 4, folder)
        print("| case | forecast ms | measured ms | error % |\n|---|---:|---:|---:|")
        for i, (model, settings) in enumerate(CASES):
            learned = forecast(options, folder, i)
            errors.append(100 * (learned / measured[i] - 1))
            text = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items())
            print(f"| {model}, {text} | {1e3 * learned:.0f} | {1e3 * measured[i]:.0f} | "
                  f"{errors[-1]:+.1f} |")
    mean, worst = sum(map(abs, errors)) / len(errors), max(map(abs, errors))
    print(f"mean {mean:.1f} %, worst {worst:.1f} %")
    return 0 if mean <= options.mean and worst <= options.worst else 3


if __name__ == "__main__":
    sys.exit(main())
