"""A client of tinygrad's CUDA device: tensors and buffers go there and come back, without kernels. Each test prints its name, and
what came out of it."""

import random

import numpy
from tinygrad import Device, Tensor
from tinygrad.device import Buffer, BufferSpec
from tinygrad.dtype import dtypes

DEVICE = "CUDA"
ROUNDS = 40


def numbers(count, seed):
    """As many bytes."""
    return numpy.frombuffer(bytearray(random.Random(seed).randbytes(count)), dtype=numpy.uint8)


def filled(data, options=None):
    """A buffer of the device with these bytes."""
    host = Buffer("CPU", data.size, dtypes.uint8).allocate()
    host.as_memoryview(force_zero_copy=True)[:] = memoryview(data)
    return Buffer(DEVICE, data.size, dtypes.uint8, options=options).allocate().copy_from(host)


def wrong_in(buffer, data):
    """How many bytes of the buffer are others."""
    return int((buffer.numpy() != data).sum())


def tensors_come_back():
    """What is kept by nobody goes back to the allocator's own list, and to the driver when that is emptied."""
    wrong = 0
    for i in range(ROUNDS):
        data = numbers(10000 + i % 4 * 70000, i)
        wrong += int((Tensor(data).to(DEVICE).realize().numpy() != data).sum())
        if i % 2:
            Device[DEVICE].allocator.free_cache()
    return wrong


def buffers_come_back():
    """Buffers that the allocator does not keep when they are freed."""
    wrong = 0
    for i in range(ROUNDS):
        data = numbers(30000 + i % 3 * 50000, i)
        buffer = filled(data, BufferSpec(nolru=True))
        wrong += wrong_in(buffer, data)
        buffer.deallocate()
    return wrong


def a_part_of_a_buffer():
    """A view of a buffer has its bytes."""
    wrong = 0
    for i in range(ROUNDS):
        data = numbers(40000, i)
        whole = filled(data, BufferSpec(nolru=True))
        part = whole.view(1000, dtypes.uint8, 2000 + i).allocate()
        wrong += wrong_in(part, data[2000 + i:3000 + i])
        part.deallocate()
        whole.deallocate()
    return wrong


def main():
    """All tests, in the order in which they stand here."""
    for test in (tensors_come_back, buffers_come_back, a_part_of_a_buffer):
        try:
            print(f"{test.__name__}: {test()} bytes wrong", flush=True)
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(f"{test.__name__}: FAILED {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
