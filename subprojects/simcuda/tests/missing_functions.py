"""scripts/missing-functions finds what a program needs that a driver does not export. Arguments: the driver, one without some of its
functions, and a program that links the driver and uses them."""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "scripts/missing-functions"


def told(*arguments):
    """The exit code, and the lines."""
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def main():
    """Each case once."""
    driver, older, program = map(pathlib.Path, sys.argv[1:])
    code, lines = told(driver, program)
    assert code == 0 and f"{program.name} links the driver" in lines[0] and lines[0].endswith(", all exported"), lines
    code, lines = told(older, program)
    assert code == 1 and "not exported: " in lines[0] and "cuCtxRecordEvent" in lines[0], lines
    with tempfile.TemporaryDirectory() as folder:
        wheel = pathlib.Path(folder) / "some.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(program, "bin/program")
            archive.writestr("lib/opens.so", b"\x7fELF\0libcuda.so.1\0cuInit\0cuNoSuchFunction\0cublasCreate\0")
        code, lines = told(driver, wheel)
    assert code == 0 and lines[-1] == "1 looked at, 2 files use the driver, 0 functions are missing", lines
    assert "some.whl: lib/opens.so opens the driver, 2 names, 1 not exported: cuNoSuchFunction" in lines, lines
    code, lines = told(driver, "/nonexistent")
    assert code == 2 and "/nonexistent: there is no such file or folder" in lines[-1], lines
    code, lines = told(SCRIPT, program)
    assert code == 2 and lines[-1].endswith("exports no cuInit, so it is no driver"), lines


if __name__ == "__main__":
    main()
