"""bench.py BUILD [--quick | --counted] [MODULE...]: all benchmarks; scripts/bench calls it.

A module of tests/bench has counted_sections (instructions, bytes, calls: the same on an idle and on a busy machine),
timed_sections, or both; and printed_sections, which are too long for a document: made where the module is named. Prints every section (report.py says what that is). A run of all modules, unless it is quick, also
writes docs/benchmarks.md: each section between the lines <!-- bench:ID COMMIT WHEN --> and <!-- /bench -->, its plots as
docs/benchmarks-ID.svg. All else there is written by hand and stays. With --counted that is what is counted, and the times
stay as they are. So all that was timed there is of one run, and all that was counted; if a module failed nothing is written.
Ends with the bars that were missed, and with exit status 1 if there are any, or if a module failed.
"""

import argparse
import datetime
import importlib
import itertools
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback

import counting
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = ROOT / "docs/benchmarks.md"
KINDS = ("counted", "timed")


def modules():
    """Those that there are, in the document's order."""
    names = ["micro", "threads", "scale", "waits", "policies", "checking", *sorted(path.stem for path in HERE.glob("gpu*.py"))]
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

    head, status = git("rev-parse", "--short=7", "HEAD"), git("status", "--porcelain", "--untracked-files=no", "--", "src", "subprojects")
    return head.stdout.strip() + ("+" if status.stdout.strip() else "") if head.returncode == 0 else "unknown"


def compiler(build):
    """What built the pool, by its own account: "GCC: (Debian 12.2.0-14) 12.2.0"."""
    said = subprocess.run(["readelf", "--string-dump=.comment", counting.pool_library(build)], capture_output=True, text=True,
                          check=False).stdout
    found = re.search(r"]\s+(\S.*)", said)
    return found.group(1) if found else "an unknown compiler"


def machine(kinds, build):
    """{section without a table: where and when it was measured}, one for each kind."""
    count = len(os.sched_getaffinity(0))
    where = {"counted": f"Counted on {platform.machine()}, built by {compiler(build)}.",
             "timed": f"Machine: {processor()}, {count} processor{'s' if count > 1 else ''}."}
    return {kind: f"{where[kind]} Date: {datetime.date.today()}. Commit: {commit()}." for kind in kinds}


def collect(names, build, quick, kinds=KINDS):
    """All sections, printed as they come; and the names of modules that failed. All that is counted comes first, so that a
    machine that is to be idle for the times need not be so all along."""
    found, failed = [], []
    for kind, name in itertools.product(kinds, names):
        start = time.monotonic()
        try:
            part = getattr(importlib.import_module(name), f"{kind}_sections", None)
            if not part:
                continue
            sections = part(build, quick)
        except Exception:  # the others are measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        for section in sections:
            print(report.as_text(section), flush=True)
        print(f"({name}, {kind}: {time.monotonic() - start:.0f} s)\n", flush=True)
        found += sections
    return found, list(dict.fromkeys(failed))


MARKED = r"<!-- bench:{} .*?-->\n.*?<!-- /bench -->"


def replaced(text, name, stamp, body):
    """The document with that part's text; a part that it has no place for is added at its end."""
    part = f"<!-- bench:{name} {stamp} -->\n{body}\n<!-- /bench -->"
    place = re.compile(MARKED.format(re.escape(name)), re.S)
    if place.search(text):
        return place.sub(lambda _: part, text, count=1)
    return f"{text.rstrip()}\n\n{part}\n"


def stamps(text):
    """{part: (commit, when)} of a document."""
    return {name: (of, when) for name, of, when in re.findall(r"<!-- bench:(\S+) (\S+) (\S+) -->", text)}


def without_others(text, made):
    """The document without parts that a whole run has not made: they would be of another one."""
    for name in set(stamps(text)) - set(made):
        text = re.sub(r"\n?" + MARKED.format(re.escape(name)) + "\n", "", text, flags=re.S)
    return text


def write(sections, places, stamp, plots):
    """Into the document and its plots; places: where each kind was measured, stamp: of which commit and when."""
    text = DOCUMENT.read_text()
    for kind, place in places.items():
        text = replaced(text, kind, stamp, place)
    for section in sections:
        drawn = plots.draw(section, DOCUMENT.parent)
        if section["id"] not in stamps(text):
            text = f"{text.rstrip()}\n\n## {section['title']}\n"
        text = replaced(text, section["id"], stamp, report.as_markdown(section, drawn))
    if tuple(places) == KINDS:
        text = without_others(text, [*places, *(section["id"] for section in sections)])
    DOCUMENT.write_text(text)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", usage="scripts/bench [--quick | --counted] [MODULE...]")
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"only these, printed only: {', '.join(modules())}")
    parser.add_argument("--quick", action="store_true", help="in under a minute, printed only")
    parser.add_argument("--counted", action="store_true", help="only what is counted, and is the same on a busy machine")
    arguments = parser.parse_intermixed_args()
    for name in arguments.modules:
        if name not in modules():
            parser.exit(2, f"scripts/bench: {name}: no such module, expected {', '.join(modules())}\n")
    build, kinds = arguments.build.resolve(), KINDS[:1] if arguments.counted else KINDS
    everything = not arguments.quick and not arguments.modules
    if everything:  # matplotlib is needed for that alone: better to miss it now than after all that is measured
        plots = importlib.import_module("plots")
    places, stamp = machine(kinds, build), f"{commit()} {datetime.datetime.now():%Y-%m-%dT%H:%M}"
    print("\n".join(places.values()), end="\n\n")
    kinds = (*kinds, "printed") if arguments.modules else kinds
    sections, failed = collect(arguments.modules or modules(), build, arguments.quick, kinds)
    if everything and not failed:
        write(sections, places, stamp, plots)
    missed = [(section, verdict) for section in sections for verdict in section["verdicts"] if verdict[2] is False]
    for section, (bar, measured, _) in missed:
        print(f"MISSED: {section['title']}: {bar}: {measured}")
    for name in failed:
        print(f"FAILED: tests/bench/{name}.py, as told above{': nothing was written' if everything else ''}")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
