"""Every figure that a document states is counted again, or was timed by the one run that the document names."""

import re

import bars
import bench
import checking
import counting
import figures
import instructions
import micro
import policies
import pytest
import waits
from blocks import DOCUMENTS
from figures import BENCHMARKS, BUILD, TOLERANCE, counted, hit, near, number, part, rows, text_of
from most_runs import does_as_shown

# One worker counts them all: much is counted once and compared several times.
pytestmark = [pytest.mark.xdist_group("figures"),
              pytest.mark.skipif(not counting.program(BUILD, "workload-driver").exists(),
                                 reason="the benchmarks' programs are not built: ninja -C build")]
# Settings that need the ledger at each call.
LONG_WAY = [{"POOLCUDA_POLICY": "tag"}, {"POOLCUDA_POLICY": "bins"}, {"POOLCUDA_POLICY": "bfc"}, {"POOLCUDA_POLICY": "vmm"},
            {"POOLCUDA_ZERO": "1"}, {"POOLCUDA_SITE_KEEP": "4"}, {"POOLCUDA_MAX_IDLE": "64M"}]


def a_hit():
    return [*hit(), *hit("static")]


def the_long_way():
    return [cost for settings in LONG_WAY for cost in hit(**settings)]


def unwinding():
    return [hit(POOLCUDA_SITE_DEPTH="2")[0]]


def beyond():
    return [hit(**instructions.BEYOND)[0] - hit()[0]]


def recording():
    return [instructions.trace_cost(figures.counts())]


def bound_of_a_replay():
    return [number(re.search(r"^MOST = (\d+) ", text_of("tests/e2e/test_replay_cost.py"), re.M).group(1))]


def bound_of_a_search():
    return [number(re.search(r"\(None, ([\d_]+)\)", text_of("tests/e2e/test_tune.py")).group(1).replace("_", ""))]


def time_of_an_instruction():
    return [number(re.search(r"second_per_instruction = ([\d.]+)e-9;", text_of("src/cli/tune.c")).group(1))]


def exactly(stated, measured):
    return stated == measured


def about(stated, measured):
    """About so many: a seventh more or less."""
    return all(near(stated[0], value, 1 / 7) for value in measured)


def between(stated, measured):
    """From the one to the other: nothing lies outside, and both are near."""
    low, high = stated
    return low <= min(measured) <= low * 1.15 and high * 0.85 <= max(measured) <= high


def at_most(stated, measured):
    return max(measured) <= stated[0]


# (document, its words, what they are compared with, how): of every figure of instructions in a document's own sentences.
SENTENCES = [
    ("README.md", r"in about (\d+) instructions", a_hit, about),
    ("docs/how-it-works.md", r"about (\d+) instructions each", a_hit, about),
    ("docs/architecture.md", r"for about (\d+) instructions more", beyond, about),
    ("docs/policies.md", r"take a hit from ([\d,]+) to ([\d,]+) instructions to about", the_long_way, between),
    ("docs/policies.md", r"instructions to about (\d+)", a_hit, about),
    ("docs/tuning.md", r"A hit takes about (\d+) instructions", a_hit, about),
    ("docs/tuning.md", r"then takes ([\d,]+) to ([\d,]+) instructions", the_long_way, between),
    ("docs/tuning.md", r"some ([\d,]+) instructions", unwinding, about),
    ("docs/tuning.md", r"at most (\d+) instructions more", recording, at_most),
    ("docs/tuning.md", r"ends after ([\d,]+) instructions for each event", bound_of_a_search, at_most),
    ("docs/tuning.md", r"instructions at ([\d.]+) ns each", time_of_an_instruction, exactly),
    ("docs/traces.md", r"at most (\d+) instructions for an event", recording, at_most),
    ("docs/traces.md", r"at most ([\d,]+) instructions an event", bound_of_a_replay, at_most),
]


@pytest.mark.parametrize("document, words, measure, agrees", SENTENCES, ids=[f"{row[0]}: {row[1]}" for row in SENTENCES])
def test_a_sentence_states_what_is_counted(document, words, measure, agrees):
    found = re.findall(words, " ".join(text_of(document).split()))
    assert found, "the sentence is not there: mend the table here"
    measured = measure()
    for groups in found:
        stated = [number(group) for group in ([groups] if isinstance(groups, str) else groups)]
        assert agrees(stated, measured), f"stated {stated}, measured {[round(value) for value in measured]}"


