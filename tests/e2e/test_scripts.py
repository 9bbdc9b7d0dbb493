"""The scripts that newcomers and CI run: what was missing at first is found later, no step hides another, nothing is silent."""

import json
import os
import re
import subprocess

import pytest
from conftest import BUILD, ROOT


def bash(script, cwd=ROOT, env=None):
    done = subprocess.run(["bash", "-c", f". scripts/lib.sh\n. scripts/steps.sh\n{script}"], cwd=cwd,
                          capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def scripts(tmp_path):
    """A folder with the scripts, whose logs are its own."""
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    return tmp_path


def option(build, name):
    options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    return next(o["value"] for o in options if o["name"] == name)


def test_a_build_folder_that_was_made_before_its_tools_were_installed_has_them_afterwards(tmp_path):
    """As scripts/demo makes it on a bare machine, before scripts/test installs valgrind and dpkg-dev."""
    tools, packages, folder = tmp_path / "bin", tmp_path / "pkgconfig", tmp_path / "build"
    tools.mkdir()
    packages.mkdir()
    (tools / "dpkg-architecture").write_text("#!/bin/sh\nexit 1\n")
    (tools / "dpkg-architecture").chmod(0o755)
    paths = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], capture_output=True, text=True,
                           check=True).stdout.strip().split(":")
    for path in paths:
        for file in os.scandir(path) if os.path.isdir(path) else []:
            if not file.name.startswith("valgrind") and not (packages / file.name).exists():
                (packages / file.name).symlink_to(file.path)
    headers = option(BUILD, "cudainc")
    bare = {"PATH": f"{tools}:{os.environ['PATH']}", "PKG_CONFIG_LIBDIR": str(packages)}
    for environment, valgrind in ((bare, False), ({}, True)):
        code, output = bash(f"configure_shared {folder} '{headers}'", env=environment)
        assert code == 0, output
        commands = (folder / "compile_commands.json").read_text()
        assert ("HAVE_CALLGRIND" in commands) == valgrind
    machine = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    assert option(folder, "libdir") == f"lib/{machine}"


def test_the_demo_builds_nothing_but_what_it_runs():
    targets = subprocess.run(["/usr/bin/python3", ROOT / "scripts/demo.py", "--targets"], capture_output=True, text=True,
                             check=True).stdout.split()
    inputs = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", *targets], capture_output=True, text=True,
                            check=True).stdout.splitlines()
    assert "src/cli/poolcuda" in targets and "samples/varying-static" in targets
    assert any(path.endswith("samples/varying.c") for path in inputs)
    assert [path for path in inputs if "tests/" in path] == []


def test_a_step_that_fails_is_counted_and_those_behind_it_run(scripts):
    code, output = bash("step first false\nstep second true\nfinish", scripts)
    assert code == 1
    assert "FAILED: first" in output and "ok: second" in output
    assert output.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_step_that_did_not_run_is_named_with_its_reason_and_is_no_success(scripts):
    code, output = bash('step first true\nnot_run "no compiler" second third\nfinish', scripts)
    assert code == 1
    assert "NOT RUN: second: no compiler\nNOT RUN: third: no compiler\n1 passed, 0 failed, 0 skipped" in output


def test_the_steps_of_a_sanitizer_are_named_when_its_build_fails(scripts):
    source = (ROOT / "scripts/test").read_text()
    function = source[source.index("with_sanitizer() {"):]
    function = function[:function.index("\n}\n") + 3]
    code, output = bash("sanitizer_build() { false; }\nend_to_end() { step \"$1\" true; }\n" + function +
                        "with_sanitizer asan address none none\nfinish", scripts)
    assert code == 1
    for name in ("unit-tests-asan", "end-to-end-asan", "differential-asan"):
        assert f"NOT RUN: {name}: build-asan failed" in output


def test_a_failing_test_of_a_sanitizer_does_not_keep_the_next_ones_from_running(scripts):
    source = (ROOT / "scripts/test").read_text()
    function = source[source.index("with_sanitizer() {"):]
    function = function[:function.index("\n}\n") + 3]
    code, output = bash("sanitizer_build() { true; }\ncounted() { step \"$1\" false; }\nend_to_end() { step \"$1\" true; }\n" +
                        function + "with_sanitizer asan address none none\nfinish", scripts)
    assert code == 1
    for name in ("ok: build-asan", "FAILED: unit-tests-asan", "ok: end-to-end-asan", "ok: differential-asan"):
        assert name in output


