"""poolcuda report: any number of runs in, one report out; bad files are reported in one line each."""

import gzip
import json
import os
import pty
import re
import resource
import shutil
import subprocess

import guard
import pytest
from conftest import COMMAND, PROGRAMS, ROOT, SAMPLES


def report(*arguments, code=0, **settings):
    done = guard.run([COMMAND, "report", *map(str, arguments)], capture_output=True, text=True,
                     check=False, **settings)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def listed_ranks(shown):
    """The ranks of the runs in a report's list, in its order."""
    return [line.split()[0] for line in shown.splitlines() if ".json.rank" in line and "with " not in line]


@pytest.fixture(name="record")
def fixture_record(run, tmp_path):
    """record(program, name, **variables): the file of its JSON report."""
    def recorder(program, name, **variables):
        path = tmp_path / name
        result = run(program, env={"POOLCUDA_STATS": "0", "POOLCUDA_STATS_FILE": str(path), **variables})
        assert result.code == 0
        return path
    return recorder


def test_a_run_read_back_prints_what_the_program_would_have_printed(run, record):
    shown = report("--no-symbols", record(PROGRAMS / "driver_linked", "one.json")).stdout
    text = run(PROGRAMS / "driver_linked").stats

    def figures(of):  # without process, time, options, and what took time: each run's own
        return of.split("\n\n", 2)[2].strip()
    assert figures(shown).startswith(figures(text))
    assert shown.splitlines()[-1] == f"next: {COMMAND} run --trace=app.trace -- {PROGRAMS / 'driver_linked'}"


def test_the_json_of_a_report_is_the_report_and_can_be_read_again(record, tmp_path):
    file = record(SAMPLES / "varying", "one.json")
    again = report("--json", "--no-symbols", file).stdout
    assert json.loads(again) == json.loads(file.read_text())
    again = report("--json", file).stdout
    assert all("varying.c:" in frame["name"] for site in json.loads(again)["sites"] for frame in site["frames"])
    (tmp_path / "again.json").write_text(again)
    assert report(tmp_path / "again.json").stdout == report(file).stdout


def test_a_site_of_several_kinds_of_memory_is_mixed_however_often_it_is_read(record, tmp_path):
    file = record(SAMPLES / "varying", "device.json")
    for memory in ("host", "managed"):
        told = json.loads(file.read_text())
        assert {site["memory"] for site in told["sites"]} == {"device"}
        told["sites"][0]["memory"] = memory
        (tmp_path / f"{memory}.json").write_text(json.dumps(told))

    def kinds(*files):
        (tmp_path / "sum.json").write_text(report("--json", *files).stdout)
        return sorted(site["memory"] for site in json.loads((tmp_path / "sum.json").read_text())["sites"])
    alone = kinds(file)
    for others in (["host.json"], ["managed.json"], ["host.json", "managed.json"], ["host.json", "host.json"]):
        mixed = kinds(file, *(tmp_path / other for other in others))
        assert mixed == [*alone[1:], "mixed"]
        assert kinds(tmp_path / "sum.json") == mixed, "and is still, when that is read"
        assert kinds(tmp_path / "sum.json", file) == mixed
    assert kinds(tmp_path / "host.json", tmp_path / "host.json") == [*alone[1:], "host"]


def test_runs_are_added_up_and_each_gets_a_line(record):
    files = [record(SAMPLES / "varying", f"{i}.json", PMIX_RANK=str(i)) for i in range(3)]
    files = [file.with_name(f"{file.name}.rank{i}") for i, file in enumerate(files)]
    one, merged = json.loads(files[0].read_text()), json.loads(report("--json", *files).stdout)
    assert merged["runs"] == 3
    for name in ("malloc_calls", "free_calls"):
        assert merged["counters"][name] == 3 * one["counters"][name]
    assert len(merged["sites"]) == len(one["sites"]), "a site of all runs is one site"
    assert sum(s["allocations"] for s in merged["sites"]) == merged["counters"]["malloc_calls"]
    shown = report(*files).stdout
    assert ", 3 runs on " in shown
    assert len(listed_ranks(shown)) == 3
    separate = report("--each", *files).stdout
    assert separate.count("held from the driver") == 3


