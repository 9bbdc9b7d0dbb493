"""The ranks of a job share one GPU: what one holds idle is there for the others, within what each may take."""

import contextlib
import json
import subprocess

import guard
import pytest
from conftest import LIBRARY, PROGRAMS, SANITIZER
from steered import NEEDS_MOUNT, environment

RANKS, FIT = 8, 5
MIB = 1 << 20
WORKING_SET = 46 * MIB  # of a rank in its turn; 6 of them are always live
MEMORY = 256 * MIB
ALWAYS = 1 << 31  # another rank's help may come too late, on a busy machine; who shows life is asked again
# Nothing is given back but what the rank itself needs.
KEEPS_ALL = {"POOLCUDA_SHARE": "0", "POOLCUDA_THROTTLE_RATIO": "1", "POOLCUDA_IDLE_DECAY": "0"}
PRESETS = ["default", "vmm"]


class Job:
    """Its ranks on a GPU with MEMORY bytes, and what they have said."""

    def __init__(self, folder, **variables):
        self.prefix, self.folder, self.variables = (), folder, {"SIMCUDA_SHARED": str(folder / "gpu"), "SIMCUDA_MEMORY": str(MEMORY), **variables}

    def start(self, rank, ranks, name, tries, **variables):
        return subprocess.Popen([*self.prefix, PROGRAMS / "ranks", str(rank), str(ranks), str(self.folder / name), str(tries)], stdout=subprocess.PIPE,
                                text=True, env=environment(**self.variables, **variables))

    def alone(self):
        """What each rank prints natively, one after another."""
        said = []
        for rank in range(RANKS):
            with self.start(rank, 1, f"alone.{rank}", 1) as process:
                said.append(process.communicate()[0])
                assert process.returncode == 0
        return said

    def together(self, tries=ALWAYS, **variables):
        """What each rank prints, all at once; natively without variables."""
        with contextlib.ExitStack() as stack:
            started = []
            for rank in range(RANKS):
                started.append(stack.enter_context(self.start(rank, RANKS, "job", tries, PMIX_RANK=str(rank), **variables)))
                stack.callback(started[-1].kill)
            codes = [guard.wait_for_end(process, f"the end of rank {rank}") for rank, process in enumerate(started)]
            said = [process.stdout.read() for process in started]
        (self.folder / "job").unlink()
        assert all((code == 0) == (text != "out of memory\n") for code, text in zip(codes, said)), said
        return said

    def pooled(self, tries=ALWAYS, **variables):
        """The same under the pool; and all ranks' figures."""
        said = self.together(tries, LD_PRELOAD=" ".join(map(str, [*SANITIZER, LIBRARY])),
                             POOLCUDA_STATS_FILE=str(self.folder / "figures.%r"), **variables)
        figures = [self.folder / f"figures.{rank}" for rank in range(RANKS)]
        read = [json.loads(file.read_text()) for file in figures]
        for file in figures:
            file.unlink()
        return said, read


def total(figures, name):
    return sum(each["counters"][name] for each in figures)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.mark.parametrize("preset", PRESETS)
def test_eight_ranks_finish_on_a_gpu_that_has_room_for_the_idle_memory_of_five(job, preset):
    alone = job.alone()
    assert len(set(alone)) == RANKS and job.together(tries=1) == alone
    kept, figures = job.pooled(tries=3, POOLCUDA_PRESET=preset, **KEEPS_ALL)
    assert all(text in (right, "out of memory\n") for text, right in zip(kept, alone))
    fit = RANKS - kept.count("out of memory\n")
    assert 0 < fit <= FIT and not total(figures, "others_asked")
    given, figures = job.pooled(POOLCUDA_PRESET=preset)
    assert given == alone
    assert total(figures, "given_up_bytes") >= total(figures, "others_released_bytes") > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_a_rank_takes_no_more_than_an_mps_client_may_and_others_are_not_asked_for_what_it_holds_itself(tmp_path, preset):
    """The idle memory of one turn leaves too little of that for the next one's sizes."""
    most = WORKING_SET + 4 * MIB
    job = Job(tmp_path, SIMCUDA_MEMORY=str(1 << 30), SIMCUDA_CLIENT_MEMORY=str(most))
    said, figures = job.pooled(tries=1, POOLCUDA_PRESET=preset)
    assert said == job.alone()
    assert all(each["counters"]["peak_held_bytes"] <= most for each in figures)
    assert not total(figures, "others_asked")


def test_what_natively_is_more_than_an_mps_client_may_have_is_so_in_the_pool(tmp_path):
    job = Job(tmp_path, SIMCUDA_CLIENT_MEMORY=str(WORKING_SET - 4 * MIB))
    assert job.pooled(tries=1)[0] == job.together(tries=1) == ["out of memory\n"] * RANKS


@NEEDS_MOUNT
@pytest.mark.parametrize("left, kept", [("1G", True), ("30M", False)])
def test_ranks_keep_idle_memory_only_as_far_as_their_control_group_has_room_for_it(tmp_path, left, kept):
    """As far as the group's files say: nothing simulated counts in them."""
    room = {"1G": 1 << 30, "30M": 30 * MIB}[left]
    for name, value in (("max", 1 << 30), ("current", (1 << 30) - room)):
        (tmp_path / f"dmem.{name}").write_text(f"nvidia/0000:00:01.0/vidmem {value}\n")
    job = Job(tmp_path, SIMCUDA_MEMORY=str(1 << 30))
    job.prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind {tmp_path} /sys/fs/cgroup && exec "$@"', "sh"]
    said, figures = job.pooled(tries=1)
    assert said == job.alone()
    assert (total(figures, "headroom_released_blocks") == 0) == kept
