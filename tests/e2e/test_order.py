"""A free's wait covers what the native free's covers, nothing less and nothing more.

The programs of tests/programs/order come to an end natively, in each of their cases, and print what they have seen. Work
in them runs until a flag is set that is only set behind the calls in question: a wait for too much is a wait for ever,
which the simulated GPU knows as such (SIMCUDA_STUCK) and ends. A wait for too little shows in what is printed, or is a
hazard.
"""

import pytest
from conftest import BUILD, ON_BOTH_DRIVERS, PROGRAMS

pytestmark = ON_BOTH_DRIVERS
PLANTED = BUILD / "tests/planted/libpoolcuda.so"

TIMED = ["timed_in_legacy", "timed_in_non_blocking", "timed_beside_non_blocking"]
# What every case of a program prints, or each.
SEEN = {
    "flag_by_later_stream": "the kernel has ended\n",
    "later_work": "the kernel ran on behind 10 calls of 10\n",
    "two_devices": "both devices are done\n",
    "malloc_behind_later_work": "the allocations did not wait\n",
    "free_beside_idle_memory": "the frees did not wait\n",
    "crossings": "the free did not wait\n",
    "several_contexts": "the free is over\n",
    "capture_beside": {
        "free_within": "the capture ended with 0, nodes: 1\nthe graph wrote 7\n",
        "captured_in_the_other": "the capture ended with 0, nodes: 1\nthe graph wrote 7\n",
        "begun_beside_a_waiting_free": "the capture ended with 0, nodes: 1\nthe graph wrote 7\n",
        "begun_beside_a_busy_context": "the capture ended with 0, nodes: 1\nthe graph wrote 7\n",
        "begun_beside_a_later_kernel": "the capture ended with 0\n",
        **dict.fromkeys(["ended_in_a_global_one", "ended_in_a_global_one_of_a_blocking_stream",
                         "last_one_ended_in_a_global_one"],
                        "the capture ended with 0, nodes: 1\nthe graph wrote 7\n"),
        "beside_many_frees": "graphs that are whole: 100 of 100\n",
        "empty_ones_beside_frees": "the frees spoiled nothing\n",
    },
    "streams_of_one_thread": {
        **dict.fromkeys(["used_in_the_waiting_stream", "used_in_the_working_stream", "used_in_a_third_stream",
                         "blocking_streams", "legacy_waits", "legacy_works", "per_thread_stream_works"],
                        "beside the waiting stream: 7\n"),
        "made_later": "in a new stream: 7\n",
        "destroyed_stream": "behind a destroyed stream: 7\n",
    },
    "several_threads": {
        **dict.fromkeys(["in_one_context", "beside_a_busy_context", "chain_of_contexts"], "wrong: 0\n"),
        "work_of_another_thread": "own work: 7\n",
        "beside_a_waiting_free": "beside the free: 7\n",
        "streams_end_beside_a_waiting_free": "streams that ended: 10\n",
        "own_streams_beside_a_waiting_free": "the free is over\n",
        "in_place_of_a_thread_that_has_ended": "the second thread's: 7\n",
        "beside_a_thread_that_only_frees": "the free is over\n",
    },
    "programmatic": {
        **dict.fromkeys(["in_legacy", "in_non_blocking", "attribute_of_zero"], "the next owner reads 7\n"),
        "behind_later_work": "behind it: 600\n",
    },
    "events": {
        **dict.fromkeys(["before_in_legacy", "before_in_non_blocking"], "recorded before: 0\nits stream: 0\n"),
        **dict.fromkeys(["after_in_legacy", "after_in_non_blocking"], "recorded after: 600\nat the end: 0\n"),
        **dict.fromkeys(["synchronized_before_later_work", "synchronized_in_legacy"], "synchronized: 0\n"),
        "waited_for_on_the_device": "in the second stream: 7\n",
        "recorded_again": "the first: 600\nthe second: 0\n",
        **dict.fromkeys(TIMED, "between the events: the work before the free\n"),
    },
    "callbacks": {
        **dict.fromkeys(["before_in_legacy", "before_in_non_blocking", "callback_before", "before_in_destroyed",
                         "before_by_another_thread"], "called before: 7\n"),
        **dict.fromkeys(["behind_in_legacy", "behind_in_non_blocking"], "behind it: 600\nthe stream: 600\n"),
        **dict.fromkeys(["pinned_in_legacy", "pinned_in_non_blocking", "pinned_by_another_thread"],
                        "the host reads 7\n"),
        "pinned_of_another_context": "the host reads 0, then 7\n",
    },
}
CASES = {
    "flag_by_later_stream": ["by_memset", "by_kernel", "by_copy"],
    "later_work": ["query_only", "event_record", "event_query", "event_create", "stream_wait_event", "pageable_copy",
                   "pinned_copy", "device_copy", "asynchronous_memset", "module_get_function", "module_get_global",
                   "allocation", "memory_info", "address_range", "function_of_the_host", "per_thread_work"],
    "two_devices": ["by_kernel", "by_the_host", "launched_behind_the_free", "loop_of_temporaries", "reached_from_the_other"],
    "free_beside_idle_memory": ["of_two_contexts", "beside_later_work", "of_pitched_memory_beside_later_work"],
    "crossings": ["copy_that_is_done", "copy_in_the_same_stream", "copy_in_another_stream", "copies_of_two_threads",
                  "graph_that_is_done", "graph_in_the_same_stream", "streams_that_come_and_go", "context_that_is_gone"],
    "several_contexts": ["synchronizes_in_its_own", "copies_in_its_own", "frees_in_its_own", "contexts_of_one_device",
                         "thread_that_never_allocates", "thread_that_pushes_its_context"],
    "malloc_behind_later_work": ["non_blocking", "non_blocking_user", "blocking", "legacy", "full_device",
                                 "behind_a_capture", "beside_a_capture", "of_another_thread",
                                 "freed_by_another_thread", "freed_often_by_another_thread",
                                 "freed_by_another_thread_without_streams",
                                 "freed_often_by_another_thread_without_streams",
                                 "more_than_there_is", "more_than_is_left", "more_than_mappings_leave", "pitched"],
}

