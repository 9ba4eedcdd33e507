#!/usr/bin/python3
"""Floods of up to 16 MB are read within 1 GiB of memory and 20 s of a processor.

Each attack is a file of that size that once cost gigabytes or hours, or one of its kind. A run looks
at some of them, STEPCAST_SAMPLES=all at all: every line of the fuzzers' corpora repeated, too."""

import gzip
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast-forecast")
CORPUS = pathlib.Path("tests/fuzz/corpus")
SIZE = 15 << 20
MEMORY_KIB = 1 << 20
ALL = os.environ.get("STEPCAST_SAMPLES") == "all"
# A slow machine that runs other tests beside takes its time: there it is the kind of growth that counts.
SECONDS = 20 if ALL else 60

SCENARIO = """\
stepcast: 1
name: costs
model: gpt2
cluster: {topology: dgx-h100}
training: {sequence_length: 128, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
"""


def filled(begin, piece, end="", size=SIZE):
    """`piece` again and again; where it holds {}, with a number that is another each time."""
    if "{}" not in piece:
        return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end
    text = io.StringIO()
    text.write(begin)
    number = 0
    while text.tell() < size - len(end) - len(piece) - 10:
        text.write("".join(piece.replace("{}", str(i)) for i in range(number, number + 1000)))
        number += 1000
    return text.getvalue() + end


EVENT = '{"ph":"X","cat":"%s","name":"%s","ts":{},"dur":1,"tid":1,"args":{%s}},'
STEP = '{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":1000000000},'


def trace(category, name, arguments):
    """Events that differ, inside a step."""
    return ('{"traceEvents":[' + STEP, EVENT % (category, name, arguments), '{}]}')


