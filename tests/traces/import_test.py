#!/usr/bin/python3
"""`model import --kineto`: a step of ResNet-50 under DistributedDataParallel, written as PyTorch's
profiler writes it, comes back with its buckets, its order and its time.

The trace is made from scenarios/resnet50-ddp, whose layers and times come from a real trace
(facebookresearch/HolisticTraceAnalysis@f4d0062 tests/data/nccl_parser_config): batch norms and
convolutions as autograd nodes of their own, kernels shorter than the host takes to launch them, five
buckets when they were launched. With STEPCAST_RESNET50_TRACE naming the real file, that is
imported, too.
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")
SCENARIO = "scenarios/resnet50-ddp/scenario.yaml"
MODEL = pathlib.Path("scenarios/resnet50-ddp/model.yaml")

# From the real trace: elements and duration in microseconds of each all-reduce.
BUCKETS = [(2049000, 3307), (7875584, 2424), (6563840, 2369), (6637568, 2161), (2431040, 1690)]
STEP_US = 222442


def layers():
    """Name, tensors, forward and backward in microseconds, in registration order."""
    pattern = re.compile(r"- \{name: (\S+), parameters: \[(.*?)\], forward: (\d+) us, "
                         r"backward: (\d+) us")
    return [(name, [int(n) for n in sizes.split(",")], int(forward), int(backward))
            for name, sizes, forward, backward in pattern.findall(MODEL.read_text())]


class Trace:
    def __init__(self):
        self.events = []
        self.correlation = 0

    def add(self, category, name, start, duration, tid, **arguments):
        self.events.append({
            "ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid,
            "ts": 1680000000000000 + start, "dur": duration,
            "args": {key.replace("_", " "): value for key, value in arguments.items()}})

    def kernel(self, name, launch, start, duration, **arguments):
        self.correlation += 1
        self.add("cuda_runtime", "cudaLaunchKernel", launch, 8, 2, correlation=self.correlation)
        self.add("kernel", name, start, duration, 7, correlation=self.correlation, **arguments)

    def gradient(self, elements, at):
        name = "torch::autograd::AccumulateGrad"
        self.add("cpu_op", "autograd::engine::evaluate_function: " + name, at - 6, 6, 2)
        self.add("cpu_op", name, at - 5, 4, 2, Input_Dims=[[elements]])


def resnet50():
    """Two steps; the second is there so that the first one's end is known."""
    trace = Trace()
    model = layers()
    for number in (4, 5):
        now = begin = (number - 4) * STEP_US
        trace.add("user_annotation", f"ProfilerStep#{number}", begin, STEP_US - 40, 1)
        # Buffers of batch norms, broadcast before the forward: no gradients.
        trace.kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", begin + 20,
                     begin + 30, 50, Collective_name="broadcast", In_msg_nelems=53120,
                     dtype="Float", Group_size=2)
        for sequence, (name, sizes, forward, _) in enumerate(model):
            operators = ["aten::linear"] if len(sizes) == 2 else ["aten::conv2d",
                                                                  "aten::batch_norm"]
            for i, operator in enumerate(operators):
                start = now + i * forward // 2
                trace.add("cpu_op", operator, start, forward // 2 - 10, 1,
                          Sequence_number=2 * sequence + i, Fwd_thread_id=0)
                trace.kernel("kernel of " + name, start + 100, start + 150, 200)
            now += forward
        bucket, filled, busy = 0, 0, 0
        for sequence, (name, sizes, _, backward) in reversed(list(enumerate(model))):
            # The batch norm's gradients come before the convolution's.
            parts = [("AddmmBackward0", 2 * sequence, sizes)] if len(sizes) == 2 else [
                ("NativeBatchNormBackward0", 2 * sequence + 1, sizes[1:]),
                ("ConvolutionBackward0", 2 * sequence, sizes[:1])]
            for i, (node, number_of_node, tensors) in enumerate(parts):
                start = now + i * backward // len(parts)
                end = now + (i + 1) * backward // len(parts)
                trace.add("cpu_op", "autograd::engine::evaluate_function: " + node, start,
                          end - start - 30, 2, Sequence_number=number_of_node, Fwd_thread_id=1)
                trace.kernel("kernel of " + name, start + 50, start + 100, 150)
                for j, elements in enumerate(reversed(tensors)):
                    at = end - 8 * (len(tensors) - 1 - j)
                    trace.gradient(elements, at)
                    filled += elements
                    if bucket < len(BUCKETS) and filled == BUCKETS[bucket][0]:
                        busy = max(busy, at)
                        trace.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
                                     at - 1, busy, BUCKETS[bucket][1],
                                     Collective_name="allreduce", In_msg_nelems=filled,
                                     dtype="Float", Group_size=2)
                        busy += BUCKETS[bucket][1]
                        bucket, filled = bucket + 1, 0
            now += backward
        assert bucket == len(BUCKETS), bucket
        trace.kernel("multi_tensor_apply_kernel", now + 5000, now + 5010, 900)
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0,
                                                    "world_size": 2},
            "traceEvents": trace.events}


