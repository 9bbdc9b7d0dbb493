"""Programs with rights that their caller has not: the library in /etc/ld.so.preload obeys no option that names a file, and opens
nothing for the caller. Nothing of the machine's own /etc is touched: the programs run in a mount namespace of their own."""

import subprocess

import guard
import pytest
from conftest import DRIVER, LIBRARY, RUNTIME, SANITIZER
from steered import NEEDS_MOUNT

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);

int main(int argc, char **argv) {
    void *kept, *pointer;
    const char *mode = argv[1];
    if (strcmp(mode, "becomes") == 0 || strcmp(mode, "starts") == 0)
        if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
            return 1;
    if (strcmp(mode, "drops") == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
        return 1;
    if (strcmp(mode, "starts") == 0) {
        execl("/mnt/plain", "plain", "as it is", (char *)0);
        return 1;
    }
    if (cudaMalloc(&kept, 1000) || cudaMalloc(&pointer, 1000) || cudaFree(pointer))
        return 1;
    if (!cudaMalloc(&pointer, (size_t)1 << 60))
        return 1;
    if (strcmp(mode, "forks") == 0 && fork() == 0)
        _exit(cudaMalloc(&pointer, 1000) && 0);
    puts("done");
    return 0;
}
"""

# The folder of the program, who runs it, what rights it has that this user has not, its argument; then variables.
SCRIPT = r"""
set -e
folder=$1 user=$2 rights=$3 mode=$4
shift 4
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /mnt
mount -t tmpfs -o mode=1777 none /dev/shm
mkdir -m 755 /mnt/etc /mnt/lib /mnt/cron.d
mkdir -m 1777 /mnt/open
cp -L /etc/ld.so.cache /etc/passwd /etc/group /mnt/etc
cp -L "$folder"/lib/* /mnt/lib
chmod 755 /mnt/lib/*
cp "$folder/program" /mnt/program
cp "$folder/program" /mnt/plain
chmod 755 /mnt/plain /mnt/program
case $rights in
uid) chmod 4755 /mnt/program;;
gid) chmod 2755 /mnt/program;;
capability) setcap cap_dac_override+ep /mnt/program;;
esac
mount --bind /mnt/etc /etc
cd /mnt/open
echo /mnt/lib/libpoolcuda.so > /mnt/etc/ld.so.preload
setpriv --reuid="$user" --regid="$user" --clear-groups env "$@" /mnt/program "$mode"
echo > /mnt/etc/ld.so.preload
find /mnt/open /mnt/cron.d /dev/shm -mindepth 1 -printf '%p %U\n'
"""

EVERYTHING = ["POOLCUDA_STATS_FILE=/mnt/PLACE/figures", "POOLCUDA_TRACE=/mnt/PLACE/trace", "POOLCUDA_LOG=/mnt/PLACE/log",
              "POOLCUDA_CHECK=1", "POOLCUDA_CHECK_LEAKS=1", "POOLCUDA_CHECK_LOG=/mnt/PLACE/check", "SIMCUDA_COST=0"]
NOBODY = "65534"

pytestmark = [NEEDS_MOUNT, pytest.mark.skipif(bool(SANITIZER), reason="a sanitizer's library would have to come first")]


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rights")
    (folder / "lib").mkdir()
    for library in (LIBRARY, DRIVER / "libcuda.so.1", next(RUNTIME.glob("libcudart.so.*[0-9]"))):
        (folder / "lib" / library.name).write_bytes(library.read_bytes())
    runtime = next((folder / "lib").glob("libcudart*"))
    subprocess.run(["cc", "-w", "-x", "c", "-", "-x", "none", "-o", folder / "program", runtime,
                    "-Wl,-rpath,/mnt/lib", "-Wl,--disable-new-dtags",
                    "-Wl,--allow-shlib-undefined"], input=PROGRAM, text=True, check=True)
    return folder


def start(folder, rights, mode="plain", place="open", user=NOBODY, more=()):
    variables = [*(line.replace("PLACE", place) for line in EVERYTHING), *more]
    return guard.run(["unshare", "--mount", "sh", "-c", SCRIPT, "sh", folder, user, rights, mode, *variables],
                     capture_output=True, text=True, check=False)


def test_an_ordinary_program_obeys(folder):
    done = start(folder, "none")
    assert done.returncode == 0, done.stderr
    made = {line.split()[0].rpartition("/")[2] for line in done.stdout.splitlines()[1:]}
    assert {"figures", "trace", "log", "check"} <= made, done.stdout


@pytest.mark.parametrize("place", ["open", "cron.d"])
@pytest.mark.parametrize("mode", ["plain", "becomes", "starts", "drops", "forks"])
def test_a_set_user_id_program_makes_no_file(folder, mode, place):
    done = start(folder, "uid", mode, place)
    own = "/dev/shm/poolcuda-0 0\n" if mode == "starts" else ""  # root's program has root's folder, which no option names
    assert (done.returncode, done.stdout) == (0, "done\n" + own), done.stdout + done.stderr


@pytest.mark.parametrize("rights", ["gid", "capability"])
@pytest.mark.parametrize("place", ["open", "cron.d"])
def test_a_program_with_a_group_or_a_capability_of_its_own_makes_no_file(folder, rights, place):
    done = start(folder, rights, place=place)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


def test_what_only_changes_behaviour_still_holds_in_such_a_program(folder):
    done = start(folder, "uid", more=["POOLCUDA_STATS=1"])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr
    assert "held from the driver" in done.stderr and "========= POOLCUDA CHECK" in done.stderr


def test_a_set_user_id_program_that_root_starts_is_an_ordinary_one(folder):
    done = start(folder, "uid", user="0")
    made = {line.split()[0].rpartition("/")[2] for line in done.stdout.splitlines()[1:]}
    assert done.returncode == 0 and {"figures", "trace", "log", "check"} <= made, done.stdout + done.stderr
