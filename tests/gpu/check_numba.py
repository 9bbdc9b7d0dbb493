"""Numba: arrays allocated in a loop through the driver API."""

from python_common import need, result, timed

numpy = need("numpy")
cuda = need("numba.cuda")


@cuda.jit
def scale(to, source, factor):
    i = cuda.grid(1)
    if i < to.size:
        to[i] = source[i] * factor


host = numpy.arange(1 << 18, dtype=numpy.float32)
with timed("loop"):
    for i in range(200):
        source = cuda.to_device(host)
        to = cuda.device_array_like(host)
        scale[(host.size + 255) // 256, 256](to, source, numpy.float32(1.0 + i % 3))
        last = to.copy_to_host()
        del source, to
result("last", last.tobytes())
