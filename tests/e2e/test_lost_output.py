"""What a command prints and nobody gets is an error: one line says why, and the command fails."""

import os
import pathlib
import re
import resource
import signal
import subprocess

import guard
import pytest
from conftest import COMMAND
from steered import Program
from writers import CLEAN, TRACE, VIEWS, fixture_stats  # noqa: F401  pylint: disable=unused-import

HELP = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True).stdout
COMMANDS = re.findall(r"^  (\w+) +\S", HELP.partition("Commands:\n")[2], re.M)

# What each command prints, in all its forms. STATS: a report, COPY: a copy of it, PID: a running program, RESULT: of `poolcuda replay --json`.
PRINTS = {
    "run": [],  # what it starts prints: its own affair
    "doctor": [[], ["--json"], ["/bin/true"]],
    "report": [["STATS"], ["--json", "STATS"], ["--each", "STATS"], ["--each", "--json", "STATS"], ["--leaks", "STATS"],
               ["--all", "STATS", "COPY"], *([f"--{view}=-", "STATS"] for view in VIEWS)],
    "top": [["--once"], ["--json"], ["--prometheus=-"], ["--prometheus=-", "--interval=0.1"], []],
    "trim": [["PID"], ["all"]],
    "set": [["PID", "STEAL=0"]],
    "replay": [[TRACE], ["--json", TRACE], ["--native", TRACE]],
    "tune": [[TRACE], ["--json", TRACE], ["--all", TRACE]],
    "compare": [["RESULT", "RESULT"], ["--json", "RESULT", "RESULT"]],
    "convert": [[TRACE, "-"], [TRACE, "/dev/stdout"]],
    "options": [[], ["--markdown"]],
    "preload": [[]],
    "completions": [["bash"], ["zsh"], ["fish"]],
}
ALL = [[], *([command] for command in COMMANDS)]
LINES = [
    *([*command, option] for command in ALL for option in ("--help", "--usage", "--version")),
    *([command, *words] for command in COMMANDS for words in PRINTS.get(command, [])),
]
EACH = pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(os.path.basename(word) for word in line))


@pytest.fixture(scope="module", name="program")
def fixture_program():
    with Program(POOLCUDA_MAX_IDLE="100%", POOLCUDA_IDLE_DECAY="0") as started:
        started.do("churn")  # it answers whoever asks
        yield started


@pytest.fixture(scope="module", name="start")
def fixture_start(program, stats, tmp_path_factory):
    """start(line, ...): the command, ended, with its standard error as text."""
    result = tmp_path_factory.mktemp("result") / "result.json"
    result.write_bytes(subprocess.run([COMMAND, "replay", "--json", TRACE], env=CLEAN, stdout=subprocess.PIPE,
                                      check=True).stdout)
    copy = result.with_name("copy.json")  # counted beside the first: one file under two names would count once
    copy.write_bytes(pathlib.Path(stats).read_bytes())
    places = {"STATS": stats, "COPY": copy, "PID": program.pid, "RESULT": result}

    def runner(line, **options):
        words = [str(places.get(str(word), word)) for word in line]
        return guard.run([COMMAND, *words], env=CLEAN, stderr=subprocess.PIPE, text=True, errors="replace", check=False, **options)
    return runner


def test_every_command_and_each_of_its_forms_is_tried_here():
    assert set(PRINTS) == set(COMMANDS), "a new command needs its lines in PRINTS"
    for command in COMMANDS:
        told = subprocess.run([COMMAND, command, "--help"], capture_output=True, text=True, check=True).stdout
        tried = {word.split("=")[0] for words in PRINTS[command] for word in map(str, words)}
        for form in ("--json", "--markdown", "--prometheus", "--once", *(f"--{view}" for view in VIEWS)):
            assert (form in told) <= (form in tried), f"{command} {form}"


def codes_of(line):
    """What it may end with when all is printed: /bin/true uses no CUDA, and who asks all may meet another who asks."""
    return (0, 1) if line[:1] == ["doctor"] or line == ["trim", "all"] else (0,)


def code_of_loss(line):
    """1 is a verdict of the doctor's."""
    return 4 if line[:1] == ["doctor"] else 1