# Name, command, ending of the file, its parts.
COMMANDS = {
    "scenario": ("yaml", ["simulate", "FILE"]),
    "model": ("yaml", ["simulate", "SCENARIO", "--set", "model=FILE"]),
    "config": ("json", ["simulate", "SCENARIO", "--set", "model=FILE"]),
    "topology": ("yaml", ["topology", "show", "FILE"]),
    "calibration": ("yaml", ["simulate", "SCENARIO", "--set", "calibration=FILE"]),
    "nccl_topology": ("xml", ["topology", "import", "FILE", "--gpu", "h100-sxm"]),
    "nvidia_smi": ("txt", ["topology", "import", "FILE", "--gpu", "h100-sxm"]),
    "nccl_tests": ("log", ["calibrate", "import", "FILE"]),
    "kineto": ("json", ["model", "import", "--kineto", "FILE"]),
    "toml": ("toml", ["init", "FILE", "--cluster", "dgx-h100"]),
    "shell": ("sh", ["init", "FILE", "--cluster", "dgx-h100"]),
    "python": ("py", ["init", "FILE", "--cluster", "dgx-h100"]),
    "foreign": ("yaml", ["init", "FILE", "--cluster", "dgx-h100"]),
    "schedule": ("csv", ["schedule", "FILE"]),
    "runs": ("csv", ["calibrate", "runs", "FILE", "--profile", "FILE"]),
}
# Those that are looked at in every run: each cost more than the law allows, but for the last ones.
ATTACKS = [
    ("kineto", "brackets", ("", "[", "")),
    ("kineto", "operators", trace("cpu_op", "aten::mm", '"Sequence number":{}')),
    ("kineto", "names", trace("cpu_op", "autograd::engine::evaluate_function: N{}", "")),
    ("kineto", "one text", ('{"traceEvents":[{"name":"', "x", '"}]}')),
    ("scenario", "brackets", ("", "[", "")),
    ("scenario", "small values", ("a: [", "a,", "]")),
    ("scenario", "small lines", ("", "- a\n", "")),
    ("scenario", "unknown keys", ("", "unknown_key_{}: 1\n", "")),
    ("config", "a key twice", ("{", '"a":1,', '"b":1}')),
    ("config", "keys", ("{", '"k{}":1,', '"b":1}')),
    ("config", "brackets", ('{"a":', "[", "")),
    ("nccl_topology", "attributes", ("<system><cpu numaid='0' ", "a{}='' ", "/></system>")),
    ("nccl_topology", "tags", ("", "<a ", "")),
    ("nccl_topology", "links", ("<system><cpu numaid='0'><pci busid='0' class='0x03'><gpu dev='0'>",
                                "<nvlink/>", "</gpu></pci></cpu></system>")),
    ("nvidia_smi", "words", ("GPU0 GPU1\n", "a ", "")),
    ("nccl_tests", "words", ("# ", "a ", "")),
    ("nccl_tests", "rows of JSON", ('{"results":[', '{"size":1},', '{}]}')),
    ("nccl_tests", "hosts", ("# nThread 1\n", "# Rank 0 on h{}\n# size count\n", "")),
]
MORE = [
    ("kineto", "launches", trace("cuda_runtime", "l", '"correlation":{}')),
    ("kineto", "collectives", trace("kernel", "ncclKernel_AllReduce", '"correlation":{}')),
    ("kineto", "small events", ('{"traceEvents":[' + STEP,
                                '{"ph":"X","ts":1,"cat":"kernel"},', '{}]}')),
    ("scenario", "one line of JSON", ("{", '"k{}":1,', '"b":1}')),
    ("scenario", "nested", ("", "{a: ", "")),
    ("scenario", "items in items", ("", "- ", "")),
    ("scenario", "a key twice", ("", "a: 1\n", "")),
    ("scenario", "one text", ("name: '", "x", "'")),
    ("scenario", "a block", ("name: |\n", " x\n", "")),
    ("scenario", "comments", ("", "#\n", "stepcast: 1\n")),
    ("scenario", "documents", ("", "---\n", "")),
    ("scenario", "questions", ("", "? ", "")),
    ("scenario", "anchors", ("", "&a ", "")),
    ("model", "layers", ("kind: layers\nlayers:\n",
                         "  - {name: l{}, parameters: [1], forward: 1 ms, backward: 1 ms, "
                         "activation: 0 B}\n", "")),
    ("model", "parameters", ("kind: layers\noptimizer_step: 0 ms\nlayers:\n  - name: a\n"
                             "    forward: 1 ms\n    backward: 1 ms\n    activation: 0 B\n"
                             "    parameters:\n", "      - 1\n", "")),
    ("topology", "links", ("kind: node\nnode:\n  links:\n", "    - {a: 1}\n", "")),
    ("calibration", "points", ("name: a\ncollectives:\n  - collective: all_reduce\n    ranks: 2\n"
                               "    nodes: 2\n    points:\n", "      - [{} KiB, 1 ms]\n", "")),
    ("calibration", "tables", ("name: a\ncollectives:\n", "  - {ranks: {}}\n", "")),
    ("config", "texts", ('{"architectures":[', '"a",', '"b"]}')),
    ("config", "a number", ('{"a":', "9", "}")),
    ("nccl_topology", "elements", ("<system>", "<a/>", "</system>")),
    ("nccl_topology", "devices", ("<system><cpu numaid='0'>", "<pci busid='{}'><pci/></pci>",
                                  "</cpu></system>")),
    ("nccl_topology", "nested", ("<system>", "<pci busid='{}'>", "")),
    ("nccl_topology", "less", ("", "<", "")),
    ("nvidia_smi", "lines", ("GPU0 GPU1\n", "a\n", "")),
    ("nvidia_smi", "columns", ("GPU0 ", "GPU{} ", "")),
    ("nccl_tests", "rows", ("# size count type redop root time algbw busbw #wrong\n",
                            "8 2 float sum -1 1 1 1 9\n", "")),
    ("nccl_tests", "headings", ("", "# size count\n", "")),
    ("nccl_tests", "brackets", ('{"results":', "[", "")),
    ("toml", "tables", ("", "[a{}]\nb = 1\n", "")),
    ("toml", "values", ("[training]\nx = [", "1,", "]\n")),
    ("toml", "keys", ("[training]\n", "a{} = 1\n", "")),
    ("toml", "dots", ("[training]\n", "a.b.c.d.e.f.g{} = 1\n", "")),
    ("shell", "variables", ("", "A{}=1\n", "torchrun pretrain_gpt.py --num-layers 1\n")),
    ("shell", "options", ("torchrun pretrain_gpt.py ", "--a{} 1 ", "\n")),
    ("shell", "appended", ("A=(1)\n", "A+=(x)\n", "torchrun pretrain_gpt.py ${A[@]}\n")),
    ("shell", "concatenated", ("A=1\n", "A=$A$B\n", "torchrun pretrain_gpt.py $A\n")),
    ("shell", "here documents", ("", "cat <<A\nA\n", "")),
    ("shell", "commands", ("", "torchrun pretrain_gpt.py --num-layers {}\n", "")),
    ("shell", "conditions", ("", "if [ 1 = 1 ]; then\n", "")),
    ("python", "functions", ("import torchtitan\n", "def f{}():\n  return 1\n", "")),
    ("python", "arguments", ("import torchtitan\ndef a():\n  return Trainer.Config(", "a{}=1,", ")\n")),
    ("python", "assignments", ("import torchtitan\ndef a():\n", "  c.a{} = 1\n", "  return c\n")),
    ("foreign", "keys", ("base_model: x\n", "a{}: 1\n", "")),
    ("foreign", "references", ("base_model: x\n", "a{}: ${base_model}\n", "")),
    ("foreign", "chains", ("base_model: x\na0: 1\n", "b{}: ${b{}}\n", "")),
    ("schedule", "rows", ("", "F0,B0\n", "")),
    ("schedule", "a row", ("", "F{},", "\n")),
    ("runs", "columns", ("", "a{},", "\n")),
    ("runs", "rows", ("scenario,step_time_s\n", "s{},1\n", "")),
]


