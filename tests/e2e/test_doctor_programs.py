"""poolcuda doctor: programs that are pooled, programs that are not, and what becomes of memory that they share."""

import os
import pathlib
import re
import shutil
import stat
import struct
import subprocess

import pytest
from conftest import PROGRAMS
from diagnoses import CUDART, EMPTY, IS_ROOT, MALLOC, NOBODY, OPENER, STATIC_CUDART, build, doctor, script
from test_nvidia_runtime import SOURCE as NVIDIA_SOURCE
from test_nvidia_runtime import toolkit


# Programs that are pooled.

def test_a_shared_runtime(doctor):
    said = doctor(PROGRAMS / "named_sites")
    assert said.code == 0 and said.facts["routes"] == ["shared-runtime"]
    assert f"dlsym of {CUDART.name}" in said.text("hooks-reached")
    assert "cudaMalloc of " in said.text("hooks-reached")
    assert said.facts["runtime_version"] == CUDART.name.rsplit(".", 1)[1]


def test_a_static_runtime(doctor):
    said = doctor(PROGRAMS / "named_sites-static")
    assert said.code == 0 and "static-runtime" in said.facts["routes"]
    assert f"dlsym of {PROGRAMS}/named_sites-static" in said.text("hooks-reached")


def test_a_static_runtime_without_symbols(doctor, tmp_path):
    subprocess.run(["strip", "-o", tmp_path / "stripped", PROGRAMS / "named_sites-static"], check=True)
    said = doctor("./stripped")
    assert said.code == 0 and "without symbols" in said.text("static-runtime")
    assert "dlsym of ./stripped" in said.text("hooks-reached")


@pytest.mark.parametrize("stripped", [False, True], ids=["whole", "stripped"])
def test_nvidias_static_runtime(doctor, build, stripped):
    folder = toolkit()
    if not folder:
        pytest.skip("NVIDIA's runtime is not here: package nvidia-cuda-dev, or CUDA's cuda-cudart-dev")
    program = build("program", NVIDIA_SOURCE, folder / "libcudart_static.a", "-ldl", "-lpthread", "-lrt")
    if stripped:
        subprocess.run(["strip", program], check=True)
    said = doctor(program)
    assert said.problems == {"runtime-refuses"} and said.facts["routes"] == ["static-runtime"]
    assert ("without symbols" in said.text("static-runtime")) == stripped
    assert "dlsym of " in said.text("hooks-reached")


def test_the_version_of_a_static_runtime_is_that_of_its_device_code(doctor, build):
    code = 'const char code[] __attribute__((used)) = "Cuda compilation tools, release 12.4, V12.4.131";'
    said = doctor(build("program", MALLOC + code, STATIC_CUDART, "-ldl", "-lpthread"))
    assert said.code == 0 and said.facts["static_runtime_version"] == "12.4"
    assert doctor(PROGRAMS / "named_sites-static").facts["static_runtime_version"] is None


def test_the_driver_api_linked(doctor):
    said = doctor(PROGRAMS / "driver_linked")
    assert said.code == 0 and said.facts["routes"] == ["driver-linked"]
    assert "cuMemAlloc_v2 of " in said.text("hooks-reached")


def test_the_driver_opened(doctor):
    said = doctor(OPENER)
    assert said.code == 0 and said.facts["routes"] == ["driver-opened"]
    assert "dlsym of " in said.text("hooks-reached")


def test_several_runtimes(doctor, build, tmp_path):
    build("libown.so", "int cudaMalloc(void **, unsigned long);\nint own(void) { void *p; return cudaMalloc(&p, 8); }",
          "-shared", "-fPIC", STATIC_CUDART, "-ldl", "-lpthread")
    said = doctor(build("program", MALLOC + "int own(void); int (*used)(void) = own;", "-L.", CUDART,
                        tmp_path / "libown.so"))
    assert said.code == 0 and set(said.facts["routes"]) == {"shared-runtime", "static-runtime"}
    assert "2 CUDA runtimes" in said.text("several-runtimes")
    assert "dlsym of libown.so" in said.text("hooks-reached")


