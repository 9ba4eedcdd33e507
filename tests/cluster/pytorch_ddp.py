#!/usr/bin/python3
"""Holds forecasts for `framework: ddp` against PyTorch's own DistributedDataParallel.

  tests/cluster/pytorch_ddp.py                       200Mbit, 500Mbit and 1Gbit; 15 minutes
  tests/cluster/pytorch_ddp.py --speed 1Gbit         one of them
  tests/cluster/pytorch_ddp.py --update              also writes a summary into docs/accuracy/emulated-cluster.md

Four processes on an emulated cluster (tools/cluster) train with DistributedDataParallel on Gloo:
Debian's python3-torch, none of stepcast's code. The model's layers sleep for given times in forward
and backward, so that two cores are enough, and have real parameters and gradients; buckets, hooks,
copies, all-reduces and their order are PyTorch's. Forecast is `stepcast simulate` on the same layer
list, with a profile of what the same processes measured before: all-reduces as DDP calls them,
asynchronous and one behind the other, and copies in memory.

Needs root, python3-torch and a built stepcast (bazel build //src/cli:stepcast, or --stepcast).
"""

import argparse
import contextlib
import ctypes
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

import accuracy_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tools" / "cluster"
NAME = "pytorch"  # of the cluster
RANKS = 4
MIB = 1 << 20
MS = 1e-3

BUCKETS = (1, 2, 5, 10, 25, 50)  # MiB
# DDP's warm-up: a first iteration in one bucket, and a second that rebuilds the buckets.
WARM_UP_STEPS = 2


def measured_steps(step):
    """How many steps, when one takes so many seconds: some ten seconds' worth, three at least."""
    return max(3, min(7, int(8 / step)))

