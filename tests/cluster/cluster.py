"""A Slurm cluster of several nodes on one machine: munged, slurmctld and a slurmd for each node, on ports of their own,
with everything that they write in one folder. Nothing of the machine's own Slurm is used or changed.

No control groups are needed, but root: tasks run as the users who start them. Where namespaces can be made, each node has a
host name, a /dev/shm and System V's memory of its own; with a Network an address as well.
"""

import contextlib
import os
import pathlib
import pwd
import re
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


class Network:
    """Network namespaces: one for the controller and the users' commands, one for each node, with an interface eth0 on a bridge in
    the first one. The machine's own network is not touched, and they are gone with the processes that hold them, which end with
    us. Entered by `with`; raises OSError where that cannot be done."""

    HERE, MASK = "192.0.2.254", 24  # of the block that is for documentation (RFC 5737): nobody listens there

    def __init__(self):
        self.addresses = {node: f"192.0.2.{number}" for number, node in enumerate(NODES, 1)}
        self.holders = {}

    def __enter__(self):
        try:
            for name in ("", *NODES):
                self.hold(name)
            self.ip("", "link add bridge type bridge")
            self.ip("", f"addr add {self.HERE}/{self.MASK} dev bridge")
            self.ip("", "link set bridge up")
            for node in NODES:
                self.ip("", f"link add {node} type veth peer name eth0 netns {self.holders[node].pid}")
                self.ip("", f"link set {node} master bridge up")
                self.ip(node, f"addr add {self.addresses[node]}/{self.MASK} dev eth0")
                self.ip(node, "link set eth0 up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()

    def hold(self, name):
        holder = self.holders[name] = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "unshare", "--net", "sleep", "infinity"], stderr=subprocess.PIPE, text=True)
        ours = os.readlink("/proc/self/ns/net")
        guard.wait_for(lambda: holder.poll() is not None or os.readlink(f"/proc/{holder.pid}/ns/net") != ours, "a network namespace")
        if holder.poll() is not None:
            raise OSError(holder.stderr.read().strip())
        self.ip(name, "link set lo up")

    def inside(self, name=""):
        """What goes before a command that is to run in a node's namespace, or the controller's."""
        return ["nsenter", f"--net=/proc/{self.holders[name].pid}/ns/net"]

    def ip(self, name, words):
        done = subprocess.run([*self.inside(name), "ip", *words.split()], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"ip {words}: {done.stderr.strip()}")

    def received(self, node):
        """Bytes that have come to a node's interface."""
        done = subprocess.run([*self.inside(node), "cat", "/proc/net/dev"], capture_output=True, text=True, check=True)
        return int(re.search(r"eth0:\s*(\d+)", done.stdout)[1])


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

    def __init__(self, folder, plugstack, lines=(), network=None, hasty=False):
        """lines: more of slurm.conf. network: a Network that was entered; without one all nodes have this machine's address.
        hasty: a node that does not answer is soon taken for dead, and a job begins again soon: on a busy machine both may go wrong."""
        self.folder, self.plugstack, self.lines, self.network = pathlib.Path(folder), plugstack, lines, network
        self.patience = 5 if hasty else 600
        self.configuration = self.folder / "slurm.conf"
        self.daemons, self.ports = {}, {}
        self.has_hosts = hosts_can_be_made()

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        try:
            self.configure()
            self.start_munge()
            self.start("slurmctld", "slurmctld", "-D", "-i", "-f", self.configuration, before=self.inside())
            for node in NODES:
                self.start_node(node)
            guard.wait_for(lambda: self.has_failed() or self.states() == dict.fromkeys(NODES, "IDLE"), "all nodes idle")
            assert not self.has_failed(), f"{' '.join(self.has_failed())} ended\n{self.logs()}"
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

    def has_failed(self):
        """The daemons that have ended by themselves."""
        return [name for name, daemon in self.daemons.items() if daemon.poll() is not None]

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
        here, addresses = "127.0.0.1", dict.fromkeys(NODES, "127.0.0.1")
        if self.network:
            here, addresses = self.network.HERE, self.network.addresses
        for name in ("state", "spool", "logs", "munge", *(f"tmp-{node}" for node in NODES)):
            (self.folder / name).mkdir()
        for node in NODES:
            (self.folder / f"tmp-{node}").chmod(0o1777)
        self.write_plugstack(self.plugstack)
        # Slurm wants a file for each GPU, and that it is there.
        for number in range(CPUS):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{CPUS - 1}]\n")
        # Else slurmd looks for a mounted hierarchy to tell which version it is, and does not start where none is.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        lines = [
            "ClusterName=poolcuda", f"SlurmctldHost={host}({here})", f"SlurmctldPort={controller}",
            # A job is begun again when the credentials of its first run have expired.
            "SlurmUser=root", "SlurmdUser=root", f"AuthInfo=socket={self.folder}/munge/socket,cred_expire={self.patience}",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool/%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/%n.pid",
            f"SlurmctldLogFile={self.folder}/logs/slurmctld", f"SlurmdLogFile={self.folder}/logs/%n",
            f"PlugStackConfig={self.folder}/plugstack.conf",
            f"TmpFS={self.folder}/tmp-%n",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SchedulerType=sched/backfill",
            "SchedulerParameters=bf_interval=1,bf_resolution=1,sched_interval=1,batch_sched_delay=0",
            "SlurmdParameters=config_overrides", "ReturnToService=2", "MpiDefault=none", "KillWait=2", "MessageTimeout=20",
            f"SlurmdTimeout={2 * self.patience}", "InactiveLimit=0", "JobRequeue=1", "SwitchType=switch/none", "UnkillableStepTimeout=30",
            "GresTypes=gpu",
            *(f"NodeName={node} NodeHostname={host} NodeAddr={addresses[node]} Port={port} CPUs={CPUS} Gres=gpu:{CPUS} RealMemory=1024"
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
        self.start(node, "slurmd", "-D", "-N", node, "-f", self.configuration,
                   before=[*self.inside(node), *([*APART, node] if self.has_hosts else [])])

    def start(self, name, program, *arguments, before=()):
        with open(self.folder / f"logs/{name}.output", "ab") as output:
            self.daemons[name] = subprocess.Popen(
                # It ends with us, even if the test has no time to clean up.
                ["setpriv", "--pdeathsig=KILL", *before, shutil.which(program, path=SEARCHED), *map(str, arguments)], env={**self.base(), "PATH": SEARCHED},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)

    def inside(self, name=""):
        return self.network.inside(name) if self.network else []

    def base(self):
        """What every command's environment has."""
        return {"PATH": SEARCHED, "LC_ALL": "C.UTF-8", "SLURM_CONF": str(self.configuration), "HOME": "/tmp"}

    def states(self):
        done = subprocess.run([*self.inside(), "sinfo", "-h", "-N", "-o", "%N %T"], env=self.base(), capture_output=True, text=True, check=False)
        return {name: state.strip("*~#!%$@^-").upper() for name, state in map(str.split, done.stdout.splitlines())}

    def command(self, command, user=None, env=None):
        """(command line, environment) of a command that a user starts on the controller's machine."""
        before = []
        if user:
            entry = pwd.getpwnam(user)
            before = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        return [*self.inside(), *before, *map(str, command)], {**self.base(), **(env or {})}

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
