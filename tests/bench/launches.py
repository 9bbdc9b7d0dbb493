"""launches.py BUILD: holds what a launch costs to its bars, in instructions of ours under callgrind, the driver's own left out;
and other calls that submit work.

Where the program has streams each submission is to be noted (src/order/noted.h). Where kernels reach plain host memory a
launch's arguments are looked at (docs/semantics.md). On other machines nothing is added.
"""

import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import counting

TIMES = 5000


@dataclasses.dataclass(frozen=True)
class Bar:
    text: str
    most: float  # instructions
    arguments: int = 4
    bytes: int = 8
    call: tuple = ()  # further arguments of launches.c
    settings: dict = dataclasses.field(default_factory=dict)


# Of a launch as it is; where its arguments are looked at: of the look, of an argument, of each further word.
PLAIN, LOOK, ARGUMENT, WORD = 77, 600, 75, 30
HMM = {"NULL_DRIVER_PAGEABLE": "1"}
WAIT = {**HMM, "POOLCUDA_PAGEABLE": "wait"}
# Of other calls without streams, and what streams may add as long as nothing is owed.
CALLS = {"launch": PLAIN, "launch_ex": PLAIN, "copy": PLAIN, "launch_ptsz": PLAIN,
         **dict.fromkeys(["set", "set_2d", "set_ptsz", "wait", "record"], 17)}
STREAMS = 15
BARS = [
    Bar("a launch where kernels reach no plain host memory", PLAIN),
    Bar("a launch where they do, and nobody is to look", PLAIN, settings=WAIT),
    Bar("a launch of 4 arguments where they do", LOOK + 4 * ARGUMENT, settings=HMM),
    Bar("a launch of 32 arguments", LOOK + 32 * ARGUMENT, 32, settings=HMM),
    Bar("a launch of one argument of 4 KiB", LOOK + ARGUMENT + 512 * WORD, 1, 4096, settings=HMM),
    Bar("a launch of 4 arguments where they do, with 3 streams", LOOK + 4 * ARGUMENT + STREAMS, call=("launch", 3), settings=HMM),
    *(Bar(f"{call}, no streams", most, call=(call, 0)) for call, most in CALLS.items()),
    *(Bar(f"{call}, {streams} {'stream' if streams == 1 else 'streams'}, nothing owed", most + STREAMS, call=(call, streams))
      for call, most in CALLS.items() for streams in (1, 3, 8)),
    *(Bar(f"{call} in the null stream beside another, nothing owed", most + STREAMS, call=(call, 1, "null"))
      for call, most in {**CALLS, "set_default": 17}.items()),
]


def instructions(build, bar):
    """Per call."""
    environment = counting.clean_environment(build, counting.pool_library(build), **bar.settings)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-callers=50",
                               f"--callgrind-out-file={out}", counting.program(build, "launches"), str(TIMES),
                               str(bar.arguments), str(bar.bytes), *map(str, bar.call)],
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{bar.text}: ended with {done.returncode} under callgrind: {done.stderr.strip()}")
        found = counting.read(out.read_text().splitlines())
    ours = sum(cost for (kind, place, _), cost in found.items() if kind == "submission" and place.startswith("libpoolcuda"))
    if ours < TIMES:
        raise RuntimeError(f"{bar.text}: callgrind saw no such call")
    return ours / TIMES


def main():
    if len(sys.argv) != 2:
        sys.exit("launches.py: expected: BUILD")
    build = pathlib.Path(sys.argv[1]).resolve()
    missed = 0
    for bar in BARS:
        taken = instructions(build, bar)
        missed += taken > bar.most
        print(f"{'met' if taken <= bar.most else 'WORSE':<6} {bar.text}: at most {bar.most:,.0f}: {taken:,.0f} instructions")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
