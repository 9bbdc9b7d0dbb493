"""What the command line names is never damaged: regular files are replaced as a whole or stay as they were, and everything
else is written to as it is."""

import gzip
import os
import pathlib
import re
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import threading

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, ROOT, RUNTIME, SAMPLES
from steered import NEEDS_MOUNT
from writers import CLEAN, TRACE, VIEWS, WRITERS, fixture_stats, names, poolcuda, words_of  # noqa: F401  pylint: disable=unused-import

OLD = "what was there before\n" * 10
# Root writes where it likes; without this right it is like anybody.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"] \
    if os.geteuid() == 0 else []
NEEDS_SETPRIV = pytest.mark.skipif(
    bool(UNPRIVILEGED) and subprocess.run([*UNPRIVILEGED, "true"], capture_output=True, check=False).returncode != 0,
    reason="setpriv may not give up rights here")
EACH_WRITER = pytest.mark.parametrize("writer", WRITERS)


@pytest.fixture(name="write")
def fixture_write(stats):
    """write(writer, out, code=0): has the command write to `out`, and returns what it said on standard error."""
    def runner(writer, out, code=0, **options):
        done = poolcuda(*words_of(writer, out, stats), **options)
        assert done.returncode == code, done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == (1 if code else 0) or (writer == "top" and not code), done.stderr
        return done.stderr
    return runner


def test_every_option_that_names_a_file_to_write_is_tried_here():
    told = {"report": [], "top": [], "tune": []}
    for command, options in told.items():
        for line in poolcuda(command, "--help").stdout.splitlines():
            word = line.replace(",", " ").split()
            options += [part.split("=")[0] for part in word if part.startswith("--") and part.endswith(("=FILE", "=BASE"))]
    pool = {option.split("=")[0] for option in poolcuda("replay", "--help").stdout.split() if option.startswith("--")}
    known = {part.split("=")[0] for words in WRITERS.values() for part in map(str, words) if part.startswith("--")}
    assert {option for options in told.values() for option in options} - pool <= known


# A regular file

@EACH_WRITER
def test_a_regular_file_is_replaced_as_a_whole_and_keeps_its_mode(writer, write, tmp_path):
    out = tmp_path / "out.svg"
    out.write_text(OLD)
    out.chmod(0o640)
    with out.open() as reader:
        write(writer, out)
        assert reader.read() == OLD, "who reads the old file reads it to its end"
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert OLD.encode() not in out.read_bytes()
    assert set(names(tmp_path)) <= {"out.svg", "out.png"}


@EACH_WRITER
def test_a_new_files_mode_is_what_the_umask_leaves(writer, write, tmp_path):
    before = os.umask(0o027)
    try:
        write(writer, tmp_path / "out.svg")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.svg").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others: run the tests as root")
def test_a_replaced_file_keeps_its_owner(write, tmp_path):
    out = tmp_path / "out.svg"
    out.write_text(OLD)
    os.chown(out, 1234, 4321)
    out.chmod(0o4755)
    write("convert", out)
    assert (out.stat().st_uid, out.stat().st_gid, stat.S_IMODE(out.stat().st_mode)) == (1234, 4321, 0o4755)


@EACH_WRITER
@pytest.mark.parametrize("exists", [True, False])
def test_through_a_link_its_target_is_written_and_the_link_stays(writer, write, tmp_path, exists):
    (tmp_path / "real").mkdir()
    target, out = tmp_path / "real/target", tmp_path / "out.svg"
    if exists:
        target.write_text(OLD)
    (tmp_path / "second").symlink_to("real/target")
    out.symlink_to(tmp_path / "second")
    write(writer, out)
    assert out.is_symlink() and os.readlink(tmp_path / "second") == "real/target"
    assert target.stat().st_size > 100 and names(tmp_path / "real") == ["target"]


def test_another_hard_link_keeps_the_old_content(write, tmp_path):
    (tmp_path / "other").write_text(OLD)
    os.link(tmp_path / "other", tmp_path / "out.svg")
    write("convert", tmp_path / "out.svg")
    assert (tmp_path / "other").read_text() == OLD


# tune's own simulated GPU is a file beyond such a limit.
@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer != "tune"])
def test_a_disk_that_gets_full_in_the_middle_leaves_the_old_content_and_nothing_else(writer, write, tmp_path):
    out = tmp_path / "out.svg"
    out.write_text(OLD)
    said = write(writer, out, code=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50)))
    assert out.read_text() == OLD and names(tmp_path) == ["out.svg"]
    assert f"{out}: File too large" in said and "what was there is as it was" in said


