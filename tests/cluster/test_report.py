"""Runs a module's unit tests, and tells Bazel of each case (tools/test counts them)."""

import os
import signal
import sys
import time
import unittest
import xml.etree.ElementTree as xml


class _Result(unittest.TextTestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.suite = xml.Element("testsuite", name=os.path.basename(sys.argv[0]))
        self.case, self.begin = None, 0.0

    def startTest(self, test):
        super().startTest(test)
        group, name = test.id().split(".")[-2:]
        self.case = xml.SubElement(self.suite, "testcase", classname=group, name=name)
        self.begin = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.case.set("time", f"{time.monotonic() - self.begin:.3f}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        xml.SubElement(self._case_of(test), "failure", message=str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        xml.SubElement(self._case_of(test), "error", message=str(err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        xml.SubElement(self._case_of(test), "skipped", message=reason)

    def _case_of(self, test):
        if isinstance(test, unittest.TestCase):
            return self.case
        # If a whole class is skipped or fails, it has no test case.
        return xml.SubElement(self.suite, "testcase", classname=str(test), name="set-up")


def _interrupt(*_):
    raise KeyboardInterrupt


def main():
    # The signal after a timeout; `atexit` still cleans up.
    signal.signal(signal.SIGTERM, _interrupt)
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    # `-k TEXT` on the command line (bazel test --test_arg) selects tests by name.
    if sys.argv[1:2] == ["-k"]:
        wanted = [t for group in tests for t in group if sys.argv[2] in t.id()]
        tests = unittest.TestSuite(wanted)
    result = unittest.TextTestRunner(verbosity=2, resultclass=_Result).run(tests)
    target = os.environ.get("XML_OUTPUT_FILE")
    if target:
        root = xml.Element("testsuites")
        root.append(result.suite)
        xml.ElementTree(root).write(target, encoding="unicode")
    sys.exit(0 if result.wasSuccessful() else 1)
