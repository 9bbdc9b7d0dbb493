#!/usr/bin/env python3
"""The programs of the zoo: one table, of which programs/ has a file for each kind.

Run as a program it prints what scripts/test needs of it: table.py --packages [--all], the Debian packages of the
programs; table.py --write, the table of docs/zoo.md.

The columns of a program, all text unless it is said otherwise:
  job        what it does, as a shell script; only this runs under the pool
  setup      what is made ready for the job before it, natively, in the same folder
  package    the Debian packages that have it, if others than what every Debian has
  pip        the Python module that it imports, which pip installs by the same name; absent: it is skipped
  needs      the commands, or files, without which it is skipped; if absent, the program's name
  always     (true or false) whether it runs in every scripts/test, or with --all alone
  tracer     (true or false) it traces other processes by itself, so that ours cannot: the ends of its processes are
             not seen, and its job starts $LOOK instead
  volatile   (list) regular expressions: what of a line, or of a file's name, no two runs need have in common
  unlike     (list) files whose contents no two runs need have in common, as the shell's patterns
  preload    a library that the program has preloaded by itself, before ours; with preload_behind, behind it
  counted    a command whose added instructions are counted and bounded, itself without a shell around it
  differs    why it does not run alike; such a program must differ, or the row is wrong
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/zoo.md"
MARKS = ("<!-- the table of tests/zoo/programs, made by tests/zoo/table.py --write -->\n", "<!-- end of the table -->\n")
DEFAULTS = {"job": "", "setup": "", "package": "", "pip": "", "needs": None, "always": False, "tracer": False, "volatile": (),
            "unlike": (), "preload": "", "preload_behind": "", "counted": "", "differs": ""}
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin:/usr/lib/go/bin:/usr/games"


class Program:
    """A row of the table."""

    def __init__(self, kind, name, columns):
        unknown = set(columns) - set(DEFAULTS)
        if unknown or not columns.get("job"):
            raise ValueError(f"{kind}, {name}: unknown columns {sorted(unknown)}, or no job")
        self.kind, self.name = kind, name
        for column, default in DEFAULTS.items():
            setattr(self, column, columns.get(column, default))
        self.needs = (name if self.needs is None else self.needs).split()

    def __str__(self):
        return f"{self.kind}-{self.name}"

    def missing(self):
        """Those of its needs that this machine does not have."""
        missing = [each for each in self.needs
                   if not (any(pathlib.Path("/").glob(each[1:])) if each[0] == "/" else shutil.which(each, path=PATH))]
        return missing or ([f"Python's module {self.pip}"] if self.pip and not has_module(self.pip) else [])

    def installed_by(self):
        """The command that installs what is missing; "": nothing that we know of."""
        return (f"/usr/bin/python3 -m pip install --break-system-packages {self.pip}" if self.pip else
                f"apt-get install {self.package}" if self.package else "")


def has_module(name):
    """Whether the Python that the jobs run finds it. Nothing is imported, which would take seconds."""
    look = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({name!r}))"
    return subprocess.run(["/usr/bin/python3", "-c", look], check=False).returncode == 0


def programs():
    """All rows, by kind and name."""
    found = []
    for file in sorted((HERE / "programs").glob("*.toml")):
        for name, columns in tomllib.loads(file.read_text()).items():
            found.append(Program(file.stem, name, columns))
    return found


def packages(everything):
    """What Debian calls the programs."""
    return sorted({name for program in programs() if everything or program.always for name in program.package.split()})


def page_table():
    """The rows as docs/zoo.md has them: a line for each kind, the programs of every run first."""
    lines = ["| kind | in every `scripts/test` | with `--all` as well |", "|---|---|---|"]
    rows = programs()
    total = [0, 0]
    for kind in sorted({program.kind for program in rows}):
        names = [[program.name + ("*" if program.differs else "") for program in rows
                  if program.kind == kind and program.always == always] for always in (True, False)]
        total = [total[0] + len(names[0]), total[1] + len(names[1])]
        lines.append(f"| {kind.replace('_', ' ')} | {', '.join(names[0])} | {', '.join(names[1])} |")
    lines.append(f"| {total[0] + total[1]} programs | {total[0]} | {total[1]} |")
    different = [f"\\* {program.name}: {program.differs}" for program in rows if program.differs]
    return "\n".join(lines) + "\n" + "".join(f"\n{each}\n" for each in different)


def page_with_table(page):
    """The page, its table renewed."""
    begin, end = (re.escape(mark) for mark in MARKS)
    return re.sub(f"(?<={begin}).*(?={end})", lambda _: f"\n{page_table()}\n", page, flags=re.S)


def main():
    """As the head of this file says."""
    parser = argparse.ArgumentParser(description="The programs of the zoo.")
    parser.add_argument("--packages", action="store_true", help="print the Debian packages of the programs")
    parser.add_argument("--all", action="store_true", help="of all programs, not only of those that always run")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/zoo.md")
    arguments = parser.parse_args()
    if arguments.packages:
        print(*packages(arguments.all))
    elif arguments.write:
        PAGE.write_text(page_with_table(PAGE.read_text()))
    else:
        parser.print_help(sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
