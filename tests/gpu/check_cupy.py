"""CuPy with its own pool switched off, so that every array is a cudaMalloc."""

from python_common import need, result, timed

cupy = need("cupy")
cupy.cuda.set_allocator(None)
cupy.cuda.set_pinned_memory_allocator(None)
values = cupy.arange(1 << 20, dtype=cupy.float32)
cupy.cuda.Device().synchronize()
with timed("loop"):
    for i in range(300):
        scaled = values * 1.0001
        shifted = scaled + i
        values = cupy.sqrt(shifted * shifted)
    cupy.cuda.Device().synchronize()
result("values", cupy.asnumpy(values).tobytes())
result("sorted", cupy.asnumpy(cupy.sort(-values)).tobytes())
