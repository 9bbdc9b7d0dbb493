"""What the shells offer, asked of real shells: bash, zsh and fish."""

import os
import pathlib
import re
import shlex

import guard
import pytest
from conftest import BUILD, COMMAND, ROOT
from steered import FOLDER, Program

HERE = pathlib.Path(__file__).parent
SHELLS = ["bash", "zsh", "fish"]
REAL = {"bash": BUILD / "completions/poolcuda", "zsh": BUILD / "completions/_poolcuda",
        "fish": BUILD / "completions/poolcuda.fish"}
COMMANDS = re.findall(r"^COMMAND\((\w+), \w+, \w+, \"(.*)\"\)$", (ROOT / "src/cli/commands.def").read_text(), re.M)


def in_bash(script, line, folder, before="", whole=False):
    """bash breaks words at = too, as it does when a user types them; not if the = is taken from its COMP_WORDBREAKS:
    then they are `whole`."""
    words = []
    for word in line.split(" "):
        name, equals, value = word.partition("=") if not whole else (word, "", "")
        words += [name] + ([equals] if equals else []) + ([value] if value else [])
    ask = (f"{before}source {script}; COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; "
           "_poolcuda; printf '%s\\n' \"${COMPREPLY[@]}\"")
    return ["bash", "--norc", "-c", ask], folder


def in_zsh(script, line, folder):
    return ["zsh", "-f", HERE / "complete.zsh", script, line], folder


def in_fish(script, line, folder):
    return ["fish", "--no-config", "-c", f"source {script}; complete -C {shlex.quote(line)}"], folder


