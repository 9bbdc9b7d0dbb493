"""A small training loop in PyTorch. With its own cache or, PYTORCH_NO_CUDA_MEMORY_CACHING=1, without."""

import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # deterministic algorithms refuse to run without it

from python_common import need, result, timed  # noqa: E402  the environment comes first

torch = need("torch")
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
device = torch.device("cuda:0")
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 64))
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(256, 512).to(device)
targets = torch.randint(0, 64, (256,)).to(device)
torch.cuda.synchronize()
with timed("training"):
    for _ in range(200):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
result("loss", loss.detach().cpu().numpy().tobytes())
result("weights", b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))
