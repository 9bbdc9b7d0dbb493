"""NVIDIA's own runtimes, static and shared, new and old, receive our hooks.

They check the driver's integrity and refuse the simulated one; by then they have resolved their
functions, which is all that is looked at here.
"""

import os
import pathlib
import re
import shutil
import subprocess

import guard
import pytest
from conftest import BUILD, DRIVER, LIBRARY

SOURCE = """
#include <stddef.h>
extern int cudaGetDeviceCount(int *);
extern int cudaMalloc(void **, size_t);
#include <stdio.h>
int main(void) {
    int count = 0;
    void *pointer = 0;
    int first = cudaGetDeviceCount(&count), second = cudaMalloc(&pointer, 100);
    printf("%d %d\\n", first, second);
    return 0;
}
"""


def compile_with(folder, arguments):
    source = folder / "program.c"
    source.write_text(SOURCE)
    program = folder / "program"
    subprocess.run(["cc", source, "-o", program, *map(str, arguments)], check=True)
    return program


def toolkit():
    """The library folder of the toolkit or pip package that the headers come from."""
    nvcc = shutil.which("nvcc")
    places = [os.environ.get("CUDA_HOME", "/nowhere"), "/usr/local/cuda"]
    if nvcc:
        places.append(str(pathlib.Path(nvcc).resolve().parents[1]))
    for place in places:
        for name in ("lib64", "lib"):
            if (pathlib.Path(place) / name / "libcudart_static.a").exists():
                return pathlib.Path(place) / name
    return None


def routes(program, libraries):
    """What the report says of interception after the runtime has resolved its functions."""
    stats = program.parent / "stats"
    stats.unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "POOLCUDA_"))}
    environment.update(LD_PRELOAD=str(LIBRARY), POOLCUDA_STATS_FILE=str(stats), POOLCUDA_STATS="1",
                       LD_LIBRARY_PATH=":".join(map(str, [DRIVER, *libraries])))
    done = guard.run([program], env=environment, capture_output=True, text=True,
                     check=False)
    assert done.returncode == 0, done.stderr
    return re.search(r"interception: (.*)", stats.read_text()).group(1)


def hooked(line, route):
    found = re.search(rf"(\d+) {route} lookups", line)
    return int(found.group(1)) if found else 0


STATIC = ["-lcudart_static", "-ldl", "-lpthread", "-lrt"]


@pytest.mark.parametrize("link", [STATIC, ["-lcudart"]], ids=["static", "shared"])
def test_the_toolkits_runtime_receives_our_hooks(tmp_path, link):
    folder = toolkit()
    if not folder:
        pytest.skip("NVIDIA's runtime is not here: package nvidia-cuda-dev, or CUDA's cuda-cudart-dev")
    program = compile_with(tmp_path, [f"-L{folder}", *link])
    line = routes(program, [folder])
    assert hooked(line, "cuGetProcAddress_v2") >= 10, line


def test_a_program_linked_by_nvcc_receives_our_hooks(tmp_path):
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc here: package nvidia-cuda-toolkit, or CUDA's cuda-nvcc")
    source = tmp_path / "program.cu"
    source.write_text("""
#include <cstdio>
__global__ void kernel(int *to) { *to = 1; }
int main() {
    int *pointer = nullptr;
    std::printf("%d\\n", (int)cudaMalloc(&pointer, 4));
    kernel<<<1, 1>>>(pointer);
}
""")
    program = tmp_path / "program"
    subprocess.run(["nvcc", source, "-o", program], check=True)
    assert hooked(routes(program, []), "cuGetProcAddress_v2") >= 10


OLD = [("nvidia-cuda-runtime-cu12==12.9.79", "cuGetProcAddress_v2"),
       ("nvidia-cuda-runtime-cu12==12.1.105", "cuGetProcAddress_v2"),
       ("nvidia-cuda-runtime-cu11==11.8.89", "cuGetProcAddress"),
       ("nvidia-cuda-runtime-cu11==11.7.99", "cuGetProcAddress")]


@pytest.mark.parametrize("package, route", OLD, ids=lambda p: p.split("==")[-1])
def test_older_runtimes_from_pip_receive_our_hooks(tmp_path, package, route):
    target = BUILD / "old-runtimes" / package.replace("==", "-")
    if not list(target.rglob("libcudart.so.*")):
        done = subprocess.run(
            ["/usr/bin/python3", "-m", "pip", "install", "-q", "--disable-pip-version-check",
             "--no-deps", "--target", target, package], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{package} is not to be had by pip: package python3-pip and a network: "
                        f"{done.stderr.strip()[-200:]}")
    library = next(target.rglob("libcudart.so.*"))
    program = compile_with(tmp_path, [library, f"-Wl,-rpath,{library.parent}"])
    line = routes(program, [library.parent])
    assert hooked(line, route) >= 10, line