@pytest.mark.parametrize("command, expected", [("true", "ok: beside"), ("false", "FAILED: beside (status 1")])
def test_a_step_beside_the_others_keeps_its_result_when_a_later_process_gets_its_number(scripts, command, expected):
    """bash forgets how a process ended when a later one of its own has the same number: as disown makes it forget."""
    code, output = bash(f"behind beside {command}\nwhile kill -0 $behind_process 2>/dev/null; do sleep 0.1; done\n"
                        "disown -a\njoin_behind\nfinish", scripts)
    assert expected in output, output
    assert code == (command == "false")


def test_a_step_beside_the_others_that_is_killed_fails_and_the_report_says_so(scripts):
    code, output = bash("behind beside sh -c 'kill -9 0'\njoin_behind\nfinish", scripts)
    assert code == 1
    assert "beside was killed before it ended" in output and "FAILED: beside" in output


def test_what_the_processors_gave_to_a_step_beside_the_others_is_told_of_that_step(scripts):
    """It ends while another waits, and bash counts it then."""
    burn = "import time\nwhile time.process_time() < 3: pass"
    code, output = bash(f"behind beside python3 -c '{burn}'\nstep waiting tail -f --pid=$behind_process /dev/null\njoin_behind\nfinish", scripts)
    assert code == 0
    given = {name: int(seconds) for seconds, name in re.findall(r"% +(\d+) s  (\w+)$", output, re.M)}
    assert given["beside"] >= 3 > given["waiting"]


def test_a_group_of_processes_that_has_ended_is_not_signalled_at_the_end(scripts):
    """Its number may be another's by then."""
    code, output = bash("behind beside true\njoin_behind\n"
                        "kill() { printf 'signalled %s\\n' \"$*\"; }\nend_background\nfinish", scripts)
    assert code == 0
    assert "signalled" not in output


def test_the_time_of_each_step_is_reported(scripts):
    code, output = bash("step first true\nstep second true\nfinish", scripts)
    assert code == 0
    table = output[output.index("steps by time"):].splitlines()
    assert {line.split()[-1] for line in table[1:3]} == {"first", "second"}
    assert all("%" in line for line in table[1:3])


def test_what_takes_long_says_how_far_it_is(scripts):
    _, output = bash("TELL_EVERY=0\nwatched build/logs/x.log counting sh -c 'echo [1/2] one; while ! [ -e go ]; do sleep 0.1; done' &"
                     "\nsleep 2; touch go; wait", scripts)
    assert "counting: " in output and "now: [1/2] one" in output


JUNIT = """<testsuites><testsuite tests="4" failures="1" errors="0" skipped="2">
<testcase name="a"/><testcase name="b"><failure/></testcase>
<testcase name="c"><skipped message="no nvcc: apt-get install x"/></testcase>
<testcase name="d"><skipped message="no nvcc: apt-get install x"/></testcase></testsuite></testsuites>"""


def test_results_are_counted_and_each_reason_to_skip_is_reported_once(tmp_path):
    (tmp_path / "r.xml").write_text(JUNIT)
    (tmp_path / "r.json").write_text('{"name": "a", "result": "OK"}\n{"name": "b", "result": "TIMEOUT"}\n'
                                     '{"name": "c", "result": "SKIP", "stdout": "needs x"}\n')
    (tmp_path / "empty.xml").write_text("")

    def told(*arguments):
        return subprocess.run([ROOT / "scripts/count-results", *arguments], capture_output=True, text=True, check=True).stdout

    assert told(tmp_path / "r.xml") == "1 1 2\n"
    assert told("--skips", tmp_path / "r.xml") == "    skipped 2: no nvcc: apt-get install x\n"
    assert told(tmp_path / "r.json") == "1 1 1\n"
    assert told("--skips", tmp_path / "r.json") == "    skipped 1: c: needs x\n"
    assert told(tmp_path / "empty.xml") == told(tmp_path / "missing.xml") == "0 1 0\n"


@pytest.mark.parametrize("arguments, expected", [
    (["--fast"], "--fast: unknown"), (["name"], "name: unknown"), (["--repeat=3"], "expected the name of a test"),
    (["--repeat=x", "name"], "--repeat=x: unknown")])
