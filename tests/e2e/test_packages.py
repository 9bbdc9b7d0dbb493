"""The packages that scripts/package makes: installed, run and removed. Nothing outside pytest's folders is touched."""

import fcntl
import gzip
import os
import re
import shutil
import sys
import tarfile
import venv
import zipfile

import guard
import pytest
from conftest import BUILD, ROOT
from installed import CLEAN, VERSION, files, links_lead_somewhere, replayed, told, works

# One worker makes each package, once.
pytestmark = pytest.mark.xdist_group("packages")
ARCH = os.uname().machine
DEB_LIBRARY = "lib/%s/libpoolcuda.so"


def call(*command, code=0, **arguments):
    done = guard.run(list(map(str, command)), capture_output=True, text=True, check=False,
                     env=CLEAN, **arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def package(*arguments):
    """scripts/package. Its own builds are in one folder: one at a time."""
    if BUILD in arguments:
        return call(ROOT / "scripts/package", *arguments)
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build/package.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return call(ROOT / "scripts/package", *arguments)


@pytest.fixture(scope="module")
def portable(tmp_path_factory):
    """A folder with the tarball and the wheel."""
    folder = tmp_path_factory.mktemp("portable")
    package("--to", folder, "tarball", "wheel")
    return folder


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deb")
    package("--from", BUILD, "--to", folder, "deb")
    return next(folder.glob("poolcuda_*.deb"))


def needed_libraries(file):
    dynamic = told("readelf", "--dynamic", "--wide", file)
    return {name.partition(".so")[0] for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)}


def newest_glibc(*elf_files):
    return max(tuple(map(int, version)) for file in elf_files
               for version in re.findall(r"\bGLIBC_(\d+)\.(\d+)", told("readelf", "--version-info", "--wide", file)))


def test_the_tarball_runs_wherever_it_is_unpacked_and_moved(portable, tmp_path):
    with tarfile.open(portable / f"poolcuda-{VERSION}-linux-{ARCH}.tar.gz") as tar:
        assert {member.name.split("/")[0] for member in tar} == {f"poolcuda-{VERSION}-linux-{ARCH}"}
        assert {(member.uid, member.gid) for member in tar} == {(0, 0)}
        tar.extractall(tmp_path)
    tree = tmp_path / f"poolcuda-{VERSION}-linux-{ARCH}"
    works(tree, "lib/libpoolcuda.so")
    links_lead_somewhere(tree)
    moved = tree.rename(tmp_path / "elsewhere")
    works(moved, "lib/libpoolcuda.so")
    # LD_PRELOAD cannot name a path with a space, but the command may lie there.
    moved = moved.rename(tmp_path / "a folder")
    assert replayed(moved / "bin/poolcuda")["hits"] > 0
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "docs/policies.md"):
        assert (moved / name).read_text() == (ROOT / name).read_text()


def test_the_tarball_needs_libc_alone(portable, tmp_path):
    with tarfile.open(portable / f"poolcuda-{VERSION}-linux-{ARCH}.tar.gz") as tar:
        tar.extractall(tmp_path)
    tree = next(tmp_path.iterdir())
    for file in ("bin/poolcuda", "lib/libpoolcuda.so", "lib/poolcuda/libcuda.so.1"):
        assert needed_libraries(tree / file) <= {"libc", "libm", f"ld-linux-{ARCH.replace('_', '-')}"}
    assert newest_glibc(tree / "lib/libpoolcuda.so") <= (2, 17)
    # It has no cairo, and says so.
    said = call(tree / "bin/poolcuda", "tune", ROOT / "tests/data/segment-reduce.csv.gz", "--plot", tmp_path / "p", code=1)
    assert "cannot be drawn, this poolcuda was built without cairo" in said


def test_the_wheel_installs_runs_and_leaves_nothing(portable, tmp_path):
    wheel = next(portable.glob("*.whl"))
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False)
    before = files(environment)
    pip = [sys.executable, "-m", "pip", "--python", environment, "--disable-pip-version-check", "--no-input"]
    call(*pip, "install", "--no-index", wheel)
    works(environment, "lib/libpoolcuda.so")
    shown = call(*pip, "show", "poolcuda")
    assert f"Name: poolcuda\nVersion: {VERSION}\n" in shown and "\nLicense: MIT\n" in shown
    call(*pip, "uninstall", "--yes", "poolcuda")
    # pip itself leaves empty folders.
    assert {path for path in files(environment) - before if not (environment / path).is_dir()} == set()


