"""scripts/package-oci: the image of the tarball is a sound OCI layout, and runs in a container that needs no rights, and in podman's.

Debian's skopeo, umoci, bubblewrap and podman, which `scripts/test --all` installs, judge and run it; without them its bytes alone are looked at.
"""

import gzip
import hashlib
import json
import os
import pathlib
import pwd
import re
import shutil
import tarfile
import tempfile

import guard
import pytest
from conftest import BUILD, DRIVER, ROOT, RUNTIME, SAMPLES
from installed import VERSION
from steered import NEEDS_MOUNT
from test_packages import ARCH, call, portable  # pylint: disable=unused-import

pytestmark = [pytest.mark.xdist_group("packages"),
              pytest.mark.skipif(not os.environ.get("ALL_FAULTS"), reason="it makes the packages once more: scripts/test --all runs it")]
NEEDS_TOOLS = pytest.mark.skipif(not all(map(shutil.which, ("skopeo", "umoci", "bwrap"))) or os.geteuid() != 0,
                                 reason="scripts/test --all installs Debian's skopeo, umoci and bubblewrap, as root")
TEMPORARY = pathlib.Path(tempfile.gettempdir())
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture(name="tarball")
def fixture_tarball(portable):
    return portable / f"poolcuda-{VERSION}-linux-{ARCH}.tar.gz"


def package(*arguments, code=0):
    return call(ROOT / "scripts/package-oci", *arguments, code=code)


def contents(archive):
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def test_the_image_is_a_sound_layout_of_the_tarballs_files(tarball, tmp_path):
    for name in ("one", "other"):
        package(tarball, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes(), "made again it is the same"
    files = contents(tmp_path / "one")
    for name in files:
        if name.startswith("blobs/"):
            assert hashlib.sha256(files[name]).hexdigest() == name.rpartition("/")[2]

    def blob(descriptor):
        data = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"]
        return data

    index = json.loads(files["index.json"])
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    layer = gzip.decompress(blob(manifest["layers"][0]))
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()] and len(manifest["layers"]) == 1
    assert config["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[ARCH] and config["config"]["User"] == "65534:65534"
    (tmp_path / "layer").write_bytes(layer)
    with tarfile.open(tmp_path / "layer") as made, tarfile.open(tarball) as source:
        assert {re.sub("^poolcuda", f"poolcuda-{VERSION}-linux-{ARCH}", member.name): (member.mode, member.size, member.linkname) for member in made} == {
            member.name: (member.mode, member.size, member.linkname) for member in source}


def test_what_is_no_tarball_or_no_layout_is_refused_in_one_line(tarball, tmp_path):
    (tmp_path / "other.tar.gz").write_bytes(tarball.read_bytes())
    (tmp_path / "index.json").write_text("nonsense")
    for words, reason in (([tmp_path / "other.tar.gz"], "expected a tarball of scripts/package"),
                          ([tarball.with_name(f"poolcuda-9-linux-{ARCH}.tar.gz")], "No such file"),
                          (["--base", tmp_path, tarball], "expected an OCI layout"), (["--base", tmp_path / "absent", tarball], "No such file")):
        said = package(*words, tmp_path / "out", code=1)
        assert reason in said and said.count("\n") == 1 and said.endswith(": no image is made\n")
        assert not (tmp_path / "out").exists()


def unpacked(archive, folder):
    """The bundle of an image, by others' tools; everybody may read it."""
    call("skopeo", "copy", "--quiet", f"oci-archive:{archive}", f"oci:{folder / 'layout'}:it")
    call("umoci", "unpack", "--rootless", "--image", f"{folder / 'layout'}:it", folder / "bundle")
    for each in (folder / "bundle", folder, *(parent for parent in folder.parents if TEMPORARY in parent.parents)):
        each.chmod(each.stat().st_mode | 0o055)
    return folder / "bundle/rootfs"


@NEEDS_TOOLS
def test_as_a_volume_it_pools_a_program_in_a_container_without_rights(tarball, tmp_path):
    package(tarball, tmp_path / "image")
    tree = unpacked(tmp_path / "image", tmp_path)
    assert [each.name for each in tree.iterdir()] == ["poolcuda"], "and nothing else"
    contained = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/mnt",
                 "--ro-bind", tree, "/mnt", "--setenv", "LD_LIBRARY_PATH", f"{DRIVER}:{RUNTIME}", "--setenv", "SIMCUDA_COST", "0",
                 "--setenv", "LD_PRELOAD", "/mnt/poolcuda/lib/libpoolcuda.so", "--setenv", "POOLCUDA_STATS_FILE", "/dev/stdout"]
    if guard.run([*NOBODY, "test", "-x", str(SAMPLES / "varying")], check=False).returncode:
        pytest.skip("others may not read the build folder")
    done = guard.run([*NOBODY, *map(str, contained), str(SAMPLES / "varying")], capture_output=True, text=True, check=True)
    figures, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))
    assert figures["counters"]["malloc_hits"] > 0


