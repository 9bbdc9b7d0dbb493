"""The commands that documents show, and how to run them.

A block of commands is fenced by ```console; lines that begin with "$ " are commands, the others what they print. A
comment on the line before says what is special:
    <!-- not run: REASON -->    it cannot be run here
    <!-- exits: CODE -->        the block's last command ends with CODE instead of 0
A command goes on in the next line after a backslash. "..." stands for any lines of output. Of what is shown each line
must be printed, in this order; words with digits in them, units and the folders of paths may differ. This machine's
name is shown as "host".

In the man pages' templates every line of a block is a command; scdoc's comment "; not run: REASON" may stand before it.
"""

import dataclasses
import pathlib
import platform
import re
import shlex
import subprocess

import guard

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAN_PAGES = sorted(f"man/{path.name}" for path in (ROOT / "man").glob("*.scd.in"))
DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
             *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "subprojects/simcuda").rglob("*.md"))]
LANGUAGES = {"console", "text", "c", "cpp", "cuda", "python", "json", "csv", "meson", "makefile", "cmake", "diff",
             "markdown", "toml", "yaml", "ini", "dockerfile"}


class DocumentError(Exception):
    """A document that does not keep to the rules, or whose commands do something else than it shows."""


@dataclasses.dataclass
class Block:
    place: str  # FILE:LINE
    commands: list  # of [command, [line of output]]
    reason: str = ""  # why it is not run; "" if it is
    code: int = 0


def parse_commands(place, lines):
    commands = []
    going_on = False
    for line in lines:
        if going_on:
            commands[-1][0] += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            commands.append([line[2:], []])
        elif commands:
            commands[-1][1].append(line)
        else:
            raise DocumentError(f"{place}: a block of commands begins with output: {line}")
        going_on = not commands[-1][1] and commands[-1][0].endswith("\\")
    return commands


def parse_man_page(name, text):
    """The examples of a man page's template."""
    blocks, lines = [], text.splitlines()
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    for opened, closed in zip(fences[::2], fences[1::2], strict=True):
        reason = re.fullmatch(r"; not run: (\S.*)", lines[opened - 1])
        blocks.append(Block(f"{name}:{opened + 1}", [[line, []] for line in lines[opened + 1:closed] if line],
                            reason.group(1) if reason else ""))
    return blocks


def parse(name, text):
    """The blocks of commands of a document or man page."""
    if name.endswith(".scd.in"):
        return parse_man_page(name, text)
    lines = text.splitlines()
    blocks, opened, in_list = [], None, False
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            # Markdown's other form of a block, which nobody would run; under a list the same is mere text.
            if opened is None and line.startswith("    ") and number and not lines[number - 1].strip() and not in_list:
                raise DocumentError(f"{name}:{number + 1}: an indented block, expected a fenced one")
            in_list = re.match(r"\s*([-*+]|\d+\.)\s", line) is not None or in_list and (
                not line.strip() or line.startswith(" "))
            continue
        if opened is None:
            opened = number
            continue
        place, language = f"{name}:{opened + 1}", lines[opened][3:].strip()
        body = lines[opened + 1:number]
        comment = lines[opened - 1] if opened else ""
        opened = None
        if language not in LANGUAGES:
            raise DocumentError(f"{place}: a block in '{language}'; expected console, for commands with $ before them, "
                                f"or one of {', '.join(sorted(LANGUAGES - {'console'}))}")
        if language != "console":
            continue
        block = Block(place, parse_commands(place, body))
        if not block.commands:
            raise DocumentError(f"{place}: a block of commands without any; expected lines that begin with $")
        if comment.startswith("<!--"):
            found = re.fullmatch(r"<!-- (?:not run: (\S.*)|exits: (\d+)) -->", comment)
            if not found and not comment.startswith("<!-- /"):
                raise DocumentError(f"{place}: {comment}: expected <!-- not run: REASON --> or <!-- exits: CODE -->")
            if found:
                block.reason, block.code = found.group(1) or "", int(found.group(2) or 0)
        blocks.append(block)
    if opened is not None:
        raise DocumentError(f"{name}:{opened + 1}: a block that does not end")
    return blocks


def loosely(line):
    """What is compared of a line: words with digits in them, units, folders and the width of blanks do not count."""
    line = re.sub(rf"\b{re.escape(platform.node())}\b", "host", line)
    words = [re.sub(r"\S*\d\S*", "#", re.sub(r"\S*/(?=\w)", "", word)) for word in line.split()]
    return " ".join(word for word in words if not re.fullmatch(r"[#,;()]+|(?:[KMGT]?i?B|[num]?s)[,;]?", word))


def compare(place, command, shown, printed):
    """The lines that are shown are among those printed, in this order."""
    rest = [loosely(line) for line in printed.splitlines()]
    for line in shown:
        wanted = loosely(line)
        if line.strip() == "..." or not wanted:
            continue
        if wanted not in rest:
            raise DocumentError(f"{place}: {command}\nshows a line that was not printed, or earlier:\n{line}\n"
                                f"what was printed:\n{printed}")
        rest = rest[rest.index(wanted) + 1:]


def run(block, folder, environment):
    """Runs the block's commands in one shell, in the folder; raises DocumentError at the first that does otherwise
    than the document says."""
    parts = [f"{{ {command}\n}} >{shlex.quote(str(folder))}/.printed.{i} 2>&1\n"
             f"echo $? >>{shlex.quote(str(folder))}/.codes\n" for i, (command, _) in enumerate(block.commands)]
    codes_file = folder / ".codes"
    codes_file.write_text("")
    guard.run(["bash", "-c", "\n".join(parts)], cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False,
              capture_output=True)
    codes = [int(code) for code in codes_file.read_text().split()]
    for i, (command, shown) in enumerate(block.commands):
        printed_file = folder / f".printed.{i}"
        printed = printed_file.read_text(errors="replace") if printed_file.exists() else ""
        expected = block.code if i == len(block.commands) - 1 else 0
        if i >= len(codes) or codes[i] != expected:
            code = codes[i] if i < len(codes) else "nothing"
            raise DocumentError(f"{block.place}: {command}\nended with {code}, expected {expected}:\n{printed}")
        compare(block.place, command, shown, printed)
        printed_file.unlink(missing_ok=True)
