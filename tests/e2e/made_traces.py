"""Traces made by a seed: of random programs, and of such in which kernels, copies and waits outnumber allocations."""

import random

HEADER = "t_us,op,id,size,stream,site,device"
SHAPES = {  # name: (what happens besides allocations and frees, streams, blocks that live at once)
    "kernels in one stream": ("K", 1, 60),
    "kernels in 64 streams": ("K", 64, 60),
    "kernels in 1,000 streams": ("K", 1000, 60),
    "copies": ("C", 8, 60),
    "host waits": ("S", 8, 60),
    "device waits": ("D", 8, 60),
    "all of them, many live blocks": ("KKKCSD", 8, 5000),
}


def write(path, rows):
    path.write_text("\n".join([HEADER, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def other(rng, op, time, streams):
    size = {"K": rng.randrange(50), "C": rng.randrange(1, 1 << 20)}.get(op, "")
    return (time, op, "", size, rng.randrange(streams), "", "")


def random_program(path, seed, calls, devices=1):
    """Sizes that repeat or vary, few sites or many, little or much that lives at once, now and then a kernel or a wait."""
    rng = random.Random(seed)
    sites, most = rng.choice([1, 3, 20, 300]), rng.choice([3, 20, 200])
    bases = [int(2 ** rng.uniform(8, 26)) for _ in range(rng.choice([2, 8, 60]))]
    spread = rng.choice([0, 0.9])
    streams, others = rng.choice([1, 1, 4]), rng.choice([0, 0.3])
    rows, live, time, made = [], [], 0, 0
    for _ in range(calls):
        time += rng.choice([0, 1, 5, 100, 3000])
        if rng.random() < others:
            rows.append(other(rng, rng.choice("KKKCSD"), time, streams))
        elif live and (len(live) >= most or rng.random() < 0.45):
            ident, device = live.pop(rng.choice([-1, rng.randrange(len(live))]))
            rows.append((time, "F", ident, "", 0, "", device))
        else:
            size = int(rng.choice(bases) * rng.uniform(1, 1 + spread))
            device = rng.randrange(devices)
            rows.append((time, "A", made, size, rng.randrange(streams), f"app+0x{rng.randrange(sites):x}", device))
            live.append((made, device))
            made += 1
    return write(path, rows)


def mostly_others(path, events, allocations, shape, seed=1):
    """That many events, of which so many are allocations and about as many frees; the rest as the shape says."""
    ops, streams, most = SHAPES[shape]
    rng = random.Random(seed)
    sizes = [int(2 ** rng.uniform(9, 24)) for _ in range(40)]
    calls = [True] * (2 * allocations) + [False] * (events - 2 * allocations)
    rng.shuffle(calls)
    rows, live, time, made = [], [], 0, 0
    for call in calls:
        time += rng.randrange(1, 20)
        if call and live and (len(live) >= most or made == allocations or rng.random() < 0.4):
            rows.append((time, "F", live.pop(rng.randrange(len(live))), "", 0, "", 0))
        elif call:
            rows.append((time, "A", made, rng.choice(sizes), rng.randrange(streams), f"app+0x{rng.randrange(50):x}", 0))
            live.append(made)
            made += 1
        else:
            rows.append(other(rng, rng.choice(ops), time, streams))
    return write(path, rows)