@EACH_WRITER
@pytest.mark.parametrize("linked", [False, True], ids=["named", "by_a_link"])
def test_a_report_is_never_overwritten(writer, linked, stats, tmp_path):
    report, out = tmp_path / ("report.json" if linked else "out.svg"), tmp_path / "out.svg"
    shutil.copy(stats, report)
    if linked:
        out.symlink_to(report)
    before = report.read_bytes()
    done = poolcuda(*words_of(writer, out, stats))
    assert (done.returncode, done.stdout) == (2, "") and names(tmp_path) == sorted({report.name, out.name})
    assert done.stderr == (f"poolcuda {writer.split()[0]}: {out}: a report itself, expected the name of another file; "
                           "it was not overwritten\n")
    assert report.read_bytes() == before


@pytest.fixture(scope="module", name="recorded")
def fixture_recorded(tmp_path_factory):
    """A trace that a program's run has left."""
    path = tmp_path_factory.mktemp("trace") / "varying.trace"
    guard.run([SAMPLES / "varying"], capture_output=True, check=True, env={
        **CLEAN, "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "LD_PRELOAD": str(LIBRARY), "SIMCUDA_COST": "0", "POOLCUDA_TRACE": str(path)})
    return path


@pytest.mark.parametrize("writer", [*WRITERS, "replay"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_recorded_trace_is_never_overwritten(writer, packed, recorded, stats, tmp_path):
    out = tmp_path / "out.svg"
    before = gzip.compress(recorded.read_bytes()) if packed else recorded.read_bytes()
    out.write_bytes(before)
    words = ["replay", TRACE, f"--sweep={tmp_path}/out"] if writer == "replay" else words_of(writer, out, stats)
    done = poolcuda(*words)
    assert (done.returncode, done.stdout) == (2, "") and names(tmp_path) == ["out.svg"]
    assert done.stderr == (f"poolcuda {writer.split()[0]}: {out}: a recorded trace, expected the name of another file; "
                           "it was not overwritten\n")
    assert out.read_bytes() == before


@NEEDS_MOUNT
@EACH_WRITER
def test_so_does_a_disk_without_any_room(writer, stats, tmp_path):
    script = """mount -t tmpfs -o size=64k none "$0" && cd "$0" && echo old > out.svg
                head -c 100k /dev/zero > full 2> /dev/null
                "$@" > /dev/null; code=$?; cat out.svg; ls -A; exit $code"""
    done = guard.run(["unshare", "--mount", "sh", "-c", script, tmp_path, COMMAND, *words_of(writer, "out.svg", stats)],
                     env=CLEAN, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "old\nfull\nout.svg\n")
    assert "out.svg: No space left on device" in done.stderr and "what was there is as it was" in done.stderr


@NEEDS_SETPRIV
@EACH_WRITER
def test_in_a_folder_that_takes_no_files_a_file_that_may_be_written_is_written_in_place(writer, stats, tmp_path):
    out = tmp_path / "out.svg"
    for path in (out, tmp_path / "out.png"):
        path.write_text(OLD * 20000)
    inode = out.stat().st_ino
    tmp_path.chmod(0o555)
    try:
        done = poolcuda(*words_of(writer, out, stats), prefix=UNPRIVILEGED)
    finally:
        tmp_path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_ino == inode
    assert OLD not in out.read_bytes().decode(errors="replace"), "the old file was longer"


@NEEDS_SETPRIV
@EACH_WRITER
def test_a_file_that_may_not_be_written_is_not_replaced(writer, write, tmp_path):
    out = tmp_path / "out.svg"
    out.write_text(OLD)
    out.chmod(0o444)
    said = write(writer, out, code=1, prefix=UNPRIVILEGED)
    assert out.read_text() == OLD and stat.S_IMODE(out.stat().st_mode) == 0o444 and names(tmp_path) == ["out.svg"]
    assert f"{out}: Permission denied" in said


@NEEDS_MOUNT
def test_a_file_that_is_a_mount_point_is_written_in_place(tmp_path):
    (tmp_path / "inside").write_text(OLD)
    (tmp_path / "outside").write_text(OLD)
    script = 'mount --bind "$1/outside" "$1/inside" && exec "$0" convert "$2" "$1/inside"'
    done = guard.run(["unshare", "--mount", "sh", "-c", script, COMMAND, tmp_path, TRACE], capture_output=True,
                     text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "outside").read_text().startswith("t_us,op,") and (tmp_path / "inside").read_text() == OLD
    assert names(tmp_path) == ["inside", "outside"]


def test_a_name_of_any_length_that_the_folder_takes_is_written(write, tmp_path):
    for length in (1, 255):
        out = tmp_path / ("x" * length)
        for _ in range(2):  # as a new file, and in the place of an old one
            write("convert", out)
    assert len(names(tmp_path)) == 2
    assert "File name too long" in write("convert", tmp_path / ("x" * 256), code=1)


def test_what_is_no_place_for_a_file_is_reported(write, tmp_path):
    (tmp_path / "gone").mkdir()
    done = guard.run(["sh", "-c", 'rmdir ../gone; exec "$0" convert "$1" out.csv', COMMAND, TRACE], cwd=tmp_path / "gone",
                     capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("poolcuda convert: out.csv: No such file or directory")
    for out in (f"{tmp_path}/new/", "/dev/fd/99", "/dev/fd/1x", "/proc/self/status", "/proc/new"):
        assert f"poolcuda convert: {out}: " in write("convert", out, code=1)


# What is no regular file

@EACH_WRITER
def test_a_device_is_written_to_as_it_is_and_what_it_says_is_reported(writer, write, tmp_path):
    out = tmp_path / "out.svg"
    out.symlink_to("/dev/full")
    said = write(writer, out, code=1)
    assert f"{out}: No space left on device" in said
    assert out.is_symlink() and names(tmp_path) == ["out.svg"] and stat.S_ISCHR(os.stat("/dev/full").st_mode)


@EACH_WRITER
def test_a_pipe_gets_what_a_file_would(writer, write, tmp_path):
    out, got = tmp_path / "out.svg", []
    os.mkfifo(out)
    reader = threading.Thread(target=lambda: got.append(out.read_bytes()))
    reader.start()
    write(writer, out)
    reader.join()
    assert len(got[0]) > 100 and stat.S_ISFIFO(out.stat().st_mode)
    assert set(names(tmp_path)) <= {"out.svg", "out.png"}


@EACH_WRITER
def test_a_folder_a_socket_and_links_in_a_ring_are_refused_in_one_line(writer, write, tmp_path):
    out = tmp_path / "out.svg"
    out.mkdir()
    assert f"{out}: Is a directory" in write(writer, out, code=1)
    out.rmdir()
    out.symlink_to("out.svg")
    assert f"{out}: Too many levels of symbolic links" in write(writer, out, code=1)
    out.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # a socket's path is short
        try:
            server.bind("out.svg")
        finally:
            os.chdir(here)
        assert f"{out}: No such device or address" in write(writer, out, code=1)
    assert stat.S_ISSOCK(out.stat().st_mode) and names(tmp_path) == ["out.svg"]
    assert "Not a directory" in write(writer, f"{tmp_path}/out.svg/below.svg", code=1)
    assert "No such file or directory" in write(writer, f"{tmp_path}/absent/out.svg", code=1)


# tune appends .svg and .png to what it is given.
@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer != "tune"])
@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "LINK"])
def test_standard_output_is_written_behind_what_it_has(writer, name, stats, tmp_path):
    if name == "LINK":
        name = tmp_path / "link"
        name.symlink_to("/dev/stdout")
    out = tmp_path / "out"
    with out.open("w") as file:
        file.write("first\n")
        file.flush()
        assert poolcuda(*words_of(writer, name, stats), capture_output=False, stdout=file).returncode == 0
        file.write("last\n")
    content = out.read_bytes()
    assert content.startswith(b"first\n") and content.endswith(b"last\n") and len(content) > 100


def test_another_processs_descriptor_is_written_to_as_it_is(tmp_path):
    out = tmp_path / "out"
    with out.open("w") as file:
        done = poolcuda("convert", TRACE, f"/proc/{os.getpid()}/fd/{file.fileno()}")
        assert done.returncode == 0, done.stderr
        assert os.fstat(file.fileno()).st_ino == out.stat().st_ino and out.read_text().startswith("t_us,op,")


# What is read as well

def same_in_many_ways(path):
    """Names of the same file."""
    link, hard = path.with_name("link"), path.with_name("hard")
    link.symlink_to(path.name)
    os.link(path, hard)
    return [path, link, hard, path.parent / "." / path.name]


def test_a_conversion_into_its_own_input_is_refused(tmp_path):
    trace = tmp_path / "trace.csv.gz"
    shutil.copy(TRACE, trace)
    before = trace.read_bytes()
    for one in same_in_many_ways(trace):
        for other in (trace, one):
            done = poolcuda("convert", other, one)
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
            assert f"{one}: is the file that is read, too" in done.stderr
            assert trace.read_bytes() == before
    with trace.open("rb") as source:
        done = poolcuda("convert", "/dev/stdin", trace, stdin=source)
        assert done.returncode == 2 and "is the file that is read, too" in done.stderr
    with trace.open("ab") as target:
        for out in ("-", "/dev/stdout"):
            done = poolcuda("convert", trace, out, capture_output=False, stdout=target, stderr=subprocess.PIPE)
            assert done.returncode == 2 and "is the file that is read, too" in done.stderr
    assert trace.read_bytes() == before


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer.startswith("report")])
def test_a_view_into_a_report_that_is_read_is_refused(writer, stats, tmp_path):
    report = tmp_path / "report.json"
    shutil.copy(stats, report)
    before = report.read_bytes()
    (tmp_path / "noreport").write_text("something else")
    for one in same_in_many_ways(report):
        done = poolcuda(*words_of(writer, one, report))
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and str(one) in done.stderr
        assert report.read_bytes() == before
    done = poolcuda(*words_of(writer, tmp_path / "noreport", report), tmp_path / "noreport")
    assert done.returncode == 2 and (tmp_path / "noreport").read_text() == "something else"


