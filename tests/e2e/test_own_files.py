"""What the library writes of a program: it damages nothing that is named for it, holds the program up for nobody, and says
what it could not write."""

import contextlib
import fcntl
import json
import os
import re
import resource
import shlex
import stat
import subprocess
import threading

import guard
import pytest
from conftest import COMMAND, LIBRARY, PROGRAMS, SAMPLES
from steered import NEEDS_MOUNT, Program, environment
from writers import names

OPTIONS = ["POOLCUDA_STATS_FILE", "POOLCUDA_TRACE", "POOLCUDA_LOG", "POOLCUDA_CHECK_LOG"]
EACH_OPTION = pytest.mark.parametrize("option", OPTIONS)
# A program of which each of the files has something to say.
TELLING = [PROGRAMS / "out_of_memory", "alloc", "held"]
NEEDED = {"POOLCUDA_STATS_FILE": {}, "POOLCUDA_TRACE": {}, "POOLCUDA_LOG": {},
          "POOLCUDA_CHECK_LOG": {"POOLCUDA_CHECK": "1", "POOLCUDA_CHECK_LEAKS": "1"}}


def start(option, path, command=tuple(TELLING), **options):
    """Runs the program with the file. What a blocked program would do to the test the limit on time ends."""
    variables = environment(LD_PRELOAD=str(LIBRARY), SIMCUDA_MEMORY="256M", **NEEDED[option], **{option: str(path)})
    return guard.run([str(word) for word in command], check=False, text=True,
                     **{"env": variables, "capture_output": True, **options})


@pytest.fixture(scope="module", name="natively")
def fixture_natively():
    return guard.run(list(map(str, TELLING)), env=environment(SIMCUDA_MEMORY="256M"), capture_output=True, text=True, check=False)


def content_is_of(option, content):
    """Whether it is what the option's file should hold."""
    if option == "POOLCUDA_STATS_FILE":
        return json.loads(content)["format"] == "poolcuda report"
    beginning = {"POOLCUDA_TRACE": b"poolcuda trace\n", "POOLCUDA_LOG": b"poolcuda: out of memory",
                 "POOLCUDA_CHECK_LOG": b"========= POOLCUDA CHECK\n"}[option]
    return content.startswith(beginning)


@EACH_OPTION
def test_each_file_gets_something_here(option, natively, tmp_path):
    done = start(option, tmp_path / "file")
    assert (done.returncode, done.stdout, done.stderr) == (natively.returncode, natively.stdout, natively.stderr)
    assert content_is_of(option, (tmp_path / "file").read_bytes())


# Devices