def test_an_argument_that_is_not_known_is_reported_before_anything_is_done(arguments, expected):
    done = subprocess.run([ROOT / "scripts/test", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and expected in done.stdout and len(done.stdout.splitlines()) == 1


SCRIPTS = sorted(path.name for path in (ROOT / "scripts").iterdir() if os.access(path, os.X_OK))


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_explains_itself_and_does_nothing_else(name, option):
    done = subprocess.run([f"./{name}", option], cwd=ROOT / "scripts", capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""
    assert f"scripts/{name}" in done.stdout or f"{name} [" in done.stdout
    assert "installing" not in done.stdout and "CUDA headers" not in done.stdout


@pytest.mark.parametrize("name, arguments", [
    *((name, ["--no-such-option"]) for name in SCRIPTS if name != "simcuda-nvcc"),  # which passes it on to nvcc
    *((name, ["superfluous"]) for name in ("bench", "check-aarch64", "check-format", "demo", "fetch-nvcc", "find-cuda-headers", "package",
                                           "package-deb", "write-stack-arguments")),
    *((name, []) for name in ("check-aarch64", "check-pooled", "count-results", "package", "package-deb")),
    *((name, ["a", "b", "c"]) for name in ("check-bare", "check-old-root", "count-results", "report-picture", "write-tables")),
    *(("demo", [f"--rounds={number}"]) for number in ("", "0", "-1", "x", "1x", "9" * 20)), ("bench", ["micro", "report"]),
    ("check-old-root", [""]), ("test", ["--repeat=2", ""]), ("test", ["--repeat=1x", "name"]), ("package", ["--from", "", "deb"]),
], ids=lambda value: value if isinstance(value, str) else " ".join(value) or "none")
def test_a_script_refuses_in_one_line_what_it_does_not_know_before_it_does_anything(name, arguments, tmp_path):
    for tool in ("apt-get", "dpkg-query", "meson", "ninja", "pip", "gcc", "g++", "clang-format", "clang-tidy", "debootstrap", "unshare"):
        (tmp_path / tool).write_text(f"#!/bin/sh\necho {tool} >>{tmp_path}/called\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    done = subprocess.run([ROOT / "scripts" / name, *arguments], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 2 and len(said.splitlines()) == 1, said
    assert name in said and ("expected" in said or "unrecognized" in said or "required" in said)
    assert not (tmp_path / "called").exists()


def test_the_benchmarks_script_knows_each_module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/bench"))
    import bench
    said = subprocess.run([ROOT / "scripts/bench", "no-such-module"], capture_output=True, text=True, check=False).stdout
    assert set(bench.modules()) == set(said.strip().partition("--counted, ")[2].split(", "))


def test_the_benchmarks_name_their_commit_where_git_is_missing(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/bench"))
    monkeypatch.setenv("PATH", "/nonexistent")
    import bench
    assert bench.commit() == "unknown"


def test_the_simulated_gpu_is_built_with_the_headers_that_the_pool_finds():
    """Each looks for them itself, since simcuda needs nothing of poolcuda's."""
    ours, theirs = ((ROOT / folder / "find-cuda-headers").read_text() for folder in ("scripts", "subprojects/simcuda/scripts"))
    assert ours == theirs


def test_the_simulated_gpu_includes_nothing_of_the_pool():
    folder = ROOT / "subprojects/simcuda"
    own = {path.name for path in folder.rglob("*") if path.suffix in (".h", ".def")}
    included = {(path, name) for path in folder.rglob("*.[ch]") for name in re.findall(r'#include "([^"]+)"', path.read_text())}
    assert len(included) > 100
    assert [(path.name, name) for path, name in included if name not in own and
            not ((path.parent / name).exists() and (path.parent / name).resolve().is_relative_to(folder))] == []


def test_nvcc_is_the_one_that_the_environment_names_and_else_looked_for(tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    for settings in ({"NVCC": str(nvcc)}, {"NVCC_FOLDERS": str(tmp_path)}):
        done = subprocess.run([ROOT / "scripts/fetch-nvcc"], env={**os.environ, **settings}, capture_output=True, text=True, check=True)
        assert done.stdout == f"{nvcc}\n", settings


def test_the_cost_of_ptx_and_the_drawn_programs_are_in_every_run_of_the_tests():
    """A step that is not --quick has an nvcc for them; what the cost's test counts with is installed by scripts/test."""
    tests = json.loads(subprocess.run(["meson", "introspect", "--tests", str(BUILD)], capture_output=True, text=True, check=True).stdout)
    suites = {test["name"]: test["suite"] for test in tests}
    for name in ("by_hand", "oracle", *(["ptx_cost"] if option(BUILD, "b_sanitize") == "none" else [])):
        assert "simcuda:sim" in suites[name]
    script = (ROOT / "scripts/test").read_text()
    assert re.search(r"^ *NVCC=\$nvcc meson test -C build/simcuda-alone/build --print-errorlogs$", script, re.M)
    assert re.search(r'^\[ -z "\$quick" \] && packages="[^"]* valgrind [^"]*"$', script, re.M)
