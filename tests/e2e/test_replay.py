"""poolcuda replay: figures that add up and come out the same each time, and one line for what is wrong."""

import collections
import csv
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import pytest
from conftest import COMMAND, DRIVER, LIBRARY, ROOT, SAMPLES

sys.path.append(str(ROOT / "tests/bench"))
import policies  # noqa: E402: the limits that scripts/bench prints

DATA = ROOT / "tests/data"
HEADER = "t_us,op,id,size,stream,site"
MGPU, MOE, SSIM = (DATA / f"{name}.csv.gz" for name in ("mgpu_reduce", "moe-align", "ssim"))
PRESETS = ["default", "futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]
NUMBERS = ["allocations", "frees", "hits", "driver_allocs", "driver_frees", "map_calls",
           "peak_live_bytes", "peak_held_bytes", "oom_failures", "waits", "memory"]
FRACTIONS = ["hit_rate", "fragmentation", "worst_held_ratio", "modelled_seconds", "host_seconds"]


def command(*arguments, env=None):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    environment.update(env or {})
    return subprocess.run([COMMAND, *map(str, arguments)], env=environment, capture_output=True,
                          text=True, check=False)


def replay(trace, *arguments, env=None):
    """The JSON object of a replay that went well."""
    done = command("replay", "--json", *arguments, trace, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def figures(result, *without):
    """What must be the same each time: all but the time that this machine took."""
    return {name: value for name, value in result.items()
            if name not in ("host_seconds", "trace", *without)}


def row(*fields):
    return ",".join(map(str, fields))


# --- figures ---

@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("memory", ["40M", "16G"])
def test_the_figures_of_each_preset_add_up(preset, memory):
    for trace in (MGPU, MOE):
        result = replay(trace, "--preset", preset, "--memory", memory)
        assert (result["kind"], result["version"], result["gpu"]) == ("poolcuda-replay", 1, False) and result["simulated"] is True
        assert result["trace"] == str(trace) and result["options"] == f"POOLCUDA_PRESET={preset}"
        assert all(isinstance(result[name], int) and result[name] >= 0 for name in NUMBERS)
        assert all(isinstance(result[name], float) and result[name] >= 0 for name in FRACTIONS)
        served = result["allocations"] - result["oom_failures"]
        assert result["frees"] == served  # these traces free all they have
        assert result["hits"] <= served <= result["hits"] + result["driver_allocs"]
        assert result["hit_rate"] == pytest.approx(result["hits"] / result["allocations"])
        assert result["driver_frees"] <= result["driver_allocs"]
        assert result["peak_live_bytes"] <= result["peak_held_bytes"] <= result["memory"]
        assert result["modelled_seconds"] > 0


@pytest.mark.parametrize("preset", ["default", "futhark", "pyopencl"])
def test_each_miss_of_whole_blocks_is_one_driver_allocation(preset):
    result = replay(MGPU, "--preset", preset)
    assert result["hits"] + result["driver_allocs"] == result["allocations"] == 6434
    assert result["map_calls"] == result["oom_failures"] == 0


def test_the_peak_is_the_traces_own():
    live = peak = 0
    sizes = {}
    with gzip.open(MGPU, "rt") as lines:
        for event in csv.DictReader(lines):
            if event["op"] == "A":
                sizes[event["id"]] = int(event["size"])
                live += sizes[event["id"]]
                peak = max(peak, live)
            elif event["op"] == "F":
                live -= sizes.pop(event["id"])
    assert replay(MGPU)["peak_live_bytes"] == peak


def test_figures_of_a_trace_small_enough_to_count_by_hand(tmp_path):
    trace = tmp_path / "small.csv"
    trace.write_text("\n".join([HEADER, row(0, "A", 1, 4 << 20, 0, "x"), row(1, "F", 1, "", "", ""),
                                row(2, "A", 2, 4 << 20, 0, "x"), row(3, "A", 3, 4 << 20, 0, "x"),
                                row(4, "F", 3, "", "", "")]) + "\n")
    result = replay(trace)
    assert (result["allocations"], result["frees"], result["hits"]) == (3, 2, 1)
    assert result["driver_allocs"] == 2 and result["hit_rate"] == pytest.approx(1 / 3)
    assert result["peak_live_bytes"] == result["peak_held_bytes"] == 8 << 20
    assert result["worst_held_ratio"] == pytest.approx(8 / (8 + 64))


@pytest.mark.parametrize("trace", [MGPU, MOE, SSIM, DATA / "segment-reduce.csv.gz"], ids=lambda path: path.name.split(".")[0])
def test_a_replay_decides_as_the_preloaded_library_does(trace, run, tmp_path):
    assert run([SAMPLES / "trace_player", trace], stats=False, env={"POOLCUDA_STATS_FILE": str(tmp_path / "run.json")}).code == 0
    preloaded, replayed = json.loads((tmp_path / "run.json").read_text())["counters"], replay(trace)
    assert [preloaded[name] for name in ("malloc_hits", "driver_allocs", "driver_frees")] == [
        replayed[name] for name in ("hits", "driver_allocs", "driver_frees")]


def test_an_empty_trace_is_a_trace(tmp_path):
    (tmp_path / "empty.csv").write_text(HEADER + "\n")
    result = replay(tmp_path / "empty.csv")
    assert result["allocations"] == result["peak_held_bytes"] == result["hit_rate"] == 0
    assert "0 allocations" in command("replay", tmp_path / "empty.csv").stdout


@pytest.mark.parametrize("preset", PRESETS)
def test_two_replays_have_the_same_figures(preset):
    for trace in (MGPU, SSIM):
        for memory in ("16M", "80G"):
            for mode in ("auto", "defer"):
                one, other = (figures(replay(trace, "--preset", preset, "--memory", memory, "--free", mode))
                              for _ in range(2))
                assert one == other


def test_the_text_has_the_same_figures():
    result, text = replay(MGPU), command("replay", MGPU).stdout
    assert f"{MGPU}, policy site:\n" in text
    assert f"  {result['allocations']} allocations, {100 * result['hit_rate']:.2f}% served" in text
    assert (f"  {result['driver_allocs']} driver allocations, {result['driver_frees']} driver frees, "
            f"0 map and unmap calls, {result['waits']} waits\n") in text
    assert f"held at most {result['worst_held_ratio']:.3f} x (peak requested + 64 MiB)" in text
    assert "failed" not in text


# --- native, and devices that are too small ---

def test_without_the_pool_every_allocation_is_the_drivers():
    result = replay(MGPU, "--native")
    assert (result["hits"], result["hit_rate"], result["oom_failures"]) == (0, 0, 0)
    assert result["driver_allocs"] == result["driver_frees"] == result["allocations"]
    assert result["waits"] == result["frees"]
    assert result["peak_held_bytes"] == result["peak_live_bytes"]
    assert f"{MGPU}, policy none:" in command("replay", "--native", MGPU).stdout


@pytest.mark.parametrize("memory", ["2M", "16M", "64M"])
def test_on_a_device_that_is_too_small_no_preset_fails_more_often_than_without_the_pool(memory):
    native = replay(MGPU, "--native", "--memory", memory)
    assert native["oom_failures"] > 0
    # pyopencl rounds up and bfc may leave gaps: docs/policies.md.
    for preset in ("default", "futhark", "vmm"):
        pooled = replay(MGPU, "--preset", preset, "--memory", memory)
        assert 0 < pooled["oom_failures"] <= native["oom_failures"], preset


def test_a_full_device_is_given_back_whole_pages_where_a_bin_is_none(tmp_path):
    """A bin of 17 MiB takes 18 MiB of the driver: less given back, and all that is idle would follow."""
    sizes = [(16 << 20) - 1, (1 << 20) - 1, (1 << 20) - 1, *[(256 << 10) - 1] * 4]
    rows = [row(i, "A", i, size, 0, "x") for i, size in enumerate(sizes)] + [row(9, "F", i, "", "", "") for i in range(len(sizes))]
    rows += [row(10, "A", 10, 33 << 19, 0, "x"), *(row(11, "A", 11 + i, sizes[-1], 0, "x") for i in range(4))]
    (tmp_path / "bins.csv").write_text("\n".join([HEADER, *rows, ""]))
    result = replay(tmp_path / "bins.csv", "--preset=pyopencl", "--throttle-ratio=0", env={"SIMCUDA_COUNTED_MEMORY": "19968K"})
    assert (result["hits"], result["driver_frees"], result["oom_failures"]) == (4, 3, 0)


def test_bfc_takes_a_device_without_a_whole_page_as_one_region(tmp_path):
    """As TensorFlow's does. Such a device is for comparison alone; a region for each request would leave its blocks nothing to merge with."""
    rows = [row(i, "A", i, 100 << 10, 0, "x") for i in range(8)] + [row(8, "F", i, "", "", "") for i in range(8)] + [row(9, "A", 8, 900 << 10, 0, "x")]
    (tmp_path / "small.csv").write_text("\n".join([HEADER, *rows, ""]))
    result = replay(tmp_path / "small.csv", "--preset=bfc", env={"SIMCUDA_COUNTED_MEMORY": "1M"})
    assert (result["driver_allocs"], result["hits"], result["oom_failures"]) == (1, 8, 0)


@pytest.mark.parametrize("preset, size, calls", [
    ("pytorch", "auto", 6), ("pytorch", "64M", 2), ("pytorch", "3%", 4), ("pytorch", "1", 42), ("pytorch", "1T", 1),
    ("pytorch-expandable", "auto", 6), ("pytorch-expandable", "64M", 2), ("pytorch-expandable", "1", 51), ("bfc", "64M", 6)])
def test_the_size_of_segments_is_what_the_driver_is_asked_for_at_once(preset, size, calls, tmp_path):
    """40 blocks of 1.5 MiB; and one of 22 MiB and one of 20 MiB, which have segments of their own up to twice their size. An eighth of the device is 128 MiB."""
    rows = [row(i, "A", i, megabytes << 19, 0, "x") for i, megabytes in enumerate([3] * 40 + [44, 40])]
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *rows, ""]))
    assert replay(tmp_path / "t.csv", "--preset", preset, "--segment-size", size, "--memory=1G")["driver_allocs"] == calls


