"""poolcuda doctor, kind by kind: what it says of a program is what the pool's figures say after a run of it."""

import glob
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, COMMAND, DRIVER, PROGRAMS, ROOT, RUNTIME
from diagnoses import CUDART, MALLOC, OPENER, build, doctor, environment, script, text_of
from test_nvidia_runtime import SOURCE as NVIDIA_SOURCE
from test_nvidia_runtime import toolkit
from verdicts import (
    ALLOCATES, ALLOCATING_LIBRARY, HARMLESS, right, shared_python, static_python, truth)


# OpenMP and OpenACC.

HOST_ONLY = """
#include <omp.h>
int main(void) {
    int sum = 0;
    #pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 1000; i++) sum += i;
    return sum != 499500;
}"""
REGION = """
int main(void) {
    int sum = 0;
    #pragma omp target map(tofrom : sum)
    for (int i = 0; i < 1000; i++) sum += i;
    return sum != 499500;
}"""
DEVICE_MEMORY = """
#include <omp.h>
int main(void) {
    if (omp_get_num_devices() == 0) return 1;
    for (int i = 0; i < 100; i++) {
        void *p = omp_target_alloc(1 << 20, 0);
        if (!p) return 2;
        omp_target_free(p, 0);
    }
    return 0;
}"""
# As gcc's offloading compiler registers code for NVIDIA's GPUs.
REGISTERED = DEVICE_MEMORY + """
const char code[] = "\\t.version\\t6.0\\n\\t.target\\tsm_35\\n\\t.address_size 64\\n";
void GOMP_offload_register_ver(unsigned, const void *, int, const void *);
static void *nothing[4];
__attribute__((constructor)) static void start(void) { GOMP_offload_register_ver(1 << 16, nothing, 5, code); }
"""
# What libgomp asks of its plugin for NVIDIA's GPUs, as the real one does it: by opening the driver.
GOMP_PLUGIN = r"""
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
static int (*init)(unsigned), (*create)(void **, unsigned, int), (*release)(unsigned long long);
static int (*allocate)(unsigned long long *, size_t);
const char *GOMP_OFFLOAD_get_name(void) { return "nvptx"; }
unsigned GOMP_OFFLOAD_get_caps(void) { return 1 << 2; }
int GOMP_OFFLOAD_get_type(void) { return 5; }
int GOMP_OFFLOAD_get_num_devices(unsigned mask) { return 1; }
bool GOMP_OFFLOAD_init_device(int n) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *context;
    if (!driver) return false;
    init = dlsym(driver, "cuInit");
    create = dlsym(driver, "cuCtxCreate_v2");
    allocate = dlsym(driver, "cuMemAlloc_v2");
    release = dlsym(driver, "cuMemFree_v2");
    return init(0) == 0 && create(&context, 0, 0) == 0;
}
bool GOMP_OFFLOAD_fini_device(int n) { return true; }
unsigned GOMP_OFFLOAD_version(void) { return VERSION; }
int GOMP_OFFLOAD_load_image(int n, unsigned v, const void *d, void **t, void *u, void *w) { *t = NULL; return 0; }
bool GOMP_OFFLOAD_unload_image(int n, unsigned v, const void *d) { return true; }
void *GOMP_OFFLOAD_alloc(int n, size_t size) {
    unsigned long long p = 0;
    return allocate(&p, size) ? NULL : (void *)p;
}
bool GOMP_OFFLOAD_free(int n, void *p) { return release((unsigned long long)p) == 0; }
bool GOMP_OFFLOAD_dev2host(int n, void *to, const void *from, size_t size) { return true; }
bool GOMP_OFFLOAD_host2dev(int n, void *to, const void *from, size_t size) { return true; }
bool GOMP_OFFLOAD_dev2dev(int n, void *to, const void *from, size_t size) { return true; }
void GOMP_OFFLOAD_run(int n, void *f, void *vars, void **args) {}
bool GOMP_OFFLOAD_can_run(void *f) { return true; }
void *GOMP_OFFLOAD_get_property(int n, int property) { return NULL; }
"""


