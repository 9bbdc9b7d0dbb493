"""The library with the C libraries of other Debian releases: bullseye's (glibc 2.31), the oldest that Debian's mirror still
has, and trixie's, the newest that is released. scripts/check-old-root tests more on bullseye, with programs built there.
"""

import os
import shutil
import subprocess

import pytest
from conftest import DRIVER, LIBRARY, PROGRAMS, ROOT, RUNTIME, SANITIZER
from roots import folder_in, library_folder, root_of, run_in

pytestmark = pytest.mark.skipif(bool(SANITIZER), reason="the other release has no runtime of this sanitizer")
PROBE = "4242"  # nss_probe.c


def release(name):
    return pytest.param(name, marks=pytest.mark.xdist_group(f"root of {name}"), id=name)


@pytest.fixture(name="root")
def root_of_release(request):
    return root_of(request.param)


@pytest.fixture(name="folder")
def folder_in_root(root, tmp_path):
    """A folder in the root that holds the library."""
    with folder_in(root, f"{os.getpid()}-{tmp_path.name}") as folder:
        shutil.copy(LIBRARY, folder)
        yield folder


def name_service(root, folder):
    """Has the root's C library ask nss_probe.c for users, too, which is built against that C library, as its package
    would be."""
    libraries = library_folder(root)
    needed = [libraries / name for name in ("libdl.so.2", "libc.so.6")]
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-stack-protector", "-nostdlib", "-Wl,--no-as-needed",
                    "-o", folder / "libnss_probe.so.2", ROOT / "tests/programs/nss_probe.c", *needed], check=True)
    (root / "etc/nsswitch.conf").write_text("passwd: files probe\ngroup: files\n")


def needed_by(path):
    said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return [line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line]


@pytest.mark.parametrize("root", [release("bullseye"), release("trixie")], indirect=True)
def test_libdl_may_come_with_the_modules_of_the_name_service(root, folder):
    name_service(root, folder)
    assert "libdl.so.2" not in needed_by(root / "usr/bin/chown")
    assert "libdl.so.2" in needed_by(folder / "libnss_probe.so.2")
    inside = "/" + str(folder.relative_to(root))
    for preload in ({}, {"LD_PRELOAD": f"{inside}/{LIBRARY.name}"},
                    {"LD_PRELOAD": f"{inside}/{LIBRARY.name}", "POOLCUDA_DISABLE": "1"}):
        (folder / "file").write_text("")
        environment = {**preload, "LD_LIBRARY_PATH": inside}
        done = run_in(root, ["chown", "probe", f"{inside}/file"], **environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert str((folder / "file").stat().st_uid) == PROBE
        done = run_in(root, ["getent", "passwd", "probe"], **environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"probe:x:{PROBE}:{PROBE}:x:/nowhere:/nowhere\n", "")


@pytest.mark.parametrize("root", [release("bullseye")], indirect=True)
def test_all_that_the_library_imports_is_in_the_old_libc(root):
    """dlvsym aside, which was in libdl: else the library would not load into a process that has libc alone."""
    def symbols(path, *options):
        said = subprocess.run(["nm", "-D", *options, path], capture_output=True, text=True, check=True).stdout
        return {line.split()[-1].replace("@@", "@") for line in said.splitlines()}

    missing = symbols(LIBRARY, "--undefined-only") - symbols(library_folder(root) / "libc.so.6", "--defined-only")
    assert {name.partition("@")[0] for name in missing} == {"dlvsym"}


@pytest.mark.parametrize("root", [release("trixie")], indirect=True)
@pytest.mark.parametrize("program", ["driver_linked", "driver_opened", "named_sites", "named_sites-static"])
def test_programs_that_were_built_here_run_alike_on_the_newest_release(root, folder, program):
    for file in (PROGRAMS / program, DRIVER / "libcuda.so.1", RUNTIME / "libcudart.so.13"):
        shutil.copy(file, folder)
    inside = "/" + str(folder.relative_to(root))
    environment = {"LD_LIBRARY_PATH": inside, "SIMCUDA_COST": "0"}
    native = run_in(root, [f"{inside}/{program}"], **environment, SIMCUDA_REPORT=f"{inside}/native")
    pooled = run_in(root, [f"{inside}/{program}"], **environment, SIMCUDA_REPORT=f"{inside}/pooled",
                    LD_PRELOAD=f"{inside}/{LIBRARY.name}")
    assert native.returncode == 0, native.stderr
    assert (pooled.returncode, pooled.stdout, pooled.stderr) == (native.returncode, native.stdout, native.stderr)

    def allocations(name):
        lines = (folder / name).read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("calls.cuMemAlloc_v2 "))

    assert 0 < allocations("pooled") < allocations("native")
