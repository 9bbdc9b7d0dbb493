"""poolcuda compare: two replays side by side; what is no replay is reported in one line."""

import json
import subprocess

import pytest
from conftest import COMMAND, ROOT

SSIM = ROOT / "tests/data/ssim.csv.gz"


def command(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture(name="replays", scope="module")
def two_replays(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replays")
    for name, preset in (("a", "default"), ("b", "vmm")):
        done = command("replay", "--json", "--preset", preset, SSIM)
        (folder / f"{name}.json").write_text(done.stdout)
    return folder / "a.json", folder / "b.json"


def test_each_figure_stands_beside_the_others(replays):
    figures = [json.loads(path.read_text()) for path in replays]
    compared = json.loads(command("compare", "--json", *replays).stdout)
    for name, pair in compared.items():
        assert pair == pytest.approx([one[name] for one in figures]), name
    assert {"hits", "hit_rate", "driver_allocs", "peak_held_bytes", "modelled_seconds"} <= set(compared)


def test_the_text_names_both_files_and_their_ratio(replays):
    figures = [json.loads(path.read_text()) for path in replays]
    lines = command("compare", *replays).stdout.splitlines()
    assert lines[:2] == [f"A: {replays[0]}", f"B: {replays[1]}"]
    row = next(line for line in lines if line.startswith("peak held")).split()
    assert [int(row[2]), int(row[3])] == [one["peak_held_bytes"] for one in figures]
    assert float(row[5]) == pytest.approx(figures[1]["peak_held_bytes"] / figures[0]["peak_held_bytes"], abs=0.001)


@pytest.mark.parametrize("change, told", [
    (lambda text: "nothing", "expected what `poolcuda replay --json` prints"),
    (lambda text: text.replace("poolcuda-replay", "other"), '"kind"'),
    (lambda text: text.replace('"version": 1', '"version": 99'), '"version"'),
    (lambda text: text.replace('"hits"', '"hists"'), '"hits"'),
    (lambda text: text.replace('"peak_held_bytes": ', '"peak_held_bytes": -'), '"peak_held_bytes"'),
])
def test_what_is_no_replay_is_reported_in_one_line(replays, tmp_path, change, told):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(change(replays[0].read_text()))
    done = command("compare", replays[0], wrong)
    assert done.returncode == 1 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and str(wrong) in done.stderr and told in done.stderr


def test_a_folder_is_named_as_one(replays, tmp_path):
    done = command("compare", replays[0], tmp_path)
    assert (done.returncode, done.stderr) == (
        1, f"poolcuda compare: {tmp_path}: Is a directory; expected what `poolcuda replay --json` prints\n")


def test_a_missing_file_is_named(replays):
    done = command("compare", replays[0], "/nowhere.json")
    assert (done.returncode, done.stderr) == (
        1, "poolcuda compare: /nowhere.json: No such file or directory; expected what `poolcuda replay --json` prints\n")
