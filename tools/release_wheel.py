#!/usr/bin/python3
"""Writes the wheel: the package of src/python/package with the static program and its data.

    tools/release_wheel.py --version 0.1.0 --program TREE --folder dist

TREE has bin/stepcast and share/stepcast, as tools/release lays them out. The program needs no library,
so that one wheel serves every Python and every Linux on x86-64.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TAGS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64")

METADATA = """\
Metadata-Version: 2.1
Name: stepcast
Version: {version}
Summary: Forecasts steps of distributed training: time, where it goes, and memory
License: Apache-2.0
Requires-Python: >=3.8
Provides-Extra: dataframe
Requires-Dist: pandas ; extra == 'dataframe'
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: stepcast tools/release_wheel.py
Root-Is-Purelib: false
{tags}
"""


class Wheel:
    """A zip file with a record of its files and their digests."""

    def __init__(self, path, when):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.when = time.gmtime(when)[:6]
        self.record = []

    def add(self, name, content, executable=False):
        entry = zipfile.ZipInfo(name, self.when)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, information):
        name = f"{information}/RECORD"
        entry = zipfile.ZipInfo(name, self.when)
        entry.external_attr = 0o100644 << 16
        self.zip.writestr(entry, "\n".join([*self.record, f"{name},,", ""]))
        self.zip.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    arguments = parser.parse_args()

    platform = ".".join(TAGS)
    path = arguments.folder / f"stepcast-{arguments.version}-py3-none-{platform}.whl"
    wheel = Wheel(path, int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    for file in sorted((ROOT / "src/python/package/stepcast").iterdir()):
        if file.suffix not in (".py", ".typed"):
            continue
        content = file.read_bytes()
        if file.name == "_version.py":
            content = f'__version__ = "{arguments.version}"\n'.encode()
        wheel.add(f"stepcast/{file.name}", content)
    for folder in ("bin", "share/stepcast"):
        for file in sorted((arguments.program / folder).rglob("*")):
            if file.is_file():
                wheel.add(f"stepcast/_program/{file.relative_to(arguments.program).as_posix()}",
                          file.read_bytes(), executable=folder == "bin")
    information = f"stepcast-{arguments.version}.dist-info"
    wheel.add(f"{information}/METADATA", METADATA.format(
        version=arguments.version,
        description=(ROOT / "docs/library.md").read_text()).encode())
    wheel.add(f"{information}/WHEEL", WHEEL.format(
        tags="\n".join(f"Tag: py3-none-{tag}" for tag in TAGS)).encode())
    # Includes the command line: `stepcast simulate ...` in the environment.
    wheel.add(f"{information}/entry_points.txt",
              b"[console_scripts]\nstepcast = stepcast._command:main\n")
    wheel.add(f"{information}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    wheel.close(information)


if __name__ == "__main__":
    main()
