#!/usr/bin/python3
"""Files from other users, and a system that refuses: every end is a sentence and a status."""

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")
# The program that takes over `execute`.
HARDWARE = os.path.abspath("src/cli/stepcast-hardware")
DDP = os.path.abspath("scenarios/gpt2-ddp/scenario.yaml")
RESNET = os.path.abspath("scenarios/resnet50-ddp")
ENVIRONMENT = os.path.abspath("tools/bundle_environment")
# Escapes that move the cursor, one-character controls, and text direction controls.
ACTING = ("\x1b[2J", "\x9b31m", "\u202eevil", "\u2066evil", "\x07")


def run(*arguments, before="", program=STEPCAST, **options):
    """The binary; `before` is what a shell does first."""
    words = [program, *arguments]
    if before:
        words = ["sh", "-c", before + '; exec "$@"', "sh", *words]
    return subprocess.run(words, capture_output=True, timeout=100, **options)


class InputsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copytree(RESNET, self.folder / "s")
        for path in (self.folder / "s").rglob("*"):
            path.chmod(0o700)
        self.scenario = self.folder / "s" / "scenario.yaml"

    def expect_quiet(self, done):
        """Nothing reaches the terminal that acts on it."""
        for stream in (done.stdout, done.stderr):
            text = stream.decode()
            for acting in ("\x1b", "\x9b", "\u202e", "\u2066", "\x07"):
                self.assertNotIn(acting, text)

    def expect_sentence(self, done, status=1):
        self.assertEqual(done.returncode, status, done.stderr)
        lines = [line for line in done.stderr.decode().splitlines() if line]
        self.assertTrue(lines and lines[-1].startswith(("stepcast: ", "  hint: ")) or
                        any("error[" in line for line in lines), done.stderr)
        self.assertNotIn(b"terminate called", done.stderr)


