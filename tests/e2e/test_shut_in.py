"""A program that shuts itself in by seccomp, with a filter that ends it at the first system call which it would not make
without the pool. shut_in.c."""

import json
import os
import subprocess

import guard
import pytest
from conftest import COMMAND, LIBRARY, PROGRAMS, SANITIZER
from steered import environment

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


def start(form, errors, **options):
    """The program that shuts itself in after it has used CUDA, with that standard error."""
    return guard.run([PROGRAMS / f"shut_in{form}", "after"], stdout=subprocess.PIPE, stderr=errors, text=True, check=False,
                     env=environment(LD_PRELOAD=" ".join(map(str, [*SANITIZER, LIBRARY])), **DRIVER, **options))


def sites_and_hits(text):
    sites = json.loads(text)["sites"]
    return len(sites), sum(site["hits"] for site in sites)


@FORMS
def test_a_program_that_shuts_itself_in_later_is_pooled_on_and_reported(form, tmp_path):
    with open(tmp_path / "errors", "wb") as errors:
        done = start(form, errors, POOLCUDA_STATS="json")
    assert (done.returncode, done.stdout[-5:]) == (0, "done\n")
    text = (tmp_path / "errors").read_text()
    sites, hits = sites_and_hits(text)
    assert sites > 5 and hits > 100
    report = json.loads(text)
    assert {report["modules"][frame["module"]]["path"] for site in report["sites"]
            for frame in site["frames"]} == {str(PROGRAMS / f"shut_in{form}")}


def test_to_a_pipe_it_is_reported_on_before_as_its_reader_may_leave():
    """Afterwards a signal cannot be held off, and nobody can be asked whether there is a reader."""
    done = start("", subprocess.PIPE, POOLCUDA_STATS="json")
    assert (done.returncode, done.stdout[-5:]) == (0, "done\n")
    sites, hits = sites_and_hits(done.stderr)
    assert 0 < sites and hits < 100


@pytest.mark.parametrize("options", [{"POOLCUDA_STATS": "1"}, {"POOLCUDA_STATS": "json"}, {"POOLCUDA_STATS_FILE": "/dev/stderr"},
                                     {"POOLCUDA_LOG": "stderr", "POOLCUDA_STATS": "1"}], ids=str)
def test_a_reader_that_leaves_is_no_signal(options):
    reader, writer = os.pipe()
    os.close(reader)
    done = start("", writer, **options)
    os.close(writer)
    assert (done.returncode, done.stdout[-5:]) == (0, "done\n")


def test_a_recording_ends_where_the_program_shuts_itself_in(run, tmp_path):
    trace = tmp_path / "trace"
    result = run([PROGRAMS / "shut_in", "after"], env={**DRIVER, "POOLCUDA_TRACE": str(trace)}, stats=False)
    assert result.code == 0
    done = subprocess.run([COMMAND, "convert", trace, tmp_path / "trace.csv"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3000" in (tmp_path / "trace.csv").read_text()