def run(*arguments):
    return subprocess.run([STEPCAST, *arguments], capture_output=True, text=True)


class ImportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.trace = cls.folder / "rank0.pt.trace.json.gz"
        with gzip.open(cls.trace, "wt") as file:
            json.dump(resnet50(), file)
        cls.model = cls.folder / "model.yaml"
        done = run("model", "import", "--kineto", str(cls.trace), "--step", "4", "--output",
                   str(cls.model))
        assert done.returncode == 0, done.stderr
        cls.said = done.stderr

    def simulate(self, *options):
        done = run("simulate", SCENARIO, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def buckets(self, *options):
        """Bytes of the all-reduces of a step, in their order."""
        done = run("simulate", SCENARIO, "--program", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        units = {"B": 1, "KB": 1000, "MB": 10**6, "KiB": 1 << 10, "MiB": 1 << 20}
        return [int(number) * units[unit] for number, unit in
                re.findall(r"all_reduce on data +(\d+) (\w+) +w ", done.stdout)]

    def test_tensors_are_those_of_the_model(self):
        found = [int(n) for sizes in re.findall(r"parameters: \[(.*?)\]", self.model.read_text())
                 for n in sizes.split(", ")]
        self.assertEqual(found, [n for _, sizes, _, _ in layers() for n in sizes])

    def test_buckets_are_the_traced_ones(self):
        self.assertEqual(self.buckets("--set", f"model={self.model}"),
                         [4 * elements for elements, _ in BUCKETS])

    def test_step_time(self):
        """As the list made by hand: both are the traced step, but for what its all-reduces took."""
        imported = self.simulate("--set", f"model={self.model}")
        by_hand = self.simulate()
        self.assertAlmostEqual(imported["step_time_s"] / by_hand["step_time_s"], 1, delta=0.005)
        self.assertAlmostEqual(imported["step_time_s"], STEP_US * 1e-6, delta=0.01 * STEP_US * 1e-6)
        self.assertEqual(imported["parameters"], 25557032)

    def test_other_plans(self):
        """What the trace is for: other bucket sizes and numbers of ranks."""
        small = self.simulate("--set", f"model={self.model}", "--set",
                              "data_parallel.bucket_size=5 MiB")
        self.assertGreater(small["communication"]["collectives"][0]["calls"], len(BUCKETS))
        many = self.simulate("--set", f"model={self.model}", "--set",
                             "cluster.topology.devices=64")
        self.assertGreater(many["communication"]["total_s"],
                           self.simulate("--set", f"model={self.model}")["communication"]["total_s"])

    def test_what_the_file_says(self):
        text = self.model.read_text()
        self.assertIn("ProfilerStep#4", text)
        self.assertIn("allreduce of 7875584 elements Float over 2 ranks", text)
        self.assertIn("broadcast", text)
        self.assertIn('name: "rank0"', text)
        self.assertIn("'activation' is 0 B", self.said)
        done = run("model", "import", "--kineto", str(self.trace), "--step", "4", "--name",
                   'a "name"')
        self.assertIn('name: "a \\"name\\""', done.stdout)

    def test_wrong_use(self):
        for arguments, code in (((str(self.trace), "--step", "9"), "kineto.no-such-step"),
                                ((SCENARIO,), "file.not-json"),
                                ((str(self.folder / "none.json"),), "file.not-found"),
                                ((str(self.folder),), "file.not-a-file")):
            done = run("model", "import", "--kineto", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(code, done.stderr)
        self.assertEqual(run("model", "import").returncode, 2)
        self.assertEqual(run("model").returncode, 2)

    def test_the_real_trace(self):
        """Buckets and order exactly, the step within 10 %."""
        file = os.environ.get("STEPCAST_RESNET50_TRACE", "")
        if not os.path.exists(file):
            self.skipTest("STEPCAST_RESNET50_TRACE names no file")
        model = self.folder / "real.yaml"
        done = run("model", "import", "--kineto", file, "--step", "4", "--output", str(model))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.buckets("--set", f"model={model}"),
                         [4 * elements for elements, _ in BUCKETS])
        step = self.simulate("--set", f"model={model}")["step_time_s"]
        self.assertAlmostEqual(step / (STEP_US * 1e-6), 1, delta=0.1)


if __name__ == "__main__":
    test_report.main()