def test_no_sentence_states_instructions_or_times_of_the_pool_that_nothing_holds():
    """A figure of instructions is in the table above, a time in a table of the benchmarks."""
    for document in DOCUMENTS:
        text = re.sub(r"<!-- bench:.*?<!-- /bench -->", "", text_of(document), flags=re.S)
        text = " ".join(re.sub(r"^\|.*", "", text, flags=re.M).split()) + " ".join(" ".join(row) for row in rows(text))
        for where, words, *_ in SENTENCES:
            if where == document:
                text = re.sub(words, "", text)
        stray = re.findall(r"[^.]{0,40}\d[\d,]* (?:instructions|ns)\b", text)
        assert not stray, f"{document}: {stray}"


# (document, its words, the code's file, the code's words): limits that a document names, which are the code's.
CONSTANTS = [
    ("docs/benchmarks.md", r"there are at most (\d+) caches", "src/pool/cache.h", r"CACHES = (\d+),"),
    ("docs/benchmarks.md", r"at most \d+ caches, (\d+) of a context", "src/pool/cache.h", r"CACHE_THREADS = (\d+),"),
    ("docs/pool.md", r"more than (\d+) threads in a context share", "src/pool/cache.h", r"CACHE_THREADS = (\d+),"),
    ("docs/pool.md", r"Beyond (\d+) caches of a process", "src/pool/cache.h", r"CACHES = (\d+),"),
    ("docs/benchmarks.md", r"after every (\d+) calls one takes", "src/pool/cache_stop.c", r"BUDGET = (\d+),"),
    ("docs/benchmarks.md", r"at most ([\d,]+) places", "src/pool/cache_table_change.c", r"MOST_BINS = (\d+),"),
    ("docs/pool.md", r"after every (\d+) calls it reads a coarse clock", "src/pool/cache_stop.c", r"BUDGET = (\d+),"),
    ("docs/pool.md", r"In the first ([\d,]+) changes", "src/pool/cache_stop.c", r"YOUNG_CHANGES = (\d+),"),
    ("docs/pool.md", r"up to ([\d,]+) places", "src/pool/cache_table_change.c", r"MOST_BINS = (\d+),"),
    ("docs/check.md", r"between the (\d+) stripes", "src/check/internal.h", r"CHECK_STRIPES = (\d+),"),
    ("docs/live.md", r"The page's format is version (\d+)", "src/counters/page.h", r"PAGE_VERSION = (\d+),"),
    ("CHANGELOG.md", r"The stats page's format is version (\d+)", "src/counters/page.h", r"PAGE_VERSION = (\d+),"),  # its newest entry
    ("docs/api.md", r"(\d+) scopes deep", "src/site_tag.h", r"SITE_TAG_DEPTH = (\d+) "),
    ("docs/api.md", r"deep and (\d+) names", "src/site_tag.h", r"SITE_TAGS = (\d+),"),
]


@pytest.mark.parametrize("document, words, file, code", CONSTANTS, ids=[f"{row[0]}: {row[3]}" for row in CONSTANTS])
def test_a_limit_that_a_document_names_is_the_codes(document, words, file, code):
    stated = re.search(words, " ".join(text_of(document).split())).group(1)
    assert number(stated) == number(re.search(code, text_of(file)).group(1))


def test_the_simulated_gpus_defaults_are_those_of_its_document():
    """Those that are plain numbers; sizes are written in another way."""
    settings = dict(re.findall(r"^SETTING\((\w+), (?:COUNT|RATE), [^,]+, [^,]+, (\d+), ", text_of("subprojects/simcuda/driver/settings.def"), re.M))
    stated = {}
    for row in rows(text_of("subprojects/simcuda/docs/simulation.md")):
        names = re.findall(r"`SIMCUDA_(\w+)`", row[0])
        if names and len(row) == 3:
            stated |= zip(map(str.lower, names), row[1].split(", "))
    assert len(settings) > 20
    assert {name: stated[name] for name in settings} == settings


