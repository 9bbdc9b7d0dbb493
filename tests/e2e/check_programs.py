"""The programs of tests/programs/check, and how their expected reports are compared with what is printed."""

import functools
import re
import subprocess

from conftest import PROGRAMS, ROOT

SOURCES = ROOT / "tests/programs/check"
REPORTED = re.compile(r"^=========         Host Frame: \[0x([0-9a-f]+)\] in (\S+)\n", re.M)


class Program:
    """One source: its executables, what it is to be run with, and what is to be reported of it."""

    def __init__(self, name, form=""):
        self.source = SOURCES / f"{name}.c"
        self.faulty = PROGRAMS / "check" / f"{name}{form}"
        self.correct = PROGRAMS / "check" / f"{name}{form}-correct"
        comment = self.source.read_text().partition("*/")[0]
        settings = re.search(r"Run with: (.*)", comment)
        self.settings = dict(pair.split("=") for pair in (settings.group(1).split() if settings else ()))
        self.natively_the_same = "Natively: the same" in comment

    def __str__(self):
        return self.faulty.name

    def expected(self, out):
        """The report, with the addresses that a run has printed on its standard output."""
        addresses = {name: int(value, 16) for name, value in re.findall(r"^(\w+) 0x([0-9a-f]+)$", out, re.M)}

        def address(found):
            name, offset = re.fullmatch(r"(\w+?)([+-]\d+)?", found.group(1)).groups()
            return f"0x{addresses[name] + int(offset or 0):x}"

        text = self.source.with_suffix(".expected").read_text()
        return re.sub(r"(?<!\[)\{([A-Z]\w*(?:[+-]\d+)?)\}", address, text)

    def reported(self, err):
        """What was printed, with offsets in the executable that are those of marked lines replaced by their marks.

        What calls main or a thread's function is left out: it is another on each system."""
        marks = sites(self.faulty, tuple(offset for offset, module in REPORTED.findall(err)
                                         if module == self.faulty.name))

        def frame(found):
            offset, module = found.groups()
            mark = marks.get(offset) if module == self.faulty.name else None
            if mark == "_start" or module == "libc.so.6":
                return ""
            return found.group().replace(f"[0x{offset}] in {module}", f"[{{{mark}}}] in {{program}}" if mark else
                                         f"[0x{offset}] in {module}")

        return REPORTED.sub(frame, err)


def sites(executable, offsets):
    """{return address: the mark of the call's line}; without a mark it is "_start", or there is none."""
    if not offsets:
        return {}
    lines = subprocess.run(["addr2line", "-f", "-e", executable, *(hex(int(offset, 16) - 1) for offset in offsets)],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return {offset: "_start" if function == "_start" else mark_of(line.split(" (")[0])
            for offset, function, line in zip(offsets, lines[::2], lines[1::2])}


@functools.lru_cache(None)
def mark_of(place):
    path, _, line = place.rpartition(":")
    source = SOURCES / path.rpartition("/")[2]
    if not source.exists() or not line.isdigit():
        return None
    found = re.search(r"/\* site: (.*) \*/", source.read_text().splitlines()[int(line) - 1])
    return found and found.group(1)


def without_addresses(out):
    return re.sub(r"^(\w+) 0x[0-9a-f]+$", r"\1", out, flags=re.M)


NAMES = sorted(path.stem for path in SOURCES.glob("*.c"))
CASES = [Program(name, form) for name in NAMES
         for form in (["", "-static"] if name.startswith("runtime_") else [""])]
