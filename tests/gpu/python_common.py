"""What the Python checks share: the output protocol of gpu_program.cuh."""

import hashlib
import sys
import time

SKIPPED = 77


def need(name):
    """Imports a module, or ends the check as skipped."""
    try:
        return __import__(name, fromlist=["_"])
    except Exception as error:  # an installed package may fail in many ways without its GPU parts
        print(f"skip no usable {name}: {type(error).__name__}")
        sys.exit(SKIPPED)


def result(name, data):
    """Reports bytes that must be the same with and without the pool."""
    print(f"result {name} {hashlib.sha256(data).hexdigest()}", flush=True)


class timed:
    """with timed(NAME): reports how long the block took."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.started = time.perf_counter()

    def __exit__(self, *_):
        print(f"time {self.name} {time.perf_counter() - self.started:.6f}", flush=True)
