"""The clients: programs of others, or of ours over the interfaces of others, each from packages at pinned versions.

name        what documents and results call it
packages    all that pip installs for it, each at one version, in a virtual environment below build/clients
command     what runs, in an empty folder; PYTHON is that environment's, HERE the folder of this file
outcome     a regular expression that finds the outcomes of its tests in what it prints: a name, and what came out
always      whether it runs without --all
allocations how many it makes at least: a client that makes fewer proves little
mistakes    bad frees that it makes on purpose: CHECK must report exactly these
settings    of the simulated GPU
idle        modes in which the pool does nothing for it, and why
varying     calls whose number depends on how the client's own threads take turns
"""

import dataclasses

BINDINGS = ("cuda-bindings==13.5.0", "cuda-pathfinder==1.9.0")
CORE = (*BINDINGS, "cuda-core==1.2.2", "numpy==2.4.6")
NUMBA = (*CORE, "numba==0.68.1", "numba-cuda==0.30.4", "llvmlite==0.50.0", "packaging==26.3", "nvidia-cuda-nvcc-cu12==12.9.86",
         "nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-nvjitlink-cu12==12.9.86", "cffi==2.1.1", "pycparser==3.12", "cloudpickle==3.1.2",
         "ml_dtypes==0.6.0", "filecheck==1.0.6", "psutil==7.2.2", "pytest==9.2.0", "iniconfig==2.3.1", "pluggy==1.7.0", "Pygments==2.21.0")
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
    varying: tuple = ()


CLIENTS = (
    Client("cuda-bindings", BINDINGS, ("PYTHON", "HERE/programs/bindings.py"), OUTCOME, mistakes=2),
    Client("cuda-core", CORE, ("PYTHON", "HERE/programs/core.py"), OUTCOME),
    Client("numba-cuda", NUMBA, ("PYTHON", "HERE/programs/unittests.py", "numba.cuda.tests.cudadrv"), OUTCOME, always=False,
           settings={"SIMCUDA_KERNELS": "skip", "SIMCUDA_MEMORY": "1G"}, varying=("cuDeviceGetCount",)),
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
