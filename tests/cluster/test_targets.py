"""What these tests run is what scripts/test --cluster builds: elsewhere all of the build lies about."""

import pathlib
import re

import conftest
import pytest
import targets


@pytest.mark.in_every_run
def test_each_program_that_a_test_names_is_built_for_it():
    folders = {"SAMPLES": conftest.SAMPLES, "PROGRAMS": conftest.PROGRAMS}
    texts = [path.read_text() for path in pathlib.Path(__file__).parent.glob("*.py")]
    named = {folders[folder] / name for text in texts for folder, name in re.findall(r'(SAMPLES|PROGRAMS) / "([^"]+)"', text)}
    assert named
    assert named <= set(targets.FILES)
