"""JAX with its platform allocator, so that every buffer is an allocation of the driver's."""

import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
os.environ["JAX_PLATFORMS"] = "cuda"

from python_common import need, result, timed  # noqa: E402  the environment comes first

jax = need("jax")
numpy = need("numpy")
values = jax.numpy.arange(1 << 18, dtype=jax.numpy.float32)
step = jax.jit(lambda x, i: jax.numpy.sqrt(x * x + i))
step(values, 0.0).block_until_ready()
with timed("loop"):
    for i in range(200):
        values = step(values, float(i % 5))
    values.block_until_ready()
result("values", numpy.asarray(values).tobytes())
