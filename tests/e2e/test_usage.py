"""Bad usage has one exit code, 2, whichever command it is."""

import json
import re
import shutil
import subprocess

import guard
import pytest
from conftest import BUILD, COMMAND, DRIVER, ROOT, RUNTIME, SAMPLES
from steered import Program
from writers import CLEAN, TRACE, VIEWS, fixture_stats  # noqa: F401  pylint: disable=unused-import

HELP = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True).stdout
COMMANDS = re.findall(r"^  (\w+) +\S", HELP.partition("Commands:\n")[2], re.M)


def told(command):
    return subprocess.run([COMMAND, command, "--help"], capture_output=True, text=True, check=True).stdout


def arguments_of(command):
    return re.match(rf"Usage: poolcuda {command} \[OPTION\.\.\.\] ?(.*)\n", told(command))[1]


def options_of(command):
    """The name and the value's, None without one, of each option."""
    found = re.findall(r"^ +(?:-., )?--([a-z-]+)(?:(\[?)=([^\s\]]+))?", told(command), re.M)
    return [(name, value if value and not optional else None) for name, optional, value in found]


def refused(*words):
    done = guard.run([COMMAND, *map(str, words)], env=CLEAN, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, ""), (words, done.stderr)
    lines = done.stderr.splitlines()
    assert lines and all("Try `" in line or "information." in line or "Usage:" in line or re.match(r"\S*poolcuda[a-z ]*: ", line)
                         or line.startswith("  or: ") for line in lines), lines
    return done.stderr


def test_the_table_of_commands_was_read():
    assert {"run", "report", "set", "options"} <= set(COMMANDS) and len(COMMANDS) >= 12
    assert ("json", None) in options_of("report") and ("memory", "SIZE") in options_of("replay")


def test_an_unknown_command_and_none_at_all():
    assert "reprot: unknown command" in refused("reprot")
    refused()
    assert "--no-such-option" in refused("--no-such-option")


@pytest.mark.parametrize("words, said", [
    ([], "poolcuda: no command given, expected one of those that --help lists"),
    *[([command], f"poolcuda {command}: no FILE given, expected a trace, such as POOLCUDA_TRACE makes") for command in ("replay", "tune")],
    (["compare"], "poolcuda compare: no file given, expected two files of `poolcuda replay --json`"),
    (["compare", "x"], "poolcuda compare: one file given, expected two files of `poolcuda replay --json`"),
    (["convert"], "poolcuda convert: no IN given, expected IN, a trace, and OUT, the file to write"),
    (["convert", "x"], "poolcuda convert: no OUT given, expected IN, a trace, and OUT, the file to write"),
    (["completions"], "poolcuda completions: no shell given, expected bash, zsh or fish"),
    (["top", "--once", "x"], "poolcuda top: x: expected options only"),
    (["options", "x"], "poolcuda options: x: expected no argument, as all options are listed"),
    ([""], 'poolcuda: "": unknown command, expected one of those that --help lists'),
    (["completions", ""], 'poolcuda completions: "": unknown shell, expected bash, zsh or fish'),
    *[([*words, ""], f'poolcuda {words[0]}: "": expected {expected}') for words, expected in (
        (["top"], "options only"), (["options"], "no argument, as all options are listed"), (["preload"], "no argument"),
        (["trim", "1", "1M"], "PID and BYTES only"), (["replay", "x"], "one FILE only"), (["tune", "x"], "one FILE only"),
        (["compare", "x", "x"], "two files only"), (["convert", "x", "x"], "IN and OUT only"), (["completions", "zsh"], "one shell only"))],
    *[(["run", *words, ""], 'poolcuda run: PROGRAM: "": expected the name of a program') for words in ([], ["--"])],
    *[(["set", "1", setting], f'poolcuda set: "{setting}": expected NAME=VALUE, as in MAX_IDLE=64M') for setting in ("", "=3", "POOLCUDA_=3")],
    *[(["set", "1", "STEAL=0", "ZERO=1", f"{name}=1"], "poolcuda set: POOLCUDA_STEAL: given twice, expected one value; nothing was set")
      for name in ("STEAL", "POOLCUDA_STEAL")],
], ids=lambda value: " ".join(map(repr, value)) if isinstance(value, list) else "")
def test_what_is_missing_or_too_much_is_told_in_the_first_line(words, said):
    assert refused(*words).splitlines()[0] == said


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_into_a_terminal_of_eighty_columns(command):
    assert [line for line in told(command).splitlines() if len(line) > 79] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_of_help_is_of_blanks_or_ends_with_them(command):
    """argp puts a line of blanks behind a text whose last line is as long as a line can be."""
    assert [line for line in [*told(command).splitlines(), *HELP.splitlines()] if line != line.rstrip()] == []


