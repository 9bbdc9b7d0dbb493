"""The zoo: programs that have nothing to do with the pool, run natively and with it preloaded.

--all-programs: also those that scripts/test runs with --all alone.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from guard import guarded  # pylint: disable=wrong-import-position,unused-import  # noqa: E402,F401


def pytest_addoption(parser):
    """As above."""
    parser.addoption("--all-programs", action="store_true", help="all programs of the zoo, not only those of every run")