@EACH_OPTION
def test_a_device_is_written_to_and_nothing_made_beside_it(option, natively, tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    done = start(option, tmp_path / "link")
    assert (done.returncode, done.stdout, done.stderr) == (natively.returncode, natively.stdout, natively.stderr)
    assert names(tmp_path) == ["link"] and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("option, said", [
    ("POOLCUDA_STATS_FILE", "POOLCUDA_STATS_FILE: not all of the report could be written (no space left on the device)"),
    ("POOLCUDA_TRACE", "cannot be written (no space left on the device), recording nothing")])
def test_a_full_device_is_reported_in_one_line(option, said, natively, tmp_path):
    (tmp_path / "link").symlink_to("/dev/full")
    done = start(option, tmp_path / "link")
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
    assert len(done.stderr.splitlines()) == 1 and said in done.stderr
    assert names(tmp_path) == ["link"]


# Pipes

@EACH_OPTION
def test_a_pipe_gets_what_a_file_would(option, natively, tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    keep = os.open(pipe, os.O_RDWR)  # so that neither side waits for the other's coming
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    ready = os.open(pipe, os.O_WRONLY)  # there is a reader
    os.close(ready)
    done = start(option, pipe)
    os.close(keep)
    reader.join()
    assert (done.returncode, done.stdout, done.stderr) == (natively.returncode, natively.stdout, natively.stderr)
    assert content_is_of(option, got[0])
    assert names(tmp_path) == ["pipe"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_trace_through_a_pipe_can_be_replayed(tmp_path):
    with (tmp_path / "trace").open("wb") as out, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out) as reader:
        number = reader.stdin.fileno()
        start("POOLCUDA_TRACE", f"/dev/fd/{number}", [SAMPLES / "varying"], pass_fds=[number])
        reader.stdin.close()
    done = subprocess.run([COMMAND, "replay", "--json", tmp_path / "trace"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["allocations"] == 301


@EACH_OPTION
def test_a_pipe_that_nobody_reads_neither_blocks_nor_ends_the_program(option, natively, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = start(option, tmp_path / "pipe")
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
    assert done.stderr.startswith(f'poolcuda: {option}="{tmp_path}/pipe"'[:100])
    assert "a pipe that nobody reads" in done.stderr.splitlines()[0]
    assert names(tmp_path) == ["pipe"] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@contextlib.contextmanager
def steered_into_a_pipe(tmp_path, **variables):
    """A program whose report and trace go into pipes, and the descriptors of these pipes' readers."""
    readers = []
    for name in ("stats", "trace"):
        os.mkfifo(tmp_path / name)
        readers.append(os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK))
    with Program(POOLCUDA_STATS_FILE=str(tmp_path / "stats"), POOLCUDA_TRACE=str(tmp_path / "trace"),
                 **variables) as program:
        yield program, readers


def test_a_reader_that_leaves_is_no_signal_to_the_program(tmp_path):
    with steered_into_a_pipe(tmp_path) as (program, readers):
        program.do("alloc 0 4096")
        for reader in readers:
            os.close(reader)
        for _ in range(1000):
            assert program.do("free 0") == 0 and program.do("alloc 0 4096") == 0
        assert program.end() == 0


def test_a_reader_that_takes_nothing_does_not_hold_the_program_up_for_ever(tmp_path):
    with steered_into_a_pipe(tmp_path) as (program, readers):
        for _ in range(1500):  # more than a pipe holds
            assert program.do("alloc 0 4096") == 0 and program.do("free 0") == 0
        assert program.counter("trace_lost") > 0
        assert program.end() == 0
        for reader in readers:
            os.close(reader)


def test_a_program_with_its_report_in_a_pipe_is_seen_while_it_runs(tmp_path):
    with steered_into_a_pipe(tmp_path) as (program, readers):
        program.do("alloc 0 4096")
        assert program.counter("malloc_calls") == 2
        for reader in readers:
            os.close(reader)


# The program's own descriptors

def test_standard_output_that_is_a_file_keeps_what_the_program_wrote(tmp_path):
    native = subprocess.run([SAMPLES / "varying"], env=environment(), capture_output=True, text=True, check=True).stdout
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        out = tmp_path / "out"
        with out.open("w") as file:
            file.write("first\n")
            file.flush()
            done = start("POOLCUDA_STATS_FILE", name, [SAMPLES / "varying"], capture_output=False, stdout=file)
            assert done.returncode == 0
        first, _, rest = out.read_text().partition("\n")
        assert first == "first" and native in rest
        assert json.loads(rest.replace(native, ""))["format"] == "poolcuda report"
    assert names(tmp_path) == ["out"] and not os.path.exists("/dev/stdout.1")


def test_a_log_on_standard_output_is_written_behind_what_is_there(tmp_path):
    out = tmp_path / "out"
    with out.open("w") as file:
        file.write("first\n")
        file.flush()
        start("POOLCUDA_LOG", "/dev/stdout", capture_output=False, stdout=file)
    assert out.read_text().startswith("first\n") and "poolcuda: out of memory" in out.read_text()


@EACH_OPTION
def test_a_descriptor_that_is_closed_is_reported(option, natively):
    done = start(option, "/dev/fd/77")
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
    assert f'{option}="/dev/fd/77": cannot be' in done.stderr.splitlines()[0] and "(no such descriptor)" in done.stderr.splitlines()[0]


# What cannot be written at all

@EACH_OPTION
def test_a_folder_is_reported_and_nothing_made_beside_it(option, natively, tmp_path):
    (tmp_path / "folder").mkdir()
    done = start(option, tmp_path / "folder")
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
    assert "(a folder)" in done.stderr.splitlines()[0]
    assert names(tmp_path) == ["folder"] and names(tmp_path / "folder") == []


@EACH_OPTION
def test_a_name_of_which_nothing_is_left_is_reported_as_empty(option, natively, tmp_path):
    done = start(option, "%q{NOT_SET}", cwd=tmp_path)
    assert (done.returncode, done.stdout, names(tmp_path)) == (natively.returncode, natively.stdout, [])
    assert f'{option}="%q{{NOT_SET}}"' in done.stderr and "(the name is empty)" in done.stderr


def test_figures_that_no_file_takes_are_printed_as_is_said(tmp_path):
    done = start("POOLCUDA_STATS_FILE", tmp_path / "absent" / "file")
    first, _, rest = done.stderr.partition("\n")
    assert first.endswith("cannot be made (no such file or folder), printing to standard error at exit")
    assert "held from the driver" in rest


# poolcuda run

@pytest.mark.parametrize("name", ["/dev/null", "/dev/stdout", "/dev/stderr", "PIPE", "LINK"])
def test_run_does_not_miss_figures_that_went_elsewhere(name, tmp_path):
    if name == "PIPE":
        name = tmp_path / "pipe"
        os.mkfifo(name)
        reader = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    if name == "LINK":
        name = tmp_path / "link"
        name.symlink_to("/dev/null")
    done = guard.run([COMMAND, "run", f"--stats-file={name}", "--", SAMPLES / "varying"], env=environment(),
                     cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "no figures" not in done.stderr and "next:" not in done.stderr
    assert set(names(tmp_path)) <= {"pipe", "link"}
    if tmp_path / "pipe" == name:
        assert os.read(reader, 100).startswith(b"{")
        os.close(reader)


def under_run(*words, cwd, **variables):
    return guard.run([str(word) for word in (COMMAND, "run", *words)], env=environment(SIMCUDA_MEMORY="256M", **variables), cwd=cwd,
                     capture_output=True, text=True, check=False)


def told_of(done):
    """What the figures and the trace of a run are, by what it told, and by what the next command is given."""
    where = dict(re.findall(r"^poolcuda: (figures|trace) in (.*)$", done.stderr, re.M))
    following = {words[1]: words[2:] for words in map(shlex.split, re.findall(r"^poolcuda: next: (.*)$", done.stderr, re.M))}
    assert following.get("report", []) == ([where["figures"]] if "figures" in where else [])
    assert following.get("tune", []) == ([where["trace"]] if "trace" in where else [])
    return where


def on_a_full_disk(folder, *words, here=None):
    """Runs the command with `folder` being a disk without room; what it prints ends with what is on that disk."""
    folder.mkdir()
    script = """mount -t tmpfs -o size=64k none "$0" && head -c 100k /dev/zero > "$0/full" 2> /dev/null
                cd "$1" && shift && "$@"; code=$?; ls -A "$0"; exit $code"""
    return guard.run(["unshare", "--mount", "sh", "-c", script, *map(str, (folder, here or folder.parent, COMMAND, *words))],
                     env=environment(TMPDIR=str(folder.parent)), capture_output=True, text=True, check=False)


NO_ROOM = r"poolcuda: no file of figures: one of \d+ bytes cannot be made in {}: {}\n"


@NEEDS_MOUNT
def test_run_says_that_a_full_disk_took_no_figures_and_not_that_there_were_none(tmp_path):
    disk = tmp_path / "disk"
    done = on_a_full_disk(disk, "run", f"--stats-file={disk}/st.json", "--", SAMPLES / "varying")
    assert done.returncode == 0 and done.stdout.endswith("full\n") and "st.json" not in done.stdout
    assert "cannot be made (no space left on the device), printing to standard error at exit" in done.stderr and "held from the driver" in done.stderr
    assert re.search(NO_ROOM.format(f"{disk}/", "No space left on device") + r"\Z", done.stderr)
    assert "used no CUDA" not in done.stderr and "next:" not in done.stderr


@NEEDS_MOUNT
def test_run_puts_its_figures_elsewhere_where_the_current_folder_has_no_room(tmp_path):
    done = on_a_full_disk(tmp_path / "disk", "run", "--", SAMPLES / "varying", here=tmp_path / "disk")
    assert done.returncode == 0 and "cannot be made" not in done.stderr
    file, = tmp_path.glob("poolcuda.varying.*.json")
    assert f"poolcuda: figures in {file}\n" in done.stderr and json.loads(file.read_text())["format"] == "poolcuda report"


def test_run_says_that_no_file_is_allowed_to_be_as_long_as_figures_are(tmp_path):
    done = guard.run([COMMAND, "run", f"--stats-file={tmp_path}/st.json", "--", "true"], env=environment(), capture_output=True, text=True,
                     check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50)))
    assert done.returncode == 0 and names(tmp_path) == []
    assert re.fullmatch(NO_ROOM.format(f"{tmp_path}/", "File too large"), done.stderr)


@NEEDS_MOUNT
def test_a_trace_that_cannot_be_begun_leaves_no_file(tmp_path):
    disk = tmp_path / "disk"
    done = on_a_full_disk(disk, "run", f"--trace={disk}/trace", "--", SAMPLES / "varying")
    assert done.returncode == 0 and "cannot be written (no space left on the device), recording nothing" in done.stderr
    assert done.stdout.endswith("full\n") and "\ntrace\n" not in done.stdout and "poolcuda: trace in" not in done.stderr


@pytest.fixture(name="strangers")
def fixture_strangers(tmp_path):
    """A folder with a report and a trace of an earlier run, in a folder of their own."""
    old = tmp_path / "old"
    old.mkdir()
    done = under_run("--stats-file=old/report", "--trace=old/trace", SAMPLES / "varying", cwd=tmp_path)
    assert told_of(done) == {"figures": "old/report", "trace": "old/trace"}
    return tmp_path


@pytest.mark.parametrize("stats, trace, copies", [
    ("run", "run.trace", ["run.json", "run1", "run.x.1", "run.trace.2", "run.rank"]),
    ("run", "run1", ["run2", "run.1.1"]),
    ("%p.json", "%p.trace", ["1.json.x", "x.json", ".json", "1.trace.old", "12345678.json", "12345678.trace"]),
    ("t.%p", "t.trace.%p", ["t.log", "t.x", "t.12345678", "t.trace.12345678", "t.1x", "t.trace.1x"]),
    ("%e.%n", "%e.%n.trace", ["varying.x", "varying.1", "varying.1.trace"]),
    ("a[b]*.%p", "a[b].%p", ["ab.1", "ab.12345678"])])
def test_run_takes_only_the_files_of_its_processes_for_its_figures(stats, trace, copies, strangers):
    """Others may come to lie beside them while the program runs, such as a copy of another run's."""
    copy = "for name in \"$@\"; do cat old/report > \"$name\"; cat old/trace > \"$name.t\"; cp old/trace \"x.$name\"; done"
    script = f"{copy}; echo something > 't.log'; exec {SAMPLES / 'varying'}"
    done = under_run(f"--stats-file={stats}", f"--trace={trace}", "sh", "-c", script, "sh", *copies, cwd=strangers)
    where = told_of(done)
    assert set(where) == {"figures", "trace"}, done.stderr
    report = json.loads((strangers / where["figures"]).read_text())
    assert str(strangers / where["trace"]) == report["process"]["trace"]
    assert where["figures"] not in copies and where["trace"] not in copies


def test_run_finds_its_figures_by_whatever_a_name_is_made_of(tmp_path):
    (tmp_path / "varying").mkdir()
    for number, pattern in enumerate(("%h-%e-%t-%r-%q{PATTERN}-%%-%n-%p-%x-%", "%e/%p", "%q{PATTERN}%q{UNSET}", "plain", "a%%b", "%t.%n", "%q{open")):
        done = under_run(f"--stats-file={pattern}", f"--trace={pattern}.trace", SAMPLES / "varying", cwd=tmp_path, PATTERN=f"of/{number}")
        where = told_of(done)
        assert set(where) == {"figures", "trace"}, (pattern, done.stderr)
        again = told_of(under_run(f"--stats-file={pattern}", f"--trace={pattern}.trace", SAMPLES / "varying", cwd=tmp_path, PATTERN=f"of/{number}"))
        assert again["figures"] != where["figures"] and again["trace"] != where["trace"], pattern
        ranked = told_of(under_run(f"--stats-file={pattern}", SAMPLES / "varying", cwd=tmp_path, PATTERN=f"of/{number}", PMIX_RANK="3"))
        assert ranked["figures"] not in (where["figures"], again["figures"]), pattern


def test_files_of_several_processes_among_others_are_each_named(tmp_path):
    (tmp_path / "job.notes").write_text("not ours\n")
    done = under_run("--stats-file=job.%p", PROGRAMS / "forks", "before", cwd=tmp_path)
    assert "poolcuda: figures of 2 processes in files of their own\n" in done.stderr
    words, = (shlex.split(line) for line in re.findall(r"^poolcuda: next: (.*)$", done.stderr, re.M))
    assert words[:2] == [str(COMMAND), "report"] and sorted(words[2:]) == [name for name in names(tmp_path) if name != "job.notes"]
    shown = guard.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "") and ", 2 runs on " in shown.stdout


# What is lost

@pytest.mark.parametrize("option, counter", [("POOLCUDA_LOG", "log_lost"), ("POOLCUDA_CHECK_LOG", "check_lost")])
def test_a_log_that_takes_nothing_is_counted_and_told_where_it_can_be(option, counter, natively, tmp_path):
    """The program itself is told nothing, nor held up: its output and its end are its own."""
    start(option, tmp_path / "whole")
    whole = (tmp_path / "whole").read_text().splitlines()
    lost = sum(line.startswith("poolcuda: out of memory") or line == "=========" or "ERROR SUMMARY" in line for line in whole)
    assert lost > 1
    (tmp_path / "full").symlink_to("/dev/full")
    words = [str(word) for word in TELLING]
    variables = {option: "full", **NEEDED[option], "LD_PRELOAD": str(LIBRARY), "SIMCUDA_MEMORY": "256M"}
    done = guard.run(words, env=environment(**variables, POOLCUDA_STATS_FILE="report"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (natively.returncode, natively.stdout, natively.stderr)
    assert json.loads((tmp_path / "report").read_text())["counters"][counter] == lost
    shown = guard.run([COMMAND, "report", "report"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"\n  {option}: {lost} of its reports could not be written\n" in shown.stdout
    done = under_run(*words, cwd=tmp_path, **{option: "full"}, **NEEDED[option])
    assert f"poolcuda: {lost} reports could not be written to the file of {option}\n" in done.stderr and done.stdout == natively.stdout


@pytest.mark.parametrize("option", ["POOLCUDA_LOG", "POOLCUDA_CHECK_LOG"])
def test_a_log_is_appended_to_no_report_and_no_trace(option, natively, tmp_path):
    start("POOLCUDA_STATS_FILE", tmp_path / "json")
    start("POOLCUDA_TRACE", tmp_path / "trace")
    text = environment(LD_PRELOAD=str(LIBRARY), POOLCUDA_STATS="1", POOLCUDA_STATS_FILE=str(tmp_path / "text"))
    guard.run(list(map(str, TELLING)), env=text, capture_output=True, check=False)
    (tmp_path / "compact").write_text(json.dumps([json.loads((tmp_path / "json").read_text())]))
    (tmp_path / "page").write_bytes(b"poolcuda figures of a running or killed program; to read them: poolcuda report\n" + bytes(100))
    for kept in sorted(tmp_path.iterdir()):
        before = kept.read_bytes()
        done = start(option, kept)
        assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
        assert f'poolcuda: {option}="{str(kept)[:80]}": cannot be appended to (a report or a trace), using standard error\n' in done.stderr
        assert content_is_of(option, done.stderr.split("using standard error\n")[1].encode())
        assert kept.read_bytes() == before, kept


def test_a_log_by_the_name_of_the_reports_own_file_leaves_that_alone(tmp_path):
    done = start("POOLCUDA_LOG", tmp_path / "file", env=environment(
        LD_PRELOAD=str(LIBRARY), SIMCUDA_MEMORY="256M", POOLCUDA_LOG=str(tmp_path / "file"), POOLCUDA_STATS_FILE=str(tmp_path / "file")))
    assert "out of memory in" in done.stderr and names(tmp_path) == ["file"]
    assert content_is_of("POOLCUDA_STATS_FILE", (tmp_path / "file").read_bytes())


@EACH_OPTION
def test_where_nothing_is_lost_nothing_is_reported(option, tmp_path):
    done = under_run(*TELLING, cwd=tmp_path, **{option: "file"}, **NEEDED[option])
    assert (tmp_path / "file").exists() and "could not be written" not in done.stderr
    shown = guard.run([COMMAND, "report", *(name for name in names(tmp_path) if name.endswith(".json") or option == "POOLCUDA_STATS_FILE")],
                      cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shown.returncode == 0 and "could not be written" not in shown.stdout


def test_a_trace_that_takes_nothing_more_is_reported_by_run_too(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 8192)
    done = under_run("--stats-file=report", "--trace=pipe", SAMPLES / "varying", cwd=tmp_path)
    os.close(pipe)
    lost = json.loads((tmp_path / "report").read_text())["counters"]["trace_lost"]
    assert lost > 100 and f"poolcuda: {lost} events could not be written to the file of POOLCUDA_TRACE\n" in done.stderr


@pytest.mark.parametrize("variables", [{"POOLCUDA_REUSE_RATIO": "none"}, {"POOLCUDA_NONSENSE": "1"}, {"POOLCUDA_TRACE": "/nowhere/at/all"}],
                         ids=lambda variables: next(iter(variables)))
def test_a_message_that_nobody_reads_is_no_signal_to_the_program(variables, natively):
    """natively: a program that says nothing on standard error itself."""
    variables = environment(LD_PRELOAD=str(LIBRARY), SIMCUDA_MEMORY="256M", **variables)
    said = guard.run(TELLING, env=variables, capture_output=True, text=True, check=False)
    assert said.stderr.startswith("poolcuda: ")
    reading, writing = os.pipe()
    os.close(reading)
    done = guard.run(TELLING, env=variables, stdout=subprocess.PIPE, stderr=writing, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
