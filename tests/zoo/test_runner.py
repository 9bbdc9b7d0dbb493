"""The zoo can fail: a library that does something to its host is seen, whatever it does."""

import pytest
from runs import HOSTS, Zoo
from table import PAGE, ROOT, Program, packages, page_with_table, programs

QUIET = Program("shells", "quiet", {"job": "echo out; echo file >made; sleep 0"})
FAULTS = {"prints": "output, line", "complains": "errors, line", "opens": "/dev/zero", "blocks": "SigBlk",
          "ignores": "SigIgn", "catches": "SigCgt", "creates": "file left_here", "shares": "shm left_here", "forks": "left ",
          "exits": "its end", "kills": "its end", "writes": "file made"}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_zoo_sees_a_library_that(fault, tmp_path, monkeypatch):
    zoo = Zoo(QUIET, tmp_path, HOSTS / "libfaults.so")
    environment = zoo.environment
    monkeypatch.setattr(zoo, "environment", lambda *preload: {**environment(*preload), "FAULT": fault})
    natives = [zoo.run(False, True), zoo.run(False, True)]
    found = zoo.differences(natives, zoo.run(True, True), True)
    assert any(FAULTS[fault] in line for line in found), found


def test_the_zoo_sees_no_difference_in_a_library_that_does_nothing(tmp_path):
    zoo = Zoo(QUIET, tmp_path, HOSTS / "libfaults.so")
    natives = [zoo.run(False, True), zoo.run(False, True)]
    assert zoo.differences(natives, zoo.run(True, True), True) == []


def test_what_differs_natively_is_not_compared(tmp_path):
    row = Program("shells", "random", {"job": "echo same; head -c 8 /dev/urandom | od -An -tx1; echo same"})
    zoo = Zoo(row, tmp_path)
    natives = [zoo.run(False, True), zoo.run(False, True)]
    assert zoo.shows_something(natives)
    assert zoo.differences(natives, zoo.run(False, True), True) == []


def test_a_job_that_has_nothing_in_common_with_itself_proves_nothing(tmp_path):
    row = Program("shells", "random", {"job": "head -c 8 /dev/urandom | od -An -tx1"})
    zoo = Zoo(row, tmp_path)
    assert not zoo.shows_something([zoo.run(False, True), zoo.run(False, True)])


def test_the_table_has_ten_kinds_of_five_programs_at_least():
    rows = programs()
    kinds = {row.kind: [other for other in rows if other.kind == row.kind] for row in rows}
    assert len(kinds) >= 10
    assert {kind: len(some) for kind, some in kinds.items() if len(some) < 5} == {}
    assert len({row.name for row in rows}) == len(rows)


def test_every_run_has_sixty_programs_and_all_are_a_hundred_and_fifty():
    rows = programs()
    assert sum(row.always for row in rows) >= 60
    assert len(rows) >= 150


def test_the_documents_table_is_that_of_the_zoo():
    assert PAGE.read_text() == page_with_table(PAGE.read_text()), "run tests/zoo/table.py --write"


def test_scripts_test_installs_the_packages_that_the_table_names():
    assert "tests/zoo/table.py --packages" in (ROOT / "scripts/test").read_text()
    assert set(packages(False)) < set(packages(True))
