"""What else is in the process: memory checkers have it to themselves, others are named or kept in mind."""

import re
import subprocess

import pytest
from conftest import DRIVER, PROGRAMS


@pytest.fixture
def library(tmp_path):
    """library(name): a shared object of that name, which does nothing."""
    def make(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"], input="int nothing;\n", text=True,
                       check=True)
        return path
    return make


def pooled_hits(result):
    found = re.search(r"of which (\d+) from idle memory", result.stats)
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize("name", ["libsanitizer-collection.so", "compute-sanitizer/libTreeLauncher.so",
                                  "libsanitizer-public.so"])
def test_under_a_memory_checker_nothing_is_pooled_and_one_line_says_so(both, library, name):
    native, pooled = both(PROGRAMS / "driver_linked", after=[library(name)])
    assert pooled.driver_allocations == native.driver_allocations
    assert pooled.err == ("poolcuda: compute-sanitizer watches this program: pooling is off, as with "
                          "POOLCUDA_DISABLE=1\n")


def test_a_checker_that_the_driver_is_about_to_load_counts_as_well(both):
    native, pooled = both(PROGRAMS / "driver_linked",
                          env={"CUDA_INJECTION64_PATH": "/opt/compute-sanitizer/libsanitizer-collection.so"})
    assert pooled.driver_allocations == native.driver_allocations
    assert pooled.err.startswith("poolcuda: compute-sanitizer watches")


def test_a_profiler_is_named_in_the_report_and_changes_nothing(both, library):
    _, pooled = both(PROGRAMS / "driver_linked", after=[library("libcupti.so.13")])
    assert pooled.err == "" and pooled_hits(pooled) > 0
    assert "tools in this process: a CUPTI tool" in pooled.stats


@pytest.mark.parametrize("name", ["libibverbs.so.1", "libcufile.so.0", "libnvcuvid.so.1"])
def test_with_a_library_that_reaches_device_memory_by_itself_frees_wait(both, library, name):
    _, pooled = both([PROGRAMS / "visible", "query"], after=[library(name)])
    assert "1 free waited because a library was loaded that reaches device memory past the driver" in pooled.stats


def test_a_library_of_that_kind_that_is_loaded_later_counts_from_then_on(run, library, tmp_path):
    source = tmp_path / "later.c"
    source.write_text("""
        #include <dlfcn.h>
        #include <stddef.h>
        int cuInit(unsigned), cuDevicePrimaryCtxRetain(void *, int), cuCtxSetCurrent(void *);
        int cuMemAlloc_v2(unsigned long long *, size_t), cuMemFree_v2(unsigned long long);
        int main(int argc, char **argv) {
            void *context; unsigned long long kept, block;
            (void)argc;
            if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
            if (cuMemAlloc_v2(&kept, 5000)) return 1;
            for (int i = 0; i < 4; i++) {
                if (cuMemAlloc_v2(&block, 5000) || cuMemFree_v2(block)) return 1;
                if (i == 1 && !dlopen(argv[1], RTLD_NOW)) return 1;
            }
            return 0;
        }
    """)
    subprocess.run(["cc", "-o", tmp_path / "later", source, f"-L{DRIVER}", "-l:libcuda.so.1", "-ldl"], check=True)
    result = run([tmp_path / "later", library("libibverbs.so.1")])
    assert result.code == 0
    assert "2 frees put the wait off" in result.stats
    assert "2 frees waited because a library was loaded that reaches device memory past the driver" in result.stats


def test_code_opened_with_deep_binding_makes_frees_wait(both):
    _, pooled = both([PROGRAMS / "deep_host", PROGRAMS / "libdeep_plugin.so"])
    assert pooled.code == 0
    assert "put the wait off" not in pooled.stats


def test_a_hook_that_rewrites_import_tables_as_ucx_does_still_sees_every_call(both):
    _, pooled = both(PROGRAMS / "table_hooks")
    assert re.search(r"hooked (\d+) allocations and \1 frees", pooled.out)
    assert pooled_hits(pooled) > 0


def test_reused_memory_is_cleared_on_request(run):
    plain = run([PROGRAMS / "stale"])
    cleared = run([PROGRAMS / "stale"], env={"POOLCUDA_ZERO": "1"})
    assert plain.out == "fresh 0, reused 5\n"
    assert cleared.out == "fresh 0, reused 0\n"
