"""poolcuda doctor: what it says of a program beforehand is what then happens, and nothing of the program runs."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import stat
import struct
import subprocess
import tempfile

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, PROGRAMS, ROOT, RUNTIME
from test_nvidia_runtime import SOURCE as NVIDIA_SOURCE
from test_nvidia_runtime import toolkit

CUDART = next(RUNTIME.glob("libcudart.so.1[0-9]"))
STATIC_CUDART = RUNTIME / "libcudart_static.a"
NOBODY = 65534
IS_ROOT = os.getuid() == 0


def environment(**more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_", "CUDA_INJ", "ASAN_", "NO_COLOR"))}
    return {**clean, "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", **more}


class Diagnosis:
    """The JSON form of what the doctor said."""

    def __init__(self, done):
        assert done.returncode in (0, 1, 3), done.stderr
        self.code, self.said = done.returncode, json.loads(done.stdout)
        self.findings, self.facts = self.said["findings"], self.said["facts"]
        assert self.said["version"] == 1 and self.said["next"]
        assert (self.said["verdict"], self.said["works"]) == {
            0: ("works", True), 1: ("works-not", False), 3: ("cannot-know", None)}[self.code]
        for finding in self.findings:
            assert set(finding) == {"id", "severity", "what", "cause", "remedy"}
            assert finding["what"] and (finding["severity"] != "problem" or finding["remedy"]), finding

    def ids(self, *severities):
        return {finding["id"] for finding in self.findings if not severities or finding["severity"] in severities}

    @property
    def problems(self):
        return self.ids("problem")

    def __getitem__(self, name):
        return [finding for finding in self.findings if finding["id"] == name]

    def text(self, name):
        return "\n".join(" ".join((each["what"], each["cause"], each["remedy"])) for each in self[name])


@pytest.fixture
def doctor(tmp_path):
    """doctor(argument..., env={}): the Diagnosis of `poolcuda doctor --json argument...`."""
    def ask(*arguments, env=None, command=COMMAND, **more):
        return Diagnosis(guard.run([command, "doctor", "--json", *map(str, arguments)], cwd=tmp_path,
                                   env=environment(**(env or {})), capture_output=True, text=True,
                                   check=False, **more))
    return ask


@pytest.fixture
def build(tmp_path):
    """build(name, source, argument...): a program, or with -shared a library, made by the compiler."""
    def make(name, source, *arguments):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-w", "-x", "c", "-", "-x", "none", "-o", path, *map(str, arguments)], input=source,
                       text=True, check=True)
        return path
    return make


EMPTY = "int nothing;\n"
MALLOC = """
int cudaMalloc(void **, unsigned long);
int main(void) { void *p; return cudaMalloc(&p, 8); }
"""
OPENER = (PROGRAMS / "driver_opened").resolve()


def script(path, text, mode=0o755):
    path.write_text(text)
    path.chmod(mode)
    return path


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


@pytest.mark.parametrize("plugin, problem", [("absent.so", "missing"), ("text", "not-elf"), (".", "not-a-file")])
def test_a_plugin_that_is_none(doctor, tmp_path, plugin, problem):
    (tmp_path / "text").write_text("text")
    assert problem in doctor("--with-library", plugin, OPENER).problems


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


# Files that are no programs.

def test_missing(doctor):
    for name in ("no-such-program", "./absent", "/nowhere/at/all"):
        assert doctor(name).problems == {"missing"}


def test_a_name_without_a_path_means_path(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "program")
    said = doctor("program")
    assert said.problems == {"missing"} and "write ./program" in said.text("missing")


def test_unreadable():
    """As nobody, with a copy of the command in a folder that all can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        command, program = pathlib.Path(folder) / "poolcuda", pathlib.Path(folder) / "program"
        shutil.copy(COMMAND, command)
        shutil.copy(OPENER, program)
        command.chmod(0o755)
        program.chmod(0o111 if IS_ROOT else 0)
        done = subprocess.run([command, "doctor", "--json", program], capture_output=True, text=True, check=False,
                              env=environment(), cwd="/", user=NOBODY if IS_ROOT else None)
        assert "unreadable" in Diagnosis(done).problems
        assert "Permission denied" in Diagnosis(done).text("unreadable")


