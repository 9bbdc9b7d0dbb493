"""Who stands behind the pool in the order of symbols is called, as he would be without it."""

import pathlib
import re
import shutil

import pytest
from conftest import COMMAND, LIBRARY, PROGRAMS, SANITIZER
from steered import NEEDS_MOUNT

pytestmark = pytest.mark.skipif(bool(SANITIZER), reason="a sanitizer's library would have to come first")

PATHS = {
    "linked": ["driver_linked"], "opened": ["driver_opened"], "asked": ["driver_asked", "5"],
    "asked with four arguments": ["driver_asked", "4"], "runtime": ["named_sites"],
    "static runtime": ["named_sites-static"],
}
FORMS = ["", "_without_dlsym", "_by_name", "_hidden", "_wide"]


@pytest.fixture(name="with_quota")
def quota_fixture(run, tmp_path):
    """with_quota(path, form, **arguments of run): the Result, and what the quota has seen."""
    def runner(path, form, place="after", limit=None, **arguments):
        report = tmp_path / "quota"
        report.unlink(missing_ok=True)
        env = {**arguments.pop("env", {}), "QUOTA_REPORT": str(report)}
        if limit is not None:
            env["QUOTA_BYTES"] = str(limit)
        program = [PROGRAMS / path[0], *path[1:]]
        result = run(program, **{place: [PROGRAMS / f"libquota{form}.so"]}, env=env, **arguments)
        seen = dict(line.split() for line in pathlib.Path(report).read_text().splitlines())
        return result, {name: int(value) for name, value in seen.items()}

    return runner


