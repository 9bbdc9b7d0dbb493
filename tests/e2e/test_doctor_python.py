"""poolcuda doctor on Python programs, whichever way their Python was built: what it says is what a run then does."""

import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import COMMAND
from diagnoses import CUDART, OPENER, build, doctor, environment, script
from verdicts import (
    ALLOCATES, ALLOCATING_LIBRARY, HARMLESS, pythons, right, shared_python, static_python, truth)


# Python, whichever way it was built.

@pytest.mark.parametrize("python", pythons())
@pytest.mark.parametrize("works, text", [(True, ALLOCATES), (False, HARMLESS)], ids=["cuda", "none"])
def test_a_script_given_to_python(right, tmp_path, python, works, text):
    (tmp_path / "work.py").write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__main__.py").write_text(text)
    right(works, python, "-u", "-Wignore", "work.py", "argument")
    right(works, python, "-X", "dev", "./work.py")
    right(works, python, "-m", "work")
    right(works, python, "-c", text)
    right(works, python, "-Ic", text)
    right(works, python, "folder")
    script(tmp_path / "direct.py", f"#!{python}\n{text}")
    right(works, "./direct.py")


@pytest.mark.parametrize("python", pythons())
def test_a_script_run_by_the_python_that_env_finds(right, tmp_path, python):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(python)
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    script(tmp_path / "work", "#!/usr/bin/env python3\n" + ALLOCATES)
    script(tmp_path / "idle", "#!/usr/bin/env python3\n" + HARMLESS)
    right(True, "./work", env=path)
    right(False, "./idle", env=path)


@pytest.mark.parametrize("python", pythons())
def test_a_virtual_environment_with_a_package_that_is_linked_with_cuda(right, build, tmp_path, python):
    folder = tmp_path / "environment"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "solver/data").mkdir(parents=True)
    (site / "solver/__init__.py").write_text("from .inner import *\n")
    (site / "solver/inner.py").write_text("import os\nfrom . import _core\n_core.work()\n")
    (site / "plain.py").write_text("import decimal\n")
    version = site.parent.name
    include = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], text=True,
                             capture_output=True, check=True).stdout.strip()
    if not pathlib.Path(include, "Python.h").exists():
        pytest.skip(f"no Python.h for {version}: install python3-dev")
    build(site / "solver/_core.so", "#include <Python.h>\n" + ALLOCATING_LIBRARY.replace("FUNCTION", "allocate") + """
        static PyObject *work(PyObject *self, PyObject *none) { allocate(); Py_RETURN_NONE; }
        static PyMethodDef methods[] = {{"work", work, METH_NOARGS, 0}, {0}};
        static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", 0, -1, methods};
        PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }""",
          "-shared", "-fPIC", f"-I{include}", CUDART)
    (tmp_path / "work.py").write_text("import solver\n")
    (tmp_path / "idle.py").write_text("import plain\n")
    said = right(True, folder / "bin/python3", "work.py")
    assert "_core.so uses a shared CUDA runtime" in said.text("shared-runtime")
    right(False, folder / "bin/python3", "idle.py")


@pytest.mark.skipif(not shared_python(), reason="no Python here with a shared libpython: install one, with pyenv")
def test_a_program_that_hands_its_arguments_to_python(right, build, tmp_path):
    prefix = pathlib.Path(shared_python()).resolve().parents[1]
    library = next(prefix.glob("lib/libpython3.*.so.1.0"))
    host = build("host", f"""
        int Py_BytesMain(int, char **), setenv(const char *, const char *, int);
        int main(int count, char **words) {{
            setenv("PYTHONHOME", "{prefix}", 1);
            return Py_BytesMain(count, words);
        }}""", library, f"-Wl,-rpath,{prefix}/lib")
    (tmp_path / "work.py").write_text(ALLOCATES)
    (tmp_path / "idle.py").write_text(HARMLESS)
    right(True, host, "work.py")
    right(False, host, "idle.py")


