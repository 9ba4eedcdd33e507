#!/usr/bin/python3
"""What a framework decides stands in its own files: few others name one.

A source that asks which framework a plan has knows what src/plan/frameworks and its file in src/lowering should say.
These may name frameworks, tests apart; a value of FrameworkStyle or a function of FrameworkPolicy serves the others.

    bazel test //tests/documentation:framework_names_test
"""

import pathlib
import re
import sys

# The workspace that the runfile links into. There are too many sources to declare, so this test is
# tagged `external` and never taken from a cache.
ROOT = pathlib.Path(__file__).resolve().parents[2]

NAMING = {
    "src/emit/trainers.cc": "the program that trains a framework's plans",
    "src/lowering/lowering.cc": "the function that writes a framework's programs",
    "src/plan/data_parallel.h": "the default",
    "src/plan/data_parallel_settings.cc": "which frameworks have a setting",
    "src/plan/framework.h": "all of them",
    "src/plan/frameworks/frameworks.h": "whose layers are divided",
    "src/plan/legality_cases.h": "for tests",
    "src/plan/mixture_settings.cc": "which frameworks have a setting",
    "src/plan/parallelism_settings.cc": "which frameworks have a setting",
    "src/plan/setting.cc": "which frameworks have a setting",
    "src/plan/setting.h": "the default",
    "src/plan/training_settings.cc": "which frameworks have a setting",
    "src/planner/plan_space.h": "the default",
    "src/planner/search_table.cc": "which frameworks try values of a setting",
    "src/planner/search_table.h": "the default",
}


def main():
    naming = set()
    for pattern in ("*.cc", "*.h"):
        for path in (ROOT / "src").rglob(pattern):
            if path.stem.endswith("_test"):
                continue
            if re.search(r"\bFramework::k|using enum (plan::)?Framework;", path.read_text()):
                naming.add(path.relative_to(ROOT).as_posix())
    mistakes = [f"{path} names a framework: let src/plan/frameworks say it" for path in sorted(naming - NAMING.keys())]
    mistakes += [f"{path} names none any more: take it out of this test" for path in sorted(NAMING.keys() - naming)]
    print("\n".join(mistakes) or f"{len(naming)} files name frameworks")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
