"""POOLCUDA_TRACE: what is recorded is what the program did, whatever becomes of the program or the file."""

import collections
import csv
import os
import re
import shutil
import signal
import struct
import subprocess

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, PROGRAMS, ROOT, RUNTIME, SAMPLES
from test_sites import functions_of

HEADER, HEAD, EVENT = struct.Struct("<16sIIIIQQI12x"), struct.Struct("<BBHI"), struct.Struct("<QQQQ")
TOO_LONG = (1 << 32) - 1
ALLOC, FREE, FREE_FAILED, MODULE, SITE, SITE_NAME, END = 1, 2, 3, 32, 33, 34, 35
CUT_OFF = "cut off: the last events are missing"  # as convert says it
BUFFER_EVENTS = 8192 // (HEAD.size + EVENT.size)  # what may wait to be written

Event = collections.namedtuple("Event", "kind device site time pointer value stream")


class Recording:
    """A raw file, by docs/traces.md and not by our own reader; every record must be valid and whole."""

    def __init__(self, path, cut_off=False):
        data = path.read_bytes()
        magic, version, at, clock, self.process, _, wall, self.command_line_size = HEADER.unpack_from(data)
        assert (magic, version, clock) == (b"poolcuda trace\n\0", 1, 1)
        used = 0 if self.command_line_size == TOO_LONG else self.command_line_size
        assert at == 64 + (used + 7) // 8 * 8
        self.command_line = data[64:64 + used].split(b"\0")[:-1]
        assert wall > 1.5e18
        self.events, self.modules, self.sites, self.lost = [], [], [], None
        while at < len(data):
            assert self.lost is None, "nothing follows the end"
            kind, zero, small, number = HEAD.unpack_from(data, at)
            at += HEAD.size
            assert zero == 0
            if kind in (ALLOC, FREE, FREE_FAILED):
                self.events.append(Event(kind, small, number, *EVENT.unpack_from(data, at)))
                assert number <= len(self.sites)
                at += EVENT.size
            elif kind == MODULE:
                assert small <= 64 and number
                self.modules.append(data[at + small:at + small + number].decode())
                at += (small + number + 7) // 8 * 8
            elif kind == SITE:
                frames = [struct.unpack_from("<QII", data, at + 16 * i) for i in range(small)]
                assert 1 <= small <= 4
                assert all(module <= len(self.modules) and not fill for _, module, fill in frames)
                self.sites.append(frames)
                at += 16 * small
            elif kind == SITE_NAME:
                assert small == 0 and number
                self.sites.append(data[at:at + number].decode())
                at += (number + 7) // 8 * 8
            else:
                assert kind == END and (small, number) == (0, 0)
                self.lost, = struct.unpack_from("<Q", data, at)
                at += 8
        assert at == len(data)
        assert (self.lost is None) == cut_off
        times = [event.time for event in self.events]
        assert times == sorted(times)

    def check(self):
        """Every free is of a live block. Returns allocations, frees and the bytes never freed."""
        live, counts = {}, collections.Counter()
        failed = {event.value for event in self.events if event.kind == FREE_FAILED}
        for number, event in enumerate(self.events):
            if event.kind == ALLOC:
                assert event.pointer not in live and event.pointer and event.value
                live[event.pointer] = event.value
                counts[ALLOC] += 1
            elif event.kind == FREE and number not in failed:
                del live[event.pointer]
                counts[FREE] += 1
        return counts[ALLOC], counts[FREE], sorted(live.values())