# A deferred free waits for nothing: what it is over with, natively, is not over.
ONLY_WHERE_FREES_WAIT = {
    *(("events", case) for case in TIMED),
    ("events", "before_in_legacy"), ("events", "before_in_non_blocking"), ("several_threads", "beside_a_waiting_free"),
    ("several_threads", "streams_end_beside_a_waiting_free"), ("several_threads", "own_streams_beside_a_waiting_free"),
    *(("callbacks", case) for case in SEEN["callbacks"] if case.startswith(("before", "callback", "pinned_")))
}
ENVIRONMENT = {"SIMCUDA_STUCK": "1", "SIMCUDA_DEVICES": "2", "SIMCUDA_MEMORY": "4G"}


def rows(mode):
    """A parameter for each case that a mode has."""
    for program, seen in SEEN.items():
        for case in CASES.get(program, seen):
            if mode == "defer" and (program, case) in ONLY_WHERE_FREES_WAIT:
                continue
            yield pytest.param(program, case, mode, id=f"{program}-{case}-{mode}")


def seen_by(program, case):
    return SEEN[program] if isinstance(SEEN[program], str) else SEEN[program][case]


@pytest.mark.parametrize("program, case, mode", [row for mode in ("sync", "auto", "defer") for row in rows(mode)])
def test_a_free_waits_for_what_came_before_it_and_for_nothing_else(run, program, case, mode):
    done = run([PROGRAMS / "order" / program, case], env={**ENVIRONMENT, "POOLCUDA_FREE": mode})
    assert (done.code, done.out) == (0, seen_by(program, case)), done.err
    assert done.hazards == 0, done.err


@pytest.mark.parametrize("program, case", [(program, case) for program, seen in SEEN.items()
                                           for case in CASES.get(program, seen)])
def test_natively_the_program_sees_that(run, program, case):
    done = run([PROGRAMS / "order" / program, case], pooled=False, env=ENVIRONMENT)
    assert (done.code, done.out) == (0, seen_by(program, case)), done.err
    assert done.hazards == 0, done.err


@pytest.mark.skipif(not PLANTED.exists(), reason="the library with pauses is not in a build with a sanitizer: run it in "
                    "one without")
