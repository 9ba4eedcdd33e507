#!/usr/bin/python3
"""Each target includes only headers of its direct dependencies, and needs each dependency.

clang checks the first half with `--config=clang`, in a build of its own. This test reads BUILD files
and #include lines alone, so it takes a second.

    bazel test //tests/documentation:layering_test
"""

import collections
import pathlib
import re
import sys

# The workspace that the runfile links into. There are too many sources to declare, so this test is
# tagged `external` and never taken from a cache.
ROOT = pathlib.Path(__file__).resolve().parents[2]

# Libraries of other workspaces, by the first part of an include. Headers of glibc and of the
# compiler need no dependency.
LIBRARIES = {
    "boost": "@boost",
    "fmt": "@fmt",
    "gmock": "@googletest",
    "gtest": "@googletest",
    "benchmark": "@google_benchmark",
    "nlohmann": "@nlohmann_json",
    "pugixml.hpp": "@pugixml",
    "rapidcheck": "@rapidcheck",
    "rapidcheck.h": "@rapidcheck",
    "sqlite3.h": "@sqlite",
    "tl": "@tl_expected",
    "toml++": "@tomlplusplus",
    "yaml-cpp": "@yaml_cpp",
    "zlib.h": "@zlib",
}

# `exact`: each dependency must be used. It is false if sources are labels of other rules, whose
# includes are not known here, and if one rule text makes several targets.
Target = collections.namedtuple("Target", "label sources headers deps exact")


class Select(list):
    """The values of all branches of a select()."""

    def __init__(self, branches):
        super().__init__(entry for branch in branches.values() for entry in branch)


def targets_of(folder, text):
    """Runs a BUILD file, whose language is a part of Python, and records its C++ rules."""
    found = []

    def absolute(label):
        if label.startswith(":"):
            return f"//{folder}{label}"
        if label.startswith("//") and ":" not in label:
            return f"{label}:{label.rsplit('/', 1)[1]}"
        return label

    def glob(patterns, exclude=()):
        paths = {p for pattern in patterns for p in (ROOT / folder).glob(pattern)}
        paths -= {p for pattern in exclude for p in (ROOT / folder).glob(pattern)}
        return sorted(p.relative_to(ROOT / folder).as_posix() for p in paths)

    def recorded(kind):
        def rule(name="", srcs=(), hdrs=(), deps=(), **_):
            sources = list(srcs)
            if kind == "unit_test":
                sources = sources or [name + ".cc"]
                deps = list(deps) + ["@googletest//:gtest"]
            files = lambda names: [f"{folder}/{file}" for file in names if not file.startswith((":", "//"))]
            exact = (
                kind != "cc_binary"
                and len(files(sources)) == len(sources)
                and bool(sources or hdrs)
                and f'name = "{name}"' in text
            )
            found.append(
                Target(f"//{folder}:{name}", files(sources), files(hdrs), [absolute(d) for d in deps], exact)
            )

        return rule

    class Rules(dict):
        """Rules without C++ sources, and loaded values, do nothing."""

        def __missing__(self, name):
            return [] if name.isupper() else lambda *_, **__: None

    rules = Rules(glob=glob, select=Select)
    for kind in ("cc_library", "combined_library", "cc_binary", "cc_test", "cuda_library", "unit_test"):
        rules[kind] = recorded(kind)
    exec(text, rules)  # pylint: disable=exec-used
    return found


def includes_of(path):
    return re.findall(r'^\s*#\s*include [<"]([^>"]+)[>"]', (ROOT / path).read_text(), re.M)


def main():
    targets = [
        target
        for room in ("src", "tests")
        for path in sorted((ROOT / room).rglob("BUILD"))
        for target in targets_of(path.parent.relative_to(ROOT).as_posix(), path.read_text())
    ]
    owners = collections.defaultdict(set)  # of each public header
    for target in targets:
        for header in target.headers:
            owners[header].add(target.label)
    with_headers = {target.label for target in targets if target.headers}

    wrong = []
    for target in targets:
        workspaces = {dep.split("//")[0] for dep in target.deps if dep.startswith("@")}
        used = set()
        for source in target.sources + target.headers:
            for include in includes_of(source) if (ROOT / source).is_file() else ():
                library = LIBRARIES.get(include.split("/")[0])
                if library:
                    used.add(library)
                    if library not in workspaces:
                        wrong.append(f"{target.label}: {source} includes {include}: add a target of {library}")
                elif include in owners:
                    used |= owners[include]
                    if not owners[include] & {target.label, *target.deps}:
                        of = " or ".join(sorted(owners[include]))
                        wrong.append(f"{target.label}: {source} includes {include}: add {of}")
                elif include.startswith(("src/", "tests/")) and include not in target.sources:
                    wrong.append(f"{target.label}: {source} includes {include}, which is no header of a dependency")
        for dep in target.deps:
            if dep in with_headers and dep not in used and target.exact:
                wrong.append(f"{target.label}: includes nothing of {dep}")
    print("\n".join(wrong) or f"{len(targets)} targets")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