def rows_of(path, missing=""):
    """What `poolcuda convert` makes of the file: rows, of which each free has its allocation. missing: what it says of those that are not there."""
    out = path.with_suffix(".converted.csv")
    done = subprocess.run([COMMAND, "convert", path, out], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", missing and f"poolcuda convert: {path}: {missing}\n")
    with out.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    live = set()
    for row in rows:
        if row["op"] == "A":
            assert row["id"] not in live and int(row["size"]) > 0
            live.add(row["id"])
        else:
            assert row["op"] == "F"
            live.remove(row["id"])
    return rows


def counts_of(rows):
    return tuple(sum(row["op"] == op for row in rows) for op in "AF")


def pool_counts(result):
    return tuple(int(re.search(rf"^  {name}: (\d+)", result.stats, re.M).group(1))
                 for name in ("allocations", "frees"))


def trace_line(result):
    """The report's line: the file's path, events, lost ones."""
    found = re.search(r"^  trace: (.*), (\d+) events, of which (\d+) lost$",
                      result.stats + result.err, re.M)
    return found.group(1), int(found.group(2)), int(found.group(3))


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "trace"


@pytest.mark.parametrize("program, left", [
    (SAMPLES / "varying", []), (SAMPLES / "three_sites", []), (SAMPLES / "threads", []),
    (SAMPLES / "threads-static", []), (PROGRAMS / "named_sites-static", []),
    (PROGRAMS / "devices", [5000])], ids=lambda value: getattr(value, "name", ""))
def test_each_allocation_and_free_of_a_program_is_recorded_once(run, trace, program, left):
    result = run(program, env={"POOLCUDA_TRACE": str(trace), "SIMCUDA_DEVICES": "2"})
    assert result.code == 0
    allocations, frees, never_freed = Recording(trace).check()
    assert (allocations, frees) == pool_counts(result) == counts_of(rows_of(trace))
    assert never_freed == left
    assert trace_line(result) == (str(trace), allocations + frees, 0)


def test_devices_are_recorded(run, trace):
    run(PROGRAMS / "devices", env={"POOLCUDA_TRACE": str(trace), "SIMCUDA_DEVICES": "2"})
    assert {event.device for event in Recording(trace).events if event.kind == ALLOC} == {0, 1}


def test_only_what_succeeded_is_an_event_of_the_trace(run, trace):
    native = run(PROGRAMS / "answers", pooled=False)
    traced = run(PROGRAMS / "answers", env={"POOLCUDA_TRACE": str(trace)})
    assert (traced.out, traced.code) == (native.out, native.code)
    succeeded = [line for line in native.out.splitlines() if line.endswith("): 0")]
    allocations = [line for line in succeeded if re.match(r"cudaMalloc\(|cuMemAlloc_v2\(", line)
                   and ", 0)" not in line]
    frees = [line for line in succeeded if re.match(r"cudaFree\(|cuMemFree_v2\(", line)
             and not re.search(r"\((NULL|0)\)", line)]
    # The contexts of two blocks end without a free.
    assert len(allocations) == len(frees) + 2
    recording = Recording(trace)
    assert recording.check()[:2] == (len(allocations), len(frees))
    assert any(event.kind == FREE_FAILED for event in recording.events)
    assert counts_of(rows_of(trace)) == (len(allocations), len(frees))


def test_no_event_of_many_threads_is_lost_or_torn(run, trace):
    result = run([PROGRAMS / "stress", 32, 300, "any"],
                 env={"POOLCUDA_TRACE": str(trace), "SIMCUDA_MEMORY": "1G"})
    assert result.out == "wrong 0\n", result.err
    allocations, frees, never_freed = Recording(trace).check()
    assert allocations == frees > 1000 and never_freed == []
    assert pool_counts(result) == (allocations, frees)
    assert trace_line(result) == (str(trace), allocations + frees, 0)
    assert counts_of(rows_of(trace)) == (allocations, frees)


def test_a_child_records_nothing_into_its_parents_file(run, trace):
    result = run(PROGRAMS / "forks", env={"POOLCUDA_TRACE": str(trace)})
    assert result.out == "child 7\nparent done\n"
    assert Recording(trace).check() == (201, 201, [])
    assert [file.name for file in trace.parent.glob("trace*")] == ["trace"]


def test_a_call_that_a_handler_forks_in_goes_on_in_the_child_which_has_a_file_of_its_own(run, trace):
    result = run([PROGRAMS / "forks_in_handler", "100"], env={"POOLCUDA_TRACE": str(trace)})
    assert (result.out, result.code) == ("100 children\n", 0), result.err
    assert "cannot be written" not in result.err
    allocations, frees, never_freed = Recording(trace).check()
    assert allocations == frees > 0 and never_freed == []
    children = [Recording(file, cut_off=True) for file in trace.parent.glob("trace.*")]
    assert len({child.process for child in children}) == len(children)


@pytest.mark.parametrize("pattern, names", [
    ("trace.%p", lambda process, trace: f"trace.{process}"),
    ("trace", lambda process, trace: "trace" if process == Recording(trace).process else "trace.1")],
    ids=["by process", "by number"])
def test_a_child_that_uses_cuda_itself_has_a_file_of_its_own(run, trace, pattern, names):
    result = run([PROGRAMS / "forks", "before"],
                 env={"POOLCUDA_TRACE": str(trace.parent / pattern)})
    assert result.out == "child 7\nparent done\n"
    files = sorted(trace.parent.glob("trace*"))
    recordings = [Recording(file) for file in files]
    assert [recording.check() for recording in recordings] == [(100, 100, [])] * 2
    assert [file.name for file in files] == [names(r.process, trace) for r in recordings]
    assert len({recording.process for recording in recordings}) == 2


def test_a_killed_program_loses_at_most_the_last_buffer(trace):
    rounds = 5000
    environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), POOLCUDA_TRACE=str(trace),
                       SIMCUDA_COST="0", LD_LIBRARY_PATH=f"{DRIVER}:{RUNTIME}")
    with subprocess.Popen([PROGRAMS / "endless", str(rounds)], env=environment,
                          stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGKILL)
        program.wait()
    recording = Recording(trace, cut_off=True)
    made = 2 * rounds + 1
    assert made - BUFFER_EVENTS <= len(recording.events) <= made
    kinds = [event.kind for event in recording.events]
    assert kinds == ([ALLOC, FREE] * rounds + [ALLOC])[:len(kinds)]
    assert sum(counts_of(rows_of(trace, CUT_OFF))) == len(kinds)
    # Wherever the end comes.
    data = trace.read_bytes()
    for size in (64, 65, 100, len(data) // 2, len(data) - 1):
        trace.write_bytes(data[:size])
        rows_of(trace, CUT_OFF)
    for size in (1, 15, 16, 63):
        trace.write_bytes(data[:size])
        done = subprocess.run([COMMAND, "replay", trace], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"poolcuda replay: {trace}: offset 0: a recording that ends at byte {size}, expected a header of 64 bytes\n"
    trace.write_bytes(data)
    for words in (["replay", trace], ["tune", trace], ["convert", trace, "-"]):
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, f"poolcuda {words[0]}: {trace}: {CUT_OFF}\n")


def check_lost(result, path, trace):
    """The file ends early and whole; what was lost is in it and in the report."""
    recording = Recording(trace)
    told, events, lost = trace_line(result)
    assert told == str(path)
    assert 0 < recording.lost == lost < events
    assert len(recording.events) == events - lost
    assert sum(counts_of(rows_of(trace, f"the last {lost} events could not be written and are missing"))) == events - lost


USES_CUDA = """
import ctypes, os, resource, signal
cuda = ctypes.CDLL("libcudart.so.13")
def use(times):
    pointer = ctypes.c_void_p()
    for _ in range(times):
        assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
        assert cuda.cudaFree(pointer) == 0
use(10)
"""


def run_script(run, trace, script):
    result = run(["/usr/bin/python3", "-c", USES_CUDA + script + "print('done')\n"], stats=False,
                 env={"POOLCUDA_TRACE": str(trace), "POOLCUDA_STATS": "1",
                      "MINE": str(trace.parent / "mine")})
    assert (result.code, result.out) == (0, "done\n"), result.err
    return result


def test_a_limit_for_files_hurts_the_trace_and_not_the_program(run, trace):
    """Set once the simulated GPU has its memory, which is a file too. Python ignores the signal."""
    result = run_script(run, trace, """
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
use(1000)
""")
    assert 20000 - 8192 < trace.stat().st_size <= 20000
    check_lost(result, trace, trace)


def test_a_limit_for_files_hurts_what_goes_to_standard_output_and_not_the_program(tmp_path):
    """Where a write beyond the limit is answered by a signal, whose default is to end the program."""
    code = USES_CUDA + """
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
use(3000)
"""
    environment = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "LD_PRELOAD": str(LIBRARY), "SIMCUDA_COST": "0",
                   "POOLCUDA_TRACE": "/dev/stdout"}
    with (tmp_path / "out").open("wb") as out:
        done = guard.run(["/usr/bin/python3", "-c", code], env=environment, stdout=out)
    assert done.returncode == 0
    assert (tmp_path / "out").stat().st_size <= 20000


