"""Each test is guarded against hanging."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from guard import guarded  # pylint: disable=wrong-import-position,unused-import  # noqa: E402,F401
