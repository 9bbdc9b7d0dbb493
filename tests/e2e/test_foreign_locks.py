"""What the process's other code holds while it waits for a thread that allocates and frees is nothing that the thread
has to wait for: neither the loader's lock nor what is held across fork. A fork waits for no thread that needs a lock
which another handler holds, and a child has all locks. Nor does the end of a process wait for what it has interrupted."""

import pytest
from conftest import PROGRAMS


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("who", ["main", "library"])
def test_a_handler_of_fork_may_wait_for_a_thread_that_allocates(both, who, mode):
    native, _ = both([PROGRAMS / "fork_handlers", who], env={"POOLCUDA_FREE": mode})
    assert native.out == "child 7\n" * 3 + "done\n"


@pytest.mark.parametrize("place", ["before", "after"])
def test_so_may_that_of_a_library_that_is_preloaded_too(run, place):
    library = PROGRAMS / "libfork_handlers_library.so"
    result = run([PROGRAMS / "fork_handlers"], **{place: [library]})
    assert (result.code, result.out) == (0, "child 7\n" * 3 + "done\n"), result.err


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("preset", ["default", "bfc", "vmm", "paddle"])
@pytest.mark.parametrize("forks, threads", [(700, 0), (300, 3)])
def test_an_allocator_may_hold_its_lock_across_fork(run, forks, threads, preset, place):
    library = PROGRAMS / "libfork_malloc.so"
    result = run([PROGRAMS / "forks_beside_threads", str(forks), str(threads)], env={"POOLCUDA_PRESET": preset}, **{place: [library]})
    assert (result.code, result.out) == (0, f"{forks} children\n"), result.err


@pytest.mark.parametrize("options", [{"POOLCUDA_CHECK": "1"}, {"POOLCUDA_TRACE": "/dev/null"}], ids=str)
def test_so_it_may_under_check_and_while_recording(run, options):
    result = run([PROGRAMS / "forks_beside_threads", "50", "2"], env=options, before=[PROGRAMS / "libfork_malloc.so"])
    assert (result.code, result.out) == (0, "50 children\n"), result.err


@pytest.mark.parametrize("preset, threads", [("default", 3), ("vmm", 4)])
def test_a_child_that_is_forked_beside_threads_loads_libraries(run, preset, threads):
    result = run([PROGRAMS / "forks_beside_threads", "600", str(threads)], env={"POOLCUDA_PRESET": preset})
    assert (result.code, result.out) == (0, "600 children\n"), result.err


def test_an_allocator_may_hold_its_lock_across_fork_while_a_thread_goes_through_the_modules(run):
    result = run([PROGRAMS / "forks_beside_threads", "300", "2", "walk"], before=[PROGRAMS / "libfork_malloc.so"])
    assert (result.code, result.out) == (0, "300 children\n"), result.err


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("preset", ["default", "bfc", "vmm", "paddle"])
def test_a_call_that_a_handler_forks_in_goes_on_in_the_child(both, preset, mode):
    native, _ = both([PROGRAMS / "forks_in_handler", "60"], env={"POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode})
    assert native.out == "60 children\n"


@pytest.mark.parametrize("options", [{"POOLCUDA_TRACE": "/dev/null"}, {"POOLCUDA_SITE_DEPTH": "4"}, {"POOLCUDA_LOG": "stderr"}], ids=str)
def test_so_it_does_while_recording_and_reporting(run, options, tmp_path):
    result = run([PROGRAMS / "forks_in_handler", "200"], env={"POOLCUDA_STATS_FILE": str(tmp_path / "%p"), **options})
    assert (result.code, result.out) == (0, "200 children\n"), result.err


def test_a_handler_that_forks_in_the_midst_of_a_walk_through_the_modules_leaves_the_child_the_loader(both):
    native, _ = both([PROGRAMS / "forks_in_handler", "60"], before=[PROGRAMS / "libsignalled_walk.so"])
    assert native.out == "60 children\n"


HOSTS = [("", "driver"), ("-driver", "driver"), ("-runtime", "driver"), ("-runtime", "runtime")]


@pytest.mark.parametrize("options", [
    {"POOLCUDA_FREE": "sync"}, {}, {"POOLCUDA_FREE": "defer"}, {"POOLCUDA_CHECK": "1"}, {"POOLCUDA_SITE_DEPTH": "4"},
    {"POOLCUDA_TRACE": "/dev/null"}, {"POOLCUDA_POLICY": "vmm"}], ids=str)
@pytest.mark.parametrize("host, plugin", HOSTS, ids=str)
def test_a_constructor_may_wait_for_a_thread_that_allocates(both, host, plugin, options):
    native, _ = both([PROGRAMS / f"constructor_thread_host{host}", PROGRAMS / f"libconstructor_thread_{plugin}.so"],
                     env=options)
    assert native.out == "constructed\ndone\n"


@pytest.mark.parametrize("option, value", [("STATS", "1"), ("STATS", "json"), ("TRACE", "{}/%p.trace")])
def test_a_handler_may_exit_in_the_midst_of_a_call(both, option, value, tmp_path):
    native, _ = both(PROGRAMS / "exits_in_handler", env={f"POOLCUDA_{option}": value.format(tmp_path)})
    assert native.out == "24 of 24 processes have ended\n"