@pytest.fixture
def gomp(build, tmp_path):
    """gomp(name, source): a program of gcc -fopenmp."""
    done = subprocess.run(["gcc", "-fopenmp", "-x", "c", "-", "-o", tmp_path / "probe"], input=DEVICE_MEMORY, text=True,
                          capture_output=True, check=False)
    if done.returncode:
        pytest.skip("gcc has no OpenMP here: install libgomp's development files, with gcc")
    return lambda name, source: build(name, source, "-fopenmp", "-foffload=disable")


@pytest.fixture
def gomp_plugin(build, tmp_path, gomp):
    """LD_LIBRARY_PATH with a plugin for libgomp of the version that it wants."""
    for version in range(1, 6):
        build("plugins/libgomp-plugin-nvptx.so.1", GOMP_PLUGIN, f"-DVERSION={version}", "-shared", "-fPIC")
        path = {"LD_LIBRARY_PATH": f"{tmp_path}/plugins:{DRIVER}:{RUNTIME}"}
        if subprocess.run([tmp_path / "probe"], env=environment(**path), check=False).returncode == 0:
            return path
    return pytest.skip("libgomp takes none of the plugin versions that this test knows")


def test_openmp_without_offloading_has_nothing_to_pool(right, gomp):
    right(False, gomp("plain", HOST_ONLY))


def test_openmp_regions_without_code_for_the_gpu_run_on_the_processor(right, gomp, gomp_plugin):
    said = right(False, gomp("region", REGION), env=gomp_plugin)
    assert "offload-host" in said.ids("note") and "-foffload=nvptx-none" in said.said["next"]


@pytest.mark.parametrize("source", [DEVICE_MEMORY, REGISTERED], ids=["memory", "code"])
def test_openmp_offloading_of_gcc_is_pooled(right, gomp, gomp_plugin, source):
    said = right(True, gomp("offload", source), env=gomp_plugin)
    assert "libgomp-plugin-nvptx.so.1" in said.text("offload")


def test_openmp_offloading_without_its_plugin_is_reported_with_what_to_install(doctor, gomp, truth):
    loads = "import ctypes; ctypes.CDLL('libgomp-plugin-nvptx.so.1')"
    if subprocess.run([sys.executable, "-c", loads], env=environment(), capture_output=True, check=False).returncode == 0:
        pytest.skip("libgomp's plugin for NVIDIA's GPUs is installed: apt-get remove libgomp-plugin-nvptx1")
    program = gomp("offload", REGISTERED)
    said = doctor(program)
    assert said.problems == {"offload-plugin-missing"} and truth(program) == (0, 0)
    assert said.said["next"] == "apt-get install libgomp-plugin-nvptx1"


def test_offloading_that_is_switched_off(doctor, gomp, gomp_plugin):
    said = doctor(gomp("offload", REGISTERED), env={**gomp_plugin, "OMP_TARGET_OFFLOAD": "DISABLED"})
    assert said.problems == {"offload-off"} and said.said["next"] == "unset OMP_TARGET_OFFLOAD"


# As clang registers code for NVIDIA's GPUs; none of it is run, only memory is asked for.
LLVM_PROGRAM = r"""
#include <elf.h>
#include <stddef.h>
typedef struct { void *address; char *name; size_t size; int flags, reserved; } entry;
typedef struct { void *start, *end; entry *first, *last; } image;
typedef struct { int count; image *images; entry *first, *last; } description;
void __tgt_register_lib(description *), *omp_target_alloc(size_t, int), omp_target_free(void *, int);
static struct { Elf64_Ehdr header; char text[64]; } code = {
    {.e_ident = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33, 7}, .e_type = ET_EXEC, .e_machine = MACHINE, .e_version = 1,
     .e_ehsize = sizeof(Elf64_Ehdr), .e_flags = 60 << 16 | 60}, TEXT};
int main(void) {
    static entry none[1];
    image one = {&code, &code + 1, none, none};
    description all = {1, &one, none, none};
    __tgt_register_lib(&all);
    for (int i = 0; i < 100; i++) {
        void *p = omp_target_alloc(1 << 20, 0);
        if (!p) return ALONE;
        omp_target_free(p, 0);
    }
    return 0;
}"""