@pytest.mark.parametrize("name, arguments", [
    ("named_sites", []), ("named_sites-static", []), ("driver_linked", []), ("driver_opened", [])])
def test_what_it_calls_reached_is_pooled(doctor, run, name, arguments):
    assert doctor(PROGRAMS / name).code == 0
    assert run([PROGRAMS / name, *arguments]).driver_allocations <= 12


# Programs that are not, or only under a condition.

def test_fully_static(doctor, build):
    for kind in ("-static", "-static-pie"):
        assert doctor(build("program", "int main(void) { return 0; }", kind)).problems == {"static"}


def test_a_plugin_may_be_opened_past_the_pool(doctor):
    said = doctor("--with-library", PROGRAMS / "libdeep_plugin.so", PROGRAMS / "deep_host",
                  PROGRAMS / "libdeep_plugin.so")
    assert said.code == 0 and "deepbind" in said.ids("warning")
    assert "libdeep_plugin.so with RTLD_DEEPBIND" in said.text("deepbind")
    assert "dlsym of " in said.text("hooks-reached")


def test_without_its_plugin_a_host_shows_no_cuda(doctor):
    said = doctor(PROGRAMS / "deep_host")
    assert said.code == 3 and "names that are not in its file" in said.text("cannot-know")


@pytest.mark.parametrize("plugin, problem", [("absent.so", "missing"), ("text", "not-elf"), ("command", "not-elf"), ("script", "not-a-library"),
                                             (".", "not-a-file"), ("half", "damaged"), ("nothing", "empty")])
def test_a_plugin_that_is_none_is_told_as_a_library(doctor, tmp_path, plugin, problem):
    (tmp_path / "text").write_text("text")
    script(tmp_path / "command", "text")
    script(tmp_path / "script", "#!/bin/sh\n")
    (tmp_path / "half").write_bytes((PROGRAMS / "libdeep_plugin.so").read_bytes()[:1000])
    (tmp_path / "nothing").touch()
    said = doctor("--with-library", plugin, OPENER)
    assert said.problems == {problem} and "program" not in said.text(problem)
    assert "library" in said.text(problem) or problem == "empty"


def test_a_program_without_cuda_has_nothing_to_pool(doctor, build):
    said = doctor(build("program", "int main(void) { return 0; }"))
    assert said.problems == {"no-cuda"} and "nothing to pool" in said.text("no-cuda")


def test_setuid_for_another_user(doctor, tmp_path, run):
    program = tmp_path / "program"
    if IS_ROOT:
        shutil.copy(OPENER, program)
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
    else:
        program = pathlib.Path(shutil.which("su") or "/bin/su")
        if not program.stat().st_mode & stat.S_ISUID:
            pytest.skip("no setuid program here: package util-linux (su)")
    said = doctor(program)
    assert said.problems == {"privileged"} and "setuid" in said.text("privileged")
    if IS_ROOT:  # and so it is: ld.so drops LD_LIBRARY_PATH as well, without which there is no driver
        assert run(program).code != 0


def test_setuid_for_this_user_changes_nothing(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "program")
    (tmp_path / "program").chmod(0o4755)
    said = doctor("./program")
    assert said.code == 0 and "privileged" in said.ids("warning")


def test_file_capabilities(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "program")
    value = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service, effective
    try:
        os.setxattr(tmp_path / "program", "security.capability", value)
    except OSError as error:
        pytest.skip(f"file capabilities cannot be set here ({error}): run as root, on a file system that has them")
    said = doctor("./program")
    assert "privileged" in said.ids("warning" if IS_ROOT else "problem")
    assert "file capabilities" in said.text("privileged")


def test_32_bits(doctor, tmp_path):
    """An ELF32 program, made by hand: header, PT_INTERP, PT_LOAD."""
    name = b"/lib/ld-linux.so.2\0"
    size = 52 + 2 * 32 + len(name)
    header = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0, 52, 0, 0, 52, 32, 2, 0, 0, 0)
    interpreter = struct.pack("<8I", 3, 52 + 64, 52 + 64, 0, len(name), len(name), 4, 1)
    load = struct.pack("<8I", 1, 0, 0, 0, size, size, 5, 4096)
    (tmp_path / "program").write_bytes(header + interpreter + load + name)
    (tmp_path / "program").chmod(0o755)
    assert doctor("./program").problems == {"32-bit"}