def test_help_lists_words_that_fit_into_no_line_with_their_option():
    for command in ("run", "replay", "tune"):
        assert re.search(r"--preset=WORD +default, futhark, pyopencl, ", re.sub(r"\s+", " ", told(command)))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_no_command_has(command):
    assert "--no-such-option" in refused(command, "--no-such-option")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_without_its_value_and_each_with_a_superfluous_one(command):
    for name, value in options_of(command):
        if value:
            assert f"--{name}" in refused(command, f"--{name}")
        else:
            assert f"--{name}" in refused(command, f"--{name}=superfluous")


ANY_VALUE = {"FILE", "BASE", "DIR", "PATH", "NAME,..."}  # these may be called anything


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_with_a_bad_value(command):
    enough = {"set": ["1", "STEAL=0"], "trim": ["1"], "compare": ["a", "b"], "convert": ["a", "b"], "completions": ["bash"],
              "top": [], "options": []}.get(command, ["/nowhere"])
    for name, value in options_of(command):
        if value and value not in ANY_VALUE:
            refused(command, f"--{name}=nothing good", *enough)


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_that_are_missing(command):
    words = arguments_of(command).removeprefix("[--] ").split()
    needed = [word for word in words if not word.startswith("[") and not word.endswith("]")]
    for count in range(len(needed)):
        refused(command, *["1"] * count)


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_beyond_the_last(command):
    words = arguments_of(command)
    if "..." not in words:
        good = {"trim": ["1", "1M"], "completions": ["bash"]}.get(command, ["x"] * len(words.split()))
        refused(command, *good, "superfluous")


@pytest.mark.parametrize("words", [
    ["trim", "many"], ["trim", "all", "lots"], ["set", "many", "STEAL=0"], ["set", "1", "NONSENSE=1"], ["set", "1", "STEAL=2"],
    ["set", "all", "POLICY=vmm"], ["completions", "tcsh"], ["doctor", ""], ["report", "--leak-exit-code=0", "x"],
    ["replay", "--memory=1", "x"], ["tune", "--max-held=x", "x"], ["run", "--preset=none", "true"]], ids=" ".join)
def test_arguments_that_are_none(words):
    refused(*words)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there_is_another_failure(command):
    words = {"report": ["/nowhere"], "replay": ["/nowhere"], "tune": ["/nowhere"], "compare": ["/nowhere", "/nowhere"],
             "convert": ["/nowhere", "/nowhere/out"], "doctor": ["/nowhere"], "run": ["/nowhere"],
             "trim": ["999999999"], "set": ["999999999", "STEAL=0"], "top": ["--prometheus=/nowhere/out"]}
    if command in words:
        done = guard.run([COMMAND, command, *words[command]], env=CLEAN, capture_output=True, check=False)
        assert done.returncode == (127 if command == "run" else 1)
    else:
        assert "FILE" not in arguments_of(command), "a command that reads files needs its line above"


@pytest.mark.parametrize("page", ["poolcuda", *(f"poolcuda-{command}" for command in COMMANDS)])
def test_each_man_page_tells_of_it(page):
    text = (BUILD / f"man/{page}.1").read_text()
    status = text.partition(".SH EXIT STATUS")[2].partition(".SH")[0]
    codes = re.findall(r"\\fB(\d+)\\fR\n", status)
    assert "2" in codes and set(codes) <= {"0", "1", "2", "3", "4", "125", "126", "127"}


