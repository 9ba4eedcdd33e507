#!/usr/bin/python3
"""Floods of up to 16 MB are read within 1 GiB of memory and 20 s of a processor.

Each attack is a file of that size that once cost gigabytes or hours, or one of its kind. A run looks
at some of them, STEPCAST_SAMPLES=all at all: every line of the fuzzers' corpora repeated, too."""

import gzip
import io
import json
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
# On a slow machine that runs other tests too, the order of growth is what counts.
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
    """`piece` again and again; where it holds {}, with a number that is another each time, and
    where it holds {+}, with the next one."""
    if isinstance(piece, bytes):
        texts = [part.decode("latin-1") for part in (begin, piece, end)]
        return filled(*texts, size).encode("latin-1")
    if "{}" not in piece:
        return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end
    text = io.StringIO()
    text.write(begin)
    number = 0
    while text.tell() < size - len(end) - 100 * (len(piece) + 10 * piece.count("{}")):
        text.write("".join(piece.replace("{}", str(i)).replace("{+}", str(i + 1))
                           for i in range(number, number + 100)))
        number += 100
    return text.getvalue() + end


EVENT = '{"ph":"X","cat":"%s","name":"%s","ts":{},"dur":1,"tid":1,"args":{%s}},'
STEP = '{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":1000000000},'


def trace(category, name, arguments):
    """Events that differ, inside a step."""
    return ('{"traceEvents":[' + STEP, EVENT % (category, name, arguments), '{}]}')


