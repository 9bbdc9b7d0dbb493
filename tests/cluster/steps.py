"""What steps print, and what they leave."""

import collections
import json
import re

import guard
from conftest import COMMAND, SIMULATED


def sums(done):
    """How often each line was printed: ranks print in any order."""
    return collections.Counter(done.stdout.splitlines())


def last_lines(errors):
    """{step: the line that srun told of it}"""
    return dict(re.findall(r"^poolcuda: step (\S+?)[,:] (.*)$", errors, re.M))


def ranks_in(folder):
    """The ranks whose figures are in a step's folder, one file each."""
    return sorted(int(re.fullmatch(r"rank(\d+)\.json", path.name)[1]) for path in folder.iterdir())


def environment_of(done):
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines() if "=" in line)


def report(folder):
    done = guard.run([COMMAND, "report", "--json", folder], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def sbatch(cluster, script, *options, **arguments):
    """Submits the lines of a script; the job's number."""
    file = cluster.work / "job.sh"
    file.write_text("#!/bin/bash\n" + script)
    said = cluster.run("sbatch", "--parsable", *options, file, cwd=cluster.work, env=SIMULATED, **arguments).stdout
    return int(said.split(";")[0])


def states(cluster):
    """{job, as squeue names it: its state} of those that wait or run."""
    return dict(line.split() for line in cluster.run("squeue", "-h", "-r", "-o", "%i %T").stdout.splitlines())


def has_ended(cluster, job):
    return not any(re.match(rf"{job}(_|$)", name) for name in states(cluster))


def other_configuration(cluster, plugstack):
    """What SLURM_CONF is to be for an srun that has another plugstack.conf than the nodes."""
    folder = cluster.work / "elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / "plugstack.conf").write_text(plugstack)
    (folder / "slurm.conf").write_text(cluster.configuration.read_text().replace(
        f"PlugStackConfig={cluster.folder}/plugstack.conf", f"PlugStackConfig={folder}/plugstack.conf"))
    return {"SLURM_CONF": str(folder / "slurm.conf")}
