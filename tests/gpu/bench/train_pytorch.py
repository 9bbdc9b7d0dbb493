"""A training loop in PyTorch whose time and losses are printed as bench.cuh prints those of its programs. With
PYTORCH_NO_CUDA_MEMORY_CACHING=1 PyTorch calls cudaMalloc and cudaFree for each tensor."""

import ctypes
import os
import pathlib
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # deterministic algorithms refuse to run without it
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from python_common import need, result  # noqa: E402  the environment comes first

WARM_UP, STEPS = 10, 100


def main():
    torch = need("torch")
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cuda:0")
    layers = [torch.nn.Linear(1024, 4096)]
    for _ in range(6):
        layers += [torch.nn.GELU(), torch.nn.Linear(4096, 4096)]
    model = torch.nn.Sequential(*layers, torch.nn.GELU(), torch.nn.Linear(4096, 64)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = torch.randn(512, 1024).to(device)
    targets = torch.randint(0, 64, (512,)).to(device)
    process = ctypes.CDLL(None)
    counted = hasattr(process, "inside_begin")
    loss = None
    for step in range(WARM_UP + STEPS):
        if step == WARM_UP:
            torch.cuda.synchronize()
            if counted:
                process.inside_begin()
            started = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    print(f"time pytorch {time.perf_counter() - started:.6f}")
    if counted:
        process.inside_seconds.restype = ctypes.c_double
        print(f"inside pytorch {process.inside_seconds():.6f}")
    result("loss", loss.detach().cpu().numpy().tobytes())


if __name__ == "__main__":
    main()
