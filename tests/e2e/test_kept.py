"""What belongs to the program's threads stays theirs in every call, whatever the library does in it: errno, the text that
dlerror() has for them, and that only the driver may be a place where they can be cancelled. kept.c makes the calls."""

import re
import subprocess

import pytest
from conftest import LIBRARY, PROGRAMS

OPTIONS = pytest.mark.parametrize("options", [
    {}, {"POOLCUDA_FREE": "sync"}, {"POOLCUDA_FREE": "defer"}, {"POOLCUDA_POLICY": "vmm"}, {"POOLCUDA_POLICY": "bfc"},
    {"POOLCUDA_MANAGED": "1", "POOLCUDA_ASYNC": "1"}, {"POOLCUDA_CHECK": "1"}, {"POOLCUDA_SITE_DEPTH": "4"},
    {"POOLCUDA_TRACE": "trace"}, {"POOLCUDA_TRACE": "/dev/full"}, {"POOLCUDA_LOG": "log"}, {"POOLCUDA_SHARE": "0"},
    {"POOLCUDA_DISABLE": "1"}, {"POOLCUDA_REUSE_RATIO": "nonsense"}], ids=str)
FORMS = pytest.mark.parametrize("form", ["", "-static"])


@FORMS
@OPTIONS
@pytest.mark.parametrize("what", ["errno", "dlerror"])
def test_no_call_changes_what_the_driver_alone_would_not(both, form, what, options, tmp_path):
    options = {name: str(tmp_path / value) if value in ("trace", "log") else value for name, value in options.items()}
    native, _ = both([PROGRAMS / f"kept{form}", what], env=options)
    assert native.out.endswith("done\n")


@FORMS
@OPTIONS
def test_a_thread_that_is_to_be_cancelled_is_so_by_no_call_of_ours_and_leaves_no_lock(both, form, options, tmp_path):
    options = {name: str(tmp_path / value) if value in ("trace", "log") else value for name, value in options.items()}
    native, _ = both([PROGRAMS / f"kept{form}", "cancelled"], env=options)
    assert re.fullmatch(r"thread ended after \d+ calls\ndone\n", native.out)


def test_it_imports_no_place_where_a_thread_may_be_cancelled_nor_the_programs_errno():
    """fflush is used at the program's end only."""
    said = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    imports = {line.split()[-1].partition("@")[0] for line in said.splitlines()}
    may_stay = {"__environ", "environ", "__register_atfork", "abort", "malloc", "calloc", "free", "clock_gettime",
                "dl_iterate_phdr", "dlvsym", "fflush", "memmove", "pthread_mutex_lock", "pthread_mutex_unlock", "qsort",
                "strncasecmp", "syscall", "vsnprintf"}  # syscall: no place of the kind
    assert imports <= may_stay
