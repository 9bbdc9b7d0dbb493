"""The pages of pooled programs, which are memory that others can join: its number stands in the page's entry in the folder."""

import ctypes
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p
LIBC.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
LIBC.shmdt.argtypes = [ctypes.c_void_p]
LIBC.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
REMOVE, CREATE = 0, 0o1000

SIZE_AT = 128 + 128 * 128 + 16  # behind the banner, the caches' shards and four numbers
PROCESS_AT = SIZE_AT + 24
SEGMENT_AT = PROCESS_AT + 56
MAILBOX_AT = SEGMENT_AT + 8


def number(entry):
    """The number of the memory."""
    return struct.unpack_from("<I", entry.read_bytes(), SEGMENT_AT)[0] - 1


class Joined:
    """The page of an entry, for as long as it takes: `memory` is it itself."""

    def __init__(self, entry):
        head = entry.read_bytes()
        size = struct.unpack_from("<Q", head, SIZE_AT)[0]
        self.address = LIBC.shmat(struct.unpack_from("<I", head, SEGMENT_AT)[0] - 1, None, 0)
        assert self.address != ctypes.c_void_p(-1).value, f"{entry}: its page is gone"
        self.memory = memoryview((ctypes.c_char * size).from_address(self.address)).cast("B")

    def __enter__(self):
        return self.memory

    def __exit__(self, *_):
        self.memory.release()
        LIBC.shmdt(self.address)


def read(entry):
    with Joined(entry) as memory:
        return bytes(memory)


def put(entry, page):
    """Makes a page and its entry. Its memory goes with whoever ends it, or with forget()."""
    made = LIBC.shmget(0, len(page), CREATE | 0o600)
    address = LIBC.shmat(made, None, 0)
    page = bytearray(page)
    struct.pack_into("<I", page, SEGMENT_AT, 1 + made)
    ctypes.memmove(address, bytes(page), len(page))
    LIBC.shmdt(address)
    entry.write_bytes(page[:MAILBOX_AT + 8192])
    return made


def forget(made):
    LIBC.shmctl(made, REMOVE, None)


def exists(made):
    status, stat = ctypes.create_string_buffer(1024), 2
    return LIBC.shmctl(made, stat, status) == 0