@EACH
def test_a_full_disk_is_an_error_of_every_command(line, start):
    if "--interval=0.1" not in line:  # that one goes on for ever
        whole = start(line, stdout=subprocess.PIPE)
        assert whole.stdout and whole.returncode in codes_of(line), whole.stderr
    with open("/dev/full", "wb") as full:
        done = start(line, stdout=full)
    assert done.returncode == code_of_loss(line)
    name = " ".join(["poolcuda", *line[:1]]) if line and line[0] in COMMANDS else "poolcuda"
    expected = f"{name}: standard output: No space left on device; not all was printed\n"
    if line[:1] == ["convert"] and "/dev/stdout" in line:
        expected = "poolcuda convert: /dev/stdout: No space left on device; expected a file that can be written\n"
    if line[-1:] in (["--help"], ["--usage"], ["--version"]):
        expected = expected.replace(name, "poolcuda" if line[0] in ("--help", "--usage", "--version") else name)
    assert done.stderr == expected


# The simulated GPU of what replays, and the figures of a program that is asked, are files themselves.
@pytest.mark.parametrize("line", [line for line in LINES if line[0] not in ("replay", "tune") or line[1] in ("--help", "--usage", "--version")],
                         ids=lambda line: " ".join(os.path.basename(word) for word in line))
def test_a_file_at_its_limit_is_one_too_and_no_signal(line, start, tmp_path):
    size = 64 << 20
    with (tmp_path / "out").open("ab") as out:
        out.truncate(size)
        done = start(line, stdout=out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    assert done.returncode == code_of_loss(line), done.stderr
    assert re.fullmatch(r"poolcuda[a-z ]*: (standard output: File too large; not all was printed|"
                        r"/dev/stdout: File too large; expected a file that can be written)\n", done.stderr)
    assert (tmp_path / "out").stat().st_size == size


def test_a_program_that_is_started_gets_the_limits_signal_as_it_would(start):
    bit = 1 << (signal.SIGXFSZ - 1)
    for handler in (signal.SIG_DFL, signal.SIG_IGN):
        done = start(["run", "--quiet", "sed", "-n", "s/^SigIgn:\\t//w /dev/stderr", "/proc/self/status"], restore_signals=False,
                     preexec_fn=lambda handler=handler: signal.signal(signal.SIGXFSZ, handler))
        assert bool(int(done.stderr, 16) & bit) == (handler == signal.SIG_IGN)


@pytest.mark.parametrize("line", [["options"], ["--help"], ["completions", "zsh"], ["convert", TRACE, "-"]],
                         ids=lambda line: line[0])
def test_a_closed_standard_output_is_one_too(line, start):
    done = start(line, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert re.fullmatch(r"poolcuda[a-z ]*: standard output: Bad file descriptor; not all was printed\n", done.stderr)


def test_no_file_takes_the_place_of_a_closed_standard_output(start, tmp_path):
    out = tmp_path / "out.csv"
    assert start(["convert", TRACE, out], preexec_fn=lambda: os.closerange(0, 2)).returncode == 0
    assert out.read_text().startswith("t_us,op,")


def test_a_program_finds_the_standard_files_as_they_were_given(start):
    script = "for file in 0 1; do if [ -e /proc/self/fd/$file ]; then echo $file is open >&2; fi; done; exit 7"
    done = start(["run", "--quiet", "sh", "-c", script], preexec_fn=lambda: os.closerange(0, 2))
    assert (done.returncode, done.stderr) == (7, "")


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("line", [["options"], ["report", "STATS"], ["--help"], ["completions", "bash"],
                                  ["top", "--prometheus=-", "--interval=0.1"]], ids=" ".join)
def test_a_pipe_whose_reader_has_gone_ends_a_command_quietly(line, start):
    for ignored, code in ((False, -signal.SIGPIPE), (True, 1)):
        pipe = broken_pipe()
        handler = signal.SIG_IGN if ignored else signal.SIG_DFL
        done = start(line, stdout=pipe, restore_signals=False,
                     preexec_fn=lambda handler=handler: signal.signal(signal.SIGPIPE, handler))
        os.close(pipe)
        assert (done.returncode, done.stderr) == (code, "")


def test_what_a_program_loses_is_its_own_affair(start):
    with open("/dev/full", "wb") as full:
        done = start(["run", "--quiet", "sh", "-c", "echo lost 2> /dev/null; exit 7"], stdout=full)
    assert (done.returncode, done.stderr) == (7, "")
    with open("/dev/full", "wb") as full:
        done = start(["run", "--quiet", "sh", "-c", "exit 0"], stdout=full)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_failure_keeps_its_code(start):
    with open("/dev/full", "wb") as full:
        assert start(["options", "superfluous"], stdout=full).returncode == 2
        assert start(["run", "/nowhere/at/all"], stdout=full).returncode == 127