def test_another_machine(doctor, tmp_path):
    data = bytearray(OPENER.read_bytes())
    struct.pack_into("<H", data, 18, 243)  # RISC-V
    (tmp_path / "program").write_bytes(data)
    (tmp_path / "program").chmod(0o755)
    said = doctor("./program")
    assert said.problems == {"other-machine"} and "243" in said.text("other-machine")


def test_a_library_is_no_program(doctor):
    assert doctor(PROGRAMS / "libdeep_plugin.so").problems == {"not-a-program"}


def test_an_object_file_is_no_program(doctor, build):
    said = doctor(build("program.o", EMPTY, "-c"))
    assert said.problems == {"damaged"} and "object file" in said.text("damaged")


ASAN_SOURCE = '#include <dlfcn.h>\n' + """
int main(void) { void *h = dlopen("libcuda.so.1", 2); return !h || !dlsym(h, "cuMemAlloc_v2"); }
"""


def test_address_sanitizer_wants_to_be_first(doctor, build, run):
    program = build("program", ASAN_SOURCE, "-fsanitize=address")
    said = doctor(program)
    assert said.problems == {"sanitizer"}
    remedy = re.search(r"LD_PRELOAD=(\S*libasan\S*) poolcuda run -- ", said.text("sanitizer"))
    assert run(program, env={"ASAN_OPTIONS": "detect_leaks=0"}).code != 0
    first = doctor(program, env={"LD_PRELOAD": remedy.group(1), "ASAN_OPTIONS": "detect_leaks=0"})
    assert first.code == 0 and "sanitizer" in first.ids("ok")
    assert run(program, before=[remedy.group(1)], env={"ASAN_OPTIONS": "detect_leaks=0"}).code == 0


def test_address_sanitizer_inside_does_not_mind(doctor, build, run):
    program = build("program", ASAN_SOURCE, "-fsanitize=address", "-static-libasan")
    said = doctor(program)
    assert said.code == 0 and "sanitizer" in said.ids("ok")
    assert run(program, env={"ASAN_OPTIONS": "detect_leaks=0"}).code == 0


# What becomes of shared memory.

def test_ipc(doctor):
    said = doctor(PROGRAMS / "ipc")
    assert said.code == 0 and "really freed" in said.text("ipc")


def test_who_hooks_the_functions_of_ipc_does_not_share_memory_for_that(doctor):
    said = doctor(PROGRAMS / "driver_linked", env={"LD_PRELOAD": str(PROGRAMS / "libquota_wide.so")})
    assert said.code == 0 and not said["ipc"]


def test_ipc_by_the_runtime_and_rdma(doctor, build, tmp_path):
    verbs = build("libibverbs.so.1", "int ibv_reg_mr(void) { return 0; }", "-shared", "-fPIC",
                  "-Wl,-soname,libibverbs.so.1")
    said = doctor(build("program", MALLOC + """
        int cudaIpcGetMemHandle(void *, void *), ibv_reg_mr(void);
        void *used[] = {cudaIpcGetMemHandle, ibv_reg_mr};""", CUDART, verbs, f"-Wl,-rpath,{tmp_path}"))
    assert said.code == 0 and {"ipc", "rdma", "direct-library"} <= said.ids("note")
    assert "every free waits" in said.text("direct-library")


def test_a_static_runtime_alone_is_no_sign_of_ipc(doctor, build):
    folder = toolkit()
    if not folder:
        pytest.skip("NVIDIA's runtime is not here: package nvidia-cuda-dev, or CUDA's cuda-cudart-dev")
    said = doctor(build("program", NVIDIA_SOURCE, folder / "libcudart_static.a", "-ldl", "-lpthread", "-lrt"))
    assert not said["ipc"] and not said["rdma"]
