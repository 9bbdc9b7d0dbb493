"""Clients of the driver, natively and with the pool.

--all-clients: also those that scripts/test runs with --all alone.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from guard import guarded  # pylint: disable=wrong-import-position,unused-import  # noqa: E402,F401


def pytest_addoption(parser):
    """As above."""
    parser.addoption("--all-clients", action="store_true", help="all clients, not only those of every run")


def pytest_generate_tests(metafunc):
    """Each client is a test."""
    from table import CLIENTS  # pylint: disable=import-outside-toplevel
    if "client" in metafunc.fixturenames:
        chosen = [client for client in CLIENTS if client.always or metafunc.config.getoption("--all-clients")]
        metafunc.parametrize("client", chosen, ids=[client.name for client in chosen])
