"""POOLCUDA_CHECK: what is reported of programs with a fault, that nothing is of correct ones."""

import signal

import pytest
from check_programs import CASES, Program, without_addresses
from conftest import ON_BOTH_DRIVERS, PROGRAMS, ROOT, SAMPLES

CHECK = {"POOLCUDA_CHECK": "1"}
MODES = [("1", "sync"), ("1", "auto"), ("1", "defer"), ("sync", "sync"), ("sync", "auto"), ("sync", "defer")]
# Programs of other tests that free what they allocate, share none of it, and do nothing wrong.
OTHERS = [["driver_linked"], ["driver_opened"], ["driver_asked", "5"], ["named_sites"], ["named_sites-static"],
          ["forks"], ["captured_memory"], ["stale"],
          *(["visible", case] for case in ("pinned", "registered", "managed", "query", "event", "per_thread_form",
                                           "callback", "graph", "destroyed")),
          *(["lifetime", case] for case in ("floating", "green", "released")),
          ["stress", "8", "1", "any"], ["stress", "8", "1", "legacy"]]
SAMPLE_RUNS = [*([name, "5"] for name in ("three_sites", "varying", "stencil", "pipeline", "reduction", "threads",
                                         "threads-static")), ["nearly_all_memory"]]
# Frees that wait, and those that do not. (A check after every launch takes minutes where there are many blocks.)
TRACE_RUNS = [(path.name, "1", "sync") for path in sorted((ROOT / "tests/data").glob("*.gz"))]
TRACE_RUNS += [(name, "1", "defer") for name in ("moe-align.csv.gz", "segment-reduce.csv.gz")]


def errors_in(err):
    """What was reported; that something was not verified in the end, with 0 errors, is no error."""
    return [line for line in err.splitlines() if line.startswith("=========") and "were not verified" not in line
            and line != "========= ERROR SUMMARY: 0 errors"]


