"""Writes text files into a C++ source, as functions that return them.

    embed_text.py OUT HEADER NAME=FILE[,FILE...] ...

HEADER declares `std::string_view NAME();` in the namespace of its folder, and for a NAME that ends in
Script also NAMEHash(), as a Content-Security-Policy has it. Several files of one name follow one
another; a text that was there before is left out.
"""

import base64
import hashlib
import sys


def literal(data):
    """The bytes as string literals, in lines that compilers like."""
    out = []
    line = []
    for byte in data:
        if byte in b'"\\':
            line.append("\\" + chr(byte))
        elif byte == 0x3F:  # a question mark could begin a trigraph
            line.append("\\?")
        elif 0x20 <= byte < 0x7F:
            line.append(chr(byte))
        else:
            line.append("\\%03o" % byte)
        if len(line) >= 2000:
            out.append('"%s"' % "".join(line))
            line = []
    out.append('"%s"' % "".join(line))
    return "\n".join(out)


def main(out, header, definitions):
    namespace = "::".join(["stepcast"] + header.split("/")[1:-1])
    text = ['#include "%s"' % header, "", "namespace %s {" % namespace, ""]
    for definition in definitions:
        name, files = definition.split("=", 1)
        parts = []
        for file in sorted(files.split(",")):
            with open(file, "rb") as source:
                part = source.read().strip() + b"\n"
            if part not in parts:
                parts.append(part)
        data = b"\n".join(parts)
        text.append("static constexpr char k%s[] =\n%s;" % (name, literal(data)))
        text.append("std::string_view %s() { return {k%s, sizeof(k%s) - 1}; }" % ((name,) * 3))
        if name.endswith("Script"):
            digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
            text.append('std::string_view %sHash() { return "sha256-%s"; }' % (name, digest))
        text.append("")
    text.append("}  // namespace %s" % namespace)
    with open(out, "w", encoding="ascii") as target:
        target.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
