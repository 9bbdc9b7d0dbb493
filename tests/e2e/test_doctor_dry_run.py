"""poolcuda doctor: what ld.so is asked, and that nothing of the program is run."""

import shutil
import signal
import subprocess

import pytest
from conftest import COMMAND, LIBRARY, PROGRAMS
from diagnoses import CUDART, Diagnosis, MALLOC, OPENER, build, doctor, environment, script


def test_nothing_of_the_program_is_run(doctor, build, tmp_path):
    """Neither constructors nor functions that choose functions: each would leave a file or break ld.so."""
    mark = tmp_path / "ran"
    code = f"""
    #include <fcntl.h>
    __attribute__((constructor)) static void start(void) {{ creat("{mark}", 0644); }}
    static void *choose(void) {{ __builtin_trap(); }}
    void chosen(void) __attribute__((ifunc("choose")));
    void NAME(void) {{ chosen(); }}
    """
    build("libplugin.so", code.replace("NAME", "plugin").replace("chosen", "chosen2"), "-shared", "-fPIC")
    program = build("program", code.replace("NAME", "own") + "int plugin(void); int (*used)(void) = plugin;" + MALLOC,
                    CUDART, tmp_path / "libplugin.so")
    said = doctor("--with-library", tmp_path / "libplugin.so", program)
    assert said.code == 0 and "cudaMalloc of " in said.text("hooks-reached")
    assert not mark.exists()
    assert subprocess.run([program], env=environment(), check=False).returncode == -signal.SIGILL


def test_auditors_are_not_run(build, tmp_path):
    code = f"""
    #include <fcntl.h>
    #include <unistd.h>
    unsigned la_version(unsigned version) {{
        write(open("{tmp_path}/runs", O_WRONLY | O_CREAT | O_APPEND, 0644), "x", 1);
        return version;
    }}"""
    auditor = build("libaudit.so", code, "-shared", "-fPIC")
    inner = ["/usr/bin/env", f"LD_AUDIT={auditor}", COMMAND, "doctor", "--json", OPENER]
    assert Diagnosis(subprocess.run(inner, env=environment(), capture_output=True, text=True, check=False)).code == 0
    assert (tmp_path / "runs").read_text() == "x", "by the ld.so that started the command itself"


def test_a_foreign_program_interpreter_is_not_started(doctor, build, tmp_path):
    loader = script(tmp_path / "ld-linux-x86-64.so.2", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    said = doctor(build("program", MALLOC, CUDART, f"-Wl,--dynamic-linker={loader}"))
    assert said.code == 3 and "not-verified" in said.ids("warning") and not said["hooks-reached"]
    assert not (tmp_path / "ran").exists()


def test_a_missing_or_other_libc(doctor, build, tmp_path):
    musl = script(tmp_path / "ld-musl-x86_64.so.1", "")
    assert doctor(build("a", MALLOC, CUDART, f"-Wl,--dynamic-linker={musl}")).problems == {"other-libc"}
    assert doctor(build("b", MALLOC, CUDART, "-Wl,--dynamic-linker=/nowhere/ld.so")).problems == {
        "interpreter-missing"}


def test_a_glibc_that_is_too_old(doctor, build, tmp_path):
    (tmp_path / "map").write_text("GLIBC_2.2.5 { global: __libc_start_main; };\nGLIBC_2.34 { } GLIBC_2.2.5;\n")
    build("old/libc.so.6", "int __libc_start_main;\n", "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.so.6",
          f"-Wl,--version-script={tmp_path}/map")
    said = doctor(build("program", MALLOC, CUDART, f"-Wl,-rpath,{tmp_path}/old", "-Wl,--disable-new-dtags"))
    assert "glibc-too-old" in said.problems and "GLIBC_2.1" in said.text("glibc-too-old")


def test_a_library_that_is_not_found(doctor, build, tmp_path):
    gone = build("libgone.so", "int gone(void) { return 0; }", "-shared", "-fPIC")
    program = build("program", "int gone(void); int main(void) { return gone(); }", gone)
    gone.unlink()
    said = doctor(program)
    assert "libgone.so" in said.text("library-not-found") and "library-not-found" in said.problems


def test_a_shared_runtime_that_is_not_found(doctor, build):
    gone = build("libcudart.so.99", "int cudaMalloc(void) { return 0; }", "-shared", "-fPIC",
                 "-Wl,-soname,libcudart.so.99")
    program = build("program", MALLOC, gone)
    gone.unlink()
    said = doctor(program)
    assert said.problems == {"library-not-found"}
    assert "libcudart.so.99" in said.text("library-not-found")
    assert "CUDA's library folder to LD_LIBRARY_PATH" in said.text("library-not-found")


@pytest.mark.parametrize("name, known", [("libother.so", ""), ("libvgpu.so", "HAMi")])
def test_an_interposer_of_dlsym_that_comes_first_hides_the_pool(doctor, run, tmp_path, name, known):
    other = tmp_path / name
    shutil.copy(PROGRAMS / "libinterposer_dlsym.so", other)
    said = doctor(PROGRAMS / "driver_opened", env={"LD_PRELOAD": f"{other} {LIBRARY}"})
    assert said.problems == {"interposer"} and known in said.text("interposer")
    assert f'LD_PRELOAD="{LIBRARY} {other}"' in said.text("interposer")
    assert run(PROGRAMS / "driver_opened", before=[other]).driver_allocations > 12
    mended = doctor(PROGRAMS / "driver_opened", env={"LD_PRELOAD": f"{LIBRARY} {other}"})
    assert mended.code == 0 and "dlsym of " in mended.text("hooks-reached")


@pytest.mark.parametrize("what, program", [("driver", "driver_linked"), ("runtime", "named_sites")])
def test_other_interposers_are_named(doctor, what, program):
    said = doctor(PROGRAMS / program, env={"LD_PRELOAD": f"{PROGRAMS}/libinterposer_{what}.so {LIBRARY}"})
    assert said.code == 0 and f"libinterposer_{what}.so" in said.text("interposer")
    assert "interposer" in said.ids("note")


def test_a_preload_that_is_missing(doctor):
    said = doctor(OPENER, env={"LD_PRELOAD": "/nowhere/libgone.so"})
    assert said.code == 0 and "/nowhere/libgone.so" in said.text("preload-missing")
