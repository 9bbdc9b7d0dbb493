"""threads.py BUILD [--quick]: several threads at once: with sites of their own, and with blocks that others free."""

import os

import bars
import report
import timing

COUNTS = [1, 2, 4, 8]
# The machine itself: the loop without allocations, of one thread and of two.
ALONE, BOTH = ("nothing", 1), ("nothing", 2)
ENOUGH = 1.8  # what two processors must make of it, for a round to say anything


def rate(build, pattern, threads, seconds, *arguments, pooled=True):
    """Millions of pairs per second, all threads together."""
    printed = timing.run(build, "patterns-driver", pattern, threads, seconds, *arguments, pooled=pooled, processors=2)
    return float(printed["pairs"]) / float(printed["seconds"]) / 1e6


def rates(build, quick, patterns):
    """(found, told, can tell): rates of {name: arguments of rate}, on two processors that nobody else uses. told: of the rounds."""
    seconds = 0.05 if quick else 0.2
    variants = {ALONE: lambda: rate(build, "nothing", 1, seconds, pooled=False),
                **{name: (lambda arguments=arguments: rate(build, *arguments[:2], seconds, *arguments[2:]))
                   for name, arguments in patterns.items()},
                BOTH: lambda: rate(build, "nothing", 2, seconds, pooled=False)}
    found, left_out, enough = timing.undisturbed(variants, 5 if quick else 11, lambda r: r[BOTH] >= ENOUGH * r[ALONE])
    gain = timing.ratio(found[BOTH], found[ALONE]).median
    if enough:
        told = f"A loop without allocations gains {gain:.2f}x here by a second thread; {left_out} rounds in which it gained less " \
               f"than {ENOUGH}x, because others used the machine, are left out."
    else:
        told = f"A loop without allocations gained {gain:.2f}x here by a second thread: others used the machine, or it has one " \
               "processor, and the figures say little."
    return found, told, enough and len(os.sched_getaffinity(0)) >= 2


def own_section(build, quick):
    """Sites of their own: what more threads bring."""
    found, told, able = rates(build, quick, {threads: ("own", threads) for threads in COUNTS})
    gain = {threads: timing.ratio(found[threads], found[1]) for threads in COUNTS}
    times = {threads: timing.Times(found[threads]) for threads in COUNTS}
    return {
        "id": "threads", "title": "Threads with sites of their own",
        "intro": "Each thread keeps 32 blocks of four sizes and replaces a random one, at four call sites that no other thread "
                 "uses, on two processors. Millions of pairs per second of all threads together, median and quartiles. " + told,
        "columns": ["threads", "pairs per second, millions", "by one thread"],
        "rows": [[str(threads), f"{times[threads].median:.2f} ({times[threads].low:.2f} to {times[threads].high:.2f})",
                  f"{gain[threads].median:.2f}x ({gain[threads].low:.2f} to {gain[threads].high:.2f})"] for threads in COUNTS],
        "verdicts": [bars.TIMED["two_threads"].verdict(gain[2].median, able),
                     bars.TIMED["eight_threads"].verdict(timing.ratio(found[8], found[2]).median, able)],
        "plots": [{"kind": "line", "title": "Threads with sites of their own", "x_label": "threads",
                   "y_label": "pairs per second, by one thread", "log_x": False, "log_y": False,
                   "series": {"the pool, on two processors": [(threads, gain[threads].median) for threads in COUNTS]}}]}


def others_section(build, quick):
    """Blocks that another thread frees than the one that allocated them."""
    patterns = ("larson", "xmalloc")
    found, told, able = rates(build, quick, {(pattern, who): (pattern, 2, *(["same"] if who == "same" else []))
                                             for pattern in patterns for who in ("same", "other")})
    rows, verdicts = [], []
    for pattern in patterns:
        cost = timing.ratio(found[pattern, "same"], found[pattern, "other"])
        rows.append([pattern, *(f"{timing.Times(found[pattern, who]).median:.2f}" for who in ("same", "other")),
                     f"{cost.median:.2f}x ({cost.low:.2f} to {cost.high:.2f})"])
        verdicts.append(bars.TIMED[pattern].verdict(cost.median, able))
    return {
        "id": "others", "title": "Frees on another thread",
        "intro": "Two threads on two processors. *larson*: each replaces random blocks of 1,024, and after 1,024 pairs goes on "
                 "with the other's. *xmalloc*: each hands the 64 blocks that it allocated to the other, which frees them. "
                 "*same*: the same tables and batches go from thread to thread and are read, the table written too, but each frees its "
                 "own. Millions of pairs per second; "
                 "*cost*: the time of a pair by that of the same thread's, median and quartiles of the rounds. " + told,
        "columns": ["pattern", "same thread", "another thread", "cost"], "rows": rows, "verdicts": verdicts, "plots": []}


def timed_sections(build, quick):
    return [own_section(build, quick), others_section(build, quick)]


if __name__ == "__main__":
    report.main(timed_sections)