# A configuration of another program may have a megabyte.
SIZES = dict.fromkeys(("deepspeed", "foreign_yaml", "python", "shell", "toml"), (1 << 20) - 100)
# Name, command, file extension and parts of the text.
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
    "foreign_yaml": ("yaml", ["init", "FILE", "--cluster", "dgx-h100"]),
    "deepspeed": ("json", ["init", "FILE", "--cluster", "dgx-h100"]),
    "schedule": ("csv", ["schedule", "--csv", "FILE"]),
    "schedule_of_scenario": ("csv", ["simulate", "SCENARIO", "--set", "parallelism.schedule=FILE"]),
    "runs": ("csv", ["calibrate", "runs", "FILE", "--scenario", "SCENARIO"]),
    "published": ("yaml", ["calibrate", "runs", "FILE"]),
    "profile": ("yaml", ["calibrate", "runs", "RUNS", "--profile", "FILE", "--output", "OUTPUT"]),
    "plan": ("json", ["simulate", "FILE"]),
    "search": ("yaml", ["plan", "FILE"]),
    "compare": ("yaml", ["compare", "SCENARIO", "FILE"]),
    "collective": ("yaml", ["collective", "FILE"]),
    "gpu": ("yaml", ["topology", "import", "TOPO", "--gpu", "FILE"]),
    "measured_memory": ("pickle", ["compare", "SCENARIO", "--memory", "FILE"]),
    "timeline": ("json", ["compare", "SCENARIO", "--memory", "FILE"]),
    "summary": ("txt", ["compare", "SCENARIO", "--memory", "FILE"]),
    "store": ("store", ["sweep", "SCENARIO", "--vary", "training.micro_batch_size=1,2", "--store",
                        "FILE"]),
    "question": ("json", ["serve"]),
}
# Attacks tested in every run: each except the last ones once exceeded the limit.
CONFIG = "def config():\n  return Trainer.Config(x=a30, y=a200)\n"
# Keys whose names are repeated in the name of each value below them.
LONG = "k" * 1000
ATTACKS = [
    ("python", "lists of lists", ("a0 = [1]\n", "a{+} = [a{}, a{}]\n", CONFIG)),
    ("python", "calls of calls", ("a0 = f(x=1)\n", "a{+} = f(x=a{}, y=a{})\n", CONFIG)),
    ("python", "members of members", (
        "a0 = f(x=1)\n", "a{+} = f(x=1)\na{+}.b = a{}\na{+}.c = a{}\n", CONFIG)),
    ("python", "functions of functions", (
        "def a0():\n  return f(x=1)\n", "def a{+}():\n  return f(x=a{}(), y=a{}(), z=a{}())\n", "")),
    ("python", "texts of texts", ('a0 = ["' + "x" * 500_000 + '"]\n', "a{+} = [a{}, a{}]\n", CONFIG)),
    ("python", "a path of members", ("a30 = f()\na30", ".a", " = 1\n" + CONFIG)),
    ("python", "functions beside constants", (
        "a0 = [1]\n", "a{+} = [{}]\ndef f{}():\n  return f(x={})\n", "")),
    ("foreign_yaml", "long names", (
        '{"base_model":"x",' + "".join(f'"{LONG}":{{' for _ in range(50)), '"a{}":1,', '"b":1}' + "}" * 50)),
    ("foreign_yaml", "values of values", (
        "base_model: x\nb0: " + "x" * 100 + "\n", "b{+}: ${b{}}${b{}}\n", "", 160_000)),
    ("toml", "long names", ("[" + ".".join([LONG] * 50) + "]\n", "a{} = 1\n", "")),
    ("question", "small lines", ("", "a\n", "")),
    ("question", "small questions", ("", '{"id": {}}\n', "")),
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
    ("foreign_yaml", "keys", ("base_model: x\n", "a{}: 1\n", "")),
    ("foreign_yaml", "references", ("base_model: x\n", "a{}: ${base_model}\n", "")),
    ("foreign_yaml", "chains", ("base_model: x\na0: 1\n", "b{}: ${b{}}\n", "")),
    ("schedule", "rows", ("", "F0,B0\n", "")),
    ("schedule", "a row", ("", "F{},", "\n")),
    ("runs", "columns", ("", "a{},", "\n")),
    ("runs", "rows", ("scenario,step_time_s\n", "s{},1\n", "")),
    ("runs", "small fields", ("a,b\n", ",\n", "")),
    ("runs", "runs", ("step_time\n", "{} ms\n", "")),
    ("runs", "settings", ("step_time," + ",".join(f"training.a{i}" for i in range(99)) + "\n",
                          "1 s" + ",{}" * 99 + "\n", "")),
    ("runs", "settings within the bounds", (
        "step_time," + ",".join(f"training.a{i}" for i in range(99)) + "\n",
        "1 s" + ",{}" * 99 + "\n", "", 900_000)),
    ("runs", "models in place within the bounds", (
        "step_time,model\n", '1 s,"{kind: layers, layers: [{name: a{}}]}"\n', "", 400_000)),
    ("runs", "models", ("step_time,model\n", "1 s,a{}\n", "")),
    ("runs", "models in place", ("step_time,model\n",
                                 '1 s,"{kind: layers, layers: [{name: a{}}]}"\n', "")),
    ("runs", "lines in a field", ('a,b\n"', "x\n", '",1\n')),
    ("runs", "quotes", ('a,b\n"', '""', '",1\n')),
    ("published", "cases", ("source: a\nmachine: b\nrule: c\ncases:\n", "  - {name: a{}}\n", "")),
    ("published", "parts", ("source: a\nparts:\n", "  a{}: {}\n", "")),
    ("profile", "learned runs", ("name: a\nruns:\n", "  - {ratio: 1, settings: {}}\n", "")),
    ("plan", "keys", ('{"stepcast_plan":1,"scenario":{', '"a{}":1,', '"b":1}}')),
    ("plan", "brackets", ('{"stepcast_plan":1,"scenario":', "[", "")),
    ("plan", "one text", ('{"stepcast_plan":1,"scenario":{"name":"', "x", '"}}')),
    ("search", "unknown keys", ("", "unknown_key_{}: 1\n", "")),
    ("compare", "unknown keys", ("", "unknown_key_{}: 1\n", "")),
    ("collective", "links", ("kind: node\nnode:\n  links:\n", "    - {a: 1}\n", "")),
    ("topology", "flat words", ("kind: flat\ndevices: ", "9", "\n")),
    ("gpu", "sources", ("name: a\nsources:\n", "  - a\n", "")),
    ("gpu", "peak", ("name: a\npeak:\n", "  a{}: 1 TFLOPS\n", "")),
    ("measured_memory", "nothings", (b"\x80\x04", b"N", b".")),
    ("measured_memory", "tuples", (b"\x80\x04N", b"\x85", b".")),
    ("measured_memory", "lists", (b"\x80\x04]", b"]a", b".")),
    ("measured_memory", "marks", (b"\x80\x04", b"(", b".")),
    ("measured_memory", "numbers of what is kept", (b"\x80\x04N", b"\x94", b".")),
    ("measured_memory", "the same twice", (b"\x80\x04N", b"2", b".")),
    ("measured_memory", "the same in a list", (b"\x80\x04]\x94(", b"h\0", b"e.")),
    ("measured_memory", "texts", (b"\x80\x04(", b"\x8c\x01a", b"l.")),
    ("measured_memory", "keys", (b"\x80\x04}(", b"\x8c\x01aN", b"u.")),
    ("measured_memory", "long numbers", (b"\x80\x04(", b"\x8a\x09" + b"\xff" * 9, b"l.")),
    ("measured_memory", "segments", (b"\x80\x04}\x94\x8c\x08segments]\x94(",
                                     b"}\x8c\x06deviceJABCDs", b"es.")),
    ("timeline", "brackets", ("", "[", "")),
    ("timeline", "arrays", ("[[1],[", "[],", "[]]]")),
    ("timeline", "rows", ("[[1],[", "[0,1,2,3,4,5,6,7,8],", "[]]]")),
    ("timeline", "objects", ("[[1],[", '{"a":{}},', "[]]]")),
    ("timeline", "keys", ("{", '"a{}":1,', '"b":1}')),
    ("summary", "rows", ("memory summary, device ID 0\n", "| Allocated memory | 1 | x |\n", "")),
    ("summary", "bars", ("memory summary, device ID 0\n| Allocated memory", "|", "\n")),
    ("store", "no database", ("SQLite format 3\0", "\0", "")),
    ("question", "brackets", ("", "[", "\n")),
    ("question", "no end", ("", " ", "")),
    ("question", "settings", ('{"ask":"simulate","scenario":"a","set":{', '"a{}":1,', '"b":1}}\n')),
    ("deepspeed", "keys", ('{"zero_optimization":{"stage":1},', '"a{}":1,', '"b":1}')),
    ("deepspeed", "brackets", ('{"zero_optimization":', "[", "")),
    ("deepspeed", "nested", ("", '{"zero_optimization":', "")),
    ("deepspeed", "values", ('{"zero_optimization":[', "1,", "1]}")),
    ("schedule", "stages", ("", "0F0\n", "")),
    ("schedule", "chunks", ("", "{}F0,", "0F0\n")),
    ("schedule", "micro-batches", ("", "0F{},0B{},", "\n")),
    ("schedule", "stages within the bounds", ("", "0F0\n", "", 3_900_000)),
    ("schedule", "chunks within the bounds", ("", "{}F0,", "0F0\n", 8_000_000)),
    ("schedule", "micro-batches within the bounds", ("", "0F{},0B{},", "\n", 7_000_000)),
    ("schedule_of_scenario", "micro-batches within the bounds", ("", "0F{},0B{},", "\n", 7_000_000)),
    ("schedule", "pairs", ("", "(0F{};0B{})OVERLAP_F_B,", "\n")),
    ("schedule", "wrong cells", ("", "x{}\n", "")),
    ("schedule", "far numbers", ("999999999F999999999", ",0F0", "\n")),
    ("schedule_of_scenario", "micro-batches", ("", "0F{},0B{},", "\n")),
    ("toml", "arrays", ("a = ", "[", "\n")),
    ("toml", "inline tables", ("a = ", "{b = ", "\n")),
    ("toml", "one text", ('[training]\na = "', "x", '"\n')),
    ("toml", "many lines of text", ('[training]\na = """', "x\n", '"""\n')),
    ("toml", "a number", ("[training]\na = ", "9", "\n")),
    ("toml", "a key twice", ("[training]\n", "a = 1\n", "")),
    ("toml", "a table twice", ("", "[training]\n", "")),
    ("toml", "tables in arrays", ("", "[[a]]\n", "")),
    ("toml", "dots of a table", ("[a", ".a", "]\nb = 1\n")),
    ("toml", "comments", ("", "#\n", "")),
    ("shell", "continued lines", ("torchrun pretrain_gpt.py", " \\\n", " --num-layers 1\n")),
    ("shell", "arithmetic", ("torchrun pretrain_gpt.py --num-layers $((1", "+1", "))\n")),
    ("shell", "parentheses", ("torchrun pretrain_gpt.py --num-layers $((", "(", "\n")),
    ("shell", "expansions", ("torchrun pretrain_gpt.py --num-layers ", "${A:-", "\n")),
    ("shell", "substitutions", ("A=", "$(", "\n")),
    ("shell", "quotes", ("torchrun pretrain_gpt.py ", "'a'", "\n")),
    ("shell", "one word", ("torchrun pretrain_gpt.py --", "a", "\n")),
    ("shell", "functions", ("", "f{}() {\n:\n}\n", "torchrun pretrain_gpt.py\n")),
    ("shell", "an array", ("A=(", "x ", ")\ntorchrun pretrain_gpt.py ${A[@]}\n")),
    ("shell", "doubled", ("A=(x)\n", "A=(${A[@]} ${A[@]})\n", "torchrun pretrain_gpt.py ${A[@]}\n")),
    ("shell", "embedded YAML", ("cat <<A\nbase_model: x\n", "a{}: 1\n", "A\n")),
    ("shell", "sources", ("", "source a{}.sh\n", "torchrun pretrain_gpt.py\n")),
    ("python", "brackets", ("import torchtitan\ndef a():\n  return Trainer.Config(a=", "(", "")),
    ("python", "products", ("import torchtitan\ndef a():\n  return Trainer.Config(a=1", "*9", ")\n")),
    ("python", "signs", ("import torchtitan\ndef a():\n  return Trainer.Config(a=", "-", "1)\n")),
    ("python", "imports", ("import torchtitan\n", "from a{} import b\n", "")),
    ("python", "one text", ('import torchtitan\na = "', "x", '"\n')),
    ("python", "strings", ("import torchtitan\na = (", '"x" ', ")\n")),
    ("python", "lists", ("import torchtitan\ndef a():\n  return Trainer.Config(a=[", "1,", "])\n")),
    ("python", "calls", ("import torchtitan\ndef a():\n  return ", "f(", "")),
    ("python", "callers", ("import torchtitan\ndef f0():\n  return Trainer.Config()\n",
                           "def f{}():\n  c = f0()\n  return c\n", "")),
    ("python", "continued lines", ("import torchtitan\na = 1", " \\\n", "+ 1\n")),
    ("python", "indentation", ("import torchtitan\n", "if a:\n", "")),
    ("foreign_yaml", "brackets", ("base_model: ", "[", "\n")),
    ("foreign_yaml", "items", ("base_model: x\na:\n", "  - {}\n", "")),
    ("foreign_yaml", "aliases", ("base_model: &a [a]\nb: [", "*a,", "]\n")),
    ("foreign_yaml", "one text", ("base_model: ", "x", "\n")),
    ("foreign_yaml", "nested references", ("base_model: x\na: ", "${a:", "\n")),
    ("kineto", "a number", ('{"traceEvents":[{"ts":', "9", "}]}")),
    ("kineto", "steps", ('{"traceEvents":[', '{"ph":"X","cat":"user_annotation","name":'
                         '"ProfilerStep#{}","ts":{},"dur":1},', "{}]}")),
    ("kineto", "threads", ('{"traceEvents":[' + STEP, '{"ph":"X","cat":"cpu_op","name":"aten::mm",'
                           '"ts":{},"dur":1,"tid":{}},', "{}]}")),
    ("kineto", "nested operators", ('{"traceEvents":[' + STEP, '{"ph":"X","cat":"cpu_op","name":'
                                    '"aten::mm","ts":{},"dur":900000000,"tid":1},', "{}]}")),
    ("kineto", "shapes", ('{"traceEvents":[' + STEP + '{"ph":"X","cat":"cpu_op","name":"aten::mm",'
                          '"ts":1,"dur":1,"tid":1,"args":{"Input Dims":[', "[1],", "[]]}}]}")),
    ("kineto", "keys", ("{", '"a{}":1,', '"traceEvents":[]}')),
    ("nccl_topology", "a value", ("<system><cpu numaid='", "0", "'/></system>")),
    ("nccl_topology", "references", ("<system><cpu numaid='", "&#48;", "'/></system>")),
    ("nccl_topology", "comments", ("<system>", "<!-- -->", "</system>")),
    ("nccl_topology", "texts", ("<system>", "a<![CDATA[b]]>", "</system>")),
    ("nccl_topology", "instructions", ("", "<?a b?>", "<system/>")),
    ("nccl_topology", "declarations", ("<!DOCTYPE a [", "<!ENTITY a{} 'b'>", "]><system/>")),
    ("nccl_topology", "devices that are GPUs", (
        "<system><cpu numaid='0'>", "<pci busid='{}' class='0x030200' link_speed='16 GT/s' "
        "link_width='16'><gpu dev='{}' sm='90'/></pci>", "</cpu></system>")),
    ("nvidia_smi", "GPUs", ("GPU0 GPU1\n", "GPU{} X NV18\n", "")),
    ("nvidia_smi", "escapes", ("GPU0 GPU1\n", "\x1b[4m", "\n")),
    ("nvidia_smi", "NICs", ("GPU0 NIC0\nGPU0 X PIX\nNIC0 PIX X\n", "NIC{}: mlx5_{}\n", "")),
    ("nccl_tests", "one line", ("", "8", "\n")),
    ("nccl_tests", "sizes", ("# nThread 1 nGpus 2\n# size count type redop root time algbw busbw "
                             "#wrong\n", "{} 2 float sum -1 1 1 1 0\n", "")),
    ("nccl_tests", "sizes of JSON", ('{"results":[', '{"size":{},"count":1,"type":"float"},', "{}]}")),
    ("nccl_tests", "logs", ("", "# nThread 1 nGpus 2\n# size count type redop root time\n", "")),
    ("model", "matrices", ("kind: transformer\n", "a{}: 1\n", "")),
    ("config", "nested", ("", '{"a":', "")),
    ("config", "one text", ('{"a":"', "x", '"}')),
    ("config", "escapes", ('{"a":"', "\\u0041", '"}')),
    ("config", "long keys", ('{"rope_scaling":{"', "x", '":1}}')),
    ("config", "arrays", ('{"a":[', "[],", "[]]}")),
    ("calibration", "kernels", ("name: a\nkernels:\n", "  a{}: {latency: 1 us}\n", "")),
    ("calibration", "merge keys", ("name: a\n", "<<: {a: 1}\n", "")),
]


