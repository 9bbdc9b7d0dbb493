"""Roots of other Debian releases, to run their programs in: with the packages that debootstrap itself unpacks, which are
the C library's and the usual commands. Nothing in them is configured, and there is no compiler.

They are in build/roots and stay there. Making one takes 15 s of processor time and 40 MB of the network.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess

import guard
import pytest
from conftest import ROOT

FOLDER = ROOT / "build/roots"


def library_folder(root):
    """Where the release has its C library."""
    return next(root.glob("lib/*-linux-gnu/libc.so.6")).parent


def root_of(suite):
    """The root's folder, which is made if it is not there. Skips the test where it cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("a root can be made and entered by root alone")
    root, part = FOLDER / suite, FOLDER / f"{suite}.part"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{suite}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.exists():
            return root
        if not shutil.which("debootstrap"):
            pytest.skip("debootstrap is not installed: package debootstrap")
        shutil.rmtree(part, ignore_errors=True)
        done = guard.run(["debootstrap", "--variant=minbase", "--foreign", suite, part], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
            pytest.skip(f"debootstrap could not make a root of {suite}: {last}")
        for used in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(part / used, ignore_errors=True)
        part.rename(root)
    return root


@contextlib.contextmanager
def folder_in(root, name):
    """An empty folder in the root for one test."""
    folder = root / "tests" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in(root, command, **environment):
    """Runs the command in the root, with this environment and no other."""
    words = [f"{name}={value}" for name, value in environment.items()]
    return guard.run(["chroot", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *words, *command],
                     stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
