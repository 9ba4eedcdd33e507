#!/usr/bin/python3
"""Holds forecasts against executions on an emulated cluster of four nodes (tools/cluster).

  tests/cluster/accuracy.py                    200Mbit, 500Mbit and 1Gbit; about 20 minutes
  tests/cluster/accuracy.py --speed 1Gbit      one of them
  tests/cluster/accuracy.py --quick            a handful of cases at 1Gbit, in a minute or two
  tests/cluster/accuracy.py --keep FOLDER      goes on where an interrupted run was
  tests/cluster/accuracy.py --update           also writes a summary into docs/accuracy/emulated-cluster.md

For each speed of the links: `stepcast calibrate` measures the cluster, then each case is forecast
(`stepcast simulate` with that profile) and executed (`stepcast execute`, the median step).
Layers and optimizer take given times, sleeps; communication, copies and values are real.

Exit status: 0 within the bounds; 3 beyond them (--mean, --worst, --bucket, in percent); 1 failed.
Needs root and a built stepcast (bazel build //src/cli:stepcast, or --stepcast).
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import accuracy_table

ROOT = pathlib.Path(__file__).absolute().parents[2]
CLUSTER = str(ROOT / "tools" / "cluster")
RANKS = 4
GBIT = 10**9

# Forward and backward of a layer on links of 1 Gbit/s. On slower links they are proportionally
# longer, so that the fraction of communication stays the same.
MODELS = {"communication-bound": (4, 8), "compute-bound": (15, 30),
          "pipelined": (8, 16), "divided": (8, 16), "experts": (5, 10)}  # ms
# The number of kinds of layers in a model, if there are several.
KINDS = {"experts": 3}
# Cases whose plans `stepcast plan` chooses with the measured profile: the best plan of each kind of
# parallelism with that framework, over products of two axes and more.
CHOSEN = (("pipelined", {}, "reference"), ("divided", {"parallelism.tensor": 2}, "reference"),
          ("experts", {"parallelism.expert": 2}, "megatron"))
# The models in each table of docs/accuracy/emulated-cluster.md.
TABLES = {"emulated cluster": ("communication-bound", "compute-bound"),
          "emulated cluster, other axes": ("pipelined", "divided"),
          "emulated cluster, experts": ("experts",),
          "emulated cluster, chosen": tuple(f"{model}, chosen" for model, _, _ in CHOSEN)}
BUCKETS = (1, 2, 5, 10, 25, 50)  # MiB


class Failed(Exception):
    pass


def plans(model, speed, quick):
    """(what it is called, settings, series of bucket sizes)."""
    def plan(text, stage, accumulation=1, framework="reference", series=None, speed=None,
             **settings):
        settings = {f"data_parallel.{key}": value for key, value in settings.items()}
        if speed is not None:
            settings["cluster.slow_devices"] = f"[{{device: device2, speed: {speed}}}]"
            text += f", one device at speed {speed}"
        settings["data_parallel.zero_stage"] = stage
        settings["data_parallel.framework"] = framework
        if accumulation > 1:
            settings["training.gradient_accumulation"] = accumulation
            text += f", grad_acc {accumulation}"
        return text, settings, series

    def bucketed(size, **more):
        framework = more.get("framework", "reference")
        name = "ddp" if framework == "ddp" else "overlapped"
        return plan(f"{name}, buckets of {size} MiB", 0, bucket_size=f"{size} MiB",
                    series=name if more.get("accumulation", 1) == 1 else None, **more)

    def degrees(text, framework="reference", stage=0, **axes):
        title, settings, _ = plan(f"{framework}, {text}", stage, framework=framework)
        return title, {**settings, **{f"parallelism.{k}": v for k, v in axes.items()}}, None

    if model == "pipelined":
        result = [degrees("1f1b", pipeline=4),
                  degrees("interleaved_1f1b", pipeline=4, schedule="interleaved_1f1b",
                          virtual_stages=2),
                  degrees("zb_h1", pipeline=4, schedule="zb_h1"),
                  degrees("1f1b on 2 stages", pipeline=2)]
        if quick:
            return result[:1]
        return result + [
            degrees("gpipe", pipeline=4, schedule="gpipe"),
            degrees("breadth_first", pipeline=4, schedule="breadth_first", virtual_stages=2),
            degrees("dualpipe_v", pipeline=4, schedule="dualpipe_v"),
            degrees("zb_v", pipeline=4, schedule="zb_v"),
            degrees("1f1b", "megatron", pipeline=4),
            degrees("interleaved_1f1b", "megatron", pipeline=4, schedule="interleaved_1f1b",
                    virtual_stages=2),
            degrees("1f1b on 2 stages, ZeRO-1", "megatron", 1, pipeline=2)]
    if model == "divided":
        result = [degrees("tensor 2", tensor=2),
                  degrees("tensor 2 on 2 stages", tensor=2, pipeline=2)]
        if quick:
            return result[1:]
        return result + [
            degrees("tensor 4", tensor=4),
            degrees("tensor 2, ZeRO-3", stage=3, tensor=2),
            degrees("tensor 2", "megatron", tensor=2),
            degrees("tensor 2, ZeRO-1", "megatron", 1, tensor=2),
            degrees("tensor 2 on 2 stages", "megatron", tensor=2, pipeline=2)]
    if model == "experts":
        result = []
        for text, axes in (("expert 4", {"expert": 4}), ("expert 2 x data 2", {"expert": 2}),
                           ("expert 2 x pipeline 2", {"expert": 2, "pipeline": 2})):
            for imbalance in (1, 1.5):
                title, settings, _ = degrees(text, "megatron", **axes)
                load = "equal" if imbalance == 1 else f"the first has {imbalance} times the mean"
                result.append((f"{title}, {load}",
                               {**settings, "experts.imbalance": imbalance}, None))
        return result[1:2] if quick else result
    if quick and model == "compute-bound":
        return [bucketed(5), plan("ZeRO-2", 2), plan("ZeRO-2", 2, speed=0.8)]
    if quick:
        return [plan("naive", 0, overlap="false"), bucketed(5, framework="ddp"),
                plan("ZeRO-3, prefetch 1", 3, prefetch=1)]
    result = [plan("naive", 0, overlap="false")]
    result += [bucketed(size) for size in BUCKETS]
    result += [bucketed(size, framework="ddp") for size in (2, 10, 25)]
    result += [plan("ZeRO-1", 1), plan("ZeRO-2", 2),
               plan("ZeRO-3, prefetch 0", 3, prefetch=0), plan("ZeRO-3, prefetch 1", 3, prefetch=1),
               plan("fsdp2", 3, framework="fsdp2"), bucketed(5, speed=0.8),
               plan("ZeRO-2", 2, speed=0.8)]
    # Several micro-batches take long on slow links, so most run only on the fast ones.
    if speed == "1Gbit" or model == "communication-bound":
        result += [plan("naive", 0, 4, overlap="false"), bucketed(10, accumulation=4)]
    if speed == "1Gbit":
        result += [bucketed(25, framework="ddp", accumulation=4), plan("ZeRO-1", 1, 4),
                   plan("ZeRO-2", 2, 4), plan("ZeRO-3, prefetch 1", 3, 4, prefetch=1),
                   plan("fsdp2, reshard_after_forward: false", 3, framework="fsdp2",
                        reshard_after_forward="false")]
    return result


def bits_per_second(speed):
    for unit, size in (("Gbit", GBIT), ("Mbit", 10**6)):
        if speed.endswith(unit) and speed[:-len(unit)].isdecimal():
            return int(speed[:-len(unit)]) * size
    raise Failed(f"{speed!r} is not a bandwidth such as 1Gbit or 200Mbit")


def call(*words, echo=False):
    """What a command prints on stdout; with `echo` its stderr is shown."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=None if echo else subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(words)}` ended with status {done.returncode}\n"
                     f"{done.stderr or ''}")
    return done.stdout