def test_failed_allocations_are_reported_and_are_no_error():
    done = command("replay", "--memory", "16M", MGPU)
    failures = replay(MGPU, "--memory", "16M")["oom_failures"]
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  {failures} allocations failed: the device is too small\n" in done.stdout


# --- the pool's options ---

@pytest.mark.parametrize("name, value", [
    ("POLICY", "bfc"), ("PRESET", "vmm"), ("REUSE_RATIO", "1.001"), ("MAX_IDLE", "5M"),
    ("SITE_KEEP", "1"), ("STEAL", "0"), ("FREE", "sync"), ("MAX_WASTE", "1K")])
def test_an_argument_does_what_its_variable_does(name, value):
    argument = f"--{name.lower().replace('_', '-')}"
    by_argument = replay(MGPU, argument, value)
    by_variable = replay(MGPU, env={f"POOLCUDA_{name}": value})
    assert figures(by_argument) == figures(by_variable)
    assert by_argument["options"] == f"POOLCUDA_{name}={value}"
    assert figures(by_argument, "options") != figures(replay(MGPU), "options")


def test_an_argument_wins_over_its_variable():
    for env, arguments in (({"POOLCUDA_POLICY": "vmm"}, ["--policy", "bfc"]),
                           ({"POOLCUDA_PRESET": "pyopencl"}, ["--preset=bfc"]),
                           ({"POOLCUDA_REUSE_RATIO": "nonsense"}, ["--reuse-ratio", "1.25"])):
        assert figures(replay(MGPU, *arguments, env=env)) == figures(replay(MGPU, *arguments))