def amplified():
    """Each line of the corpora in the place of itself, until the file is full."""
    kinds = {"foreign/job.toml": "toml", "foreign/run.sh": "shell", "foreign/registry.py": "python",
             "foreign/trainer.yaml": "foreign", "model/llama_config.json": "config"}
    for path in sorted(CORPUS.rglob("*")):
        name = str(path.relative_to(CORPUS))
        kind = kinds.get(name, name.split("/")[0])
        if not path.is_file() or kind not in COMMANDS or path.stat().st_size > 100_000:
            continue
        lines = path.read_text(errors="replace").splitlines(keepends=True)
        for i, line in enumerate(lines):
            if line.strip():
                yield (kind, f"{name}:{i + 1}", ("".join(lines[:i]), line, "".join(lines[i:])))


class CostsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scenario.yaml").write_text(SCENARIO)

    def read(self, kind, content):
        ending, words = COMMANDS[kind]
        file = self.folder / f"attack.{ending}"
        if isinstance(content, str):
            content = content.encode()
        file.write_bytes(content)
        words = [word.replace("FILE", str(file)).replace("SCENARIO", str(self.folder / "scenario.yaml"))
                 for word in words]
        return self.run_bounded(words)

    def run_bounded(self, words):
        limits = f"ulimit -t {SECONDS}; "
        if not os.environ.get("ASAN_OPTIONS"):
            limits += f"ulimit -v {MEMORY_KIB}; "
        done = subprocess.run(["sh", "-c", limits + 'exec "$@"', "sh", STEPCAST, *words],
                              capture_output=True, timeout=600, stdin=subprocess.DEVNULL)
        self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr[-2000:])
        self.assertNotIn(b"out of memory", done.stderr[-2000:])
        self.assertLess(len(done.stderr), 1 << 20, "faults stop after 100")
        return done

    def test_floods(self):
        for kind, name, parts in ATTACKS + (MORE if ALL else []):
            with self.subTest(kind=kind, attack=name):
                self.read(kind, filled(*parts))

    @unittest.skipUnless(ALL, "with STEPCAST_SAMPLES=all")
    def test_lines_of_the_corpora(self):
        for kind, name, parts in amplified():
            with self.subTest(kind=kind, line=name):
                self.read(kind, parts[0] + parts[1] * (SIZE // len(parts[1].encode())) + parts[2])

    def test_packed_traces(self):
        """What unpacks to gigabytes; and the most that unpacks within the ratio."""
        zeros = gzip.compress(b" " * (1 << 30), 9)
        self.assertLess(len(zeros), 2 << 20)
        done = self.read("kineto", zeros)
        self.assertIn(b"file.too-large", done.stderr)
        events = (EVENT % ("cpu_op", "aten::mm", '"Sequence number":1')).replace("{}", "1")
        text = ('{"traceEvents":[' + STEP + events * ((400 << 20) // len(events)) + "{}]}").encode()
        self.read("kineto", gzip.compress(text, 1))

    def test_devices_are_no_traces(self):
        for device in ("/dev/zero", "/dev/urandom", "/dev/full"):
            done = self.run_bounded(["model", "import", "--kineto", device])
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"file.not-a-file", done.stderr)

    def test_faults_stop_after_a_hundred(self):
        (self.folder / "many.yaml").write_text(SCENARIO + "".join(f"a{i}: 1\n" for i in range(1000)))
        done = self.run_bounded(["simulate", str(self.folder / "many.yaml")])
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count(b"error["), 100)
        self.assertIn(b"... and 900 more\n", done.stderr)


if __name__ == "__main__":
    test_report.main()
