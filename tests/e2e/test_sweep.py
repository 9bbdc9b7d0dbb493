"""poolcuda replay --sweep: its points are those of replays, its drawing has all presets, and what is wrong gets one line."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree

import made_traces
import pytest
from conftest import COMMAND

PRESETS = ["default", "futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]


def command(*arguments, env=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    environment.update(env or {})
    return subprocess.run([COMMAND, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(name="trace", scope="module")
def fixture_trace(tmp_path_factory):
    return made_traces.random_program(tmp_path_factory.mktemp("sweep") / "small.csv", 3, 200)


@pytest.fixture(name="swept", scope="module")
def fixture_swept(trace):
    """(JSON, the drawing's name without its ending, text)"""
    base = trace.parent / "drawn"
    done, text = command("replay", "--json", f"--sweep={base}", trace), command("replay", f"--sweep={base}", trace)
    assert (done.returncode, done.stderr, text.returncode, text.stderr) == (0, "", 0, "")
    return json.loads(done.stdout), base, text.stdout


def points(swept, preset):
    return [point for point in swept[0]["points"] if point["preset"] == preset]


def test_every_preset_and_none_is_replayed_from_the_peak_to_three_times_that(swept):
    assert {point["preset"] for point in swept[0]["points"]} == {*PRESETS, None}
    for preset in (*PRESETS, None):
        sizes = [point["memory"] for point in points(swept, preset)]
        peak = swept[0]["peak_live_bytes"]
        assert sizes == sorted(sizes) and peak <= sizes[0] < peak + (2 << 20) and 3 * peak <= sizes[-1]


@pytest.mark.parametrize("preset", [*PRESETS, None])
def test_a_points_figures_are_those_of_a_replay(swept, trace, preset):
    for point in points(swept, preset)[::7]:
        how = f"--preset={preset}" if preset else "--native"
        alone = json.loads(command("replay", "--json", f"--memory={point['memory']}", how, trace).stdout)
        for name in ("hits", "driver_allocs", "driver_frees", "map_calls", "oom_failures", "peak_held_bytes"):
            assert point[name] == alone[name]
        assert point["driver_calls"] == alone["driver_allocs"] + alone["driver_frees"] + alone["map_calls"]


def test_without_the_pool_nothing_is_served_and_a_large_device_fails_nothing(swept):
    assert all(point["hits"] == 0 for point in points(swept, None))
    assert all(points(swept, preset)[-1]["oom_failures"] == 0 for preset in (*PRESETS, None))


def test_the_text_has_the_same_figures_and_says_whether_there_are_cliffs(swept):
    heads = re.findall(r"^(hits|driver calls|failed allocations) +(.*)$", swept[2], re.M)
    assert [head for head, _ in heads] == ["hits", "driver calls", "failed allocations"]
    assert all(names.split() == [*PRESETS, "no", "pool"] for _, names in heads)
    rows = re.findall(r"^ .*? x  +([\d.% ]+)$", swept[2], re.M)
    count = len(points(swept, None))
    assert len(rows) == 3 * count
    for at in range(count):
        hits, calls, failed = (rows[at + part * count].split() for part in range(3))
        for column, preset in enumerate((*PRESETS, None)):
            point = points(swept, preset)[at]
            assert hits[column] == f"{100 * point['hit_rate']:.2f}%"
            assert (int(calls[column]), int(failed[column])) == (point["driver_calls"], point["oom_failures"])
    told = re.findall(r"^  ([\w-]+): [\d.]+% with ([\d.]+) x the peak requested, [\d.]+% with ([\d.]+) x$", swept[2], re.M)
    assert [(preset, float(before), float(at)) for preset, before, at in told] == [
        (cliff["preset"], pytest.approx(cliff["from"]), pytest.approx(cliff["to"])) for cliff in swept[0]["cliffs"]]
    assert ("no cliffs" in swept[2]) == (not swept[0]["cliffs"])


def test_each_figure_ends_where_its_presets_name_ends(swept):
    tables = [table.splitlines() for table in re.split(r"^(?=hits|driver calls|failed allocations)", swept[2], flags=re.M)[1:]]
    assert len(tables) == 3
    for heading, *lines in tables:
        ends = [re.search(rf" {name}( |$)", heading).start() + 1 + len(name) for name in (*PRESETS, "no pool")]
        rows = [line for line in lines if re.match(r"  .* x  ", line)]
        assert len(rows) == len(points(swept, None))
        for row in rows:
            assert [figure.end() for figure in re.finditer(r"[\d.]+%?", row)][-len(ends):] == ends


def test_the_drawing_has_a_line_for_each_preset_in_each_of_three_panels(swept):
    """Of a colour each, and one in the legend. Over the panels they go from edge to edge."""
    svg = xml.etree.ElementTree.parse(f"{swept[1]}.svg").getroot()
    lines = {}
    for path in svg.iter("{http://www.w3.org/2000/svg}path"):
        style = path.get("style", "")
        colour = re.search(r"stroke:rgb\(([\d%,.]*)\)", style)
        if colour and "stroke-width:2" in style:
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.get("d"))]
            lines.setdefault(colour[1], []).append((min(numbers[::2]), max(numbers[::2])))
    assert len(lines) == len(PRESETS) + 1
    for drawn in lines.values():
        assert len(drawn) == 4 and len({span for span in drawn if span[0] == pytest.approx(80)}) == 1
    assert (swept[1].parent / "drawn.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("arguments, env, said", [
    (["--native"], {}, "--sweep: expected no --gpu, --native or --memory beside it"),
    (["--memory=1G"], {}, "--sweep: expected no --gpu, --native or --memory beside it"),
    (["--preset=bfc"], {}, "--sweep: expected no preset and no policy beside it"),
    ([], {"POOLCUDA_POLICY": "vmm"}, "--sweep: expected no preset and no policy beside it")])