def test_a_pipe_that_nobody_empties_does_not_hold_up_the_program(tmp_path):
    """The program's own, at which a write waits for ever."""
    ours, theirs = os.pipe()
    environment = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "LD_PRELOAD": str(LIBRARY), "SIMCUDA_COST": "0",
                   "POOLCUDA_TRACE": f"/dev/fd/{theirs}"}
    done = guard.run([SAMPLES / "trace_player", ROOT / "tests/data/mgpu_reduce.csv.gz"], env=environment,
                     pass_fds=[theirs], capture_output=True, cwd=tmp_path)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0 and b"6434" in done.stdout


def may_mount():
    done = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"],
                          capture_output=True, check=False) if shutil.which("unshare") else None
    return done is not None and done.returncode == 0


@pytest.mark.skipif(not may_mount(), reason="nothing can be mounted here: run as root, or allow user namespaces; package "
                    "util-linux")
def test_a_full_disk_hurts_the_trace_and_not_the_program(run, trace):
    native = run(SAMPLES / "varying", pooled=False)
    disk = trace.parent / "disk"
    disk.mkdir()
    program = SAMPLES / "varying"
    # The file system goes with its namespace: the trace is saved from it.
    full = run(["unshare", "-rm", "sh", "-c",
                f"mount -t tmpfs -o size=8k none {disk} && "
                f"POOLCUDA_TRACE={disk}/trace {program}; code=$?; cp {disk}/trace {trace}; exit $code"])
    assert (full.code, full.out) == (native.code, native.out)
    check_lost(full, disk / "trace", trace)


