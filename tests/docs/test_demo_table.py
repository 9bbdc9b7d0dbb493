"""The table in the README is what scripts/demo prints on the simulated GPU, and it hides no row and no spread."""

import importlib.util
import re

import pytest
from blocks import ROOT
from most_runs import does_as_shown

SPEC = importlib.util.spec_from_file_location("demo", ROOT / "scripts/demo.py")
demo = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(demo)

PROGRAMS = demo.programs_in(demo.BUILD / "samples")
# Which blocks meet in the pool depends on how its threads are scheduled: of these only the results are compared.
SCHEDULED = {"threads", "threads-static"}


@pytest.fixture(name="compiled", scope="module", autouse=True)
def programs_of_nvcc():
    demo.compile_cuda(demo.BUILD / "samples", None)


def shown():
    """The README's rows: {program: [cell]}."""
    block = re.search(r"^```text\n(GPU: .*?)^```", (ROOT / "README.md").read_text(), re.M | re.S).group(1)
    rows = [re.split(r" {2,}| (?=\d+\.\d+x )", line.strip()) for line in block.splitlines()]
    return {row[0]: row for row in rows if len(row) == len(demo.HEADING) and row[0] != "program"}


def test_the_readme_shows_every_program_of_the_demo_each_with_its_spread():
    assert list(shown()) == [name for name, _ in PROGRAMS]
    for row in shown().values():
        assert re.fullmatch(r"\d+\.\d\dx \(\d+\.\d\d to \d+\.\d\d\)", row[demo.HEADING.index("faster")]), row


def test_the_line_above_the_table_says_of_how_many_runs_it_is():
    assert re.search(r"^```text\nGPU: .*\n(.*)\n", (ROOT / "README.md").read_text(), re.M).group(1) == demo.times_are(9)
    assert demo.times_are(1) == "times of one run of each program"


@pytest.mark.parametrize("name, command", PROGRAMS, ids=[name.replace(" ", "-") for name, _ in PROGRAMS])
def test_the_readme_shows_the_calls_the_memory_and_the_hits_that_the_demo_counts(name, command, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "REPORTS", tmp_path)
    columns = ["results"] if name in SCHEDULED else ["alloc+free calls", "peak held", "hits", "results"]
    expected = dict(zip(demo.HEADING, shown()[name], strict=True))

    def counted():
        row = demo.Row(name, command, 1, True)
        assert row.good, row.failure() if not row.ran else row.cells()
        cells = dict(zip(demo.HEADING, row.cells(), strict=True))
        return {column: cells[column] for column in columns}

    good, seen = does_as_shown(counted, lambda cells: cells == {column: expected[column] for column in columns})
    assert good, seen
