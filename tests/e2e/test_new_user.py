"""The path of a new user: each command names the next one to type, down to a better setting."""

import os
import re
import subprocess

import guard
from conftest import COMMAND, DRIVER, RUNTIME, SAMPLES


def test_each_step_names_the_next(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/poolcuda").symlink_to(COMMAND)
    app = tmp_path / "app"
    app.symlink_to(SAMPLES / "varying")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    environment.update(PATH=f"{tmp_path}/bin:{environment['PATH']}", SIMCUDA_COST="0",
                       LD_LIBRARY_PATH=f"{DRIVER}:{RUNTIME}")

    def step(command):
        done = guard.run(command, shell=True, cwd=tmp_path, env=environment, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, done.stdout
        return re.findall(r"^(?:poolcuda: )?next: (poolcuda .*)$", done.stdout, re.M)

    steps = ["poolcuda doctor ./app 'an argument'"]
    for kind in ("run --", "report", "run --trace", "tune", "run", "report"):
        (following,) = step(steps[-1])[-1:]
        assert following.startswith(f"poolcuda {kind}"), steps
        assert not kind.startswith("run") or following.endswith(" -- ./app 'an argument'"), following
        steps.append(following)
