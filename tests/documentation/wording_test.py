#!/usr/bin/python3
"""Finds habits of wording that readers must read twice, by pattern.

It reads all pages, the help texts and the strings of the program, and the comments of headers and of data
files in YAML.

    bazel test //tests/documentation:wording_test
    tests/documentation/wording_test.py                        # lists new findings
    tests/documentation/wording_test.py --list docs/nccl.md    # lists all findings in files with this name
    tests/documentation/wording_test.py --update               # removes exceptions that no longer occur
    tests/documentation/wording_test.py --update --accept      # also adds new exceptions

wording_exceptions.txt has the number of findings that a file may have: `file habit count` per line. The
test fails if a file has more, or fewer: the list can only shrink.
"""

import collections
import pathlib
import re
import sys

# The workspace that the runfile links into: the files are too many to declare,
# which is why this test is tagged `external` and never taken from a cache.
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXCEPTIONS = ROOT / "tests" / "documentation" / "wording_exceptions.txt"
FOLDERS = ("calibration", "docs", "models", "scenarios", "src", "tests", "third_party", "tools", "topologies")
DATA_FOLDERS = ("models", "scenarios", "topologies")

# Five more than the rule, 25.
LONGEST_SENTENCE = 30
# Shorter literals are names, keys and parts of a line.
FEWEST_WORDS_OF_A_MESSAGE = 4
# Shorter ones may continue a sentence, in lower case.
FEWEST_WORDS_OF_A_SENTENCE = 8

# Sentences with these openings start with a relative clause. "Where" often means "if".
OPENINGS = {
    "opens-with-of": r"Of\b(?! course)",
    "opens-with-what": r"What\b",
    "opens-with-who": r"(?:Who|Whose|Whom|Whoever)\b",
    "opens-with-such": r"Such\b",
    "opens-with-those": r"Those\b",
    "opens-with-where": r"Where\b",
}
PHRASES = {
    # "There is no plan", not "no plan is there" or "plans are none".
    "is-none": r"\b(is|are|was|were|has|have) none\b|\bno [\w-]+ (is|are) there\b",
    "there-is-of": r"\bthere (is|are) of\b",
    # "1 run", not "1 runs"; "rank 1 runs" is right.
    "one-of-many": r"1(?<![\w.,/:*=-]1)(?<!rank 1)(?<!node 1)(?<!stage 1)(?<!step 1)(?<!chunk 1) "
                   r"(runs|plans|rows|nodes|GPUs|devices|ranks|settings|cases|layouts|times|files|mistakes|samples)\b",
    # "at most 100 % faster", not "by 100 % at most".
    "at-most-last": r"% at most\b|\bby [\w.{}]+ (at most|at least)[.,;)]",
    # "only X", not "X alone": a collective "alone" is uncontended.
    "alone": r"\balone\b",
    # "also", "in addition", "other".
    "besides": r"\bbesides\b",
    # "again", or nothing.
    "anew": r"\banew\b",
    # "as Megatron-LM does", "the default of Megatron-LM".
    "as-it-has-it": r"(?<!soon )(?<!long )\bas (?!soon|long|many|much|fast)[\w`. -]{1,30} (has|have) (it|them)\b",
    # "this many", or the number's name.
    "so-many": r"\bso many\b",
    # "divide", "divided among".
    "share-out": r"\b(share|shares|shared|sharing)( \w+){0,2} out\b",
    # Words that this project made up; the field has others.
    "coined-term": r"\b(in company|whereabouts|fair shares|workforce|near losers?|stand-ins?|notch(es)?|"
                   r"levers?|under way|last words|no choice and|price list|so much the)\b",
    # "do not", "no longer": a negation at the end is read twice.
    "trailing-negation": r",? and not (named|there|known|said)\b|\bnot there\b",
}
OPENING = re.compile("|".join(f"(?P<{name.replace('-', '_')}>{pattern})" for name, pattern in OPENINGS.items()))
PHRASE = {name: re.compile(pattern) for name, pattern in PHRASES.items()}
# Most sentences have no phrase: one of these words is in each.
ANY_PHRASE = re.compile("none|there|1 |% at|by |alone|besides|anew|as |so |out|company|whereabouts|fair|workforce|"
                        "near|stand|notch|lever|way|words|choice|price|named|known|said")


