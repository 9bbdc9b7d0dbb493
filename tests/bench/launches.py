"""launches.py BUILD: holds what a launch costs to its bars, in instructions of ours under callgrind, the driver's own left out;
and other calls that submit work.

Where the program has streams each submission is to be noted (src/order/noted.h).
Where kernels reach plain host memory a launch's arguments are looked at (docs/semantics.md). On other machines nothing is added.
"""

import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import counting

LAUNCHES = 5000


@dataclasses.dataclass(frozen=True)
class Bar:
    text: str
    most: float  # instructions
    arguments: int = 4
    bytes: int = 8
    settings: dict = dataclasses.field(default_factory=dict)
    alone: bool = False  # with the malloc before and the free behind, of the only block
    call: tuple = ()  # of submissions.c: which, how many streams

    def program(self):
        if self.call:
            return ["submissions", LAUNCHES, *self.call]
        return ["launches", LAUNCHES, self.arguments, self.bytes, *(["alone"] if self.alone else [])]


# Of a launch as it is; where its arguments are looked at: of the look, of an argument, of each further word.
PLAIN, LOOK, ARGUMENT, WORD = 77, 600, 75, 30
ALONE = 700  # of a malloc, a launch and a free of the only block, which waits
HMM = {"NULL_DRIVER_PAGEABLE": "1"}
WAIT = {**HMM, "POOLCUDA_PAGEABLE": "wait"}
# Of other calls without streams, and what streams may add as long as nothing is owed.
CALLS = {**dict.fromkeys(["launch", "launch_ex", "copy", "launch_ptsz"], PLAIN),
         **dict.fromkeys(["set", "set_2d", "set_ptsz", "wait", "record"], 17)}
STREAMS = 15
UNNOTED = 2  # to look behind the call whether there are streams by now
BARS = [
    Bar("a launch where kernels reach no plain host memory", PLAIN, 4, 8, {}),
    Bar("a launch where they do, and nobody is to look", PLAIN, 4, 8, WAIT),
    Bar("a launch of 4 arguments where they do", LOOK + 4 * ARGUMENT, 4, 8, HMM),
    Bar("a launch of 32 arguments", LOOK + 32 * ARGUMENT, 32, 8, HMM),
    Bar("a launch of one argument of 4 KiB", LOOK + ARGUMENT + 512 * WORD, 1, 4096, HMM),
    Bar("a malloc, a launch and a free that waits, of the only block", ALONE, 4, 8, {}, alone=True),
    *(Bar(f"{call}, no streams", most + UNNOTED, call=(call, 0)) for call, most in CALLS.items()),
    *(Bar(f"{call}, {streams} {'stream' if streams == 1 else 'streams'}, nothing owed", most + STREAMS, call=(call, streams))
      for call, most in CALLS.items() for streams in (1, 3, 8)),
    *(Bar(f"{call} in the null stream beside another, nothing owed", most + STREAMS, call=(call, 1, "null"))
      for call, most in {**CALLS, "set_default": 17}.items()),
    Bar("a launch of 4 arguments that are looked at, 3 streams", LOOK + 4 * ARGUMENT + STREAMS, call=("launch", 3), settings=HMM),
]


def instructions(build, bar):
    """Per call, with the malloc and the free that go with it."""
    environment = counting.clean_environment(build, counting.pool_library(build), **bar.settings)
    name, *arguments = bar.program()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-callers=50",
                               f"--callgrind-out-file={out}", counting.program(build, name), *map(str, arguments)],
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{bar.text}: ended with {done.returncode} under callgrind: {done.stderr.strip()}")
        found = counting.read(out.read_text().splitlines())
    ours = sum(cost for (kind, place, _), cost in found.items() if (kind == "submission" or bar.alone) and "." in place and
               (bar.alone or place.startswith("libpoolcuda")))
    if ours < LAUNCHES:
        raise RuntimeError(f"{bar.text}: callgrind saw no launch")
    return ours / LAUNCHES


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