def calls(result):
    return {"allocations": result.figures.get("calls.cuMemAlloc_v2", 0), "frees": result.figures.get("calls.cuMemFree_v2", 0)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_quota_behind_the_pool_sees_each_call_that_the_pool_makes(with_quota, path, form):
    alone, natively = with_quota(path, form, pooled=False)
    pooled, seen = with_quota(path, form)
    assert alone.code == pooled.code == 0, pooled.err
    assert pooled.out == alone.out
    assert calls(alone)["allocations"] >= 300 and 0 < calls(pooled)["allocations"] <= 12
    if natively["allocations"] or "dlsym" not in form and form != "_by_name":
        assert seen == {**calls(pooled), "refused": 0}
    else:  # who hooks symbols alone is not reached by a program that looks the driver up
        assert seen == natively


def test_the_report_names_through_whom_the_pool_calls_the_driver(with_quota):
    pooled, _ = with_quota(PATHS["linked"], "")
    assert "libquota.so (the pool calls the driver through it)" in pooled.stats


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_quota_before_the_pool_sees_no_fewer_calls_than_the_driver_of_what_it_would_see_alone(with_quota, path, form):
    alone, natively = with_quota(path, form, place="before", pooled=False)
    pooled, seen = with_quota(path, form, place="before")
    assert alone.code == pooled.code == 0, pooled.err
    assert pooled.out == alone.out
    assert seen["allocations"] >= min(calls(pooled)["allocations"], natively["allocations"])


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_quota_sees_what_it_would_see_alone_while_the_pool_is_disabled(with_quota, path, form, place):
    alone, seen_alone = with_quota(path, form, place, pooled=False)
    disabled, seen = with_quota(path, form, place, env={"POOLCUDA_DISABLE": "1"})
    assert (disabled.code, disabled.out) == (alone.code, alone.out), disabled.err
    assert (seen, calls(disabled)) == (seen_alone, calls(alone))


# A file /etc/ld.so.preload of its own, for the program alone.
WITH_PRELOAD_FILE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /mnt
cp -L /etc/ld.so.cache /etc/passwd /etc/group /mnt
mount --bind /mnt /etc
lines=$1
shift
echo "$lines" > /etc/ld.so.preload
exec "$@"
"""


@NEEDS_MOUNT
@pytest.mark.parametrize("disabled", [False, True], ids=["enabled", "disabled"])
@pytest.mark.parametrize("in_file", ["both", "the quota"])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_quota_behind_the_pool_in_the_file_of_preloads_sees_each_call_that_the_pool_makes(run, tmp_path, path, in_file,
                                                                                            disabled):
    quota, report = PROGRAMS / "libquota.so", tmp_path / "quota"
    lines = f"{LIBRARY} {quota}" if in_file == "both" else str(quota)
    command = ["unshare", "--mount", "sh", "-c", WITH_PRELOAD_FILE, "sh", lines, PROGRAMS / path[0], *path[1:]]
    done = run(command, pooled=in_file != "both", stats=False,
               env={"QUOTA_REPORT": str(report), "POOLCUDA_DISABLE": str(int(disabled))})
    seen = dict(line.split() for line in report.read_text().splitlines())
    assert done.code == 0, done.err
    assert seen == {**{name: str(count) for name, count in calls(done).items()}, "refused": "0"}
    assert disabled or 0 < int(seen["allocations"]) <= 12


KEEPS_WITHIN_A_QUOTA = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for size in (6, 8, 5, 9, 11):
    result = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size << 20))
    print(size, result)
    if result == 0:
        assert cuda.cuMemFree_v2(pointer) == 0
"""


@pytest.mark.parametrize("preset", ["default", "bfc"])
@pytest.mark.parametrize("form", ["", "_hidden"])
def test_what_a_quota_refuses_is_had_by_giving_idle_memory_back(run, tmp_path, form, preset):
    program, quota = ["/usr/bin/python3", "-c", KEEPS_WITHIN_A_QUOTA], PROGRAMS / f"libquota{form}.so"
    env = {"QUOTA_BYTES": str(10 << 20), "QUOTA_REPORT": str(tmp_path / "quota"), "POOLCUDA_PRESET": preset}
    alone, pooled = run(program, pooled=False, after=[quota], env=env), run(program, after=[quota], env=env)
    assert alone.out == "6 0\n8 0\n5 0\n9 0\n11 2\n"
    assert (pooled.code, pooled.out) == (alone.code, alone.out), pooled.err


IN_A_CONTEXT = """
import ctypes, sys
from ctypes import byref, c_size_t
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer, free, total = ctypes.c_void_p(), ctypes.c_uint64(), c_size_t(), c_size_t()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0

def allocate(size):
    assert cuda.cuMemAlloc_v2(byref(pointer), c_size_t(size)) == 0
    return pointer.value

def give_back(address):
    assert cuda.cuMemFree_v2(ctypes.c_uint64(address)) == 0

def info():
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
    return free.value, total.value
"""
STREAM_ORDERED = IN_A_CONTEXT + """
give_back(allocate(6 << 20))
for size in (8, 5, 9, 11):
    result = cuda.cuMemAllocAsync(byref(pointer), c_size_t(size << 20), None)
    print(size, result)
    if result == 0:
        assert cuda.cuMemFreeAsync(pointer, None) == 0
"""


def beside_a_quota(run, tmp_path, program, size=None, **env):
    """The program natively and pooled, both beside the quota that hooks the most, and what that has seen."""
    env = {"QUOTA_REPORT": str(tmp_path / "quota"), **({"QUOTA_BYTES": str(size)} if size else {}), **env}
    program, quota = ["/usr/bin/python3", "-c", program], PROGRAMS / "libquota_wide.so"
    alone, pooled = run(program, pooled=False, after=[quota], env=env), run(program, after=[quota], env=env)
    assert alone.code == 0, alone.err
    assert pooled.code == 0, pooled.err
    seen = dict(line.split() for line in (tmp_path / "quota").read_text().splitlines())
    return alone, pooled, {name: int(count) for name, count in seen.items()}


def test_an_allocation_that_is_refused_with_no_code_of_cudas_is_had_by_giving_idle_memory_back(run, tmp_path):
    alone, pooled, _ = beside_a_quota(run, tmp_path, STREAM_ORDERED, 10 << 20)
    assert alone.out == "8 0\n5 0\n9 0\n11 -1\n"
    assert pooled.out == alone.out


def test_what_is_free_beside_a_quota_is_what_it_says_alone_and_can_be_allocated(run, tmp_path):
    program = IN_A_CONTEXT + """
allocate(4 << 20)
for address in [allocate(100 << 10) for _ in range(5)]:
    give_back(address)
print(*info())
allocate(free.value)
"""
    alone, pooled, _ = beside_a_quota(run, tmp_path, program, 10 << 20)
    assert pooled.out == alone.out


@pytest.mark.parametrize("check", ["0", "1"], ids=["unchecked", "checked"])
def test_no_more_is_free_beside_a_quota_than_there_is(run, tmp_path, check):
    program = IN_A_CONTEXT + """
for size, count in ((100 << 10, 40), (3 << 20, 2)):
    for address in [allocate(size) for _ in range(count)]:
        give_back(address)
    assert info()[0] <= info()[1], info()
"""
    beside_a_quota(run, tmp_path, program, 10 << 20, POOLCUDA_CHECK=check)


def test_what_is_free_beside_a_quota_is_no_more_than_the_device_has(run):
    program = IN_A_CONTEXT + """
for address in [allocate(8 << 20), allocate(100 << 10)]:
    give_back(address)
assert info()[0] < info()[1]
allocate(free.value)
"""
    result = run(["/usr/bin/python3", "-c", program], after=[PROGRAMS / "libquota_wide.so"],
                 env={"SIMCUDA_MEMORY": str(16 << 20), "QUOTA_BYTES": str(24 << 20)})
    assert result.code == 0, result.err


def test_a_share_of_a_device_that_a_tool_says_has_no_memory_is_one_of_what_the_context_has(run, tmp_path):
    program = IN_A_CONTEXT + """
for _ in range(50):
    give_back(allocate(1 << 20))
"""
    _, pooled, seen = beside_a_quota(run, tmp_path, program, POOLCUDA_MAX_IDLE="50%")
    assert pooled.figures["calls.cuMemAlloc_v2"] == seen["allocations"] == 1


def test_the_drivers_memory_pools_are_not_used_where_a_tool_would_miscount(run, tmp_path):
    program = IN_A_CONTEXT + """
for size in range(1, 9):
    give_back(allocate(size << 20))
"""
    _, pooled, seen = beside_a_quota(run, tmp_path, program, 10 << 20, POOLCUDA_PRESET="paddle")
    assert seen == {**calls(pooled), "refused": 0}
    assert seen["allocations"] == seen["frees"] == 8
    assert pooled.err.count("poolcuda: another tool stands before the driver's stream-ordered functions") == 1


def test_the_order_that_the_doctor_advises_disables_neither_the_pool_nor_the_other_tool(run, tmp_path):
    quota, report = tmp_path / "libquota.so", tmp_path / "quota"
    shutil.copy(PROGRAMS / "libquota_hidden.so", quota)
    said = run([COMMAND, "doctor", "--", PROGRAMS / "driver_opened"], pooled=False, env={"LD_PRELOAD": f"{quota} {LIBRARY}"})
    advised = re.search(r'put the pool first, which calls what stands behind it: LD_PRELOAD="(\S+) (\S+)"', said.out)
    assert advised and advised.groups() == (str(LIBRARY), str(quota)), said.out
    result = run(PROGRAMS / "driver_opened", after=[quota], env={"QUOTA_REPORT": str(report)})
    assert 0 < result.driver_allocations <= 12
    assert report.read_text().startswith(f"allocations {result.driver_allocations}\n")


@pytest.mark.parametrize("form", ["", "_hidden", "_by_name"])
def test_a_quota_counts_each_call_of_several_threads_once(with_quota, form):
    result, seen = with_quota(["stress", "6", "1000", "1"], form)
    assert result.code == 0 and result.out.endswith("wrong 0\n"), result.out + result.err
    assert result.hazards == 0 and calls(result)["allocations"] > 0
    assert seen == {**calls(result), "refused": 0}


# What stands in for the driver: a library that loads it at its first call (TensorFlow's, Implib's), a driver of another
# name, a library that has variables of the driver's names (CUEW), the same linked at an address of its own, which the loader
# gives it or cannot give it.
STANDS_IN = dict.fromkeys(["lazy", "driver", "variables", "variables_fixed", "variables_moved"], "0 0 0\nallocated 50, freed 50\n")
WITHOUT_A_DRIVER = {**{form: "no driver\n" for form in STANDS_IN}, "driver": STANDS_IN["driver"],
                    "lazy": "303 303 303\nallocated 0, freed 0\n"}


def user(form, how):
    return ([PROGRAMS / f"stand_in_user_{form}"] if how == "linked" else
            [PROGRAMS / "stand_in_user", PROGRAMS / f"libstand_in_{form}.so"])


@pytest.mark.parametrize("disabled", [{}, {"POOLCUDA_DISABLE": "1"}], ids=["enabled", "disabled"])
@pytest.mark.parametrize("how", ["linked", "opened"])
@pytest.mark.parametrize("form", STANDS_IN)
def test_who_stands_in_for_the_driver_is_called_as_natively(run, form, how, disabled):
    alone, pooled = run(user(form, how), pooled=False), run(user(form, how), env=disabled)
    assert alone.out == STANDS_IN[form], alone.err
    assert (pooled.code, pooled.out) == (0, alone.out), pooled.err
    if form != "driver" and not disabled:
        assert pooled.figures["calls.cuMemAlloc_v2"] == 1


@pytest.mark.parametrize("disabled", [{}, {"POOLCUDA_DISABLE": "1"}], ids=["enabled", "disabled"])
@pytest.mark.parametrize("how", ["linked", "opened"])
@pytest.mark.parametrize("form", STANDS_IN)
def test_who_stands_in_for_the_driver_says_himself_that_there_is_none(run, form, how, disabled):
    alone, pooled = (run(user(form, how), pooled=pooled, env=disabled, libraries=()) for pooled in (False, True))
    assert alone.out == WITHOUT_A_DRIVER[form], alone.err
    assert (pooled.code, pooled.out) == (0, alone.out), pooled.err
