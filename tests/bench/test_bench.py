"""The benchmarks' own rules: whose instructions are counted, what a bar says, what of the document is replaced."""

import gzip
import sys
import types

import bars
import bench
import counting
import instructions
import policies
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


# --- presets and originals ---

def figures_of(hit_rate, failures, held):
    return {"hit_rate": hit_rate, "oom_failures": failures, "worst_held_ratio": held}


@pytest.mark.parametrize("original, leading", [
    ((0.95, 0, 1.0), True), ((0.95, 1, 1.0), False), ((0.95, 0, 1.1), False), ((0.95, 0, 1.2), False), ((0.90, 0, 1.0), False),
    ((0.80, 0, 1.0), False)])
def test_an_original_leads_that_serves_more_and_needs_less_memory(original, leading):
    assert policies.leads(figures_of(*original), figures_of(0.90, 0, 1.1)) == leading


def test_the_simulated_device_has_what_the_originals_had():
    assert policies.device_size("1.05", 40 << 20) == 42 << 20
    assert policies.device_size("1.02", 1001) == 1021
    assert policies.device_size("unlimited", 1) == 80 << 30


def test_one_that_fails_less_needs_less_memory_though_it_holds_more():
    assert policies.leads(figures_of(0.95, 1, 1.3), figures_of(0.90, 2, 1.1))


def figures_csv(folder, hits):
    """A trace and what originals are said to do on it."""
    (folder / "expected").mkdir()
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"t_us,op,id,size,stream,site\n0,A,1,512,0,\n0,F,1,0,0,\n0,A,2,512,0,\n"))
    rows = [f"t,pycuda,unlimited,{hits},7,1,1.0,0", "t,cub,unlimited,0.1,9,1,1.0,0", "t,pycuda,1.05,0.2,9,1,1.0,3"]
    (folder / "expected/figures.csv").write_text("\n".join(
        ["trace,allocator,memory,hit_rate,driver_calls,peak_held_bytes,worst_held_ratio,failed", *rows, ""]))


@pytest.mark.parametrize("hits, missed", [(0.95, ["pyopencl", "default"]), (0.85, [])])
def test_the_presets_are_printed_beside_the_originals_and_who_leads_is_named(hits, missed, monkeypatch, tmp_path):
    figures_csv(tmp_path, hits)
    monkeypatch.setattr(policies, "FOLDERS", [tmp_path])
    monkeypatch.setattr(policies, "replay", lambda command, path, size, preset, **simulated: {
        **figures_of(0.90, 0, 1.1), "driver_allocs": 2, "driver_frees": 1, "map_calls": 0, "peak_live_bytes": 64 << 20, "peak_held_bytes": 512})
    section, summary, _ = policies.printed_sections(tmp_path, False)
    assert {(row[1], row[2]) for row in section["rows"]} == {
        *((memory, preset) for memory in ("unlimited", "1.05") for preset in policies.PRESETS),
        ("unlimited", "(pycuda)"), ("unlimited", "(cub)"), ("1.05", "(pycuda)")}
    assert sorted(row[2] for row in section["rows"] if row[-1] == "MISSED: pycuda") == sorted(missed)
    assert sorted(bar.split(",")[1:][1].split(":")[0].strip() for bar, _, met in section["verdicts"] if not met) == sorted(missed)
    assert {row[0]: row[1:5] for row in summary["rows"]} == {
        preset: ["2", "1" if preset in missed else "0", "6", "0"] for preset, originals in policies.ORIGINALS.items() if originals}


@pytest.mark.parametrize("calls, held, missed", [
    (2, 1024, ["futhark-2018", "futhark-2020", "futhark-2025", "pycuda", "cub"]), (1, 1024, []),
    (2, 512, ["futhark-2018", "futhark-2020", "futhark-2025", "cub"])])
def test_an_original_that_makes_fewer_calls_with_what_the_default_holds_is_named(calls, held, missed, monkeypatch, tmp_path):
    figures_csv(tmp_path, 0.95)
    monkeypatch.setattr(policies, "FOLDERS", [tmp_path])
    monkeypatch.setattr(policies, "replay", lambda command, path, size, preset, **simulated: {
        "driver_allocs": calls, "driver_frees": 0, "oom_failures": 0, "peak_held_bytes": held})
    section, = policies.held_sections(tmp_path, False)
    assert [row[2].strip("()") for row in section["rows"] if row[-1] == "MISSED"] == missed
    assert len(section["rows"]) == 6 and len(section["verdicts"]) == len(missed)


def test_nothing_is_printed_where_the_originals_figures_are_not_at_hand(monkeypatch, tmp_path):
    monkeypatch.setattr(policies, "FOLDERS", [tmp_path])
    assert policies.printed_sections(tmp_path, False) == []