def test_not_executable(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "program")
    (tmp_path / "program").chmod(0o644)
    assert doctor("./program").problems == {"not-executable"}


@pytest.mark.parametrize("content, problem", [
    (b"", "empty"), (b"MZ\x90\0 no ELF", "not-elf"), (b"\x7fEL", "not-elf"), (b"\x7fELF", "damaged"),
    (b"\x7fELF\2\1\1" + bytes(200), "damaged"), (b"\x7fELF" + b"\xff" * 2000, "damaged"),
    (b"#!", "interpreter-missing"), (b"#!/no/such/interpreter\n", "missing")])
def test_what_is_no_program(doctor, tmp_path, content, problem):
    (tmp_path / "program").write_bytes(content)
    (tmp_path / "program").chmod(0o755)
    assert problem in doctor("./program").problems


def test_directories_and_devices(doctor, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("./", "./fifo", "/dev/null"):
        assert doctor(name).problems == {"not-a-file"}


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6])
def test_truncated(doctor, tmp_path, part):
    data = (PROGRAMS / "named_sites-static").read_bytes()
    loads_end = 0
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for i in range(count):
        kind, _, start, _, _, size = struct.unpack_from("<IIQQQQ", data, offset + 56 * i)
        if kind == 1:
            loads_end = max(loads_end, start + size)
    (tmp_path / "program").write_bytes(data[:int(loads_end * part)])
    (tmp_path / "program").chmod(0o755)
    said = doctor("./program")
    assert said.problems == {"damaged"} and "shorter than its headers say" in said.text("damaged")


def test_without_section_headers_it_sees_the_same(doctor, tmp_path):
    """What is loaded does not need them; packers remove them."""
    data = bytearray((PROGRAMS / "named_sites").read_bytes())
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HH", data, 60, 0, 0)
    (tmp_path / "program").write_bytes(data)
    (tmp_path / "program").chmod(0o755)
    said = doctor("./program")
    assert said.code == 0 and said.facts["routes"] == ["shared-runtime"]


# Scripts.

def test_a_python_script_with_ctypes(doctor, tmp_path):
    script(tmp_path / "program.py", "#!/usr/bin/python3\nimport ctypes\nctypes.CDLL('libcuda.so.1')\n")
    said = doctor("./program.py")
    assert said.code == 0 and {"script", "script-modules"} <= said.ids("note")
    assert "/usr/bin/python3" in said.text("script") and "ctypes" in said.text("script-modules")


def test_a_python_script_given_to_python(doctor, tmp_path):
    script(tmp_path / "train.py", "import torch.cuda as cuda, os\nflags = os.RTLD_DEEPBIND\n", 0o644)
    said = doctor("/usr/bin/env", "X=1", "/usr/bin/python3", "-u", "train.py")
    assert said.code == 0 and "torch" in said.text("own-pool")
    assert "deepbind" in said.ids("warning")


def test_comments_and_other_words_are_no_modules(doctor, tmp_path):
    script(tmp_path / "program.py", "#!/usr/bin/python3\n# import torch\nprint('torchlight')\n")
    said = doctor("./program.py")
    assert said.problems == {"no-cuda"} and not said["script-modules"]


def test_a_job_script_with_a_launcher_and_python(doctor, tmp_path):
    shutil.copy(PROGRAMS / "named_sites", tmp_path / "solve")
    (tmp_path / "train.py").write_text("import cupy as cp\n")
    os.mkfifo(tmp_path / "pipe.py")
    script(tmp_path / "job.sh", "#!/bin/sh\nmodule load cuda\nmpirun -np 4 ./solve > out\npython3 train.py < pipe.py\n")
    said = doctor("./job.sh")
    assert said.code == 0 and "cudaMalloc of ./solve" in said.text("hooks-reached")
    assert [finding["what"].split(":")[0] for finding in said["script-modules"]] == ["train.py names cupy"]


def test_a_shell_script_that_starts_a_cuda_program(doctor, tmp_path):
    shutil.copy(PROGRAMS / "named_sites", tmp_path / "solve")
    script(tmp_path / "job.sh", "#!/bin/sh\nset -e\ncd . && exec ./solve --fast\n")
    said = doctor("./job.sh")
    assert said.code == 0 and "LD_PRELOAD is inherited" in said.text("script")
    assert "cudaMalloc of ./solve" in said.text("hooks-reached")


