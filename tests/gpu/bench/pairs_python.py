"""The cost of one allocation and free by size in the pool of CuPy or of PyTorch: pairs_python.py cupy|torch.

Prints what pairs.cu prints. A batch's loop and calls are Python's: that is what a program in Python pays."""

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from python_common import need  # noqa: E402  it lies one folder up

BATCHES, MOST_PAIRS, BATCH_S = 7, 2000, 0.01


def pair_of(library):
    """A function that allocates so many bytes and frees them again; the error that says they do not fit."""
    if library == "cupy":
        cupy = need("cupy")
        cupy.cuda.Device(0).use()

        def pair(size):
            cupy.cuda.alloc(size)  # freed with the last reference: at once
        return pair, cupy.cuda.memory.OutOfMemoryError
    torch = need("torch")
    torch.zeros(1, device="cuda:0")

    def pair(size):
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(size))
    return pair, torch.cuda.OutOfMemoryError


def batch(pair, size, pairs):
    """Nanoseconds per pair."""
    started = time.perf_counter_ns()
    for _ in range(pairs):
        pair(size)
    return (time.perf_counter_ns() - started) / pairs


def main():
    pair, does_not_fit = pair_of(sys.argv[1])
    size = 1
    while size <= 8 << 30:
        try:
            batch(pair, size, 3)
            pairs = int(min(MOST_PAIRS, max(1, BATCH_S * 1e9 / batch(pair, size, 3))))
            each = [batch(pair, size, pairs) for _ in range(BATCHES)]
            print(f"pair {size} {statistics.median(each):.1f} {min(each):.1f} {max(each):.1f}", flush=True)
        except does_not_fit:
            pass
        size *= 16 if size < 4096 else 4 if size < 4 << 30 else 2  # as in pairs.cu


if __name__ == "__main__":
    main()
