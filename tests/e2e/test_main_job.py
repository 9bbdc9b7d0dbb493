"""The pool's main job on unmodified programs: fewer driver calls, the same bytes."""

import gzip

import pytest
from conftest import ROOT, SAMPLES

FORMS = ["", "-static"]
TRACES = sorted((ROOT / "tests/data").glob("*.csv.gz"))
OTHER_TRACES = sorted(p for p in (ROOT.parent / "shared/traces").glob("*.csv.gz")
                      if p.name not in {t.name for t in TRACES})


@pytest.mark.parametrize("form", FORMS)
def test_a_hundred_rounds_over_three_sites_need_at_most_twelve_driver_allocations(both, form):
    native, pooled = both(SAMPLES / f"three_sites{form}")
    assert native.code == 0 and native.driver_allocations == 300
    assert pooled.driver_allocations <= 12


@pytest.mark.parametrize("form", FORMS)
def test_varying_sizes_and_interleaved_lifetimes_need_at_most_thirty(both, form):
    native, pooled = both(SAMPLES / f"varying{form}")
    assert native.code == 0 and native.driver_allocations >= 300
    assert pooled.driver_allocations <= 30


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["stencil", "pipeline", "reduction", "threads"])
def test_samples_give_the_same_results_with_few_driver_allocations(both, name, form):
    native, pooled = both(SAMPLES / f"{name}{form}")
    assert native.code == 0
    assert pooled.driver_allocations * 4 < native.driver_allocations


@pytest.mark.parametrize("memory", ["256M", "8G", "80G"])
@pytest.mark.parametrize("form", FORMS)
def test_nearly_all_memory_can_be_had_in_one_block_after_everything_was_freed(both, form, memory):
    native, pooled = both(SAMPLES / f"nearly_all_memory{form}", env={"SIMCUDA_MEMORY": memory})
    assert native.code == 0
    assert "out of memory: " in pooled.stats or pooled.driver_allocations <= native.driver_allocations


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.name.split(".")[0])
def test_recorded_traces_read_back_every_byte_they_wrote(both, trace, form):
    native, pooled = both([SAMPLES / f"trace_player{form}", trace])
    assert native.code == 0
    with gzip.open(trace, "rt") as lines:
        allocations = sum(line.split(",")[1] == "A" for line in lines)
    assert native.driver_allocations == allocations
    assert f"allocations {allocations} " in pooled.out
    assert pooled.driver_allocations < allocations * 0.15


@pytest.mark.skipif(not OTHER_TRACES, reason="../shared/traces is absent: put recorded traces there")
@pytest.mark.parametrize("trace", OTHER_TRACES, ids=lambda p: p.name.split(".")[0])
def test_other_recorded_traces_read_back_every_byte_they_wrote(both, trace):
    native, pooled = both([SAMPLES / "trace_player", trace])
    assert native.code == 0
    assert pooled.driver_allocations < native.driver_allocations / 2


@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.name.split(".")[0])
def test_held_memory_keeps_to_its_bound_on_recorded_traces(run, trace):
    pooled = run([SAMPLES / "trace_player", trace])
    live, held = pooled.peaks
    rounding = 1.001 * live * 1.25  # the report's figures have one decimal
    assert held <= rounding + (65 << 20)


@pytest.mark.parametrize("content, expected", [
    ("nonsense\n", "expected the header t_us,op,id,size,stream,site"),
    ("t_us,op,id,size,stream,site\n0,A,1,x,0,\n", "expected a size in bytes"),
    ("t_us,op,id,size,stream,site\n0,F,9,,,\n", "expected the id of a live block"),
    ("t_us,op,id,size,stream,site\n0,Q,9,,,\n", "expected an operation A, F, K, C, S or D"),
])
def test_a_bad_trace_is_reported_in_one_line(run, tmp_path, content, expected):
    trace = tmp_path / "bad.csv"
    trace.write_text(content)
    result = run([SAMPLES / "trace_player", trace], pooled=False)
    assert result.code == 2
    assert expected in result.err and len(result.err.splitlines()) == 1
