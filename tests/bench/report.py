"""Sections of the benchmarks as text for a terminal and as Markdown with plots.

A section is a dictionary:
id        a word; names its place in docs/benchmarks.md and the files of its plots
title     of its table
intro     what is measured and how, in Markdown
columns   the names of the columns
rows      lists of texts
verdicts  [(bar, measured, met)]; met: None where it cannot be told here
plots     [{"kind": "line" | "bar", "title", "x_label", "y_label", "log_x", "log_y", "series": {name: [(x, y)]}}]
"""

import argparse
import pathlib

WORDS = {True: "met", False: "MISSED", None: "cannot be told here"}


def is_number(text):
    return text[:1].isdigit() or text[:1] in "-<"


def as_text(section):
    """For a terminal."""
    lines = [section["title"], ""]
    table = [section["columns"], *section["rows"]]
    widths = [max(len(row[i]) for row in table) for i in range(len(section["columns"]))]
    for row in table:
        cells = [cell.rjust(width) if i and is_number(cell) else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    lines += ["", *(f"  {WORDS[met]}: {bar}: {measured}" for bar, measured, met in section["verdicts"]), ""]
    return "\n".join(lines)


def as_markdown(section, plots):
    """Its part of docs/benchmarks.md; plots: [(title, file name)]."""
    def line(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    right = [section["rows"] and all(is_number(row[i]) or not row[i] for row in section["rows"])
             for i in range(len(section["columns"]))]
    lines = [section["intro"], "", line(section["columns"]), "|" + "|".join("---:" if r else "---" for r in right) + "|",
             *(line(row) for row in section["rows"])]
    if section["verdicts"]:
        lines += ["", "| bar | measured | |", "|---|---:|---|",
                  *(line([bar, measured, WORDS[met]]) for bar, measured, met in section["verdicts"])]
    for title, name in plots:
        lines += ["", f"![{title}]({name})"]
    return "\n".join(lines)


def main(*parts):
    """The main program of a module: `MODULE BUILD [--quick]` prints the sections that its functions make."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, nothing that takes long")
    arguments = parser.parse_args()
    for part in parts:
        for section in part(arguments.build.resolve(), arguments.quick):
            print(as_text(section))