def test_a_drawing_into_the_trace_is_refused_before_the_work(tmp_path):
    for name in ("trace.svg", "trace.png"):
        trace = tmp_path / name
        shutil.copy(TRACE, trace)
        done = poolcuda("tune", trace, f"--plot={tmp_path}/trace")
        assert (done.returncode, done.stdout) == (2, "") and "is the file that is read, too" in done.stderr
        assert trace.read_bytes() == TRACE.read_bytes()
        trace.unlink()


READERS = {  # what prints, of what it reads
    "report": ["report", "STATS"], "report --json": ["report", "--json", "STATS"], "report --each": ["report", "--each", "STATS"],
    "report --leaks": ["report", "--leaks", "STATS"], "report --leaks and a view": ["report", "--leaks", "--html=VIEW", "STATS"],
    "report of several": ["report", "OTHER", "STATS"], **{f"report --{view}": ["report", f"--{view}=-", "STATS"] for view in VIEWS},
    "replay": ["replay", "TRACE"], "replay --json": ["replay", "--json", "TRACE"], "tune": ["tune", "TRACE"],
    "convert": ["convert", "TRACE", "-"], "compare": ["compare", "OTHER", "RESULT"], "compare --json": ["compare", "--json", "RESULT", "OTHER"]}


@pytest.fixture(name="inputs")
def fixture_inputs(stats, tmp_path):
    """What the readers read: copies, so that they can be damaged."""
    for name in ("STATS", "OTHER"):
        shutil.copy(stats, tmp_path / name)
    shutil.copy(TRACE, tmp_path / "TRACE")
    (tmp_path / "RESULT").write_text(poolcuda("replay", "--json", TRACE).stdout)
    return tmp_path


