"""The benchmarks' own rules: whose instructions are counted, what a bar says, what of the document is replaced."""

import sys
import types

import bars
import bench
import counting
import instructions
import pytest
import report
import timing

CALLGRIND = """\
positions: line
events: Ir

ob=(1) /build/src/interpose/libpoolcuda.so
fl=(1) hooks.c
fn=(1) hook_cuMemAlloc_v2'cuMemAlloc_v2'site_10'main
10 30
+1 10
cob=(2) /lib/libc.so.6
cfn=(2) pthread_mutex_lock'hook_cuMemAlloc_v2'cuMemAlloc_v2'site_10'main
calls=5 0
* 1000

ob=(2)
fn=(2)
7 50

ob=(3) /build/tests/bench/libcuda.so.1
fn=(3) cuCtxGetCurrent'hook_cuMemAlloc_v2'cuMemAlloc_v2'site_10'main
7 70

ob=(4) /build/tests/bench/workload-driver
fn=(4) site_10'main
7 900

ob=(1)
fn=(5) read_loads'dl_iterate_phdr'hook_cuMemFree_v2'cuMemFree_v2'main
- 6

ob=(2)
fn=(6) malloc'cudaEventCreate'reference_malloc'main
7 40
fn=(7) malloc'reference_malloc@plt'main
7 8
"""


def test_an_instruction_is_the_allocators_below_its_entry_and_above_the_driver():
    assert dict(counting.read(CALLGRIND.splitlines())) == {
        ("malloc", "libpoolcuda.so", "hook_cuMemAlloc_v2"): 40, ("malloc", "libc.so.6", "pthread_mutex_lock"): 50,
        ("free", "libpoolcuda.so", "read_loads"): 6, ("malloc", "libc.so.6", "malloc"): 8}


def test_a_count_is_per_call_of_each_kind():
    count = counting.Count({("malloc", "o", "f"): 300, ("free", "o", "f"): 100}, {"operations": "4", "mallocs": "3"})
    assert (count.malloc(), count.free(), count.operation()) == (100, 100, 100)


def test_a_bar_is_met_missed_or_cannot_be_told():
    bar = bars.Bar("cost", "<=", 120, " instructions")
    assert bar.verdict(120) == ("cost: <= 120 instructions", "120 instructions", True)
    assert [bar.verdict(121)[2], bar.verdict(121, False)[2], bar.verdict(1, False)[2]] == [False, None, None]
    assert not bars.Bar("growth", "<", 2).met(2) and bars.Bar("gain", ">=", 1.8).met(1.8)


def test_the_check_fails_when_a_bar_is_missed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["instructions.py", "build"])
    for value, status in ((120, 0), (120.5, 1)):
        monkeypatch.setattr(instructions, "values", lambda counts, value=value: {"hit_malloc": value})
        assert instructions.main() == status
    assert "WORSE     a hit, malloc, driver hook" in capsys.readouterr().out


def test_the_check_allows_for_a_bar_that_is_known_to_be_missed_but_for_no_more():
    bar = bars.Bar("miss", "<=", 300, held=480)
    assert [bar.regressed(value) for value in (300, 301, 480, 481)] == [False, False, False, True]
    assert not bar.met(301)


OLD = """mine
<!-- bench:counted abc1234 2026-01-01T00:00 -->
old place
<!-- /bench -->
<!-- bench:timed abc1234 2026-01-01T00:00 -->
old place
<!-- /bench -->
<!-- bench:a abc1234 2026-01-01T00:00 -->
old count
<!-- /bench -->
kept
<!-- bench:b abc1234 2026-01-01T00:00 -->
old time
<!-- /bench -->
<!-- bench:gone abc1234 2026-01-01T00:00 -->
of a module that there was
<!-- /bench -->
"""


def section(name, text):
    return {"id": name, "title": "T", "intro": text, "columns": ["x"], "rows": [["1"]], "verdicts": [], "plots": []}


def whole_run(monkeypatch, tmp_path, *options, failed=()):
    """What the document is after a run without measurements."""
    document = tmp_path / "benchmarks.md"
    document.write_text(OLD)
    made = {"counted": [section("a", "new count")], "timed": [section("b", "new time")]}
    monkeypatch.setattr(bench, "DOCUMENT", document)
    monkeypatch.setitem(sys.modules, "plots", types.SimpleNamespace(draw=lambda section, folder: []))  # needs no matplotlib
    monkeypatch.setattr(sys, "argv", ["bench.py", str(tmp_path), *options])
    monkeypatch.setattr(bench, "collect", lambda names, build, quick, kinds: (
        [one for kind in kinds for one in made[kind]], list(failed)))
    bench.main()
    return document.read_text()


