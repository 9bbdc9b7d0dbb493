#!/usr/bin/env python3
"""Runs random CUDA programs natively and under the pool on the simulated GPU and compares what they saw.

A program is a seed and a profile (see generate.c). It must see the same under the pool: result codes, data, the
order of things, hazards (none), and the free memory up to what the pool may count as waste. A program that does not
is shrunk to the operations that matter and printed with the command that repeats it.

    search.py                           2,000 programs in the modes sync, auto and defer
    search.py --programs 50000          longer
    search.py --seed 17 --programs 1 --mode auto --profile streams
    search.py --check 1                 with POOLCUDA_CHECK=1, which must have nothing to report

Some of the profiles:
    inside          functions of the host's that call the driver
    forks           forks while a thread allocates under a lock that the program's fork handlers take
    time            what a program of one thread takes in virtual time: at most 5% more than natively, calls apart
    plugins         a library whose constructor waits for a thread that allocates
    crowded         loops of temporary blocks on a device of which 90% to 98% are in use
    held            kernels that run until the host sets a flag, in memory of its own or through a stream
    held_full       the same on a device that fills
    held_elsewhere  the same in one of several contexts, on two devices, and by another thread
    held_captures   the same with captures beside
A program that would hang on a GPU is ended by the simulated one (SIMCUDA_STUCK), which is a difference like any other.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFILES = ("plain", "captures", "contexts", "streams", "events", "threads", "races", "memory", "shares",
            "pinned", "managed", "ordered", "shapes", "programmatic", "churn", "faults", "inside", "forks", "time",
            "plugins", "crowded", "held", "held_full", "held_elsewhere", "held_captures")
# Not while memory is checked, which takes time and waits for the device (docs/check.md).
UNCHECKED = ("time", "held", "held_full", "held_elsewhere", "held_captures")
# In virtual time, in which allocations and frees cost nothing: what a pool saves there would hide what it waits.
TIMED = {"time": {"SIMCUDA_COST": "3", "SIMCUDA_ALLOC_NS": "0", "SIMCUDA_ALLOC_SMALL_NS": "0", "SIMCUDA_FREE_NS": "0",
                  "SIMCUDA_FREE_SMALL_NS": "0", "SIMCUDA_PAGE_NS": "0"}}
# What the pool's options are beside the mode for programs of a profile.
HELD = {"POOLCUDA_OOM_WAIT": "0.2"}  # seconds: what is held stays so, however long it is waited for
OPTIONS = {"managed": {"POOLCUDA_MANAGED": "1"}, "held": HELD, "held_elsewhere": HELD, "held_full": HELD,
           "held_captures": HELD}
MODES = ("sync", "auto", "defer")
MEMORY = 1 << 30
PAGE = 2 << 20
BATCH = 6
# What a preset does not promise (docs/policies.md). memory: that all of the device can be had, and what is reported
# free; such a preset is given programs that use little of the device.
# attributes: SYNC_MEMOPS, once set for a block, holds for others in the same region.
# "captures": memory that deferred frees hold cannot be had again during a capture, so that is when one may run out.
DECLARED = {"pyopencl": {"memory"}, "bfc": {"memory", "attributes"},
            "pytorch": {"memory", "attributes"}, "vmm": {"memory", "attributes"},
            "pytorch-expandable": {"memory", "attributes"},
            "paddle": {"memory", "captures"}}
# What a program may take beside its native time, in virtual time, and beside what the pool's own calls take.
SLOWER = 1.05
# Pages that zones and the quarantine (1/64 of the device) keep while memory is checked.
CHECKED = MEMORY // 64 + 32 * PAGE
# What a program that does not ask natively could not tell either: waste is at most 2% of the device.
WASTE = MEMORY // 50


def build(pooled=True):
    """The folder of the build; what is not pooled may run from another, one without a sanitizer."""
    folder = os.environ.get("BUILD_DIR", ROOT / "build")
    return pathlib.Path(folder if pooled else os.environ.get("NATIVE_BUILD_DIR", folder)).resolve()


def driver(first):
    """Fences are made in another way on a driver without cuCtxRecordEvent: every second batch of each profile runs on
    one."""
    batch = (first - 1) // BATCH
    return "old_driver" if (batch % len(PROFILES) + batch // len(PROFILES)) % 2 else "driver"


def is_careful(check, first):
    """With a check every second batch of each profile frees nothing wrongly, so that there is nothing to report. Neighbours
    in pairs, so that it is not the driver that tells one from the other."""
    batch = (first - 1) // BATCH
    return check != "0" and (batch // 2 + batch // (len(PROFILES) - len(UNCHECKED))) % 2 == 0


class Runner:
    """Runs seeds and keeps what they saw: {seed: [(operation, line), ...]}."""

    def __init__(self, library, plant=None, preset="default", settings=(), check="0"):
        self.library, self.plant, self.preset, self.check = library, plant, preset, check
        self.settings = dict(setting.split("=", 1) for setting in settings)
        self.native, self.lock = {}, threading.Lock()
        self.declared = DECLARED.get(preset, set()) | ({"check", "captures"} if check != "0" else set())

    def relies(self, profile, mode):
        """Whether the programs count on a free's wait. In mode defer it does not wait, so only programs that do not may be
        compared. Those that do ask right behind it, which takes the time that is to be seen."""
        return mode != "defer" and profile not in TIMED

    def run_natively(self, profile, mode, first, count):
        """One run is compared with those of all modes that are given the same programs."""
        key = profile, self.relies(profile, mode), first, count
        with self.lock:
            mine = key not in self.native
            known = self.native.setdefault(key, concurrent.futures.Future())
        if mine:
            try:
                known.set_result(self.run(profile, mode, first, count))
            except BaseException as error:
                known.set_exception(error)
                raise
        return known.result()

    def run(self, profile, mode, first, count, left_out=(), let_go=(), pooled=False, relies=None):
        careful = is_careful(self.check, first)
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
        environment.update(SIMCUDA_COST="0", SIMCUDA_KERNELS="interpret", SIMCUDA_STUCK="1", SIMCUDA_DEVICES="2",
                           SIMCUDA_MEMORY=str(MEMORY), LD_LIBRARY_PATH=str(build(pooled) / "subprojects/simcuda" / driver(first)))
        environment.update(TIMED.get(profile, {}))
        if pooled:
            preload = [*os.environ.get("SANITIZER_RUNTIME", "").split(), str(self.library)]
            environment.update(LD_PRELOAD=" ".join(preload), POOLCUDA_FREE=mode, POOLCUDA_PRESET=self.preset,
                               POOLCUDA_CHECK=self.check, POOLCUDA_CHECK_EXIT="99" if careful else "0",
                               **OPTIONS.get(profile, {}), **self.settings)
            if self.plant:
                environment["POOLCUDA_PLANT"] = self.plant
                environment["PROGRAM_HANGS_AFTER"] = "60"  # seconds: a fault that makes it hang is found
        relies = self.relies(profile, mode) if relies is None else relies
        roomy = "memory" in self.declared
        crowds = not roomy and "check" not in self.declared
        spreads = "attributes" in self.declared
        bits = str(int(relies) + 2 * roomy + 4 * careful + 8 * crowds + 16 * spreads)
        programs = build(pooled) / "tests/differential/programs"
        command = [programs, profile, bits, str(first), str(count), *map(str, left_out),
                   *(f"let-go:{operation.split()[0]}" for operation in let_go)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace",
                              check=False)
        if done.returncode:
            sys.exit(f"search: {' '.join(map(str, command))}: {done.stderr.strip()}")
        return with_hazards(parse(done.stdout), done.stderr)


def with_hazards(seen, errors):
    """What programs saw, and, where one had hazards, a note of each that the simulated GPU told of: it does not say whose."""
    notes = [("hazards", f"note: {line}") for line in errors.splitlines() if line.startswith("simcuda: hazard: ")]
    return {seed: lines + notes * any(re.fullmatch(r"hazards [1-9]\d*", line) for _, line in lines)
            for seed, lines in seen.items()}


def parse(text):
    seen, lines, operation = {}, [], None
    for line in text.splitlines():
        if line.startswith("== "):
            lines = seen.setdefault(int(line.split()[1]), [])
        elif line.startswith("# "):
            operation = line[2:]
        else:
            lines.append((operation, line))
    return seen


def same(native, pooled, declared, operation=None):
    """Whether two lines say the same; free memory may be less by the waste and by pages that small blocks keep."""
    if native == pooled:
        return True
    if "memory" in declared and native.startswith("free ") and " small " in native:
        return native.count(" ") == pooled.count(" ")
    if "captures" in declared and operation and "capture_beside" in operation:
        return re.sub(r"wrong \d+", "", native) == re.sub(r"wrong \d+", "", pooled)
    times = [re.fullmatch(r"time (\d+) calls (\d+)", line) for line in (native, pooled)]
    if all(times):
        (time_natively, calls_natively), (time_pooled, calls_pooled) = (map(int, each.groups()) for each in times)
        return time_pooled <= SLOWER * time_natively + max(0, calls_pooled - calls_natively)
    both = [re.fullmatch(r"free (\d+) small (\d+)", line) for line in (native, pooled)]
    if not all(both):
        return False
    tolerance = (CHECKED if "check" in declared else 0) + WASTE + (int(both[0].group(2)) + 1) * PAGE
    return abs(int(both[0].group(1)) - int(both[1].group(1))) <= tolerance


def difference(native, pooled, declared):
    """The first place where a program saw something else: (operation, native line, pooled line)."""
    native, pooled = ([(at, line) for at, line in lines if not line.startswith("note: ")] for lines in (native, pooled))
    for (operation, one), (_, other) in zip(native, pooled):
        if not same(one, other, declared, operation):
            return operation, one, other
    if len(native) != len(pooled):
        return "its end", f"{len(native)} lines", f"{len(pooled)} lines"
    if ("end", "hazards 0") not in native and not any(line == "hazards 0" for _, line in native):
        return "its end", "a hazard natively: the program itself is at fault", ""
    return None


def unserved_while_held(mode, seed, found, pooled, let_go):
    """The allocation behind a difference that is declared in docs/semantics.md ("Out of memory", "What remains
    different"): a kernel was waiting for the host, the device had less than was asked for, and idle memory cannot be
    given back then. The call fails, or a larger block serves, which memory is missing later. None: it is not."""
    operation, one, other = found
    first = next((i for i, (at, _) in enumerate(pooled) if at == operation), len(pooled))
    seen, before = [line for at, line in pooled if at == operation], [line for _, line in pooled[:first]]
    if re.fullmatch(r"alloc.* 0", one) and other == "ended 6":
        # Such a driver cannot be asked whether it is busy, so that its free is called all the same: while there are
        # non-blocking streams, and for good once one has ended beside a capture.
        held = [line for line in before if line in ("hold 0", "let go")][-1:] == ["hold 0"]
        streams = "non-blocking stream 0" in before or any("capture_beside" in at for at, _ in pooled[:first])
        hangs = held and streams and driver(seed) == "old_driver"
        return operation if hangs and operation not in let_go else None
    if not re.fullmatch(r"alloc.* 0|free \d+ small \d+|thread \d wrong 0", one):
        return None
    return next((at for at, line in pooled[:first + len(seen)]
                 if line == "note: held, and the device has less" and at not in let_go), None)


def differs(runner, profile, mode, seed, left_out=(), tries=1):
    """Where it does, as difference() says, and how the pooled run saw it. What is held is let go before allocations
    that cannot be served else."""
    let_go = []
    while tries:
        native = runner.run(profile, mode, seed, 1, left_out, let_go)[seed]
        pooled = runner.run(profile, mode, seed, 1, left_out, let_go, pooled=True)[seed]
        found = difference(native, pooled, runner.declared)
        unserved = found and unserved_while_held(mode, seed, found, pooled, let_go)
        if found and not unserved:
            return found, pooled
        if found:
            let_go.append(unserved)
        else:
            tries -= 1
    return None, pooled


def shrink(runner, profile, mode, seed):
    """The operations without which the program no longer differs, by leaving out ever smaller pieces."""
    native = runner.run(profile, mode, seed, 1)[seed]
    last = max((int(op.split()[0]) for op, _ in native if op and op[0].isdigit()), default=0)
    kept = list(range(max(last + 1, 120)))
    out, size = [], max(1, len(kept) // 2)
    while size:
        for start in range(0, len(kept), size):
            piece = [op for op in kept[start:start + size] if op not in out]
            if piece and differs(runner, profile, mode, seed, out + piece, tries=2)[0]:
                out += piece
        kept = [op for op in kept if op not in out]
        size //= 2
    return out


def tell(runner, profile, mode, seed, found, seen):
    out = shrink(runner, profile, mode, seed)
    again, remaining = differs(runner, profile, mode, seed, out, tries=5)
    found = again or found
    print(f"\nseed {seed}, profile {profile}, mode {mode}: at {found[0]}: natively {found[1]!r}, pooled {found[2]!r}")
    for line in dict.fromkeys(line for at, line in seen if at == "hazards"):
        print(f"  at first sight: {line}")
    print("  what remains of it, as the pooled run saw it:")
    for operation, lines in group(remaining):
        print(f"    {operation}: {'; '.join(lines)}")
    print(f"  repeat: tests/differential/search.py --seed {seed} --programs 1 --profile {profile} --mode {mode}"
          f" --preset {runner.preset} --check {runner.check}"
          + "".join(f" --set {name}={value}" for name, value in runner.settings.items()))
    sys.stdout.flush()


def group(lines):
    grouped = collections.OrderedDict()
    for operation, line in lines:
        grouped.setdefault(operation, []).append(line)
    return grouped.items()


def batches(options):
    """(profile, mode, first seed, count): profiles take turns, and modes as well or every one of them sees every seed."""
    profiles = [profile for profile in PROFILES if options.check == "0" or profile not in UNCHECKED]
    start, end = options.seed, options.seed + options.programs
    while start < end:
        batch = (start - 1) // BATCH
        stop = min((batch + 1) * BATCH + 1, end)  # no batch has seeds of two drivers
        for mode in [options.modes[batch % len(options.modes)]] if options.in_turn else options.modes:
            yield options.profile or profiles[batch % len(profiles)], mode, start, stop - start
        start = stop


def search(options, runner):
    """Yields (profile, mode, seed, difference, what the pooled run saw) for every program that differs."""
    def run(batch):
        profile, mode, first, count = batch
        native = runner.run_natively(profile, mode, first, count)
        pooled = runner.run(profile, mode, first, count, pooled=True)
        differences = {seed: difference(native[seed], pooled[seed], runner.declared) for seed in native}
        for seed, found in differences.items():
            if found and unserved_while_held(mode, seed, found, pooled[seed], ()):
                differences[seed] = differs(runner, profile, mode, seed)[0]
        return batch, differences.items(), pooled

    executor = concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1)
    try:
        for (profile, mode, _, _), results, seen in executor.map(run, batches(options)):
            print(end=".", file=sys.stderr, flush=True)  # a sign of life
            for seed, found in results:
                if found:
                    yield profile, mode, seed, found, seen[seed]
    finally:
        executor.shutdown(cancel_futures=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=2000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--mode", choices=MODES, help="only this POOLCUDA_FREE")
    parser.add_argument("--in-turn", action="store_true", help="each program in one of the modes, which take turns, not in every one")
    parser.add_argument("--profile", choices=PROFILES, help="only this profile")
    parser.add_argument("--library", type=pathlib.Path, help="the pool to preload")
    parser.add_argument("--preset", default="default", help="of the pool's options")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another option of the pool")
    parser.add_argument("--check", default="0", help="POOLCUDA_CHECK")
    parser.add_argument("--plant", help="a deliberate fault of the build in tests/planted")
    parser.add_argument("--first", action="store_true", help="stop at the first difference")
    parser.add_argument("--show", type=int, default=3, help="how many differences to shrink and show")
    options = parser.parse_args()
    options.modes = [options.mode] if options.mode else list(MODES)
    default = build() / ("tests/planted" if options.plant else "src/interpose") / "libpoolcuda.so"
    runner = Runner(options.library or default, options.plant, options.preset, options.set, options.check)
    print(f"search: seeds {options.seed} to {options.seed + options.programs - 1}, modes {', '.join(options.modes)}")
    started, count = time.monotonic(), 0
    for profile, mode, seed, found, seen in search(options, runner):
        count += 1
        if count <= options.show:
            tell(runner, profile, mode, seed, found, seen)
        if options.first:
            break
    print(f"search: {options.programs} programs, {len(options.modes)} modes{' in turn' if options.in_turn else ''}, {count} differences, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