def test_the_wheels_tag_is_the_glibc_that_its_files_need(portable, tmp_path):
    wheel = next(portable.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        assert archive.testzip() is None
    data = tmp_path / f"poolcuda-{VERSION}.data"
    newest = newest_glibc(data / "scripts/poolcuda", data / "data/lib/libpoolcuda.so",
                          data / "data/lib/poolcuda/libcuda.so.1")
    assert wheel.name == f"poolcuda-{VERSION}-py3-none-manylinux_{newest[0]}_{newest[1]}_{ARCH}.whl"
    information = tmp_path / f"poolcuda-{VERSION}.dist-info"
    assert f"Tag: py3-none-manylinux_{newest[0]}_{newest[1]}_{ARCH}\n" in (information / "WHEEL").read_text()
    metadata = (information / "METADATA").read_text()
    assert metadata.endswith("\n\n" + (ROOT / "README.md").read_text())


def test_licences_of_libraries_within_the_command_are_passed_on(portable):
    with tarfile.open(portable / f"poolcuda-{VERSION}-linux-{ARCH}.tar.gz") as tar:
        in_tarball = {member.name.split("third-party/")[1]: tar.extractfile(member).read()
                      for member in tar if "third-party/" in member.name}
    with zipfile.ZipFile(next(portable.glob("*.whl"))) as archive:
        in_wheel = {name.split("third-party/")[1]: archive.read(name)
                    for name in archive.namelist() if "third-party/" in name}
    assert in_tarball == in_wheel and set(in_wheel) >= {"libjansson", "libz", "libzstd"}
    assert b"Petri Lehtinen" in in_wheel["libjansson"] and b"Jean-loup Gailly" in in_wheel["libz"]


@pytest.mark.parametrize("kind", ["tarball", "wheel"])
def test_a_build_with_shared_libraries_makes_no_portable_package(kind, tmp_path):
    done = call(ROOT / "scripts/package", "--from", BUILD, "--to", tmp_path, kind, code=1)
    assert "libjansson.so.4, " in done and ": expected libc alone, configure it with -Dstatic_deps=true\n" in done
    assert not list(tmp_path.iterdir())


def test_packages_of_the_same_files_are_the_same(portable, tmp_path):
    package("--from", ROOT / "build/package-portable", "--to", tmp_path, "tarball", "wheel")
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in portable.iterdir()) and len(made) == 2
    for name in made:
        assert (tmp_path / name).read_bytes() == (portable / name).read_bytes()


def dpkg(root, *arguments):
    """dpkg on a root of its own, with its own records, without leaving it."""
    return call("dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless", f"--log={root}/log",
                *arguments)


@pytest.fixture
def debian(tmp_path):
    """A root whose dpkg believes that the packages of this machine are installed."""
    root = tmp_path / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    shutil.copy("/var/lib/dpkg/status", root / "var/lib/dpkg/status")
    for architecture in ("arch", "arch-native"):
        if os.path.exists(f"/var/lib/dpkg/{architecture}"):
            shutil.copy(f"/var/lib/dpkg/{architecture}", root / f"var/lib/dpkg/{architecture}")
    return root


def outside(root):
    return {path for path in files(root) if path.parts[0] != "var" and path.name != "log"}


def test_the_deb_installs_with_its_dependencies_runs_and_leaves_nothing(deb, debian):
    dpkg(debian, "--install", deb)
    multiarch = call("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    works(debian / "usr", DEB_LIBRARY % multiarch)
    assert f"Version: {VERSION}\n" in dpkg(debian, "--status", "poolcuda")
    assert (debian / "usr/share/zsh/vendor-completions/_poolcuda").is_file()
    assert dpkg(debian, "--verify", "poolcuda") == ""
    dpkg(debian, "--purge", "poolcuda")
    assert outside(debian) == set()


def test_the_deb_depends_on_what_its_files_link(deb):
    fields = dict(re.findall(r"^([\w-]+): (.*)$", call("dpkg-deb", "--field", deb), re.M))
    depends = {re.match(r"\S+", part).group(0) for part in fields["Depends"].split(", ")}
    assert depends >= {"libc6", "libjansson4", "libzstd1", "zlib1g", "libcairo2"}
    assert fields["Version"] == VERSION and fields["Package"] == "poolcuda"
    assert fields["Architecture"] == call("dpkg", "--print-architecture").strip()


def test_the_deb_has_the_files_of_a_debian_package(deb, tmp_path):
    call("dpkg-deb", "--extract", deb, tmp_path)
    doc = tmp_path / "usr/share/doc/poolcuda"
    copyright_file = (doc / "copyright").read_text()
    assert copyright_file.startswith("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n")
    paragraphs = (ROOT / "LICENSE").read_text().split("\n\n")[2:]
    assert copyright_file.endswith("\n .\n".join(
        "\n".join(f" {line}" for line in paragraph.strip().splitlines()) for paragraph in paragraphs) + "\n")
    (tmp_path / "changelog").write_bytes(gzip.decompress((doc / "changelog.gz").read_bytes()))
    parsed = call("dpkg-parsechangelog", "--all", "-l", tmp_path / "changelog")
    assert f"Version: {VERSION}\n" in parsed and "warning" not in parsed
    pages = list((tmp_path / "usr/share/man").rglob("*.[0-9]*"))
    assert pages and all(page.suffix == ".gz" and gzip.decompress(page.read_bytes()) for page in pages)
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.iterdir()} == {"usr", "changelog"}


