"""profile.py BUILD [KIND [BLOCKS]]: where the instructions of a hit go, function by function.

KIND and BLOCKS are those of workload.c; without them, "pair". Instructions of a function itself, per call of malloc or
free, without the driver's own and without the program's.
"""

import pathlib
import sys

import counting


def profile(build, name="workload-driver", kind="pair", blocks=(), settings=None):
    """[(what, instructions per call, [(function, object, instructions per call)])] for malloc and free."""
    counted = counting.count(build, name, kind, 20000, *blocks, pooled=True, **(settings or {}))
    result = []
    for what, calls in (("malloc", counted.mallocs), ("free", counted.frees)):
        rows = [(function, place, cost / calls) for (of, place, function), cost in counted.by_function.items() if of == what]
        if calls:
            result.append((what, counted.total(what) / calls, sorted(rows, key=lambda row: -row[2])))
    return result


def show(title, parts):
    print(title)
    for what, total, rows in parts:
        print(f"\n  {what}: {total:.1f} instructions")
        for function, place, cost in rows:
            if cost >= 0.05:
                print(f"    {cost:8.1f}  {cost / total:6.1%}  {function} ({place})")
    print()


def main():
    if len(sys.argv) < 2:
        sys.exit("profile.py: expected: BUILD [KIND [BLOCKS]]")
    build, arguments = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    kind, blocks = (arguments or ["pair"])[0], arguments[1:]
    show(f"driver hook, {kind}", profile(build, kind=kind, blocks=blocks))
    show(f"static runtime, {kind}", profile(build, "workload-static", kind, blocks))


if __name__ == "__main__":
    main()