def arguments_of(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


class Kept:
    """Cases that are done, in a file, so that an interrupted run can be gone on with."""

    def __init__(self, path):
        self.path = path
        self.cases = []
        if path.exists():
            self.cases = [accuracy_table.Case(**case) for case in json.loads(path.read_text())]

    def find(self, speed, model, plan):
        return next((case for case in self.cases
                     if (case.speed, case.model, case.plan) == (speed, model, plan)), None)

    def add(self, case):
        self.cases.append(case)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps([dataclasses.asdict(case) for case in self.cases]))
        partial.rename(self.path)


class Bench:
    def __init__(self, options):
        self.stepcast = options.stepcast
        self.quick = options.quick
        self.name = options.name
        self.repetitions = options.repetitions

    def on_cluster(self, *words, echo=False):
        return call(CLUSTER, "run", "--name", self.name, "--first", "--", *words, echo=echo)

    def calibrate(self, profile):
        # The range of sizes in the cases: from the smallest bucket to the whole model. In a hurry,
        # the bandwidth at a third of that is used for larger sizes.
        sizes = ("1MiB", "8MiB") if self.quick else ("128KiB", "64MiB")
        self.on_cluster(self.stepcast, "calibrate", "--backend", "host", "--quick",
                        "--only", "memory,collectives", "--groups", f"{RANKS},{RANKS // 2}",
                        "--from", sizes[0], "--to", sizes[1], "--output", str(profile), echo=True)

    def settings(self, speed, model, profile):
        """Of the scenario of a model, on links of that speed."""
        scale = GBIT / bits_per_second(speed)
        forward, backward = MODELS[model]
        settings = {"calibration": profile,
                    # The profile contains the cost of collectives. The token buckets of the links'
                    # shapers make small ones faster than the bare link.
                    "cluster.topology.link": "null"}
        for kind in range(KINDS.get(model, 1)):
            settings[f"model.layers.{kind}.forward"] = f"{forward * scale:g} ms"
            settings[f"model.layers.{kind}.backward"] = f"{backward * scale:g} ms"
        if model == "pipelined":
            settings["model.layers.0.backward_weight"] = f"{backward / 2 * scale:g} ms"
        return settings

    def chosen(self, speed, profile):
        """(model, what it is called, settings, no series) of the plans that stepcast chooses."""
        plans = []
        for model, given, framework in CHOSEN:
            report = json.loads(call(self.stepcast, "plan", scenario_of(model), "--json",
                                     "--no-front", "--no-sensitivity", "--framework", framework,
                                     *arguments_of({**self.settings(speed, model, profile), **given})))
            plans += [(f"{model}, chosen", f"{kind['framework']}, {kind['layout']}",
                       {**given, **kind["set"]}, None) for kind in report["kinds"] if kind["fits"]]
        return plans

    def case(self, speed, model, text, settings, series, profile):
        of_model = model.removesuffix(", chosen")
        settings = {**self.settings(speed, of_model, profile), **settings}
        scenario = scenario_of(of_model)
        forecast = json.loads(call(self.stepcast, "simulate", scenario, "--json",
                                   *arguments_of(settings)))
        steps = ["--steps", "3", "--warmup", "1"]
        measured = [json.loads(self.on_cluster(self.stepcast, "execute", scenario, "--backend",
                                               "host", "--json", *steps,
                                               *arguments_of(settings)))["step_time_s"]
                    for _ in range(self.repetitions)]
        if self.repetitions > 1:
            say("measured " + ", ".join(f"{time:.4f} s" for time in measured))
        return accuracy_table.Case(speed, model, text, forecast["step_time_s"],
                                   statistics.median(measured), series)

    def speed(self, speed, models, profile, kept):
        wanted = [(model, *plan) for model in models if model != "chosen"
                  for plan in plans(model, speed, self.quick)]
        cases = [kept.find(speed, model, text) for model, text, _, _ in wanted]
        if all(cases) and "chosen" not in models:
            return cases
        call(CLUSTER, "up", "--name", self.name, "--nodes", str(RANKS), "--bandwidth", speed)
        try:
            if not profile.exists():
                say(f"{speed}: calibrating")
                self.calibrate(profile)
            if "chosen" in models:
                more = self.chosen(speed, str(profile))
                wanted += more
                cases += [kept.find(speed, model, text) for model, text, _, _ in more]
            for i, (model, text, settings, series) in enumerate(wanted):
                if cases[i] is None:
                    cases[i] = self.case(speed, model, text, settings, series, str(profile))
                    kept.add(cases[i])
                say(f"{speed}, {model}, {text}: forecast {cases[i].forecast:.4f} s, measured "
                    f"{cases[i].measured:.4f} s, {cases[i].error:+.1f} %")
            return cases
        finally:
            call(CLUSTER, "down", "--name", self.name)


