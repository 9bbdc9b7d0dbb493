"""A Slurm cluster of several nodes on one machine: munged, slurmctld and a slurmd for each node, on ports of their own,
with everything that they write in one folder. Nothing of the machine's own Slurm is used or changed.

No control groups and no network namespaces are needed, but root: tasks run as the users who start them. Where namespaces
can be made, each node has a host name, a /dev/shm and System V's memory of its own.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time

import guard

NODES, CPUS = ("n1", "n2", "n3"), 32
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "scancel")
# Debian has them; any two who are not root.
USERS = ("games", "news")
SEARCHED = "/usr/sbin:/sbin:" + os.environ.get("PATH", "/usr/bin:/bin")


def missing():
    """Why there can be no cluster here; None if there can."""
    if os.geteuid() != 0:
        return "only root can start tasks as other users"
    absent = [name for name in PROGRAMS if not shutil.which(name, path=SEARCHED)]
    if absent:
        return f"{', '.join(absent)} not found: packages munge, slurmctld, slurmd and slurm-client"
    return None


# Becomes the program behind it, on a host of that name.
APART = ("unshare", "--uts", "--ipc", "--mount", "sh", "-ec", 'hostname "$0"; mount -t tmpfs -o mode=1777 none /dev/shm; exec "$@"')


def hosts_can_be_made():
    """Whether this is no container without the right to namespaces."""
    return subprocess.run([*APART, "n0", "true"], capture_output=True, check=False).returncode == 0


def free_ports(count):
    """Ports that nobody listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def processes():
    """(process, its environment and command line) of all that may be looked at."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()


class Cluster:
    """Started by `with`; behind it nothing runs that it had started."""

    def __init__(self, folder, plugstack, lines=()):
        """lines: more of slurm.conf."""
        self.folder, self.plugstack, self.lines = pathlib.Path(folder), plugstack, lines
        self.configuration = self.folder / "slurm.conf"
        self.daemons, self.ports = {}, {}
        self.has_hosts = hosts_can_be_made()

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        try:
            self.configure()
            self.start_munge()
            self.start("slurmctld", "slurmctld", "-D", "-i", "-f", self.configuration)
            for node in NODES:
                self.start_node(node)
            guard.wait_for(lambda: self.states() == dict.fromkeys(NODES, "IDLE"), f"all nodes idle, not {self.states()}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name, daemon in reversed(self.daemons.items()):
            if name != "munged":
                daemon.kill()
                daemon.wait()
        # Steps, their tasks, and whatever these have started, in sessions of their own.
        while found := self.left():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        if "munged" in self.daemons:
            self.daemons["munged"].terminate()
            self.daemons["munged"].wait()

    def left(self):
        """The processes that belong to this cluster, but for munged: each has its configuration in its environment or its
        command line."""
        marks = (str(self.configuration).encode(), str(self.folder / "spool").encode())
        return [pid for pid, environment, command in processes()
                if pid != os.getpid() and any(mark in environment or mark in command for mark in marks)]

    def configure(self):
        controller, *ports = free_ports(1 + len(NODES))
        host = socket.gethostname()
        self.ports = dict(zip(NODES, ports))
        for name in ("state", "spool", "logs", "munge", *(f"tmp-{node}" for node in NODES)):
            (self.folder / name).mkdir()
        for node in NODES:
            (self.folder / f"tmp-{node}").chmod(0o1777)
        self.write_plugstack(self.plugstack)
        # Slurm wants a file for each GPU, and that it is there.
        for number in range(CPUS):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{CPUS - 1}]\n")
        lines = [
            "ClusterName=poolcuda", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
            # A job is begun again when the credentials of its first run have expired.
            "SlurmUser=root", "SlurmdUser=root", f"AuthInfo=socket={self.folder}/munge/socket,cred_expire=5",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool/%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/%n.pid",
            f"SlurmctldLogFile={self.folder}/logs/slurmctld", f"SlurmdLogFile={self.folder}/logs/%n",
            f"PlugStackConfig={self.folder}/plugstack.conf",
            f"TmpFS={self.folder}/tmp-%n",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SchedulerType=sched/backfill",
            "SchedulerParameters=bf_interval=1,bf_resolution=1,sched_interval=1,batch_sched_delay=0",
            "SlurmdParameters=config_overrides", "ReturnToService=2", "MpiDefault=none", "KillWait=2", "MessageTimeout=20",
            "SlurmdTimeout=10", "InactiveLimit=0", "JobRequeue=1", "SwitchType=switch/none", "UnkillableStepTimeout=30",
            "GresTypes=gpu",
            *(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} Gres=gpu:{CPUS} RealMemory=1024"
              for node, port in self.ports.items()),
            f"PartitionName=all Nodes={','.join(NODES)} Default=YES State=UP MaxTime=60 OverSubscribe=YES:4",
            *self.lines,
        ]
        self.configuration.write_text("\n".join(lines) + "\n")

    def write_plugstack(self, text):
        """Steps that begin from now on find these plugins."""
        (self.folder / "plugstack.conf").write_text(text)

    def start_munge(self):
        key, munge = self.folder / "munge/key", self.folder / "munge"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.start("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                   f"--pid-file={munge}/pid", f"--seed-file={munge}/seed", f"--log-file={munge}/log")
        guard.wait_for((munge / "socket").exists, "munged's socket")

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-N", node, "-f", self.configuration, before=[*APART, node] if self.has_hosts else [])

    def start(self, name, program, *arguments, before=()):
        with open(self.folder / f"logs/{name}.output", "ab") as output:
            self.daemons[name] = subprocess.Popen(
                # It ends with us, even if the test has no time to clean up.
                ["setpriv", "--pdeathsig=KILL", *before, shutil.which(program, path=SEARCHED), *map(str, arguments)], env={**self.base(), "PATH": SEARCHED},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)

    def base(self):
        """What every command's environment has."""
        return {"PATH": SEARCHED, "LC_ALL": "C.UTF-8", "SLURM_CONF": str(self.configuration), "HOME": "/tmp"}

    def states(self):
        done = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %T"], env=self.base(), capture_output=True, text=True, check=False)
        return {name: state.strip("*~#!%$@^-").upper() for name, state in map(str.split, done.stdout.splitlines())}

    def command(self, command, user=None, env=None):
        """(command line, environment) of a command that a user starts on the controller's machine."""
        before = []
        if user:
            entry = pwd.getpwnam(user)
            before = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        return [*before, *map(str, command)], {**self.base(), **(env or {})}

    def start_command(self, *command, user=None, env=None, cwd=None, **options):
        """A Popen of it, whose output and errors are one text."""
        command, environment = self.command(command, user, env)
        return subprocess.Popen(command, env=environment, cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def run(self, *command, user=None, env=None, cwd=None, code=0):
        command, environment = self.command(command, user, env)
        done = guard.run(command, env=environment, cwd=cwd or self.folder, capture_output=True, text=True, check=False,
                         stdin=subprocess.DEVNULL)
        assert code is None or done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def logs(self):
        """The ends of the daemons' logs, for a test that fails."""
        return "\n".join(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
                         for path in sorted((self.folder / "logs").iterdir()))

    def processes_of(self, node):
        """The slurmd of a node and all that it has started: its slurmstepds and their tasks."""
        found = {self.daemons[node].pid}
        for pid, environment, _ in processes():
            if f"SLURMD_NODENAME={node}".encode() in environment.split(b"\0") and str(self.configuration).encode() in environment:
                found.add(pid)
        # A slurmstepd has a parent of its own, and is known as the parent of its tasks.
        for pid in list(found):
            with contextlib.suppress(OSError):
                parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if pathlib.Path(f"/proc/{parent}/cmdline").read_bytes().startswith(b"slurmstepd"):
                    found.add(parent)
        for pid in list(found):
            found.update(guard.family(pid))
        return found

    def kill_node(self, node):
        """As if its power had gone: nothing of it has time for a last word."""
        stopped = self.processes_of(node)
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        for pid in stopped | self.processes_of(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.daemons[node].wait()
