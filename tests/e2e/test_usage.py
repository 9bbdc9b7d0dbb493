"""Bad usage has one exit code, 2, whichever command it is."""

import re
import subprocess

import guard
import pytest
from conftest import BUILD, COMMAND
from writers import CLEAN

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


ANY_VALUE = {"FILE", "BASE", "DIR", "PATH"}  # these may be called anything


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
    assert "2" in codes and set(codes) <= {"0", "1", "2", "3", "125", "126", "127"}
