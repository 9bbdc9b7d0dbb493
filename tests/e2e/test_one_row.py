"""One row makes an option or a counter: in a copy of the sources that has a row more, and the line that uses it, all the rest is
there.

The copy's library runs programs of this build on the simulated GPU.
"""

import json
import re
import shutil
import subprocess

import guard
import pytest
from conftest import BUILD, ROOT, SANITIZER
from steered import Program, command

# One worker makes the build for all.
pytestmark = [pytest.mark.xdist_group("one_row"),
              pytest.mark.skipif(bool(SANITIZER), reason="it makes a build of its own, without a sanitizer")]

PERCENT = 1000  # of poolcuda_set_limit, in thousandths
SHARE = 1 << 63
ADDED_LIMIT = 5

ROWS = {
    "src/options/options.def": 'OPTION(added, "POOLCUDA_ADDED", RATIO, "0.25", 0, 1, API(ADDED, SHARE), "what a test has added")\n',
    "src/counters/counters.def": 'QUICK_COUNTER(added_hits, added, "hits, as a test counts them")\n'
                                'MERGED_COUNTER(added_frees, freed, "frees, as a test counts them")\n'
                                'GAUGE(added_setting, "the percentage that a test has added")\n',
}
# {file: (a line of it, what is put behind it)}: the use of each row, and the number of a limit, which is the interface's alone.
USES = {
    "src/pool/cache_parts.c": [("    cache_count(cache, SUM_hits, 1);\n", "    cache_count(cache, SUM_added, 1);\n"),
                         ("    cache_count(cache, SUM_in_use, 0 - bytes);\n", "    cache->sums[SUM_freed]++;\n")],
    "src/pool/ledger_sums.c": [("    stats_set(STATS_peak_live_bytes, pool->peak_live);\n",
                          "    stats_set(STATS_added_setting, (uint64_t)(pool->config.added * 100 + 0.5));\n")],
    "include/poolcuda.h": [("enum poolcuda_limit {\n", f"    POOLCUDA_LIMIT_ADDED = {ADDED_LIMIT},\n")],
}


