"""What the tests of the doctor share: asking it, and making programs and scripts to ask about."""

import json
import os
import subprocess

import guard
import pytest
from conftest import COMMAND, DRIVER, PROGRAMS, RUNTIME

CUDART = next(RUNTIME.glob("libcudart.so.1[0-9]"))
STATIC_CUDART = RUNTIME / "libcudart_static.a"
NOBODY = 65534
IS_ROOT = os.getuid() == 0


def environment(**more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_", "CUDA_INJ", "ASAN_", "NO_COLOR"))}
    return {**clean, "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", **more}


class Diagnosis:
    """The JSON form of what the doctor said."""

    def __init__(self, done):
        assert done.returncode in (0, 1, 3), done.stderr
        self.code, self.said = done.returncode, json.loads(done.stdout)
        self.findings, self.facts = self.said["findings"], self.said["facts"]
        assert self.said["version"] == 1 and self.said["next"]
        assert (self.said["verdict"], self.said["works"]) == {
            0: ("works", True), 1: ("works-not", False), 3: ("cannot-know", None)}[self.code]
        for finding in self.findings:
            assert set(finding) == {"id", "severity", "what", "cause", "remedy"}
            assert finding["what"] and (finding["severity"] != "problem" or finding["remedy"]), finding

    def ids(self, *severities):
        return {finding["id"] for finding in self.findings if not severities or finding["severity"] in severities}

    @property
    def problems(self):
        return self.ids("problem")

    def __getitem__(self, name):
        return [finding for finding in self.findings if finding["id"] == name]

    def text(self, name):
        return "\n".join(" ".join((each["what"], each["cause"], each["remedy"])) for each in self[name])


@pytest.fixture
def doctor(tmp_path):
    """doctor(argument..., env={}): the Diagnosis of `poolcuda doctor --json argument...`."""
    def ask(*arguments, env=None, command=COMMAND, **more):
        return Diagnosis(guard.run([command, "doctor", "--json", *map(str, arguments)], cwd=tmp_path,
                                   env=environment(**(env or {})), capture_output=True, text=True,
                                   check=False, **more))
    return ask


@pytest.fixture
def build(tmp_path):
    """build(name, source, argument...): a program, or with -shared a library, made by the compiler."""
    def make(name, source, *arguments):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-w", "-x", "c", "-", "-x", "none", "-o", path, *map(str, arguments)], input=source,
                       text=True, check=True)
        return path
    return make


EMPTY = "int nothing;\n"
MALLOC = """
int cudaMalloc(void **, unsigned long);
int main(void) { void *p; return cudaMalloc(&p, 8); }
"""
OPENER = (PROGRAMS / "driver_opened").resolve()


def script(path, text, mode=0o755):
    path.write_text(text)
    path.chmod(mode)
    return path


def text_of(*arguments, **env):
    done = subprocess.run([COMMAND, "doctor", *map(str, arguments)], capture_output=True, text=True, check=False,
                          env=environment(**env))
    assert done.stderr == ""
    return done.stdout