def test_what_a_python_program_can_do_unseen_is_reported(doctor, tmp_path):
    python = static_python() or shared_python()
    for text, reason in {
            "import ctypes, sys\nctypes.CDLL(sys.argv[1])\n": "opens libraries under names",
            "import importlib, sys\nimportlib.import_module(sys.argv[1])\n": "whose names it puts together",
            "import subprocess, sys\nsubprocess.run(sys.argv[1:])\n": "starts other programs",
            "from subprocess import run\nrun(['make'])\n": "starts other programs",
            "import no_such_module_anywhere\n": "is not found where this Python looks",
            "import torch\nprint(torch.ones(3))\n": "uses a GPU where it is asked to",
        "def late():\n    import pycuda.autoinit\n": "in one of its branches",
        "try:\n    import cupy as np\nexcept ImportError:\n    import json as np\n": "in one of its branches",
    }.items():
        (tmp_path / "work.py").write_text(text)
        said = doctor(python, "work.py")
        assert said.code == 3 and reason in said.text("cannot-know"), text
    for arguments in ([], ["-"], ["-i"]):
        assert "is given no script" in doctor(python, *arguments).text("cannot-know")
    assert doctor(python, "absent.py").problems == {"missing"}


@pytest.mark.parametrize("text", [
    '"""import cupy"""\n', "# import cupy\n", "text = 'import cupy'\n", "import ctypes\nctypes.c_int\n",
    "import ctypes\nlibm = ctypes.CDLL('libm.so.6')\nctypes.CDLL(None)\n",
    "from ctypes import CDLL\nfrom ctypes.util import find_library\nCDLL(find_library('m'))\n",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cupy\n\n    import torch\nprint(1)\n",
    "import typing\nif typing.TYPE_CHECKING: import cupy\nprint(1)\n",
    "class importer:\n    def import_cupy(self): pass\n", "if True: import json\nimport os; import re\n"])
def test_a_python_program_without_cuda_has_nothing_to_pool(right, tmp_path, text):
    (tmp_path / "work.py").write_text(text)
    right(False, static_python() or shared_python(), "work.py")


@pytest.mark.parametrize("text", [
    "import cupy as np\n", "from cupy.cuda import memory\n", "import torch\ntorch.ones(3, device='cuda')\n",
    "from numba import cuda\n", "import os, tinygrad\n", "import\tos;import cupy\n",
    "\ufeffimport ctypes\nctypes.CDLL('libcuda.so')\n",
    "from cuda.bindings import (driver,\n    runtime)\n",
    "from ctypes import CDLL\nfrom ctypes.util import find_library\nCDLL(find_library('cuda'))\n",
    "import ctypes\nfor name in 'libcuda.so', 'libcuda.so.1':\n    ctypes.CDLL(name)\n"])
def test_a_python_program_that_names_cuda_is_pooled(doctor, tmp_path, text):
    (tmp_path / "work.py").write_text(text)
    assert doctor(static_python() or shared_python(), "work.py").code == 0


def test_an_installed_package_that_could_use_cuda_is_not_taken_for_one_that_does(doctor, tmp_path):
    (tmp_path / "site/maths").mkdir(parents=True)
    (tmp_path / "site/maths/__init__.py").write_text("def fast():\n    import maths.gpu\n")
    (tmp_path / "site/maths/gpu.py").write_text("import ctypes\nctypes.CDLL('libcuda.so.1')\n")
    python = static_python() or shared_python()
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path / "environment"], check=True)
    shutil.copytree(tmp_path / "site", next((tmp_path / "environment").glob("lib/python3*/site-packages")),
                    dirs_exist_ok=True)
    (tmp_path / "work.py").write_text("import maths\n")
    said = doctor(tmp_path / "environment/bin/python3", "work.py")
    assert said.code == 3 and "maths" in said.text("cannot-know")