def maintainers(package, folder):
    """Whom a package names: in its control file, and at each version in its changelog."""
    call("dpkg-deb", "--extract", package, folder)
    changelog = gzip.decompress((folder / "usr/share/doc/poolcuda/changelog.gz").read_bytes()).decode()
    return {call("dpkg-deb", "--field", package, "Maintainer").strip(), *re.findall(r"^ -- (.*)  \S", changelog, re.M)}


def test_the_deb_names_no_address_unless_its_maker_gives_one(deb, tmp_path, monkeypatch):
    assert maintainers(deb, tmp_path / "ours") == {"The poolcuda authors", "The poolcuda authors <>"}
    who = "A Packager <packager@distribution.test>"
    monkeypatch.setitem(CLEAN, "PACKAGE_MAINTAINER", who)
    package("--from", BUILD, "--to", tmp_path, "deb")
    theirs = next(tmp_path.glob("poolcuda_*.deb"))
    assert maintainers(theirs, tmp_path / "theirs") == {who}
    # Lintian has its say about addresses.
    assert "contact" not in (tmp_path / "theirs/usr/share/lintian/overrides/poolcuda").read_text()


def test_no_page_or_metadata_that_is_installed_names_an_address(deb, portable, tmp_path):
    call("dpkg-deb", "--extract", deb, tmp_path)
    with zipfile.ZipFile(next(portable.glob("*.whl"))) as archive:
        archive.extractall(tmp_path)
    for name in ("usr/share/man/man*/*.gz", "usr/lib/*/pkgconfig/*.pc", "*.dist-info/METADATA"):
        found = list(tmp_path.glob(name))
        assert found, name
        for path in found:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            assert not re.search(rb"[\w.]@\w[\w.-]*\.\w", data), path


@pytest.mark.skipif(not shutil.which("lintian"), reason="lintian is not installed: package lintian")
def test_lintian_finds_nothing_in_the_debs(deb):
    said = call("lintian", "--fail-on", "error,warning", "--allow-root", "--no-user-dirs", *deb.parent.glob("*.deb"))
    assert not re.search(r"^[EW]:", said, re.M)


@pytest.mark.skipif(not (BUILD / "src/slurm/poolcuda_spank.so").exists(), reason="no plugin was built: package libslurm-dev")
def test_slurms_plugin_is_a_package_of_its_own_beside_the_deb(deb, debian):
    plugin, = deb.parent.glob("poolcuda-slurm_*.deb")
    dpkg(debian, "--install", deb)
    before = outside(debian)
    assert not [path for path in before if "slurm" in path.name or "spank" in path.name]
    multiarch = call("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    said = dict(re.findall(r"^([\w-]+): (.*)$", call("dpkg-deb", "--field", plugin), re.M))
    assert said["Package"] == "poolcuda-slurm" and f"poolcuda (= {VERSION})" in said["Depends"]
    # Slurm loads plugins of its own release alone.
    assert re.search(r"slurm-wlm-basic-plugins \(>= \d+\.\d+\), slurm-wlm-basic-plugins \(<< \d+\.\d+\)", said["Depends"])
    dpkg(debian, "--force-depends", "--install", plugin)
    added = {str(path) for path in outside(debian) - before if not (debian / path).is_dir()}
    assert added == {f"usr/lib/{multiarch}/slurm/poolcuda_spank.so", "usr/share/man/man8/poolcuda_spank.8.gz",
                     "usr/share/lintian/overrides/poolcuda-slurm"}
    dpkg(debian, "--purge", "poolcuda-slurm")
    assert outside(debian) == before


@pytest.mark.parametrize("arguments, expected", [
    (["rpm"], "rpm: unknown, expected --from BUILD, --to FOLDER, deb, tarball or wheel"),
    ([], "nothing to make, expected deb, tarball or wheel"),
    (["--to"], "--to: expected a folder behind it"),
], ids=["unknown", "none", "half"])
def test_bad_arguments_are_reported(arguments, expected):
    assert call(ROOT / "scripts/package", *arguments, code=2) == f"scripts/package: {expected}\n"
