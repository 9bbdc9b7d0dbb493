"""A file that is none of what a subcommand reads is reported in one line, and the command fails."""

import gzip
import json
import os
import re
import shutil
import subprocess

import guard
import pytest
from conftest import COMMAND
from writers import CLEAN, TRACE, fixture_stats  # noqa: F401  pylint: disable=unused-import

# Each subcommand that reads files, as a command that takes the bad file in the place of BAD and writes to OUT.
READERS = {
    "report": ["report", "BAD"],
    "replay": ["replay", "BAD"],
    "tune": ["tune", "BAD"],
    "compare": ["compare", "BAD", "BAD"],
    "convert": ["convert", "BAD", "OUT.csv"],
    "doctor": ["doctor", "BAD"],
    "run": ["run", "BAD"],
}


def truncated_gzip(path):
    path.write_bytes(gzip.compress(b"t_us,op,id,size,stream,site\n" * 1000)[:60])


def huge(path):
    with open(path, "wb") as file:
        file.write(b"{")
        file.truncate(1 << 40)


MAKERS = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": truncated_gzip,
    "huge": huge,
    "binary": lambda path: path.write_bytes(os.urandom(1 << 16)),
    "wrong version": lambda path: path.write_text(json.dumps(
        {"format": "poolcuda report", "kind": "poolcuda-replay", "version": 99})),
    "wrong version of a trace": lambda path: path.write_bytes(b"poolcuda trace\n\0" + b"\xff" * 48),
    "folder": lambda path: path.mkdir(),
    "unreadable": lambda path: (path.write_bytes(b"x"), path.chmod(0)),
    "escape sequences": lambda path: path.write_bytes(b"\x1b]0;owned\x07\n" * 100),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("reader", READERS)