@pytest.mark.parametrize("reader", READERS)
def test_what_is_printed_goes_into_no_file_that_is_read(reader, inputs):
    words = [re.sub(r"\b(STATS|OTHER|TRACE|RESULT|VIEW)$", lambda found: str(inputs / found[1]), word) for word in READERS[reader]]
    name = next(name for name in ("STATS", "TRACE", "RESULT") if name in READERS[reader])
    before = (inputs / name).read_bytes()
    for mode in ("ab", "r+b"):  # >> and <>; what > leaves of it is nothing, and refused as well
        with (inputs / name).open(mode) as out:
            done = poolcuda(*words, capture_output=False, stdout=out, stderr=subprocess.PIPE)
        assert (inputs / name).read_bytes() == before and not (inputs / "VIEW").exists()
        assert done.returncode == 2 and done.stderr == (
            f"poolcuda {words[0]}: standard output: is the file that is read, too; expected another one to write, nothing was written\n")
    with (inputs / name).open("wb") as out:
        done = poolcuda(*words, capture_output=False, stdout=out, stderr=subprocess.PIPE)
    assert done.returncode == 2 and "is the file that is read, too" in done.stderr and (inputs / name).read_bytes() == b""


def test_every_command_that_reads_files_is_tried_so():
    table = re.findall(r"^COMMAND\((\w+), FILES,", (ROOT / "src/cli/commands.def").read_text(), re.M)
    assert {words[0] for words in READERS.values()} == set(table)


