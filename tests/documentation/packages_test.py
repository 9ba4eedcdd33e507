#!/usr/bin/python3
"""The table of packages in docs/architecture.md says what BUILD files say.

Of each package: which others its targets depend on, tests apart; and that its targets are visible only
to packages that depend on it, in their tests at least.

    bazel test //tests/documentation:packages_test
    tests/documentation/packages_test.py --update     # writes the column 'may see' anew
"""

import ast
import collections
import pathlib
import re
import sys

# The workspace that the runfile links into. There are too many BUILD files to declare, so this test
# is tagged `external` and never taken from a cache.
ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"
# The first is visible to all packages; the binary, the library and the module are public.
OPEN = ("base", "cli", "python", ".")


def package_of(folder):
    """'src/runtime/cuda' is in the package 'runtime'; the library lies in 'src' itself."""
    parts = folder.split("/")
    return parts[1] if len(parts) > 1 else "."


def rules(text):
    """(kind, attributes as text) of each rule of a BUILD file laid out by buildifier."""
    for rule in re.finditer(r"^(\w+)\(\n(.*?)^\)", text, re.S | re.M):
        yield rule.group(1), rule.group(2)


def strings(text, constants):
    """The strings of an expression of lists and names of lists."""
    found = []
    for part in re.split(r"\s\+\s", text.strip().rstrip(",")):
        found += constants.get(part.strip(), None) or re.findall(r'"([^"]*)"', part)
    return found


def attribute(body, name):
    match = re.search(rf"^    {name} = (.*?),\n(?=    \w+ = |\Z)", body, re.S | re.M)
    return match.group(1) if match else ""


def read_builds():
    """Packages that each package depends on, the same with tests, and (target, visibility) of each package."""
    sees = collections.defaultdict(set)
    tests_see = collections.defaultdict(set)
    targets = collections.defaultdict(list)
    for path in sorted((ROOT / "src").rglob("BUILD")):
        folder = path.parent.relative_to(ROOT).as_posix()
        package = package_of(folder)
        text = path.read_text()
        constants = {
            name: ast.literal_eval(value)
            for name, value in re.findall(r"^([A-Z_]+) = (\[[^\]]*\])", text, re.M)
        }
        sees[package].update()
        for kind, body in rules(text):
            visibility = strings(attribute(body, "visibility"), constants)
            default = attribute(body, "default_visibility")
            name = re.search(r'name = "([^"]*)"', body)
            label = f"//{folder}:{name.group(1)}" if name else f"//{folder} ({kind})"
            targets[package].append((label, visibility or strings(default, constants)))
            test = kind.endswith("_test") or "testonly = True" in body
            for other in re.findall(r'"//(src[^":]*)', attribute(body, "deps")):
                if package_of(other) != package:
                    tests_see[package].add(package_of(other))
                    if not test:
                        sees[package].add(package_of(other))
            for other in re.findall(r'"//(src[^":]*)', attribute(body, "data")):
                tests_see[package].add(package_of(other))
    return sees, tests_see, targets


def table_rows(text):
    """(whole line, packages named in the first cell, cells) of the table of packages."""
    section = text[text.index("\n## Packages\n") :]
    for line in section.splitlines():
        if line.startswith("| `src/"):
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            packages = [
                "." if name.endswith(".h") else name.split("/")[1]
                for name in re.findall(r"`(src/[^`]*)`", cells[0])
            ]
            yield line, packages, cells
        elif line.startswith("## ") and "Packages" not in line:
            return


def main():
    sees, tests_see, targets = read_builds()
    text = DOCUMENT.read_text()
    names = {".": "library"}
    order = [package for _, packages, _ in table_rows(text) for package in packages]
    wrong = [f"src/{package} has no row in the table of packages" for package in sees if package not in order]
    for line, packages, cells in table_rows(text):
        seen = set().union(*(sees[package] for package in packages)) - set(packages)
        listed = ", ".join(names.get(package, package) for package in order if package in seen) or "-"
        if listed != cells[-1]:
            wrong.append(f"{cells[0]} may see: {cells[-1]}\n    its BUILD files say: {listed}")
            text = text.replace(line, f"| {' | '.join(cells[:-1])} | {listed} |")
    if "--update" in sys.argv[1:]:
        DOCUMENT.write_text(text)
        return 0
    for package, of_package in targets.items():
        if package in OPEN:
            continue
        for label, visibility in of_package:
            for entry in visibility:
                if entry == "//visibility:public" or entry.startswith("//src:__subpackages__"):
                    wrong.append(f"{label} is visible to all packages: {entry}")
                    continue
                user = re.match(r"//src/(\w+)", entry)
                if user and user.group(1) != package and package not in tests_see[user.group(1)]:
                    wrong.append(f"{label} is visible to {entry}, which uses nothing of this package")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
