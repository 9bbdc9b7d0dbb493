"""What a program sees under the pool is what it sees without it."""

import pytest
from conftest import ON_BOTH_DRIVERS, PROGRAMS


def test_lookups_keep_their_meaning(both):
    native, pooled = both(PROGRAMS / "lookups")
    assert native.code == 0
    assert "RTLD_NEXT reaches the second library: 2" in pooled.out


@ON_BOTH_DRIVERS
@pytest.mark.parametrize("form", ["", "-static"])
def test_errors_information_captures_and_ended_contexts_are_answered_as_natively(both, form):
    native, _ = both(PROGRAMS / f"answers{form}", env={"SIMCUDA_MEMORY": "4G"})
    assert native.code == 0


@ON_BOTH_DRIVERS
@pytest.mark.parametrize("preset", ["default", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"])
@pytest.mark.parametrize("free", ["sync", "auto", "defer"])
@pytest.mark.parametrize("mode", ["global", "relaxed"])
def test_free_async_while_another_stream_is_captured(both, preset, free, mode):
    both([PROGRAMS / "free_in_capture", mode],
         env={"POOLCUDA_PRESET": preset, "POOLCUDA_FREE": free})


def test_without_a_driver_its_functions_say_not_initialized_and_load_nothing(run):
    result = run(PROGRAMS / "without_driver")
    assert result.out == "driver 3 runtime 3 loaded 0\n"
    assert result.stats == ""


LOOKS_UP_A_NAME_IN_CU = """
import ctypes
libc = ctypes.CDLL("libc.so.6")
print(ctypes.cast(libc.cuserid, ctypes.c_void_p).value is not None)
"""


@pytest.mark.parametrize("disabled", [{}, {"POOLCUDA_DISABLE": "1"}], ids=["enabled", "disabled"])
def test_looking_up_a_name_in_cu_does_not_wake_the_library_without_a_driver(run, tmp_path, disabled):
    trace = tmp_path / "trace"
    result = run(["/usr/bin/python3", "-c", LOOKS_UP_A_NAME_IN_CU], stats=False,
                 env={"POOLCUDA_REUSE_RATO": "3", "POOLCUDA_TRACE": str(trace), **disabled})
    assert result.code == 0 and result.out == "True\n"
    assert result.err == ""
    assert not trace.exists()


def test_two_devices_keep_their_memory_apart(both):
    _, pooled = both(PROGRAMS / "devices", env={"SIMCUDA_DEVICES": "2"})
    assert pooled.out == "device 1\n"
    assert pooled.driver_allocations <= 4


def test_a_child_forked_after_cuda_was_used_leaves_the_parent_alone(both):
    native, pooled = both(PROGRAMS / "forks")
    assert native.code == 0 and "child 7" in pooled.out
    assert "allocations: 201, of which 199" in pooled.stats
    assert pooled.err == native.err


def test_children_of_a_process_that_used_cuda_get_the_native_errors_however_often_they_fork(both):
    native, pooled = both([PROGRAMS / "forks", "again"])
    assert "child's child: " in native.out and "child 7" in native.out
    assert pooled.err == native.err


def test_a_child_that_does_not_use_cuda_reports_nothing(run):
    result = run(PROGRAMS / "forks", stats=False, env={"POOLCUDA_STATS": "1"})
    assert result.err.count("held from the driver") == 1


def test_a_child_forked_before_cuda_was_used_is_pooled(both, tmp_path):
    _, pooled = both([PROGRAMS / "forks", "before"],
                     env={"POOLCUDA_STATS_FILE": str(tmp_path / "each.%p")})
    reports = [path.read_text() for path in tmp_path.glob("each.*")]
    assert len(reports) == 2
    assert all("allocations: 100, of which 99" in text for text in reports)


PLUGINS = [str(PROGRAMS / f"libplugin_{n}.so") for n in (2, 3)]


@pytest.mark.parametrize("arguments", [
    PLUGINS, PLUGINS[::-1], ["global:" + PLUGINS[0], PLUGINS[1]],
    [p + "-" for p in PLUGINS], [p + "-" for p in PLUGINS * 3]],
    ids=["local", "reversed", "global", "closed", "closed-and-reopened"])
def test_each_call_goes_to_its_callers_own_runtime(both, arguments):
    native, pooled = both([PROGRAMS / "two_runtimes", *arguments], libraries=[PROGRAMS])
    assert native.code == 0
    assert "program 1\n" in pooled.out


def test_a_runtime_that_calls_its_own_exported_function_reaches_it(both):
    native, _ = both(PROGRAMS / "whole_runtime_user", libraries=[PROGRAMS])
    assert native.out == "error 0 pitch 512 bytes 1536\n"


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_runtime_that_comes_after_the_pool_in_the_preload_reaches_itself(run, disabled):
    result = run(PROGRAMS / "whole_runtime_user", after=[PROGRAMS / "libwhole_runtime.so"],
                 libraries=[PROGRAMS], env={"POOLCUDA_DISABLE": disabled})
    assert result.out == "error 0 pitch 512 bytes 1536\n"


def test_a_bad_option_is_reported_in_one_line_and_the_program_goes_on(both, run):
    result = run(PROGRAMS / "driver_linked", env={"POOLCUDA_REUSE_RATIO": "x",
                                                  "POOLCUDA_REUSE_RATO": "3"})
    assert result.code == 0 and result.out == "done\n"
    assert sorted(result.err.splitlines()) == [
        'poolcuda: POOLCUDA_REUSE_RATIO="x": expected a number from 1 to 16, using 2.0',
        "poolcuda: POOLCUDA_REUSE_RATO: unknown option, did you mean POOLCUDA_REUSE_RATIO? Ignored"]


def test_nothing_is_said_without_being_asked(both):
    native, pooled = both(PROGRAMS / "driver_linked", stats=False)
    assert pooled.err == native.err


def test_constructors_that_use_cuda_do_not_lock_up_with_other_threads(both):
    native, _ = both([PROGRAMS / "constructor_host", PROGRAMS / "libconstructor_plugin.so"])
    assert native.out == "done\n"
