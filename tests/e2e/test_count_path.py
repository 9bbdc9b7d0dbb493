"""How much of src one call goes through: its bars may only be lowered, as the house gets simpler."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files and their lines, of whatever a hit, a miss, a free or the first use executes; then of the shortest hit and free.
BARS = {"all": (25, 3803), "hit, shortest": (5, 663), "free, shortest": (5, 742)}


def test_a_call_goes_through_no_more_files_and_lines_than_before():
    told = subprocess.run([ROOT / "scripts/count-path"], capture_output=True, text=True, check=True).stdout
    counted = {match[1]: (int(match[2]), int(match[3])) for match in re.finditer(r"(.+): (\d+) files with (\d+) lines", told)}
    assert set(BARS) <= set(counted), told
    over = {name: (counted[name], bar) for name, bar in BARS.items() if counted[name][0] > bar[0] or counted[name][1] > bar[1]}
    assert not over, f"files and lines that a call goes through, with their bars: {over}\n{told}"


def test_the_cores_reading_list_is_as_short_as_it_says():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    told = re.search(r"\*\*Reading list\.\*\* .*? at most ([\d,]+) lines(.+?)\n\n", page, re.DOTALL)
    listed = re.findall(r"`(\w+/\w+\.c)`", told[2])
    assert len(listed) == 8 and told[1] == "1,800"
    assert sum(len((ROOT / "src" / file).read_text(encoding="utf-8").splitlines()) for file in listed) <= 1800


def test_bad_arguments_are_answered_in_one_line():
    told = subprocess.run([ROOT / "scripts/count-path", "--file"], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert told.stderr == "scripts/count-path: --file: expected --files or nothing; see --help\n"
