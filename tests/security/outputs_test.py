#!/usr/bin/python3
"""What commands write harms no file that is not theirs: permissions, links, plan folders, inputs."""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import test_report

STEPCAST = os.path.abspath("src/cli/stepcast")
DDP = os.path.abspath("scenarios/gpt2-ddp/scenario.yaml")
STRANGER = 65534

SCENARIO = """\
stepcast: 1
name: two devices
model: model.yaml
cluster:
  topology: cluster.yaml
calibration: profile.yaml
training: {sequence_length: 128, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
"""
MODEL = """\
kind: layers
layers:
  - {name: block, repeat: 2, parameters: [1024], forward: 1 ms, backward: 2 ms, activation: 0 B}
optimizer_step: 0 ms
"""
CLUSTER = "{kind: flat, devices: 2, memory: 1 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}\n"
PROFILE = """\
name: measured
provenance: {source: a test}
collectives:
  - {collective: all_reduce, ranks: 2, nodes: 2, points: [[4 KiB, 1 ms], [1 MiB, 10 ms]]}
"""


def run(*arguments, **options):
    return subprocess.run([STEPCAST, *arguments], capture_output=True, text=True, timeout=120,
                          **options)


def may_give_away(folder):
    """Whether this process may make a file another user's, as root may."""
    probe = pathlib.Path(folder) / "probe"
    probe.write_text("")
    try:
        os.chown(probe, STRANGER, STRANGER)
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


class OutputTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        self.inputs = {"s.yaml": SCENARIO, "model.yaml": MODEL, "cluster.yaml": CLUSTER,
                       "profile.yaml": PROFILE}
        for name, text in self.inputs.items():
            (self.folder / name).write_text(text)
        self.scenario = str(self.folder / "s.yaml")

    def simulate(self, *arguments, **options):
        return run("simulate", self.scenario, *arguments, **options)


class PermissionTest(OutputTest):
    def test_an_own_file_keeps_its_plain_permissions(self):
        page = self.folder / "page.html"
        for before, after in ((0o640, 0o640), (0o4755, 0o755), (0o2770, 0o770), (0o1666, 0o666)):
            page.write_text("old")
            page.chmod(before)
            done = self.simulate("--report", str(page))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(stat.S_IMODE(page.stat().st_mode), after)

    def test_a_new_file_has_those_of_the_umask(self):
        for mask in (0o077, 0o022):
            page = self.folder / f"page{mask}.html"
            done = subprocess.run(["sh", "-c", f'umask {mask:o}; exec "$@"', "sh", STEPCAST,
                                   "simulate", self.scenario, "--report", str(page)],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(stat.S_IMODE(page.stat().st_mode), 0o666 & ~mask)

    def test_another_users_file_hands_nothing_down(self):
        if not may_give_away(self.folder):
            self.skipTest("only root can make files of other users")
        page = self.folder / "page.html"
        page.write_text("#!/bin/sh\n")
        os.chown(page, STRANGER, STRANGER)
        page.chmod(0o4777)
        done = self.simulate("--report", str(page))
        self.assertEqual(done.returncode, 0, done.stderr)
        status = page.stat()
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o666 & ~mask)
        self.assertEqual(status.st_uid, os.geteuid())


class DiskTest(OutputTest):
    def test_a_read_only_disk_is_the_reason(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                   'mount -t tmpfs none "$0" && mkdir "$0/there" && echo > "$0/file" && '
                   'mount -o remount,ro "$0" && cd "$0" && exec "$@"', str(disk)]
        if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
            self.skipTest("no disk may be mounted here")
        for command in (["simulate", self.scenario, "--report", "page.html"],
                        ["simulate", self.scenario, "--report", "file"],
                        ["simulate", self.scenario, "--emit", "plan"],
                        ["simulate", self.scenario, "--trace-dir", "traces"],
                        ["simulate", self.scenario, "--trace-dir", "there"],
                        ["sweep", self.scenario, "--vary", "training.micro_batch_size=1,2",
                         "--store", "new"],
                        ["sweep", self.scenario, "--vary", "training.micro_batch_size=1,2",
                         "--store", "file"]):
            with self.subTest(command=command):
                done = subprocess.run([*mounted, STEPCAST, *command], capture_output=True, text=True)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn("Read-only file system", done.stderr)


