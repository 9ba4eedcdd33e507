#!/usr/bin/python3
"""Every link of a page to a file or a heading of this repository leads somewhere, every page of docs is linked to, and no page has
the marks of an unfinished merge.

    bazel test //tests/documentation:links_test
"""

import pathlib
import re
import sys

# The workspace that the runfile links into. There are too many pages to declare, so this test is
# tagged `external` and never taken from a cache.
ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("calibration", "docs", "models", "scenarios", "src", "tests", "third_party", "tools", "topologies")


def pages():
    """All pages in Markdown, in order."""
    found = list(ROOT.glob("*.md"))
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*.md")
    return sorted(page for page in found if "node_modules" not in page.parts)


def blank(match):
    """As much text without a word in it; lines keep their numbers."""
    return re.sub(r"[^\n]", "x", match.group())


def prose(page):
    """Its text without blocks and spans of code, in which nothing is a link."""
    text = re.sub(r"^```.*?^```$", blank, page.read_text(), flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", blank, text)


def anchors(page):
    """The names that headings of a page have, as GitHub makes them: in lower case, without punctuation, blanks as hyphens."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page, linked):
    """What is wrong with the links of a page; adds the files that they name to `linked`."""
    text = prose(page)
    for mark in re.finditer(r"^(<{7}|={7}|>{7})( .*)?$", text, re.M):
        line = text.count("\n", 0, mark.start()) + 1
        yield f"{page.relative_to(ROOT)}:{line}: the mark of an unfinished merge: {mark.group()}"
    for link in re.finditer(r"\]\(([^)\s]+)\)", text):
        target, _, anchor = link.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        line = text.count("\n", 0, link.start()) + 1
        where = f"{page.relative_to(ROOT)}:{line}: {link.group(1)}"
        file = (page.parent / target).resolve() if target else page
        linked.add(file / "README.md" if file.is_dir() else file)
        if not file.exists():
            yield f"{where}: there is no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{where}: the page has no such heading"


def main():
    linked = set()
    mistakes = [mistake for page in pages() for mistake in broken(page, linked)]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page not in linked:
            mistakes.append(f"{page.relative_to(ROOT)}: no page links to it")
    print("\n".join(mistakes))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