def test_a_part_of_the_document_is_replaced_and_the_rest_kept():
    now = "fff0000 2026-02-02T02:02"
    assert bench.replaced(OLD, "a", now, "new \\1") == OLD.replace(
        "a abc1234 2026-01-01T00:00 -->\nold count", f"a {now} -->\nnew \\1")
    assert bench.replaced(OLD, "c", now, "fresh") == OLD + f"\n<!-- bench:c {now} -->\nfresh\n<!-- /bench -->\n"


def test_all_that_a_whole_run_leaves_in_the_document_is_its_own(monkeypatch, tmp_path):
    text = whole_run(monkeypatch, tmp_path)
    assert set(bench.stamps(text)) == {"counted", "timed", "a", "b"} and len(set(bench.stamps(text).values())) == 1
    assert "old" not in text and "new count" in text and "new time" in text and "mine\n" in text and "kept\n" in text


def test_a_run_of_counts_leaves_the_times_as_one_run_has_made_them(monkeypatch, tmp_path):
    stamps = bench.stamps(text := whole_run(monkeypatch, tmp_path, "--counted"))
    assert stamps["b"] == stamps["timed"] == stamps["gone"] == ("abc1234", "2026-01-01T00:00") and "old time" in text
    assert stamps["a"] == stamps["counted"] != stamps["b"] and "old count" not in text


@pytest.mark.parametrize("options", [[], ["--counted"]], ids=["all", "counted"])
def test_a_run_of_which_a_module_failed_writes_nothing(options, monkeypatch, tmp_path, capsys):
    assert whole_run(monkeypatch, tmp_path, *options, failed=["scale"]) == OLD
    assert "FAILED: tests/bench/scale.py, as told above: nothing was written" in capsys.readouterr().out


def test_a_missed_bar_is_named_last_and_ends_with_1(monkeypatch, capsys, tmp_path):
    section = {"id": "x", "title": "T", "intro": "", "columns": ["a"], "rows": [["1"]], "plots": [],
               "verdicts": [("good", "1", True), ("unknown", "2", None), ("bad", "3", False)]}
    monkeypatch.setattr(sys, "argv", ["bench.py", str(tmp_path), "--quick"])
    for verdicts, failed, status in ((section["verdicts"], [], 1), (section["verdicts"][:2], [], 0), ([], ["micro"], 1)):
        monkeypatch.setattr(bench, "collect", lambda *_, v=verdicts, f=failed: ([dict(section, verdicts=v)], f))
        assert bench.main() == status
    told = capsys.readouterr().out
    assert "MISSED: T: bad: 3\n" in told and "FAILED: tests/bench/micro.py" in told


def test_an_unknown_module_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench.py", "build", "nonsense"])
    with pytest.raises(SystemExit) as told:
        bench.main()
    assert told.value.code == 2 and "nonsense: no such module, expected micro" in capsys.readouterr().err


def test_a_module_that_fails_does_not_keep_the_others_from_being_measured(tmp_path, capsys):
    sections, failed = bench.collect(["no_such_module", "policies"], tmp_path, True)
    assert (sections, failed) == ([], ["no_such_module", "policies"])
    assert "no_such_module" in capsys.readouterr().err


def test_rounds_in_which_others_used_the_machine_are_left_out():
    values = iter([1, 9, 2, 3])
    assert timing.undisturbed({"x": lambda: next(values)}, 3, lambda r: r["x"] < 5) == ({"x": [1, 2, 3]}, 1, True)
    assert timing.undisturbed({"x": lambda: 9}, 2, lambda r: r["x"] < 5) == ({"x": [9] * 6}, 0, False)


def test_a_table_in_markdown_keeps_its_columns():
    section = {"intro": "I", "columns": ["name", "n"], "rows": [["a|b", "1"]], "verdicts": [("bar", "2", False)]}
    assert report.as_markdown(section, [("P", "p.svg")]).splitlines() == [
        "I", "", "| name | n |", "|---|---:|", "| a\\|b | 1 |", "", "| bar | measured | |", "|---|---:|---|",
        "| bar | 2 | MISSED |", "", "![P](p.svg)"]
