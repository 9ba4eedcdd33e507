"""Counts the test cases of a `bazel test` run.

    test_summary.py STATUS EVENTS

STATUS is Bazel's exit status, EVENTS a file written by --build_event_json_file. Prints the
failures and, last, "N passed, N failed". Exits 1 when something failed, the build included.

A test's cases come from its test.xml. A test that reports no cases counts as one, and so does a
target that could not be built.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


class Counts:

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []  # one line each


def read_events(path):
    """Returns the test results by (label, run, shard), and the labels that could not be built."""
    results = {}
    unbuilt = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            identity = event["id"]
            if "testResult" in identity and "testResult" in event:
                key = identity["testResult"]
                # A flaky test's later attempts come later and replace the earlier ones.
                results[key["label"], key.get("run"), key.get("shard")] = event["testResult"]
            elif "targetCompleted" in identity:
                label = identity["targetCompleted"]["label"]
                if "completed" in event:
                    built = event["completed"].get("success", False)
                else:
                    # Targets that this machine or configuration cannot build are not failures.
                    built = event.get("aborted", {}).get("reason") == "SKIPPED"
                if not built:
                    unbuilt.append(label)
    return results, unbuilt


def test_xml(result):
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
    return None


def count_test(label, result, counts):
    cases = []
    path = test_xml(result)
    if path:
        try:
            cases = list(xml.etree.ElementTree.parse(path).iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError):
            pass  # a test that was killed while writing; its status tells the rest

    failed_before = len(counts.failures)
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            # Bazel writes a case of its own, without a class, for a test that writes none.
            suite = case.get("classname")
            name = "%s.%s" % (suite, case.get("name")) if suite else result.get("status", "")
            counts.failures.append("%s  %s" % (label, name))
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            counts.skipped += 1
        else:
            counts.passed += 1

    if result.get("status") in ("PASSED", "FLAKY"):
        if not cases:
            counts.passed += 1
    elif len(counts.failures) == failed_before:
        # It failed outside its cases: a crash, a timeout, a leak found at the end.
        counts.failures.append("%s  %s" % (label, result.get("status", "no status")))


def main(arguments):
    status = int(arguments[0])
    counts = Counts()
    results, unbuilt = read_events(arguments[1])
    for (label, _, _), result in sorted(results.items(), key=lambda item: str(item[0])):
        count_test(label, result, counts)
    tested = {label for label, _, _ in results}
    # A test that ran and failed is "not completed" too; it is counted above.
    for label in sorted(set(unbuilt) - tested):
        counts.failures.append("%s  could not be built" % label)

    if status != 0 and not counts.failures:
        counts.failures.append("bazel ended with status %d, see above" % status)
    print()
    for failure in counts.failures:
        print("FAILED  " + failure)
    if counts.skipped:
        print("%d skipped" % counts.skipped)
    print("%d passed, %d failed" % (counts.passed, len(counts.failures)))
    return 1 if counts.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
