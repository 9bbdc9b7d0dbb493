"""The simulated GPU's shortcuts for the samples' kernels: they are taken, and compute what interpreting computes."""

import ast
import pathlib
import re
import struct
import subprocess
import textwrap

import pytest

from conftest import BUILD
from installed import CLEAN

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = BUILD / "subprojects/simcuda/driver"
LITERALS = re.findall(r'"(?:[^"\\\n]|\\.)*"', (ROOT / "samples/kernels.h").read_text().split("sample_kernels_ptx[]")[1])
COUNT = 1000

# Launches one kernel of the text in argv[1] on two arrays, and prints the instructions that threads executed, what has become
# of the arrays and of a sum, and the last result code.
PROGRAM = textwrap.dedent("""
    import ctypes, struct, sys
    cuda = ctypes.CDLL("libcuda.so.1")
    def call(name, *arguments):
        result = getattr(cuda, name)(*arguments)
        assert result == 0, (name, result)
    text, name, count = open(sys.argv[1], "rb").read(), sys.argv[2], int(sys.argv[3])
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), text)
    call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    arrays = []
    for start in (1, 7, 13):
        memory = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * count))
        values = struct.pack(f"{count}f", *(start + i / 3 for i in range(count)))
        call("cuMemcpyHtoD_v2", memory, values, ctypes.c_size_t(len(values)))
        arrays.append(memory)
    a, b, c = arrays
    number, factor, value, many = ctypes.c_uint64(count), ctypes.c_float(1.1), ctypes.c_uint32(77), ctypes.c_uint64(count)
    parameters = {"fill_u32": (a, number, value), "add_u32": (a, b, c, number), "scale_f32": (a, number, factor),
                  "saxpy_f32": (a, b, number, factor), "sum_u32": (a, number, b), "spin_ns": (number,)}[name]
    pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(each) for each in parameters))
    call("cuLaunchKernel", function, 3, 1, 1, 64, 1, 1, 0, None, pointers, None)
    call("cuCtxSynchronize")
    cuda.simcuda_instructions.restype = ctypes.c_uint64
    print(cuda.simcuda_instructions())
    for memory in arrays:
        back = ctypes.create_string_buffer(4 * count)
        call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(4 * count))
        print(back.raw.hex())
""")


def launched(tmp_path, text, kernel, **settings):
    """(instructions, what is in memory)"""
    file = tmp_path / "text.ptx"
    file.write_text(text)
    done = subprocess.run(["/usr/bin/python3", "-c", PROGRAM, file, kernel, str(COUNT)], capture_output=True, text=True, check=True,
                          env={**CLEAN, "LD_LIBRARY_PATH": str(DRIVER), "SIMCUDA_COST": "0", **settings})
    instructions, memory = done.stdout.split("\n", 1)
    return int(instructions), memory


@pytest.mark.parametrize("kernel", ["fill_u32", "add_u32", "scale_f32", "saxpy_f32", "sum_u32", "spin_ns"])
def test_a_shortcut_computes_what_the_text_says(tmp_path, kernel):
    text = "".join(ast.literal_eval(each) for each in LITERALS)
    executed, expected = launched(tmp_path, text, kernel, SIMCUDA_KERNELS="interpret")
    spared, computed = launched(tmp_path, text, kernel)
    assert executed > 0 and computed == expected
    # If not: samples/kernels.h has been changed, and the hash in driver/shortcuts.c is that of another text.
    assert spared == 0


def test_a_kernel_of_another_text_is_interpreted_whatever_its_name(tmp_path):
    text = "".join(ast.literal_eval(each) for each in LITERALS)
    other = text.replace("    st.global.u32 [%a2], %r5;", "    add.u32 %r5, %r5, 1;\n    st.global.u32 [%a2], %r5;", 1)
    executed, computed = launched(tmp_path, other, "fill_u32")
    assert other != text and executed > COUNT
    assert struct.unpack("<I", bytes.fromhex(computed[:8])) == (78,)