def blank(match):
    """The same number of lines without text."""
    return "\n" * match.group().count("\n")


MARKUP = re.compile(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}")
SPAN = re.compile(r"`[^`]*`")
SPANS = re.compile(r"CODE(?: ?\((?:CODE|[^)]*)\))?(?:,? (?:and |or |to )?CODE(?: \(CODE\))?)+")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ADDRESS = re.compile(r"https?://\S+")
WORD = re.compile(r"\S*\w\S*")
# A full stop, but for that of an abbreviation or an ellipsis; or a colon before a capital.
END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\bal)(?<!\bNo)(?<![.\s])"
                 r"[.!?][)\"']*\s+(?=[\w\"'({\[])|:\s+(?=[A-Z])")


def plain(text):
    """Text without markup: a span of code, or a list of them, is one word, of a link its text stays."""
    if "`" in text:
        text = SPANS.sub("CODE", SPAN.sub("CODE", text))
    if "](" in text:
        text = LINK.sub(r"\1", text)
    if "://" in text:
        text = ADDRESS.sub("CODE", text)
    if "*" in text or "_" in text:
        text = MARKUP.sub("", text)
    return " ".join(text.split())


def sentences(text):
    """Sentences of a paragraph."""
    return [part for part in END.split(text) if part]


def words(sentence):
    return len(WORD.findall(sentence))


def paragraphs_of_page(text):
    """(text, whether it is a heading) of paragraphs, list items, headings and cells of tables."""
    text = re.sub(r"^```.*?^```\s*$", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    paragraph = []
    after_blank = True
    for line in text.splitlines() + [""]:
        code = after_blank and line.startswith("    ")
        item = re.match(r"\s*([-*+]|\d+\.)\s+(.*)", line)
        if not line.strip() or code or item or line.startswith(("#", "|", "<")):
            if paragraph:
                yield " ".join(paragraph), False
            paragraph = []
        after_blank = not line.strip() or code
        if code or line.startswith("<"):
            continue
        if line.startswith("#"):
            yield line.lstrip("# "), True
        elif line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                # Cells list cases.
                for case in re.split(r";\s", cell):
                    yield case, False
        elif item:
            paragraph = [item.group(2)]
        elif line.strip():
            paragraph.append(line.strip())


def of_page(text):
    for paragraph, heading in paragraphs_of_page(text):
        for sentence in sentences(plain(paragraph)):
            # A heading and a question may begin with "What" and "Where", and so may "What to see:".
            yield sentence, heading or sentence.endswith(("?", ":"))


# An option or a key: two words joined by a mark.
NAME = re.compile(r"\S*\w[_=.*-]\w\S*|\S*\w[*=]")


def is_list_of_names(literal):
    """Whether most words are names of options, as in tables of other programs' options."""
    return 2 * len(NAME.findall(literal)) > words(literal)


LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')


def of_source(text):
    """Sentences of string literals, those that stand side by side as one."""
    text = re.sub(r"^\s*(//|#include).*$", "", text, flags=re.M)
    # Programs, pages and texts of several lines inside of the binary are no messages.
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.S)
    # The character " begins no literal.
    text = re.sub(r"'(?:\\.|[^'\\\n])'", "' '", text)
    for match in LITERALS.finditer(text):
        literal = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', match.group()))
        literal = literal.replace("\\n", " ").replace('\\"', '"')
        if words(literal) < FEWEST_WORDS_OF_A_MESSAGE or is_list_of_names(literal):
            continue
        for index, sentence in enumerate(sentences(plain(literal))):
            if index == 0 and not literal.startswith(" ") and words(sentence) >= FEWEST_WORDS_OF_A_SENTENCE:
                sentence = sentence[:1].upper() + sentence[1:]
            yield sentence, sentence.endswith("?")