def test_modules_beside_a_script_and_in_packages(right, tmp_path):
    python = static_python() or shared_python()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/gpu.py").write_text(ALLOCATES)
    (tmp_path / "tools/text.py").write_text(HARMLESS)
    (tmp_path / "work.py").write_text("from tools import gpu\n")
    (tmp_path / "idle.py").write_text("from tools import text\n")
    right(True, python, "work.py")
    right(False, python, "idle.py")
    (tmp_path / "app/inner").mkdir(parents=True)
    (tmp_path / "app/__init__.py").write_text("")
    (tmp_path / "app/__main__.py").write_text("from .inner import late\n")
    (tmp_path / "app/inner/late.py").write_text("from ..other import *\n")
    (tmp_path / "app/other.py").write_text(ALLOCATES)
    (tmp_path / "app/run.py").write_text("from . import inner\n")
    right(True, python, "-m", "app")
    right(False, python, "-m", "app.run")


def test_a_python_program_in_an_archive_is_not_read(doctor, truth, tmp_path):
    python = static_python() or shared_python()
    (tmp_path / "app").mkdir()
    (tmp_path / "app/__main__.py").write_text(ALLOCATES)
    subprocess.run([python, "-m", "zipapp", "app"], cwd=tmp_path, check=True)
    said = doctor(python, "app.pyz")
    assert said.code == 3 and "archive" in said.text("cannot-know") and truth(python, "app.pyz")[0] > 0


def test_a_module_that_is_not_there_is_reported(doctor, tmp_path):
    (tmp_path / "work.py").write_text("import cupy\n")
    said = doctor(static_python() or shared_python(), "work.py")
    if said["module-missing"]:
        assert "cupy is not found" in said.text("module-missing")
    else:
        pytest.skip("cupy is installed here")


def test_a_command_that_loads_modules_by_name_is_not_taken_for_one_without_cuda(doctor, truth, tmp_path):
    """pytest, ipython and flask are such commands; manage.py of Django is such a script."""
    python = static_python() or shared_python()
    environment = tmp_path / "environment"
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
    site = next(environment.glob("lib/python3*/site-packages"))
    (site / "runner").mkdir()
    (site / "runner/__init__.py").write_text(
        "import importlib, os, sys\nsys.path.insert(0, os.getcwd())\n"
        "def main(name):\n    importlib.import_module(name)\n")
    (site / "runner/__main__.py").write_text("import sys\nfrom runner import main\nmain(sys.argv[1])\n")
    script(environment / "bin/runner", f"#!{environment}/bin/python3\nimport sys\nfrom runner import main\n"
           "main(sys.argv[1])\n")
    (tmp_path / "work.py").write_text(ALLOCATES)
    (tmp_path / "manage.py").write_text("import runner\nrunner.main('work')\n")
    for words in ([environment / "bin/runner", "work"], [environment / "bin/python3", "-m", "runner", "work"],
                  [environment / "bin/python3", "manage.py"]):
        said = doctor(*words)
        assert said.code == 3 and said["cannot-know"] and truth(*words)[0] > 0
    (tmp_path / "work.py").write_text(HARMLESS)
    assert doctor(environment / "bin/python3", "manage.py").problems == {"no-cuda"}


# What the text does not show.

OPENS = "'libcuda.so.1'"


