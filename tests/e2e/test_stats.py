"""The report: figures that add up, files that survive, memory that is bounded."""

import json
import os
import re
import signal
import subprocess

from conftest import COMMAND, DRIVER, LIBRARY, PROGRAMS, ROOT, RUNTIME, SAMPLES


def equation(text):
    numbers = re.findall(r"^  [ +=] +(\d+) bytes", text, re.M)
    assert len(numbers) == 4, text
    return list(map(int, numbers))


def test_in_use_idle_and_waste_add_up_to_what_is_held(run):
    for program in (SAMPLES / "varying", SAMPLES / "threads", PROGRAMS / "devices"):
        text = run(program, env={"SIMCUDA_DEVICES": "2"}).stats
        in_use, idle, waste, held = equation(text)
        assert in_use + idle + waste == held


def test_a_block_never_freed_is_reported_as_leaked(run):
    result = run(PROGRAMS / "devices", env={"SIMCUDA_DEVICES": "2"})
    assert re.search(r"1 block +devices\+0x", result.stats)
    assert equation(result.stats)[0] == 5000


def test_statistics_go_to_standard_error_when_asked(run):
    result = run(PROGRAMS / "driver_linked", stats=False, env={"POOLCUDA_STATS": "1"})
    assert result.out == "done\n"
    assert "held from the driver" in result.err and "interception: " in result.err


def test_an_existing_file_is_not_overwritten(run, tmp_path):
    taken = tmp_path / "mine"
    taken.write_text("precious")
    run(PROGRAMS / "driver_linked", env={"POOLCUDA_STATS_FILE": str(taken)})
    assert taken.read_text() == "precious"
    assert "held from the driver" in (tmp_path / "mine.1").read_text()


def json_of(run, tmp_path, program, name="report.json", **env):
    result = run(program, env={"POOLCUDA_STATS": "0", "POOLCUDA_STATS_FILE": str(tmp_path / name), **env})
    assert result.code == 0 and result.err == "", result.err
    return json.loads((tmp_path / name).read_text())


def test_the_file_is_json_whose_figures_are_those_of_the_text(run, tmp_path):
    report = json_of(run, tmp_path, PROGRAMS / "driver_linked")
    text = run(PROGRAMS / "driver_linked").stats
    counters = report["counters"]
    assert equation(text) == [counters[f"{n}_bytes"] for n in ("in_use", "idle", "waste", "held")]
    assert f"allocations: {counters['malloc_calls']}, of which {counters['malloc_hits']} from" in text
    assert report["format"] == "poolcuda report" and report["version"] == 1
    assert report["process"]["finished"] and report["process"]["command"].endswith("/driver_linked")
    assert report["process"]["rank"] is None


def test_json_goes_to_standard_error_when_asked(run):
    result = run(PROGRAMS / "driver_linked", stats=False, env={"POOLCUDA_STATS": "json"})
    assert result.out == "done\n"
    assert json.loads(result.err)["counters"]["malloc_calls"] > 0


def test_every_devices_history_and_map_agree_with_its_figures(run, tmp_path):
    report = json_of(run, tmp_path, PROGRAMS / "devices", SIMCUDA_DEVICES="2")
    assert [device["device"] for device in report["devices"]] == [0, 1]
    for name in ("in_use", "idle", "waste", "held"):
        assert report["counters"][f"{name}_bytes"] == sum(d[f"{name}_bytes"] for d in report["devices"])
    for device in report["devices"]:
        times = [sample[0] for sample in device["samples"]]
        assert times == sorted(set(times)) and 0 < len(times) <= 512
        assert max(sum(sample[1:4]) for sample in device["samples"]) == device["peak_held_bytes"]
        last = device["samples"][-1]
        assert last[4] == device["allocations"] and last[5] == device["hits"]
        assert sum(block[1] for block in device["map"]["blocks"]) <= device["peak_held_bytes"]
        addresses = [block[0] for block in device["map"]["blocks"]]
        assert addresses == sorted(addresses)


def test_a_file_names_what_the_pattern_asks_for(run, tmp_path):
    for _ in range(2):
        run(PROGRAMS / "driver_linked", env={
            "POOLCUDA_STATS": "0", "COLOUR": "re/d",
            "POOLCUDA_STATS_FILE": str(tmp_path / "%e-%h-%q{COLOUR}-%r-%q{ABSENT}-%n-%%-%z")})
    host = os.uname().nodename
    assert sorted(path.name for path in tmp_path.glob("driver*")) == [
        f"driver_linked-{host}-re_d-0--{n}-%-%z" for n in (0, 1)]