def test_a_file_in_the_folder_that_is_read_may_be_made_but_not_continued(inputs):
    (inputs / "folder").mkdir()
    shutil.copy(inputs / "STATS", inputs / "folder/one")
    out = inputs / "folder/sum"
    for words in (["--each", "--json"], ["--each"], ["--json"], []):
        with out.open("wb") as file:
            done = poolcuda("report", *words, inputs / "folder", capture_output=False, stdout=file, stderr=subprocess.PIPE)
        assert done.returncode == 0 and "1 other files in these folders are no reports" in done.stderr
        before = out.read_bytes()
        assert len(before) > 100
    with out.open("ab") as file:
        done = poolcuda("report", inputs / "folder", capture_output=False, stdout=file, stderr=subprocess.PIPE)
    assert done.returncode == 2 and "is the file that is read, too" in done.stderr and out.read_bytes() == before


# What is written twice

def different_names(folder):
    """Of one file that is there, and of one that is not."""
    (folder / "file").write_text(OLD)
    (folder / "link").symlink_to("file")
    os.link(folder / "file", folder / "hard")
    (folder / "to new").symlink_to("new")
    (folder / "sub").mkdir()
    yield from (("file", "file"), ("file", "link"), ("hard", "link"), ("file", "sub/../file"), ("new", "new"), ("new", "sub/../new"),
                ("to new", "new"), ("./new", "to new"))


def test_two_views_into_one_file_are_bad_usage_and_nothing_is_written(stats, tmp_path):
    for one, other in different_names(tmp_path):
        done = poolcuda("report", f"--html={tmp_path}/{one}", f"--flamegraph={tmp_path}/{other}", stats)
        assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1, (one, other)
        assert "is the file that is written, too; expected another one to write, nothing was written" in done.stderr
        assert (tmp_path / "file").read_text() == OLD and not (tmp_path / "new").exists()
    with (tmp_path / "file").open("ab") as out:
        for words in (["--html=-", "--flamegraph=-"], ["--html=/dev/stdout", "--flamegraph=-"], ["--html=-", f"--pprof={tmp_path}/link"],
                      ["--leaks", f"--html={tmp_path}/file"]):
            done = poolcuda("report", *words, stats, capture_output=False, stdout=out, stderr=subprocess.PIPE)
            assert done.returncode == 2 and "is the file that is written, too" in done.stderr, words
    assert (tmp_path / "file").read_text() == OLD
    assert poolcuda("report", "--html=/dev/null", "--flamegraph=/dev/null", stats).returncode == 0


def test_two_drawings_into_one_file_or_into_what_is_printed_are_bad_usage(tmp_path):
    (tmp_path / "plot.png").symlink_to("plot.svg")
    done = poolcuda("tune", TRACE, f"--plot={tmp_path}/plot")
    assert (done.returncode, done.stdout) == (2, "") and "is the file that is written, too" in done.stderr
    assert names(tmp_path) == ["plot.png"]
    (tmp_path / "plot.png").unlink()
    for name in ("plot.svg", "plot.png"):
        with (tmp_path / name).open("wb") as out:
            done = poolcuda("tune", TRACE, f"--plot={tmp_path}/plot", capture_output=False, stdout=out, stderr=subprocess.PIPE)
        assert done.returncode == 2 and f"plot{name[4:]}: is the file that is written, too" in done.stderr
        assert names(tmp_path) == [name] and (tmp_path / name).read_bytes() == b""
        (tmp_path / name).unlink()


def test_what_was_tuned_is_reported_even_if_it_cannot_be_drawn(tmp_path):
    (tmp_path / "plot.svg").symlink_to("/dev/full")
    done = poolcuda("tune", TRACE, f"--plot={tmp_path}/plot")
    assert done.returncode == 1 and "\nrecommended" in done.stdout and len(done.stderr.splitlines()) == 1


def test_a_file_that_others_own_is_written_as_far_as_they_allow():
    """As somebody else, in a folder like /tmp: its files can be exchanged by their owners alone."""
    if os.geteuid() != 0:
        pytest.skip("only root may become somebody else: run the tests as root")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, COMMAND, "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("nobody cannot start the build's command: build where others may read")
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o1777)
        shared, own = folder / "shared.csv", folder / "own.csv"
        for path, mode in ((shared, 0o666), (own, 0o644)):
            path.write_text(OLD)
            path.chmod(mode)
        shutil.copy(TRACE, folder / "trace.csv.gz")
        done = poolcuda("convert", folder / "trace.csv.gz", shared, prefix=nobody)
        assert done.returncode == 0, done.stderr
        assert shared.stat().st_uid == 0 and shared.read_text().startswith("t_us,op,")
        done = poolcuda("convert", folder / "trace.csv.gz", own, prefix=nobody)
        assert done.returncode == 1 and "Permission denied" in done.stderr and own.read_text() == OLD
        assert names(folder) == ["own.csv", "shared.csv", "trace.csv.gz"]
    finally:
        shutil.rmtree(folder)