def libomptarget():
    return next(iter(sorted(glob.glob("/usr/lib/llvm-*/lib/libomptarget.so"))), None)


@pytest.mark.skipif(not libomptarget(), reason="no libomptarget here: install libomp-dev")
@pytest.mark.parametrize("works, machine, text", [(True, 190, "\\0.nv.info\\0"), (False, 999, "\\0amdgcn\\0")],
                         ids=["nvidia", "other"])
def test_openmp_offloading_of_llvm(right, build, works, machine, text):
    folder = pathlib.Path(libomptarget()).parent
    right(works, build("offload", LLVM_PROGRAM, "-Wl,--no-as-needed", libomptarget(), folder / "libomp.so",
                       f"-Wl,-rpath,{folder}", f"-DMACHINE={machine}",
                       f'-DTEXT="{text}"', f"-DALONE={int(works)}"))


# GStreamer: a library that opens every plugin of a folder, and a program that names elements.

@pytest.fixture
def gstreamer(build, tmp_path):
    build("gst/libgstreamer-1.0.so.0", r"""
        #define _GNU_SOURCE
        #include <dirent.h>
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        int gst_run(const char *element) {
            const char *folder = getenv("GST_PLUGIN_PATH");
            DIR *files = opendir(folder);
            for (struct dirent *entry; files && (entry = readdir(files));) {
                char path[4096];
                snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
                void *plugin = strstr(path, ".so") ? dlopen(path, RTLD_LAZY) : NULL;
                const char **name = plugin ? dlsym(plugin, "gst_element") : NULL;
                if (name && !strcmp(*name, element))
                    ((int (*)(void))dlsym(plugin, "gst_work"))();
            }
            return 0;
        }""", "-shared", "-fPIC", "-Wl,-soname,libgstreamer-1.0.so.0")
    build("gst/gst-launch-1.0", "int gst_run(const char *); int main(int n, char **w) { while (*++w) gst_run(*w); }",
          tmp_path / "gst/libgstreamer-1.0.so.0", f"-Wl,-rpath,{tmp_path}/gst")
    build("plugins/libgstmine.so", 'const char *gst_element = "mysolver";'
          + ALLOCATING_LIBRARY.replace("FUNCTION", "gst_work"), "-shared", "-fPIC", CUDART)
    build("plugins/libgstcore.so", 'const char *gst_element = "fakesrc"; int gst_work(void) { return 0; }',
          "-shared", "-fPIC")
    return tmp_path / "gst/gst-launch-1.0", {"GST_PLUGIN_PATH": f"{tmp_path}/plugins",
                                             "GST_PLUGIN_SYSTEM_PATH": "/nonexistent"}


def test_a_gstreamer_pipeline_is_judged_by_its_elements(right, doctor, gstreamer):
    launch, path = gstreamer
    said = right(True, launch, "-v", "fakesrc", "!", "mysolver", "!", "fakesink", env=path)
    assert "mysolver" in said.text("gstreamer")
    right(False, launch, "fakesrc", "num-buffers=3", "!", "fakesink", env=path)
    said = doctor(launch, "playbin", "uri=file:///video", env=path)
    assert said.code == 3 and "chooses elements" in said.text("cannot-know")
    right(False, launch, "playbin", "uri=file:///video", env={**path, "GST_PLUGIN_PATH": "/nonexistent"})


# What starts others.

