"""Tells which commands of the documents are not run; finds the benchmarks, which measure the documents' figures."""

import sys

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

# pylint: disable=wrong-import-position,unused-import
from guard import guarded  # noqa: E402,F401
from blocks import DOCUMENTS, MAN_PAGES, ROOT, DocumentError, parse  # noqa: E402

sys.path.append(str(ROOT / "tests/bench"))


def pytest_terminal_summary(terminalreporter):
    try:
        blocks = [block for name in DOCUMENTS + MAN_PAGES for block in parse(name, (ROOT / name).read_text())]
    except DocumentError:
        return  # a test tells it
    left_out = [block for block in blocks if block.reason]
    terminalreporter.write_line(f"{len(blocks) - len(left_out)} blocks of commands in documents and man pages run, "
                                f"{len(left_out)} not:")
    for block in left_out:
        terminalreporter.write_line(f"    {block.place}: {block.reason}")
