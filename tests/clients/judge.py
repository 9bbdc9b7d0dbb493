"""What is wrong with a client's runs: which outcomes, output and calls differ that may not, and whether the pool was at work."""

import math
import re
import tomllib

from runs import HERE, CannotRun, differences, prepared, run
from table import MODES


ONCE = 32  # calls that a client's processes and contexts cost, however little they allocate
EACH = 2  # calls for each allocation and each free
PAGE = 2 << 20  # bytes


def allowed_in(mode, client, native, pooled):
    """The calls that the pool may save in a mode, and by how many it may make others more often than a native run."""
    lists = tomllib.loads((HERE / "calls.toml").read_text())
    served = sum(count for call, count in native.calls.items() if re.match("cuMem(Host)?(Alloc|Free)", call))
    pages, asked = pooled.counters["allocated_bytes"] // PAGE, native.calls.total()
    saved, added = set(client.varying), dict.fromkeys(client.varying, math.inf)
    for entry in lists["saved"]:
        saved |= set(entry["calls"]) if mode in entry.get("modes", MODES) else set()
    for entry in lists["added"]:
        most = ONCE + entry.get("each", EACH) * served + entry.get("each_page", 0) * pages + entry.get("each_call", 0) * asked
        most *= mode in entry.get("modes", MODES)
        added |= {call: max(most, added.get(call, 0)) for call in entry["calls"]}
    return {"saved": saved, "added": added}


def allocations(counters):
    """All that a client asked for, and how much of it was served from idle memory."""
    return counters["malloc_calls"] + counters["async_calls"] - counters["async_served"], counters["malloc_hits"]


def is_at_work(counters):
    """Whether the pool did what it is for. CHECK checks, and keeps what is freed from being used again."""
    return counters["malloc_hits"] > 0 or counters["check_filled_bytes"] > 0


def faults_of(client, natives, pooled, mode):
    """What is wrong with a run of a mode."""
    found = differences(natives, pooled, allowed_in(mode, client, natives[0], pooled))
    asked, _ = allocations(pooled.counters)
    if asked < client.allocations:
        found.append(f"the pool saw {asked} allocations, expected at least {client.allocations}")
    if is_at_work(pooled.counters) == (mode in client.idle):
        found.append("the pool is at work: take the mode out of idle" if mode in client.idle else "the pool did nothing")
    mistakes, reported = client.mistakes if mode == "CHECK" else 0, pooled.counters["check_errors"]
    if reported != mistakes:
        found.append(f"{reported} memory errors are reported, the client makes {mistakes}")
    return [f"{client.name}, {mode}: {line}" for line in found]


def expected_failures(client):
    """Names of tests that fail natively, as failures() tells them: the list only shrinks."""
    listed = tomllib.loads((HERE / "failures.toml").read_text()).get(client.name, {})
    return {name for tests in listed.values() for name in tests}


def failures(outcomes):
    """Names of tests that fail, each with its outcome. A test that passes with none of its parameters is one: test[*]."""
    whole = {name: re.sub(r"\[.*\]$", "[*]", name) for name in outcomes}
    passed = {whole[name] for name, outcome in outcomes.items() if outcome.startswith("PASSED")}
    return {name if whole[name] in passed else whole[name]: outcome for name, outcome in outcomes.items() if outcome.startswith("FAILED")}


def native_faults(client, natives):
    """Native failures that are not listed, and listed ones that are gone."""
    failed, listed = failures(natives[0].outcomes), expected_failures(client)
    return ([f"{client.name}, native: {name} fails: {failed[name][:100]}" for name in sorted(failed.keys() - listed)] +
            [f"{client.name}, native: {name} passes by now: take it out of failures.toml" for name in sorted(listed - failed.keys())])


def examined(client, modes=tuple(MODES)):
    """Lines of faults, and the runs by mode: the native one and those of `modes`."""
    own = prepared(client)
    natives = [run(client, own, mode, None) for mode in ("native", "native-again")]
    if not natives[0].outcomes:
        raise CannotRun(f"{client.name}: natively no test has an outcome; see build/clients/runs/{client.name}/native/errors")
    found, runs = native_faults(client, natives), {"native": natives[0]}
    for mode, settings in MODES.items():
        if mode in client.unserved or mode not in modes:
            continue
        runs[mode] = run(client, own, mode, settings)
        faults = faults_of(client, natives, runs[mode], mode)
        print(f"{client.name}, {mode}: {len(runs[mode].outcomes)} tests, {len(faults)} differences", flush=True)
        found += faults
    return found, runs
