"""The command `stepcast`: runs the program in this package."""

import os
import sys

from ._program import path


def main() -> None:
    os.execv(path(), [path(), *sys.argv[1:]])