class Copy:
    """The sources with a row more in each table, and their build."""

    def __init__(self, folder):
        self.folder, self.build = folder, folder / "build"
        self.tool, self.library = self.build / "src/cli/poolcuda", self.build / "src/interpose/libpoolcuda.so"
        for name in ("src", "subprojects", "include", "man", "completions", "docs", "scripts", "share"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("meson.build", "meson_options.txt", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        for name, rows in ROWS.items():
            path = folder / name
            text = path.read_text()
            first_undef = re.search(r"(#undef \w+\n)+\Z", text).start()
            path.write_text(text[:first_undef] + rows + text[first_undef:])
        for name, insertions in USES.items():
            for line, more in insertions:
                text = (folder / name).read_text()
                assert text.count(line) == 1, (name, line)
                (folder / name).write_text(text.replace(line, line + more))

    def make(self):
        options = subprocess.run(["meson", "introspect", BUILD, "--buildoptions"], capture_output=True, text=True, check=True)
        headers = next(option["value"] for option in json.loads(options.stdout) if option["name"] == "cudainc")
        steps = [["meson", "setup", self.build, f"-Dcudainc={headers}", "-Dtests=false", "-Dwerror=true", "-Doptimization=1",
                  "-Ddebug=false"],
                 ["ninja", "-C", self.build, self.tool.relative_to(self.build), self.library.relative_to(self.build)]]
        for step in steps:
            done = guard.run([*map(str, step)], cwd=self.folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return self

    def command(self, *arguments):
        return command(*arguments, tool=self.tool)

    def program(self, **variables):
        return Program(library=self.library, tool=self.tool, **variables)


@pytest.fixture(scope="module", name="copy")
def copy_with_rows(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("one_row") / "sources").make()


def use(program, rounds=40):
    for _ in range(rounds):
        assert program.do("alloc 0 4096") == program.do("free 0") == 0


def setting(program):
    """Of the added option, as the pool has it."""
    use(program, 1)
    assert program.do(f"alloc 1 {1 << 20}") == program.do("free 1") == 0
    return program.counter("added_setting")


def test_an_added_option_is_listed_and_documented(copy):
    assert "POOLCUDA_ADDED (0 to 1; default 0.25; may change while the program runs)\n    what a test has added\n" in \
        copy.command("options").stdout
    assert "--added" in copy.command("run", "--help").stdout
    subprocess.run([copy.folder / "scripts/write-tables", copy.build], check=True)
    assert "| `POOLCUDA_ADDED` | 0 to 1 | `0.25` | any time | what a test has added |\n<!-- /options -->" in \
        (copy.folder / "README.md").read_text()


def test_an_added_option_is_read_and_copied_to_the_pool(copy):
    with copy.program() as program:
        assert setting(program) == 25
    with copy.program(POOLCUDA_ADDED="0.5") as program:
        assert setting(program) == 50
    done = copy.command("run", "--added=7", "true")
    assert (done.returncode, done.stderr) == (2, 'poolcuda: POOLCUDA_ADDED="7": expected a number from 0 to 1\n')


def test_an_added_option_is_set_while_the_program_runs(copy):
    with copy.program(POOLCUDA_ADDED="0.5", POOLCUDA_MAX_IDLE="100%", POOLCUDA_IDLE_DECAY="0") as program:
        assert setting(program) == 50
        program.do("churn")
        done = copy.command("set", program.pid, "ADDED=0.75")
        assert (done.returncode, done.stdout) == (0, f"{program.pid}: POOLCUDA_ADDED=0.75\n"), done.stderr
        assert setting(program) == 75


def test_an_added_option_is_a_limit_of_the_programs_own(copy):
    with copy.program() as program:
        assert setting(program) == 25
        assert program.do(f"limit {ADDED_LIMIT} {SHARE | 60 * PERCENT}") == 0
        assert setting(program) == 60
        invalid = -1
        assert program.do(f"limit {ADDED_LIMIT} {SHARE | 101 * PERCENT}") == invalid
        assert program.do(f"limit {ADDED_LIMIT} 60") == invalid
        assert program.do(f"limit {ADDED_LIMIT + 1} {SHARE | 60 * PERCENT}") == invalid
        assert setting(program) == 60


@pytest.mark.parametrize("mode, name, whole", [("auto", "added_hits", "malloc_hits"), ("defer", "added_frees", "free_kept")])
def test_an_added_counter_of_the_quick_path_is_counted_reported_and_added_up(copy, tmp_path, mode, name, whole):
    reports = []
    for rounds in (40, 400):
        reports.append(tmp_path / f"{rounds}.json")
        with copy.program(POOLCUDA_STATS_FILE=str(reports[-1]), POOLCUDA_FREE=mode) as program:
            use(program, rounds)
            assert program.end() == 0
    few, many = (json.loads(path.read_text())["counters"] for path in reports)
    assert 0 < few[name] <= few[whole] < many[name] <= many[whole]
    both = json.loads(copy.command("report", "--json", *reports).stdout)["counters"]
    assert both[name] == few[name] + many[name]


def test_added_counters_are_seen_while_the_program_runs_and_documented(copy):
    with copy.program() as program:
        use(program)
        before = program.figures()["counters"]
        use(program, 10)
        after = program.figures()["counters"]
        assert before["added_hits"] < after["added_hits"] <= before["added_hits"] + 10
        shown = copy.command("top", "--prometheus", "-").stdout
        assert "# HELP poolcuda_added_hits_total hits, as a test counts them\n" in shown
        assert re.search(rf'^poolcuda_added_hits_total{{pid="{program.pid}".*}} {after["added_hits"]}$', shown, re.M)
        assert re.search(rf'^poolcuda_added_setting{{pid="{program.pid}".*}} 25$', shown, re.M)
    subprocess.run([copy.folder / "scripts/write-tables", copy.build], check=True)
    text = (copy.folder / "docs/reports.md").read_text()
    assert "| `added_hits` | hits, as a test counts them |\n| `added_frees` | frees, as a test counts them |\n" in text