def test_ranks_get_files_of_their_own_by_themselves(run, tmp_path):
    for rank, variable in enumerate(("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")):
        run(PROGRAMS / "driver_linked", env={variable: str(rank), "POOLCUDA_STATS": "0",
                                             "POOLCUDA_STATS_FILE": str(tmp_path / "of.json")})
        assert json.loads((tmp_path / f"of.json.rank{rank}").read_text())["process"]["rank"] == rank
    assert not (tmp_path / "of.json").exists()
    run(PROGRAMS / "driver_linked", env={"PMIX_RANK": "5", "POOLCUDA_STATS_FILE": str(tmp_path / "%r")})
    assert (tmp_path / "5").exists()


def test_a_file_that_cannot_be_made_is_reported_in_one_line_and_standard_error_used(run):
    result = run(PROGRAMS / "driver_linked",
                 env={"POOLCUDA_STATS_FILE": "/nowhere/at/all", "POOLCUDA_STATS": "1"})
    assert result.code == 0
    assert 'poolcuda: POOLCUDA_STATS_FILE="/nowhere/at/all": cannot be made' in result.err
    assert "held from the driver" in result.err


def test_a_file_that_cannot_be_made_is_one_line_and_no_more_where_the_file_alone_is_asked_for(run, tmp_path):
    result = run(PROGRAMS / "driver_linked", env={"POOLCUDA_STATS_FILE": "/nowhere/at/all", "POOLCUDA_STATS": "file"})
    line = 'poolcuda: POOLCUDA_STATS_FILE="/nowhere/at/all": cannot be made (no such file or folder), no figures of this process'
    assert result.code == 0 and result.err.splitlines() == [line]
    file = tmp_path / "file"
    result = run(PROGRAMS / "driver_linked", env={"POOLCUDA_STATS_FILE": str(file), "POOLCUDA_STATS": "file"})
    assert not result.err and json.loads(file.read_text())["counters"]["malloc_calls"]


def test_a_killed_program_leaves_its_last_figures(tmp_path):
    file = tmp_path / "killed"
    environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), POOLCUDA_STATS_FILE=str(file),
                       SIMCUDA_COST="0", LD_LIBRARY_PATH=f"{DRIVER}:{RUNTIME}")
    with subprocess.Popen([PROGRAMS / "endless"], env=environment, stdout=subprocess.PIPE,
                          text=True) as program:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGKILL)
        program.wait()
    shown = subprocess.run([COMMAND, "report", file], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "running or killed" in shown.stdout
    in_use, idle, waste, held = equation(shown.stdout)
    assert in_use == 1 << 20 and in_use + idle + waste == held
    assert "allocations: 101, of which 100 from idle memory" in shown.stdout


def test_the_file_of_a_program_that_ends_by_a_shortage_tells_of_it(run, tmp_path):
    for how in ("exit", "abort"):
        file = tmp_path / how
        run([PROGRAMS / "last_words", 300, how, "shortage"], env={"POOLCUDA_STATS_FILE": str(file), "POOLCUDA_SHARE": "0"})
        shown = subprocess.run([COMMAND, "report", "--brief", file], capture_output=True, text=True, check=True)
        assert ", out of memory 1 time" in shown.stdout


def test_the_command_prints_finished_reports_and_refuses_other_files(run, tmp_path):
    finished = tmp_path / "finished"
    run(PROGRAMS / "driver_linked", env={"POOLCUDA_STATS_FILE": str(finished)})
    shown = subprocess.run([COMMAND, "report", finished, "/etc/passwd", tmp_path / "absent"],
                           capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert shown.stdout == finished.read_text()
    assert len(shown.stderr.splitlines()) == 2
    assert "/etc/passwd: not a poolcuda stats file" in shown.stderr


def test_the_readme_shows_the_option_table_as_it_is():
    table = subprocess.run([COMMAND, "options", "--markdown"], capture_output=True, text=True,
                           check=True).stdout
    readme = (ROOT / "README.md").read_text()
    assert f"<!-- options -->\n{table}<!-- /options -->" in readme