def test_an_option_beside_a_preset_overrides_it():
    both = replay(MGPU, "--preset", "bfc", "--max-idle", "5M")
    assert both["peak_held_bytes"] < replay(MGPU, "--preset", "bfc")["peak_held_bytes"]
    assert both["options"] == "POOLCUDA_PRESET=bfc POOLCUDA_MAX_IDLE=5M"


def test_what_concerns_the_preloaded_library_alone_changes_nothing(tmp_path):
    env = {"POOLCUDA_STATS": "1", "POOLCUDA_STATS_FILE": str(tmp_path / "stats"),
           "POOLCUDA_TRACE": str(tmp_path / "trace"), "POOLCUDA_LOG": str(tmp_path / "log"),
           "POOLCUDA_DISABLE": "1"}
    assert figures(replay(MOE, env=env)) == figures(replay(MOE))
    assert not list(tmp_path.iterdir())


def test_settings_of_the_simulated_gpu_for_other_runs_do_not_matter(tmp_path):
    env = {"SIMCUDA_MEMORY": "2M", "SIMCUDA_COST": "0", "SIMCUDA_REPORT": str(tmp_path / "report"),
           "SIMCUDA_DEVICES": "5"}
    assert figures(replay(MOE, env=env)) == figures(replay(MOE))
    assert not list(tmp_path.iterdir())