def test_an_existing_file_is_kept(run, trace):
    trace.write_text("precious")
    result = run(PROGRAMS / "named_sites", env={"POOLCUDA_TRACE": str(trace)})
    assert trace.read_text() == "precious"
    second = trace.with_name("trace.1")
    assert Recording(second).check() == (400, 400, [])
    assert trace_line(result) == (str(second), 800, 0)


def test_a_file_that_cannot_be_made_is_reported_in_one_line_and_changes_nothing(run):
    native = run(PROGRAMS / "named_sites", pooled=False)
    result = run(PROGRAMS / "named_sites", env={"POOLCUDA_TRACE": "/nowhere/at/all"})
    assert (result.code, result.out) == (native.code, native.out)
    assert result.err == ('poolcuda: POOLCUDA_TRACE="/nowhere/at/all": cannot be written (no such file or folder), '
                          'recording nothing\n')
    assert "trace:" not in result.stats
    assert pool_counts(result) == (400, 400)


def test_stream_ordered_memory_is_recorded_with_its_stream(run, trace):
    run_script(run, trace, """
stream, pointer = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cudaStreamCreate(ctypes.byref(stream)) == 0
cuda.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(0), stream)
for size in range(1, 101):
    assert cuda.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(size), stream) == 0
    assert cuda.cudaFreeAsync(pointer, stream) == 0
assert cuda.cudaMallocAsync(ctypes.byref(pointer), ctypes.c_size_t(3000), stream) == 0
assert cuda.cudaFree(pointer) == 0
""")
    recording = Recording(trace)
    assert recording.check() == (111, 111, [])
    sizes = [event.value for event in recording.events if event.kind == ALLOC]
    assert sizes == [4096] * 10 + [*range(1, 101)] + [3000]
    streams = [event.stream for event in recording.events]
    assert streams[:20] == [0] * 20 and streams[-1] == 0
    assert len(set(streams[20:-1])) == 1 and streams[20] > 2


def test_a_program_that_closes_all_files_writes_into_none_of_its_own(run, trace):
    """The recorder's descriptor is closed by the program and given to another file."""
    result = run_script(run, trace, """
os.closerange(3, 1000)
files = [os.open(f"{os.environ['MINE']}.{i}", os.O_RDWR | os.O_CREAT) for i in range(20)]
use(1000)
assert all(os.fstat(file).st_size == 0 for file in files)
""")
    Recording(trace, cut_off=True)
    _, events, lost = trace_line(result)
    assert events == 2020 and lost >= 2000


@pytest.mark.parametrize("form", ["", "-static"])
def test_sites_are_named_by_module_and_offset_wherever_it_is_loaded(run, trace, form):
    program = PROGRAMS / f"named_sites{form}"
    runs = []
    for number in range(2):
        file = trace.with_name(f"trace{number}")
        run(program, env={"POOLCUDA_TRACE": str(file)})
        runs.append([[row[name] for name in ("op", "id", "size", "stream", "site")]
                     for row in rows_of(file)])
    assert runs[0] == runs[1]
    functions = functions_of(program)
    names = collections.Counter()
    for operation, _, _, _, site in runs[0]:
        if operation == "A":
            module, offset = site.rsplit("+", 1)
            assert module == program.name
            names[next(name for low, high, name in functions if low < int(offset, 16) <= high)] += 1
    assert names == {"site_alpha": 100, "site_beta": 100, "wrapper": 200}


def test_what_is_recorded_can_be_replayed(run, trace):
    run(PROGRAMS / "named_sites", env={"POOLCUDA_TRACE": str(trace)})
    done = subprocess.run([COMMAND, "replay", trace], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed: package valgrind")
def test_an_event_costs_at_most_250_instructions(run, trace):
    """The making of the file and the description of sites included, system calls not. The buffer is written every 100 us:
    with the steady clock that is every 100 events, however slow the machine is under valgrind. What is done once does not
    count beside so many."""
    def instructions(settings):
        result = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                      PROGRAMS / "named_sites", "1000"], env={"SIMCUDA_MEMORY": "256M", **settings},
                     before=[PROGRAMS / "libsteady_clock.so"])
        assert result.code == 0, result.err
        return int(re.search(r"Collected : (\d+)", result.err).group(1))

    cost = instructions({"POOLCUDA_TRACE": str(trace)}) - instructions({})
    events = len(Recording(trace).events)
    assert events == 8000
    assert cost / events <= 250, cost / events
