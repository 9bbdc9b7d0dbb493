"""A cluster of Slurm on this machine for each test, which starts from nothing and leaves nothing.

--all-clusters: also what takes long, which scripts/test runs with --all alone.
"""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from guard import guarded  # pylint: disable=wrong-import-position,unused-import  # noqa: E402,F401
from cluster import Cluster, Network, missing  # pylint: disable=wrong-import-position  # noqa: E402

ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
PLUGIN, LIBRARY, COMMAND = (BUILD / "src" / name for name in ("slurm/poolcuda_spank.so", "interpose/libpoolcuda.so", "cli/poolcuda"))
SAMPLES, PROGRAMS = BUILD / "samples", BUILD / "tests/programs"
UNHURRIED = PROGRAMS / "unhurried"
DRIVER, RUNTIME = BUILD / "subprojects/simcuda/driver", BUILD / "subprojects/simcuda/runtime"
# Of programs on the simulated GPU.
SIMULATED = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "SIMCUDA_COST": "0"}


def pytest_addoption(parser):
    """As above."""
    parser.addoption("--all-clusters", action="store_true", help="all tests of clusters, not only those of every run")


def pytest_configure(config):
    config.addinivalue_line("markers", "in_every_run: short, and so run without --all-clusters")


def pytest_collection_modifyitems(config, items):
    reason = missing() or (None if PLUGIN.exists() else f"{PLUGIN.name} was not built: package libslurm-dev")
    for item in items:
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"no cluster of Slurm here: {reason}"))
        elif not config.getoption("--all-clusters") and not item.get_closest_marker("in_every_run"):
            item.add_marker(pytest.mark.skip(reason="takes long: run with --all-clusters"))


@pytest.fixture
def make_cluster():
    """make_cluster(ARGUMENT..., lines=[LINE...], network=NETWORK, hasty=BOOL): a started cluster, with these arguments behind the
    plugin's name, of which later ones count; the rest is a Cluster's."""
    started = []

    def make(*arguments, **more):
        # Not below pytest's own folder, which other users cannot enter.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="poolcuda-slurm-"))
        folder.chmod(0o755)
        # Where users other than root may not enter the build folder, they have to find the plugin.
        plugin = shutil.copy(PLUGIN, folder)
        given = [f"library={LIBRARY}", f"command={COMMAND}", *arguments]
        cluster = Cluster(folder / "cluster", f"required {plugin} {' '.join(given)}\n", **more)
        cluster.work = folder / "work"
        cluster.work.mkdir()
        cluster.work.chmod(0o777)
        started.append(cluster)
        cluster.__enter__()
        return cluster

    yield make
    for cluster in started:
        cluster.__exit__()
        shutil.rmtree(cluster.work.parent)
        assert not cluster.left()


@pytest.fixture
def copies():
    """{file: a copy that all users can read} of what users other than root need."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="poolcuda-copies-"))
    folder.chmod(0o755)
    yield {file: pathlib.Path(shutil.copy(file, folder))
           for file in (LIBRARY, COMMAND, UNHURRIED, PROGRAMS / "last_words", DRIVER / "libcuda.so.1", RUNTIME / "libcudart.so.13")}
    shutil.rmtree(folder)


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


@contextlib.contextmanager
def network_or_fault():
    """(a Network, None), or (None, why there can be none here)."""
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(Network()), None
        except OSError as fault:
            found = None, fault
        yield found


@pytest.fixture
def network():
    """A Network for the test's cluster."""
    with network_or_fault() as (made, fault):
        if fault:
            pytest.skip(f"no network namespaces here: {fault}")
        yield made


@pytest.fixture
def network_if_allowed():
    """The same, or None."""
    with network_or_fault() as (made, _):
        yield made
