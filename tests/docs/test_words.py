"""Comments, messages and documents say things in plain words. The glossary at the top of src/pool/pool.h has one meaning for a
word; here is what a reader stumbled over, with the reason. A phrase is found across the ends of lines, too."""

import pathlib
import re

import pytest
from blocks import ROOT

# What is not to be said, and why.
PHRASES = {
    r"\b(?:is|are|was|were|be|been|being) told\b(?! (?:apart|from|here)\b)": "a thing is reported, printed or known",
    r"\bso (?:it|they) (?:do|does|did)\b": "say again what is done: the reader has not seen the sentence before",
    r"; so (?:is|are|does|do|has|have)\b": "give both subjects one verb",
    r"\b(?:for|in) want of\b": "say what is lacking: because there is no memory",
    r"\bas for\b(?! you\b)": "say the subject first, or: as it is with ...",
    r"\blikewise\b": "say it again: the reader does not know of what it is the like",
    r"\bas wanted\b": "say what is wanted, and by whom",
    r"\bas ever\b": "say how: as without the pool",
    r"\b(?:the|its|his|whose|our|own) books\b": "the ledger (pool.h)",
    r"\bthunks?\b": "a stub",
    r"\bsettle[sd]?\b|\bsettling\b|\bsettlements?\b": "merged, published or paid: one of three",
}
# How no sentence is to begin: without its subject, or by leaning on the sentence before, which may be gone tomorrow.
BEGINNINGS = {
    r"(?:The same (?:of|for|with|if|where\w*)|Those (?:of|that|which)|That of|As for|Likewise)\b": "name what is meant",
    r"(?:Nor|And|So (?:does|do|is|are|has|have))\b": "a sentence of its own has a subject of its own",
}
# Only where a comment begins: in a sentence behind it, it may be plain from what.
FIRST = {r"Of\b": "begin with what it is, then of what"}

ROOMS = [*sorted(path for path in (ROOT / "src").iterdir() if path.is_dir()), ROOT / "include", ROOT / "docs", ROOT / "man",
         ROOT / "subprojects/simcuda"]
BESIDE = [ROOT / "README.md", *sorted((ROOT / "src").glob("*.[ch]")), *sorted((ROOT / "src").glob("*.def"))]

SAID = re.compile(r"""'(?:\\.|[^'\\\n])'|(?P<text>"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*)|/\*(?P<comment>.*?)\*/""", re.S)


def of_code(text):
    """What a C file says to people: (whether it is a comment on lines of its own, text), each in one line."""
    for match in SAID.finditer(text):
        comment, literal = match.group("comment"), match.group("text")
        if comment:
            own = not text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
            yield own, " ".join(re.sub(r"^\s*\*", "", line).strip() for line in comment.splitlines()).strip()
        elif literal:
            yield False, " ".join(re.sub(r'"\s*"', "", literal)[1:-1].replace("\\n", " ").split())


def of_prose(text):
    """The paragraphs of a document, and the cells of its tables."""
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.)\s)| \| ", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        yield False, re.sub(r"^(?:[-*|#]+|\d+\.) ", "", " ".join(part.split()))


def faults(name, text):
    """Each phrase found in the file of that name, with what to say instead."""
    code = pathlib.Path(name).suffix in (".c", ".h", ".def", ".S")
    for own, said in of_code(text) if code else of_prose(text):
        rules = [(rule, re.I, reason) for rule, reason in PHRASES.items()]
        rules += [(r"(?:^|(?<=[.:;] ))" + rule, 0, reason) for rule, reason in BEGINNINGS.items()]
        rules += [("^" + rule, 0, reason) for rule, reason in FIRST.items() if own]
        for rule, flags, reason in rules:
            for match in re.finditer(rule, said, flags):
                yield f'{name}: "{said[max(0, match.start() - 30):match.end() + 40]}": {reason}'


def faults_in(room):
    files = sorted(path for path in room.rglob("*") if path.suffix in (".c", ".h", ".def", ".S", ".md", ".in"))
    return [fault for path in files for fault in faults(str(path.relative_to(ROOT)), path.read_text())]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_comments_messages_and_documents_are_in_plain_words(room):
    found = faults_in(room)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", BESIDE, ids=lambda path: path.name)
def test_a_file_outside_of_the_rooms_is_in_plain_words(path):
    assert not list(faults(path.name, path.read_text()))


@pytest.mark.parametrize("name, text, count", [
    ("a.c", "/* The user is\n * told so. */", 1), ("a.c", "/* It fails. The same of\n * others. */", 1),
    ("a.c", "/* Of one block. */\n", 1), ("a.c", "int size; /* Of one block. */", 0),
    ("a.c", 'say("the books are "\n    "settled");', 2), ("a.c", "bool settled(void); /* whether it is */", 0),
    ("a.c", "/* They can be told apart. */", 0), ("a.md", "It waits\nas ever.", 1), ("a.md", "```\nas ever\n```", 0),
    ("a.md", "- It waits.\n- Nor does it sleep.", 1), ("a.md", "A waits; so does b. So do c. So it ends.", 2),
    ("a.md", "| a | And b |", 1), ("a.md", "It neither waits nor sleeps.", 0)])
def test_a_phrase_is_found_where_people_read_it(name, text, count):
    assert len(list(faults(name, text))) == count