START_PAGES = 32  # KiB: beside the pages that are touched the kernel maps those around them that it happens to have
# The rows of performance.md: bar (bars.py), and the words by which the row is found.
PROMISES = {"hit_malloc": "a hit: malloc", "hit_free": "a hit: free", "set_malloc": "often serve: malloc", "set_free": "sizes: free",
            "miss_never": "nothing is freed", "miss_sizes": "ever new", "recorded": "recorded program", "block_bytes": "each block", "start_bytes": "at the start"}


def test_the_page_on_performance_states_what_is_counted_and_what_is_missed():
    table = rows(text_of("docs/performance.md"))
    assert len(table) == len(PROMISES)
    for name, words in PROMISES.items():
        (_, stated, limit, verdict), = [row for row in table if words in row[0]]
        least = START_PAGES if name == "start_bytes" else 1
        assert near(number(stated), counted()[name], least=least), f"{words}: {stated}, measured {counted()[name]:.1f}"
        assert number(limit) == bars.COUNTED[name].limit
        assert verdict == ("met" if bars.COUNTED[name].met(counted()[name]) else "MISSED")


def test_the_page_on_performance_names_every_bar_that_is_missed():
    named = {"set_malloc", "set_free", "miss_sizes"}
    missed = [row[0] for row in rows(text_of(BENCHMARKS)) if row[-1] == "MISSED"]
    text = text_of("docs/performance.md")
    for bar in missed:
        known = any(bar.startswith(bars.COUNTED[name].text) for name in named)
        known |= "reader's memory" in bar and "the memory of `poolcuda replay` grows with the trace" in text
        known |= bar.startswith("recording: heap") and "a recording's heap by" in text
        assert known, bar
    assert sum(row[-1] == "MISSED" for row in rows(text)) == len(named)


def test_the_page_on_performance_is_read_in_two_minutes():
    words = [word for word in text_of("docs/performance.md").split() if re.search(r"\w", word)]
    assert len(words) < 500


def test_the_page_on_performance_states_the_hits_of_the_recorded_programs():
    stated = re.search(r"In (\w+) recorded programs the default policy serves (\d+)% to ([\d.]+)%",
                       " ".join(text_of("docs/performance.md").split()))
    hits = {row[0]: number(row[3]) for row in rows(part("policies")) if row[2:3] == ["default"]}
    assert stated.group(1) == {8: "eight"}[len(hits)]
    assert (float(stated.group(2)), float(stated.group(3))) == (round(min(hits.values())), max(hits.values()))


def test_all_that_was_timed_is_of_one_run_and_so_is_all_that_was_counted():
    runs = bench.stamps(text_of(BENCHMARKS))
    kinds = {"counted": {"counted", "hit", "traces", "live", "rest", "waits-skipped", "policies", "checking"}}
    kinds["timed"] = {"timed", "hit-times", "live-times", "threads", "others", "pipelining", "soak", "at-scale"}
    assert set(runs) == kinds["counted"] | kinds["timed"]
    for names in kinds.values():
        assert len({runs[name] for name in names}) == 1, {name: runs[name] for name in sorted(names)}
    for kind in kinds:
        assert runs[kind][0] in part(kind), f"{kind}: the line says of another commit than the mark"


def test_the_table_of_hits_is_counted_again():
    stated = {row[0]: list(map(number, row[1:])) for row in rows(part("hit")) if len(row) == 5}
    for name in micro.allocators_of(BUILD):
        measured = [value for kind in micro.KINDS for found in [micro.counted(figures.counts(), name, kind)]
                    for value in (found.malloc(), found.free())]
        assert all(map(near, stated[micro.NAMES[name]], measured)), f"{name}: {stated[micro.NAMES[name]]}, measured {measured}"


def test_the_table_of_recorded_programs_is_counted_again():
    stated = {row[0]: list(map(number, row[1:])) for row in rows(part("traces")) if row[-1] not in ("met", "MISSED")}
    figures.counts()  # or there is nothing to count with
    columns = part("traces").split("| trace |")[1].splitlines()[0].strip("| ").split(" | ")
    section = micro.traces_section(BUILD)  # without CUB's where the toolkit is not at hand
    for row in section["rows"]:
        for column, measured in zip(section["columns"][1:], row[1:], strict=True):
            assert near(stated[row[0]][columns.index(column)], number(measured)), f"{stated[row[0]]}, measured {row}"


