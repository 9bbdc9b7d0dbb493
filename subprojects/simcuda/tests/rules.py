"""The simulated GPU's rules of order: each one that its code names is in the list of docs/simulation.md,
and the other way round, with the place and the source that the code gives."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = r"(?:order|wait|capture):[a-z-]+"
SOURCE = re.compile(r"(?:\*\*assumed\*\*|(?:unlike )?cuda\.h \d+(?:, \d+)*|[\w.-]+#\d+|API synchronization behavior)")


def named_in_code():
    """{rule: [files that name it]}"""
    found = {}
    for path in sorted((ROOT / "driver").glob("*.[ch]")):
        for rule in re.findall(rf"\[({NAME})\]", path.read_text(encoding="utf-8")):
            found.setdefault(rule, []).append(path.name)
    return found


def listed():
    """[(rule, file, source)] of the table's rows."""
    text = (ROOT / "docs/simulation.md").read_text(encoding="utf-8")
    return re.findall(rf"^\| `({NAME})` \|[^|]+\| ([\w.]+) \| ([^|]+) \|$", text, re.M)


def main():
    code, rows = named_in_code(), listed()
    rules = [rule for rule, _, _ in rows]
    problems = [f"{rule}: named in {files[0]}, not listed" for rule, files in code.items() if rule not in rules]
    problems += [f"{rule}: listed twice" for rule in set(rules) if rules.count(rule) > 1]
    for rule, file, source in rows:
        if file not in code.get(rule, []):
            problems.append(f"{rule}: {file} does not name it")
        if SOURCE.sub("", source).strip(", "):
            problems.append(f"{rule}: {source} is no source")
    print("\n".join(problems) or f"{len(rows)} rules")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
