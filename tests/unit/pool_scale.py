"""pool_scale.py BENCH: with 100,000 live blocks an operation costs at most twice what it does with 1,000.

Instructions are counted, by callgrind, inside the pool's two entry points and without the fake driver.
"""

import re
import subprocess
import sys
import tempfile


def instructions(bench, live):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=measure",
                               f"--callgrind-out-file={out.name}", bench, str(live)],
                              capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1)) / int(done.stdout)


few, many = (instructions(sys.argv[1], live) for live in (1000, 100000))
print(f"instructions per operation: {few:.0f} with 1,000 live blocks, {many:.0f} with 100,000")
sys.exit(0 if many <= 2 * few else 1)
