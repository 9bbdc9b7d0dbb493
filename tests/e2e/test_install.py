"""meson install, to any place."""

import json
import os
import re

import guard
import pytest
from conftest import BUILD, ROOT
from installed import VERSION, files, works


def options(build):
    return {o["name"]: o["value"] for o in json.loads((build / "meson-info/intro-buildoptions.json").read_text())}


def test_an_installed_copy_works_below_destdir(tmp_path):
    guard.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tmp_path],
              capture_output=True, check=True)
    prefix, libdir = (options(BUILD)[name] for name in ("prefix", "libdir"))
    tree = tmp_path / prefix.lstrip("/")
    works(tree, f"{libdir}/libpoolcuda.so")
    assert {path for path in files(tmp_path) if not (tmp_path / path).is_dir()} == {
        (tree / path).relative_to(tmp_path) for path in files(tree) if not (tree / path).is_dir()}
    for file in ("include/poolcuda.h", "share/bash-completion/completions/poolcuda", "share/zsh/site-functions/_poolcuda",
                 "share/fish/vendor_completions.d/poolcuda.fish", "share/poolcuda/monitoring/grafana-dashboard.json",
                 "share/poolcuda/monitoring/poolcuda.rules.yml", "share/poolcuda/monitoring/poolcuda-metrics@.timer"):
        assert (tree / file).is_file()
    unit = (tree / "share/poolcuda/monitoring/poolcuda-metrics.service").read_text()
    assert f"\nExecStart={prefix}/bin/poolcuda top " in unit


@pytest.mark.parametrize("project", [".", "subprojects/simcuda"])
def test_a_folder_without_cudas_headers_is_named_where_it_was_given_and_nothing_else_is(project, tmp_path):
    done = guard.run(["meson", "setup", tmp_path / "build", ROOT / project, f"-Dcudainc={tmp_path}"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"-Dcudainc={tmp_path}: no cuda.h there" in done.stdout and "CUDA_HOME" not in done.stdout


def test_where_cudas_headers_were_searched_in_vain_the_places_are_named(tmp_path):
    places = {"CUDA_HOME": "", "CUDA_PATH": "", "CUDA_HEADER_FOLDERS": str(tmp_path)}
    done = guard.run(["meson", "setup", tmp_path / "build", ROOT], capture_output=True, text=True, check=False, env={**os.environ, **places})
    assert done.returncode != 0 and "cuda.h not found in $CUDA_HOME, $CUDA_PATH, the system or a pip package" in done.stdout


@pytest.mark.parametrize("places", [
    ["--prefix=/opt/p", "--libdir=lib64", "--bindir=libexec/p/bin"],
    ["--prefix=/opt/p", "--libdir=/elsewhere/lib"],
    ["--prefix=/usr", "--bindir=/bin"],
    ["--prefix=/", "--libdir=lib"],
], ids=" ".join)
def test_the_command_looks_for_things_where_they_are_installed(places, tmp_path):
    guard.run(["meson", "setup", tmp_path / "build", ROOT, "-Dtests=false", *places,
               f"-Dcudainc={options(BUILD)['cudainc']}"], capture_output=True, check=True)
    plan = json.loads((tmp_path / "build/meson-info/intro-installed.json").read_text())
    def installed(name):
        return tmp_path / "root" / next(place for file, place in plan.items() if file.endswith(name)).lstrip("/")

    commands = (tmp_path / "build/compile_commands.json").read_text()
    steps = dict(re.findall(r'-DPOOLCUDA_(\w+)_FROM_BIN=[\\"]*([^\\"]*)', commands))
    assert "SIM" in steps
    folder = installed("/src/cli/poolcuda").parent
    folder.mkdir(parents=True)
    for what, step in steps.items():
        target = installed({"SIM": "/libcuda.so.1", "LIBRARY": "/libpoolcuda.so", "DOCS": str(ROOT / "docs")}[what])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("")
        assert (folder / step).resolve() == target.resolve()


def test_the_changelogs_newest_version_is_the_projects():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    headings = headings[headings[0] == "[Unreleased]":]
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", headings[0])
    versions = [tuple(map(int, re.match(r"\[([\d.]+)\]", heading).group(1).split("."))) for heading in headings]
    assert versions == sorted(versions, reverse=True) and len(set(versions)) == len(versions)


def test_the_version_stands_in_the_build_file_alone():
    """Where it is written besides, in examples, it is the same."""
    text = (ROOT / "README.md").read_text() + (ROOT / "include/poolcuda.h").read_text()
    assert set(re.findall(r"poolcuda (\d+\.\d+\.\d+)|such as \"(\d+\.\d+\.\d+)\"", text)) == {(VERSION, ""), ("", VERSION)}
