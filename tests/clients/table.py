#!/usr/bin/env python3
"""The clients: programs of others, or of ours over the interfaces of others, each from packages at pinned versions.

Run as a program it prints what scripts/test installs: table.py --packages [--all], the clients' packages of Debian.

name        what documents and results call it
packages    all that pip installs for it, each at one version, in a virtual environment: its own folder, below build/clients
command     what runs, in an empty folder; {own} is the client's own folder, {python} the Python there, {here} the folder of this file,
            {driver} the folder of the simulated GPU's driver, {simcuda-nvcc} the script of that name
outcome     a regular expression that finds the outcomes of its tests in what it prints: a name, and what came out
always      whether it runs without --all
allocations how many it makes at least: a client that makes fewer proves little
mistakes    bad frees that it makes on purpose: CHECK must report exactly these
settings    of the simulated GPU
idle        modes in which the pool does nothing for it, and why
unserved    modes that are declared not to serve it, and so do not run, and why
varying     calls whose number depends on how the client's own threads take turns, or on the time
debs        the packages of Debian 12 that have it
make        commands that make it ready, once, in its own folder
"""

import dataclasses
import sys

BINDINGS = ("cuda-bindings==13.5.0", "cuda-pathfinder==1.9.0")
CORE = (*BINDINGS, "cuda-core==1.2.2", "numpy==2.4.6")
NUMBA = (*CORE, "numba==0.68.1", "numba-cuda==0.30.4", "llvmlite==0.50.0", "packaging==26.3", "nvidia-cuda-nvcc-cu12==12.9.86",
         "nvidia-cuda-nvrtc-cu12==12.9.86", "cffi==2.1.1", "pycparser==3.12", "cloudpickle==3.1.2",
         "ml_dtypes==0.6.0", "filecheck==1.0.6", "psutil==7.2.2", "pytest==9.2.0", "iniconfig==2.3.1", "pluggy==1.7.0", "Pygments==2.21.0")
RANKS = (*BINDINGS, "mpi4py==4.1.2")
TINYGRAD = ("tinygrad==0.14.0", "numpy==2.4.6")
NVCC = ("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-runtime==13.0.96")
NVRTC = ("nvidia-cuda-nvrtc==13.0.88",)
CCCL = (*NVCC, "nvidia-cuda-cccl==13.0.85")
PYCUDA = (*NVCC, "pytools==2026.1.1", "Mako==1.4.3", "MarkupSafe==3.0.4", "numpy==2.4.6", "platformdirs==4.14.7",
          "siphash24==1.9", "typing_extensions==4.16.0", "pytest==9.2.0", "iniconfig==2.3.1", "packaging==26.3", "pluggy==1.7.0",
          "Pygments==2.21.0")
CU13 = "{own}/lib/python3.11/site-packages/nvidia/cu13"
COMPILE = ("env", f"NVCC={CU13}/bin/nvcc", "{simcuda-nvcc}", "-O1", "--extended-lambda")
GCC = ("gcc-12", "gcc-12-offload-nvptx")
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
NVPTX = ("-foffload=nvptx-none", "-foffload-options=nvptx-none=-Wa,--no-verify")
CLOCKED = ("cuEventElapsedTime", "cuEventRecord", "cuEventSynchronize", "cuFuncSetAttribute", "cuLaunchKernel", "cuMemcpyDtoDAsync_v2",
           "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize")  # as often as the time allows
SKIP = {"SIMCUDA_KERNELS": "skip"}
OUTCOME = r"^([\w.]+): (.*)$"


@dataclasses.dataclass(frozen=True)
class Client:
    """A row; its columns are explained above."""

    name: str
    packages: tuple
    command: tuple
    outcome: str
    always: bool = True
    allocations: int = 100
    mistakes: int = 0
    settings: dict = dataclasses.field(default_factory=dict)
    idle: dict = dataclasses.field(default_factory=dict)
    unserved: dict = dataclasses.field(default_factory=dict)
    varying: tuple = ()
    debs: tuple = ()
    make: tuple = ()


