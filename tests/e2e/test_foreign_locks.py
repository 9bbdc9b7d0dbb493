"""What the process's other code holds while it waits for a thread that allocates and frees is nothing that the thread
has to wait for: neither the loader's lock nor what is held across fork."""

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


HOSTS = [("", "driver"), ("-driver", "driver"), ("-runtime", "driver"), ("-runtime", "runtime")]


@pytest.mark.parametrize("options", [
    {"POOLCUDA_FREE": "sync"}, {}, {"POOLCUDA_FREE": "defer"}, {"POOLCUDA_CHECK": "1"}, {"POOLCUDA_SITE_DEPTH": "4"},
    {"POOLCUDA_TRACE": "/dev/null"}, {"POOLCUDA_POLICY": "vmm"}], ids=str)
@pytest.mark.parametrize("host, plugin", HOSTS, ids=str)
def test_a_constructor_may_wait_for_a_thread_that_allocates(both, host, plugin, options):
    native, _ = both([PROGRAMS / f"constructor_thread_host{host}", PROGRAMS / f"libconstructor_thread_{plugin}.so"],
                     env=options)
    assert native.out == "constructed\ndone\n"