@pytest.mark.parametrize("text", [
    f"import ctypes\ngetattr(ctypes, 'CDLL')({OPENS})\n", f"import ctypes\nname = 'CD' + 'LL'\ngetattr(ctypes, name)({OPENS})\n",
    f"import ctypes\nvars(ctypes)['C' 'DLL']({OPENS})\n", f"import ctypes\nctypes.__dict__['CDLL']({OPENS})\n",
    f"import ctypes\nfrom operator import attrgetter\nattrgetter('CDLL')(ctypes)({OPENS})\n", f"from ctypes import CDLL as library\nlibrary({OPENS})\n",
    "import importlib.machinery\nimportlib.machinery.SourceFileLoader('hidden', 'hidden.txt').load_module()\n",
    "import importlib.util as tools\nspec = tools.spec_from_loader('a', None)\n", "import timeit\ntimeit.timeit(open('hidden.txt').read(), number=1)\n",
    "from timeit import timeit\ntimeit(open('hidden.txt').read(), number=1)\n", "import pickle\npickle.load(open('absent', 'rb'))\n",
    "from pickle import loads\nloads(b'')\n", "import pickle as p\np.loads(b'')\n", "run = exec\nrun(open('hidden.txt').read())\n",
    "eval(compile(open('hidden.txt').read(), 'hidden', 'exec'))\n", "import builtins\nbuiltins.__dict__['ex' + 'ec'](open('hidden.txt').read())\n",
    "globals()['__builtins__'].exec(open('hidden.txt').read())\n", "import code\ncode.InteractiveConsole().runsource(open('hidden.txt').read(), 'a', 'exec')\n",
    "import runpy as r\nr.run_path('hidden.txt')\n", "import cProfile\ncProfile.run(open('hidden.txt').read())\n",
    "import os\nos.posix_spawn(os.environ['APP'], [os.environ['APP']], os.environ)\n", "import os\nstart = os.system\nstart(os.environ['APP'])\n",
    "import os\ngetattr(os, 'sys' + 'tem')(os.environ['APP'])\n", "from os import system as start\nimport sys\nstart(sys.argv[0])\n",
    "import sys\nsys.modules['os'].system('true')\n", "import marshal, types\ntypes.FunctionType(marshal.loads(b''), {})()\n",
    "import ctypes\nloader = ctypes.cdll\nloader[input()]\n"], ids=lambda text: text.replace("\n", "; ")[:60])
def test_ways_that_a_text_does_not_show_are_reported_as_such(doctor, tmp_path, text):
    (tmp_path / "hidden.txt").write_text(ALLOCATES)
    (tmp_path / "work.py").write_text(text)
    said = doctor(static_python() or shared_python(), "work.py")
    assert said.code == 3 and said["cannot-know"], text


@pytest.mark.parametrize("text", [
    "import argparse\nprint(vars(argparse.Namespace(a=1)), getattr(argparse, 'HelpFormatter'))\n", "import re\nre.compile('a')\n",
    "import pickle\npickle.dumps(1)\n", "from os import path as p\nimport os\nprint(os.environ.get('HOME'), globals()['p'])\n",
    "import json\njson.loads('1')\nclass model:\n    def eval(self): pass\nmodel().eval()\n", "import timeit\nprint(timeit.default_timer() > 0)\n"])
def test_what_hides_nothing_is_no_doubt(right, tmp_path, text):
    (tmp_path / "work.py").write_text(text)
    right(False, static_python() or shared_python(), "work.py")


@pytest.mark.parametrize("call", ["ctypes.cdll[\"libcuda.so.1\"]", "ctypes.cdll.LoadLibrary('libcuda.so.1')", "ctypes.CDLL(name='libcuda.so.1')"])
def test_a_library_that_a_loader_is_asked_for_by_a_constant(right, doctor, tmp_path, call):
    (tmp_path / "work.py").write_text(ALLOCATES.replace('ctypes.CDLL("libcuda.so.1")', call))
    right(True, static_python() or shared_python(), "work.py")


# Programs that a Python program starts.

@pytest.mark.parametrize("text", [
    "import subprocess\nsubprocess.run(['./app'], check=True)\n", "import subprocess\nsubprocess.check_call(('nice', './app', '--steps=3'))\n",
    "import os\nos.system('./app > log')\n", "import os\nos.execv('./app', ['./app'])\n", "from subprocess import Popen\nPopen(['./app', str(3)]).wait()\n"])
def test_a_program_that_is_started_by_a_constant_name(right, tmp_path, text):
    shutil.copy(OPENER, tmp_path / "app")
    (tmp_path / "work.py").write_text(text)
    right(True, static_python() or shared_python(), "work.py")