def test_reports_one_by_one_as_json_are_a_list_that_is_read_again(record, tmp_path):
    files = [record(SAMPLES / name, f"{name}.json") for name in ("varying", "three_sites")]
    shown = report("--json", "--each", "--no-symbols", *files).stdout
    assert json.loads(shown) == [json.loads(file.read_text()) for file in files]
    listed = tmp_path / "list.json"
    listed.write_text(shown)
    assert report("--json", listed).stdout == report("--json", *files).stdout
    assert report("--json", "--each", "--no-symbols", listed).stdout == shown
    assert "a report itself" in report(f"--html={listed}", files[0], code=2).stderr
    value = json.loads(shown)
    value[1]["counters"]["malloc_calls"] = -1
    listed.write_text(json.dumps(value))
    done = report("--json", "--no-symbols", listed, code=1)
    assert 'damaged: "malloc_calls" is not what it should be; expected a list that this command wrote, passed over' in done.stderr
    assert json.loads(done.stdout) == json.loads(files[0].read_text())


@pytest.mark.parametrize("words, told", [
    (["--json", "--leaks"], "--leaks: expected without --json and --each, as it prints one text"),
    (["--each", "--leaks"], "--leaks: expected without --json and --each, as it prints one text"),
    (["--json", "--tune"], "--tune: expected without --each, --brief, --json and --leaks"),
    (["--html=-", "--json"], "--html: expected without --json, --brief and --tune, as a view is written in place of the text"),
    (["--brief", "--pprof=VIEW"], "--pprof: expected without --json, --brief and --tune, as a view is written in place of the text"),
    (["--html=VIEW", "--html=OTHER"], "--html: given twice, expected one FILE"),
    *[([option, "--flamegraph=-"], "--flamegraph=-: standard output is the file that is written, too, by "
      f"{option.removesuffix('=-')}; expected the name of another one")
      for option in ("--each", "--leaks", "--html=-")],
    (["--weight=live"], "--weight: expected beside a view, which shows it"),
    (["--weight=live", "--perfetto=VIEW"], "--weight: expected beside a view that shows it, which --perfetto does not"),
    *[(["--all", other], "--all: expected without --each, --brief, --json, --leaks and views, as it is about the text of a sum")
      for other in ("--each", "--brief", "--json", "--leaks", "--html=VIEW")],
    *[(["--sites=3", other], "--sites: expected without --brief, --json, --leaks and views, as it is about the text")
      for other in ("--brief", "--json", "--leaks", "--html=VIEW")],
    *[(["--debug-dir=.", other], "--debug-dir: expected without --no-symbols and --brief, with which no place in code is looked up")
      for other in ("--no-symbols", "--brief")],
    *[([option, option, "--html=VIEW"], f"{option.split('=')[0]}: given twice, expected one value")
      for option in ("--sites=3", "--weight=live", "--debug-dir=.", "--leak-exit-code=3")],
    *[([f"--debug-dir={name}"], f'--debug-dir: "{name}": expected the name of a folder') for name in ("", "nowhere", "one.json")],
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_options_of_which_one_would_be_passed_over_are_bad_usage(words, told, record, tmp_path):
    file = record(SAMPLES / "varying", "one.json")
    done = report(*words, file, code=2, cwd=tmp_path)
    assert done.stderr.startswith(f"poolcuda report: {told}\n") and done.stdout == ""
    assert not (tmp_path / "VIEW").exists() and not (tmp_path / "OTHER").exists()


def test_options_that_go_together_are_all_obeyed(record, tmp_path):
    file = record(SAMPLES / "varying", "one.json")
    one, whole = (report("--each", f"--sites={sites}", "--html=VIEW", file, cwd=tmp_path).stdout for sites in (1, "all"))
    assert 0 < one.count("varying.c:") < whole.count("varying.c:")
    assert (tmp_path / "VIEW").exists()
    assert "freed" in report("--leaks", "--no-symbols", "--flamegraph=OTHER", "--weight=live", file, cwd=tmp_path).stdout
    assert (tmp_path / "OTHER").exists()


def test_reports_one_by_one_and_a_view_do_not_go_into_one_output(record, tmp_path):
    file = record(SAMPLES / "varying", "one.json")
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run([COMMAND, "report", "--each", "--flamegraph=-", file], check=False, stdout=out, stderr=subprocess.PIPE)
    assert done.returncode == 2 and b"is the file that is written, too" in done.stderr
    assert (tmp_path / "out").read_bytes() == b""


def test_the_sum_in_one_line_has_ranks_hits_time_saved_peaks_and_shortages(record, tmp_path):
    files = [record(SAMPLES / "varying", f"{i}.json", PMIX_RANK=str(i)) for i in (0, 1)]
    files = [file.with_name(f"{file.name}.rank{i}") for i, file in enumerate(files)]
    (tmp_path / "sum.json").write_text(report("--json", *files).stdout)
    counters = json.loads((tmp_path / "sum.json").read_text())["counters"]
    calls, hits = counters["malloc_calls"], counters["malloc_hits"]
    rest = rf": {hits} of {calls} allocations from idle memory \({100 * hits / calls:.1f}%\), at least [\d.]+ \w+ saved, [\d.]+ MiB held " \
        r"for [\d.]+ MiB live at the peaks, never out of memory\n"
    assert re.fullmatch("2 ranks" + rest, report("--brief", *files).stdout)
    assert re.fullmatch("2 processes" + rest, report("--brief", tmp_path / "sum.json").stdout)
    other = shutil.copy(files[0], tmp_path / "other.json")
    assert report("--brief", files[0], other).stdout.startswith("1 rank in 2 processes: ")
    page = json.loads(files[0].read_text())
    page["counters"]["oom_events"] = 3
    page["process"]["finished"] = False
    files[0].write_text(json.dumps(page))
    said = report("--brief", files[0]).stdout
    assert said.startswith("1 rank (1 running or killed): ") and said.endswith(", out of memory 3 times\n")
    assert "--brief: expected without --each, --json and --leaks" in report("--brief", "--json", *files, code=2).stderr


def test_the_run_that_held_most_is_listed_first_and_of_equals_the_lower_rank(record):
    ranks = [2, 0, 1, 3]
    files = [record(SAMPLES / "varying", f"{i}.json", PMIX_RANK=str(i)) for i in ranks]
    files = [file.with_name(f"{file.name}.rank{i}") for i, file in zip(ranks, files)]
    for file, peak in zip(files, (5 << 20, 5 << 20, 9 << 20, 5 << 20)):
        page = json.loads(file.read_text())
        page["counters"]["peak_held_bytes"] = peak
        file.write_text(json.dumps(page))
    assert listed_ranks(report(*files).stdout) == ["1", "0", "2", "3"]


def test_a_folder_stands_for_the_reports_in_it(record, tmp_path):
    folder = tmp_path / "many" / "deeper"
    folder.mkdir(parents=True)
    shutil.copy(record(PROGRAMS / "driver_linked", "a"), folder / "a")
    shutil.copy(tmp_path / "a", folder.parent / "b")
    (folder / "notes.txt").write_text("not a report")
    done = report(tmp_path / "many")
    assert ", 2 runs" in done.stdout
    assert done.stderr == "poolcuda report: 1 other files in these folders are no reports\n"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no report in this folder" in report(empty, code=1).stderr


def test_a_file_under_several_names_counts_once(record, tmp_path):
    record(PROGRAMS / "driver_linked", "a")
    (tmp_path / "link").symlink_to("a")
    once = report(tmp_path / "a")
    twice = report(tmp_path / "a", tmp_path / "a")
    assert (once.stdout, once.stderr) == (twice.stdout, "")
    assert twice.stderr == "poolcuda report: 1 name is one more of a file that was read already, and counts once\n"
    thrice = report(tmp_path / "a", tmp_path / "link", tmp_path / "a")
    assert thrice.stdout == once.stdout
    assert thrice.stderr == "poolcuda report: 2 names are more of files that were read already, and count once\n"


def test_a_link_to_a_folder_stands_for_it(record, tmp_path):
    (tmp_path / "folder").mkdir()
    file = record(SAMPLES / "varying", "folder/one.json")
    (tmp_path / "link").symlink_to("folder")
    assert report("--json", tmp_path / "link").stdout == report("--json", file).stdout
    (tmp_path / "folder/elsewhere").symlink_to("..")  # links inside a folder are not followed
    assert report("--json", tmp_path / "link").stdout == report("--json", file).stdout


def on_a_terminal(*arguments):
    """What the command prints on standard error, which is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([COMMAND, "report", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=theirs) as done:
        os.close(theirs)
        told = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the terminal's other end has gone
                break
            told += piece
    os.close(ours)
    assert done.returncode == 0
    return told.decode()


def test_a_folder_shows_how_far_it_is_on_a_terminal_alone(record, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    one = record(PROGRAMS / "driver_linked", "a")
    for i in range(40):
        shutil.copy(one, folder / f"{i:02}")
    (folder / "99").write_text("not a report")
    told = on_a_terminal(folder)
    shares = [int(share) for share in re.findall(r"(\d+)% reading reports", told)]
    assert shares[0] == 0 and shares == sorted(shares) and shares[-1] == 97 and len(shares) == 41
    assert told.endswith("\r\x1b[Kpoolcuda report: 1 other files in these folders are no reports\r\n"), "the bar is taken away"
    assert "%" not in report(folder).stderr
    assert on_a_terminal(one) == ""


def test_a_compressed_report_is_never_unpacked(tmp_path):
    bomb = tmp_path / "run.json.gz"
    bomb.write_bytes(gzip.compress(b'{"format": "poolcuda report", "a": "' + bytes(1 << 20)) * 100)
    done = report(bomb, code=1)
    assert done.stderr == (f"poolcuda report: {bomb}: gzip-compressed, unpack it first; expected a file that "
                           "POOLCUDA_STATS_FILE made, passed over\n")


def test_what_is_leaked_is_what_is_live_at_the_end(record):
    page = json.loads(record(PROGRAMS / "devices", "leaking", SIMCUDA_DEVICES="2").read_text())
    live = sum(site["live_bytes"] for site in page["sites"])
    assert live == page["counters"]["in_use_bytes"] + page["counters"]["waste_bytes"] != page["counters"]["in_use_bytes"]


def test_leaks_are_reported_and_can_be_the_exit_code(record):
    leaking = record(PROGRAMS / "devices", "leaking", SIMCUDA_DEVICES="2")
    clean = record(PROGRAMS / "driver_linked", "clean")
    done = report("--leaks", "--leak-exit-code=7", leaking, clean, code=7)
    assert "1 block, 5.0 KiB, was not freed at exit" in done.stdout
    assert "devices" in done.stdout.splitlines()[-1]
    assert report("--leaks", "--leak-exit-code=7", clean).stdout == "everything was freed\n"
    assert "from 1 to 125" in report("--leak-exit-code=0", clean, code=2).stderr


def test_a_run_with_many_waits_or_misses_suggests_what_to_try(run, record, tmp_path):
    file = record(PROGRAMS / "driver_linked", "sync", POOLCUDA_FREE="sync")
    value = json.loads(file.read_text())
    value["process"]["options"] = ""
    value["counters"].update(free_calls=1000, free_waited=900, malloc_calls=1000, malloc_hits=10)
    file.write_text(json.dumps(value))
    shown = report(file).stdout
    assert "POOLCUDA_FREE=defer: 900 of 1000 frees waited" in shown
    assert "POOLCUDA_PRESET=bfc: 990 of 1000 allocations" in shown


def counted(page, **counters):
    page["process"]["options"] = ""
    page["counters"].update(counters)
    return page


def test_no_preset_is_suggested_for_allocations_that_no_idle_memory_could_have_served(record):
    file = record(PROGRAMS / "driver_linked", "one.json")
    page = counted(json.loads(file.read_text()), malloc_calls=200, malloc_hits=0, oom_events=199, oom_hopeless=199)
    file.write_text(json.dumps(page))
    assert "POOLCUDA_PRESET" not in report(file).stdout
    file.write_text(json.dumps(counted(page, oom_hopeless=79)))
    shown = report(file).stdout
    assert "POOLCUDA_PRESET=bfc: 121 of 121 allocations" in shown
    assert "POOLCUDA_PRESET=vmm: 120 allocations found no memory" in shown


def test_many_small_runs_do_not_add_up_to_a_suggestion(record, tmp_path):
    one = json.loads(record(PROGRAMS / "driver_linked", "one.json").read_text())

    def run_of(calls):
        return {"malloc_calls": calls, "malloc_hits": 0, "free_calls": calls, "free_waited": calls}

    small = write_job(tmp_path / "small", one, 40, lambda rank, page: counted(page, **run_of(90)))
    merged = tmp_path / "merged.json"
    merged.write_text(report("--json", small).stdout)
    for files in ([small], [merged], [small, merged]):
        shown = report(*files).stdout
        assert "POOLCUDA_PRESET" not in shown and "POOLCUDA_FREE" not in shown
    large = tmp_path / "large.json"
    large.write_text(json.dumps(counted(one, **run_of(500))))
    shown = report(small, large).stdout
    assert "POOLCUDA_PRESET=bfc: 500 of 500 allocations" in shown
    assert "POOLCUDA_FREE=defer: 4100 of 4100 frees" in shown


def test_a_bound_on_idle_memory_is_suggested_for_one_process_however_many_runs_there_are(record, tmp_path):
    one = json.loads(record(SAMPLES / "varying", "one.json").read_text())
    one["process"]["options"] = ""

    def holding(name, runs, held, live):
        def change(rank, page):
            page["counters"].update(peak_held_bytes=held[rank % len(held)] << 20, peak_live_bytes=live << 20)
        return write_job(tmp_path / name, one, runs, change)
    assert "POOLCUDA_MAX_IDLE" not in report(holding("little", 20, [35], 20)).stdout
    shown = report(holding("much", 20, [35, 400], 40)).stdout
    assert "POOLCUDA_MAX_IDLE=11M: 10 of 20 runs held much more than was live" in shown
    assert "in one of them 400.0 MiB were held at a peak of 40.0 MiB live" in shown
    alone = report(holding("alone", 1, [400], 40)).stdout
    assert "POOLCUDA_MAX_IDLE=11M: 400.0 MiB were held at a peak of 40.0 MiB live." in alone
    merged = tmp_path / "merged.json"
    merged.write_text(report("--json", tmp_path / "much").stdout)
    assert "POOLCUDA_MAX_IDLE" not in report(merged).stdout


def test_a_report_for_people_is_printed_as_it_is_and_no_json_is_made_of_it(run, tmp_path):
    path = tmp_path / "text"
    run(PROGRAMS / "driver_linked", env={"POOLCUDA_STATS_FILE": str(path)})
    assert report(path).stdout == path.read_text()
    assert "a report as text, of which nothing else can be made" in report("--json", path, code=1).stderr


def test_tune_is_asked_about_the_recorded_trace(record, tmp_path):
    file = record(SAMPLES / "three_sites", "traced", POOLCUDA_TRACE=str(tmp_path / "of.trace"))
    shown = report("--tune", file).stdout
    assert f"next: {COMMAND} tune {tmp_path / 'of.trace'}" in shown
    assert "recommended" in shown
    (tmp_path / "of.trace").unlink()
    assert "--tune: the trace of this run cannot be read" in report("--tune", file, code=1).stderr


BAD = {
    "empty": b"",
    "text": b"hello\n",
    "binary": bytes(range(256)) * 100,
    "cut": b'{"format": "poolcuda report", "version": 1, "sites": [',
    "array": b"[]",
    "other": b'{"a": 1}',
    "unversioned": b'{"format": "poolcuda report"}',
    "newer": b'{"format": "poolcuda report", "version": 99}',
    "negative": b'{"format": "poolcuda report", "version": 1, "counters": {"malloc_calls": -1}}',
    "typed": b'{"format": "poolcuda report", "version": 1, "devices": 3}',
    "index": b'{"format": "poolcuda report", "version": 1, "modules": [{}], '
             b'"sites": [{"id": 1, "frames": [{"module": 7}]}]}',
    "site": b'{"format": "poolcuda report", "version": 1, "sites": [{"id": 4096}]}',
    "device": b'{"format": "poolcuda report", "version": 1, "devices": [{"device": 16}]}',
    "deep": b'{"a":' * 100000,
    "escape": b'{"\x1b]0;title\x07" 1}',
    "page": b"poolcuda figures of a running or killed program; to read them: poolcuda report\n" + bytes(4096),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_reported_in_one_line_and_the_others_are_reported(name, record, tmp_path):
    bad = tmp_path / f"bad-{name}"
    bad.write_bytes(BAD[name])
    done = report(bad, code=1)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith(f"poolcuda report: {bad}: ") and "expected" in done.stderr
    assert "\x1b" not in done.stderr
    assert "held from the driver" in report(bad, record(PROGRAMS / "driver_linked", "good"), code=1).stdout


def test_files_that_cannot_be_read_are_reported_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    huge = tmp_path / "huge"
    with open(huge, "wb") as file:
        file.write(b"{")
        file.truncate(1 << 36)
    for path, why in ((tmp_path / "absent", "No such file"), (tmp_path / "pipe", "not a regular file"),
                      (huge, "larger than any report"), ("/dev/null", "not a regular file")):
        done = report(path, code=1)
        assert len(done.stderr.splitlines()) == 1 and why in done.stderr
    assert "no file given" in report(code=2).stderr


def test_a_thousand_ranks_are_merged_in_bounded_memory(record, tmp_path):
    one = json.loads(record(SAMPLES / "varying", "one.json").read_text())
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(1000):
        one["process"].update(rank=rank, pid=1000 + rank, host=f"node{rank // 8}")
        (folder / f"of.rank{rank}").write_text(json.dumps(one))
    limit = 200 << 20
    shown = report(folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))).stdout
    assert ", 1000 runs on several hosts" in shown and "and 980 more that held less" in shown
    assert f"allocations: {1000 * one['counters']['malloc_calls']}," in shown
    assert len(report("--all", folder).stdout.splitlines()) > 1000


def write_job(folder, one, ranks, change=lambda rank, page: None):
    """A folder with a file for each rank, eight of them on each host."""
    folder.mkdir()
    for rank in range(ranks):
        page = json.loads(json.dumps(one))
        page["process"].update(rank=rank, pid=1000 + rank, host=f"node{rank // 8}")
        change(rank, page)
        (folder / f"of.rank{rank}").write_text(json.dumps(page))
    return folder


def row(shown, name):
    """The columns of the line that begins with this name, where the runs are compared."""
    return next(re.split(r"  +", line.strip()) for line in shown.partition("of each run")[2].splitlines() if line.strip().startswith(name + "  "))


def test_what_stands_out_among_ranks_is_named_by_rank_host_and_site(record, tmp_path):
    one = json.loads(record(SAMPLES / "varying", "one.json").read_text())
    peaks = [(rank * 7 % 40 + 100) << 20 for rank in range(40)]
    peaks[17] = 500 << 20

    def change(rank, page):
        page["counters"].update(peak_held_bytes=peaks[rank], wait_ns=9_000_000_000 if rank == 5 else 1_000_000, oom_events={3: 2, 30: 7}.get(rank, 0))
        page["counters"]["malloc_hits"] = 0 if rank == 8 else one["counters"]["malloc_calls"]
        page["sites"][0]["peak_live_bytes"] = (64 << 20) if rank == 21 else (8 << 20)

    job = write_job(tmp_path / "job", one, 40, change)
    shown = report(job).stdout
    middle = f"{sorted(peaks)[19] / (1 << 20):.1f} MiB"
    assert row(shown, "peak held") == ["peak held", "100.0 MiB", middle, "500.0 MiB", "most: rank 17 on node2"]
    assert row(shown, "hits") == ["hits", "0.0%", "100.0%", "100.0%", "least: rank 8 on node1"]
    assert row(shown, "time in waits") == ["time in waits", "0.001s", "0.001s", "9.000s", "most: rank 5 on node0"]
    assert row(shown, "allocations")[-1] == "all are the same"
    assert "  out of memory: 2 of 40 runs: rank 30 on node3 (7 times), rank 3 on node0 (2 times)\n" in shown
    host = sorted(peaks[16:24])
    human = [f"{value / (1 << 20):.1f} MiB" for value in (host[0], host[3], host[-1])]
    assert row(shown, "node2")[:5] == ["node2", "8", *human]
    assert [line.split()[0] for line in shown.splitlines() if re.match(r"  node\d ", line)][0] == "node2", "the one that held most"
    sites = [line for line in shown.splitlines() if "rank 21 on node2" in line]
    assert len(sites) == 1 and re.search(r"^ +40 +8\.0 MiB +8\.0 MiB +64\.0 MiB  rank 21 on node2 .*varying\.c", sites[0])


def test_ranks_that_are_all_alike_have_no_site_that_stands_out(record, tmp_path):
    one = json.loads(record(SAMPLES / "varying", "one.json").read_text())
    shown = report(write_job(tmp_path / "job", one, 3)).stdout
    assert shown.count("all are the same") == 6 and "whose runs differ" not in shown and "out of memory:" not in shown
    assert "of each run" not in report(tmp_path / "job/of.rank0").stdout


def test_more_hosts_than_twenty_are_listed_by_all_alone(record, tmp_path):
    one = json.loads(record(PROGRAMS / "driver_linked", "one.json").read_text())
    job = write_job(tmp_path / "job", one, 8 * 23)
    assert "  and 3 more hosts whose runs held less: --all lists them\n" in report(job).stdout
    whole = report("--all", job).stdout
    assert len({line.split()[0] for line in whole.splitlines() if re.match(r"  node\d+ +8 ", line)}) == 23


def peak_memory(*arguments):
    """Of the command, in KiB."""
    done = guard.run(["/usr/bin/time", "-f", "%M", COMMAND, "report", *map(str, arguments)], capture_output=True, text=True, check=True)
    return int(done.stderr.splitlines()[-1]), done.stdout


@pytest.mark.skipif(not os.environ.get("ALL_FAULTS"), reason="long: scripts/test --all runs it")
@pytest.mark.skipif(not shutil.which("time"), reason="package time")
def test_ten_thousand_ranks_take_little_more_memory_than_a_thousand(record, tmp_path):
    one = json.loads(record(SAMPLES / "varying", "one.json").read_text())

    def change(rank, page):
        page["sites"][0]["peak_live_bytes"] = (rank * 7919 % 100_003) << 10

    few = write_job(tmp_path / "few", one, 1000, change)
    many = write_job(tmp_path / "many", one, 10_000, change)
    (few_memory, _), (many_memory, shown) = peak_memory(few), peak_memory(many)
    assert ", 10000 runs on several hosts" in shown and "and 1230 more hosts" in shown
    assert many_memory - few_memory <= 9000 * 0.6, "600 bytes a run, with its file's name: a report of one is forty times that"
    small, large = (peak_memory(f"--html={tmp_path / name}", folder)[0] for name, folder in (("a", few), ("b", many)))
    assert large - small <= 9000 * 1.4, "which has 640 bytes about each"


def test_every_field_of_the_json_is_described(record):
    described = set(re.findall(r"`(\w+)`", (ROOT / "docs/reports.md").read_text()))
    by_name = {"waits_made_before"}  # whose fields are calls of the driver

    def names(value):
        if isinstance(value, list):
            return set().union(*map(names, value))
        if not isinstance(value, dict):
            return set()
        return set(value) | set().union(*(names(inner) for name, inner in value.items() if name not in by_name))
    whole = json.loads(report("--json", record(SAMPLES / "varying", "one.json")).stdout)
    assert names(whole) - described == set()
    kinds = {"counters.def": r'\w*(?:COUNTER|GAUGE)\((\w+), (?:[^"]+, )?', "wait_reasons.def": r'WAIT_REASON\((\w+), ',
             "routes.def": r'ROUTE\(\w+, "(\w+)", '}
    for table, row in kinds.items():
        rows = re.findall(rf'^{row}"(.*)"\)$', (ROOT / "src/counters" / table).read_text(), re.M)
        text = (ROOT / "docs/reports.md").read_text()
        assert rows and all(f"| `{name}` | {meaning} |\n" in text for name, meaning in rows), table