@pytest.mark.parametrize("pause", ["slow_gate", "slow_between"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_no_thread_submits_work_while_another_is_about_to_record_the_fence_of_an_earlier_free(run, mode, pause):
    done = run([PROGRAMS / "order/malloc_behind_later_work", "of_another_thread"], library=PLANTED,
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_PLANT": pause})
    assert (done.code, done.out) == (0, "the allocations did not wait\n"), done.err
    assert done.hazards == 0, done.err


# On a clock that stands still: whoever lets time go by never comes to an end. Without cuCtxRecordEvent a free has to wait
# for its whole context beside several blocking streams, and a capture for half a second beside that (docs/semantics.md).
@pytest.mark.parametrize("case", ["begun_beside_a_waiting_free", "free_within", "ended_in_a_global_one",
                                  "ended_in_a_global_one_of_a_blocking_stream", "last_one_ended_in_a_global_one"])
@pytest.mark.parametrize("mode", ["sync", "auto"])
def test_the_beginning_of_a_capture_lets_no_time_go_by(run, simulated_driver, case, mode):
    waits = simulated_driver and case == "ended_in_a_global_one_of_a_blocking_stream"
    done = run([PROGRAMS / "order/capture_beside", case], env={**ENVIRONMENT, "POOLCUDA_FREE": mode},
               before=[] if waits else [PROGRAMS / "libstanding_clock.so"], stats=False)
    assert (done.code, done.out) == (0, seen_by("capture_beside", case)), done.err


@pytest.mark.parametrize("mode", ["sync", "auto"])
def test_the_end_of_a_stream_lets_no_time_go_by(run, mode):
    case = "streams_end_beside_a_waiting_free"
    done = run([PROGRAMS / "order/several_threads", case], env={**ENVIRONMENT, "POOLCUDA_FREE": mode},
               before=[PROGRAMS / "libstanding_clock.so"], stats=False)
    assert (done.code, done.out) == (0, seen_by("several_threads", case)), done.err


@pytest.mark.parametrize("case", ["event_record", "pageable_copy", "module_get_function", "stream_query"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_the_host_works_beside_a_kernel_that_came_behind_a_free(run, case, mode):
    """In virtual time: natively a second, in which the device and the host are busy at the same time."""
    environment = {**ENVIRONMENT, "SIMCUDA_COST": "3", "POOLCUDA_FREE": mode}
    native, pooled = (run([PROGRAMS / "order/time_beside", case], pooled=pooled, env=environment)
                      for pooled in (False, True))
    assert native.code == pooled.code == 0, pooled.out + pooled.err
    milliseconds = [int(done.out.removesuffix(" ms\n")) for done in (native, pooled)]
    assert 1000 <= milliseconds[0] < 1010
    assert milliseconds[1] <= 1.05 * milliseconds[0]


@pytest.mark.parametrize("preset", ["bfc", "paddle", "vmm", "pytorch-expandable"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ["non_blocking", "blocking", "legacy", "more_than_there_is", "more_than_is_left",
                                  "freed_by_another_thread", "freed_often_by_another_thread",
                                  "freed_by_another_thread_without_streams",
                                  "freed_often_by_another_thread_without_streams",
                                 "freed_by_another_thread_without_streams",
                                 "freed_often_by_another_thread_without_streams",
                                  "more_than_mappings_leave", "pitched"])
def test_an_allocation_waits_for_no_later_work_under_any_preset(run, case, mode, preset):
    done = run([PROGRAMS / "order/malloc_behind_later_work", case],
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset})
    assert (done.code, done.out) == (0, seen_by("malloc_behind_later_work", case)), done.err
    assert done.hazards == 0, done.err


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ["freed_by_another_thread", "freed_often_by_another_thread",
                                  "freed_by_another_thread_without_streams",
                                  "freed_often_by_another_thread_without_streams"])
def test_on_a_crowded_device_an_allocation_from_the_drivers_pool_waits_for_no_other_threads_free(run, mode, case):
    done = run([PROGRAMS / "order/malloc_behind_later_work", case],
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_PRESET": "paddle", "POOLCUDA_THROTTLE_RATIO": "0.00001"})
    assert (done.code, done.out) == (0, "the allocations did not wait\n"), done.err
    assert done.hazards == 0, done.err


@pytest.mark.skipif(not PLANTED.exists(), reason="the library with pauses is not in a build with a sanitizer")
@pytest.mark.parametrize("policy", ["site", "tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_what_is_freed_as_a_capture_begins_is_not_given_back_before_the_work_that_uses_it(run, mode, policy):
    done = run([PROGRAMS / "order/capture_beside", "empty_ones_beside_frees"], library=PLANTED,
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_POLICY": policy, "POOLCUDA_PLANT": "slow_between"})
    assert (done.code, done.out) == (0, seen_by("capture_beside", "empty_ones_beside_frees")), done.err
    assert done.hazards == 0, done.err


@pytest.mark.parametrize("policy", ["site", "tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ["beside_later_work", "of_pitched_memory_beside_later_work"])
def test_a_free_that_keeps_the_bounds_waits_for_no_later_work(run, case, mode, policy):
    done = run([PROGRAMS / "order/free_beside_idle_memory", case],
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_POLICY": policy, "POOLCUDA_MAX_IDLE": "100M"})
    assert (done.code, done.out) == (0, "the frees did not wait\n"), done.err
    assert done.hazards == 0, done.err


@pytest.mark.skipif(not PLANTED.exists(), reason="a build with a sanitizer has no planted faults")
@pytest.mark.parametrize("fault, mode, policy, program, case", [
    ("freed_while_busy", "auto", "site", "free_beside_idle_memory", "beside_later_work"),
    ("freed_while_busy", "auto", "bfc", "free_beside_idle_memory", "beside_later_work"),
    ("peers_are_everywhere", "auto", "site", "two_devices", "reached_from_the_other"),
    ("asked_for_too_much", "auto", "async", "malloc_behind_later_work", "more_than_is_left"),
    ("fence_of_another_thread", "defer", "site", "malloc_behind_later_work", "freed_by_another_thread"),
])
def test_a_planted_wait_that_no_native_call_makes_is_found(run, fault, mode, policy, program, case):
    """So that the tests above can fail."""
    done = run([PROGRAMS / "order" / program, case], library=PLANTED,
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_POLICY": policy, "POOLCUDA_MAX_IDLE": "100M",
                    "POOLCUDA_PLANT": fault})
    assert "simcuda: stuck: every thread waits" in done.err


@pytest.mark.skipif(not PLANTED.exists(), reason="a build with a sanitizer has no planted faults")
@pytest.mark.parametrize("case", TIMED)
def test_an_event_that_does_not_come_behind_the_free_is_found(run, case):
    """So that the test above can fail."""
    done = run([PROGRAMS / "order/events", case], library=PLANTED, env={**ENVIRONMENT, "POOLCUDA_PLANT": "event_before_free"})
    assert (done.code, done.out) == (0, "between the events: less\n")


@pytest.mark.parametrize("preset", ["default", "bfc", "paddle", "vmm", "pytorch-expandable"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_memory_freed_in_another_context_is_not_touched_by_earlier_work(run, mode, preset):
    done = run([PROGRAMS / "order/freed_in_another_context", "reused"],
               env={**ENVIRONMENT, "POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset})
    assert (done.code, done.out) == (0, "1 2 3 4 5 6 7 8 \n"), done.err
    assert done.hazards == 0, done.err


@pytest.mark.parametrize("preset", ["default", "bfc", "paddle", "vmm", "pytorch-expandable"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ["written_in_a_non_blocking_stream", "behind_the_work_before_the_free",
                                  "beside_a_kernel_of_one_thread", "beside_a_kernel_of_several_threads",
                                  "beside_a_kernel_in_a_blocking_stream", "beside_a_kernel_in_the_legacy_stream",
                                  "beside_a_kernel_in_the_threads_own_stream"])
def test_reused_memory_is_cleared_before_its_use_and_behind_no_later_work(run, case, mode, preset):
    done = run([PROGRAMS / "order/cleared_memory", case],
               env={**ENVIRONMENT, "POOLCUDA_ZERO": "1", "POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset})
    assert (done.code, done.out) == (0, "7, then 0\n"), done.err
    assert done.hazards == 0, done.err


@pytest.mark.skipif(not PLANTED.exists(), reason="a build with a sanitizer has no planted faults")
def test_a_planted_clearing_before_the_work_that_precedes_the_free_is_found(run):
    done = run([PROGRAMS / "order/cleared_memory", "behind_the_work_before_the_free"], library=PLANTED,
               env={**ENVIRONMENT, "POOLCUDA_ZERO": "1", "POOLCUDA_FREE": "auto", "POOLCUDA_PLANT": "clear_before_free"})
    assert (done.code, done.out) == (0, "7, then 3\n"), done.err
