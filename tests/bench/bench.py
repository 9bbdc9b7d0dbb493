"""bench.py BUILD [--quick] [MODULE...]: all benchmarks; scripts/bench calls it.

Prints every section (report.py says what that is). A whole run, one that is neither quick nor of some modules alone, also
writes them into docs/performance.md, so that all figures there are of one run: each between the lines <!-- bench:ID --> and
<!-- /bench -->, its plots as docs/performance-ID.svg. All else there is written by hand and stays. Ends with the bars that
were missed, and with exit status 1 if there are any, or if a module failed.
"""

import argparse
import datetime
import importlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = ROOT / "docs/performance.md"


def modules():
    """Those that there are, in the document's order."""
    names = ["micro", "threads", "scale", "waits", "policies", *sorted(path.stem for path in HERE.glob("gpu*.py"))]
    return [name for name in names if (HERE / f"{name}.py").exists()]


def processor():
    """The model of this machine's processor, as its kernel names it."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.*)$", cpuinfo, re.M)
    return found.group(1) if found else platform.machine()


def commit():
    """The commit that is measured; "+" behind it: with changes."""
    if not shutil.which("git"):
        return "unknown"

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    head, status = git("rev-parse", "--short=7", "HEAD"), git("status", "--porcelain", "--untracked-files=no", "--", "src")
    return head.stdout.strip() + ("+" if status.stdout.strip() else "") if head.returncode == 0 else "unknown"


def machine():
    """A section without a table: where and when."""
    count = len(os.sched_getaffinity(0))
    return f"Machine: {processor()}, {count} processor{'s' if count > 1 else ''}. Date: {datetime.date.today()}. Commit: {commit()}."


def collect(names, build, quick):
    """All sections, printed as they come; and the names of modules that failed."""
    found, failed = [], []
    for name in names:
        start = time.monotonic()
        try:
            module = importlib.import_module(name)
            sections = module.sections(build, quick)
        except Exception:  # the others are measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        for section in sections:
            print(report.as_text(section), flush=True)
        print(f"({name}: {time.monotonic() - start:.0f} s)\n", flush=True)
        found += sections
    return found, failed


def replaced(text, name, body):
    """The document with that part's text; a part that it has no place for is added at its end."""
    part = f"<!-- bench:{name} -->\n{body}\n<!-- /bench -->"
    place = re.compile(rf"<!-- bench:{re.escape(name)} -->\n.*?<!-- /bench -->", re.S)
    if place.search(text):
        return place.sub(lambda _: part, text, count=1)
    return f"{text.rstrip()}\n\n{part}\n"


def write(sections, plots):
    """Into the document and its plots."""
    text = DOCUMENT.read_text()
    text = replaced(text, "machine", machine())
    for section in sections:
        drawn = plots.draw(section, DOCUMENT.parent)
        if f"<!-- bench:{section['id']} -->" not in text:
            text = f"{text.rstrip()}\n\n## {section['title']}\n"
        text = replaced(text, section["id"], report.as_markdown(section, drawn))
    DOCUMENT.write_text(text)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", usage="scripts/bench [--quick] [MODULE...]")
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"only these, printed only: {', '.join(modules())}")
    parser.add_argument("--quick", action="store_true", help="in under a minute, printed only")
    arguments = parser.parse_intermixed_args()
    for name in arguments.modules:
        if name not in modules():
            parser.exit(2, f"scripts/bench: {name}: no such module, expected {', '.join(modules())}\n")
    everything = not arguments.quick and not arguments.modules
    if everything:  # matplotlib is needed for that alone: better to miss it now than after all that is measured
        plots = importlib.import_module("plots")
    print(machine(), end="\n\n")
    sections, failed = collect(arguments.modules or modules(), arguments.build.resolve(), arguments.quick)
    if everything:
        write(sections, plots)
    missed = [(section, verdict) for section in sections for verdict in section["verdicts"] if verdict[2] is False]
    for section, (bar, measured, _) in missed:
        print(f"MISSED: {section['title']}: {bar}: {measured}")
    for name in failed:
        print(f"FAILED: tests/bench/{name}.py, as told above")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
