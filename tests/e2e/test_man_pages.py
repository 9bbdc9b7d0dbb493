"""The man pages, made of templates and of the tables of commands and options."""

import re

import guard
import pytest
from conftest import BUILD, COMMAND, ROOT

MAN = BUILD / "man"
COMMANDS = re.findall(r"^COMMAND\((\w+),", (ROOT / "src/cli/commands.def").read_text(), re.M)
PAGES = ["poolcuda.1", "libpoolcuda.7", *(f"poolcuda-{command}.1" for command in COMMANDS)]
if (MAN / "poolcuda_spank.8").exists():  # built where Slurm's headers are
    PAGES.append("poolcuda_spank.8")


def shown(page):
    """The page as a reader sees it, without line breaks that depend on the width."""
    done = guard.run(["man", "--warnings", "-l", MAN / page], capture_output=True, text=True,
                     check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "1000",
                                       "MANPAGER": "cat", "MANROFFOPT": "-ww"})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def told(*arguments):
    return guard.run([COMMAND, *arguments], capture_output=True, text=True, check=True).stdout


def test_every_subcommand_has_a_page():
    listed = told("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines()] == COMMANDS
    assert sorted(page.name for page in MAN.glob("*.[0-9]")) == sorted(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_formats_without_warnings_and_has_its_sections(page):
    text = shown(page)
    name = page.split(".")[0]
    sections = re.findall(r"^([A-Z ]+)$", text, re.M)
    assert sections[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert ("EXIT STATUS" in sections) == (page != "libpoolcuda.7")
    assert re.search(rf"^NAME\n\s+{name} - \S", text, re.M)
    assert not re.search(r"@\w+@", text), "a word of the template"


def test_the_commands_page_says_in_its_description_what_each_subcommand_is_for():
    text = shown("poolcuda.1")
    name, description = (text.partition(f"\n{section}\n")[2].partition("\n\n")[0] for section in ("NAME", "DESCRIPTION"))
    assert set(re.findall(r"\w+", description)) >= set(COMMANDS)
    assert all(word in name for word in ("runs", "watches", "steers", "reports", "tunes"))


@pytest.mark.parametrize("page", PAGES)
def test_whatis_finds_what_a_page_is_about(page):
    done = guard.run(["lexgrog", MAN / page], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f'"{page.split(".")[0]} - ' in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_every_option_of_its_subcommand(command):
    text = shown(f"poolcuda-{command}.1")
    options = re.findall(r"^\s+(?:-., )?(--[a-z-]+(?:=[^\s\]]+)?)", told(command, "--help"), re.M)
    assert "--help" in options
    for option in options:
        name = re.escape(option)
        if option.endswith("=WORD"):  # words that fit into no line of --help, but into one of a page
            name = re.escape(option.removesuffix("WORD")) + r"[a-z-]+(\|[a-z-]+)+"
        assert re.search(rf"^\s+(-., )?{name}$", text, re.M), option


def test_the_librarys_page_has_every_variable_with_values_and_default():
    text = shown("libpoolcuda.7")
    names = re.findall(r"^(POOLCUDA_\w+) \((.*); default ([^;]*?)(; may change while the program runs)?\)$",
                       told("options"), re.M)
    assert len(names) > 10 and any(live for *_, live in names)
    for name, values, default, live in names:
        entry = re.search(rf"^\s+{name}\n\s+(.*)$", text, re.M)
        told_of = f"Values: {values}. Default: {default}." + (" May change while the program runs." if live else "")
        assert entry and entry.group(1).endswith(told_of), name


def test_an_unknown_word_in_a_template_is_refused():
    done = guard.run([COMMAND, "--man-source=poolcuda"], input="poolcuda(1)\n@nothing@\n", capture_output=True,
                     text=True, check=False)
    assert done.returncode == 1 and "unknown word in the template: @nothing@" in done.stderr


def test_an_unknown_page_is_refused():
    done = guard.run([COMMAND, "--man-source=poolcuda-nothing"], input="", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "poolcuda-nothing: no such man page, expected poolcuda, poolcuda-COMMAND, libpoolcuda or poolcuda_spank" in done.stderr
