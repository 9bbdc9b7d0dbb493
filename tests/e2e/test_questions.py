"""What a program asks about memory is answered by the driver, which alone knows whether it answers just now."""

import pytest
from conftest import BUILD, PROGRAMS

SETTINGS = {
    "default": {}, "sync": {"POOLCUDA_FREE": "sync"}, "defer": {"POOLCUDA_FREE": "defer"},
    "pyopencl": {"POOLCUDA_PRESET": "pyopencl"}, "bfc": {"POOLCUDA_PRESET": "bfc"},
    "pytorch": {"POOLCUDA_PRESET": "pytorch"},
    "paddle": {"POOLCUDA_PRESET": "paddle"}, "vmm": {"POOLCUDA_PRESET": "vmm"},
    "pytorch-expandable": {"POOLCUDA_PRESET": "pytorch-expandable"},
    "managed": {"POOLCUDA_MANAGED": "1"}, "check": {"POOLCUDA_CHECK": "1"},
    "check-bfc": {"POOLCUDA_CHECK": "1", "POOLCUDA_PRESET": "bfc"}}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("moment", ["any", "callback", "host_function", "unseen_fault", "seen_fault", "no_context"])
def test_questions_about_memory_are_answered_as_natively_at(both, moment, settings):
    native, _ = both([PROGRAMS / "questions", moment], env=SETTINGS[settings])
    assert native.code == 0, native.out


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("moment", ["any", "callback"])
def test_the_driver_is_asked_once_for_each_question(both, moment, settings):
    """As often as natively; our own calls are those that a pool makes anyway, which ask nothing about pointers."""
    native, pooled = both([PROGRAMS / "questions", moment], env=SETTINGS[settings])
    asked = [name for name in native.figures if name.startswith("calls.cu") and any(
        word in name for word in ("cuPointer", "AddressRange", "cuIpcGetMemHandle", "HostGetFlags", "MemRangeGet"))]
    assert len(asked) >= 6
    assert {name: pooled.figures[name] for name in asked} == {name: native.figures[name] for name in asked}


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("check", ["0", "1", "sync"])
@pytest.mark.parametrize("policy", ["site", "tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
def test_what_a_callback_may_not_free_is_freed_later_as_by_the_runtime_of_openacc(both, policy, check, mode):
    settings = {"POOLCUDA_POLICY": policy, "POOLCUDA_FREE": mode, "POOLCUDA_CHECK": check, "POOLCUDA_CHECK_EXIT": "99"}
    native, pooled = both([PROGRAMS / "put_off"], env=settings)
    assert native.out == "put off 200, released 200\n"
    asked = "calls.cuMemGetAddressRange_v2"
    assert pooled.figures[asked] == native.figures[asked] == 425


def test_such_a_program_ends_where_a_callback_is_answered_from_the_books(run):
    """A planted fault: so the test above can fail."""
    result = run([PROGRAMS / "put_off"], library=BUILD / "tests/planted/libpoolcuda.so",
                 env={"POOLCUDA_PLANT": "answered_from_books"})
    assert (result.code, "not so: (cuMemFree_v2(pointer)) == CUDA_SUCCESS" in result.out) == (1, True)


def test_a_free_that_the_driver_refuses_is_one_call_of_it(both):
    """Two of the program's frees are of blocks that the pool keeps; all others are the driver's, once each."""
    native, pooled = both([PROGRAMS / "questions", "any"])
    assert "free of a freed block: 1\nfree of nothing: 1\n" in native.out
    assert pooled.figures["calls.cuMemFree_v2"] == native.figures["calls.cuMemFree_v2"] - 2
