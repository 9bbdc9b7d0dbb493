"""Times that can be compared: variants of a program in turns, on processors of their own, as medians with their spread."""

import os
import statistics
import subprocess

import counting


class Times:
    """Repeated measurements of one thing: all of them, the median and the quartiles."""

    def __init__(self, values):
        self.values = sorted(values)
        self.median = statistics.median(values)
        self.low, _, self.high = statistics.quantiles(values, n=4) if len(values) > 1 else (self.median,) * 3

    def __str__(self):
        return f"{self.median:.1f} ({self.low:.1f} to {self.high:.1f})"


def repetitions(quick):
    return 7 if quick else 15


def run(build, name, *arguments, processors=1, pooled=False, **settings):
    """What the program printed, {word: text}; it runs on that many processors of this machine, as far as there are."""
    available = sorted(os.sched_getaffinity(0))
    used = ",".join(map(str, available[-processors:]))
    done = subprocess.run(["taskset", "-c", used, counting.program(build, name), *map(str, arguments)],
                          env=counting.clean_environment(build, counting.pool_library(build) if pooled else None, **settings),
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} {arguments}: ended with {done.returncode}: {done.stderr.strip()}")
    return counting.words(done.stdout)


def interleaved(variants, times):
    """{name: [what each run returned]} of {name: function}, each run once in every round."""
    found = {name: [] for name in variants}
    for _ in range(times):
        for name, measure in variants.items():
            found[name].append(measure())
    return found


def undisturbed(variants, times, is_quiet):
    """The same, of as many rounds as it takes to have `times` for which is_quiet({name: value}) holds, but at most three
    times as many. (found, rounds left out, whether there were enough); if there were not, all rounds are returned."""
    rounds = []
    while sum(is_quiet(values) for values in rounds) < times and len(rounds) < 3 * times:
        rounds.append({name: measure() for name, measure in variants.items()})
    quiet = [values for values in rounds if is_quiet(values)]
    enough = len(quiet) >= times
    used = quiet if enough else rounds
    return {name: [values[name] for values in used] for name in variants}, len(rounds) - len(used), enough


def ratio(above, below):
    """The median of the ratios, round by round."""
    return Times([a / b for a, b in zip(above, below, strict=True)])
