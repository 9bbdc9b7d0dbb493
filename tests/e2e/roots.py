"""Roots of other Debian releases, to run their programs in: with the packages that debootstrap itself unpacks, which are
the C library's and the usual commands, and with Python. Nothing in them is configured, and there is no compiler.

They are in build/roots and stay there. Making one takes 15 s of processor time and 50 MB of the network.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess

import guard
import pytest
from conftest import DRIVER, ROOT

FOLDER = ROOT / "build/roots"
# What Python needs beside the packages that debootstrap unpacks, and, of one release, Python as a shared library.
PYTHON = ("python3", "libpython3", "libffi", "libexpat")
MORE = {"trixie": "libpython3.13"}


def library_folder(root):
    """Where the release has its C library."""
    return next(root.glob("lib/*-linux-gnu/libc.so.6")).parent


def unpack(package, root):
    """As dpkg does it: a folder's name may be a link in the root."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as files:
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root], stdin=files.stdout, check=True)
    assert files.returncode == 0


def root_of(suite):
    """The root's folder, which is made if it is not there. Skips the test where it cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("a root can be made and entered by root alone")
    root, part = FOLDER / suite, FOLDER / f"{suite}.part"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{suite}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (root / "usr/bin/python3").is_symlink():  # else it is none, or one of before they had Python
            return root
        shutil.rmtree(root, ignore_errors=True)
        if not shutil.which("debootstrap"):
            pytest.skip("debootstrap is not installed: package debootstrap")
        shutil.rmtree(part, ignore_errors=True)
        done = guard.run(["debootstrap", "--variant=minbase", "--foreign", f"--include=python3,{MORE.get(suite, '')}".rstrip(","),
                          suite, part], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
            pytest.skip(f"debootstrap could not make a root of {suite}: {last}")
        for package in sorted((part / "var/cache/apt/archives").glob("*.deb")):
            if package.name.startswith(PYTHON):
                unpack(package, part)
        for used in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(part / used, ignore_errors=True)
        part.rename(root)
    return root


def put_driver(root, folder):
    """The simulated driver, linked with the root's C library if that is older than the one which it was built with."""
    libraries = library_folder(root)
    symbols = subprocess.run(["nm", "-D", libraries / "libc.so.6"], capture_output=True, text=True, check=True).stdout
    if "GLIBC_2.34" in symbols:
        shutil.copy(DRIVER / "libcuda.so.1", folder)
        return
    needed = [libraries / name for name in ("libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6")]
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-stack-protector", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1",
                    "-o", folder / "libcuda.so.1", *sorted((DRIVER / "libcuda.so.1.p").glob("*.o")),
                    *sorted((DRIVER.parent / "ptx/libsimt.a.p").glob("*.o")), ROOT / "tests/programs/older_libc.c", *needed, "-lgcc"], check=True)


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