# --- formats ---

def events(trace):
    with gzip.open(trace, "rt") as lines:
        return list(csv.DictReader(lines))


def write_raw(path, rows):
    """The raw format of docs/traces.md; sites are free text."""
    kinds = {"A": 1, "F": 2, "K": 4, "C": 5, "S": 6, "D": 7}
    data = bytearray(struct.pack("<16sIIIIQQ16x", b"poolcuda trace\n\0", 1, 64, 1, 4711, 0, 0))
    sites = {"": 0}
    for event in rows:
        name = event["site"]
        if name not in sites:
            sites[name] = len(sites)
            text = name.encode()
            data += struct.pack("<BBHI", 34, 0, 0, len(text)) + text + bytes(-len(text) % 8)
        pointer = int(event["id"]) * 512 + 4096 if event["id"] else 0
        value = int(float(event["size"] or 0) * (1000 if event["op"] == "K" else 1))
        data += struct.pack("<BBHIQQQQ", kinds[event["op"]], 0, 0, sites[name],
                            int(float(event["t_us"]) * 1000), pointer, value,
                            int(event["stream"] or 0) * 4096)
    data += struct.pack("<BBHIQ", 35, 0, 0, 0, 0)
    path.write_bytes(data)


def write_rmm(path, rows):
    sizes = {event["id"]: event["size"] for event in rows if event["op"] == "A"}
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for event in rows:
        action = {"A": "allocate", "F": "free"}[event["op"]]
        lines.append(row(1, f"{float(event['t_us']) / 1e6:.9f}", action,
                         hex(int(event["id"]) * 512 + 4096), sizes[event["id"]],
                         hex(int(event["stream"] or 0) * 4096)))
    path.write_text("\n".join(lines) + "\n")


def write_csv(path, rows):
    path.write_text("\n".join([HEADER, *(row(*event.values()) for event in rows)]) + "\n")


def test_compressed_and_raw_traces_have_the_figures_of_the_plain_csv(tmp_path):
    rows = events(MOE)
    assert collections.Counter(event["op"] for event in rows)["K"] > 0
    write_csv(tmp_path / "plain", rows)
    write_raw(tmp_path / "raw", rows)
    with gzip.open(tmp_path / "gzip", "wb") as packed:
        packed.write((tmp_path / "plain").read_bytes())
    assert command("convert", tmp_path / "plain", tmp_path / "it.zst").returncode == 0
    shutil.move(tmp_path / "it.zst", tmp_path / "zstd")  # the name does not matter
    plain = figures(replay(tmp_path / "plain"))
    assert plain == figures(replay(MOE))
    for name in ("gzip", "zstd", "raw"):
        assert figures(replay(tmp_path / name)) == plain, name


def test_an_rmm_log_has_the_figures_of_the_csv_of_the_same_requests(tmp_path):
    rows = [dict(event, site="") for event in events(MGPU) if event["op"] in "AF"]
    write_csv(tmp_path / "plain", rows)
    write_rmm(tmp_path / "rmm", rows)
    for preset in PRESETS:
        assert figures(replay(tmp_path / "rmm", "--preset", preset)) == figures(
            replay(tmp_path / "plain", "--preset", preset))


def test_a_trace_of_several_devices_has_that_many(tmp_path):
    (tmp_path / "two.csv").write_text("\n".join(
        [f"{HEADER},device", row(0, "A", 1, 3 << 20, "", "", 0), row(1, "A", 2, 3 << 20, "", "", 1),
         row(2, "F", 1, "", "", "", ""), row(3, "A", 3, 3 << 20, "", "", 1)]) + "\n")
    result = replay(tmp_path / "two.csv", "--memory", "4M")
    assert (result["hits"], result["driver_allocs"], result["oom_failures"]) == (0, 2, 1)


