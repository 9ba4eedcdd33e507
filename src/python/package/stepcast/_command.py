"""The command line of the program that the package carries."""

import os
import sys

from ._program import path


def main() -> None:
    os.execv(path(), [path(), *sys.argv[1:]])