def test_the_table_of_live_blocks_is_counted_again():
    stated = {int(number(row[0])): row[1:] for row in rows(part("live")) if len(row) == 3 and row[0][:1].isdigit()}
    assert list(stated) == micro.LIVE
    for live in micro.LIVE[:-1]:  # a million takes callgrind a minute
        measured = figures.counts().get("driver", "live", instructions.OPERATIONS, live).operation()
        assert near(number(stated[live][0]), measured), f"{live}: {stated[live]}, measured {measured}"
        if stated[live][1]:
            # The kernel counts pages, and a map that has just grown has many that are empty.
            assert near(number(stated[live][1]), instructions.block_bytes(BUILD, live), 0.1)


def test_the_table_of_misses_recording_and_memory_is_counted_again():
    stated = {row[0]: row[1] for row in rows(part("rest")) if len(row) == 2}
    section = micro.miss_section(figures.counts(), counted())
    for what, measured in section["rows"]:
        if what.startswith("recording"):  # writes are due every 100 us: more of them on a busy machine
            assert number(stated[what]) <= bars.COUNTED["trace"].limit
        else:
            least = 0.001 if "by the native" in what else START_PAGES if "at the start" in what else 8
            assert near(number(stated[what]), number(measured), least=least), what


def test_verdicts_follow_from_what_is_stated_beside_them():
    for bar, measured, verdict in (row for row in rows(text_of(BENCHMARKS)) if len(row) == 3 and row[-1] in ("met", "MISSED")):
        limit = re.search(r": (<=|<|>=) ([\d.,]+)(?:x| \w+)?$", bar)
        if limit:
            assert bars.Bar("", limit.group(1), number(limit.group(2))).met(number(measured)) == (verdict == "met"), bar


def test_the_table_of_waits_is_counted_again():
    stated = {row[0]: row for row in rows(part("waits-skipped"))}
    programs = [(name, [BUILD / "samples" / name]) for name in waits.SAMPLES if name != "threads"]
    programs += [(f"{name} (trace)", [BUILD / "samples/trace_player", path, "unchecked"]) for name, path in waits.traces().items()]
    for name, command in programs:
        assert waits.Waits(BUILD, command, {}).row(name) == stated[name]


def test_the_table_of_policies_is_counted_again():
    stated = {tuple(row[:3]): row for row in rows(part("policies")) if len(row) > 5}
    for name, path in policies.traces().items():
        for preset in policies.PRESETS:
            result = policies.replay(BUILD / "src/cli/poolcuda", path, "80G", preset)
            measured = policies.row(name, "80G", preset, result, None)
            for place in (3, 4, 5, 6, 7):
                assert near(number(stated[name, "80G", preset][place]), number(measured[place]), 0.01, 0.11), \
                    f"{stated[name, '80G', preset]}, measured {measured}"


def check_costs():
    """{program: row} of the table of what checking adds."""
    return {row[0]: row for row in rows(part("checking")) if len(row) > 5}


def test_the_table_of_what_checking_adds_is_counted_again():
    stated = check_costs()
    programs = [(name, [BUILD / "samples" / name]) for name in waits.SAMPLES if name != "threads"]
    programs += [(f"{name} (trace)", [BUILD / "samples/trace_player", path, "unchecked"])
                 for name, path in waits.traces().items() if name in ("moe-align", "segment-reduce")]  # the others take longer
    for name, command in programs:
        native, checked = (checking.Run(BUILD, command, *mode) for mode in (("native", "0"), ("auto", "1")))
        row = stated[name]
        measured = [checked.counters["malloc_calls"], native.launches, checked.counters["check_launches"],
                    checked.counters["check_copies"]]
        assert all(map(near, map(number, row[1:5]), measured)), f"{row}, measured {measured}"
        measured = [native.cost_ns / 1e6, checked.cost_ns / 1e6]
        assert all(near(number(cell), cost, 0.1, 2) for cell, cost in zip((row[9], row[11]), measured)), f"{row}, measured {measured}"