class NameTest(OutputTest):
    def test_a_name_may_be_as_long_as_the_file_system_takes(self):
        for length in (200, 238, 239, 255):
            name = "n" * (length - 5) + ".html"
            done = self.simulate("--report", str(self.folder / name))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((self.folder / name).exists())
        done = self.simulate("--emit", str(self.folder / ("p" * 255)))
        self.assertEqual(done.returncode, 0, done.stderr)


class PipeTest(OutputTest):
    def said(self, process, sentence):
        # The program may print its activity first.
        line = process.stderr.readline()
        while line and sentence not in line:
            line = process.stderr.readline()
        self.assertIn(sentence, line)

    def test_what_is_waited_for_is_said(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reading = subprocess.Popen([STEPCAST, "simulate", str(pipe)], stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.said(reading, f"waiting for a writer of the pipe {pipe}")
        pipe.write_text(SCENARIO)
        reading.communicate(timeout=60)
        writing = subprocess.Popen([STEPCAST, "simulate", self.scenario, "--report", str(pipe)],
                                   stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said(writing, f"waiting for a reader of the pipe {pipe}")
        self.assertIn("<html", pipe.read_text())
        writing.communicate(timeout=60)
        self.assertEqual(writing.returncode, 0)


class LinkTest(OutputTest):
    def test_an_own_link_is_followed(self):
        (self.folder / "target.html").write_text("old")
        (self.folder / "link.html").symlink_to("target.html")
        done = self.simulate("--report", str(self.folder / "link.html"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "link.html").is_symlink())
        self.assertIn("<html", (self.folder / "target.html").read_text())

    def test_another_users_link_is_not(self):
        if not may_give_away(self.folder):
            self.skipTest("only root can make links of other users")
        target = self.folder / "shadow"
        target.write_text("secret")
        link = self.folder / "page.html"
        link.symlink_to(target)
        os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
        done = self.simulate("--report", str(link))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("belongs to another user", done.stderr)
        self.assertEqual(target.read_text(), "secret")
        # Also not through a link of the caller's own.
        (self.folder / "own.html").symlink_to(link)
        done = self.simulate("--report", str(self.folder / "own.html"))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(target.read_text(), "secret")

    def test_no_output_follows_another_users_link(self):
        if not may_give_away(self.folder):
            self.skipTest("only root can make links of other users")
        target = self.folder / "target"
        target.mkdir()
        link = self.folder / "theirs"
        link.symlink_to(target)
        os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
        (self.folder / "own").symlink_to(link)
        sweep = ["sweep", self.scenario, "--vary", "training.micro_batch_size=1,2", "--store"]
        for name in ("theirs", "own"):
            place = self.folder / name
            for command in (["simulate", self.scenario, "--emit", str(place)],
                            ["simulate", self.scenario, "--emit", str(place / "plan")],
                            ["simulate", self.scenario, "--trace-dir", str(place)],
                            ["simulate", self.scenario, "--trace-dir", str(place / "traces")],
                            ["simulate", self.scenario, "--trace", str(place / "t.json")],
                            [*sweep, str(place / "store")]):
                with self.subTest(command=command[3:]):
                    done = run(*command)
                    self.assertIn(done.returncode, (1, 2), done.stderr)
                    self.assertEqual(done.stdout, "")
                    self.assertIn("belongs to another user", done.stderr)
        self.assertEqual(list(target.iterdir()), [])
        # The store's own name may be a link too.
        store = self.folder / "store"
        store.symlink_to(target / "database")
        os.chown(store, STRANGER, STRANGER, follow_symlinks=False)
        done = run(*sweep, str(store))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(list(target.iterdir()), [])

    def test_another_users_folder_in_the_temporary_one_gets_nothing(self):
        """Its owner may at any time put a link in its place."""
        if not may_give_away(self.folder):
            self.skipTest("only root can make folders of other users")
        shared = self.folder / "tmp"
        theirs = shared / "theirs"
        theirs.mkdir(parents=True)
        shared.chmod(0o1777)
        theirs.chmod(0o777)
        os.chown(theirs, STRANGER, STRANGER)
        for command in (["simulate", self.scenario, "--emit", str(theirs)],
                        ["simulate", self.scenario, "--emit", str(theirs), "--force"],
                        ["simulate", self.scenario, "--emit", str(theirs / "plan")],
                        ["simulate", self.scenario, "--trace-dir", str(theirs)],
                        ["simulate", self.scenario, "--trace", str(theirs / "t.json")],
                        ["simulate", self.scenario, "--report", str(theirs / "page.html")],
                        ["sweep", self.scenario, "--vary", "training.micro_batch_size=1,2",
                         "--store", str(theirs / "store")]):
            with self.subTest(command=command[3:]):
                done = run(*command)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(f"the folder '{theirs}' belongs to another user", done.stderr)
        self.assertEqual(list(theirs.iterdir()), [])
        self.assertEqual(theirs.stat().st_uid, STRANGER)

    def test_the_temporary_folder_is_not_needed(self):
        none = str(self.folder / "none")
        environment = dict(os.environ, TMPDIR=none, TEMP=none, TMP=none)
        for command in (["simulate", self.scenario], ["memory", self.scenario],
                        ["sweep", self.scenario, "--vary", "training.micro_batch_size=1,2",
                         "--store", str(self.folder / "store")],
                        ["plan", self.scenario], ["execute", self.scenario, "--backend", "host"]):
            with self.subTest(command=command):
                done = run(*command, env=environment)
                self.assertIn(done.returncode, (0, 3), done.stderr)

    def test_outputs_follow_own_links(self):
        target = self.folder / "target"
        target.mkdir()
        (self.folder / "link").symlink_to(target)
        done = self.simulate("--emit", str(self.folder / "link" / "plan"), "--trace-dir",
                             str(self.folder / "link"))
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.folder / "store").symlink_to(target / "database")
        done = run("sweep", self.scenario, "--vary", "training.micro_batch_size=1,2", "--store",
                   str(self.folder / "store"))
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {path.name for path in target.iterdir()}
        self.assertLessEqual({"plan", "rank-0.json", "database"}, names)

    def test_another_users_pipe_gets_nothing(self):
        if not may_give_away(self.folder):
            self.skipTest("only root can make pipes of other users")
        pipe = self.folder / "page.html"
        os.mkfifo(pipe)
        os.chown(pipe, STRANGER, STRANGER)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        done = self.simulate("--report", str(pipe))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("belongs to another user", done.stderr)
        self.assertEqual(os.read(reader, 1), b"")

    def test_descriptors_and_devices_are_written(self):
        done = self.simulate("--json", "--report", "/dev/stdout")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<html", done.stdout)
        self.assertEqual(self.simulate("--report", "/dev/null").returncode, 0)
        read, write = os.pipe()
        with os.fdopen(read, "rb") as reader:
            page = subprocess.Popen([STEPCAST, "simulate", self.scenario, "--report",
                                     f"/dev/fd/{write}"], pass_fds=[write],
                                    stdout=subprocess.DEVNULL)
            os.close(write)
            self.assertIn(b"<html", reader.read())
            self.assertEqual(page.wait(), 0)


class InputTest(OutputTest):
    def test_what_is_read_is_not_written(self):
        outside = self.folder / "outside"
        outside.mkdir()
        # The option refuses other extensions before it looks at the file.
        for name in ("model.yaml", "cluster.yaml", "profile.yaml"):
            for option, extension in (("--report", ".html"), ("--trace", ".json")):
                with self.subTest(name=name, option=option):
                    os.link(self.folder / name, self.folder / (name + extension))
                    done = self.simulate(option, str(outside / ".." / (name + extension)))
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn("command.same-file", done.stderr)
                    self.assertIn(name, done.stderr)
                    done = self.simulate(option, str(self.folder / name))
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        for command in ("plan", "sweep"):
            more = ["--vary", "training.micro_batch_size=1,2"]
            for option, name in (("--report", "model.yaml.html"), ("--store", "model.yaml")):
                with self.subTest(command=command, option=option):
                    done = run(command, self.scenario, *more, option, str(self.folder / name))
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn("command.same-file", done.stderr)
        # Through a value of --vary.
        (self.folder / "other.yaml").write_text(MODEL.replace("1 ms", "3 ms"))
        os.link(self.folder / "other.yaml", self.folder / "other.html")
        done = run("sweep", self.scenario, "--vary", "model=model.yaml,other.yaml", "--report",
                   str(self.folder / "other.html"))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("command.same-file", done.stderr)
        for name, text in self.inputs.items():
            self.assertEqual((self.folder / name).read_text(), text)

    def test_a_plan_does_not_replace_the_folder_that_it_was_read_from(self):
        plan = self.folder / "plan"
        self.assertEqual(self.simulate("--emit", str(plan)).returncode, 0)
        before = {file.name: file.read_bytes() for file in plan.iterdir()}
        done = run("simulate", str(plan / "plan.json"), "--emit", str(plan), "--force")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("command.same-file", done.stderr)
        self.assertEqual(before, {file.name: file.read_bytes() for file in plan.iterdir()})


class PageTest(OutputTest):
    def test_pages_run_the_scripts_of_stepcast_alone(self):
        page = self.folder / "page.html"
        self.assertEqual(self.simulate("--report", str(page)).returncode, 0)
        text = page.read_text()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        self.assertEqual(rules["default-src"], "'none'")
        self.assertEqual(rules["base-uri"], "'none'")
        self.assertEqual(rules["form-action"], "'none'")
        scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        self.assertGreater(len(scripts), 0)
        hashes = ["'sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() + "'"
                  for s in scripts]
        self.assertEqual(rules["script-src"].split(), hashes + ["'unsafe-eval'"])
        # Data are not scripts, and no other way runs one.
        self.assertEqual(set(re.findall(r"<script ?([^>]*)>", text.split("<script>")[0])),
                         {'type="application/json"'})


class PlanFolderTest(OutputTest):
    def test_only_what_was_written_is_replaced(self):
        plan = self.folder / "plan"
        self.assertEqual(self.simulate("--emit", str(plan)).returncode, 0)
        self.assertEqual(self.simulate("--emit", str(plan), "--force").returncode, 0)
        (plan / ".git").mkdir()
        (plan / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (plan / "step-1000.pt").write_text("weeks of work")
        before = sorted(str(path) for path in plan.rglob("*"))
        done = self.simulate("--emit", str(plan), "--force")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("file.exists", done.stderr)
        self.assertIn(".git/", done.stderr)
        self.assertIn("step-1000.pt", done.stderr)
        self.assertEqual(sorted(str(path) for path in plan.rglob("*")), before)

    def test_a_plan_of_another_program_is_not(self):
        folder = self.folder / "work"
        folder.mkdir()
        (folder / "plan.json").write_text("{}")
        done = self.simulate("--emit", str(folder), "--force")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("plan.json", done.stderr)
        self.assertEqual((folder / "plan.json").read_text(), "{}")

    def test_a_manifest_reaches_no_further_than_its_folder(self):
        plan = self.folder / "plan"
        self.assertEqual(self.simulate("--emit", str(plan)).returncode, 0)
        precious = self.folder / "precious"
        precious.mkdir()
        (precious / "thesis.tex").write_text("x")
        with open(plan / "MANIFEST", "a") as manifest:
            manifest.write(f"../precious/thesis.tex\n{precious}/thesis.tex\nlinked\nlinked/thesis"
                           ".tex\nheld\n")
        (plan / "linked").symlink_to(precious)
        done = self.simulate("--emit", str(plan), "--force")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("linked", done.stderr)
        (plan / "linked").unlink()
        (plan / "held").mkdir()
        (plan / "held" / "thesis.tex").write_text("x")
        done = self.simulate("--emit", str(plan), "--force")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("held/", done.stderr)
        shutil.rmtree(plan / "held")
        self.assertEqual(self.simulate("--emit", str(plan), "--force").returncode, 0)
        self.assertEqual((precious / "thesis.tex").read_text(), "x")

    def test_files_in_folders_of_the_plan_are_its_own(self):
        (self.folder / "parts").mkdir()
        (self.folder / "model.yaml").rename(self.folder / "parts" / "model.yaml")
        pathlib.Path(self.scenario).write_text(SCENARIO.replace("model.yaml", "parts/model.yaml"))
        plan = self.folder / "plan"
        self.assertEqual(self.simulate("--emit", str(plan)).returncode, 0)
        done = self.simulate("--emit", str(plan), "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        (plan / "parts" / "notes.txt").write_text("mine")
        done = self.simulate("--emit", str(plan), "--force")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("parts/notes.txt", done.stderr)
        self.assertEqual((plan / "parts" / "notes.txt").read_text(), "mine")


if __name__ == "__main__":
    test_report.main()
