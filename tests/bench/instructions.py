"""instructions.py BUILD: holds the pool to its bars on instructions and bytes (COUNTED in bars.py). Part of the tests.

Nothing here depends on time. Each value is measured by a short run under callgrind on a driver that does next to nothing
(null_driver.c), or is read from the kernel's account of a program's memory.
"""

import pathlib
import sys
import tempfile

import bars
import counting
import policies

OPERATIONS = 20000
TRIES = 3
FEW, MANY, BLOCKS = 1000, 100000, 200000
BEYOND = {"POOLCUDA_SITE_SKIP": "workload-driver!site_*"}  # its own functions that allocate are go-betweens
TAGGED = {"WORKLOAD_TAG": "benchmark"}  # the site is given, so that none has to be found


def begin(counts):
    """Starts all runs, so that they go on side by side."""
    counts.start("driver", "live", OPERATIONS, MANY)
    for name in ("driver", "static", *counting.allocators(counts.build)):
        counts.start(name, "pair", OPERATIONS)
        counts.start(name, "set", OPERATIONS)
    counts.start("static", "pair", OPERATIONS, **TAGGED)
    counts.start("driver", "pair", OPERATIONS, **BEYOND)
    counts.start("driver", "live", OPERATIONS, FEW)
    counts.start("driver", "never", OPERATIONS)
    counts.start("driver", "never_idle", OPERATIONS)
    counts.start("driver", "new_sizes", OPERATIONS)


def require_hits(counted, what):
    """Refuses a run that did not measure what it is for: no wait, and next to no malloc that asked the driver. And one
    whose hits make system calls or take memory of the heap: they would be seen in libc, where only the clock may be."""
    waits, misses = int(counted.printed["waits"]), int(counted.printed["misses"])
    if waits or misses > counted.mallocs / 500:
        raise RuntimeError(f"{what}: {misses} misses and {waits} waits in {counted.operations} operations, expected none")
    elsewhere = sum(cost for (_, place, function), cost in counted.by_function.items()
                    if place.startswith("libc.") and function != "clock_gettime")
    if elsewhere > counted.operations / 2:
        raise RuntimeError(f"{what}: {elsewhere} instructions in libc in {counted.operations} operations, expected next to none: "
                           "a hit makes no system call and takes no memory")


def trace_cost(counts, kind="pair"):
    """Instructions per recorded event: the same run with a trace, less the run without. A write to the file comes every
    0.1 ms, however many events that are: its instructions are left out."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = counts.get("driver", kind, OPERATIONS, POOLCUDA_TRACE=f"{folder}/trace")
    if not recorded.total("paced"):
        raise RuntimeError(f"{counting.PACED}: not called while a trace is recorded, so its instructions cannot be left out")
    return recorded.operation() - counts.get("driver", kind, OPERATIONS).operation()


def recorded_cost(counts):
    """Instructions per operation of the recorded program that takes most, of those at hand."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: f"{folder}/{name}" for name in policies.traces()}
        runs = [counts.start("driver", "trace", min(policies.operations_of(trace, paths[name]), OPERATIONS), paths[name])
                for name, trace in policies.traces().items()]
        return max(run.result().operation() for run in runs)


def block_bytes(build, blocks):
    """Bytes of the program's memory that each of so many live blocks takes, beyond what it takes without the pool."""
    pooled, native = (counting.run(build, "workload-driver", "live", 2, blocks, pooled=pooled) for pooled in (True, False))
    return ((int(pooled["filled"]) - int(pooled["start"])) - (int(native["filled"]) - int(native["start"]))) / blocks


def start_bytes(build, what="start"):
    """Bytes that the process has more with the pool than without, after its first allocation."""
    pooled, native = (counting.run(build, "workload-driver", "pair", 2, pooled=pooled) for pooled in (True, False))
    return int(pooled[what]) - int(native[what])


def never_device(build):
    """Device memory of a program that never frees, under the pool by natively."""
    pooled, native = (counting.run(build, "workload-driver", "never", OPERATIONS, pooled=pooled) for pooled in (True, False))
    return int(pooled["device"]) / int(native["device"])


def values(counts):
    """{name in bars.COUNTED: value}; without those whose reference could not be built."""
    begin(counts)
    build = counts.build
    found = {"block_bytes": block_bytes(build, BLOCKS), "start_bytes": start_bytes(build) / 1024,
             "never_device": never_device(build), "trace": trace_cost(counts), "recorded": recorded_cost(counts)}
    pair, several = (counts.get("driver", kind, OPERATIONS) for kind in ("pair", "set"))
    static = counts.get("static", "pair", OPERATIONS)
    beyond = counts.get("driver", "pair", OPERATIONS, **BEYOND)
    found.update(beyond_malloc=beyond.malloc() - pair.malloc(), hit_malloc=pair.malloc(), hit_free=pair.free(), set_malloc=several.malloc(), set_free=several.free(),
                 static_site=static.malloc() - counts.get("static", "pair", OPERATIONS, **TAGGED).malloc(),
                 static_malloc=static.malloc() - pair.malloc(), static_free=static.free() - pair.free(),
                 miss_never=counts.get("driver", "never", OPERATIONS).malloc(),
                 miss_idle=counts.get("driver", "never_idle", OPERATIONS).malloc(),
                 miss_sizes=counts.get("driver", "new_sizes", OPERATIONS).malloc(),
                 live=counts.get("driver", "live", OPERATIONS, MANY).operation() /
                 counts.get("driver", "live", OPERATIONS, FEW).operation())
    for what, counted in (("pair", pair), ("set", several), ("pair, static runtime", static), ("pair, go-between", beyond)):
        require_hits(counted, what)
    for name in counting.allocators(build):
        for kind, pool in (("pair", pair), ("set", several)):
            ratio = counts.get(name, kind, OPERATIONS).operation() / pool.operation()
            found[f"{name}_{kind}"] = ratio if name == "cub" else 1 / ratio
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit("instructions.py: expected: BUILD")
    missed = 0
    build = pathlib.Path(sys.argv[1]).resolve()
    found = values(counting.Counts(build))
    # Some of the work goes by the clock: on a busy machine as many operations may have more of it.
    for _ in range(TRIES - 1):
        worse = [name for name, value in found.items() if bars.COUNTED[name].regressed(value)]
        if worse:
            again = values(counting.Counts(build))
            found.update((name, again[name]) for name in worse)
    for name, bar in bars.COUNTED.items():
        if name not in found:
            print(f"not here  {bar.text}")
            continue
        text, measured, met = bar.verdict(found[name])
        regressed = bar.regressed(found[name])
        missed += regressed
        print(f"{'met' if met else 'WORSE' if regressed else 'not met':<9} {text}: {measured}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