# What is typed

@pytest.mark.parametrize("words", [
    *(["report", f"--{view}=", "x"] for view in VIEWS), ["report", "--debug-dir=", "x"], ["report", ""], ["report", "x", ""],
    ["top", "--prometheus="], ["top", "--openmetrics="], ["tune", "--plot=", TRACE], ["tune", ""], ["replay", ""], ["compare", "", "x"], ["compare", "x", ""],
    ["convert", TRACE, ""], ["convert", "", "x"],
    *(["run", f"--{option}=", "true"] for option in ("trace", "stats-file", "log", "check-log"))], ids=lambda words: " ".join(map(repr, map(str, words))))
def test_an_empty_name_is_none(words):
    assert f'"": expected the name of a {"folder" if "--debug-dir=" in words else "file"}' in refused(*words)


@pytest.mark.parametrize("command", ["run", "replay", "tune"])
def test_an_empty_value_of_an_option_is_none(command):
    names = [(name, value) for name, value in options_of(command) if value and value not in ANY_VALUE]
    assert len(names) > 15
    for name, _ in names:
        assert f'--{name}: "": expected ' in refused(command, f"--{name}=", "/nowhere")
    assert '--max-idle: "": expected auto, a size (64M) or a share (5%)\n' in refused(command, "--max-idle=", "/nowhere")


