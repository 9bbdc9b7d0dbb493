"""scripts/simcuda-nvcc passes on what it is given, refuses in one line, and what it makes runs. Arguments: the built runtime's
folder, the driver's. Where the machine has no nvcc, only what is said to a stand-in for it is looked at."""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent / "scripts/simcuda-nvcc"
NOTHING = "; nothing was compiled"
# What nvcc stands for here: it keeps the words that it is given, a line for each call.
STAND_IN = "#!/bin/sh\necho \"$@\" >>\"$TOLD\"\n[ -z \"$FAILS\" ]\n"


class Case:
    """The script with a stand-in for nvcc, in a folder with two sources and an object."""

    def __init__(self, folder, runtime):
        self.folder, self.told = pathlib.Path(folder), pathlib.Path(folder) / "told"
        for name in ("a.cu", "b.cu", "c.o"):
            (self.folder / name).write_text("")
        (self.folder / "nvcc").write_text(STAND_IN)
        (self.folder / "nvcc").chmod(0o755)
        self.environment = {"PATH": os.environ["PATH"], "NVCC": str(self.folder / "nvcc"), "TOLD": str(self.told),
                            "SIMCUDA_RUNTIME": str(runtime)}

    def __call__(self, *words, **environment):
        """The exit code, nvcc's command lines, and what was said."""
        self.told.write_text("")
        done = subprocess.run([SCRIPT, *words], cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, check=False)
        return done.returncode, self.told.read_text().splitlines(), done.stderr.strip()


def check_what_is_passed_on(run, runtime):
    static = f"{runtime}/libcudart_static.a -lpthread -ldl"
    for words, told in (
            ("a.cu -o p", f"-gencode=arch=compute_75,code=compute_75 -cudart none a.cu {static} -o p"),
            ("a.cu c.o -O3 -Xcompiler -Wall -I x -o p", f"-gencode=arch=compute_75,code=compute_75 -cudart none a.cu c.o -O3 -Xcompiler -Wall -I x "
                                                        f"{static} -o p"),
            ("-arch=sm_80 a.cu", f"-gencode=arch=compute_80,code=compute_80 -cudart none a.cu {static}"),
            ("-gencode arch=compute_80,code=sm_86 -gencode=arch=compute_90,code=sm_90 a.cu",
             f"-gencode=arch=compute_80,code=compute_80 -gencode=arch=compute_90,code=compute_90 -cudart none a.cu {static}"),
            ("-arch native a.cu", f"-gencode=arch=compute_75,code=compute_75 -cudart none a.cu {static}"),
            ("-c a.cu -o a.o", "-gencode=arch=compute_75,code=compute_75 -cudart none a.cu -c -o a.o"),
            ("-ptx a.cu", "-gencode=arch=compute_75,code=compute_75 -cudart none a.cu -ptx"),
            ("a.cu --cudart=none", "-gencode=arch=compute_75,code=compute_75 -cudart none a.cu"),
            ("a.cu -cudart shared", f"-gencode=arch=compute_75,code=compute_75 -cudart none a.cu {runtime}/libcudart.so"),
            ("-rdc=true -c a.cu", "-gencode=arch=compute_75,code=compute_75 -cudart none a.cu -c -rdc=true")):
        code, lines, said = run(*words.split())
        assert code == 0 and lines == [told], (words, lines, said)
    code, lines, _ = run(*"-rdc=true a.cu b.cu c.o -o p".split())
    assert code == 0 and len(lines) == 4, lines
    assert [line.split()[-3] for line in lines[:2]] == ["a.cu", "b.cu"] and " -dc " in lines[0], lines
    assert " -dlink " in lines[2] and "c.o" in lines[2], lines
    assert "c.o" in lines[3] and static in lines[3] and lines[3].endswith("-o p"), lines
    assert run("a.cu", FAILS="1")[0] == 1


def check_what_is_refused(run):
    for words, said in ((["nix.cu"], "nix.cu: no such file"),
                        (["-O2"], "no input: expected CUDA sources and options of nvcc, such as prog.cu -o prog"),
                        (["a.cu", "-arch=fast"], "-arch: fast: expected an architecture such as sm_80 or compute_80"),
                        (["a.cu", "-cudart", "dynamic"], "-cudart: dynamic: expected static, shared or none"),
                        (["a.cu", "-o"], "-o: expected a value behind it")):
        code, lines, told = run(*words)
        assert code == 1 and not lines and told == f"simcuda-nvcc: {said}{NOTHING}", (words, told)
    code, lines, told = run("a.cu", SIMCUDA_RUNTIME="/nowhere")
    assert code == 1 and told.startswith("simcuda-nvcc: /nowhere: no libcudart_static.a there") and told.endswith(NOTHING), told
    code, lines, told = run("a.cu", NVCC="/nowhere/nvcc")
    assert code == 1 and told == f"simcuda-nvcc: NVCC=/nowhere/nvcc: no program of that name{NOTHING}", told


def made(folder, runtime, driver, name, *words):
    """What a program prints that the real nvcc has made."""
    subprocess.run([SCRIPT, *words, "-o", f"{folder}/{name}"], env=os.environ | {"SIMCUDA_RUNTIME": str(runtime)}, check=True)
    done = subprocess.run([f"{folder}/{name}"], env={"LD_LIBRARY_PATH": f"{driver}:{runtime}", "SIMCUDA_COST": "0"},
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def has_nvcc():
    told = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=False)
    return told.returncode == 0


def check_programs(folder, runtime, driver):
    sources = HERE / "nvcc"
    for name, words in (("registered", ()), ("registered-shared", ("-cudart=shared", "-default-stream=per-thread"))):
        told = made(folder, runtime, driver, name, sources / "registered.cu", *words)
        assert told == (0, "all right\n"), (name, told)
    told = made(folder, runtime, driver, "apart", "-rdc=true", sources / "apart.cu", sources / "apart_other.cu")
    assert told == (0, "all right\n"), told


def main():
    runtime, driver = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        run = Case(folder, runtime)
        check_what_is_passed_on(run, runtime)
        check_what_is_refused(run)
        if has_nvcc():
            check_programs(folder, runtime, driver)
        else:
            print("no nvcc on this machine: no program was made")


if __name__ == "__main__":
    main()
