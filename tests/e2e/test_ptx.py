"""The PTX that the library and the samples carry as text: what the simulated GPU never compiles."""

import ast
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

HEADERS = ["src/check/kernel_ptx.h", "samples/kernels.h"]


def text_of(header):
    """The string that a header defines, of one literal for each line."""
    literals = re.findall(r'".*\\n"(?=;?$)', (ROOT / header).read_text(), re.M)
    return "".join(map(ast.literal_eval, literals))


@pytest.fixture(scope="module")
def ptxas():
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    found = shutil.which("ptxas", path=os.pathsep.join(
        [os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)]))
    if found is None:
        pytest.skip("no ptxas on this machine")
    return found


@pytest.mark.parametrize("header", HEADERS)
def test_every_architecture_that_ptxas_knows_takes_the_text(ptxas, header, tmp_path):
    source = tmp_path / "kernels.ptx"
    source.write_text(text_of(header))
    listed = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    architectures = sorted(set(re.findall(r"'(sm_\d+[a-z]?)'", listed)))
    assert architectures
    for architecture in architectures:
        done = subprocess.run([ptxas, f"-arch={architecture}", "-o", tmp_path / "kernels.cubin", source],
                              capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), architecture