def make_base(folder):
    """The layout of an image with a shell, cp, and the libraries of libc: what a distribution's image has."""
    call("umoci", "init", "--layout", folder / "base")
    call("umoci", "new", "--image", f"{folder / 'base'}:b")
    call("umoci", "unpack", "--rootless", "--image", f"{folder / 'base'}:b", folder / "made")
    root = folder / "made/rootfs"
    for name in ("bin", "dev", "proc", "tmp"):
        (root / name).mkdir()
    wanted = set()
    for name in ("sh", "cp"):
        shutil.copy(f"/bin/{name}", root / "bin")
        wanted |= set(re.findall(r"/\S+", call("ldd", f"/bin/{name}")))
    wanted |= {re.sub(r"libc\.so\.6", name, path) for path in wanted if path.endswith("libc.so.6") for name in ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")}
    for path in wanted:
        if os.path.exists(path):
            (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path.lstrip("/"))
    call("umoci", "repack", "--image", f"{folder / 'base'}:b", folder / "made")
    return folder / "base"


@NEEDS_TOOLS
def test_on_a_base_it_runs_and_copies_itself_as_the_pods_recipe_has_it(tarball, tmp_path):
    package("--base", make_base(tmp_path), tarball, tmp_path / "image")
    root = unpacked(tmp_path / "image", tmp_path)
    config = json.loads((tmp_path / "bundle/config.json").read_text())["process"]
    assert config["user"]["uid"] == 65534 and [entry for entry in config["env"] if entry.startswith("PATH=")][0].startswith("PATH=/poolcuda/bin:")
    script = "set -e; poolcuda --version; cp -r /poolcuda /tmp/tools; /tmp/tools/bin/poolcuda preload"
    path = next(entry for entry in config["env"] if entry.startswith("PATH=")).removeprefix("PATH=")
    done = guard.run([*NOBODY, "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                      "--setenv", "PATH", path, "sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"poolcuda {VERSION}", "/tmp/tools/lib/libpoolcuda.so"]), done.stderr


class Podman:
    """With storage of its own, as root. Where control groups are of version 1, or of both, as in many virtual machines, crun of Debian 12
    runs nothing: there it sees an empty hierarchy of version 2, in a mount namespace, and uses none."""

    START = '[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || mount -t cgroup2 none /sys/fs/cgroup; exec podman "$@"'
    # A container's own limits would be beyond those of a machine that is one itself.
    CONTAINED = ["run", "--rm", "--network=none", "--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]

    def __init__(self, folder):
        self.folder = folder
        self.options = [f"--root={folder}/storage", f"--runroot={folder}/run", f"--tmpdir={folder}/tmp", "--storage-driver=vfs",
                        "--cgroup-manager=cgroupfs", "--events-backend=file"]

    def __call__(self, *words):
        return call("unshare", "--mount", "sh", "-c", self.START, self.folder, *self.options, *words)

    def pull(self, source):
        """The name of an image."""
        return re.findall(r"\b[0-9a-f]{64}\b", self("pull", "--quiet", source))[-1]

    def run(self, *words):
        return self(*self.CONTAINED, *words)

    def play(self, pod):
        """A pod of Kubernetes' own form, by podman in the kubelet's place. CONTAINED for it."""
        limits = pathlib.Path(self.folder, "limits.conf")
        limits.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
        self.options.append("--runtime-flag=cgroup-manager=disabled")
        return call("env", f"CONTAINERS_CONF={limits}", "unshare", "--mount", "sh", "-c", self.START, self.folder, *self.options, "kube", "play",
                    "--network=none", pod)


class RootlessPodman(Podman):
    """Of an ordinary user, who has no rights but to numbers of users that /etc/subuid gives to him: that file, and the device by which
    slirp4netns makes a network, are made for him in the mount namespace."""

    USER = "games"
    START = ('for each in subuid subgid; do mount --bind "$0/ids" /etc/$each; done; mount -t tmpfs none /dev/net; mknod -m 666 /dev/net/tun c 10 200; '
             + Podman.START.replace("exec podman", f'exec setpriv --reuid={USER} --regid={USER} --clear-groups env HOME="$0" XDG_RUNTIME_DIR="$0" podman'))
    CONTAINED = [word.replace("=none", "=slirp4netns") for word in Podman.CONTAINED]

    def __init__(self, folder):
        super().__init__(folder)
        self.ids = pathlib.Path(folder, "ids")
        self.ids.write_text(f"{self.USER}:100000:65536\n")
        shutil.chown(folder, self.USER, self.USER)

    def own(self, file):
        """A copy that the user may read."""
        copy = shutil.copy(file, self.folder)
        shutil.chown(copy, self.USER)
        return copy


NEEDS_PODMAN = pytest.mark.skipif(not all(map(shutil.which, ("podman", "crun"))), reason="scripts/test --all installs Debian's podman and crun")


@pytest.fixture(name="podman")
def fixture_podman():
    with tempfile.TemporaryDirectory(prefix="podman-") as folder:  # of a short path: podman wants that
        yield Podman(folder)


@pytest.fixture(name="rootless")
def fixture_rootless():
    with tempfile.TemporaryDirectory(prefix="podman-") as folder:
        started = RootlessPodman(folder)
        yield started
        started("unshare", "rm", "-rf", f"{folder}/storage")  # other numbers' files
        started("system", "migrate")  # ends the process that holds the user's namespace


@NEEDS_TOOLS
@NEEDS_PODMAN
@NEEDS_MOUNT
def test_podman_runs_the_pods_recipe_and_mounts_the_image_as_a_volume(tarball, podman, tmp_path):
    if guard.run([*NOBODY, "test", "-x", str(SAMPLES / "varying")], check=False).returncode:
        pytest.skip("others may not read the build folder")
    base = make_base(tmp_path)
    package(tarball, tmp_path / "alone")
    package("--base", base, tarball, tmp_path / "based")
    alone, based, app = (podman.pull(source) for source in (f"oci-archive:{tmp_path / 'alone'}", f"oci-archive:{tmp_path / 'based'}", f"oci:{base}:b"))
    tools, figures = tmp_path / "tools", tmp_path / "figures"
    for folder in (tools, figures):
        folder.mkdir()
        folder.chmod(0o777)

    podman.run(f"--volume={tools}:/tools", based, "cp", "-r", "/poolcuda", "/tools")
    for name, volume in (("copied", f"--volume={tools}:/tools"), ("mounted", f"--mount=type=image,source={alone},destination=/tools")):
        podman.run(volume, f"--volume={figures}:/figures", f"--volume={BUILD}:{BUILD}:ro", "--user=65534:65534",
                   "--env=LD_PRELOAD=/tools/poolcuda/lib/libpoolcuda.so", "--env=POOLCUDA_STATS_FILE=/figures/%q{POD_NAME}.%p.json", f"--env=POD_NAME={name}",
                   f"--env=LD_LIBRARY_PATH={DRIVER}:{RUNTIME}", "--env=SIMCUDA_COST=0", app, SAMPLES / "varying")
        (file,) = figures.glob(f"{name}.*.json")
        assert json.loads(file.read_text())["counters"]["malloc_hits"] > 0


@NEEDS_TOOLS
@NEEDS_PODMAN
@NEEDS_MOUNT
@pytest.mark.skipif(not all(map(shutil.which, ("slirp4netns", "newuidmap"))), reason="scripts/test --all installs Debian's slirp4netns and uidmap")
def test_an_ordinary_users_podman_pools_a_program_by_the_image_as_a_volume(tarball, rootless, tmp_path):
    if guard.run([*NOBODY, "test", "-x", str(SAMPLES / "varying")], check=False).returncode:
        pytest.skip("others may not read the build folder")
    base = make_base(tmp_path)
    package(tarball, tmp_path / "alone")
    call("skopeo", "copy", "--quiet", f"oci:{base}:b", f"oci-archive:{tmp_path / 'app'}")
    alone, app = (rootless.pull(f"oci-archive:{rootless.own(tmp_path / name)}") for name in ("alone", "app"))
    told = rootless.run(f"--mount=type=image,source={alone},destination=/tools", f"--volume={BUILD}:{BUILD}:ro", "--env=LD_PRELOAD=/tools/poolcuda/lib/libpoolcuda.so",
                        "--env=POOLCUDA_STATS_FILE=/dev/stdout", f"--env=LD_LIBRARY_PATH={DRIVER}:{RUNTIME}", "--env=SIMCUDA_COST=0", app,
                        "/bin/sh", "-c", f"read inside outside count </proc/self/uid_map; echo uid $inside is $outside outside; exec {SAMPLES}/varying")
    assert f"uid 0 is {pwd.getpwnam(rootless.USER).pw_uid} outside" in told
    figures, _ = json.JSONDecoder().raw_decode(told, told.index("{"))
    assert figures["counters"]["malloc_hits"] > 0


POD = """apiVersion: v1
kind: Pod
metadata: {name: solver}
"""
# What the recipe leaves to its reader: the image and the program, here one that the machine has built, on the simulated GPU.
OWN = f"""    image: localhost/app
    command: [{SAMPLES}/varying]
"""
OWN_VARIABLES = f"""    - {{name: LD_LIBRARY_PATH, value: "{DRIVER}:{RUNTIME}"}}
    - {{name: SIMCUDA_COST, value: "0"}}
"""


def pod_of_the_document():
    """The YAML of docs/clusters.md with what its reader adds to it."""
    (pod,) = re.findall(r"^```yaml\n(spec:\n.*?)^```", (ROOT / "docs/clusters.md").read_text(), re.M | re.S)
    for there, added in (("  - name: app\n", OWN), ("    env:\n", OWN_VARIABLES), ("  volumes:\n", f"  - {{name: build, hostPath: {{path: {BUILD}}}}}\n"),
                         ("spec:\n", "  restartPolicy: Never\n")):
        assert pod.count(there) == 1, there
        pod = pod.replace(there, there + added)
    mounts = pod.rindex("}]", 0, pod.index("  volumes:\n"))
    return POD + pod[:mounts] + f"}}, {{name: build, mountPath: {BUILD}, readOnly: true" + pod[mounts:]


@NEEDS_TOOLS
@NEEDS_PODMAN
@NEEDS_MOUNT
@pytest.mark.skipif(not shutil.which("catatonit"), reason="scripts/test --all installs Debian's catatonit, which holds a pod of podman's")
def test_podman_plays_the_pod_of_the_document_as_it_stands(tarball, podman, tmp_path):
    if guard.run([*NOBODY, "test", "-x", str(SAMPLES / "varying")], check=False).returncode:
        pytest.skip("others may not read the build folder")
    base = make_base(tmp_path)
    package("--base", base, tarball, tmp_path / "based")
    podman("tag", podman.pull(f"oci-archive:{tmp_path / 'based'}"), "registry.example/poolcuda:latest")
    podman("tag", podman.pull(f"oci:{base}:b"), "localhost/app:latest")
    (tmp_path / "pod.yaml").write_text(pod_of_the_document())
    podman.play(tmp_path / "pod.yaml")
    try:
        assert podman("wait", "solver-app").split() == ["0"], podman("logs", "solver-app")
        assert "checksum" in podman("logs", "solver-app")
        volume = pathlib.Path(podman("volume", "inspect", "--format={{.Mountpoint}}", "figures").strip())
        (file,) = volume.glob("solver.*.json")
        assert json.loads(file.read_text())["counters"]["malloc_hits"] > 0
    finally:
        podman("pod", "rm", "--force", "solver")


@NEEDS_TOOLS
@NEEDS_PODMAN
@NEEDS_MOUNT
def test_the_device_of_cdi_that_the_document_shows_pools_a_container(tarball, podman, tmp_path):
    if pathlib.Path("/run/cdi").exists():
        pytest.skip("this machine has devices of CDI")
    (spec,) = re.findall(r"^  ```json\n(.*?)^  ```", (ROOT / "docs/clusters.md").read_text(), re.M | re.S)
    call("tar", "-C", tmp_path, "-xf", tarball)
    (unpacked_there,) = tmp_path.glob("poolcuda-*")
    (tmp_path / "poolcuda.json").write_text(spec.replace('"hostPath": "/opt/poolcuda"', f'"hostPath": "{unpacked_there}"'))
    (device,) = re.findall(r"--device=(poolcuda\S+)", (ROOT / "docs/clusters.md").read_text())
    app = podman.pull(f"oci:{make_base(tmp_path)}:b")
    shutil.copytree(tmp_path, "/run/cdi", ignore=lambda _, names: set(names) - {"poolcuda.json"})
    try:
        told = podman.run(f"--device={device}", f"--volume={BUILD}:{BUILD}:ro", "--env=POOLCUDA_STATS_FILE=/dev/stdout",
                          f"--env=LD_LIBRARY_PATH={DRIVER}:{RUNTIME}", "--env=SIMCUDA_COST=0", app, SAMPLES / "varying")
    finally:
        shutil.rmtree("/run/cdi")
    figures, _ = json.JSONDecoder().raw_decode(told, told.index("{"))
    assert figures["counters"]["malloc_hits"] > 0
