"""Programs that run while a test looks at them and steers them; the user's commands for that."""

import ctypes
import json
import os
import pathlib
import subprocess

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, PROGRAMS, RUNTIME, SANITIZER


def may_unshare(*arguments):
    """Whether root may do this here: a container can forbid it."""
    return os.geteuid() == 0 and subprocess.run(["unshare", *arguments], capture_output=True,
                                                check=False).returncode == 0


MAY_MOUNT = may_unshare("--mount", "mount", "-t", "tmpfs", "none", "/dev/shm")
NEEDS_MOUNT = pytest.mark.skipif(not MAY_MOUNT, reason="nothing can be mounted here: run as root, in a container with "
                                 "CAP_SYS_ADMIN; package util-linux")
NEEDS_PIDS = pytest.mark.skipif(not may_unshare("--pid", "--fork", "true"), reason="no pid namespace can be made here: "
                                "run as root, in a container with CAP_SYS_ADMIN; package util-linux")
NEEDS_IPC = pytest.mark.skipif(not may_unshare("--ipc", "true"), reason="no IPC namespace can be made here: "
                               "run as root, in a container with CAP_SYS_ADMIN; package util-linux")


def take_own_shm():
    """Gives this process, and those it starts, a /dev/shm and shared memory of its own: whoever looks removes the pages of
    the dead, and other tests look too. Where nothing can be mounted the machine's own is used."""
    clone_newns, clone_newipc = 0x20000, 0x8000000
    if MAY_MOUNT and ctypes.CDLL(None).unshare(clone_newns | clone_newipc) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/dev/shm"], check=True)


take_own_shm()
FOLDER = pathlib.Path(f"/dev/shm/poolcuda-{os.geteuid()}")


def environment(**variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    clean.update({"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "SIMCUDA_COST": "0", **variables})
    return clean


class Program:
    """tests/programs/steered under the pool of a build. A line is answered once it has been done."""

    def __init__(self, prefix=(), library=LIBRARY, tool=COMMAND, **variables):
        preload = " ".join(map(str, [*SANITIZER, library]))
        self.tool = tool
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [*map(str, prefix), str(PROGRAMS / "steered")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            bufsize=1, env=environment(LD_PRELOAD=preload, **variables))
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid
        self.page = FOLDER / str(self.pid)

    def say(self, line):
        self.process.stdin.write(line + "\n")

    def hear(self):
        return self.process.stdout.readline().strip()

    def do(self, line):
        """The result of the line's call."""
        self.say(line)
        return int(self.hear().split(": ")[1])

    def figures(self):
        """Its entry in `poolcuda top --json`."""
        return next((p for p in processes(self.tool) if p["name"] == str(self.pid)), None)

    def counter(self, name):
        return self.figures()["counters"][name]

    def end(self):
        """Ends it, in the ordinary way if it still can. Its exit code."""
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            return guard.wait_for_end(self.process, "the steered program ends")
        finally:
            self.process.kill()
            self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def command(*arguments, prefix=(), tool=COMMAND, **options):
    """What the command has to say. A program that is asked may take its time, but for a test of that."""
    if arguments[0] in ("trim", "set") and not any(str(argument).startswith("--timeout") for argument in arguments):
        arguments = (arguments[0], f"--timeout={guard.LIMIT}", *arguments[1:])
    return guard.run([*map(str, prefix), str(tool), *map(str, arguments)], capture_output=True, text=True,
                     check=False, env={k: v for k, v in os.environ.items() if k != "TERM"}, **options)


def processes(tool=COMMAND):
    done = command("top", "--json", tool=tool)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["processes"]