def test_more_devices_than_there_can_be_are_reported_in_one_line(tmp_path):
    (tmp_path / "many.csv").write_text(f"{HEADER},device\n0,A,1,8,,,9\n")
    done = command("replay", tmp_path / "many.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"poolcuda replay: {tmp_path / 'many.csv'}: event 1 is on device 9; expected devices from 0 to 7, nothing was replayed\n")


@pytest.mark.parametrize("words", [["replay", "PIPE"], ["tune", "PIPE"], ["convert", "PIPE", "-"], ["compare", "RESULT", "PIPE"]], ids=lambda words: words[0])
def test_who_waits_for_a_pipe_is_told_so(words, tmp_path):
    (tmp_path / "trace").write_text(f"{HEADER}\n0,A,1,8,,\n")
    (tmp_path / "result").write_text(command("replay", "--json", tmp_path / "trace").stdout)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    places = {"PIPE": str(pipe), "RESULT": str(tmp_path / "result")}
    with subprocess.Popen([COMMAND, *(places.get(word, word) for word in words)], env=dict(os.environ), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        assert reader.stderr.readline() == f"poolcuda {words[0]}: {pipe}: no regular file; waiting for the end of what is read\n"
        pipe.write_text((tmp_path / ("result" if words[0] == "compare" else "trace")).read_text())
        out, err = reader.communicate()
    assert reader.returncode == 0 and out and not err


# --- what is wrong ---

def assert_one_line(done, code, line):
    assert (done.returncode, done.stdout, done.stderr) == (code, "", line + "\n")


def test_a_missing_file_is_reported_in_one_line(tmp_path):
    assert_one_line(command("replay", tmp_path / "absent"), 1,
                    f"poolcuda replay: {tmp_path}/absent: No such file or directory, "
                    "expected a readable trace")


@pytest.mark.parametrize("line, said", [
    ("1,A,2,many,,", 'size "many", expected a whole number of bytes'),
    ("1,X,2,8,,", 'operation "X", expected A, F, K, C, S or D'),
    ("1,F,2,,,", "free of 2, expected the id of a live block"),
    ("1,A,1", f"expected 6 fields: {HEADER}")])
def test_a_malformed_line_is_reported_with_its_number_and_what_was_expected(tmp_path, line, said):
    trace = tmp_path / "bad.csv"
    trace.write_text(f"{HEADER}\n0,A,1,8,,\n{line}\n")
    assert_one_line(command("replay", trace), 1, f"poolcuda replay: {trace}:3: {said}")


@pytest.mark.parametrize("option, value, said", [
    ("--reuse-ratio", "x", 'POOLCUDA_REUSE_RATIO="x": expected a number from 1 to 16'),
    ("--policy", "best", 'POOLCUDA_POLICY="best": expected one of site|tag|bins|bfc|segments|async|vmm|expandable'),
    ("--max-idle", "lots", 'POOLCUDA_MAX_IDLE="lots": expected auto, a size such as 64M or a share '
                           "such as 5%")])
def test_a_bad_value_of_an_option_is_reported_in_one_line(option, value, said):
    name = "POOLCUDA_" + option[2:].upper().replace("-", "_")
    assert_one_line(command("replay", option, value, MOE), 2, f"poolcuda: {said}")
    assert_one_line(command("replay", MOE, env={name: value}), 2, f"poolcuda: {said}")


def test_a_variable_that_is_no_option_is_reported_and_ignored():
    done = command("replay", "--json", MOE, env={"POOLCUDA_POLICI": "bfc"})
    assert done.returncode == 0
    assert done.stderr == ("poolcuda: POOLCUDA_POLICI: unknown option, did you mean POOLCUDA_POLICY? "
                           "Ignored\n")
    assert figures(json.loads(done.stdout)) == figures(replay(MOE))


def test_a_gpu_that_is_the_simulated_one_is_told():
    """Where its driver is the libcuda.so.1 that is found, --gpu is no measurement."""
    env = {"LD_LIBRARY_PATH": str(DRIVER)}
    result = replay(MGPU, "--gpu", env=env)
    assert (result["gpu"], result["simulated"]) == (True, True) and "memory" not in result
    tuned = json.loads(command("tune", "--json", "--gpu", MGPU, env=env).stdout)
    assert {(one["gpu"], one["simulated"]) for one in (tuned["native"], *tuned["settings"])} == {(True, True)}
    line = "the GPU is the simulated one: the libcuda.so.1 that is found here is its driver"
    for name in ("replay", "tune"):
        shown = command(name, "--gpu", MGPU, env=env)
        assert (shown.returncode, shown.stderr) == (0, "") and line in map(str.strip, shown.stdout.splitlines())
        assert line not in command(name, MGPU, env=env).stdout


@pytest.mark.parametrize("memory", ["16777216", "16777216B", "16384k", "16M", "16m", "16MB", "16MiB", "16mib", "0.015625G"])
def test_a_size_is_written_as_in_the_options_of_the_library(memory):
    result, by_option = replay(MGPU, "--memory", memory), replay(MGPU, "--max-idle", memory)
    assert result["memory"] == 16 << 20
    assert figures(by_option, "options") == figures(replay(MGPU, "--max-idle", 16 << 20), "options")


@pytest.mark.parametrize("memory", ["", "x", "0", "-1G", "1M", "5T", "16X", "16Gi", "16iB", "16GBB", "nan", "inf"])
def test_a_bad_size_of_memory_is_bad_usage(memory):
    done = command("replay", f"--memory={memory}", MOE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f'poolcuda replay: --memory: "{memory}": expected a size from 2M to 4T, such as 80G\n')


@pytest.mark.parametrize("arguments, said", [
    ([MOE, "--fast"], "unrecognized option '--fast'"), ([MOE, MGPU], f"{MGPU}: expected one FILE only"),
    ([MOE, "--site-depth", "2"], "unrecognized option '--site-depth'"), ([], "poolcuda replay: no FILE given, expected a trace, such as POOLCUDA_TRACE makes")])
def test_bad_usage_is_reported_with_a_code_of_its_own(arguments, said):
    done = command("replay", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[0]


# --- how good the pool is ---

@pytest.mark.parametrize("memory", policies.SIZES)
@pytest.mark.parametrize("name", policies.LIMITS)
def test_enough_is_served_from_little_idle_memory(name, memory):
    trace = policies.traces().get(name) or pytest.skip(
        f"the trace {name} is neither in the repository nor beside it: put it into ../shared/traces")
    for preset, limit in zip(("default", "vmm"), policies.LIMITS[name]):
        result = replay(trace, "--preset", preset, "--memory", memory)
        assert result["oom_failures"] == 0
        assert policies.meets(result, limit), preset


# trace: calls of the driver's by `vmm`, and the most that it may hold of (peak requested + 64 MiB): no more than PyTorch's expandable
# segments on the second axis, and for the larger ones on both.
CHUNKS = {"pytorch-train-v100": (161, 1.0155), "mindspore-pangu-2.6b": (317, 1.181), "segment-reduce": (110, 0.9754),
          "mgpu_reduce": (40, 0.7047), "ssim": (9, 0.4612), "moe-align": (3, 0.0313)}


@pytest.mark.parametrize("memory", policies.SIZES)
@pytest.mark.parametrize("name", CHUNKS)
def test_mapped_memory_comes_in_few_chunks_and_little_of_it_is_idle(name, memory):
    trace = policies.traces().get(name) or pytest.skip(
        f"the trace {name} is neither in the repository nor beside it: put it into ../shared/traces")
    result = replay(trace, "--preset", "vmm", "--memory", memory)
    calls, held = CHUNKS[name]
    assert result["driver_allocs"] + result["driver_frees"] + result["map_calls"] <= calls
    assert result["worst_held_ratio"] <= held


@pytest.mark.parametrize("memory", policies.SIZES)
@pytest.mark.parametrize("name", ["pytorch-train-v100", "mindspore-pangu-2.6b", "mindspore-resnet50"])
def test_no_preset_takes_less_modelled_time_than_mapped_memory(name, memory):
    trace = policies.traces().get(name) or pytest.skip(
        f"the trace {name} is neither in the repository nor beside it: put it into ../shared/traces")
    times = {preset: replay(trace, "--preset", preset, "--memory", memory)["modelled_seconds"] for preset in policies.PRESETS}
    assert min(times, key=times.get) == "vmm", times


@pytest.mark.parametrize("arguments", [["replay", "--json"], ["replay", "--json", "--native"], ["tune", "--json"]])
def test_a_replay_is_not_pooled_where_the_library_is_preloaded_for_a_whole_shell(arguments, tmp_path):
    trace = ROOT / "tests/data/segment-reduce.csv.gz"

    def told(preload):
        done = subprocess.run([COMMAND, *arguments, trace], capture_output=True, text=True, check=True, cwd=tmp_path,
                              env={"PATH": "/usr/bin:/bin", "LD_PRELOAD": preload, "POOLCUDA_STATS_FILE": "figures.%p"})
        return re.sub(r'"host_seconds": [^,\n]*', "", done.stdout)

    assert told(str(LIBRARY)) == told("") == told(f"{LIBRARY}:libm.so.6")
    assert not list(tmp_path.iterdir())
