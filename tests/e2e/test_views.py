"""The views of poolcuda report: each is what readers of its format take, and says what the report says."""

import base64
import gzip
import json
import re
import shutil
import struct
import subprocess
import zlib

import browser
import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, PROGRAMS, RUNTIME, SAMPLES

WEIGHTS = {"bytes": "allocated_bytes", "allocations": "allocations", "peak": "peak_live_bytes", "live": "live_bytes"}


def report(*arguments, code=0):
    done = guard.run([COMMAND, "report", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def record(folder, name, program, *arguments, **variables):
    environment = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "LD_PRELOAD": str(LIBRARY), "SIMCUDA_COST": "0",
                   "POOLCUDA_STATS_FILE": str(folder / name), **variables}
    done = guard.run([str(program), *arguments], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture(scope="module", name="deep")
def fixture_deep(tmp_path_factory):
    """A run whose sites are stacks."""
    return record(tmp_path_factory.mktemp("deep"), "deep.json", SAMPLES / "varying", POOLCUDA_SITE_DEPTH="3",
                  POOLCUDA_FREE="sync")


@pytest.fixture(scope="module", name="evil")
def fixture_evil(tmp_path_factory):
    """A run whose program's name is markup, JSON, a terminal's escape and very long."""
    folder = tmp_path_factory.mktemp("evil")
    program = folder / ("</script><script>document.title='pwned'</script>\";\\\x1b[31m" .replace("/", "\u2215") + "long" * 15)
    shutil.copy(SAMPLES / "varying", program)
    return record(folder, "evil.json", program, "3")


@pytest.fixture(scope="module", name="runs")
def fixture_runs(tmp_path_factory, deep, evil):
    """Three runs; one has two devices."""
    folder = tmp_path_factory.mktemp("runs")
    record(folder, "devices.json", PROGRAMS / "devices", SIMCUDA_DEVICES="2", PMIX_RANK="1")
    return [deep, evil, *folder.iterdir()]


def sites_of(path):
    return json.loads(path.read_text())["sites"]


# Collapsed stacks

@pytest.mark.parametrize("weight", WEIGHTS)
def test_each_line_of_a_flamegraph_is_a_stack_and_a_weight(deep, weight):
    lines = report("--flamegraph=-", f"--weight={weight}", deep).stdout.splitlines()
    parsed = [re.fullmatch(r"([^;\x00-\x1f]+(?:;[^;\x00-\x1f]+)*) ([1-9]\d*)", line) for line in lines]
    assert all(parsed)
    assert sum(int(one.group(2)) for one in parsed) == sum(site[WEIGHTS[weight]] for site in sites_of(deep))
    if weight == "bytes":
        stacks = [one.group(1) for one in parsed]
        assert "varying;main (varying.c:41);make_buffer_deeper (varying.c:24);make_buffer (varying.c:19)" in stacks
        assert lines == report("--flamegraph=-", deep).stdout.splitlines(), "bytes are the default"


def test_names_cannot_break_a_flamegraphs_lines(evil):
    lines = report("--flamegraph=-", evil).stdout.splitlines()
    assert len(lines) == len(sites_of(evil))
    assert all(re.fullmatch(r"[^;\x00-\x1f]+;[^;\x00-\x1f]+ \d+", line) for line in lines)


# Speedscope

def test_speedscope_gets_a_sampled_profile_for_each_weight(deep, tmp_path):
    report(f"--speedscope={tmp_path}/out.json", "--weight=peak", deep)
    profile = json.loads((tmp_path / "out.json").read_text())
    assert set(profile) == {"$schema", "name", "exporter", "activeProfileIndex", "shared", "profiles"}
    assert profile["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert profile["profiles"][profile["activeProfileIndex"]]["name"] == "most bytes live at once"
    frames = profile["shared"]["frames"]
    for frame in frames:
        assert isinstance(frame["name"], str) and set(frame) <= {"name", "file", "line"}
        assert "line" not in frame or (isinstance(frame["line"], int) and frame["file"].endswith(".c"))
    assert len({json.dumps(frame) for frame in frames}) == len(frames)
    sums = []
    for one in profile["profiles"]:
        assert set(one) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert one["type"] == "sampled" and one["unit"] in ("bytes", "none")
        assert len(one["samples"]) == len(one["weights"]) == len(sites_of(deep))
        assert all(0 <= index < len(frames) for sample in one["samples"] for index in sample)
        assert one["startValue"] == 0 and one["endValue"] == sum(one["weights"])
        sums.append(one["endValue"])
    assert sums == [sum(site[name] for site in sites_of(deep)) for name in WEIGHTS.values()]
    stacks = [[frames[index]["name"] for index in sample] for sample in profile["profiles"][0]["samples"]]
    assert ["varying", "main (varying.c:41)", "make_buffer_deeper (varying.c:24)", "make_buffer (varying.c:19)"] in stacks


# pprof

def varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        assert shift <= 70
        if byte < 0x80:
            assert number < 1 << 64
            return number, at


def message(data):
    """{field: [number or bytes, ...]}; nothing may be left over."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag >> 3 and tag & 7 in (0, 2)
        value, at = varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data)
            value, at = data[at:at + value], at + value
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def numbers(packed):
    found, at = [], 0
    while at < len(packed):
        number, at = varint(packed, at)
        found.append(number)
    return found


def one(fields, number, default=0):
    values = fields.get(number, [default])
    assert len(values) == 1
    return values[0]


def read_pprof(data):
    """What profile.proto says of it: sample types, default type, samples as (stack, values), mappings."""
    fields = message(data)
    assert set(fields) <= {1, 2, 3, 4, 5, 6, 9, 10, 13, 14}
    strings = [text.decode() for text in fields[6]]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    functions = {one(f, 1): (strings[one(f, 2)], strings[one(f, 4)]) for f in map(message, fields[5])}
    mappings = {one(m, 1): (one(m, 2), one(m, 3), strings[one(m, 5)], strings[one(m, 6)])
                for m in map(message, fields.get(3, []))}
    locations = {}
    for location in map(message, fields[4]):
        lines = [(*functions[one(line, 1)], one(line, 2)) for line in map(message, location[4])]
        if 2 in location:
            low, high = mappings[one(location, 2)][:2]
            assert low <= one(location, 3) < high
        locations[one(location, 1)] = lines
    assert 0 not in functions and 0 not in mappings and 0 not in locations
    types = [(strings[one(t, 1)], strings[one(t, 2)]) for t in map(message, fields[1])]
    samples = []
    for sample in map(message, fields[2]):
        values = numbers(one(sample, 2))
        assert len(values) == len(types)
        samples.append(([line for place in numbers(one(sample, 1)) for line in locations[place]], values))
    return types, strings[one(fields, 14)], samples, mappings.values(), fields


def test_pprof_gets_samples_functions_lines_and_mappings(deep, tmp_path):
    report(f"--pprof={tmp_path}/out.pb.gz", deep)
    types, default, samples, mappings, fields = read_pprof(gzip.decompress((tmp_path / "out.pb.gz").read_bytes()))
    assert types == [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                     ("inuse_space", "bytes"), ("peak_space", "bytes")]
    assert default == "alloc_space"
    whole, sites = json.loads(deep.read_text()), sites_of(deep)
    for i, name in enumerate(("allocations", "allocated_bytes", "live_blocks", "live_bytes", "peak_live_bytes")):
        assert sorted(values[i] for _, values in samples) == sorted(site[name] for site in sites)
    named = [[(name, file.rsplit("/", 1)[-1], line) for name, file, line in stack] for stack, _ in samples]
    assert [("make_buffer", "varying.c", 19), ("make_buffer_deeper", "varying.c", 24), ("main", "varying.c", 41)] in named
    known = {(module["path"], module["build_id"]) for module in whole["modules"]}
    assert mappings and {mapping[2:] for mapping in mappings} <= known
    assert one(fields, 9) == whole["process"]["start_wall_ns"] and one(fields, 10) == whole["process"]["last_ns"]


def test_pprof_of_unnamed_places_and_odd_names_is_sound(evil, tmp_path):
    report(f"--pprof={tmp_path}/out.pb.gz", "--no-symbols", "--weight=live", evil)
    _, default, samples, _, _ = read_pprof(gzip.decompress((tmp_path / "out.pb.gz").read_bytes()))
    assert default == "inuse_space"
    assert all(re.search(r"\+0x[0-9a-f]+$", stack[0][0]) for stack, _ in samples)


# Perfetto

def test_perfetto_gets_each_devices_memory_and_hit_rate_over_time(runs, tmp_path):
    report(f"--perfetto={tmp_path}/out.json", *runs)
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert set(names) == {1, 2, 3} and names[1].startswith("varying, process ") and names[3].endswith("rank 1")
    series = {}
    for event in events:
        assert event["ph"] in "MC" and event["pid"] in names
        if event["ph"] == "C":
            assert event["ts"] >= 0 and all(value >= 0 for value in event["args"].values())
            series.setdefault((event["pid"], event["name"]), []).append(event)
    for one_series in series.values():
        times = [event["ts"] for event in one_series]
        assert times == sorted(times)
    first = json.loads(runs[0].read_text())
    memory, held = series[1, "device 0: memory (bytes)"], series[1, "device 0: held (bytes)"]
    samples = first["devices"][0]["samples"]
    assert [(e["args"]["in use"], e["args"]["idle"], e["args"]["waste"]) for e in memory] == [tuple(s[1:4]) for s in samples]
    assert [event["args"]["held"] for event in held] == [sum(sample[1:4]) for sample in samples]
    assert memory[-1]["ts"] - memory[0]["ts"] == pytest.approx((samples[-1][0] - samples[0][0]) / 1e3, abs=0.01)
    assert all(event["args"]["hit rate"] <= 100 for event in series[1, "device 0: hit rate (%)"])
    assert (3, "device 1: memory (bytes)") in series


# Programs that did not come to their end

def test_a_killed_program_has_every_view(tmp_path, tab):
    file = tmp_path / "killed"
    environment = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "LD_PRELOAD": str(LIBRARY),
                   "POOLCUDA_STATS_FILE": str(file)}
    with subprocess.Popen([str(PROGRAMS / "endless")], env=environment, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.kill()
    views = ("html", "flamegraph", "speedscope", "pprof", "perfetto")
    report(*(f"--{view}={tmp_path}/{view}" for view in views), file)
    assert "endless;" in (tmp_path / "flamegraph").read_text()
    assert json.loads((tmp_path / "speedscope").read_text())["profiles"][0]["endValue"] > 0
    assert read_pprof(gzip.decompress((tmp_path / "pprof").read_bytes()))[2]
    (tmp_path / "html").rename(tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    assert "running or killed" in tab.evaluate("document.getElementById('subtitle').textContent")
    assert tab.complaints() == []


# What goes wrong

def test_what_cannot_be_written_is_reported_in_one_line(deep, tmp_path):
    done = report(f"--html={tmp_path}/no/folder.html", deep, code=1)
    assert done.stderr == (f"poolcuda report: {tmp_path}/no/folder.html: No such file or directory; "
                           "expected a file that can be written\n")
    done = report("--speedscope=/dev/full", deep, code=1)
    assert done.stderr == ("poolcuda report: /dev/full: No space left on device; "
                           "expected a file that can be written\n")
    done = report("--flamegraph=-", "--weight=width", deep, code=2)
    assert "--weight=width: expected one of bytes|allocations|peak|live" in done.stderr


def test_several_views_are_written_at_once(deep, tmp_path):
    done = report(f"--html={tmp_path}/a", f"--perfetto={tmp_path}/b", "--flamegraph=-", deep)
    assert (tmp_path / "a").stat().st_size > 20000 and json.loads((tmp_path / "b").read_text())
    assert done.stdout.startswith("varying;")


# The page

@pytest.fixture(scope="module", name="tab")
def fixture_tab(tmp_path_factory):
    assert browser.NAME, "no Chromium: scripts/test installs one"
    tab = browser.Browser(tmp_path_factory.mktemp("browser"))
    yield tab
    tab.close()


@pytest.fixture(name="show")
def fixture_show(tab, tmp_path):
    """show(*files): opens the page of these reports; it must neither complain nor ask for anything."""
    def opener(*files, width=1200, scheme="light"):
        path = tmp_path / "page.html"
        report(f"--html={path}", *files)
        tab.screen(width, 900, scheme)
        tab.open(path)
        return tab
    yield opener
    assert tab.complaints() == []
    assert tab.requests() == [(tmp_path / "page.html").as_uri()]


def figures(tab, column):
    return tab.evaluate(f"[...document.querySelectorAll('#sites tbody tr')].map((row) => row.cells[{column}].textContent)")


def test_the_page_says_what_the_report_says(show, deep):
    tab, whole = show(deep), json.loads(deep.read_text())
    assert tab.evaluate("document.title").startswith("varying")
    told = tab.evaluate("document.querySelector('#equation').textContent")
    for name in ("in_use_bytes", "idle_bytes", "waste_bytes", "held_bytes"):
        assert f"{whole['counters'][name]:,} bytes" in told
    assert len(figures(tab, 0)) == len(whole["sites"])
    assert figures(tab, 0)[0].startswith("make_buffer varying.c:19called from ")
    assert tab.evaluate("document.querySelectorAll('#memory path').length") == 4, "three areas and a line"
    assert tab.evaluate("document.querySelectorAll('#map rect').length") >= len(whole["devices"][0]["map"]["blocks"])
    assert "POOLCUDA_FREE=sync" in tab.evaluate("document.querySelector('#waits').textContent")
    assert tab.evaluate("document.querySelector('#run-choice').offsetParent") is None, "there is nothing to choose"


def test_sites_are_sorted_by_any_column_both_ways(show, deep):
    tab = show(deep)
    assert tab.evaluate("document.querySelector('#sites th[aria-sort]').textContent") == "Peak"
    click = "document.querySelectorAll('#sites th button')[{}].click()"
    whole = sorted(site["allocations"] for site in sites_of(deep))
    tab.evaluate(click.format(1))
    assert [int(text) for text in figures(tab, 1)] == whole[::-1]
    tab.evaluate(click.format(1))
    assert [int(text) for text in figures(tab, 1)] == whole
    assert tab.evaluate("document.querySelector('#sites th[aria-sort=ascending]').textContent") == "Allocations"
    tab.evaluate(click.format(0))
    assert figures(tab, 0) == sorted(figures(tab, 0))
    tab.evaluate("sort.value = 2; sort.dispatchEvent(new Event('change'))")
    rates = [float(text.rstrip("%")) for text in figures(tab, 2)]
    assert rates == sorted(rates, reverse=True)


def test_sites_are_filtered_by_any_of_their_frames(show, deep):
    tab = show(deep)
    tab.evaluate("filter.value = 'BUFFER_deeper'; filter.dispatchEvent(new Event('input'))")
    assert len(figures(tab, 0)) == 1
    assert tab.evaluate("shown === choices[0] && document.getElementById('shown').textContent") == "1 of 5 sites"


def test_the_flame_graph_zooms_by_click_and_by_key(show, deep):
    tab = show(deep)
    labels = "[...document.querySelectorAll('.flame g')].map((g) => g.getAttribute('aria-label').split(',')[0])"
    boxes = tab.evaluate(labels)
    assert boxes[0] == "varying" and "make_buffer_deeper (varying.c:24)" in boxes
    tab.evaluate("document.querySelectorAll('.flame g')[1].dispatchEvent(new MouseEvent('click'))")
    zoomed = tab.evaluate(labels)
    assert zoomed[:2] == boxes[:2] and len(zoomed) < len(boxes)
    key = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{}', bubbles: true}}))"
    tab.evaluate(key.format("ArrowDown"))
    assert tab.evaluate("document.activeElement.getAttribute('aria-label').split(',')[0]") == zoomed[2]
    tab.evaluate("document.getElementById('zoom-out').click()")
    assert tab.evaluate(labels) == boxes
    tab.evaluate("weight.value = 'live'; weight.dispatchEvent(new Event('change'))")
    assert "No site has any." in tab.evaluate("document.querySelector('#flame').textContent")


def test_charts_tell_their_values_to_pointer_and_keyboard(show, deep):
    tab, samples = show(deep), json.loads(deep.read_text())["devices"][0]["samples"]
    for part in ("memory", "hits", "map"):
        tab.evaluate(f"document.querySelector('#{part} svg').focus()")
        tab.evaluate("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))")
        assert tab.evaluate(f"document.querySelector('#{part} .tip').hidden") is False
    assert tab.evaluate("document.querySelectorAll('#memory .tip tr').length") == 4
    bounds = tab.evaluate("(() => { const chart = document.querySelector('#memory svg'); chart.scrollIntoView(); "
                          "const box = chart.getBoundingClientRect(); return [box.right - 12, box.top + 40]; })()")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=bounds[0], y=bounds[1])
    told = tab.evaluate("document.querySelector('#memory .tip').textContent")
    held = sum(samples[-1][1:4])
    assert f"held{held / 2**20:.1f} MiB" in told


def test_a_run_is_chosen_for_the_charts(show, runs):
    tab = show(*runs)
    assert tab.evaluate("document.querySelectorAll('#runs tbody tr').length") == 3
    assert "choose a run" in tab.evaluate("document.querySelector('#memory').textContent")
    before = len(figures(tab, 0))
    tab.evaluate("run.value = 3; run.dispatchEvent(new Event('change'))")
    assert tab.evaluate("document.querySelectorAll('#memory svg').length") == 2, "one for each device"
    assert 0 < len(figures(tab, 0)) < before
    tab.evaluate("document.querySelectorAll('#runs .link')[0].click()")
    assert tab.evaluate("document.getElementById('title').textContent") == "varying"
    assert tab.evaluate("document.querySelectorAll('#memory svg').length") == 1


def make_ranks(folder, one, count, apart=0):
    """Ranks that hold the more the higher they are, in the last third of their time."""
    page = json.loads(one.read_text())
    end, start = page["process"]["last_ns"], page["process"]["start_wall_ns"]
    for rank in range(count):
        page["process"].update(rank=rank, host="node", start_wall_ns=start + rank * apart)
        page["devices"][0]["samples"] = [[0, 1 << 20, 0, 0, 1, 0], [end * 2 // 3, (rank + 1) << 20, 0, 0, 2, 0]]
        (folder / f"r.{rank:04}").write_text(json.dumps(page))
    return folder


# The cells of the heat map that a run has, by the held bytes that they tell.
CELLS = "heatMap(about.runs).rows.map((row) => row.cells.map((cell) => cell ? Math.round(cell.held / 2 ** 20) : -1))"


def test_ranks_are_shown_over_time_in_a_heat_map(show, deep, tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    tab = show(make_ranks(folder, deep, 5))
    rows = tab.evaluate(CELLS)
    assert [row[0] for row in rows] == [1] * 5 and [row[-1] for row in rows] == [1, 2, 3, 4, 5]
    assert abs(rows[4].index(5) - len(rows[4]) * 2 / 3) <= 3
    paint = ("(() => { const canvas = document.querySelector('#ranks canvas'); "
             "const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true }); "
             "copy.drawImage(canvas, 0, 0); return [0, 4].map((row) => copy.getImageData(canvas.width - 1, row, 1, 1).data[3]); })()")
    weak, strong = tab.evaluate(paint)
    assert strong == 255 and 0 < weak < 100, "the more is held the fuller the colour"
    tab.evaluate("document.querySelector('#ranks canvas').focus()")
    for key in ["ArrowDown"] * 4 + ["ArrowRight"]:
        tab.evaluate(f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
    told = tab.evaluate("document.querySelector('#ranks .tip').textContent")
    assert "rank 4" in told and "MiB held" in told
    tab.evaluate("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
    assert tab.evaluate("shown.run") == 4, "Enter chooses the run"


def test_ranks_that_begin_later_are_shown_later_and_runs_far_apart_from_their_beginnings(show, deep, tmp_path):
    late, far = tmp_path / "late", tmp_path / "far"
    late.mkdir()
    far.mkdir()
    end = json.loads(deep.read_text())["process"]["last_ns"]
    rows = show(make_ranks(late, deep, 2, apart=end)).evaluate(CELLS)
    assert rows[0][0] == 1 and rows[0][-1] == -1 and rows[1][0] == -1 and rows[1][-1] == 2
    rows = show(make_ranks(far, deep, 2, apart=100 * end)).evaluate(CELLS)
    assert rows[0][0] == rows[1][0] == 1


def test_many_ranks_share_rows_which_show_the_one_that_held_most(show, deep, tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    tab = show(make_ranks(folder, deep, 600))
    rows = tab.evaluate(CELLS)
    assert len(rows) == 200 and [rows[i][-1] for i in (0, 1, 199)] == [3, 6, 600]
    assert "3 runs" in tab.evaluate("document.querySelector('#ranks').textContent")


def test_a_single_run_has_no_heat_map(show, deep):
    assert show(deep).evaluate("document.getElementById('ranks').hidden") is True


@pytest.mark.parametrize("width", [360, 390, 800, 1600])
def test_the_page_never_scrolls_sideways(show, runs, width):
    tab = show(*runs, width=width)
    for choice in range(4):
        tab.evaluate(f"choose(choices[{choice}])")
        assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_names_from_the_report_are_text_and_never_markup(show, evil):
    tab = show(evil)
    assert tab.evaluate("document.title").startswith("<\u2215script><script>")
    assert tab.evaluate("document.getElementById('title').children.length") == 0
    assert tab.evaluate("document.querySelectorAll('script').length") == 2


def test_many_sites_and_a_long_run_are_shown(show, deep, tmp_path):
    whole = json.loads(deep.read_text())
    one_site = whole["sites"][0]
    whole["sites"] = [dict(one_site, id=i, live_blocks=1, live_bytes=1024, frames=[{"module": 1, "offset": 16 * i}])
                      for i in range(1, 1001)]
    whole["counters"].update(in_use_bytes=1024000, live_blocks=1000)
    device, hours = whole["devices"][0], 3600 * 10**9
    last = device["samples"][-1][0]
    device["samples"] = [[sample[0] * 6 * hours // last, *sample[1:]] for sample in device["samples"]]
    whole["process"]["last_ns"] = 6 * hours
    (tmp_path / "many.json").write_text(json.dumps(whole))
    tab = show(tmp_path / "many.json", width=390)
    assert len(figures(tab, 0)) == 300
    tab.evaluate("document.querySelector('#sites .more').click()")
    assert len(figures(tab, 0)) == 1000
    assert "Leaked at exit1000.0 KiB1,000 blocks" in tab.evaluate("document.querySelector('#equation').textContent")
    assert "6 h 0 min" in tab.evaluate("document.getElementById('subtitle').textContent")
    labels = tab.evaluate("[...document.querySelectorAll('#memory text')].map((text) => text.textContent)")
    assert "2 h" in labels and "0 h" in labels
    assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def brightness(colour):
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


def picture(tab):
    """Rows of the screen as bytes, unfiltered."""
    data = base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"])
    parts, at = b"", 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        parts += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return zlib.decompress(parts)


def test_dark_and_light_follow_the_system_and_can_be_read(show, deep):
    tab = show(deep)
    style = "getComputedStyle(document.body).{}"
    colours = {}
    for scheme in ("light", "dark"):
        tab.screen(1200, 900, scheme)
        ground, ink = (brightness(tab.evaluate(style.format(name))) for name in ("backgroundColor", "color"))
        colours[scheme] = ground
        assert abs(ground - ink) > 150
        assert len(set(picture(tab))) > 50, "there is something on the screen"
    assert colours["light"] > 200 and colours["dark"] < 60


def test_paper_gets_light_colours_and_no_controls(show, deep):
    tab = show(deep)
    tab.screen(800, 1100, "dark", media="print")
    assert brightness(tab.evaluate("getComputedStyle(document.body).backgroundColor")) == 255
    assert tab.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
