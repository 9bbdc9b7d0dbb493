"""What a document shows of a program is what most of its runs do.

Which block serves a request may depend on where the loader has put the program, since threads' caches place sites by their
addresses: one run in five of `varying-static` counts otherwise.
"""

MOST = 31


def does_as_shown(run, shown):
    """Whether more runs do as shown than otherwise, and what they did. The first one that does is enough; each that does not has
    to be outweighed."""
    seen, lead = [], 0
    while lead < 1 and len(seen) < MOST:
        seen.append(run())
        lead += 1 if shown(seen[-1]) else -1
    return lead > 0, seen