def scenario_of(model):
    return str(ROOT / "tests" / "cluster" / f"{model}.yaml")


def say(text):
    print(f"accuracy: {text}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", action="append", metavar="BANDWIDTH",
                        help="of the links; repeatable")
    parser.add_argument("--quick", action="store_true", help="a few cases")
    parser.add_argument("--model", action="append", choices=[*MODELS, "chosen"],
                        help="repeatable (all); chosen: the plans that `plan` chooses")
    parser.add_argument("--repetitions", type=int, default=1,
                        help="executions of a case, whose median counts (%(default)s)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER",
                        help="keeps profiles and measured cases there, and takes those it finds")
    parser.add_argument("--mean", type=float, default=8, help="bound, percent (%(default)s)")
    parser.add_argument("--worst", type=float, default=20, help="bound, percent (%(default)s)")
    parser.add_argument("--bucket", type=float, default=3,
                        help="what the chosen bucket size may cost, percent (%(default)s)")
    parser.add_argument("--name", default="accuracy", help="of the cluster (%(default)s)")
    parser.add_argument("--update", action="store_true", help="writes docs/accuracy/emulated-cluster.md")
    parser.add_argument("--stepcast", default=str(ROOT / "bazel-bin/src/cli/stepcast"),
                        help="the binary (default: what Bazel built)")
    options = parser.parse_args()
    os.environ["STEPCAST_DATA"] = str(ROOT)
    bench, cases = Bench(options), []
    try:
        with contextlib.ExitStack() as stack:
            folder = options.keep or pathlib.Path(
                stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            kept = Kept(folder.absolute() / "cases.json")
            default = ["1Gbit"] if options.quick else ["200Mbit", "500Mbit", "1Gbit"]
            for speed in options.speed or default:
                cases += bench.speed(speed, options.model or list(MODELS),
                                     folder.absolute() / f"{speed}.yaml", kept)
    except Failed as failure:
        say(failure)
        return 1
    choices = accuracy_table.bucket_choices(cases)
    print(accuracy_table.text(cases))
    if options.update:
        for table, models in TABLES.items():
            of_table = [case for case in cases if case.model in models]
            if of_table:
                accuracy_table.update_document(ROOT / "docs" / "accuracy" / "emulated-cluster.md", table,
                                               accuracy_table.text_of_document(of_table))
    within = (accuracy_table.mean_error(cases) <= options.mean
              and abs(accuracy_table.worst(cases).error) <= options.worst
              and all(loss <= options.bucket for _, _, loss in choices))
    return 0 if within else 3


if __name__ == "__main__":
    sys.exit(main())