def of_comments(text, mark):
    """Sentences of comments; lines that follow each other are one paragraph."""
    whole_line = re.compile(rf"\s*{mark}+ ?(.*)")
    paragraph = []
    for line in text.splitlines() + [""]:
        match = whole_line.match(line) if mark in line else None
        comment = match.group(1) if match else ""
        # Formulas and tables are indented.
        if comment.strip() and not comment.startswith("  "):
            paragraph.append(comment)
            continue
        for sentence in sentences(plain(" ".join(paragraph))):
            yield sentence, sentence.endswith("?")
        paragraph = []
        _, _, trailing = line.partition(f" {mark} ") if match is None else ("", "", "")
        for sentence in sentences(plain(trailing)):
            yield sentence, False


def found_in(sentence, exempt):
    """Habits that a sentence has."""
    if words(sentence) > LONGEST_SENTENCE:
        yield "long"
    opening = None if exempt else OPENING.match(sentence.lstrip("\"'([{"))
    if opening:
        yield opening.lastgroup.replace("_", "-")
    if ANY_PHRASE.search(sentence):
        for name, pattern in PHRASE.items():
            if pattern.search(sentence):
                yield name


def texts():
    """(path, its sentences) of all files, in order."""
    for path in sorted(ROOT.glob("*.md")):
        yield path, of_page(path.read_text())
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.md")):
            if "node_modules" not in path.parts:
                yield path, of_page(path.read_text())
    path = ROOT / "src" / "cli" / "help.txt"
    yield path, of_page(path.read_text())
    for path in sorted((ROOT / "src").rglob("*.cc")):
        if not path.stem.endswith("_test"):
            yield path, of_source(path.read_text())
    for path in sorted((ROOT / "src").rglob("*.h")):
        yield path, of_comments(path.read_text(), "//")
    for folder in DATA_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            yield path, of_comments(path.read_text(), "#")


def read_exceptions():
    allowed = collections.Counter()
    if EXCEPTIONS.exists():
        for line in EXCEPTIONS.read_text().splitlines():
            file, habit, count = line.split()
            allowed[file, habit] = int(count)
    return allowed


def write_exceptions(counts):
    lines = [f"{file} {habit} {count}\n" for (file, habit), count in sorted(counts.items()) if count > 0]
    EXCEPTIONS.write_text("".join(lines))


def main(arguments):
    found = collections.defaultdict(list)
    for path, content in texts():
        file = path.relative_to(ROOT).as_posix()
        for sentence, exempt in content:
            for habit in found_in(sentence, exempt):
                found[file, habit].append(sentence)
    if arguments[:1] == ["--list"]:
        for (file, habit), examples in sorted(found.items()):
            if not arguments[1:] or any(name in file for name in arguments[1:]):
                print("\n".join(f"{file}: {habit}: {example}" for example in examples))
        return 0
    allowed = read_exceptions()
    now = collections.Counter({key: len(examples) for key, examples in found.items()})
    if "--update" in arguments:
        # Only --accept lets a count grow.
        kept = now if "--accept" in arguments else collections.Counter(
            {key: min(count, now[key]) for key, count in allowed.items()})
        write_exceptions(kept)
        allowed = kept
    mistakes = []
    for file, habit in sorted(now.keys() | allowed.keys()):
        more = now[file, habit] - allowed[file, habit]
        if more > 0:
            mistakes.append(f"{file}: {habit}: {now[file, habit]} findings, {allowed[file, habit]} allowed. "
                            "Rewrite one of these sentences:")
            mistakes += [f"    {example}" for example in found[file, habit]]
        elif more < 0:
            mistakes.append(f"{file}: {habit}: {now[file, habit]} findings, {allowed[file, habit]} allowed. "
                            "Run tests/documentation/wording_test.py --update")
    print("\n".join(mistakes) or f"{sum(now.values())} findings, all of them exceptions")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