def test_a_shell_script_that_starts_a_program_in_path_or_a_script(doctor, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(OPENER, tmp_path / "bin/solve")
    script(tmp_path / "inner.sh", "#!/usr/bin/env bash\nsolve | tee log\n")
    script(tmp_path / "job.sh", "#!/bin/sh\n./inner.sh\n")
    said = doctor("./job.sh", env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert said.code == 0 and "dlsym of solve" in said.text("hooks-reached")


def test_scripts_that_start_each_other_come_to_an_end(doctor, tmp_path):
    script(tmp_path / "a", "#!/bin/sh\n./b\n")
    script(tmp_path / "b", "#!./a\n./a ./b\n")
    assert doctor("./a").code == 3


def test_what_cannot_be_pooled_in_a_shell_script_is_reported(doctor, build, tmp_path):
    build("solve", MALLOC, "-static", STATIC_CUDART, "-ldl", "-lpthread")
    script(tmp_path / "job.sh", "#!/bin/sh\n./solve\n")
    assert doctor("./job.sh").problems == {"static"}


def test_a_launcher_is_looked_through(doctor):
    said = doctor("nice", "-n", "5", OPENER)
    assert said.code == 0 and "dlsym of " in said.text("hooks-reached")


def test_a_static_launcher_is_looked_through(doctor, build):
    starter = build("starter", "int main(void) { return 0; }", "-static")
    said = doctor(starter, "--option", OPENER)
    assert said.code == 0 and "static-starter" in said.ids("note")
    assert doctor(starter, "--option", "absent").problems == {"static"}


def test_a_wrapper_script_is_looked_through(doctor, tmp_path):
    script(tmp_path / "wrapper", '#!/bin/sh\nexec "$@"\n')
    said = doctor("./wrapper", "--option", OPENER, "argument")
    assert said.code == 0 and "dlsym of " in said.text("hooks-reached") and not said["no-cuda"]
    assert "starts programs" in doctor("./wrapper").text("cannot-know")


# The dry run.

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
    said = doctor(PROGRAMS / "driver_opened", env={"LD_PRELOAD": str(other)})
    assert said.problems == {"interposer"} and known in said.text("interposer")
    assert f'LD_PRELOAD="{LIBRARY} {other}"' in said.text("interposer")
    assert run(PROGRAMS / "driver_opened", before=[other]).driver_allocations > 12
    mended = doctor(PROGRAMS / "driver_opened", env={"LD_PRELOAD": f"{LIBRARY} {other}"})
    assert mended.code == 0 and "dlsym of " in mended.text("hooks-reached")


@pytest.mark.parametrize("what, program", [("driver", "driver_linked"), ("runtime", "named_sites")])
def test_other_interposers_are_named(doctor, what, program):
    said = doctor(PROGRAMS / program, env={"LD_PRELOAD": str(PROGRAMS / f"libinterposer_{what}.so")})
    assert said.code == 0 and f"libinterposer_{what}.so" in said.text("interposer")
    assert "interposer" in said.ids("note")


def test_a_preload_that_is_missing(doctor):
    said = doctor(OPENER, env={"LD_PRELOAD": "/nowhere/libgone.so"})
    assert said.code == 0 and "/nowhere/libgone.so" in said.text("preload-missing")


# What becomes of shared memory.

def test_ipc(doctor):
    said = doctor(PROGRAMS / "ipc")
    assert said.code == 0 and "really freed" in said.text("ipc")


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


# The machine.

def test_the_machine_alone(doctor):
    said = doctor()
    assert said.code == 0 and said.said["app"] is None and said.facts["library"] == str(LIBRARY)
    assert {"library"} <= said.ids("ok") and "driver-simulated" in said.ids("note")


def test_without_a_driver(doctor):
    said = doctor(env={"LD_LIBRARY_PATH": ""})
    if said.facts["driver_library"]:
        pytest.skip("this machine has a driver: run it on one without")
    assert said.problems == {"driver-missing"}
    assert said.code == 1


def test_a_driver_that_is_too_old_for_the_runtime(doctor, build, tmp_path):
    build("libcuda.so.450.80.02", EMPTY, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.450.80.02")
    shutil.copy(CUDART, tmp_path / "libcudart.so.12.4.127")
    (tmp_path / CUDART.name).symlink_to("libcudart.so.12.4.127")
    said = doctor(build("program", MALLOC, CUDART), env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert said.facts["driver_library_version"] == "450.80.02" and said.facts["runtime_version"] == "12.4.127"
    assert said.problems == {"driver-too-old"}


def test_without_the_library(doctor, tmp_path):
    shutil.copy(COMMAND, tmp_path / "alone")
    said = doctor(OPENER, command=tmp_path / "alone")
    assert "library-missing" in said.problems and not said["hooks-reached"]


def test_options(doctor):
    said = doctor(OPENER, env={"POOLCUDA_FREE": "nver", "POOLCUDA_FRE": "1"})
    assert said.code == 0 and len(said["option"]) == 2
    assert 'POOLCUDA_FREE="nver": expected one of' in said.text("option")
    assert doctor(OPENER, env={"POOLCUDA_DISABLE": "1"}).problems == {"disabled"}


def test_memory_checkers_and_profilers(doctor, build, tmp_path):
    said = doctor(OPENER, env={"CUDA_INJECTION64_PATH": "/opt/compute-sanitizer/libsanitizer-collection.so"})
    assert said.problems == {"memory-checker"} and "compute-sanitizer" in said.text("memory-checker")
    tool = build("libcupti.so.13", EMPTY, "-shared", "-fPIC")
    said = doctor(OPENER, env={"LD_PRELOAD": str(tool)})
    assert said.code == 0 and "a CUPTI tool" in said.text("profiler")
    shutil.copy(OPENER, tmp_path / "compute-sanitizer")
    assert "memory-checker" in doctor("./compute-sanitizer", "app").problems


# Arguments and output.

@pytest.mark.parametrize("arguments", [["--no-such-option"], ["--with-library"], [""]])
def test_bad_usage_exits_with_2(arguments):
    done = subprocess.run([COMMAND, "doctor", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr


def text_of(*arguments, **env):
    done = subprocess.run([COMMAND, "doctor", *map(str, arguments)], capture_output=True, text=True, check=False,
                          env=environment(**env))
    assert done.stderr == ""
    return done.stdout


def test_the_text_ends_with_the_next_command():
    works = text_of(OPENER, "an argument").splitlines()
    assert works[-2:] == ["pooling will work", f"next: {COMMAND} run -- {OPENER} 'an argument'"]
    fails = text_of("/dev/null").splitlines()
    assert fails[0].startswith("problem   /dev/null is no regular file")
    assert fails[-2].startswith("pooling will not work")
    assert text_of().endswith(f"next: {COMMAND} run -- PROGRAM\n")


def test_names_are_made_harmless(doctor):
    for name in ("./a\033[31mb\nc", "./\u202eb", "./\x9b31m"):
        said = text_of(name)
        assert not re.search(r"[\033\u202e\x9b]", said) and "a" not in said.split("\n")[0][:8]
    assert doctor(b"./bad\xff".decode(errors="surrogateescape")).problems == {"missing"}


def test_colours_are_for_terminals_that_want_them():
    def shown(**env):
        pid, file = pty.fork()
        if pid == 0:
            os.execve(COMMAND, [str(COMMAND), "doctor", str(OPENER)], environment(**env))
        text = b""
        try:
            while piece := os.read(file, 4096):
                text += piece
        except OSError:
            pass
        os.waitpid(pid, 0)
        os.close(file)
        return text
    assert b"\033[32mok" in shown()
    assert b"\033" not in shown(NO_COLOR="1")
    assert "\033" not in text_of(OPENER)


def test_the_documents_list_every_finding_and_no_other():
    told = set()
    for source in (ROOT / "src/cli/doctor").glob("*.c"):
        told |= set(re.findall(r'findings_add\(\s*[\w>&.-]+,\s*"([\w-]+)"', source.read_text()))
    documented = set(re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/doctor.md").read_text(), re.M))
    assert len(told) > 30 and documented == told