def test_what_a_sweep_chooses_itself_is_bad_usage_beside_it(trace, tmp_path, arguments, env, said):
    done = command("replay", f"--sweep={tmp_path}/x", *arguments, trace, env=env)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr.splitlines()[0]
    assert not list(tmp_path.iterdir())


def test_a_drawing_that_would_take_the_traces_place_is_bad_usage(tmp_path, trace):
    (tmp_path / "trace.svg").write_bytes(trace.read_bytes())
    done = command("replay", f"--sweep={tmp_path}/trace", tmp_path / "trace.svg")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert (tmp_path / "trace.svg").read_bytes() == trace.read_bytes()


def test_a_drawing_that_cannot_be_written_is_reported_before_the_work(tmp_path, trace):
    done = command("replay", f"--sweep={tmp_path}/absent/x", trace)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_other_options_hold_for_all_of_a_sweep(trace, tmp_path):
    result = json.loads(command("replay", "--json", f"--sweep={tmp_path}/x", "--reuse-ratio=1", trace).stdout)
    assert all("POOLCUDA_REUSE_RATIO=1" in point["options"] for point in result["points"])


def test_devices_are_told_by_what_they_have_not_by_what_was_to_be_tried(tmp_path):
    trace = made_traces.write(tmp_path / "one.csv", [(0, "A", 1, 1 << 20, 0, "a", 0)])
    text = command("replay", f"--sweep={tmp_path}/drawn", trace).stdout
    told = re.findall(r"^ +([\d.]+ MiB) +([\d.]+) x ", text, re.M)
    assert len(told) == 3 * 24 and set(told) == {("2.0 MiB", "2.00"), ("4.0 MiB", "4.00")}


def test_a_trace_without_allocations_is_refused_in_one_line(tmp_path):
    trace = made_traces.write(tmp_path / "none.csv", [])
    done = command("replay", f"--sweep={tmp_path}/drawn", trace)
    assert (done.returncode, done.stdout) == (1, "") and not (tmp_path / "drawn.svg").exists()
    assert done.stderr == f"poolcuda replay: {trace}: no allocation; expected some, nothing was replayed\n"


def test_a_peak_beyond_any_device_is_refused_in_one_line(tmp_path):
    trace = made_traces.write(tmp_path / "huge.csv", [(0, "A", 1, 2 ** 64 - 1, 0, "s", 0)])
    done = command("replay", f"--sweep={tmp_path}/drawn", trace)
    assert (done.returncode, done.stdout) == (1, "") and not (tmp_path / "drawn.svg").exists()
    assert re.fullmatch(r"poolcuda replay: at its peak the trace has 16.0 EiB, .*nothing was replayed\n", done.stderr)