def test_check_md_states_the_range_of_that_table():
    text = " ".join(text_of("docs/check.md").split())
    costs = [number(row[-2]) for row in check_costs().values()]
    in_sync = [number(row[-1]) for row in check_costs().values() if row[-1] != "-"]
    low, high, above, programs = map(number, re.search(
        r"about ([\d.]+)x to ([\d.]+)x of the native cost, more than it in (\d+) of (\d+)", text).groups())
    assert (above, programs) == (sum(cost > 1 for cost in costs), len(costs))
    least, most = map(number, re.search(r"With `POOLCUDA_CHECK=sync` the samples come to about ([\d.]+)x to ([\d.]+)x", text).groups())
    for stated, measured in ((low, min(costs)), (high, max(costs)), (least, min(in_sync)), (most, max(in_sync))):
        assert near(stated, measured, 1 / 7, 0), f"stated {stated}, measured {measured}"


def test_check_needs_less_than_a_mebibyte_of_pinned_memory():
    assert "less than 1 MiB of pinned memory" in " ".join(text_of("docs/check.md").split())
    found = figures.counters("three_sites", SIMCUDA_HOST_MEMORY="1M", POOLCUDA_CHECK="1")
    assert found["check_launches"] > 0 and found["check_unchecked_blocks"] == 0


@pytest.mark.parametrize("document, sample, settings, ranks", [
    ("README.md", "three_sites", {}, 1), ("docs/getting-started.md", "varying-static", {}, 1),
    ("docs/getting-started.md", "varying-static", {"POOLCUDA_PRESET": "pytorch-expandable"}, 1), ("docs/clusters.md", "varying-static", {}, 4),
], ids=["readme", "getting-started", "with-another-preset", "clusters"])
def test_an_example_shows_what_its_program_counts(document, sample, settings, ranks):
    text = text_of(document)

    def told():
        found = figures.counters(sample, **settings)
        allocations, hits, stolen = (found[name] * ranks for name in ("malloc_calls", "malloc_hits", "malloc_stolen"))
        line = f"allocations: {allocations}, of which {hits} from idle memory ({hits / allocations:.1%}, {stolen} another site's)"
        return [line] if settings or ranks > 1 else [line, f"{found['peak_held_bytes'] / 2**20:.1f} MiB held"]

    good, seen = does_as_shown(told, lambda lines: all(line in text for line in lines))
    assert good, seen


def test_the_readmes_example_of_tune_shows_what_is_counted(tmp_path):
    trace = tmp_path / "app.trace"
    figures.counters("varying", POOLCUDA_TRACE=str(trace))
    result = figures.command("tune", "--json", trace)
    native, text = result["native"], text_of("README.md")
    assert f"{native['allocations']} allocations, peak requested {native['peak_live_bytes'] / 2**20:.1f} MiB; without the pool " \
        f"{native['driver_allocs'] + native['driver_frees']} driver calls, {native['modelled_seconds']:.3f} s\n" in text
    assert f"no pool can hold less than {result['least_held_bytes'] / 2**20:.1f} MiB; " \
        f"{result['packed_bytes'] / 2**20:.1f} MiB would do" in text


def test_what_tuning_md_says_of_packings_holds():
    assert "recorded traces in `tests/data` are packed within 1% of requested bytes" in " ".join(text_of("docs/tuning.md").split())
    for path in (policies.ROOT / "tests/data").glob("*.csv.gz"):
        result = figures.command("tune", "--json", path)
        assert result["packed_bytes"] <= 1.01 * result["least_held_bytes"], path


def test_a_figure_of_other_code_is_found():
    assert near(119, 118.7) and near(224, 223.1) and not near(119, 126) and not near(1816, 2000)
    assert about([120], [118, 136]) and not about([120], [141]) and not about([120], [100])
    assert between([1000, 1500], [1021, 1494]) and not between([1000, 1500], [990, 1494])
    assert not between([1000, 1500], [1300, 1494]) and TOLERANCE < 0.1
    with pytest.raises(ValueError):
        number("met")
