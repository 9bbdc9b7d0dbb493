"""The PTX that the library and the samples carry as text: what the simulated GPU never compiles."""

import ast
import os
import random
import re
import shutil
import struct
import subprocess

import pytest
from conftest import ROOT
from ptx_machine import Kernel

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
        pytest.skip("no ptxas here: package nvidia-cuda-toolkit, or CUDA's cuda-nvcc, or $CUDA_HOME")
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


FILL, VERIFY = 0, 1
NOTHING = (2**64 - 1, 2**64 - 1, 0)
TASKS, REPORT, BODY = 0, 512, 1024  # where the tasks, the report and the memory that they are about lie


def launch(memory, tasks, grid, threads, backwards):
    """Runs the kernel that checks memory on `tasks`: (address, bytes, id, op, pattern). The report."""
    memory[REPORT:REPORT + 24] = struct.pack("<3Q", *NOTHING)
    for i, task in enumerate(tasks):
        struct.pack_into("<3Q2I", memory, TASKS + 32 * i, *task)
    kernel = Kernel(text_of("src/check/kernel_ptx.h"), "poolcuda_check")
    kernel.run(memory, [TASKS, len(tasks), REPORT], grid, threads, backwards)
    return struct.unpack_from("<3Q", memory, REPORT)


def random_ranges(random_, count, room):
    """`count` ranges (address, bytes) that do not overlap, some of them empty."""
    ends = sorted(random_.sample(range(BODY, BODY + room), 2 * count))
    return [(begin, end - begin if random_.random() < 0.9 else 0) for begin, end in zip(ends[::2], ends[1::2])]


@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_that_checks_memory_does_what_its_header_says(seed):
    random_ = random.Random(seed)
    ranges = random_ranges(random_, random_.randint(1, 8), random_.choice([100, 700]))
    shape = {"grid": (random_.randint(1, 9), random_.randint(1, 3)), "threads": random_.choice([1, 3, 32]),
             "backwards": random_.random() < 0.5}
    memory = bytearray(random_.randbytes(2048))
    expected = bytearray(memory)
    for address, size in ranges:
        expected[address:address + size] = b"\xa5" * size
    fills = [(address, size, i, FILL, 0xffa5) for i, (address, size) in enumerate(ranges)]
    assert launch(memory, fills, **shape) == NOTHING
    assert memory[BODY:] == expected[BODY:]

    verifies = [(address, size, 100 + i, VERIFY, 0xa5) for i, (address, size) in enumerate(ranges)]
    assert launch(memory, verifies, **shape) == NOTHING
    wrong = {}
    for address, size, number, *_ in verifies:
        for offset in {random_.randrange(size) for _ in range(random_.randint(0, 3))} if size else ():
            memory[address + offset] ^= 1 << random_.randrange(8)
            wrong.setdefault(number, []).append(offset)
    before = bytes(memory[BODY:])
    found = launch(memory, verifies, **shape)
    assert found in {(number, min(offsets), max(offsets)) for number, offsets in wrong.items()} or \
        (found == NOTHING and not wrong)
    assert memory[BODY:] == before


def test_the_kernel_finds_each_single_wrong_byte_of_a_range():
    memory = bytearray(2048)
    for begin in range(BODY, BODY + 17):
        for offset in range(50):
            memory[begin + offset] = 0x80
            assert launch(memory, [(begin, 50, 9, VERIFY, 0)], (1, 1), 2, False) == (9, offset, offset)
            memory[begin + offset] = 0
