"""A driver with functions that the table of driver functions does not have: whatever they do is as without the pool."""

import json
import re

import pytest
from conftest import COMMAND, DRIVER, PROGRAMS, ROOT, RUNTIME
from driver_table import rows

NEWER_DRIVER = DRIVER.parent / "newer_driver"
ROUTES = ["dlsym", "cuGetProcAddress"]


def calls(both, route, what, mode="auto"):
    return both([PROGRAMS / "newer_functions", route, what], libraries=(NEWER_DRIVER, RUNTIME),
                env={"SIMCUDA_DRIVER_VERSION": "99990", "POOLCUDA_FREE": mode, "POOLCUDA_MANAGED": "1"})


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("what", ["stream", "set", "unknown", "destroy", "prefetch"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_newer_form_is_not_taken_for_the_one_that_it_extends(both, route, what, mode):
    native, _ = calls(both, route, what, mode)
    assert native.code == 0
    assert re.findall(r": (\d+)$", native.out, re.M) == ["0"] * len(native.out.splitlines())


@pytest.mark.parametrize("how", ["v3", "quiet", "both", "again"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_free_of_another_thread_does_not_lose_a_capture_however_it_began(both, route, how):
    native, _ = calls(both, route, how)
    assert "status 1\n" in native.out and f"a graph: 1, the same: {int(how == 'again')}\n" in native.out


@pytest.mark.parametrize("how", ["v3", "quiet", "both", "again"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_capture_that_ends_by_a_newer_form_has_ended(both, route, how):
    _, pooled = calls(both, route, how)
    assert pooled.driver_allocations < 10


def test_calls_of_unknown_functions_are_counted(both):
    _, pooled = calls(both, "dlsym", "unknown")
    assert "calls of driver functions newer than this version: 3\n" in pooled.stats


def test_calls_of_known_functions_are_not(both):
    _, pooled = calls(both, "dlsym", "again")
    assert "calls of driver functions newer than this version: 2\n" in pooled.stats  # the end and the question


def findings(run, driver):
    told = json.loads(run([COMMAND, "doctor", "--json"], pooled=False, libraries=(driver, RUNTIME)).out)["findings"]
    return [finding["what"] for finding in told if finding["id"] == "driver-newer"]


def test_the_doctor_counts_the_functions_that_a_newer_driver_has(run):
    source = (ROOT / "subprojects/simcuda/newer_driver/newer.c").read_text()
    unknown = set(re.findall(r"^NEW\((cu\w+)", source, re.M)) - {row.symbol for row in rows()}
    [what] = findings(run, NEWER_DRIVER)
    assert f"table of driver functions (CUDA 13.5): {len(unknown)} functions unknown, handled with care" in what


def test_the_doctor_is_silent_about_a_driver_that_is_not_newer(run):
    assert findings(run, DRIVER) == []


@pytest.mark.parametrize("how", ["forgotten", "context", "reset"])
def test_the_pool_is_back_after_a_capture_whose_end_nobody_told(both, how):
    _, pooled = calls(both, "dlsym", how)
    assert pooled.driver_allocations < 50
