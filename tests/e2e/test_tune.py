"""poolcuda tune: its figures are those of replays, its front is the front, what it recommends can be pasted."""

import json
import os
import pty
import re
import subprocess
import xml.etree.ElementTree

import pytest
from conftest import COMMAND, ROOT

SSIM = ROOT / "tests/data/ssim.csv.gz"
MGPU = ROOT / "tests/data/mgpu_reduce.csv.gz"
SEGMENT = ROOT / "tests/data/segment-reduce.csv.gz"


def command(*arguments, env=None):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    environment.update(env or {})
    return subprocess.run([COMMAND, *map(str, arguments)], env=environment, capture_output=True, text=True,
                          check=False)


def tune(trace, *arguments, env=None):
    done = command("tune", "--json", *arguments, trace, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def variables(text):
    return dict(word.split("=", 1) for word in text.split())


@pytest.fixture(name="mgpu", scope="module")
def tuned():
    return tune(MGPU)


def setting(result, options):
    return next(one for one in result["settings"] if one["options"] == options)


def test_each_settings_figures_are_those_of_a_replay(mgpu):
    for one in mgpu["settings"][::5]:
        done = command("replay", "--json", MGPU, env=variables(one["options"]))
        replayed = json.loads(done.stdout)
        for name in ("hits", "driver_allocs", "driver_frees", "map_calls", "peak_held_bytes", "modelled_seconds"):
            assert one[name] == replayed[name], one["options"]


def test_many_settings_of_every_preset_are_tried_but_of_the_drivers_pool(mgpu):
    presets = {variables(one["options"]).get("POOLCUDA_PRESET", "default") for one in mgpu["settings"]}
    assert presets == {"default", "futhark", "pyopencl", "bfc", "vmm"}
    assert len(mgpu["settings"]) >= 30
    assert len({one["options"] for one in mgpu["settings"]}) == len(mgpu["settings"])


def test_the_front_is_what_nothing_else_covers(mgpu):
    def worth(one):
        return one["driver_calls"], one["peak_held_bytes"], one["oom_failures"]

    for place, one in enumerate(mgpu["settings"]):
        covered = [other for index, other in enumerate(mgpu["settings"])
                   if all(a <= b for a, b in zip(worth(other), worth(one)))
                   and (worth(other) != worth(one) or index < place)]
        assert one["front"] == (not covered), one["options"]
        assert one["driver_calls"] == one["driver_allocs"] + one["driver_frees"] + one["map_calls"]


def test_the_recommended_setting_is_on_the_front_and_within_the_memory(mgpu):
    recommended = setting(mgpu, mgpu["recommended"])
    most = 1.25 * (mgpu["least_held_bytes"] + (64 << 20))
    assert recommended["front"] and recommended["peak_held_bytes"] <= most
    fitting = [one for one in mgpu["settings"] if one["front"] and one["peak_held_bytes"] <= most]
    assert recommended["modelled_seconds"] <= min(one["modelled_seconds"] for one in fitting) / 0.94
    assert setting(mgpu, mgpu["transparent"])["transparent"]


def test_nothing_passes_the_limits(mgpu):
    assert 0 < mgpu["least_held_bytes"] <= mgpu["packed_bytes"]
    for one in mgpu["settings"]:
        assert one["peak_held_bytes"] >= mgpu["least_held_bytes"]
        assert one["driver_allocs"] >= one["least_driver_allocs"] >= 1


def test_who_allows_less_memory_is_recommended_less():
    roomy = tune(SEGMENT)
    held = min(one["peak_held_bytes"] for one in roomy["settings"])
    assert setting(roomy, roomy["recommended"])["peak_held_bytes"] > held
    frugal = tune(SEGMENT, f"--max-held={held}")
    assert setting(frugal, frugal["recommended"])["peak_held_bytes"] == held


@pytest.mark.parametrize("arguments, env", [(["--reuse-ratio=1.5"], {}), ([], {"POOLCUDA_REUSE_RATIO": "1.5"})])
def test_what_the_user_fixes_is_the_same_in_every_setting(arguments, env):
    result = tune(SSIM, *arguments, env=env)
    assert all(variables(one["options"])["POOLCUDA_REUSE_RATIO"] == "1.5" for one in result["settings"])
    assert variables(result["recommended"])["POOLCUDA_REUSE_RATIO"] == "1.5"


def test_who_fixes_the_preset_gets_no_other():
    result = tune(SSIM, "--preset=vmm")
    assert all(variables(one["options"])["POOLCUDA_PRESET"] == "vmm" for one in result["settings"])
    assert result["transparent"] is None


def test_the_text_shows_the_front_and_a_line_to_paste(mgpu):
    done = command("tune", MGPU)
    assert (done.returncode, done.stderr) == (0, "")
    stars = re.findall(r"^\* (.*?)  +[\d.]+%", done.stdout, re.M)
    assert [one["options"] or "(the default)" for one in mgpu["settings"] if one["front"]] == stars
    pasted = re.search(r"^recommended:\n  export (.*)$", done.stdout, re.M)[1]
    assert pasted == mgpu["recommended"]
    assert command("replay", MGPU, env=variables(pasted)).returncode == 0
    everything = command("tune", "--all", MGPU).stdout
    assert len(re.findall(r"^[* ] .*?  +[\d.]+%", everything, re.M)) == len(mgpu["settings"])


def test_the_plot_is_an_svg_and_a_png(tmp_path):
    done = command("tune", "--plot", tmp_path / "drawn", SSIM)
    assert (done.returncode, done.stderr) == (0, "")
    assert xml.etree.ElementTree.parse(tmp_path / "drawn.svg").getroot().tag.endswith("svg")
    image = (tmp_path / "drawn.png").read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n") and len(image) > 5000


def test_a_plot_that_cannot_be_written_is_told_in_one_line(tmp_path):
    done = command("tune", "--plot", tmp_path / "absent/drawn", SSIM)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert f"{tmp_path}/absent/drawn.svg" in done.stderr and "expected a file that can be written" in done.stderr


@pytest.mark.parametrize("arguments, told", [
    (["/nowhere"], "/nowhere"),
    (["--max-held=much", SSIM], "much: expected a size from 2M to 4T"),
    ([SSIM, MGPU], "expected one FILE only"),
])
def test_bad_input_gets_one_line(arguments, told):
    done = command("tune", *arguments)
    assert done.returncode != 0 and told in done.stderr.splitlines()[0] and not done.stdout


def test_a_bad_option_value_is_told_before_the_work_begins():
    done = command("tune", "--reuse-ratio=99", SSIM)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "POOLCUDA_REUSE_RATIO" in done.stderr


def test_a_device_that_is_too_small_is_told():
    done = command("tune", "--memory=40M", MGPU)
    assert done.returncode == 0 and "allocations failed" in done.stdout


def test_a_terminal_sees_how_far_it_is():
    master, slave = pty.openpty()
    with subprocess.Popen([COMMAND, "tune", SSIM], stdout=subprocess.DEVNULL, stderr=slave) as process:
        os.close(slave)
        seen = b""
        try:
            while data := os.read(master, 4096):
                seen += data
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0
    os.close(master)
    assert b"without the pool" in seen and b"POOLCUDA_PRESET=vmm" in seen
    assert seen.endswith(b"\r\x1b[K")  # and is gone at the end
