"""Every command that the documents show runs as shown, on the simulated GPU. How to mark those that cannot: blocks.py."""

import os
import pathlib
import re

import guard
import pytest
from blocks import DOCUMENTS, MAN_PAGES, ROOT, DocumentError, loosely, parse, run

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
SAMPLES = ["three_sites", "varying", "stencil", "pipeline", "reduction", "threads", "nearly_all_memory"]
# A Python program that reaches CUDA as frameworks do: through the runtime, opened by name.
TRAIN = """\
import ctypes
runtime, block = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
for step in range(10):
    assert runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
    assert runtime.cudaFree(block) == 0
"""


@pytest.fixture
def sandbox(tmp_path):
    """A folder with the sample programs, traces in data/ and the build in build/; ./app is a program with a static
    runtime, train.py one in Python. Also an environment in which poolcuda, libpoolcuda.so and the simulated GPU are found."""
    work, tools = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    tools.mkdir()
    for name in SAMPLES:
        (work / name).symlink_to(BUILD / "samples" / name)
    (work / "app").symlink_to(BUILD / "samples/varying-static")
    (work / "build").symlink_to(BUILD)
    (work / "train.py").write_text(TRAIN)
    (work / "data").mkdir()
    for trace in (ROOT / "tests/data").iterdir():
        (work / "data" / trace.name).symlink_to(trace)
    (tools / "poolcuda").symlink_to(BUILD / "src/cli/poolcuda")
    libraries = ":".join(str(BUILD / folder) for folder in ("src/interpose", "subprojects/simcuda/driver", "subprojects/simcuda/runtime"))
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TERM": "dumb",
                   "LD_LIBRARY_PATH": libraries, "SIMCUDA_COST": "0", "SHELL": "/bin/bash"}
    return work, environment


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_commands_of_a_document_run_as_shown(name, sandbox):
    """In the document's order, in one folder, each block in a shell of its own."""
    work, environment = sandbox
    for block in parse(name, (ROOT / name).read_text()):
        if not block.reason:
            run(block, work, environment)


@pytest.mark.parametrize("name", MAN_PAGES)
def test_the_examples_of_a_man_page_run(name, sandbox):
    """Where a trace of the program is there already."""
    work, environment = sandbox
    run(block_of("```console\n$ LD_PRELOAD=libpoolcuda.so POOLCUDA_TRACE=app.trace ./app\n```\n"), work, environment)
    for block in parse(name, (ROOT / name).read_text()):
        if not block.reason:
            run(block, work, environment)


def other_tests(block):
    """The tests that a block's reason names: they run it instead."""
    return re.findall(r"tests/[\w/]+\.py", block.reason)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_block_that_another_test_is_said_to_run_is_read_by_that_test(name):
    for block in parse(name, (ROOT / name).read_text()):
        for test in other_tests(block):
            assert (ROOT / test).exists(), f"{block.place}: {test}: no such file"
            assert name in (ROOT / test).read_text(), f"{block.place}: {test} does not read {name}"


def test_each_command_for_many_machines_is_run_by_a_test_and_each_recipe_says_if_it_is_not():
    name = "docs/clusters.md"
    text = (ROOT / name).read_text()
    for block in parse(name, text):
        assert not block.reason or other_tests(block) or block.reason.startswith("not tested: "), f"{block.place}: {block.reason}"
    for recipe in re.finditer(r"^ *```yaml$", text, re.M):
        section = text[:recipe.start()].rpartition("\n#")[2]
        paragraph = re.split(r"\n\s*\n|\n- ", section.rstrip())[-1]
        assert "Not tested" in paragraph, f"{name}: a recipe without a word about whether it is tested, below: {paragraph}"


FIGURES = r"/\S+/poolcuda\.\w+\.\d+-\d+-[0-9a-f]+\.\d+\.json"  # of `poolcuda run`


def test_the_file_of_a_runs_figures_is_shown_as_the_command_prints_it(sandbox):
    """With its folder and all parts of its name, which a comparison of lines passes over."""
    work, environment = sandbox
    printed = guard.run(["poolcuda", "run", "./three_sites"], cwd=work, env=environment, capture_output=True, text=True, check=True).stderr
    shown = [(name, file) for name in DOCUMENTS for file in re.findall(r"^poolcuda: (?:figures in|next: poolcuda report) (\S+)$", (ROOT / name).read_text(), re.M)]
    assert re.search(f"^poolcuda: figures in {FIGURES}$", printed, re.M) and len(shown) >= 4
    assert [found for found in shown if not re.fullmatch(FIGURES, found[1])] == []


def headings(file):
    """The anchors of a document's headings."""
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.S | re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*?)\s*$", text, re.M)}


@pytest.mark.parametrize("name", [*DOCUMENTS, "CHANGELOG.md"])
def test_a_documents_links_lead_to_files_and_headings_that_are_there(name):
    file = ROOT / name
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"^```.*?^```", "", file.read_text(), flags=re.S | re.M)):
        path, _, heading = link.partition("#")
        other = file.parent / path if path else file
        assert other.exists(), f"{name}: {link}: no such file"
        assert not heading or heading in headings(other), f"{name}: {link}: no such heading"