POOLED = PROGRAMS / "driver_opened"
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "false",
       "OMPI_MCA_rmaps_base_oversubscribe": "1"}


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here: install openmpi-bin")
@pytest.mark.parametrize("name", ["mpirun", "mpiexec"])
def test_the_programs_of_mpirun(right, doctor, tmp_path, name):
    right(True, name, "-n", "2", POOLED, env=MPI)
    right(True, name, "--mca", "btl", "self", "-x", "HOME", "-np", "1", POOLED, env=MPI)
    right(False, name, "-n", "2", "/bin/ls", env=MPI)
    right(True, name, "-n", "1", "/bin/ls", ":", "-n", "1", POOLED, env=MPI)
    right(True, name, "/bin/ls", ":", ":", POOLED, ":", env=MPI)
    for parts in ([":"], [":", POOLED], ["-n", "1", ":", POOLED], [POOLED, ":", "-n", "1"]):
        assert doctor(name, *parts).problems == {"nothing-started"}
    (tmp_path / "work.py").write_text(ALLOCATES)
    (tmp_path / "idle.py").write_text(HARMLESS)
    python = static_python() or shared_python()
    right(True, name, "-n", "1", python, "idle.py", ":", "-n", "1", python, "work.py", env=MPI)
    right(False, name, "-n", "2", python, "idle.py", env=MPI)
    assert doctor(name, "-n", "2").problems == {"nothing-started"}
    assert doctor(name, "-n", "2", "./absent").problems == {"missing"}


@pytest.mark.parametrize("words", [
    ["env", "-u", "B", "A=1"], ["nice", "-n", "5"], ["nice", "-n5"], ["timeout", "-k", "5", "60"],
    ["timeout", "--preserve-status", "60"], ["taskset", "1"], ["taskset", "-c", "0"], ["nohup"], ["setsid", "--wait"],
    ["stdbuf", "-o", "L"], ["ionice", "-c", "3"], ["chrt", "--other", "0"], ["time", "-o", "times"],
    ["prlimit", "--nofile=1000"], ["numactl", "-C", "0"], ["flock", "lock"], ["env", "nice", "timeout", "9"]])
def test_launchers(right, words):
    if not shutil.which(words[0]):
        pytest.skip(f"no {words[0]} here: install it")
    right(True, *words, POOLED)
    right(False, *words, "/bin/ls")


def test_launchers_that_are_not_installed_here_are_looked_through_as_well(doctor, build, tmp_path):
    for words in (["srun", "-n", "4", "--gres", "gpu:1", "-p", "name"], ["jsrun", "-n", "1", "-g", "1"],
                  ["numactl", "--cpunodebind", "0", "-m", "0"], ["nsys", "profile", "-o", "name", "--stats=true"]):
        (tmp_path / "bin").mkdir(exist_ok=True)
        script(tmp_path / "bin" / words[0], "#!/bin/sh\n")
        script(tmp_path / "bin/name", "#!/bin/sh\n")
        path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        assert doctor(*words, POOLED, env=path).code == 0
        assert doctor(*words, "/bin/ls", env=path).problems == {"no-cuda"}


@pytest.mark.parametrize("words", [["torchrun", "--nproc_per_node", "2"], ["accelerate", "launch"],
                                   ["torchrun", "--standalone", "-m"]])
def test_launchers_of_python_scripts(right, tmp_path, words):
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / words[0],
           "#!/bin/sh\nfor last; do :; done\ncase $last in *.py) exec python3 $last;; *) exec python3 -m $last;; esac\n")
    (tmp_path / "work.py").write_text(ALLOCATES)
    (tmp_path / "idle.py").write_text(HARMLESS)
    path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    end = "" if words[-1] == "-m" else ".py"
    right(True, *words, f"work{end}", env=path)
    right(False, *words, f"idle{end}", env=path)