def test_an_empty_list_of_names_and_an_empty_variable_are_none_that_is_set():
    done = guard.run([COMMAND, "run", "--quiet", "--site-skip=", "true"], env=CLEAN | {"POOLCUDA_SITE_SKIP": "x", "POOLCUDA_PRESET": ""},
                     capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("words, told", [
    (["top", "--json", "--prometheus=-"], "--prometheus: expected without --json, which prints another form"),
    (["top", "--openmetrics=-", "--json"], "--openmetrics: expected without --json, which prints another form"),
    (["top", "--prometheus=a", "--prometheus=b"], "--prometheus: given twice, expected one FILE"),
    *[(["top", metrics, *other], f"{metrics.partition('=')[0]}: expected without --once and --sort, which are about the table")
      for metrics in ("--prometheus=-", "--openmetrics=-") for other in (["--once"], ["--sort=pid"], ["--sort=held"])],
    *[(["top", form, "--interval=5"], "--interval: expected without --once and --json, which print once") for form in ("--once", "--json")],
    *[([command, "--gpu", "--memory=1G", TRACE], "--memory: expected without --gpu, as it is what a simulated device has") for command in ("replay", "tune")],
    *[([command, f"--check-{option}=1", TRACE], f"unrecognized option '--check-{option}=1'")
      for command in ("replay", "tune") for option in ("abort", "exit", "leaks", "quarantine")],
    (["replay", "--native", "--preset=vmm", TRACE], "--native: expected without --preset, which is an option of the pool"),
    (["replay", "--max-idle=1M", "--native", TRACE], "--native: expected without --max-idle, which is an option of the pool"),
], ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "")
def test_options_of_which_one_would_be_passed_over(words, told):
    assert told in refused(*words)


def test_of_one_option_that_is_typed_twice_the_last_counts():
    """A wrapper appends what is to hold."""
    done = guard.run([COMMAND, "replay", "--json", "--memory=1G", "--preset=vmm", "--memory=2G", "--preset=bfc", TRACE], env=CLEAN,
                     capture_output=True, text=True, check=True)
    assert (json.loads(done.stdout)["memory"], json.loads(done.stdout)["options"]) == (2 << 30, "POOLCUDA_PRESET=bfc")
    done = guard.run([COMMAND, "run", "--free=sync", "--quiet", "--free=defer", "printenv", "POOLCUDA_FREE"], env=CLEAN,
                     capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("defer\n", "")


def test_every_option_that_names_a_file_is_tried_with_an_empty_name():
    found = {name for command in COMMANDS if command not in ("run", "doctor", "replay") for name, value in options_of(command)
             if value in ANY_VALUE}
    assert found == {*VIEWS, "debug-dir", "prometheus", "openmetrics", "plot"}


NUMBERS = [["report", "--sites=#", "x"], ["report", "--leak-exit-code=#", "x"], ["trim", "#"], ["trim", "5-#"], ["set", "#", "STEAL=0"],
           ["trim", "all", "#"], ["trim", "--device=#", "all"], ["trim", "--timeout=#", "all"], ["set", "--timeout=#", "all", "STEAL=0"],
           ["top", "--interval=#"], ["replay", "--memory=#", "x"], ["tune", "--memory=#", "x"], ["tune", "--max-held=#", "x"]]


@pytest.mark.parametrize("words", NUMBERS, ids=" ".join)
def test_a_number_is_its_digits_and_nothing_else(words):
    for number in ("+50", " 50", "50 ", "50x", "-50", "0x50", "1e2", "", ".", "5,0", "50\n", "\u0665\u0660", "9" * 30, "inf", "nan"):
        said = refused(*(word.replace("#", number) for word in words))
        assert "expected" in said or (number == "-50" and "invalid option" in said), said


@pytest.mark.parametrize("number", ["0", "00", "2147483648", "4294967297", "18446744073709551617"])
def test_a_process_id_is_one_that_can_be(number):
    for words in (["trim", number], ["set", number, "STEAL=0"]):
        assert "expected a process id" in refused(*words)


@pytest.mark.parametrize("evil", ["\x1b[31m", "\n", "a\nb", "\x07", "\u009b31m", "\udc80", "\u202e"], ids=ascii)
def test_no_word_that_is_typed_reaches_the_terminal_as_it_is(evil):
    lines = [[evil], [f"--{evil}"], [f"-{evil}"], [f"--help{evil}=x"]]
    for command in COMMANDS:
        lines += [[command, f"--{evil}"], [command, f"--no-such-option={evil}"], [command, f"-{evil}"]]
    lines += [["report", f"--{option}={evil}", "x"] for option in ("sites", "weight", "leak-exit-code", "json")]
    lines += [["top", f"--sort={evil}"], ["top", f"--interval={evil}"], ["top", evil], ["trim", evil], ["trim", "all", evil],
              ["set", evil, "STEAL=0"], ["set", "1", f"STEAL={evil}"], ["set", "1", f"{evil}=1"], ["replay", "x", evil], ["tune", "x", evil],
              ["compare", "a", "b", evil], ["convert", "a", "b", evil], ["completions", evil], ["options", evil], ["preload", evil],
              ["replay", f"--memory={evil}", "x"], ["run", f"--preset={evil}", "true"], ["trim", f"--device={evil}", "all"]]
    for words in lines:
        said = refused(*words)
        assert evil not in said or evil == "\n", (words, said)
        assert all(character.isprintable() for character in said.replace("\n", "")), (words, said)
        assert len([line for line in said.splitlines() if line.startswith("poolcuda")]) <= 1, said


def test_words_of_a_program_are_its_own_affair():
    words = ["--\x1b[31m", "-\x07", "a\nb"]
    done = guard.run([COMMAND, "run", "--quiet", "printf", "%s|", *words], env=CLEAN, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "".join(f"{word}|" for word in words))
    done = guard.run([COMMAND, "report", "--", "-\x1b"], env=CLEAN, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "No such file" in done.stderr and "\x1b" not in done.stderr


# docs/exit-codes.md

CODES = {row[0]: row[1:] for row in re.findall(r"^\| `poolcuda (\w+)` \| (.*?) \| (.*?) ?\| (.*?) \| (.*?) ?\|$",
                                              (ROOT / "docs/exit-codes.md").read_text(), re.M)}


def codes_told(command):
    """By the table: what a column without text has none of, and what the last column names."""
    zero, one, two, others = CODES[command]
    return {str(code) for code, text in enumerate((zero, one, two)) if text} | set(re.findall(r"(?:^|; )(\d+):", others)) \
        | ({"N"} if others.startswith("N,") else set())


# LOST: a full disk; ALONE: the command without its library. PID: a running program, STATS: a report, LEAKS: of a program that did not free everything, RESULT: of a replay.
ENDS = {("run", "0"): ["true"], ("run", "1"): ["false"], ("run", "126"): ["/etc/passwd"], ("run", "127"): ["/nowhere"],
        ("run", "125"): "ALONE", ("preload", "0"): [], ("preload", "1"): "ALONE",
        ("doctor", "0"): [str(SAMPLES / "varying")], ("doctor", "1"): ["/nowhere"], ("doctor", "3"): ["sh"], ("doctor", "4"): "LOST",
        ("report", "0"): ["STATS"], ("report", "1"): ["/nowhere", "STATS"], ("report", "N"): ["--leak-exit-code=7", "LEAKS"],
        ("top", "0"): ["--once"], ("top", "1"): ["--prometheus=/nowhere/at/all"],
        ("trim", "0"): ["PID"], ("trim", "1"): ["999999999"], ("set", "0"): ["PID", "STEAL=0"], ("set", "1"): ["999999999", "STEAL=0"],
        ("replay", "0"): [TRACE], ("replay", "1"): ["/nowhere"], ("tune", "0"): [TRACE], ("tune", "1"): ["/nowhere"],
        ("compare", "0"): ["RESULT", "RESULT"], ("compare", "1"): ["RESULT", "/nowhere"],
        ("convert", "0"): [TRACE, "-"], ("convert", "1"): ["/nowhere", "-"], ("options", "0"): [], ("completions", "0"): ["bash"]}


def test_the_table_of_exit_codes_has_every_command_and_what_its_man_page_tells():
    assert set(CODES) == set(COMMANDS)
    for command in COMMANDS:
        text = (BUILD / f"man/poolcuda-{command}.1").read_text()
        status = set(re.findall(r"\\f[BI](\w+)\\fR\n", text.partition(".SH EXIT STATUS")[2].partition(".SH")[0]))
        lost = {"1"} if command in ("options", "completions") else set()  # what is lost stands below the table
        assert status | ({"0", "1"} if command == "run" else set()) == codes_told(command) | lost, command
        assert {code for name, code in ENDS if name == command} | {"2"} == codes_told(command)


@pytest.fixture(scope="module", name="places")
def fixture_places(stats, tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    leaks = json.loads(stats.read_text())
    leaks["counters"]["live_blocks"] = 3
    (folder / "leaks").write_text(json.dumps(leaks))
    (folder / "result").write_bytes(subprocess.run([COMMAND, "replay", "--json", TRACE], env=CLEAN, stdout=subprocess.PIPE, check=True).stdout)
    shutil.copy(COMMAND, folder / "poolcuda")  # without its library
    with Program(POOLCUDA_MAX_IDLE="100%", POOLCUDA_IDLE_DECAY="0") as program:
        program.do("churn")
        yield {"STATS": str(stats), "LEAKS": str(folder / "leaks"), "RESULT": str(folder / "result"), "PID": str(program.pid),
               "ALONE": folder / "poolcuda"}


@pytest.mark.parametrize("command, code", ENDS)
def test_each_command_ends_as_the_table_tells(command, code, places):
    words = ENDS[command, code]
    line = {"ALONE": [places["ALONE"], command], "LOST": [COMMAND, command]}.get(
        str(words)) or [COMMAND, command, *(places.get(str(word), str(word)) for word in words)]
    if command == "run" and words == "ALONE":
        line.append("true")
    library_path = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}"} if command == "doctor" else {}
    with open("/dev/full", "wb") as full:
        done = guard.run(line, env={**CLEAN, **library_path}, stdin=subprocess.DEVNULL, stdout=full if words == "LOST" else subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    assert done.returncode == (7 if code == "N" else int(code)), f"{done.stdout}{done.stderr}"
    if code == "1" and command not in ("run", "doctor"):
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith(f"poolcuda {command}: ")