def test_a_bad_file_is_reported_in_one_line_with_a_nonzero_exit(reader, maker, tmp_path):
    bad, out = tmp_path / "bad", tmp_path / "out.csv"
    MAKERS[maker](bad)
    words = [str(bad) if word == "BAD" else str(out) if word == "OUT.csv" else word for word in READERS[reader]]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "LD_"))}
    done = guard.run([COMMAND, *words], env=clean, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode not in (0, -11, -6), done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    if reader == "doctor":  # what it says of a file is its answer, on standard output
        assert b"problem" in done.stdout
        return
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("poolcuda") and str(bad) in lines[0]
    assert not out.exists(), "nothing is left of a conversion that failed"


@pytest.mark.parametrize("reader", [*(name for name in READERS if name != "doctor"), "trim", "set"])
def test_no_argument_is_bad_usage(reader):
    done = subprocess.run([COMMAND, reader], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert 0 < len(done.stderr.splitlines()) <= 4, "the fault and where help is"


def test_a_subcommand_that_is_none_is_reported():
    done = subprocess.run([COMMAND, "reprot"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("poolcuda: reprot: unknown command")


def test_an_output_that_exists_or_cannot_be_made_is_reported(tmp_path):
    shutil.copy(TRACE, tmp_path / "in.csv.gz")
    done = subprocess.run([COMMAND, "convert", tmp_path / "in.csv.gz", "/nowhere/out.csv"], capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1 and "/nowhere/out.csv" in done.stderr


def test_a_small_file_that_would_fill_the_memory_is_refused_by_what_it_unpacks_to(tmp_path):
    """The bounds themselves: tests/unit/test_input.c."""
    bomb = tmp_path / "bomb"
    lines = b"\n" * (16 << 20)  # empty ones are passed over
    bomb.write_bytes(gzip.compress(b"t_us,op,id,size,stream,site\n0,A,0,4096,0,x\n") + gzip.compress(lines) * 1000)
    done = subprocess.run([COMMAND, "convert", bomb, tmp_path / "out.csv"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"poolcuda convert: {bomb}:") and not (tmp_path / "out.csv").exists()
    assert "unpacks to more than 256 MiB and 100 times its size, expected less; " in done.stderr
    assert "unpack it first" in done.stderr


# Among others in a folder

def cut_json(path):
    path.write_bytes(path.read_bytes()[:-20])


def wrong_json(path):
    report = json.loads(path.read_text())
    report["counters"]["malloc_calls"] = "many"
    path.write_text(json.dumps(report))


def newer_json(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 999}))


def cut_page(path):
    path.write_bytes(PAGE_BANNER + b"\n" + bytes(1000))


PAGE_BANNER = b"poolcuda figures of a running or killed program; to read them: poolcuda report"
def changed(change):
    """A damage: that change of the report as an object."""
    def damage(path):
        whole = json.loads(path.read_text())
        change(whole)
        path.write_text(json.dumps(whole))
    return damage


DAMAGES = {"a rank that is none": (changed(lambda whole: whole["process"].update(rank=1 << 31)), 'damaged: "rank" is not what it should be'),
           "no runs": (changed(lambda whole: whole.update(runs=0)), 'damaged: "runs" is not what it should be'),
           "no counters": (changed(lambda whole: whole.pop("counters")), 'damaged: "counters" is missing'),
           "no sites": (changed(lambda whole: whole.pop("sites")), 'damaged: "sites" is missing'),
           "no process": (changed(lambda whole: whole.pop("process")), 'damaged: "process" is missing'),
           "no interception": (changed(lambda whole: whole.pop("interception")), 'damaged: "interception" is missing'),
           "a counter too few": (changed(lambda whole: whole["counters"].pop("held_bytes")), 'damaged: "held_bytes" is missing'),
           "counters that are none": (changed(lambda whole: whole.update(counters=[])), 'damaged: "counters" is not what it should be'),
           "too large a number": (changed(lambda whole: whole["counters"].update(malloc_calls=1 << 63)), "is not below 2^63"),
           "JSON that is cut off": (cut_json, "no JSON in line"), "JSON with what is no figure": (wrong_json, 'damaged: "malloc_calls"'),
           "JSON of a newer version": (newer_json, "only a newer poolcuda can read"),
           "figures that are cut off": (cut_page, "written by another version of poolcuda")}


@pytest.fixture(name="folder")
def fixture_folder(stats, tmp_path):
    """Two reports, and files that are none."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "z"):
        shutil.copy(stats, folder / name)
    (folder / "notes.txt").write_text("nothing of ours\n")
    (folder / "some.json").write_text('{"format": "something else"}')
    (folder / "broken.json").write_text('{"format": ')
    (folder / "empty").write_text("")
    return folder


def told(folder, *words):
    return guard.run([COMMAND, "report", *words, folder], env=CLEAN, capture_output=True, text=True, check=False)


def test_what_is_no_report_is_passed_over_in_a_folder(folder):
    done = told(folder, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["runs"] == 2
    assert done.stderr == "poolcuda report: 4 other files in these folders are no reports\n"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_report_in_a_folder_is_reported_and_the_others_are_shown(damage, folder, stats):
    change, why = DAMAGES[damage]
    shutil.copy(stats, folder / "m")
    change(folder / "m")
    for words, shown in (["--json"], '"runs": 2'), ([], "2 runs"), (["--each"], "poolcuda "), (["--leaks"], "freed"):
        done = told(folder, *words)
        assert done.returncode == 1 and shown in done.stdout, done.stdout
        first, second = done.stderr.splitlines()
        assert first.startswith(f"poolcuda report: {folder}/m: ") and why in first and first.endswith(", passed over")
        assert second == "poolcuda report: 4 other files in these folders are no reports"


def test_a_report_of_an_older_version_is_read(folder, stats):
    """It has neither a command line nor what came after the first version of the format."""
    def age(whole):
        del whole["process"]["command_line"], whole["time_saved"], whole["timed_calls"]
        for name in ("managed_calls", "async_calls", "given_up_bytes", "check_errors"):
            del whole["counters"][name]
    changed(age)(folder / "a")
    done = told(folder, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["runs"] == 2


@pytest.mark.parametrize("number", [1 << 62, (1 << 63) - 1])
def test_sums_of_huge_numbers_stop_at_the_greatest_that_is_read_again(number, tmp_path, stats):
    def enlarge(whole):
        for part in (whole["counters"], *whole["devices"], *whole["sites"]):
            part.update({name: number for name, value in part.items() if type(value) is int and name not in ("device", "id")})

    folder = tmp_path / "huge"
    folder.mkdir()
    for name in "abcde":
        shutil.copy(stats, folder / name)
        changed(enlarge)(folder / name)
    once = told(folder, "--json")
    assert once.returncode == 0 and json.loads(once.stdout)["counters"]["malloc_calls"] == (1 << 63) - 1
    sums = tmp_path / "sums"
    sums.write_text(once.stdout)
    again = told(sums, "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["counters"] == json.loads(once.stdout)["counters"], again.stderr


@pytest.mark.parametrize("number", [1 << 61, 1 << 62, (1 << 63) - 1])
def test_figures_of_one_run_near_the_greatest_number_are_written_as_they_are_read_again(number, tmp_path, stats):
    huge = json.loads(stats.read_text())
    for part in (huge["counters"], *huge["devices"], *huge["sites"]):
        part.update({name: number for name, value in part.items() if type(value) is int and name not in ("device", "id")})
    (tmp_path / "a").write_text(json.dumps(huge))
    once = told(tmp_path / "a", "--json")
    assert once.returncode == 0, once.stderr
    device = json.loads(once.stdout)["devices"][0]
    assert device["in_use_bytes"] == number and device["held_bytes"] == min(3 * number, (1 << 63) - 1)
    assert sum(device[name] for name in ("in_use_bytes", "idle_bytes", "waste_bytes")) == device["held_bytes"]
    (tmp_path / "b").write_text(once.stdout)
    again = told(tmp_path / "b", "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["devices"] == json.loads(once.stdout)["devices"], again.stderr
    assert told(tmp_path / "b").returncode == 0


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root reads everything: install setpriv (util-linux)")
def test_what_cannot_be_read_in_a_folder_is_reported_too(folder, stats):
    unprivileged = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"] \
        if os.geteuid() == 0 else []
    (folder / "below").mkdir()
    shutil.copy(stats, folder / "m")
    (folder / "m").chmod(0)
    (folder / "below").chmod(0)
    try:
        done = guard.run([*unprivileged, COMMAND, "report", "--json", folder], env=CLEAN, capture_output=True, text=True, check=False)
    finally:
        (folder / "below").chmod(0o755)
    assert done.returncode == 1 and json.loads(done.stdout)["runs"] == 2
    below, file, others = done.stderr.splitlines()
    assert below.startswith(f"poolcuda report: {folder}/below: Permission denied; expected a folder that can be read")
    assert file.startswith(f"poolcuda report: {folder}/m: Permission denied; expected a file") and "4 other files" in others


# What a name may hold

EVIL = "a\x1b[31m\nb\u009b31m\u202e"


def is_harmless(text):
    return all(character.isprintable() for character in text.replace("\n", "")) and "a\x1b" not in text and "\nb" not in text


@pytest.mark.parametrize("words", [["report", "BAD"], ["report", "--each", "BAD"], ["report", "--leaks", "BAD"], ["replay", "TRACE"], ["tune", "TRACE"],
                                   ["tune", "--plot=PLOT", "TRACE"], ["compare", "RESULT", "RESULT"], ["convert", "TRACE", "-"],
                                   ["convert", "TRACE", "OUT/x"], ["replay", "NONE"], ["tune", "NONE"], ["compare", "NONE", "NONE"],
                                   ["convert", "NONE", "OUT"], ["report", "NONE"], ["report", "--html=OUT/x", "BAD"], ["tune", "--plot=NO/x", "TRACE"],
                                   ["compare", "TRACE", "TRACE"], ["replay", "BAD"], ["run", "NONE"], ["report", "FOLDER"]],
                         ids=" ".join)
def test_a_files_name_and_a_programs_reach_the_terminal_without_what_it_obeys(words, stats, tmp_path):
    report = json.loads(stats.read_text())
    report["process"].update(command=f"/bin/{EVIL}", host=EVIL, trace=f"/{EVIL}", options=f"POOLCUDA_STEAL={EVIL}", finished=words[-1] != "BAD")
    for site in report["sites"]:
        site["tag"] = EVIL
    for module in report["modules"]:
        module["path"] = f"/lib/{EVIL}"
    (tmp_path / f"BAD{EVIL}").write_text(json.dumps(report))
    (tmp_path / f"FOLDER{EVIL}").mkdir()
    (tmp_path / f"FOLDER{EVIL}/{EVIL}").write_text(json.dumps({**report, "version": 999}))
    lines = gzip.decompress(TRACE.read_bytes()).decode().splitlines(keepends=True)
    (tmp_path / f"TRACE{EVIL}").write_text(lines[0] + "".join(lines[1:200]))
    result = subprocess.run([COMMAND, "replay", "--json", TRACE], env=CLEAN, stdout=subprocess.PIPE, check=True).stdout
    (tmp_path / f"RESULT{EVIL}").write_bytes(result)
    typed = [re.sub(r"\b(BAD|TRACE|RESULT|NONE|OUT|PLOT|NO|FOLDER)\b", lambda found: f"{tmp_path}/{found[1]}{EVIL}", word) for word in words]
    done = guard.run([COMMAND, *typed], env=CLEAN, capture_output=True, text=True, check=False)
    assert done.stdout or done.stderr
    assert is_harmless(done.stdout) and is_harmless(done.stderr), done.stdout + done.stderr