def test_what_takes_the_preload_away_is_reported_with_the_command_that_works(doctor, truth, tmp_path):
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/sudo", '#!/bin/sh\nunset LD_PRELOAD\n[ "$1" = -u ] && shift 2\nexec "$@"\n')
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    for words in (["sudo", "-u", "root"], ["env", "-i", f"LD_LIBRARY_PATH={DRIVER}:{RUNTIME}"],
                  ["env", "-u", "LD_PRELOAD"], ["env", "LD_PRELOAD="]):
        said = doctor(*words, POOLED, env=path)
        assert said.problems == {"preload-lost"} and truth(*words, POOLED, env=path) == (0, 0)
        assert said.said["next"] == " ".join([*words, str(COMMAND), "run", "--", str(POOLED)])
        done = subprocess.run(["/bin/sh", "-c", said.said["next"]], env=environment(**path), capture_output=True,
                              text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0 and "poolcuda: figures in" in done.stderr, done.stderr
    assert doctor("ssh", "node", POOLED).problems <= {"preload-lost", "missing"}


# NVIDIA's runtime on the simulated GPU.

def nvcc():
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


OF_NVCC = """
#include <cstdio>
__global__ void kernel(int *p) { *p = 7; }
int main() {
    int *p, seven = 0;
    for (int i = 0; i < 20; i++) {
        cudaMalloc(&p, 100);
        kernel<<<1, 1>>>(p);
        cudaMemcpy(&seven, p, 4, cudaMemcpyDefault);
        cudaFree(p);
    }
    return seven != 7;
}
"""


@pytest.fixture(name="compiled")
def program_of_nvcc(tmp_path):
    """compiled(compiler, option...): a program of nvcc's in the test's folder."""
    if not nvcc():
        pytest.skip("no nvcc here: install CUDA's toolkit")

    def compile_it(compiler, *options):
        (tmp_path / "program.cu").write_text(OF_NVCC)
        subprocess.run([compiler, *options, "-o", tmp_path / "program", tmp_path / "program.cu"], check=True, capture_output=True,
                       env=os.environ | {"BUILD_DIR": str(BUILD)})
        return "./program"
    return compile_it


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_a_program_of_nvcc_is_refused_by_its_own_runtime_on_the_simulated_gpu(doctor, truth, compiled, kind):
    program = compiled(nvcc(), "-cudart", kind)
    path = {"LD_LIBRARY_PATH": f"{DRIVER}:{pathlib.Path(nvcc()).resolve().parents[1]}/lib64"}
    said = doctor(program, env=path)
    assert said.problems == {"runtime-refuses"} and "on a real GPU it would be pooled" in said.text("runtime-refuses")
    assert truth(program, env=path) == (0, 0) and truth.done.returncode != 0


def test_a_program_of_nvcc_runs_on_the_simulated_gpu_with_the_simulated_runtime_in_the_place_of_its_own(right, compiled):
    right(True, compiled(nvcc(), "-cudart", "shared"), env={"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}"})


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_a_program_of_simcuda_nvcc_is_pooled(right, compiled, kind):
    right(True, compiled(ROOT / "scripts/simcuda-nvcc", "-cudart", kind), env={"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}"})


@pytest.mark.skipif(not toolkit(), reason="no CUDA toolkit with NVIDIA's runtime here: install it")
def test_nvidias_shared_runtime_refuses_the_simulated_driver(doctor, build):
    program = build("program", NVIDIA_SOURCE, f"-L{toolkit()}", "-lcudart")
    assert doctor(program, env={"LD_LIBRARY_PATH": f"{DRIVER}:{toolkit()}"}).problems == {"runtime-refuses"}
    assert doctor(program).code == 0, "the simulated GPU's runtime is in its place"


# Programs that use none, or open what they need.

@pytest.mark.parametrize("words", [["/bin/ls"], ["/bin/cat", "/dev/null"], ["/usr/bin/id"], ["/bin/true"]])
def test_programs_of_the_system_have_nothing_to_pool(right, words):
    right(False, *words)


def test_a_library_that_a_program_opens_by_name_is_followed(right, build, tmp_path):
    build("lib/libsolver.so", ALLOCATING_LIBRARY.replace("FUNCTION", "work"), "-shared", "-fPIC", CUDART)
    program = """
        #include <dlfcn.h>
        int main(void) {
            void *library = dlopen("libsolver.so", RTLD_NOW);
            return !library || ((int (*)(void))dlsym(library, "work"))();
        }"""
    right(True, build("program", program, f"-Wl,-rpath,{tmp_path}/lib"))


def test_a_library_of_a_library_that_uses_cuda_is_seen(right, build, tmp_path):
    build("lib/libinner.so", ALLOCATING_LIBRARY.replace("FUNCTION", "inner"), "-shared", "-fPIC", CUDART)
    build("lib/libouter.so", "int inner(void);\nint outer(void) { return inner(); }", "-shared", "-fPIC",
          tmp_path / "lib/libinner.so", f"-Wl,-rpath,{tmp_path}/lib")
    right(True, build("program", "int outer(void);\nint main(void) { return outer(); }", tmp_path / "lib/libouter.so",
                      f"-Wl,-rpath,{tmp_path}/lib:{RUNTIME}"))


# What to do next.

def test_after_a_problem_the_next_step_is_its_remedy(build, tmp_path):
    shutil.copy(PROGRAMS / "driver_opened", tmp_path / "program")
    (tmp_path / "program").chmod(0o644)
    assert text_of(tmp_path / "program").endswith(f"\nnext: chmod +x {tmp_path}/program\n")
    assert text_of(PROGRAMS / "driver_opened", POOLCUDA_DISABLE="1").endswith("\nnext: unset POOLCUDA_DISABLE\n")
    asan = build("asan", MALLOC, "-fsanitize=address", CUDART)
    assert f"{COMMAND} run -- {asan}\n" in text_of(asan).splitlines(True)[-1]
    for arguments in (["/dev/null"], ["/bin/ls"], ["no-such-program"], [PROGRAMS / "libdeep_plugin.so"]):
        last = text_of(*arguments).splitlines()[-1]
        assert last.startswith("what to do: ") and f"doctor -- {arguments[0]}" not in last


def test_a_next_step_that_is_a_command_is_quoted(tmp_path):
    (tmp_path / "my folder").mkdir()
    for name, text in (("an app", OPENER.read_bytes()), ("a script", b"#!/bin/sh\n" + bytes(f"'{OPENER}'\n", "utf-8"))):
        path = tmp_path / "my folder" / name
        path.write_bytes(text)
        path.chmod(0o644)
        last = text_of(path).splitlines()[-1]
        assert last.startswith("next: chmod +x "), last
        subprocess.run(["sh", "-c", last.removeprefix("next: ")], check=True)
        assert os.access(path, os.X_OK) and path.stat().st_mode & 0o111


# Programs that were thought of when all of this was done.

def test_ld_so_as_a_launcher(right):
    for words in (["/lib64/ld-linux-x86-64.so.2"], ["/lib64/ld-linux-x86-64.so.2", "--library-path", f"{DRIVER}:{RUNTIME}"]):
        if not os.path.exists(words[0]):
            pytest.skip("another machine's ld.so")
        right(True, *words, POOLED)
        right(False, *words, "/bin/true")


@pytest.mark.parametrize("name", ["perf", "time.sh", "env", "python", "sudo"])
def test_a_program_of_the_users_own_that_is_called_like_another(right, tmp_path, name):
    shutil.copy(POOLED, tmp_path / name)
    right(True, f"./{name}")


def test_env_that_splits_a_text(right, doctor, truth):
    right(True, "env", "-S", f"A=1 {POOLED}")
    right(True, "env", "-vS", f"-u B 'A= 1'  \"{POOLED}\"", "argument")
    right(False, "env", "-S/bin/ls -l")
    said = doctor("env", "-S", "${PROGRAM}", env={"PROGRAM": str(POOLED)})
    assert said.code == 3 and "-S" in said.text("cannot-know")
    assert truth("env", "-S", "${PROGRAM}", env={"PROGRAM": str(POOLED)})[0] > 0


def test_a_shell_that_is_given_a_script_in_this_folder(right, doctor, tmp_path):
    (tmp_path / "job").write_text(f"cd .\nexec {POOLED}\n")
    right(True, "sh", "job")
    right(True, "bash", "-e", "job", "argument")
    right(True, "bash", "-lc", f"exec {POOLED}")
    right(True, "sh", "-c", 'exec "$@"', "name", POOLED)
    (tmp_path / "job").write_text("ls\n")
    assert "cannot all be told" in doctor("sh", "job").text("cannot-know")
    assert "is given no script" in doctor("sh").text("cannot-know")


def test_starters_that_no_table_has(right, doctor):
    for words in (["xargs", "-n", "1"], ["find", "/dev/null", "-exec"]):
        right(True, *words, POOLED, *([";"] if words[0] == "find" else []))
    right(False, "xargs", "/bin/ls")
    right(False, "find", "/dev/null", "-name", POOLED)