@pytest.mark.parametrize("text", [
    "import os\nos.environ.pop('LD_PRELOAD')\nos.system('./app')\n", "import os\ndel os.environ['LD_PRELOAD']\nos.system('./app')\n",
    "import subprocess\nsubprocess.run(['./app'], env={})\n", "import os\nos.posix_spawn('./app', ['./app'], {})\n",
    "import os\nos.environ.clear()\nos.system('./app')\n", "import os\nos.execve('./app', ['./app'], {})\n",
    "import os\nos.environ['POOLCUDA_DISABLE'] = '1'\nos.system('./app')\n", "import subprocess\nsubprocess.run(['tar', 'cf', 'app.tar', './app'])\n",
    "import subprocess\nname = './app'\nsubprocess.run([name])\n"])
def test_a_program_that_is_started_in_an_unknown_way(doctor, tmp_path, text):
    shutil.copy(OPENER, tmp_path / "app")
    (tmp_path / "work.py").write_text(text)
    said = doctor(static_python() or shared_python(), "work.py")
    assert said.code == 3 and "CUDA is seen, but" in said.text("cannot-know")


@pytest.mark.parametrize("command", ["unset LD_PRELOAD; ./app", "env -i ./app", "POOLCUDA_DISABLE=1 ./app"])
def test_a_command_that_takes_the_pool_away(doctor, truth, tmp_path, command):
    shutil.copy(OPENER, tmp_path / "app")
    (tmp_path / "work.py").write_text(f"import os\nos.system({command!r})\n")
    python = static_python() or shared_python()
    assert doctor(python, "work.py").code != 0 and truth(python, "work.py") == (0, 0)


# Options that change where modules are found.

def test_options_that_leave_the_folder_out(right, doctor, truth, tmp_path):
    python = static_python() or shared_python()
    (tmp_path / "pk").mkdir()
    (tmp_path / "pk/mod.py").write_text(ALLOCATES)
    right(True, python, "-m", "pk.mod")
    right(True, python, "-um", "pk.mod")
    right(True, python, "-Em", "pk.mod")
    for options in (["-Im"], ["-I", "-m"], ["-uIm"]):
        said = doctor(python, *options, "pk.mod")
        assert said.code != 0 and truth(python, *options, "pk.mod") == (0, 0), options
    (tmp_path / "more").mkdir()
    (tmp_path / "more/solver.py").write_text(ALLOCATES)
    (tmp_path / "work.py").write_text("import solver\n")
    right(True, python, "work.py", env={"PYTHONPATH": "more"})
    assert doctor(python, "-E", "work.py", env={"PYTHONPATH": "more"}).code != 0


# Many modules.

def test_a_long_chain_of_imports_is_followed_to_its_end(tmp_path):
    for i in range(3000):
        (tmp_path / f"m{i}.py").write_text(f"import m{i + 1}\n")
    (tmp_path / "m3000.py").write_text(ALLOCATES)
    (tmp_path / "work.py").write_text("import m0\n")
    limited = ["prlimit", f"--stack={1 << 20}", COMMAND]
    done = subprocess.run([*limited, "doctor", "/usr/bin/python3", "work.py"], cwd=tmp_path, env=environment(), capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and "libcuda.so.1 through ctypes" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace here: install it")
def test_folders_of_an_installed_package_are_listed_once_however_often_it_is_imported(tmp_path):
    folder = tmp_path / "environment"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    package = next(folder.glob("lib/python3*/site-packages")) / "package"
    for i in range(30):
        (package / f"data/{i}/inner").mkdir(parents=True)
        (package / f"part{i}.py").write_text("import package, package.other, json\n")
    (package / "__init__.py").write_text("".join(f"from package import part{i}\n" for i in range(30)))
    (tmp_path / "work.py").write_text("import package\n")
    done = subprocess.run(["strace", "-f", "-o", "calls", "-e", "trace=openat", COMMAND, "doctor", folder / "bin/python3", "work.py"],
                          cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (1, 3), done.stderr
    opened = [line.split('"')[1] for line in (tmp_path / "calls").read_text().splitlines() if "O_DIRECTORY" in line and str(package) in line]
    assert len(opened) > 30 and max(map(opened.count, opened)) <= 2, opened
