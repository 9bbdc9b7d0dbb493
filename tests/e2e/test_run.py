"""poolcuda run: the program is pooled and otherwise as if started directly, and the next command is named."""

import gzip
import itertools
import os
import pathlib
import pty
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess

import guard
import pytest
from conftest import BUILD, COMMAND, DRIVER, LIBRARY, PROGRAMS, RUNTIME

PYTHON = "/usr/bin/python3"
PROGRAM = PROGRAMS / "driver_linked"


def environment(**more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_", "TMPDIR"))}
    return {**clean, "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "SIMCUDA_COST": "0", **more}


@pytest.fixture
def pooled(tmp_path):
    """pooled(argument...): the finished `poolcuda run argument...`, in the test's own folder."""
    def start(*arguments, env=None, command=COMMAND, cwd=tmp_path, **more):
        return guard.run([command, "run", *map(str, arguments)], env=environment(**(env or {})), cwd=cwd,
                         capture_output=True, text=True, check=False, **more)
    return start


@pytest.fixture
def started(tmp_path):
    """started(script, argument...): a Popen of a Python script under poolcuda run that has said "ready"."""
    running = []

    def start(script, *options, **more):
        process = subprocess.Popen([COMMAND, "run", "-q", *options, "--", PYTHON, "-c", script], cwd=tmp_path,
                                   env=environment(), stdout=subprocess.PIPE, text=True, **more)
        running.append(process)
        assert process.stdout.readline() == "ready\n"
        return process
    yield start
    for process in running:
        process.kill()
        process.stdout.close()
        process.wait()


def next_command(result):
    return re.search(r"^poolcuda: next: (.*)$", result.stderr, re.M).group(1)


def type_in(command, cwd):
    return guard.run(["/bin/sh", "-c", command], cwd=cwd, env=environment(), capture_output=True,
                     text=True, check=False)


# Figures and the next command.

def test_the_program_is_pooled_and_the_command_that_is_named_shows_its_figures(pooled, tmp_path):
    result = pooled("--", PROGRAM)
    assert (result.returncode, result.stdout) == (0, "done\n")
    lines = result.stderr.splitlines()
    assert len(lines) == 2 and lines[0].startswith(f"poolcuda: figures in {tmp_path}/poolcuda.driver_linked.")
    shown = type_in(next_command(result), tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"of which 29\d from idle memory", shown.stdout)


def test_files_of_several_processes_are_counted_and_shown_by_one_command(pooled, tmp_path):
    result = pooled(PROGRAMS / "forks", "before")
    assert "poolcuda: figures of 2 processes in " in result.stderr
    shown = type_in(next_command(result), tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert ", 2 runs on " in shown.stdout


def test_files_of_earlier_runs_are_not_counted(pooled):
    first, second = pooled(PROGRAM), pooled(PROGRAM)
    assert "poolcuda: figures in " in first.stderr and "poolcuda: figures in " in second.stderr
    assert next_command(first) != next_command(second)


def test_names_that_a_shell_would_split_are_quoted(pooled, tmp_path):
    folder = tmp_path / "a b 100% it's"
    folder.mkdir()
    shutil.copy(PROGRAM, folder / "odd name%p")
    result = pooled("./odd name%p", cwd=folder)
    shown = type_in(next_command(result), tmp_path)
    assert shown.returncode == 0 and "held from the driver" in shown.stdout, result.stderr


def test_control_characters_in_names_do_not_reach_the_terminal(pooled):
    result = pooled("./bad\033[31mname\nmore")
    assert result.returncode == 127
    assert result.stderr.count("\n") == 1 and "\033" not in result.stderr


@pytest.mark.parametrize("line, why, code", [
    ("#!/no/such/interpreter -x\n", "its interpreter /no/such/interpreter is not there", 127),
    ("#! /no/such\n", "its interpreter /no/such is not there", 127), (None, "a folder", 126)])
def test_why_a_program_cannot_be_started_is_told(pooled, tmp_path, line, why, code):
    script = tmp_path / "script"
    if line:
        script.write_text(line)
        script.chmod(0o755)
    else:
        script.mkdir()
    result = pooled("--", "./script")
    assert result.returncode == code
    assert result.stderr == f"poolcuda run: ./script: {why}, expected a program that can be started\n"


def test_where_the_current_folder_takes_no_files_they_go_to_tmpdir(pooled, tmp_path):
    result = pooled(PROGRAM, cwd="/proc", env={"TMPDIR": str(tmp_path)})
    assert f"poolcuda: figures in {tmp_path}/poolcuda.driver_linked." in result.stderr


def test_where_tmpdir_takes_no_files_either_they_go_to_tmp(pooled):
    result = pooled(PROGRAM, cwd="/proc", env={"TMPDIR": "/proc/nowhere"})
    name = re.search(r"figures in (/tmp/poolcuda\.driver_linked\.\S+)", result.stderr)[1]
    pathlib.Path(name).unlink()


def test_a_program_that_goes_elsewhere_leaves_its_figures_here(pooled, tmp_path):
    result = pooled("sh", "-c", f"cd /; exec {PROGRAM}")
    assert f"poolcuda: figures in {tmp_path}/poolcuda.sh." in result.stderr


def test_without_cuda_it_says_so_and_names_the_doctor(pooled, tmp_path):
    result = pooled("/bin/true")
    assert "poolcuda: no figures: the program used no CUDA" in result.stderr
    assert next_command(result) == f"{COMMAND} doctor /bin/true"
    assert not list(tmp_path.iterdir())
    assert type_in(next_command(result), tmp_path).returncode == 1


USES_CUDA = """
import ctypes, os, time
def use():
    cuda = ctypes.CDLL("libcudart.so.13")
    pointer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(pointer), 1000) == 0 == cuda.cudaFree(pointer)
"""


@pytest.mark.parametrize("script, why", [
    ("os.unsetenv('POOLCUDA_STATS_FILE'); use()", "POOLCUDA_STATS_FILE was gone by the first CUDA call"),
    ("os.fork() or (os.setsid(), os.close(1), os.close(2), os.read(int(os.environ['GO']), 1), use())", "a process still runs")], ids=["cleared", "daemon"])
def test_what_else_may_leave_no_figures_is_told(pooled, tmp_path, script, why):
    waits, go = os.pipe()
    try:
        result = pooled("--", PYTHON, "-c", USES_CUDA + script, env={"GO": str(waits)}, pass_fds=[waits])
    finally:
        os.close(go)
        os.close(waits)
    assert result.returncode == 0 and "poolcuda: no figures: " in result.stderr and why in result.stderr


def test_a_program_that_is_named_like_an_option_is_named_so_that_the_doctor_takes_it(pooled, tmp_path):
    shutil.copy("/bin/true", tmp_path / "-t")
    result = pooled("--", "-t", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert result.returncode == 0
    assert next_command(result) == f"{COMMAND} doctor -- -t"


def test_figures_go_where_the_user_says(pooled, tmp_path):
    result = pooled("--stats-file", tmp_path / "mine.%p", "--", PROGRAM)
    made, = tmp_path.iterdir()
    assert made.name.startswith("mine.")
    assert next_command(result) == f"{COMMAND} report {made}"


def test_figures_on_standard_error_make_no_file_and_no_claim(pooled, tmp_path):
    result = pooled("--stats=1", PROGRAM)
    assert "held from the driver" in result.stderr and "poolcuda: " not in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_trace_is_handed_on_to_tune(pooled, tmp_path):
    result = pooled("--trace", "t.%p", "--stats=1", PROGRAM)
    made, = tmp_path.iterdir()
    assert next_command(result) == f"{COMMAND} tune {made.name}"


def test_a_log_of_a_relative_name_counts_from_where_the_run_began(pooled, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    small = {"SIMCUDA_MEMORY": "256M"}
    line = f"cd elsewhere; exec {PROGRAMS / 'out_of_memory'} alloc held"
    for options in (["--log=rel.%p.log"], ["--log=stderr"]):
        result = pooled("--stats=0", *options, "--", "/bin/sh", "-c", line, env=small)
        logs = sorted(tmp_path.glob("**/*.log")) + sorted(tmp_path.glob("**/stderr"))
        if options == ["--log=stderr"]:
            assert "out of memory in" in result.stderr and logs == made
        else:
            made = logs
            assert len(made) == 1 and made[0].parent == tmp_path and "out of memory in" in made[0].read_text()


def test_a_pool_that_is_off_is_reported(pooled, tmp_path):
    result = pooled("--disable=1", PROGRAM)
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert result.stderr == "poolcuda: pooling was off: POOLCUDA_DISABLE=1\n"
    assert not list(tmp_path.iterdir())


def test_quiet_says_nothing_and_leaves_the_figures(pooled, tmp_path):
    result = pooled("--quiet", PROGRAM)
    assert (result.stdout, result.stderr) == ("done\n", "")
    assert len(list(tmp_path.iterdir())) == 1


# The environment.

def test_nothing_but_the_preload_and_the_figures_file_is_set(pooled):
    plain = subprocess.run(["env"], env=environment(), capture_output=True, text=True, check=True).stdout
    result = pooled("env")
    added = sorted(set(result.stdout.splitlines()) - set(plain.splitlines()))
    assert [line.split("=")[0] for line in added if not line.startswith(("PWD=", "_="))] == [
        "LD_PRELOAD", "POOLCUDA_STATS_FILE"]
    assert f"LD_PRELOAD={LIBRARY}" in added


def test_the_library_is_put_before_what_is_preloaded_already_unless_it_names_it(pooled, tmp_path):
    other = PROGRAMS / "libinterposer_driver.so"
    result = pooled("env", env={"LD_PRELOAD": f" {other}"})
    assert f"LD_PRELOAD={LIBRARY}:{other}\n" in result.stdout
    again = pooled("env", env={"LD_PRELOAD": f"{other} {LIBRARY}"})
    assert f"LD_PRELOAD={other} {LIBRARY}\n" in again.stdout
    empty = tmp_path / "libpoolcuda.so"
    empty.touch()
    for gone in ("/nowhere/libpoolcuda.so", empty):
        assert f"LD_PRELOAD={LIBRARY}:{gone}\n" in pooled("env", env={"LD_PRELOAD": str(gone)}).stdout


def test_the_library_is_put_behind_what_refuses_to_come_second(pooled):
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    other = PROGRAMS / "libinterposer_driver.so"
    result = pooled("env", env={"LD_PRELOAD": f"{runtime} {other}", "ASAN_OPTIONS": "detect_leaks=0"})
    assert f"LD_PRELOAD={runtime}:{LIBRARY}:{other}\n" in result.stdout


def test_a_quota_that_is_preloaded_already_sees_each_call_of_the_pool(pooled, tmp_path):
    report = tmp_path / "quota"
    result = pooled(PROGRAMS / "driver_opened", env={"LD_PRELOAD": str(PROGRAMS / "libquota_hidden.so"), "QUOTA_REPORT": str(report)})
    assert result.returncode == 0, result.stderr
    allocations = int(report.read_text().split()[1])
    assert 0 < allocations <= 12


def test_every_option_of_the_table_can_be_given_as_an_argument(pooled, tmp_path):
    values = {"0 or 1": "1", "a path": "x"}
    table = subprocess.run([COMMAND, "options", "--markdown"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\| `(POOLCUDA_\w+)` \| (.*?) \| ", table, re.M)
    assert len(rows) > 10
    together, all_expected = [], []
    for name, takes in rows:
        value = values.get(takes, re.match(r"\w+", takes).group())
        value += name if takes == "a path" else ""  # a file of its own
        argument = f"--{name[9:].lower().replace('_', '-')}={value}"
        # Files of the program's are made where poolcuda run was started.
        expected = f"{name}={tmp_path}/{value}" if takes == "a path" else f"{name}={value}"
        result = pooled(argument, "env")
        assert result.returncode == 0 and expected in result.stdout.splitlines(), result.stderr
        if name not in ("POOLCUDA_DISABLE", "POOLCUDA_STATS"):  # beside which files that are asked for are not made
            together.append(argument)
            all_expected.append(expected)
    result = pooled("--disable=0", "--stats=json", *together, "env")
    assert result.returncode == 0, result.stderr
    assert {*all_expected, "POOLCUDA_DISABLE=0", "POOLCUDA_STATS=json"} <= set(result.stdout.splitlines())


# What is asked for and would not come, or damage what is there.

@pytest.mark.parametrize("options, variables", [(["--stats=0"], {}), ([], {"POOLCUDA_STATS": "0"}),
                                                (["--stats=0"], {"POOLCUDA_STATS_FILE": "mine"})])
def test_no_figures_are_made_where_none_are_wanted(pooled, tmp_path, options, variables):
    result = pooled(*options, PROGRAM, env=variables)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "poolcuda: figures were off: POOLCUDA_STATS=0\n")
    assert not list(tmp_path.iterdir())


def test_a_file_of_figures_that_is_typed_goes_before_the_variable_that_wants_none(pooled, tmp_path):
    assert pooled("--stats-file=mine", PROGRAM, env={"POOLCUDA_STATS": "0"}).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("options, said", [
    (["--stats=0", "--stats-file=F"], "--stats=0: expected without --stats-file, as it asks for no figures"),
    *[(["--disable=1", option], f"--disable=1: expected without {option.split('=')[0]}, of which nothing comes without the pool")
      for option in ("--trace=F", "--stats-file=F", "--log=F", "--check=1", "--check-log=F", "--stats=1", "--stats=json", "--stats=file")]])
def test_options_of_which_one_would_be_passed_over_are_bad_usage(pooled, tmp_path, options, said):
    result = pooled(*options, "echo", "started")
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"poolcuda run: {said}; nothing was started\n")
    assert not list(tmp_path.iterdir())


def test_a_check_and_figures_that_are_off_may_be_typed_beside_a_pool_that_is_off(pooled):
    assert pooled("--disable=1", "--check=0", "--stats=0", "echo", "started").stdout == "started\n"


def test_two_outputs_into_one_file_are_bad_usage(pooled, tmp_path):
    (tmp_path / "link").symlink_to("new")
    files = ["--stats-file", "--trace", "--log", "--check-log"]
    for other, one in itertools.combinations(files, 2):
        for names in (("new", "new"), ("new", "./new"), ("link", "new"), ("new.%p", "new.%p")):
            result = pooled(f"{other}={names[0]}", f"{one}={names[1]}", "echo", "started")
            if (other, one) == ("--log", "--check-log"):
                assert (result.returncode, result.stdout) == (0, "started\n"), "logs may share a file"
                continue
            assert (result.returncode, result.stdout) == (2, ""), (other, one, names)
            assert result.stderr == (f"poolcuda run: {one}: {os.path.normpath(tmp_path)}/{names[1]}: the file of {other}, too; "
                                     "expected one for each; nothing was started\n")
    result = pooled("--trace=new", "echo", "started", env={"POOLCUDA_LOG": "new"})
    assert result.returncode == 2 and result.stderr.startswith(f"poolcuda run: POOLCUDA_LOG: {tmp_path}/new: the file of --trace, too")
    for stream in ("/dev/null", "/dev/stdout"):
        assert pooled(f"--trace={stream}", f"--log={stream}", f"--stats-file={stream}", "echo").returncode == 0


@pytest.mark.parametrize("option", ["--check-log=F", "--check-leaks=1", "--check-exit=3"])
def test_an_option_of_the_check_without_it_is_told(pooled, option):
    result = pooled(option, "echo", "started")
    assert (result.returncode, result.stdout) == (0, "started\n")
    assert (f"poolcuda run: {option.split('=')[0]}: nothing is checked without --check, expected beside it; "
            "the program is started all the same\n") in result.stderr
    assert "nothing is checked" not in pooled(option, "--check=1", "echo", "started").stderr


def test_what_is_asked_for_and_does_not_come_of_a_pool_that_a_variable_turns_off_is_named(pooled, tmp_path):
    result = pooled("--trace=F", PROGRAM, env={"POOLCUDA_DISABLE": "1"})
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert result.stderr == "poolcuda: pooling was off: POOLCUDA_DISABLE=1, so that nothing came of --trace\n"
    assert not list(tmp_path.iterdir())


def test_a_log_is_appended_to_nothing_that_is_compressed(pooled, tmp_path):
    packed = tmp_path / "kept.json.gz"
    packed.write_bytes(gzip.compress(b"{}"))
    before = packed.read_bytes()
    result = pooled("--log=kept.json.gz", "echo", "started")
    assert (result.returncode, result.stdout) == (2, "")
    assert "kept.json.gz: compressed data, which a log would damage; expected the name of another file" in result.stderr
    assert packed.read_bytes() == before


@pytest.mark.parametrize("log", ["--log", "--check-log", "POOLCUDA_LOG", "POOLCUDA_CHECK_LOG"])
def test_a_log_is_appended_to_no_report_and_no_trace(pooled, tmp_path, log):
    assert pooled("--stats-file=kept.json", "--trace=kept.trace", PROGRAM).returncode == 0
    for name, what in (("kept.json", "a report itself"), ("kept.trace", "a recorded trace")):
        before = (tmp_path / name).read_bytes()
        options, variables = ([f"{log}={name}"], {}) if log.startswith("--") else ([], {log: name})
        result = pooled(*options, "echo", "started", env=variables)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == (f"poolcuda run: {log}: {tmp_path}/{name}: {what}, which a log would damage; "
                                 "expected the name of another file; nothing was started\n")
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("arguments, env", [(["--reuse-ratio", "99"], {}), ([], {"POOLCUDA_REUSE_RATIO": "99"})])
def test_a_bad_value_is_reported_before_the_program_starts(pooled, arguments, env):
    result = pooled(*arguments, "echo", "started", env=env)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == 'poolcuda: POOLCUDA_REUSE_RATIO="99": expected a number from 1 to 16\n'


@pytest.mark.parametrize("arguments", [[], ["--"], ["--no-such-option", "true"]])
def test_bad_usage_exits_with_2(pooled, arguments):
    assert pooled(*arguments).returncode == 2


# Where the library lies.

def moved(folder):
    """A copy of the command and the library as they lie in the build folder."""
    for part in ("src/cli/poolcuda", "src/interpose/libpoolcuda.so"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BUILD / part, folder / part)
    return folder / "src/cli/poolcuda"


def test_a_library_in_a_folder_with_blanks_and_colons_is_preloaded_by_a_link(pooled, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    result = pooled(PROGRAM, command=moved(tmp_path / "a b:c"), env={"TMPDIR": str(temporary)})
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "poolcuda: figures in " in result.stderr
    assert not list(temporary.iterdir()), "the link is gone afterwards"


def test_an_installation_can_be_moved(pooled, tmp_path):
    if subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tmp_path / "all"],
                      check=False, capture_output=True).returncode:
        pytest.fail("cannot be installed")
    command, = (tmp_path / "all").rglob("bin/poolcuda")
    prefix = command.parent.parent
    prefix.rename(tmp_path / "elsewhere")
    result = pooled("env", command=tmp_path / "elsewhere/bin/poolcuda")
    library, = (tmp_path / "elsewhere").rglob("libpoolcuda.so")
    assert f"LD_PRELOAD={library}\n" in result.stdout


def test_without_the_library_nothing_is_started(pooled, tmp_path):
    shutil.copy(COMMAND, tmp_path / "alone")
    result = pooled("echo", "started", command=tmp_path / "alone")
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr.count("\n") == 1 and "libpoolcuda.so: not found" in result.stderr


NO_DRIVER = {"LD_LIBRARY_PATH": ""}
SIMULATED = "poolcuda: this ran on the simulated GPU: all times are modelled\n"


def test_a_program_of_the_driver_api_runs_without_a_gpu(pooled, tmp_path):
    program = shutil.copy(PROGRAM, tmp_path / "program")  # where it was built it finds the driver by itself
    native = pooled("-q", program, env=NO_DRIVER)
    assert native.returncode == 127 and "libcuda.so.1" in native.stderr
    result = pooled("--simulate", "--", program, env=NO_DRIVER)
    assert result.returncode == 0 and SIMULATED in result.stderr
    assert re.search(r"^allocations: \d+, of which [1-9]", type_in(next_command(result), tmp_path).stdout.replace("  ", ""), re.M)
    quiet = pooled("-q", "--simulate", "--", program, env=NO_DRIVER)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, result.stdout, "")


def test_the_simulated_gpu_goes_before_other_drivers(pooled):
    result = pooled("-q", "--simulate", "--", "env", env={"LD_LIBRARY_PATH": "/here:/there"})
    folder, *others = re.search(r"^LD_LIBRARY_PATH=(.*)$", result.stdout, re.M).group(1).split(":")
    assert (folder, others) == (str(DRIVER), ["/here", "/there"])


def test_without_the_simulated_gpu_nothing_is_started(pooled, tmp_path):
    for place in (COMMAND, LIBRARY):
        (tmp_path / place.relative_to(BUILD)).parent.mkdir(parents=True)
        shutil.copy(place, tmp_path / place.relative_to(BUILD))
    command = tmp_path / COMMAND.relative_to(BUILD)
    assert pooled("-q", "echo", "started", command=command).stdout == "started\n"
    result = pooled("--simulate", "echo", "started", command=command)
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == "poolcuda run: --simulate: the simulated GPU's driver: not found, expected it where it was installed " \
        "together with this command; nothing was started\n"


def preload(command, code=0):
    done = guard.run([command, "preload"], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_preload_prints_what_ld_preload_is_to_be_set_to(tmp_path):
    path, said = preload(COMMAND)
    assert (path, said) == (f"{LIBRARY}\n", "")
    command = moved(tmp_path / "moved")
    assert preload(command)[0] == f"{tmp_path}/moved/src/interpose/libpoolcuda.so\n"
    done = type_in(f"export POOLCUDA_STATS_FILE={tmp_path}/figures; LD_PRELOAD=$({command} preload) {PROGRAM}", tmp_path)
    assert done.returncode == 0 and (tmp_path / "figures").exists()


def test_preload_prints_no_path_that_ld_preload_cannot_hold(tmp_path):
    for folder in ("a b", "a:b"):
        printed, said = preload(moved(tmp_path / folder), code=1)
        assert printed == "" and said == (
            f"poolcuda preload: {tmp_path}/{folder}/src/interpose/libpoolcuda.so: LD_PRELOAD cannot hold a path with spaces or "
            "colons; expected it elsewhere, or use `poolcuda run`\n")


def test_preload_prints_no_path_where_there_is_no_library(tmp_path):
    shutil.copy(COMMAND, tmp_path / "alone")
    assert preload(tmp_path / "alone", code=1) == ("", "poolcuda preload: libpoolcuda.so: not found, expected it where it was "
                                                       "installed together with this command\n")


# The program's end.

def test_the_exit_code_is_the_programs(pooled):
    assert pooled("sh", "-c", "exit 37").returncode == 37


@pytest.mark.parametrize("number", ["SEGV", "ABRT", "KILL", "TERM", "PIPE", "USR1"])
def test_death_by_a_signal_is_the_programs(pooled, number):
    assert pooled("sh", "-c", f"kill -{number} $$").returncode == -signal.Signals[f"SIG{number}"]


def test_only_the_program_leaves_a_core_file(tmp_path):
    def allow_cores():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
        os.chdir(tmp_path)
    with subprocess.Popen([COMMAND, "run", "sh", "-c", "kill -SEGV $$"], env=environment(),
                          stderr=subprocess.DEVNULL, preexec_fn=allow_cores) as process:
        _, status = os.waitpid(process.pid, 0)
        process.returncode = 0
    assert os.WTERMSIG(status) == signal.SIGSEGV and not os.WCOREDUMP(status)


@pytest.mark.parametrize("program, code, why", [
    ("no-such-program", 127, "No such file or directory"), ("/nowhere/at/all", 127, "No such file or directory"),
    ("/etc/passwd", 126, "Permission denied"), ("/usr", 126, "a folder")])
def test_what_cannot_be_started_is_reported_in_one_line_and_nothing_claimed(pooled, tmp_path, program, code, why):
    result = pooled("--", program)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr == f"poolcuda run: {program}: {why}, expected a program that can be started\n"
    assert not list(tmp_path.iterdir())


# Standard input and output.

def test_input_and_output_are_the_programs(tmp_path):
    data = bytes(range(256)) * 1000
    done = guard.run([COMMAND, "run", "cat"], input=data, env=environment(), capture_output=True, cwd=tmp_path,
                     check=False)
    assert done.stdout == data


def test_what_the_program_closes_is_closed(started):
    process = started("import os, signal\nos.close(0)\nprint('ready', flush=True)\nos.close(1)\nsignal.pause()",
                      stdin=subprocess.PIPE)
    assert process.stdout.read() == "", "nobody holds the output any more"
    process.stdin.write("x")
    with pytest.raises(BrokenPipeError):
        process.stdin.flush()


# Signals.

LISTEN = """
import signal, sys
wanted = {int(n) for n in sys.argv[1:]} | %r
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
while True:
    print(signal.sigwait(wanted), flush=True)
"""
SENT = [getattr(signal, f"SIG{name}") for name in
        ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "ALRM", "PIPE", "URG", "IO", "TSTP", "SEGV", "ABRT",
         "RTMIN", "RTMAX")]


def test_signals_reach_the_program(started):
    process = started(LISTEN % {int(number) for number in SENT})
    for number in SENT:
        process.send_signal(number)
        assert process.stdout.readline() == f"{int(number)}\n"
    assert process.poll() is None


def state(pid):
    """None: it is gone, or goes while it is looked at."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def child(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read())


def test_stopped_and_continued_they_are_together(started):
    # In a group of their own: SIGTSTP does not stop a group that no other group of its session has started.
    process = started("print('ready', flush=True)\nimport signal\nsignal.pause()", preexec_fn=os.setpgrp)
    program = child(process.pid)
    for _ in range(2):
        process.send_signal(signal.SIGTSTP)
        guard.wait_for(lambda: state(program) == "T" and state(process.pid) == "T", "both stop")
        process.send_signal(signal.SIGCONT)
        guard.wait_for(lambda: state(program) == "S" and state(process.pid) == "S", "both go on")
    process.send_signal(signal.SIGTERM)
    assert guard.wait_for_end(process, "it ends by SIGTERM") == -signal.SIGTERM


def test_killed_without_a_chance_it_takes_the_program_with_it(started):
    process = started("print('ready', flush=True)\nimport signal\nsignal.pause()")
    program = child(process.pid)
    process.kill()
    process.wait()
    guard.wait_for(lambda: state(program) in (None, "Z"), "the program ends")


def test_what_was_ignored_before_stays_ignored(started):
    process = started("print('ready', flush=True)\nprint(input(), flush=True)", stdin=subprocess.PIPE,
                      preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    process.stdin.write("alive\n")
    process.stdin.flush()
    assert process.stdout.readline() == "alive\n"
    assert guard.wait_for_end(process, "it ends by itself") == 0


def test_children_that_nobody_waits_for_stay_so(pooled):
    """An inherited SIG_IGN of SIGCHLD is the program's own business."""
    result = pooled("-q", PYTHON, "-c", "import signal; print(signal.getsignal(signal.SIGCHLD).name)",
                    preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert (result.returncode, result.stdout) == (0, "SIG_IGN\n")


def test_an_alarm_that_was_set_before_is_the_programs(tmp_path):
    """perl -e 'alarm 5; exec @ARGV' is a common way to bound a program's time."""
    done = guard.run([COMMAND, "run", "-q", PYTHON, "-c", "import signal; signal.pause()"], cwd=tmp_path,
                     env=environment(), check=False,
                     preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 0.2))
    assert done.returncode == -signal.SIGALRM


# A terminal.

class Terminal:
    """A process in a terminal of its own; expect() reads until a text comes."""

    def __init__(self, command, cwd):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(command[0], list(map(str, command)), environment(PS1="prompt$ ", TERM="dumb", LC_ALL="C"))
        self.text = ""

    def expect(self, wanted):
        while wanted not in self.text and select.select([self.file], [], [], guard.LIMIT)[0]:
            try:
                self.text += os.read(self.file, 4096).decode()
            except OSError:
                break
        before, found, self.text = self.text.partition(wanted)
        assert found, f"{wanted!r} did not come: {before!r}"
        return before

    def type(self, text):
        os.write(self.file, text.encode())

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(*command):
        opened.append(Terminal(command, tmp_path))
        return opened[-1]
    yield start
    for each in opened:
        each.close()


# Not by input(): a signal that comes just before it reads is noticed only after that.
COUNTS = """
import os, select, signal
told, tells = os.pipe()
os.set_blocking(tells, False)
signal.set_wakeup_fd(tells)
signal.signal(signal.SIGINT, lambda *_: None)
print("ready", flush=True)
count, line = 0, b""
while line != b"end\\n":
    for file in select.select([0, told], [], [])[0]:
        if file == told:
            count += len(os.read(told, 100))
            print("seen", flush=True)
        else:
            line = os.read(0, 100)
            print("more", flush=True)
print("count", count, flush=True)
"""


def test_an_interrupt_from_the_terminal_comes_once(terminal):
    it = terminal(COMMAND, "run", PYTHON, "-c", COUNTS)
    it.expect("ready")
    it.type("\x03")
    it.expect("seen")
    it.type("another\n")
    it.expect("more")
    it.type("end\n")
    it.expect("count ")
    assert it.expect("poolcuda: no figures").split()[0] == "1"


def test_a_terminal_that_hangs_up_ends_the_program(tmp_path):
    pid, file = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        waits = "import signal\nprint('ready', flush=True)\nsignal.pause()"
        os.execve(COMMAND, [str(COMMAND), "run", PYTHON, "-c", waits], environment())
    text = b""
    while b"ready\r\n" not in text:  # all of it: a write to what has hung up fails
        text += os.read(file, 4096)
    os.close(file)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGHUP


def test_a_shell_stops_it_and_brings_it_back(terminal):
    it = terminal("/bin/bash", "--norc", "--noediting", "-i")
    it.expect("prompt$ ")
    it.type(f"{shlex.quote(str(COMMAND))} run -q cat\n")
    it.type("hello\n")
    it.expect("hello")
    it.expect("hello")
    it.type("\x1a")
    it.expect("Stopped")
    it.expect("prompt$ ")
    it.type("fg\n")
    it.expect("run -q cat")
    it.type("again\n")
    it.expect("again")
    it.expect("again")
    it.type("\x03")
    it.expect("prompt$ ")
    it.type("echo code $?\n")
    it.expect("code 130")