def ask(shell, script, line, folder):
    """{word: description} offered at the end of the line. An option's name stands without its value's = and a
    value without its option, which shells show differently."""
    command, cwd = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}[shell](script, line, folder)
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    done = guard.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False,
                     env={"PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb"})
    assert done.stderr == ""
    offers = {}
    for offer in done.stdout.splitlines():
        word, _, text = offer.partition("\t")
        word = word.replace("\\", "")
        if word.startswith("--") and "=" in word:
            word = word.rstrip("=").partition("=")[2] or word.rstrip("=")
        if word:
            offers[word.rstrip("/")] = text.partition("-- ")[2] if shell == "zsh" else text
    return offers


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The completions of tests/unit/sample_commands.c, as files."""
    folder = tmp_path_factory.mktemp("sample")
    for shell in SHELLS:
        text = guard.run([BUILD / "tests/unit/sample_commands", shell], capture_output=True, text=True,
                         check=True).stdout
        (folder / shell).write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path):
    """A working folder with a file and a folder."""
    folder = tmp_path / "work"
    (folder / "traces").mkdir(parents=True)
    (folder / "trace one.csv").write_text("")
    return folder


@pytest.mark.parametrize("shell", SHELLS)
def test_the_installed_script_is_what_the_command_prints(shell):
    done = guard.run([COMMAND, "completions", shell], capture_output=True, text=True, check=True)
    assert done.stdout == REAL[shell].read_text()


def test_no_or_an_unknown_shell_is_refused():
    for arguments, expected in ((["tcsh"], "tcsh: unknown shell, expected bash, zsh or fish"), ([], "poolcuda completions: no shell given, expected bash, zsh or fish\n"),
                                (["zsh", "bash"], "bash: expected one shell only")):
        done = guard.run([COMMAND, "completions", *arguments], capture_output=True, text=True,
                         check=False)
        assert done.returncode == 2 and done.stdout == "" and expected in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_subcommands_are_offered_with_their_help(shell, folder):
    offers = ask(shell, REAL[shell], "poolcuda ", folder)
    assert sorted(offers) == sorted(name for name, _ in COMMANDS)
    if shell != "bash":
        assert offers == dict(COMMANDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_beginning_is_completed(shell, folder):
    assert set(ask(shell, REAL[shell], "poolcuda re", folder)) >= {"report", "replay"}
    assert not set(ask(shell, REAL[shell], "poolcuda re", folder)) & {"tune", "options"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_of_every_subcommand_is_offered(shell, folder):
    for command, _ in COMMANDS:
        shown = guard.run([COMMAND, command, "--help"], capture_output=True, text=True,
                          check=True).stdout
        names = set(re.findall(r"(?:^|\s)(--[a-z-]+)", shown, re.M))
        offers = ask(shell, REAL[shell], f"poolcuda {command} --", folder)
        assert "--usage" in names and set(offers) == names, command
        assert shell == "bash" or all(offers.values())


@pytest.mark.parametrize("line", ["poolcuda replay --free=", "poolcuda tune x.csv --free "])
@pytest.mark.parametrize("shell", SHELLS)
def test_an_options_words_are_offered(shell, line, folder):
    assert set(ask(shell, REAL[shell], line, folder)) == {"sync", "auto", "defer"}


@pytest.mark.parametrize("shell", SHELLS)
def test_part_of_a_word_is_completed(shell, folder):
    assert list(ask(shell, REAL[shell], "poolcuda replay --free=s", folder)) == ["sync"]


@pytest.mark.parametrize("line", ["poolcuda replay ", "poolcuda report --", "poolcuda tune --plot "])
@pytest.mark.parametrize("shell", SHELLS)
def test_files_are_offered_where_files_are_wanted(shell, line, folder):
    offers = set(ask(shell, REAL[shell], line.removesuffix("--"), folder))
    assert set(offers) == {"trace one.csv", "traces"}


@pytest.mark.parametrize("line", ["poolcuda options ", "poolcuda replay --memory "])
@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_offered_where_nothing_is_known(shell, line, folder):
    offers = ask(shell, REAL[shell], line, folder)
    # Rather than nothing, zsh offers options.
    assert not [offer for offer in offers if shell != "zsh" or not offer.startswith("-")]


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_are_offered_to_completions(shell, folder):
    assert set(ask(shell, REAL[shell], "poolcuda completions ", folder)) == set(SHELLS)


@pytest.mark.parametrize("line", ["poolcuda run ls", "poolcuda run -q --number 3 --free=auto -l x ls",
                                  "poolcuda run -q -- ls"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_to_run_is_offered(shell, line, sample, folder):
    assert "lsattr" in ask(shell, sample / shell, line, folder)


@pytest.mark.parametrize("line", ["poolcuda run cat ", "poolcuda run -q cat trace\\ one.csv "])
@pytest.mark.parametrize("shell", SHELLS)
def test_what_follows_the_program_is_its_own(shell, line, sample, folder):
    offers = ask(shell, sample / shell, line, folder)
    assert "traces" in offers
    assert "--free" not in ask(shell, sample / shell, line + "--fr", folder)


def test_bash_hands_a_programs_arguments_to_its_own_completion(sample, folder):
    """With the package bash-completion, which knows them."""
    command, _ = in_bash(sample / "bash", "poolcuda run -q make -", folder,
                         before="source /usr/share/bash-completion/bash_completion; _own() { COMPREPLY=(own); }; "
                                "complete -F _own make; ")
    assert guard.run(command, capture_output=True, text=True, check=True).stdout == "own\n"


def test_bash_completes_a_value_of_an_unbroken_word():
    command, _ = in_bash(REAL["bash"], "poolcuda replay --free=s", None, whole=True)
    assert guard.run(command, capture_output=True, text=True, check=True).stdout == "--free=sync\n"


def processes_of(offers):
    """Rather than nothing, and beside others, zsh offers options."""
    return {offer for offer in offers if not offer.startswith("-")}


@pytest.fixture(scope="module")
def programs():
    """A pooled program that runs, and one that was killed and has left its entry; the folder of entries, from before both."""
    before = set(os.listdir(FOLDER)) if FOLDER.is_dir() else set()
    with Program() as killed, Program() as program:
        killed.say("kill")
        killed.process.wait()
        assert killed.page.exists()
        yield program.pid, killed.pid, before


@pytest.mark.parametrize("line", ["poolcuda trim ", "poolcuda set ", "poolcuda trim --timeout=5 --device 0 ", "poolcuda set -t 5 "])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_pooled_programs_that_run_are_offered_and_all_of_them(shell, line, programs, folder):
    running, killed, before = programs
    offers = ask(shell, REAL[shell], line, folder)
    assert {"all", str(running)} <= processes_of(offers) <= {"all", str(running), *before}
    assert str(killed) not in offers and str(os.getpid()) not in offers
    if shell != "bash":
        assert offers["all"] == "all of them" and offers[str(running)] == "steered"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_of_another_pid_namespace_is_offered_by_its_entry(shell, folder, programs):
    entry = FOLDER / "4711-4026531836"
    entry.touch()
    offers = ask(shell, REAL[shell], "poolcuda trim ", folder)
    entry.unlink()
    assert entry.name in offers and str(programs[0]) in offers


@pytest.mark.parametrize("line", ["poolcuda set all ", "poolcuda set 1 ZERO=1 ", "poolcuda set -t 5 all ", "poolcuda set --timeout=5 1 STEAL=0 ",
                                  "poolcuda set all M"])
@pytest.mark.parametrize("shell", SHELLS)
def test_behind_the_process_the_options_are_offered_that_may_change(shell, line, folder):
    told = guard.run([COMMAND, "options"], capture_output=True, text=True, check=True).stdout
    names = {f"{name}=" for name in re.findall(r"^POOLCUDA_(\w+) \(.*; may change while the program runs\)$", told, re.M)}
    offers = ask(shell, REAL[shell], line, folder)
    assert len(names) > 5 and processes_of(offers) == {name for name in names if name.startswith(line.rpartition(" ")[2])}
    assert shell == "bash" or all(offers.values())


@pytest.mark.parametrize("line", ["poolcuda trim all ", "poolcuda trim 1 1", "poolcuda set all MAX_IDLE=", "poolcuda set all MAX_IDLE=6"])
@pytest.mark.parametrize("shell", SHELLS)
def test_no_process_and_no_option_is_offered_where_a_size_or_a_value_is_wanted(shell, line, folder):
    assert processes_of(ask(shell, REAL[shell], line, folder)) <= {line.rpartition(" ")[2]}


@pytest.mark.parametrize("shell", SHELLS)
def test_options_are_offered_behind_a_process_too(shell, folder):
    assert "timeout" in {offer.strip("-") for offer in ask(shell, REAL[shell], "poolcuda trim all --t", folder)}


@pytest.mark.parametrize("shell", SHELLS)
def test_descriptions_of_any_text_are_offered_whole(shell, sample, folder):
    offers = ask(shell, sample / shell, "poolcuda run --", folder)
    assert set(offers) == {"--free", "--log", "--number", "--color", "--colour", "--quiet", "--help", "--usage",
                           "--version"}
    if shell != "bash":
        assert offers["--log"] == ("where it's [logged]: a file" if shell == "fish" else
                                   "where it's (logged): a file")
        assert offers["--free"] == "the wait"
    if shell != "bash":
        assert ask(shell, sample / shell, "poolcuda tr", folder)["trim"] == "have processes give back: all"


@pytest.mark.parametrize("shell", SHELLS)
def test_letters_take_the_same_words(shell, sample, folder):
    assert set(ask(shell, sample / shell, "poolcuda run -f ", folder)) == {"sync", "auto", "defer"}
