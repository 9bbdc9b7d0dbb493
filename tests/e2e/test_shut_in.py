"""A program that shuts itself in by seccomp, with a filter that ends it at the first system call which it would not make
without the pool. shut_in.c."""

import json
import os
import subprocess

import pytest
from conftest import COMMAND, PROGRAMS

FORMS = pytest.mark.parametrize("form", ["", "-static"])
# The simulated driver's own report would be a file, and so would the diagnoses of its watchman.
DRIVER = {"SIMCUDA_REPORT": "", "SIMCUDA_STUCK": "0"}


@FORMS
@pytest.mark.parametrize("options", [
    {}, {"POOLCUDA_FREE": "sync"}, {"POOLCUDA_FREE": "defer"}, {"POOLCUDA_POLICY": "vmm"}, {"POOLCUDA_POLICY": "bfc"},
    {"POOLCUDA_SITE_DEPTH": "4"}, {"POOLCUDA_SHARE": "0"}, {"POOLCUDA_MANAGED": "1", "POOLCUDA_ASYNC": "1"},
    {"POOLCUDA_STATS_FILE": "stats"}, {"POOLCUDA_TRACE": "trace"}, {"POOLCUDA_LOG": "log"}, {"POOLCUDA_DISABLE": "1"}],
    ids=str)
@pytest.mark.parametrize("when", ["after", "before"])
def test_a_filter_meets_no_call_that_the_driver_would_not_make(both, form, when, options, tmp_path):
    options = {name: str(tmp_path / value) if value in ("stats", "trace", "log") else value
               for name, value in options.items()}
    native, pooled = both([PROGRAMS / f"shut_in{form}", when], env={**DRIVER, **options}, stats=False)
    assert native.out.endswith("done\n")
    assert pooled.err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="a filter can be set in this way by root alone")
@FORMS
@pytest.mark.parametrize("options", [{}, {"POOLCUDA_FREE": "sync"}, {"POOLCUDA_SHARE": "0"}, {"POOLCUDA_POLICY": "vmm"}], ids=str)
def test_a_filter_that_refuses_calls_changes_nothing_and_is_not_complained_of(both, form, options):
    native, pooled = both([PROGRAMS / f"shut_in{form}", "refused"], env={**DRIVER, **options}, stats=False)
    assert native.out.endswith("done\n")
    assert pooled.err == ""


@FORMS
def test_a_program_that_shuts_itself_in_later_is_pooled_on_and_reported(run, form):
    result = run([PROGRAMS / f"shut_in{form}", "after"], env={**DRIVER, "POOLCUDA_STATS": "json"}, stats=False)
    assert (result.code, result.out[-5:]) == (0, "done\n")
    sites = json.loads(result.err)["sites"]
    assert sum(site["hits"] for site in sites) > 100 and len(sites) > 5


def test_a_recording_ends_where_the_program_shuts_itself_in(run, tmp_path):
    trace = tmp_path / "trace"
    result = run([PROGRAMS / "shut_in", "after"], env={**DRIVER, "POOLCUDA_TRACE": str(trace)}, stats=False)
    assert result.code == 0
    done = subprocess.run([COMMAND, "convert", trace, tmp_path / "trace.csv"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3000" in (tmp_path / "trace.csv").read_text()
