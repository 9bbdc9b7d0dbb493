"""docs/clients.md tells what the table of clients and the list of failures have."""

import re

import pytest
from judge import expected_failures
from runs import ROOT
from table import CLIENTS, MODES

PAGE = (ROOT / "docs/clients.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.split("<!-- made")[1].splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("one", CLIENTS, ids=lambda client: client.name)
def test_a_client_has_a_row_for_each_mode_whose_outcomes_are_the_native_ones(one):
    rows = {mode: cells for name, mode, *cells in ROWS if name == one.name}
    assert list(rows) == [mode for mode in MODES if mode not in one.unserved] + [mode for mode in MODES if mode in one.unserved]
    for mode, (native, pooled, *_) in rows.items():
        assert pooled == (f"not run: {one.unserved[mode]}" if mode in one.unserved else native), mode


def test_each_row_is_of_a_client():
    assert {name for name, *_ in ROWS} == {one.name for one in CLIENTS}


def test_what_runs_is_told_of_each_client():
    told = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE.split("<!-- made")[0], flags=re.M)[1:]
    assert sorted(", ".join(told).split(", ")) == sorted(one.name for one in CLIENTS)


def test_the_numbers_of_clients_and_of_failures_are_those_of_the_lists():
    always = sum(one.always for one in CLIENTS)
    assert f"In CI {always} of the {len(CLIENTS)} clients run" in PAGE
    failing = {one.name: len(expected_failures(one)) for one in CLIENTS if expected_failures(one)}
    assert failing.keys() == {"numba-cuda", "pycuda"}
    assert f"lines of numba-cuda: {failing['numba-cuda']}, of PyCUDA: {failing['pycuda']}" in PAGE.replace("\n", " ")
