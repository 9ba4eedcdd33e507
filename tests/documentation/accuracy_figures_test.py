#!/usr/bin/python3
"""Checks that the README and docs/accuracy.md repeat rows of the generated tables correctly.

    stepcast validate published --update docs/accuracy/published-steps.md

writes the tables; this test prints the lines of the two pages that differ.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def in_short():
    """Rows of the table *In short*, by their first cell."""
    text = (ROOT / "docs/accuracy/published-steps.md").read_text()
    table = text[text.index("### In short"):text.index("The table shows errors of step time.")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in table.splitlines() if line.startswith("|")]
    return {row[0]: row for row in rows[2:]}


def cells_of(path):
    for line in (ROOT / path).read_text().splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def main():
    rows = in_short()
    faults = []
    found = {"README.md": 0, "docs/accuracy.md": 0}
    for path in sorted(found):
        for cells in cells_of(path):
            own = rows.get(cells[0].removesuffix(", as your runs are"))
            if own is None:
                continue
            found[path] += 1
            # The README has only cases, mean error and bias.
            due = own if path != "README.md" else [own[0], own[1], own[3] + " %", own[5] + " %"]
            if cells[1:] != due[1:]:
                faults.append(f"{path}: {' | '.join(cells)}\n    the table has {' | '.join(due)}")
    faults += [f"{path} repeats no row of the table" for path, count in found.items() if count == 0]
    if found["docs/accuracy.md"] != len(rows):
        faults.append(f"docs/accuracy.md has {found['docs/accuracy.md']} of the table's {len(rows)} rows")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