# Sizes of all-reduces, a factor of sqrt(2) apart. Linear interpolation over the logarithm of the
# size is then at most 1.5 % above a time proportional to the size.
TABLE_SIZES = [round(64 * 1024 * 2 ** (i / 2)) // 4 * 4 for i in range(20)]
COPY_SIZES = [64 << 10, 256 << 10, MIB, 2 * MIB, 4 * MIB]


# --- cases ---------------------------------------------------------------------------------------

def models(bits_per_second):
    """Layer lists, named; times follow from the speed of the links, so that communication takes
    about three times as long as the backward, or two thirds."""
    equal = [[524288]] * 12
    # Layers with weight and bias whose sizes fill buckets unevenly; 25.5 MiB.
    uneven = [[1048576, 1024], [131072, 256], [262144, 512], [786432, 2048]] * 3
    result = {}
    for name, layers, ratio in (("communication-bound", equal, 3.0),
                                ("compute-bound", equal, 2 / 3),
                                ("uneven layers", uneven, 1.2)):
        total = 4 * sum(sum(tensors) for tensors in layers)
        reduction = 2 * (RANKS - 1) / RANKS * total * 8 / bits_per_second
        backward = round(reduction / ratio / len(layers) / MS) * MS
        result[name] = [{"parameters": tensors, "forward": round(backward / 2, 6),
                         "backward": round(backward, 6)} for tensors in layers]
    return result


def cases(quick):
    """(model, bucket in MiB, micro-batches, series of bucket sizes)."""
    buckets = (2, 25) if quick else BUCKETS
    for model in ("communication-bound", "compute-bound", "uneven layers"):
        for bucket in buckets:
            yield model, bucket, 1, "ddp"
        if model == "communication-bound" and not quick:
            for bucket in (5, 25):
                yield model, bucket, 4, None


OPTIMIZER_STEP = 5 * MS


# --- worker: one of the four processes -----------------------------------------------------------

def sleep_until(deadline):
    """By an absolute time, so that what was done before is part of the given time."""
    left = deadline - time.monotonic()
    if left > 0:
        time.sleep(left)


def worker(speed, quick, output):
    import torch
    import torch.distributed as dist

    # By default Linux may extend a sleep by 50 us.
    pr_set_timerslack = 29
    ctypes.CDLL(None).prctl(pr_set_timerslack, 1000, 0, 0, 0)
    torch.set_num_threads(1)
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    dist.init_process_group("gloo", init_method="tcp://198.18.0.1:29500", rank=rank,
                            world_size=RANKS, timeout=datetime.timedelta(seconds=120))

    def slowest(seconds):
        """The same figure everywhere."""
        value = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value.item()

    def measure_all_reduce(size, calls):
        """Time of one call among `calls`, issued at once as DDP issues its buckets."""
        tensors = [torch.rand(size // 4) for _ in range(calls)]
        dist.barrier()
        begin = time.monotonic()
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        return (time.monotonic() - begin) / calls

    def measure_copy(size):
        """What DDP does to put a gradient into a bucket, over more memory than caches hold, on all
        ranks at once; seconds for one."""
        pairs = max(2, 48 * MIB // size)
        sources = [torch.rand(size // 4) for _ in range(pairs)]
        targets = [torch.rand(size // 4) for _ in range(pairs)]
        rounds = []
        for _ in range(5):
            dist.barrier()
            begin = time.monotonic()
            for source, target in zip(sources, targets):
                torch.mul(source, 1 / RANKS, out=target)
            rounds.append((time.monotonic() - begin) / pairs)
        return statistics.median(rounds)

    class Layer(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.times = layer["forward"], layer["backward"]
            self.tensors = torch.nn.ParameterList(
                [torch.nn.Parameter(torch.rand(size)) for size in layer["parameters"]])

        def forward(self, x):
            # Autograd passes gradients on in the order of a function's inputs. The last tensor
            # comes first, as in torch.nn.Linear, where the bias has its gradient before the weight.
            return GivenTime.apply(x, self.times, *reversed(list(self.tensors)))

    class GivenTime(torch.autograd.Function):
        @staticmethod
        def forward(context, x, times, *parameters):
            begin = time.monotonic()
            context.time, context.parameters = times[1], parameters
            y = x.clone()
            sleep_until(begin + times[0])
            return y

        @staticmethod
        def backward(context, gradient):
            begin = time.monotonic()
            # New memory each time, as from kernels; DDP's hooks then copy it.
            gradients = [torch.full_like(p, 1e-3) for p in context.parameters]
            sleep_until(begin + context.time)
            return gradient, None, *gradients

    def measure_training(layers, bucket, micro_batches):
        module = torch.nn.Sequential(*[Layer(layer) for layer in layers])
        ddp = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=bucket)
        x = torch.ones(1, requires_grad=True)
        parameters = list(module.parameters())

        def step():
            for micro_batch in range(micro_batches):
                last = micro_batch == micro_batches - 1
                with contextlib.nullcontext() if last else ddp.no_sync():
                    ddp(x).sum().backward()
            begin = time.monotonic()
            for parameter in parameters:
                parameter.grad = None
            sleep_until(begin + OPTIMIZER_STEP)

        for _ in range(WARM_UP_STEPS):
            begin = time.monotonic()
            step()
        count = measured_steps(slowest(time.monotonic() - begin))
        steps = []
        for _ in range(count):
            begin = time.monotonic()
            step()
            steps.append(time.monotonic() - begin)
        sizes = ddp._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
        return slowest(statistics.median(steps)), [int(s) for s in sizes.split(",") if s]

    result = {"all_reduce": [], "copies": [], "cases": [],
              "software": f"PyTorch {torch.__version__}, Gloo, Python {platform.python_version()}"}
    for _ in range(5):
        measure_all_reduce(MIB, 4)
    for size in COPY_SIZES:
        result["copies"].append([size, slowest(measure_copy(size))])
    for size in TABLE_SIZES:
        calls = max(2, min(12, 24 * MIB // size))
        rounds = [slowest(measure_all_reduce(size, calls)) for _ in range(3 if size > MIB else 9)]
        result["all_reduce"].append([size, statistics.median(rounds)])
    for model, bucket, micro_batches, series in cases(quick):
        seconds, sizes = measure_training(models(speed)[model], bucket, micro_batches)
        result["cases"].append([model, bucket, micro_batches, series, seconds, sizes])
        if rank == 0:
            print(f"  {model}, {bucket} MiB, grad_acc {micro_batches}: {seconds:.4f} s",
                  file=sys.stderr, flush=True)
    if rank == 0:
        pathlib.Path(output).write_text(json.dumps(result))
    dist.barrier()


# --- driver --------------------------------------------------------------------------------------

def line_through(points):
    """Intercept and slope by Theil and Sen: medians, which outliers do not move."""
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points)
              for x2, y2 in points[i + 1:]]
    slope = statistics.median(slopes)
    return max(0.0, statistics.median(y - slope * x for x, y in points)), slope


def seconds(value):
    return f"{value * 1e6:.3f} us"


def write_inputs(folder, speed_text, measured):
    """The profile and the data sheet of `devices` that are this machine's processes."""
    # A copy reads and writes each byte. The rate becomes the data sheet's bandwidth, to which the
    # profile's efficiency refers.
    start, per_byte = line_through([(2 * size, t) for size, t in measured["copies"]])
    (folder / "process.yaml").write_text(f"""\
name: process
memory: 8 GiB
memory_bandwidth: {1e-9 / per_byte:.4f} GB/s
multiprocessors: 1
peak: {{fp32: 1 TFLOPS}}
""")
    # Makes times grow with size; noise may violate that at small sizes.
    points, longest = [], 0.0
    for size, t in measured["all_reduce"]:
        longest = max(longest, t)
        points.append(f"[{size} B, {seconds(longest)}]")
    (folder / "profile.yaml").write_text(f"""\
name: pytorch on {speed_text} links
gpu: process
provenance:
  machine: {RANKS} processes on an emulated cluster, links of {speed_text}, {platform.node()}
  software: {json.dumps(measured["software"])}
  when: "{datetime.date.today()}"
  how: tests/cluster/pytorch_ddp.py, all-reduces as DDP issues them, copies on all ranks at once
kernels:
  gemm: {{fp32: {{max_efficiency: 1, half_flops: 0}}}}
  attention_forward_efficiency: 1
  attention_backward_efficiency: 1
  memory_efficiency: 1
  start_latency: {seconds(start)}
  launch: 0 us
  collective_launch: 0 us
links:
  nvlink_efficiency: 1
  pcie_efficiency: 1
  network_efficiency: 1
  ring: {{base: 0 us, nvlink_hop: 0 us, pcie_hop: 0 us, network_hop: 0 us}}
  tree: {{base: 0 us, nvlink_hop: 0 us, pcie_hop: 0 us, network_hop: 0 us}}
memory: {{context: 0 B, first_communicator: 0 B, next_communicator: 0 B, gemm_workspace: 0 B}}
collectives:
  - collective: all_reduce
    ranks: {RANKS}
    nodes: {RANKS}
    points: [{", ".join(points)}]
""")


def write_scenario(folder, layers):
    lines = [f"    - {{name: layer.{i}, parameters: {layer['parameters']}, "
             f"forward: {seconds(layer['forward'])}, backward: {seconds(layer['backward'])}, "
             "activation: 0 B}" for i, layer in enumerate(layers)]
    (folder / "scenario.yaml").write_text(f"""\
stepcast: 1
name: PyTorch's DDP on an emulated cluster
model:
  kind: layers
  layers:
{chr(10).join(lines)}
  optimizer_step: {seconds(OPTIMIZER_STEP)}
cluster:
  topology: {{kind: flat, devices: {RANKS}, gpu: process.yaml}}
calibration: profile.yaml
software: {{torch: "1.13"}}
training:
  sequence_length: 1
  micro_batch_size: 1
  gradient_accumulation: 1
  precision: fp32
  optimizer: sgd
data_parallel: {{zero_stage: 0, framework: ddp}}
""")


def simulate(stepcast, folder, bucket, micro_batches, form):
    done = subprocess.run(
        [stepcast, "simulate", str(folder / "scenario.yaml"), form,
         "--set", f"data_parallel.bucket_size={bucket} MiB",
         "--set", f"training.gradient_accumulation={micro_batches}"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"pytorch_ddp: stepcast failed:\n{done.stderr}")
    return done.stdout


def bucket_sizes(stepcast, folder, bucket):
    """Of the step program, in the order of their all-reduces: bytes, and how exactly."""
    units = {"B": 1, "KiB": 1 << 10, "MiB": MIB}
    listing = simulate(stepcast, folder, bucket, 1, "--program")
    found = re.findall(r"collective +all_reduce on data +([\d.]+) (B|KiB|MiB) ", listing)
    return [(float(size) * units[unit], units[unit]) for size, unit in found]


def same_buckets(expected, actual):
    return len(expected) == len(actual) and all(
        abs(bytes - size) <= unit for (bytes, unit), size in zip(expected, actual))


def compare(stepcast, folder, speed_text, bits, measured):
    """Cases of one speed. That PyTorch makes the buckets of the forecast is checked."""
    write_inputs(folder, speed_text, measured)
    table = []
    for model, bucket, micro_batches, series, seconds_measured, sizes in measured["cases"]:
        write_scenario(folder, models(bits)[model])
        answer = json.loads(simulate(stepcast, folder, bucket, micro_batches, "--json"))
        buckets = bucket_sizes(stepcast, folder, bucket)
        if not same_buckets(buckets, sizes):
            raise SystemExit(f"pytorch_ddp: {model}, {bucket} MiB: PyTorch's buckets are {sizes} "
                             f"bytes, those of the forecast {[size for size, _ in buckets]}")
        plan = f"ddp, buckets of {bucket} MiB"
        if micro_batches > 1:
            plan += f", grad_acc {micro_batches}"
        table.append(accuracy_table.Case(speed_text, model, plan, answer["step_time_s"],
                                         seconds_measured, series))
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", action="append", metavar="BANDWIDTH",
                        help="of the links; repeatable (default: 200Mbit, 500Mbit, 1Gbit)")
    parser.add_argument("--quick", action="store_true", help="a few cases of each model")
    parser.add_argument("--keep", metavar="FOLDER",
                        help="keeps profiles, scenarios and measurements there; measurements "
                        "found there are not made again")
    parser.add_argument("--update", action="store_true", help="writes docs/accuracy/emulated-cluster.md")
    parser.add_argument("--stepcast", default=str(ROOT / "bazel-bin/src/cli/stepcast"),
                        help="the binary (default: what Bazel built)")
    parser.add_argument("--worker", nargs=2, metavar=("BITS", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(int(arguments.worker[0]), arguments.quick, arguments.worker[1])
        return 0

    speeds = arguments.speed or ["200Mbit", "500Mbit", "1Gbit"]
    table = []
    with contextlib.ExitStack() as stack:
        keep = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory())
        for speed in speeds:
            folder = pathlib.Path(keep).resolve() / speed
            folder.mkdir(parents=True, exist_ok=True)
            bits = bits_per_second(speed)
            if not (folder / "measured.json").exists():
                print(f"pytorch_ddp: measuring with links of {speed}", file=sys.stderr)
                measure(folder, speed, bits, arguments.quick)
            measured = json.loads((folder / "measured.json").read_text())
            table += compare(arguments.stepcast, folder, speed, bits, measured)
    text = f"{accuracy_table.markdown(table)}\n\n{accuracy_table.summary(table)}"
    print(text)
    if arguments.update:
        accuracy_table.update_document(ROOT / "docs" / "accuracy" / "emulated-cluster.md", "pytorch ddp",
                                       accuracy_table.text_of_document(table))
    return 0


def bits_per_second(speed):
    for unit, size in (("Gbit", 10**9), ("Mbit", 10**6)):
        if speed.endswith(unit):
            return round(float(speed[:-len(unit)]) * size)
    raise SystemExit(f"pytorch_ddp: {speed!r} is not a bandwidth such as 1Gbit or 200Mbit")


def measure(folder, speed, bits, quick):
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
    subprocess.run([CLUSTER, "up", "--name", NAME, "--nodes", str(RANKS), "--bandwidth", speed],
                   check=True)
    try:
        subprocess.run(
            [CLUSTER, "run", "--name", NAME, "--first", "--", "/usr/bin/python3",
             os.path.abspath(__file__), "--worker", str(bits), str(folder / "measured.json"),
             *(["--quick"] if quick else [])],
            check=True, env=environment)
    except subprocess.CalledProcessError as failure:
        raise SystemExit(f"pytorch_ddp: PyTorch's run failed with exit status "
                         f"{failure.returncode}") from None
    finally:
        subprocess.run([CLUSTER, "down", "--name", NAME], check=True)


if __name__ == "__main__":
    sys.exit(main())
