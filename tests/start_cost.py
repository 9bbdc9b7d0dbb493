"""What it costs a program to start with a library preloaded."""

import re
import shutil
import subprocess


def empty_library(folder):
    """A library with nothing in it: what any costs that is preloaded, since the loader looks every name up in it first."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty.c").write_text("int empty;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libpoolcuda.so", folder / "empty.c"], check=True)
    return folder / "libpoolcuda.so"


def with_as_long_a_path(library, folder):
    """A copy. The loader reads paths byte by byte, for each name it compares."""
    folder.mkdir(parents=True, exist_ok=True)
    return shutil.copy(library, folder / "libpoolcuda.so")


def instructions(command, preload, folder, run=subprocess.run, **options):
    """Those of the loader and of the preloaded object, by valgrind. The program's own vary with where it finds its memory."""
    out = folder / "callgrind.out"
    run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command], capture_output=True, check=True, **options)
    names, count, current, of_call = {}, 0, "", False
    for line in out.read_text().splitlines():
        named = re.match(r"c?ob=(\(\d+\))(?: (.*))?$", line)
        if named and named[2]:
            names[named[1]] = named[2]
        if named and line.startswith("ob="):
            current = names[named[1]]
        cost = re.match(r"[-+*\d]\S* (\d+)$", line)
        if cost and not of_call and ("/ld-linux" in current or current == str(preload)):
            count += int(cost[1])
        of_call = line.startswith("calls=")  # the next line is what the callee cost
    assert count
    return count
