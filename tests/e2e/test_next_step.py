"""The next step that each command names can be typed: a shell that is given it runs what is meant, whatever the program's
command line is made of."""

import json
import os
import re
import shlex
import shutil
import stat
import struct

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, PROGRAMS, ROOT, RUNTIME, SANITIZER

PROGRAM = PROGRAMS / "command_line"
KEPT = 16 << 10
SHELLS = [shell for shell in ("bash", "zsh", "ksh") if shutil.which(shell)]
ODD = {
    "none": [],
    "words": ["one", "2"],
    "blanks and quotes": ["a b", "it's", '"quoted"', "tab\tand\nnewline", "\\n", " "],
    "empty": ["", "x", ""],
    "a shell's own": ["$HOME", "`id`", "*", "~", "!!", "a;b", "&", "=ls", "#", "{a,b}", "[a]", "$'x'", "a=b", "\\"],
    "dashes": ["--", "-x", "--help", "-"],
    "no UTF-8": [b"\xff\xfe", b"caf\xc3\xa9", b"\xc3", b"a\x80'\\"],
    "for terminals": ["\x1b]0;title\x07", "\r", "\x7f", "\u202etxt", "\x01" + "2"],
    "many": [str(i) for i in range(1500)],
}


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_", "THEN", "SAW"))}
    return {**clean, "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "SIMCUDA_COST": "0", **more}


class Session:
    """A shell in which one command after the other is typed, and what the program saw when it was started last."""

    def __init__(self, folder):
        self.folder = self.here = folder
        self.saw, self.place = folder.parent / "saw", folder.parent / "place"
        self.variables = {"SAW": str(self.saw)}

    def type(self, command, code=0, shell="bash"):
        """What it prints. Where it leads to, the next command is typed."""
        typed = f"{command}\ncode=$?\npwd -P >{self.place}\nexit $code"
        done = guard.run([shell, "-c", typed], cwd=self.here, capture_output=True, check=False,
                         env=environment(**self.variables))
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == code, said
        self.here = self.place.read_text().removesuffix("\n")
        return said

    def run(self, command, code=0):
        """Runs the words of a command in the session's folder."""
        done = guard.run(command, cwd=self.folder, capture_output=True, check=False,
                         env=environment(**self.variables))
        assert done.returncode == code, done.stderr
        return done.stderr.decode()

    def seen(self):
        folder, *arguments = self.saw.read_bytes().split(b"\0")[:-1]
        self.saw.unlink()
        return folder, arguments


@pytest.fixture(name="session")
def fixture_session(tmp_path):
    (tmp_path / "a folder").mkdir()
    return Session(tmp_path / "a folder")


def next_of(said):
    """The last command that is named, which is in the last line but for a shell's own words."""
    return re.findall(r"^(?:poolcuda: )?next: (.*)$", said, re.M)[-1]


def recommended_options(said):
    """What tune recommends, which depends on the time that the program took, as options of run."""
    exports = said.split("\nrecommended")[1].split("\nalternative")[0]
    return "".join(f"--{name.lower().replace('_', '-')}={value} " for name, value in
                   re.findall(r"POOLCUDA_(\w+)=(\S+)", exports))


def steps(session, first, elsewhere, shell="bash"):
    """From a run to its report, a trace, what tune recommends, and the report of that, typed elsewhere: what the program saw
    each time."""
    seen = [session.seen()]
    session.here = elsewhere
    said, kinds = first, []
    for _ in range(5):
        command = next_of(said)
        kinds.append(re.search(r"poolcuda'? (\w+) ", command)[1])
        said = session.type(command, shell=shell)
        if kinds[-1] == "run":
            seen.append(session.seen())
    assert kinds == ["report", "run", "tune", "run", "report"]
    return seen


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("arguments", ODD.values(), ids=ODD)
def test_each_step_runs_the_program_with_its_own_arguments(arguments, shell, session, tmp_path):
    first = session.run([COMMAND, "run", "--", PROGRAM, *arguments])
    seen = steps(session, first, tmp_path, shell)
    expected = [argument if isinstance(argument, bytes) else argument.encode() for argument in arguments]
    for folder, (_, *given) in seen:
        assert (folder, given) == (bytes(session.folder), expected)


@pytest.mark.parametrize("then", ["title", "permute", "leave"])
def test_what_the_program_does_to_its_arguments_and_folder_changes_nothing(then, session, tmp_path):
    session.variables["THEN"] = then
    (session.folder / "here").symlink_to(PROGRAM)
    first = session.run([COMMAND, "run", "./here", "-x", "a b", "--", "c"])
    assert steps(session, first, tmp_path) == 3 * [
        (bytes(session.folder), [b"./here", b"-x", b"a b", b"--", b"c"])]


def started_by(kind, session):
    """The words that start the program in some other way than by its path, and the arguments that it then sees."""
    folder = session.folder
    if kind == "a name in PATH":
        (folder / "bin").mkdir()
        (folder / "bin/pooled-app").symlink_to(PROGRAM)
        session.variables["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        return ["pooled-app", "x y"], [b"pooled-app", b"x y"]
    if kind == "another name":
        return ["bash", "-c", 'exec -a "a title" "$0" "x y"', PROGRAM], [bytes(PROGRAM), b"x y"]
    if kind == "no name":
        return ["bash", "-c", 'exec -a "" "$0" "x y"', PROGRAM], [bytes(PROGRAM), b"x y"]
    if kind == "a login shell's name":
        return ["bash", "-c", 'exec -a "-app" "$0" "x y"', PROGRAM], [bytes(PROGRAM), b"x y"]
    if kind == "no arguments at all":
        code = ("import ctypes, os; e = [f'{k}={v}'.encode() for k, v in os.environ.items()]; "
                "ctypes.CDLL(None).execve(%r, (ctypes.c_char_p * 1)(None), (ctypes.c_char_p * (len(e) + 1))(*e, None))")
        return ["/usr/bin/python3", "-c", code % bytes(PROGRAM)], [bytes(PROGRAM)]
    if kind == "a descriptor":
        code = "import os, sys; os.execve(os.open(sys.argv[1], os.O_RDONLY), ['app', 'x y'], os.environ)"
        return ["/usr/bin/python3", "-c", code, PROGRAM], [bytes(PROGRAM), b"x y"]
    if kind == "a bare name in its folder":
        (folder / "app").symlink_to(PROGRAM)
        return ["/usr/bin/python3", "-c", "import os; os.execv('app', ['app', 'x y'])"], [b"./app", b"x y"]
    interpreter = folder.parent / "interpreter"  # "#!" takes no path with blanks
    interpreter.symlink_to(PROGRAM)
    script = folder / "a script"
    script.write_text(f"#!{interpreter} -option of\n" if kind == "a script's first line" else f"#!/usr/bin/env {interpreter}\n")
    script.chmod(0o755)
    option = [b"-option of"] if kind == "a script's first line" else []
    return ["./a script", "x y"], [bytes(interpreter), *option, b"./a script", b"x y"]


@pytest.mark.parametrize("kind", ["a name in PATH", "another name", "no name", "a login shell's name", "no arguments at all",
                                  "a descriptor", "a bare name in its folder", "a script's first line", "env in a script"])
def test_each_step_runs_the_program_however_it_was_started(kind, session, tmp_path):
    words, expected = started_by(kind, session)
    first = session.run([COMMAND, "run", "--", *words])
    _, *again = steps(session, first, tmp_path)
    assert again == 2 * [(bytes(session.folder), expected)]


def test_a_command_that_is_given_by_a_relative_path_is_named_so_that_it_is_found(session, tmp_path):
    (session.folder / "my poolcuda").symlink_to(COMMAND)
    first = session.run(["./my poolcuda", "run", "--", PROGRAM])
    assert next_of(first).startswith("'./my poolcuda' report ")
    said = session.type(f"cd {shlex.quote(str(session.folder))} && {next_of(first)}")
    assert next_of(said) == f"'./my poolcuda' run --trace=app.trace -- {PROGRAM}"
    relative = os.path.relpath(COMMAND, tmp_path)
    session.here = tmp_path
    said = session.type(f"{relative} report a*/poolcuda*")
    assert next_of(said) == f"cd '{session.folder}' && {COMMAND} run --trace=app.trace -- {PROGRAM}"


def test_a_killed_programs_figures_have_its_command_line(session):
    session.variables["THEN"] = "die"
    first = session.run([COMMAND, "run", "--", PROGRAM, "a b"], code=-9)
    said = session.type(next_of(first))
    assert "(running or killed)" in said
    assert next_of(said) == f"{COMMAND} run --trace=app.trace -- {PROGRAM} 'a b'"


def test_a_command_line_that_is_too_long_is_reported_and_none_is_made_up(session):
    first = session.run([COMMAND, "run", "--trace=app.trace", "--", PROGRAM, "x" * (100 << 10)])
    file, = session.folder.glob("poolcuda*.json")
    assert json.loads(file.read_text())["process"]["command_line"] == {"too_long": True}
    assert next_of(first) == f"{COMMAND} tune app.trace"
    said = session.type(next_of(first))
    assert "PROGRAM stands for the command line of the recorded program, which is too long to be kept.\n" in said
    assert next_of(said) == f"{COMMAND} run {recommended_options(said)}-- PROGRAM"
    (session.folder / "app.trace").unlink()
    said = session.type(f"{COMMAND} report {file.name}")
    assert f"PROGRAM stands for the command line of {PROGRAM}, which is too long to be kept.\n" in said
    assert next_of(said) == f"{COMMAND} run --trace=app.trace -- PROGRAM"


def test_the_longest_command_line_that_is_kept_is_whole(session, tmp_path):
    """One more byte, and nothing of it is kept."""
    room = KEPT - sum(len(bytes(text)) + 1 for text in (session.folder, PROGRAM, PROGRAM)) - 1
    session.run([COMMAND, "run", "-q", "--stats-file=fits", "--", PROGRAM, "x" * room])
    session.run([COMMAND, "run", "-q", "--stats-file=not", "--", PROGRAM, "x" * (room + 1)])
    fits, not_kept = (json.loads((session.folder / name).read_text())["process"]["command_line"] for name in ("fits", "not"))
    assert fits["arguments"] == [str(PROGRAM), "x" * room] and not_kept == {"too_long": True}


def old(page):
    del page["process"]["command_line"]


def hostile(**changes):
    def change(page):
        page["process"]["command_line"].update(changes)
    return change


def test_a_file_of_an_older_version_is_reported_and_what_it_lacks_is_reported(session):
    session.run([COMMAND, "run", "-q", "--stats-file=one", "--", PROGRAM])
    file = session.folder / "one"
    page = json.loads(file.read_text())
    old(page)
    file.write_text(json.dumps(page))
    said = session.type(f"{COMMAND} report one")
    assert f"PROGRAM stands for the command line of {PROGRAM}, which is not known here.\n" in said
    assert next_of(said) == f"{COMMAND} run --trace=app.trace -- PROGRAM"
    assert json.loads(session.type(f"{COMMAND} report --json one"))["process"]["command_line"] is None


@pytest.mark.parametrize("change", [
    hostile(arguments=3), hostile(arguments=[1]), hostile(folder=None), hostile(program={"hex": "0"}),
    hostile(program={"hex": "00"}), hostile(arguments=[{"hex": "zz"}]), lambda page: page["process"].update(command_line=[]),
], ids=["number", "numbers", "null", "half", "zero", "letters", "list"])
def test_a_damaged_command_line_is_reported_in_one_line(change, session):
    session.run([COMMAND, "run", "-q", "--stats-file=one", "--", PROGRAM])
    file = session.folder / "one"
    page = json.loads(file.read_text())
    change(page)
    file.write_text(json.dumps(page))
    assert session.type(f"{COMMAND} report one", code=1) == (
        'poolcuda report: one: damaged: "command_line" is not what it should be; expected a file that POOLCUDA_STATS_FILE '
        "made, passed over\n")


@pytest.mark.parametrize("texts, size", [(1, 0), (2, -1), (2, 1 << 15), (3, -1)])
def test_figures_whose_command_line_is_cut_off_are_damaged(session, texts, size):
    """texts: how many of it are kept: the folder, the program, its arguments; size: what is added to their length."""
    session.variables["THEN"] = "die"
    session.run([COMMAND, "run", "-q", "--stats-file=one", "--", PROGRAM, "argument"], code=-9)
    file = session.folder / "one"
    page, line = file.read_bytes(), b"".join(os.fsencode(text) + b"\0" for text in (session.folder, PROGRAM, PROGRAM, "argument"))
    at = page.index(struct.pack("<I", len(line)) + line)
    kept = len(b"\0".join(line.split(b"\0")[:texts])) + 1 + size
    file.write_bytes(page[:at] + struct.pack("<I", kept) + page[at + 4:])
    assert session.type(f"{COMMAND} report one", code=1) == (
        "poolcuda report: one: damaged; expected a file that POOLCUDA_STATS_FILE made, passed over\n")


@pytest.mark.parametrize("then", ["cut", "cut all"])
def test_arguments_that_a_program_has_cut_off_before_it_opens_the_library_do_no_harm(session, then):
    session.variables.update(THEN=then, OPENS=str(LIBRARY))
    session.run([PROGRAM, "one", "two"])


def test_the_json_of_a_report_has_the_same_command_line(session):
    session.run([COMMAND, "run", "-q", "--stats-file=one", "--", PROGRAM, "a\nb", b"\xff", "\u00e9"])
    first = json.loads((session.folder / "one").read_text())["process"]["command_line"]
    assert first == {"too_long": False, "folder": str(session.folder), "program": str(PROGRAM),
                     "arguments": [str(PROGRAM), "a\nb", {"hex": "ff"}, "\u00e9"]}
    session.type(f"{COMMAND} report --json one >two")
    assert json.loads(session.type(f"{COMMAND} report --json two"))["process"]["command_line"] == first


def test_runs_of_one_command_line_have_it_together_and_of_several_none(session):
    for name, argument in (("1", "a"), ("2", "a"), ("3", "b")):
        session.run([COMMAND, "run", "-q", f"--stats-file={name}", "--", PROGRAM, argument])
    assert next_of(session.type(f"{COMMAND} report 1 2")) == f"{COMMAND} run --trace=app.trace -- {PROGRAM} a"
    said = session.type(f"{COMMAND} report 1 2 3")
    assert "PROGRAM stands for the command line of one of these runs, which is not known here.\n" in said
    assert next_of(said) == f"{COMMAND} run --trace=app.trace -- PROGRAM"


def test_a_trace_that_is_gone_is_not_what_is_to_be_tuned_next(session):
    session.run([COMMAND, "run", "-q", "--stats-file=one", "--trace=app.trace", "--", PROGRAM])
    assert next_of(session.type(f"{COMMAND} report one")) == f"{COMMAND} tune '{session.folder}/app.trace'"
    (session.folder / "app.trace").unlink()
    assert next_of(session.type(f"{COMMAND} report one")) == f"{COMMAND} run --trace=app.trace -- {PROGRAM}"


def test_a_traces_path_of_any_length_is_whole_or_absent(session):
    deep = session.folder
    for _ in range(8):
        deep = deep / ("d" * 100)
        deep.mkdir()
    session.run([COMMAND, "run", "-q", "--stats-file=one", f"--trace={deep}/t", "--", PROGRAM])
    assert next_of(session.type(f"{COMMAND} report one")) == f"{COMMAND} tune '{deep}/t'"


def test_names_of_files_that_begin_with_a_dash_are_no_options(session):
    first = session.run([COMMAND, "run", "--stats-file=-one.json", "--trace=-t", "--", PROGRAM])
    report, tune = re.findall(r"^poolcuda: next: (.*)$", first, re.M)
    assert report == f"{COMMAND} report ./-one.json" and tune == f"{COMMAND} tune ./-t"
    session.type(report)
    session.type(tune)


def test_a_program_without_figures_is_looked_at_by_the_doctor_with_its_arguments(session):
    (session.folder / "a script.py").write_text("print('no CUDA')\n")
    said = session.run([COMMAND, "run", "--", "/usr/bin/python3", "a script.py", "x\ny"])
    assert next_of(said) == f"{COMMAND} doctor /usr/bin/python3 'a script.py' $'x\\ny'"
    said = session.run([COMMAND, "run", "--disable=0", "--", "true"])
    assert next_of(said) == f"{COMMAND} doctor true"


def test_files_go_where_poolcuda_run_was_started_wherever_the_program_goes(session):
    session.variables["THEN"] = "leave"
    said = session.run([COMMAND, "run", "--stats-file=one%%", "--trace=two", "--", PROGRAM])
    assert sorted(path.name for path in session.folder.iterdir()) == ["one%", "two"]
    assert f"next: {COMMAND} report one%\n" in said and f"next: {COMMAND} tune two\n" in said


def test_nobody_else_can_read_the_files_that_hold_the_command_line(session):
    session.type(f"umask 0 && {COMMAND} run -q --stats-file=one --trace=two -- {PROGRAM} --password=secret")
    for name in ("one", "two"):
        file = session.folder / name
        assert b"--password=secret" in file.read_bytes() and stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_library_that_uses_cuda_before_ours_is_set_up_hides_nothing(session):
    preload = [*SANITIZER, LIBRARY, PROGRAMS / "libearly_user.so"]
    session.variables.update(LD_PRELOAD=" ".join(map(str, preload)), POOLCUDA_STATS_FILE="one")
    session.run([PROGRAM, "a b", ""])
    command_line = json.loads((session.folder / "one").read_text())["process"]["command_line"]
    assert command_line["arguments"] == [str(PROGRAM), "a b", ""] and command_line["folder"] == str(session.folder)


def test_tunes_json_names_the_same_next_step(session):
    session.run([COMMAND, "run", "-q", "--trace=t", "--", PROGRAM, "a b"])
    result = json.loads(session.type(f"{COMMAND} tune --json t"))
    assert result["next"] == next_of(session.type(f"{COMMAND} tune t"))
    assert result["next"].endswith(f" -- {PROGRAM} 'a b'")


def test_what_report_makes_of_the_trace_names_the_next_step_as_tune_does(session):
    session.run([COMMAND, "run", "-q", "--stats-file=one", "--trace=t", "--", PROGRAM, "a b"])
    assert next_of(session.type(f"{COMMAND} report --tune one")) == next_of(session.type(f"{COMMAND} tune t"))


def test_a_forked_childs_figures_have_the_command_line_that_it_inherited(session):
    code = (f"import ctypes, os\nif os.fork():\n    os.wait()\nelse:\n    cuda = ctypes.CDLL({str(DRIVER / 'libcuda.so.1')!r})\n"
            "    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()\n"
            "    assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
            "    assert cuda.cuCtxSetCurrent(context) == cuda.cuMemAlloc_v2(ctypes.byref(pointer), 4096) == 0\n")
    (session.folder / "a script.py").write_text(code)
    said = session.run([COMMAND, "run", "--", "/usr/bin/python3", "a script.py", "a\tb"])
    said = session.type(next_of(said))
    assert next_of(said) == f"{COMMAND} run --trace=app.trace -- /usr/bin/python3 'a script.py' $'a\\011b'"


# Documents that messages name.

def named_documents(file):
    return set(re.findall(rb"[\w/-]*\b([\w-]+\.md)\b", file.read_bytes()))


def test_every_document_that_a_message_names_is_installed():
    plan = json.loads((ROOT / COMMAND.parents[2] / "meson-info/intro-installed.json").read_text())
    assert plan[f"{ROOT}/docs"].endswith("/share/doc/poolcuda/docs")
    named = named_documents(COMMAND) | named_documents(LIBRARY)
    assert b"policies.md" in named
    for name in named:
        assert (ROOT / "docs" / name.decode()).is_file(), name
    # Each is named by the path that it was installed to, which is not known until then.
    for source in (ROOT / "src").rglob("*.c"):
        for line in re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.S).splitlines():
            if re.search(r'"[^"]*\b[\w-]+\.md\b', line):
                assert "installed_document(" in line, f"{source}: {line}"


def test_the_document_that_tune_names_can_be_opened(session):
    said = session.type(f"{COMMAND} tune {ROOT}/tests/data/segment-reduce.csv.gz")
    path, = re.findall(r"what that gives up is in (.*)$", said, re.M)
    with open(path, encoding="utf-8") as file:
        assert file.read() == (ROOT / "docs/policies.md").read_text()
