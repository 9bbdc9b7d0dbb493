"""The bars that the pool is held to: one table, for the benchmarks and for the check that the tests run."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Bar:
    text: str  # what is measured
    relation: str  # "<=", "<" or ">="
    limit: float
    unit: str = ""
    held: float | None = None  # where the bar is not met: what must not be exceeded all the same

    def met(self, value):
        return {"<=": value <= self.limit, "<": value < self.limit, ">=": value >= self.limit}[self.relation]

    def regressed(self, value):
        """Whether the check of instruction counts fails."""
        return not self.met(value) and (self.held is None or value > self.held)

    def verdict(self, value, can_tell=True):
        """(bar, measured, met) as bench.py shows it; met is None where it cannot be told."""
        return (f"{self.text}: {self.relation} {number(self.limit)}{self.unit}", f"{number(value)}{self.unit}",
                self.met(value) if can_tell else None)


def number(value):
    """12, 1.3, 0.95, 1,000,000."""
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


# Instructions and bytes: the same each time, so that the tests hold the pool to them as well.
COUNTED = {
    "hit_malloc": Bar("a hit, malloc, driver hook", "<=", 120, " instructions"),
    "hit_free": Bar("a hit, free, driver hook", "<=", 120, " instructions"),
    "set_malloc": Bar("the same among 64 blocks of 16 sizes, where a block of another site or size often serves, malloc",
                      "<=", 120, " instructions", held=150),
    "set_free": Bar("the same, free", "<=", 120, " instructions", held=130),
    "static_site": Bar("a hit through a static runtime, malloc, more than with the site given by a tag", "<=", 60,
                       " instructions"),
    "static_malloc": Bar("a hit through a static runtime, malloc, more than through the driver hook", "<=", 60,
                         " instructions"),
    "static_free": Bar("a hit through a static runtime, free, more than through the driver hook", "<=", 60,
                       " instructions"),
    "beyond_malloc": Bar("a hit by way of a go-between, malloc, more than through the driver hook", "<=", 60,
                         " instructions"),
    "miss_never": Bar("a miss of a program that never frees, over the driver call", "<=", 300,
                      " instructions"),
    "miss_idle": Bar("the same while a block is idle that does not fit", "<=", 300, " instructions"),
    "miss_sizes": Bar("a miss of a program whose sizes are ever new, with what it gives back, over the driver call", "<=",
                      300, " instructions", held=1200),
    "recorded": Bar("an operation of a recorded program, of the dearest at hand", "<=", 300, " instructions"),
    "trace": Bar("recording a trace, per event, without the write every 0.1 ms", "<=", 235, " instructions"),
    "live": Bar("an operation with 100,000 live blocks, by one with 1,000", "<", 2, "x"),
    "cub_pair": Bar("CUB's caching allocator takes so many times the pool's instructions, one block", ">=", 2, "x"),
    "cub_set": Bar("CUB's caching allocator takes so many times the pool's instructions, 64 blocks", ">=", 2, "x"),
    "bfc_pair": Bar("the pool takes this part of the BFC's instructions, one block", "<", 1, "x"),
    "bfc_set": Bar("the pool takes this part of the BFC's instructions, 64 blocks", "<", 1, "x"),
    "best_fit_pair": Bar("the pool takes this part of the best-fit list's instructions, one block", "<", 1, "x"),
    "best_fit_set": Bar("the pool takes this part of the best-fit list's instructions, 64 blocks", "<", 1, "x"),
    "block_bytes": Bar("memory of the pool for a block", "<=", 192, " bytes"),
    "start_bytes": Bar("memory of the pool at the start", "<=", 256, " KiB"),
    "never_device": Bar("device memory of a program that never frees, by the native program's", "<=", 1, "x"),
}
# Measured by benchmarks alone: time, and what takes long.
TIMED = {
    "pair_ns": Bar("a hit, malloc and free, on an idle core", "<=", 40, " ns"),
    "live_million": Bar("an operation with 1,000,000 live blocks, by one with 1,000", "<", 2, "x"),
    "million_bytes": Bar("memory of the pool for a block, of 1,000,000", "<=", 192, " bytes"),
    "two_threads": Bar("2 threads with sites of their own, by one", ">=", 1.8, "x"),
    "eight_threads": Bar("8 threads with sites of their own, by 2", ">=", 0.9, "x"),
    "larson": Bar("larson: a pair whose block another thread frees, by the same thread's", "<=", 1.5, "x"),
    "xmalloc": Bar("xmalloc: a pair whose block another thread frees, by the same thread's", "<=", 1.5, "x"),
}