class TerminalTest(InputsTest):
    def test_names_that_act_on_terminals_are_refused(self):
        plain = self.scenario.read_text()
        line = next(i for i, text in enumerate(plain.splitlines(), 1) if text.startswith("name:"))
        old = plain.splitlines()[line - 1]
        for acting in ACTING:
            escaped = "".join(f"\\u{ord(c):04x}" if not c.isascii() or c < " " else c
                              for c in acting)
            for name in (f'name: "Res{escaped}Net"', f"name: 'Res{acting}Net'"):
                with self.subTest(name=name):
                    self.scenario.write_text(plain.replace(old, name))
                    done = run("simulate", str(self.scenario))
                    self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                    self.assertIn(f"scenario.yaml:{line}:".encode(), done.stderr)
                    self.assertIn(b"file.not-text", done.stderr)
                    self.expect_quiet(done)

    def test_so_are_those_of_a_json_config(self):
        config = self.folder / "config.json"
        config.write_text('{"model_type": "gpt2\\u001b[2J", "n_embd": 8}')
        done = run("model", "import", str(config))
        if done.returncode == 2 and b"command" in done.stderr:
            done = run("simulate", str(self.scenario), "--set", f"model={config}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"config.json:1:", done.stderr)
        self.expect_quiet(done)

    def test_what_the_command_line_gives_is_quoted(self):
        for arguments in (("simulate", "\x1b[2J\u202e.yaml"),
                          ("simulate", str(self.scenario), "--set", "name=\x1b[2J"),
                          ("simulate", str(self.scenario), "--set", "\u202e=1"),
                          ("simulate", str(self.scenario), "--report", "/none/\u202e\x9b.html")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.expect_quiet(done)


class DepthTest(InputsTest):
    def test_a_trace_of_brackets_is_refused_at_once(self):
        trace = self.folder / "trace.json"
        trace.write_text('{"traceEvents": ' + "[" * 145_000 + "]" * 145_000 + "}")
        done = run("model", "import", "--kineto", str(trace), before="ulimit -v 1000000")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"json.too-deep", done.stderr)


class StoreTest(InputsTest):
    def test_swapped_rows_are_not_believed(self):
        store = self.folder / "store"
        sweep = ("sweep", str(self.scenario), "--vary", "training.micro_batch_size=1,2,4", "--store",
                 str(store))
        self.assertEqual(run(*sweep).returncode, 0)
        with sqlite3.connect(store) as rows:
            (first, one), (second, other) = rows.execute(
                "SELECT key, result FROM results LIMIT 2").fetchall()
            self.assertNotEqual(one, other)
            rows.execute("UPDATE results SET result = ? WHERE key = ?", (other, first))
            rows.execute("UPDATE results SET result = ? WHERE key = ?", (one, second))
        rows.close()
        done = run(*sweep)
        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
        self.assertIn(b"store.damaged", done.stderr)


class RefusalTest(InputsTest):
    """What the system refuses ends with a sentence and status 1, never by an exception (134)."""

    def test_a_folder_that_was_removed(self):
        gone = self.folder / "gone"
        for arguments in (("simulate", DDP), ("simulate", DDP, "--report", "page.html"),
                          ("simulate", DDP, "--emit", "plan"), ("simulate", "s.yaml"),
                          ("simulate", DDP, "--trace-dir", "traces"),
                          ("sweep", DDP, "--vary", "training.micro_batch_size=1,2", "--store", "s"),
                          ("plan", "./s.yaml"), ("memory", DDP)):
            with self.subTest(arguments=arguments):
                gone.mkdir(exist_ok=True)
                done = subprocess.run(["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone),
                                       STEPCAST, *arguments], capture_output=True, timeout=100)
                self.assertIn(done.returncode, (0, 1, 2, 3), done.stderr)
                self.assertNotIn(b"terminate called", done.stderr)

    def room_to_start(self, program):
        """KiB of address space in which the program starts: CUDA's libraries take gigabytes."""
        kib = 200_000
        while run("--help", before=f"ulimit -v {kib}", program=program).returncode != 0:
            kib = kib * 5 // 4
        return kib

    def test_no_more_threads(self):
        """By a limit on memory that has no room for their stacks."""
        if os.environ.get("ASAN_OPTIONS"):
            self.skipTest("sanitizers reserve terabytes")
        scenario = self.folder / "ranks.yaml"
        scenario.write_text("""\
stepcast: 1
name: many ranks
model: {kind: layers, layers: [{name: l, repeat: 1, parameters: [64], forward: 1 ms,
                                backward: 1 ms, activation: 0 B}], optimizer_step: 0 ms}
cluster: {topology: {kind: flat, devices: 64, memory: 1 GiB,
                     link: {latency: 5 us, bandwidth: 25 GB/s}}}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
           optimizer: sgd}
data_parallel: {zero_stage: 0, framework: reference}
""")
        done = run("execute", str(scenario), "--backend", "host", "--steps", "1",
                   before=f"ulimit -v {self.room_to_start(HARDWARE) + 350_000}")
        self.expect_sentence(done)
        scenario.write_text(scenario.read_text().replace("devices: 64", "devices: 4096"))
        done = run("execute", str(scenario), "--backend", "host")
        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
        self.assertIn(b"launch.wrong-number", done.stderr)

    def test_a_small_stack(self):
        """Soft and hard, as a shell sets it, on the main thread and on those of a sweep."""
        for arguments in (("simulate", DDP), ("simulate", str(self.scenario)),
                          ("sweep", DDP, "--vary", "training.micro_batch_size=1,2,4", "--threads",
                           "3")):
            with self.subTest(arguments=arguments):
                done = run(*arguments, before="ulimit -s 64")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_more_threads_for_a_sweep(self):
        done = run("sweep", DDP, "--vary", "training.micro_batch_size=1,2,4,8", "--threads", "64",
                   before=f"ulimit -v {self.room_to_start(STEPCAST) + 150_000}")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertNotIn(b"terminate called", done.stderr)


class BundleTest(InputsTest):
    def test_no_library_comes_from_the_folder_that_it_runs_in(self):
        here = self.folder / "here"
        for place in ("nvidia/nccl/lib", "lib64", "lib"):
            (here / place).mkdir(parents=True)
            (here / place / "libstepcast-none.so.9").write_text("")
        environment = self.folder / "environment"
        text = pathlib.Path(ENVIRONMENT).read_text()
        environment.write_text(text.replace("CUBLASLT", "libstepcast-none.so.9")
                               .replace("libnccl.so.2", "libstepcast-none.so.9"))
        for variables in ({}, {"CUDA_PATH": ".", "NCCL_PATH": "."}):
            done = subprocess.run(
                ["sh", "-c", f'root=/bundle; . {environment}; printf %s "$LD_LIBRARY_PATH"'],
                capture_output=True, text=True, cwd=here,
                env=dict({"PATH": os.environ["PATH"]}, **variables))
            self.assertTrue(done.stdout.startswith("/bundle/lib"), done.stdout)
            for entry in done.stdout.split(":"):
                self.assertTrue(entry.startswith("/"), done.stdout)
                self.assertFalse(entry.startswith(str(here)), done.stdout)


if __name__ == "__main__":
    test_report.main()