CLIENTS = (
    Client("cuda-bindings", BINDINGS, ("{python}", "{here}/programs/bindings.py"), OUTCOME, mistakes=2),
    Client("cuda-core", CORE, ("{python}", "{here}/programs/core.py"), OUTCOME),
    Client("openmpi", RANKS, (*MPIRUN, "{python}", "{here}/programs/ranks.py", "exchanges_over_the_host"), OUTCOME, debs=("openmpi-bin",)),
    Client("openmpi-ipc", RANKS, (*MPIRUN, "{python}", "{here}/programs/ranks.py", "memory_of_the_other_rank"), OUTCOME, debs=("openmpi-bin",),
           unserved=dict.fromkeys(("bfc", "vmm", "paddle"), "a block is no allocation of its own (docs/policies.md)") |
           {"CHECK": "a block lies between zones (docs/check.md)"}),
    Client("clang-openmp", NVCC[:2], ("{own}/offload",), OUTCOME, settings={"OMP_TARGET_OFFLOAD": "MANDATORY"},
           debs=("clang-14", "libomp-14-dev"),
           make=(*(("ln", "-sf", f"{{here}}/programs/ptx/{tool}", f"{CU13}/bin/{tool}") for tool in ("ptxas", "nvlink")),
                 ("env", "LD_LIBRARY_PATH={driver}", "clang-14", "-O1", "-fopenmp", "-fopenmp-targets=nvptx64-nvidia-cuda", "-Xopenmp-target",
                  "-march=sm_75", f"--cuda-path={CU13}", "-Wno-unknown-cuda-version", "-Wl,-rpath,/usr/lib/llvm-14/lib",
                  "{here}/programs/offload.c", "-o", "offload"))),
    Client("tinygrad", TINYGRAD, ("{python}", "{here}/programs/tensors.py"), OUTCOME, always=False),
    Client("tinygrad-network", TINYGRAD + NVRTC, ("{python}", "{here}/programs/network.py"), OUTCOME, always=False,
           settings={"DEV": "CUDA", "PARALLEL": "0", "SIMCUDA_MEMORY": "1G", "LD_LIBRARY_PATH": f"{{driver}}:{CU13}/lib"}),
    Client("ffmpeg", (), ("bash", "{here}/programs/frames.sh", "{own}"), OUTCOME, always=False, settings=SKIP, debs=("ffmpeg",),
           make=(("bash", "{here}/programs/segments.sh"),)),
    Client("gcc-openmp", (), ("{own}/offload",), OUTCOME, always=False, settings={"OMP_TARGET_OFFLOAD": "MANDATORY"}, debs=GCC,
           make=(("gcc-12", "-O1", "-fopenmp", *NVPTX, "{here}/programs/offload.c", "-o", "offload"),)),
    Client("gcc-openacc", (), ("{own}/openacc",), OUTCOME, always=False, debs=GCC,
           make=(("gcc-12", "-O1", "-fopenacc", *NVPTX, "{here}/programs/openacc.c", "-o", "openacc"),)),
    Client("hashcat", NVRTC, ("bash", "{here}/programs/hashes.sh", "{own}"), OUTCOME, always=False, debs=("hashcat", "hashcat-data"),
           settings=SKIP | {"SIMCUDA_MEMORY": "1G", "LD_LIBRARY_PATH": f"{{driver}}:{CU13}/lib"}, varying=CLOCKED,
           idle=dict.fromkeys(("default", "sync", "defer", "futhark", "pyopencl", "ASYNC", "MANAGED"),
                              "each context allocates all its blocks before it frees one"),
           make=(("ln", "-s", "libnvrtc.so.13", f"{CU13}/lib/libnvrtc.so"),
                 ("env", "SIMCUDA_KERNELS=skip", "SIMCUDA_MEMORY=1G", f"LD_LIBRARY_PATH={{driver}}:{CU13}/lib", "bash",
                  "{here}/programs/hashes_made.sh"))),
    Client("pycuda", PYCUDA, ("{python}", "-m", "pytest", "-v", "--tb=no", "-p", "no:cacheprovider", "{own}/pycuda-2026.1/test"),
           r"^\S*(test_\w+\.py::\S+) ([A-Z]\w+)", always=False, debs=("g++", "python3-dev"),
           settings={"SIMCUDA_MEMORY": "1G", "XDG_CACHE_HOME": "{own}/cache", "CUDA_ROOT": CU13,
                     "PATH": f"{{here}}/programs/ptx:{CU13}/bin:/usr/bin:/bin"},
           make=(("ln", "-s", "lib", f"{CU13}/lib64"),
                 ("{python}", "-m", "pip", "download", "-q", "--no-deps", "--no-binary=pycuda", "pycuda==2026.1"),
                 ("tar", "xf", "pycuda-2026.1.tar.gz"),
                 ("env", f"PATH={CU13}/bin:/usr/bin:/bin", f"CUDA_ROOT={CU13}", f"LDFLAGS=-L{{driver}} -L{CU13}/lib", "{python}", "-m", "pip",
                  "install", "-q", "--no-deps", "./pycuda-2026.1"))),
    Client("thrust", CCCL, ("{own}/thrust",), OUTCOME, always=False, settings={"SIMCUDA_MEMORY": "64M"}, debs=("g++",),
           make=((*COMPILE, "{here}/programs/thrust.cu", "-o", "thrust"),)),
    Client("cub", CCCL, ("{own}/cub",), OUTCOME, always=False, settings={"SIMCUDA_MEMORY": "64M"}, debs=("g++",),
           make=((*COMPILE, "{here}/programs/cub.cu", "-o", "cub"),)),
    Client("numba-cuda", NUMBA, ("{python}", "{here}/programs/unittests.py", "-nvJitLink", "numba.cuda.tests.cudadrv"), OUTCOME, always=False,
           settings={"SIMCUDA_MEMORY": "1G"}, varying=("cuDeviceGetCount",)),
)

MODES = {
    "default": {},
    "sync": {"POOLCUDA_FREE": "sync"},
    "defer": {"POOLCUDA_FREE": "defer"},
    **{preset: {"POOLCUDA_PRESET": preset} for preset in ("bfc", "vmm", "paddle", "futhark", "pyopencl")},
    "ASYNC": {"POOLCUDA_ASYNC": "1"},
    "MANAGED": {"POOLCUDA_MANAGED": "1"},
    "CHECK": {"POOLCUDA_CHECK": "1"},
}


def main():
    """As the head of this file says."""
    every = sys.argv[1:] == ["--packages", "--all"]
    if sys.argv[1:] != ["--packages"] and not every:
        sys.exit(f"table.py: {' '.join(sys.argv[1:]) or 'no argument'}: expected --packages [--all]")
    print(*sorted({package for client in CLIENTS if client.always or every for package in client.debs}))


if __name__ == "__main__":
    main()
