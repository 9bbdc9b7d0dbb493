"""A client of cuda-core: each test prints its name, and what came out of it, or the error that ended it."""

import ctypes

from cuda.bindings import driver as cuda
from cuda.core import Device, LegacyPinnedMemoryResource

DEVICE = Device()
DEVICE.set_current()


def bytes_of(buffer, count, stream):
    """The first bytes of a buffer, once its stream is done."""
    host = (ctypes.c_ubyte * count)()
    error, = cuda.cuMemcpyDtoHAsync(ctypes.addressof(host), int(buffer.handle), count, int(stream.handle))
    if error != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(error.name)
    stream.sync()
    return list(host)


def test_buffers_of_the_device():
    stream, found = DEVICE.create_stream(), []
    for step in range(120):
        buffer = DEVICE.allocate(512 * (1 + step % 6), stream=stream)
        buffer.fill(step.to_bytes(1, "little"), stream=stream)
        found.append((buffer.size, bytes_of(buffer, 2, stream)))
        buffer.close(stream)
    return found


def test_copies_between_buffers():
    stream, found = DEVICE.create_stream(), []
    for step in range(40):
        one, other = (DEVICE.allocate(4096, stream=stream) for _ in range(2))
        one.fill(step.to_bytes(1, "little"), stream=stream)
        one.copy_to(other, stream=stream)
        found.append(bytes_of(other, 3, stream))
        one.close(stream)
        other.close(stream)
    return found


def test_pinned_buffers():
    pinned, found = LegacyPinnedMemoryResource(), []
    for step in range(20):
        buffer = pinned.allocate(4096)
        ctypes.memset(int(buffer.handle), step, 4096)
        found.append((buffer.is_host_accessible, ctypes.string_at(int(buffer.handle), 2)))
        buffer.close()
    return found


def test_events_of_streams():
    stream, other = DEVICE.create_stream(), DEVICE.create_stream()
    event = stream.record()
    other.wait(event)
    other.sync()
    return event.is_done


def main():
    """All tests; one that fails ends none of the others."""
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            try:
                print(f"{name}: {test()}", flush=True)
            except Exception as error:  # pylint: disable=broad-exception-caught # what failed natively is compared
                print(f"{name}: FAILED {type(error).__name__}: {error}", flush=True)


main()