def test_every_document_can_be_reached_from_the_readme():
    linked, left = set(), ["README.md"]
    while left:
        name = left.pop()
        for link in re.findall(r"\]\(([\w./-]+\.md)", (ROOT / name).read_text()):
            other = os.path.relpath((ROOT / name).parent / link, ROOT)
            if other not in linked:
                linked.add(other)
                left.append(other)
    assert set(DOCUMENTS) - {"README.md"} <= linked


def test_the_readme_has_commands_that_run():
    assert [block for block in parse("README.md", (ROOT / "README.md").read_text()) if not block.reason]


def test_the_python_program_allocates(sandbox):
    run(block_of("```console\n$ LD_PRELOAD=libpoolcuda.so POOLCUDA_STATS=1 python3 train.py\n"
                 "  allocations: 10, of which 9 from idle memory (90%, 0 another site's)\n```\n"), *sandbox)


def block_of(text):
    return parse("x.md", text)[0]


def test_a_block_is_its_commands_with_their_output():
    block = block_of("text\n<!-- exits: 3 -->\n```console\n$ a \\\n> b\none\n\ntwo\n$ c\n```\n")
    assert block.commands == [["a \\\nb", ["one", "", "two"]], ["c", []]]
    assert (block.place, block.reason, block.code) == ("x.md:3", "", 3)


def test_a_man_pages_block_is_its_commands():
    blocks = parse("x.1.scd.in", "```\na\nb\n```\n\n; not run: needs Slurm\n```\nsrun\n```\n")
    assert [(block.commands, block.reason) for block in blocks] == [([["a", []], ["b", []]], ""),
                                                                   ([["srun", []]], "needs Slurm")]


def test_a_lists_paragraphs_are_no_blocks():
    assert parse("x.md", "- one\n  two\n\n    still the list's\n") == []


def test_a_block_that_is_not_run_has_a_reason():
    assert block_of("<!-- not run: needs Slurm -->\n```console\n$ srun x\n```\n").reason == "needs Slurm"


@pytest.mark.parametrize("text, expected", [
    ("```\n$ ls\n```\n", "x.md:1: a block in ''"),
    ("```sh\nls\n```\n", "x.md:1: a block in 'sh'"),
    ("Text:\n\n    ls\n", "x.md:3: an indented block, expected a fenced one"),
    ("```console\nls\n```\n", "begins with output: ls"),
    ("```console\n```\n", "without any"),
    ("```console\n$ ls\n", "does not end"),
    ("<!-- not run -->\n```console\n$ ls\n```\n", "expected <!-- not run: REASON -->"),
    ("<!-- not run: -->\n```console\n$ ls\n```\n", "expected <!-- not run: REASON -->"),
])
def test_a_document_that_does_not_keep_to_the_rules_is_refused(text, expected):
    with pytest.raises(DocumentError) as told:
        parse("x.md", text)
    assert expected in str(told.value)


@pytest.mark.parametrize("text, expected", [
    ("$ true\n$ false\n$ true", "false\nended with 1, expected 0"),
    ("$ exit 0\n$ true", "exit 0\nended with nothing"),
    ("$ no-such-command", "ended with 127"),
    ("$ echo one\ntwo", "not printed, or earlier:\ntwo"),
    ("$ printf 'one\\ntwo\\n'\ntwo\none", "not printed, or earlier:\none"),
    ("$ (", "ended with nothing"),
])
def test_a_command_that_does_otherwise_is_found(text, expected, sandbox):
    with pytest.raises(DocumentError) as told:
        run(block_of(f"```console\n{text}\n```\n"), *sandbox)
    assert expected in str(told.value)


@pytest.mark.parametrize("text", [
    "$ export A=b\n$ echo $A >f\n$ cat f\nb",
    "$ seq 20 | sed 's/^/line /'\n...\nline 3\n...",
    "$ echo 'held 12.5 MiB, 3 calls'\nheld  7 KiB, 14 calls",
    "$ echo problem >&2\nproblem",
    "$ echo a \\\n> b\na b",
])
def test_what_a_document_may_show_otherwise(text, sandbox):
    run(block_of(f"```console\n{text}\n```\n"), *sandbox)


def test_an_expected_failure_is_the_last_commands(sandbox):
    run(block_of("<!-- exits: 1 -->\n```console\n$ true\n$ false\n```\n"), *sandbox)
    with pytest.raises(DocumentError):
        run(block_of("<!-- exits: 1 -->\n```console\n$ false\n$ true\n```\n"), *sandbox)


def test_words_are_compared_and_numbers_are_not():
    assert loosely("  300 bytes   8.0 MiB  idle, kept") == loosely("20 bytes  7 KiB  idle, kept")
    assert loosely("idle") != loosely("kept")
    assert loosely("  three_sites+0x12ff 4") == ""