def runs_without_report(run, command, check, free):
    native = run(command, pooled=False)
    checked = run(command, env={"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free})
    assert not errors_in(checked.err)
    assert (checked.code, checked.out, checked.hazards) == (native.code, native.out, 0)


@pytest.mark.parametrize("program", CASES, ids=str)
def test_a_faulty_program_gets_exactly_its_report(run, program):
    correct = run(program.correct, pooled=False)
    checked = run(program.faulty, env=CHECK | program.settings, stats=False)
    assert program.reported(checked.err) == program.expected(checked.out)
    assert (checked.code, without_addresses(checked.out)) == (0, without_addresses(correct.out))


@pytest.mark.parametrize("program", [case for case in CASES if case.natively_the_same], ids=str)
def test_a_call_that_is_wrong_answers_as_it_does_natively(run, program):
    native = run(program.faulty, pooled=False)
    checked = run(program.faulty, env=CHECK | program.settings, stats=False)
    assert (native.code, native.err) == (0, "")
    assert (checked.code, without_addresses(checked.out)) == (0, without_addresses(native.out))


@pytest.mark.parametrize("program", CASES, ids=str)
def test_a_correct_program_gets_no_report(run, program):
    native = run(program.correct, pooled=False)
    for check, free in MODES:
        env = program.settings | {"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free}
        checked = run(program.correct, env=env, stats=False)
        assert not errors_in(checked.err), env
        assert checked.err == "" or free == "defer", env  # nothing has waited in the end
        assert (checked.code, checked.hazards) == (0, 0), env
        assert without_addresses(checked.out) == without_addresses(native.out), env


@ON_BOTH_DRIVERS
@pytest.mark.parametrize("check, free", MODES)
def test_blocks_that_green_contexts_share_get_no_report(run, check, free):
    program = Program("green_contexts")
    checked = run(program.correct, env={"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free})
    assert not errors_in(checked.err)
    assert (checked.code, without_addresses(checked.out), checked.hazards) == (0, "A\n", 0)


@pytest.mark.parametrize("check, free", MODES)
@pytest.mark.parametrize("command", SAMPLE_RUNS, ids=lambda words: words[0])
def test_no_sample_has_anything_to_report(run, command, check, free):
    runs_without_report(run, [SAMPLES / command[0], *command[1:]], check, free)


@pytest.mark.parametrize("trace, check, free", TRACE_RUNS, ids=str)
def test_no_trace_has_anything_to_report(run, trace, check, free):
    runs_without_report(run, [SAMPLES / "trace_player", ROOT / "tests/data" / trace], check, free)


@pytest.mark.parametrize("check, free", MODES)
@pytest.mark.parametrize("command", OTHERS, ids=" ".join)
def test_programs_of_other_tests_have_nothing_to_report(run, command, check, free):
    command = [PROGRAMS / command[0], *command[1:]]
    native = run(command, pooled=False)
    checked = run(command, env={"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free})
    assert not errors_in(checked.err)
    assert (checked.code, checked.hazards) == (native.code, 0)


@pytest.mark.parametrize("zero", ["0", "1"])
@pytest.mark.parametrize("check, free", MODES)
def test_a_write_beyond_memory_that_has_just_been_allocated_is_found(run, check, free, zero):
    env = {"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free, "POOLCUDA_ZERO": zero}
    checked = run(PROGRAMS / "overflows_cleared", env=env)
    assert checked.err.count("Invalid write of size 8 bytes") == 20, checked.err


@pytest.mark.parametrize("check, free", MODES)
@pytest.mark.parametrize("name", ["answers", "free_in_capture"])
def test_programs_that_free_wrongly_on_purpose_get_what_they_get_natively(run, name, check, free):
    def answers(result):  # zones and what is kept from reuse take memory, in whole pages
        return [line for line in result.out.splitlines() if not line.startswith("taken ")]

    native = run(PROGRAMS / name, pooled=False)
    checked = run(PROGRAMS / name, env={"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free})
    assert (checked.code, answers(checked), checked.hazards) == (native.code, answers(native), 0)
    assert "Invalid cuMemFree" in checked.err and "Invalid write" not in checked.err


@ON_BOTH_DRIVERS
@pytest.mark.parametrize("check, free", MODES)
@pytest.mark.parametrize("memory", ["pinned", "managed", "ended"])
def test_what_the_driver_gives_the_check_no_second_free_takes_away(run, memory, check, free):
    env = {"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free, "POOLCUDA_HOST": "0"}  # the driver's at once
    native = run([PROGRAMS / "stale_frees", memory], pooled=False)
    checked = run([PROGRAMS / "stale_frees", memory, "beyond"], env=env)
    assert (checked.code, checked.out) == (native.code, native.out) and native.code == 0
    assert checked.err.count("Invalid write of size 4 bytes") == 1, checked.err  # it goes on to check


@pytest.mark.parametrize("program", [case for case in CASES if case.natively_the_same], ids=str)
def test_without_the_option_nothing_is_reported_nor_launched(run, program):
    native = run(program.faulty, pooled=False)
    for settings in ({}, {"POOLCUDA_CHECK": "0"}):
        result = run(program.faulty, env=program.settings | settings, stats=False)
        assert (result.code, result.err) == (0, "")
        for call in ("cuLaunchKernel", "cuModuleLoadData", "cuMemHostAlloc", "cuStreamCreate"):
            assert result.figures.get(f"calls.{call}") == native.figures.get(f"calls.{call}"), call


@pytest.mark.parametrize("exit_code", [0, 1, 77, 255])
def test_a_program_with_errors_ends_with_the_code_that_is_asked_for(run, exit_code):
    env = CHECK | {"POOLCUDA_CHECK_EXIT": str(exit_code)}
    for name in ("two_errors", "live_at_reset", "double_free"):
        program = Program(name)
        faulty, correct = run(program.faulty, env=env, stats=False), run(program.correct, env=env, stats=False)
        assert program.reported(faulty.err) == program.expected(faulty.out)
        assert (faulty.code, correct.code) == (exit_code, 0)
        assert without_addresses(faulty.out) == without_addresses(correct.out)  # what is buffered is written


def test_a_program_may_end_at_its_first_error(run):
    program = Program("two_errors")
    result = run(program.faulty, env=CHECK | {"POOLCUDA_CHECK_ABORT": "1"}, stats=False)
    assert result.code == -signal.SIGABRT
    assert result.err.count("Invalid write") == 1 and "Invalid write of size 4 bytes" in result.err
    correct = run(program.correct, env=CHECK | {"POOLCUDA_CHECK_ABORT": "1"}, stats=False)
    assert (correct.code, correct.err) == (0, "")


def test_the_report_may_go_to_a_file(run, tmp_path):
    program = Program("overflow_by_4")
    env = CHECK | {"POOLCUDA_CHECK_LOG": str(tmp_path / "log.%p")}
    correct = run(program.correct, env=env, stats=False)
    assert (correct.err, list(tmp_path.glob("log.*"))) == ("", [])
    faulty = run(program.faulty, env=env, stats=False)
    [log] = tmp_path.glob("log.*")
    assert faulty.err == ""
    assert program.reported(log.read_text()) == program.expected(faulty.out)


@pytest.mark.parametrize("program", CASES, ids=str)
def test_a_check_after_every_launch_finds_each_error_once_too(run, program):
    checked = run(program.faulty, env=program.settings | {"POOLCUDA_CHECK": "sync"}, stats=False)
    errors = program.expected(checked.out).splitlines()[-1]
    if program.source.stem == "live_at_exit":  # which no later launch or wait follows
        errors = "========= ERROR SUMMARY: 1 error"
    assert checked.err.splitlines()[-1] == errors
    assert checked.code == 0


@pytest.mark.parametrize("check, free", MODES)
@pytest.mark.parametrize("end", ["reset", "destroy", "own"])
def test_a_context_may_end_beside_threads_that_allocate_and_free_in_it(run, end, check, free):
    native = run([PROGRAMS / "ended_beside_checks", end], pooled=False)
    checked = run([PROGRAMS / "ended_beside_checks", end], env={"POOLCUDA_CHECK": check, "POOLCUDA_FREE": free})
    assert (native.code, native.out) == (0, "served\n")
    assert (checked.code, checked.out) == (0, "served\n")
    assert "Invalid write" not in checked.err  # its frees may come after a reset, and be told of