def amplified():
    """Each line of the corpora in the place of itself, until the file is full."""
    for path in sorted(CORPUS.rglob("*")):
        name = str(path.relative_to(CORPUS))
        kind = name.split("/")[0]
        if not path.is_file() or kind not in COMMANDS or path.stat().st_size > 100_000:
            continue
        try:
            lines = path.read_text().splitlines(keepends=True)
        except UnicodeDecodeError:
            continue  # its lines are none
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
        (self.folder / "runs.csv").write_text("micro_batch_size,step_time\n1,20 ms\n2,30 ms\n")
        names = {"FILE": file, "SCENARIO": self.folder / "scenario.yaml", "OUTPUT":
                 self.folder / "output", "RUNS": self.folder / "runs.csv"}
        words = [str(names.get(word, word)).replace("=FILE", f"={file}") for word in words]
        return self.run_bounded(words, file if kind == "question" else os.devnull)

    def run_bounded(self, words, stdin=os.devnull):
        limits = f"ulimit -t {SECONDS}; "
        if not os.environ.get("ASAN_OPTIONS"):
            limits += f"ulimit -v {MEMORY_KIB}; "
        with open(stdin, "rb") as read:
            done = subprocess.run(["sh", "-c", limits + 'exec "$@"', "sh", STEPCAST, *words],
                                  capture_output=True, timeout=600, stdin=read)
        self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr[-2000:])
        self.assertNotIn(b"out of memory", done.stderr[-2000:])
        self.assertLess(len(done.stderr), 1 << 20, "faults stop after 100")
        return done

    def test_floods(self):
        for kind, name, parts in ATTACKS + (MORE if ALL else []):
            with self.subTest(kind=kind, attack=name):
                self.read(kind, filled(*parts[:3], *(parts[3:] or [SIZES.get(kind, SIZE)])))

    @unittest.skipUnless(ALL, "with STEPCAST_SAMPLES=all")
    def test_lines_of_the_corpora(self):
        for kind, name, parts in amplified():
            with self.subTest(kind=kind, line=name):
                room = SIZES.get(kind, SIZE) - len("".join(parts).encode())
                self.read(kind, parts[0] + parts[1] * (room // len(parts[1].encode())) + parts[2])

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

    def test_a_question_of_more_than_it_may_ask(self):
        """One answer, at once: what it asks for is not made first."""
        scenario = str(self.folder / "scenario.yaml")
        million = ",".join(str(i) for i in range(1_500_000))
        several = {f"training.{key}": list(range(1, 400))
                   for key in ("micro_batch_size", "gradient_accumulation")}
        for vary in (several, *({"training.micro_batch_size": values} for values in
                                (million, "1..900000", list(range(900_000))))):
            for ask in ("sweep", "plan"):
                with self.subTest(vary=str(vary)[:60], ask=ask):
                    question = {"id": 1, "ask": ask, "scenario": scenario, "vary": vary}
                    done = self.read("question", json.dumps(question) + "\n")
                    self.assertEqual(done.stdout.count(b"\n"), 1)
                    self.assertIn(b"mistakes", done.stdout)

    def test_faults_stop_after_a_hundred(self):
        (self.folder / "many.yaml").write_text(SCENARIO + "".join(f"a{i}: 1\n" for i in range(1000)))
        done = self.run_bounded(["simulate", str(self.folder / "many.yaml")])
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count(b"error["), 100)
        self.assertIn(b"... and 900 more\n", done.stderr)


if __name__ == "__main__":
    test_report.main()
