"""Where kernels reach plain host memory, frees owe their waits until an address of such memory is given to the device.

tests/programs/order/pageable.c gives one in each way that there is, and reads the memory right behind a free, with which the
work is natively done.
"""

import re

import pytest
from conftest import BUILD, PROGRAMS

PROGRAM = PROGRAMS / "order/pageable"
WAYS = ["parameter", "of_the_stack", "of_a_mapping", "of_a_later_mapping", "extra", "configured", "cooperative", "of_a_library",
        "of_another_module", "struct_copied", "struct_copied_asynchronously", "struct_copied_from_anywhere", "node_added",
        "node_changed", "graph_updated", "captured", "captured_source_changed", "argument_of_a_memset", "argument_of_a_copy", "argument_of_a_prefetch"]
NO_WAYS = ["device_memory", "pinned_before"]
HMM = {"SIMCUDA_PAGEABLE_ACCESS": "1"}
ATS = {**HMM, "SIMCUDA_HOST_PAGE_TABLES": "1"}
PLAIN_FREES = 10  # of a program that gives none


def waited(result):
    """How many frees waited because the GPU reaches host memory."""
    found = re.search(r"(\d+) frees? waited because the GPU reaches the host's plain memory", result.stats)
    return int(found.group(1)) if found else 0


def owed(result):
    found = re.search(r"(\d+) frees? put the wait off", result.stats)
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize("way", WAYS)
def test_an_address_is_seen_and_the_free_waits(both, way):
    native, pooled = both([PROGRAM, way], env=HMM)
    assert native.out == "the host reads 7\n"
    assert waited(pooled) == 1


PLANTED = BUILD / "tests/planted/libpoolcuda.so"


@pytest.mark.skipif(not PLANTED.exists(), reason="a build with a sanitizer has no planted faults")
@pytest.mark.parametrize("way", WAYS)
def test_the_fault_that_does_not_see_it_is_found(run, way):
    pooled = run([PROGRAM, way], env={**HMM, "POOLCUDA_PLANT": "host_address_unseen"}, library=PLANTED)
    assert waited(pooled) == 0


@pytest.mark.parametrize("way", NO_WAYS)
def test_who_gives_none_owes_the_waits(both, way):
    _, pooled = both([PROGRAM, way], env=HMM)
    assert waited(pooled) == 0
    assert owed(pooled) >= PLAIN_FREES


@pytest.mark.parametrize("environment", [{**HMM, "POOLCUDA_PAGEABLE": "wait"}, ATS], ids=["by_option", "by_page_tables"])
def test_each_free_waits_where_nobody_is_to_look(both, environment):
    _, pooled = both([PROGRAM, "device_memory"], env=environment)
    assert waited(pooled) >= PLAIN_FREES and owed(pooled) == 0


def test_nobody_looks_where_kernels_reach_no_plain_memory(both):
    _, pooled = both([PROGRAM, "argument_of_a_memset"])
    assert waited(pooled) == 0 and "calls.cuFuncGetParamInfo" not in pooled.figures


def test_the_driver_is_asked_once_about_a_function(both):
    _, pooled = both([PROGRAM, "of_a_later_mapping"], env=HMM)
    assert pooled.figures["calls.cuLaunchKernel"] > 500
    assert pooled.figures["calls.cuFuncGetParamInfo"] < 20
