"""Models of the originals that keep whole blocks, on a device of any size: expected/figures.csv has them at a few sizes alone.

Written from what these pools are documented to do and from the decisions in expected/, which they repeat one by one, as they do the
calls, failures and held bytes of figures.csv (test_originals.py). A pool has allocate(size, site), which returns the block, or None,
and whether it was idle; and free(block).
"""

import bisect
import csv
import gzip
import heapq

PAGE = 2 << 20


def physical(size):
    """What the device of the figures counts for a block."""
    unit = 512 if size < PAGE else PAGE
    return -(-size // unit) * unit


class Device:
    """Memory of so many bytes, and the calls that took and gave back some: those that fail do not count."""

    def __init__(self, size):
        self.size = self.left = self.least_left = size
        self.calls = 0

    def allocate(self, size):
        """Whether there was room."""
        if physical(size) > self.left:
            return False
        self.left -= physical(size)
        self.least_left = min(self.least_left, self.left)
        self.calls += 1
        return True

    def free(self, size):
        self.left += physical(size)
        self.calls += 1


class FreeList:
    """Idle blocks, (size, tag), in numbered slots: a block goes into the first empty one. `order` and each of `of_tag` have
    (size, slot) of all, and of a tag, ascending."""

    def __init__(self):
        self.slots, self.order, self.of_tag = {}, [], {}
        self.spare, self.used = [], []  # heaps of slots; `used` also has some that are empty by now

    def insert(self, block):
        slot = heapq.heappop(self.spare) if self.spare else len(self.slots)
        self.slots[slot] = block
        heapq.heappush(self.used, slot)
        for entries in self.order, self.of_tag.setdefault(block[1], []):
            bisect.insort(entries, (block[0], slot))

    def remove(self, slot):
        size, tag = self.slots.pop(slot)
        for entries in self.order, self.of_tag[tag]:
            entries.pop(bisect.bisect_left(entries, (size, slot)))
        heapq.heappush(self.spare, slot)
        return size

    def first(self):
        """The first slot with a block, or None."""
        while self.used and self.used[0] not in self.slots:
            heapq.heappop(self.used)
        return self.used[0] if self.used else None


def least_of(entries, size):
    """The first entry of at least the size, or None."""
    at = bisect.bisect_left(entries, (size,))
    return entries[at] if at < len(entries) else None


class Futhark2018:
    """A tag keeps one block. It serves what is no larger and at least half of it, and goes back otherwise, as it does when the tag
    frees another. A device without room gets nothing back: the allocation fails."""

    def __init__(self, device):
        self.device, self.idle = device, {}

    def allocate(self, size, site):
        kept = self.idle.pop(site, None)
        if kept is not None:
            if size <= kept <= 2 * size:
                return (kept, site), True
            self.device.free(kept)
        return ((size, site) if self.device.allocate(size) else None), False

    def free(self, block):
        size, site = block
        if site in self.idle:
            self.device.free(self.idle[site])
        self.idle[site] = size


class Futhark2020:
    """The smallest idle block that is large enough, whatever its tag and however large. A device without room gets the blocks back
    one by one, from the list's first slot on, until it has."""

    def __init__(self, device):
        self.device, self.idle = device, FreeList()

    def rounded(self, size):
        return max(size, 4)

    def find(self, size, _site):
        return least_of(self.idle.order, size)

    def allocate(self, size, site):
        size = self.rounded(size)
        found = self.find(size, site)
        if found:
            return (self.idle.remove(found[1]), site), True
        while not self.device.allocate(size):
            slot = self.idle.first()
            if slot is None:
                return None, False
            self.device.free(self.idle.remove(slot))
        return (size, site), False

    def free(self, block):
        self.idle.insert(block)


class Futhark2025(Futhark2020):
    """Of those only a block of less than 4096 bytes, of less than twice the request, or of the same tag. Requests are in units of four
    bytes."""

    def rounded(self, size):
        return -(-size // 4) * 4

    def find(self, size, site):
        found = least_of(self.idle.order, size)
        if found and found[0] >= max(4096, 2 * size):
            return least_of(self.idle.of_tag.get(site, []), size)
        return found


class PyCuda:
    """Sixteen bins per power of two; a request gets as much as its bin's largest. A device without room gets one block of the largest
    bin at a time."""

    def __init__(self, device):
        self.device, self.idle = device, {}

    @staticmethod
    def bin_of(size):
        """(exponent, five leading bits): bins compare as their sizes do."""
        exponent = size.bit_length() - 5
        return exponent, size >> exponent if exponent >= 0 else size << -exponent

    @staticmethod
    def largest(of_bin):
        exponent, leading = of_bin
        return (leading + 1 << exponent) - 1 if exponent >= 0 else leading >> -exponent

    def take(self, of_bin):
        """Whether the bin had a block."""
        if of_bin not in self.idle:
            return False
        self.idle[of_bin] -= 1
        if not self.idle[of_bin]:
            del self.idle[of_bin]
        return True

    def allocate(self, size, _site):
        of_bin = self.bin_of(size)
        if self.take(of_bin):
            return of_bin, True
        while not self.device.allocate(self.largest(of_bin)):
            if not self.idle:
                return None, False
            victim = max(self.idle)
            self.take(victim)
            self.device.free(self.largest(victim))
        return of_bin, False

    def free(self, block):
        self.idle[block] = self.idle.get(block, 0) + 1


class Cub:
    """Bins of 8^3 to 8^7 bytes, at most three times the largest idle in all; what is larger than that bin is not kept. A device
    without room gets back all that is idle, and is asked once more."""

    BINS = [8 ** power for power in range(3, 8)]
    MOST_IDLE = 3 * BINS[-1] - 1

    def __init__(self, device):
        self.device = device
        self.idle, self.idle_bytes = dict.fromkeys(self.BINS, 0), 0

    def release_all(self):
        for size, count in self.idle.items():
            for _ in range(count):
                self.device.free(size)
        self.idle, self.idle_bytes = dict.fromkeys(self.BINS, 0), 0

    def allocate(self, size, _site):
        """A block is its size, and whether it has a bin."""
        binned = size <= self.BINS[-1]
        size = self.BINS[bisect.bisect_left(self.BINS, size)] if binned else size
        if binned and self.idle[size]:
            self.idle[size] -= 1
            self.idle_bytes -= size
            return (size, binned), True
        if not self.device.allocate(size):
            self.release_all()
            if not self.device.allocate(size):
                return None, False
        return (size, binned), False

    def free(self, block):
        size, binned = block
        if binned and self.idle_bytes + size <= self.MOST_IDLE:
            self.idle[size] += 1
            self.idle_bytes += size
        else:
            self.device.free(size)


POOLS = {"futhark-2018": Futhark2018, "futhark-2020": Futhark2020, "futhark-2025": Futhark2025, "pycuda": PyCuda, "cub": Cub}


def operations(path):
    """[(op, id, bytes, site)]: the allocations and frees of a trace."""
    with gzip.open(path, "rt") as file:
        return [(row["op"], row["id"], int(row["size"] or 0), row["site"]) for row in csv.DictReader(file) if row["op"] in "AF"]


def replay(name, trace, size=80 << 30):
    """What the original does with a trace's operations on a device of that size; hits: of each allocation, whether it was one."""
    device, live, hits, failed = Device(size), {}, [], 0
    pool = POOLS[name](device)
    for op, block_id, size_asked, site in trace:
        if op == "A":
            block, hit = pool.allocate(size_asked, site)
            hits.append(hit)
            failed += block is None
            if block is not None:
                live[block_id] = block
        elif block_id in live:
            pool.free(live.pop(block_id))
    return {"hits": hits, "driver_calls": device.calls, "oom_failures": failed, "peak_held_bytes": size - device.least_left}
