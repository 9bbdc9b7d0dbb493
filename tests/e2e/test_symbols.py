"""poolcuda report names the functions and lines of sites, if it can be sure of them, and else module + offset."""

import json
import os
import re
import shutil
import subprocess

import guard
import pytest
from conftest import BUILD, COMMAND, ROOT, SAMPLES

SOURCE = """
#include <stddef.h>
int cudaMalloc(void **, size_t);
int cudaFree(void *);
void *take_some(void) __asm__("%(symbol)s");
__attribute__((noinline)) void *take_some(void) {
    void *pointer;
    cudaMalloc(&pointer, 4096);               /* line 8 */
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}
static inline __attribute__((always_inline)) void *inlined(void) {
    void *pointer;
    cudaMalloc(&pointer, 512);                /* line 14 */
    return pointer;
}
int main(void) {
    void *other = inlined();                  /* line 18 */
    return cudaFree(take_some()) | cudaFree(other);
}
"""


@pytest.fixture(name="program")
def fixture_program(tmp_path):
    """program(*flags, symbol="take_some"): builds the program above, always to the same path."""
    def build(*flags, symbol="take_some", source=SOURCE):
        (tmp_path / "small.c").write_text(source % {"symbol": symbol})
        subprocess.run(["gcc", "-O1", "-Wl,--build-id", *flags, "small.c", "-o", "small", f"-L{BUILD}/subprojects/simcuda/runtime",
                        "-lcudart", f"-Wl,-rpath-link,{BUILD}/subprojects/simcuda/driver"], cwd=tmp_path, check=True)
        return tmp_path / "small"
    return build


@pytest.fixture(name="record")
def fixture_record(run, tmp_path):
    def recorder(program, name="stats"):
        path = tmp_path / name
        path.unlink(missing_ok=True)
        result = run(program, env={"POOLCUDA_STATS": "0", "POOLCUDA_STATS_FILE": str(path)})
        assert result.code == 0, result.err
        return path
    return recorder


def report(*arguments):
    done = guard.run([COMMAND, "report", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def places(done):
    lines = done.stdout[done.stdout.index("leaked at exit"):].split("\n\n")[0].splitlines()[1:]
    return sorted(re.split(r"  +", line)[-1].strip().removeprefix("- ") for line in lines)


def unnamed(done):
    return all(re.fullmatch(r"small\+0x[0-9a-f]+", place) for place in places(done)) and len(places(done)) == 2


NAMED = ["inlined (small.c:14)", "take_some (small.c:8)"]


@pytest.mark.parametrize("flags", [["-pie", "-fPIE"], ["-no-pie"], ["-g1"], ["-gdwarf-4"], ["-gz"]], ids=" ".join)
def test_functions_and_lines_are_named_innermost_of_inlined_ones_first(program, record, flags):
    done = report(record(program("-g", *flags)))
    assert places(done) == NAMED
    assert done.stderr == ""


def test_a_program_with_a_symbol_table_alone_has_functions_without_lines(program, record):
    main, take_some = places(report(record(program())))
    assert re.fullmatch(r"main\+0x[0-9a-f]+ \(small\)", main)
    assert re.fullmatch(r"take_some\+0x[0-9a-f]+ \(small\)", take_some)


MANY = """
int cudaMalloc(void **, unsigned long);
void %(symbol)s(void) {}
int main(void) {
    static void *blocks[30];
    void **at = blocks;
#define FIVE ONE ONE ONE ONE ONE
#define ONE if (cudaMalloc(at++, 4096)) return 1;
    FIVE FIVE FIVE FIVE FIVE FIVE
    return 0;
}
"""


def test_sites_of_one_function_without_lines_are_told_apart_by_their_offsets(program, record):
    path = program(source=MANY)
    file = record(path)
    told = places(report("--sites=all", file))
    assert len(set(told)) == len(told) == 30 and all(re.fullmatch(r"main\+0x[0-9a-f]+ \(small\)", one) for one in told)
    start = int(re.search(r"^([0-9a-f]+) T main$", subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout,
                          re.M).group(1), 16)
    frames = [site["frames"][0] for site in json.loads(file.read_text())["sites"]]
    assert {f"main+{frame['offset'] - start:#x} (small)" for frame in frames} == set(told), "return addresses, as debuggers show them"
    lines = report("--flamegraph=-", file).stdout.splitlines()
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == 30


def test_the_text_lists_the_first_20_sites_and_says_how_to_see_the_others(program, record, run):
    file = record(program(source=MANY))
    done = report(file)
    assert len(places(done)) == 21 and "  and 10 more sites with lower peaks: --sites=all lists all\n" in done.stdout
    assert len(places(report("--sites=3", file))) == 4 and len(places(report("--sites=30", file))) == 30
    own = run(program(source=MANY)).stats
    assert len(re.findall(r"small\+0x", own)) == 20
    assert "and 10 more sites with lower peaks: run with POOLCUDA_STATS_FILE=run.json instead of POOLCUDA_STATS=1; " \
           "`poolcuda report --sites=all run.json` lists all" in own
    assert len(json.loads(report("--json", file).stdout)["sites"]) == 30


@pytest.mark.parametrize("value", ["x", "-1", "", "3x", "99999999999999999999"])
def test_a_number_of_sites_that_is_none_is_reported_in_a_line(value):
    done = subprocess.run([COMMAND, "report", f"--sites={value}", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"--sites={value}: expected a number, or all" in done.stderr


def test_names_of_cxx_are_readable(program, record):
    assert any(re.fullmatch(r"deep::make\(int\)\+0x[0-9a-f]+ \(small\)", place)
               for place in places(report(record(program(symbol="_ZN4deep4makeEi")))))


def test_a_stripped_program_has_modules_and_offsets(program, record):
    done = report(record(program("-g", "-s")))
    assert unnamed(done) and done.stderr == ""


def split(path, debug):
    debug.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", path], check=True)


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: (\w+)", notes).group(1)


def test_a_separate_debug_file_is_found_by_the_build_id(program, record, tmp_path):
    path = program("-g")
    name = build_id(path)
    split(path, tmp_path / "debug/.build-id" / name[:2] / f"{name[2:]}.debug")
    stats = record(path)
    assert unnamed(report(stats))
    assert places(report("--debug-dir", tmp_path / "debug", stats)) == NAMED
    path.unlink()
    assert places(report("--debug-dir", tmp_path / "debug", stats)) == NAMED, "the program itself is not needed"


def test_a_separate_debug_file_of_another_build_is_not_used(program, record, tmp_path):
    path = program("-g")
    other = tmp_path / "other"
    shutil.copy(path, other)
    path = program("-g", "-DOTHER", source=SOURCE.replace("4096", "8192"))
    name = build_id(path)
    assert name != build_id(other)
    subprocess.run(["objcopy", "--strip-all", path], check=True)
    split(other, tmp_path / "debug/.build-id" / name[:2] / f"{name[2:]}.debug")
    assert unnamed(report("--debug-dir", tmp_path / "debug", record(path)))


def test_a_separate_debug_file_is_found_by_the_link_in_the_program(program, record, tmp_path):
    path = program("-g")
    split(path, tmp_path / "small.debug")
    subprocess.run(["objcopy", "--add-gnu-debuglink=small.debug", "small"], cwd=tmp_path, check=True)
    assert places(report(record(path))) == NAMED


def test_a_program_built_anew_since_the_run_is_reported_and_not_looked_into(program, record):
    stats = record(program("-g"))
    path = program("-g", source=SOURCE.replace("4096", "8192"))
    done = report(stats)
    assert unnamed(done)
    assert done.stderr == (f"poolcuda report: {path}: changed since the run; "
                           "its places are named as module+offset\n")


def test_without_a_build_id_the_files_age_decides(program, record):
    path = program("-g", "-Wl,--build-id=none")
    stat = path.stat()
    os.utime(path, (stat.st_atime, stat.st_mtime - 60))
    stats = record(path)
    assert places(report(stats)) == NAMED
    os.utime(path)
    os.utime(path, (stat.st_atime, stat.st_mtime + 3600))
    done = report(stats)
    assert unnamed(done) and "changed since the run" in done.stderr


def test_a_program_that_is_gone_costs_its_names_alone(program, record):
    path = program("-g")
    stats = record(path)
    path.unlink()
    assert unnamed(report(stats))
    os.mkfifo(path)
    assert unnamed(report(stats)), "nothing is read from what is no plain file"


def test_no_symbols_leaves_modules_and_offsets(program, record):
    assert unnamed(report("--no-symbols", record(program("-g"))))


def test_damaged_programs_never_break_the_report(program, record):
    """Cut at many places, bytes changed at many places, or made huge: the figures are printed anyway."""
    path = program("-g")
    stats, sound = record(path), path.read_bytes()
    expected = report("--no-symbols", stats).stdout.split("leaked at exit")[0]
    seen = set()

    def check(content, size=None):
        path.write_bytes(content)
        if size:
            os.truncate(path, size)
        done = report(stats)
        assert done.stdout.split("leaked at exit")[0] == expected
        assert len(places(done)) == 2
        seen.add(done.stderr.split("; ")[0].split(": ")[-1].strip())

    for part in range(1, 24):
        check(sound[:len(sound) * part // 24])
    for seed in range(24):
        content = bytearray(sound)
        for i in range(40):
            content[2048 + (seed * 7919 + i * i * 104729 + i) % (len(sound) - 2048)] ^= 1 + (seed * 31 + i) % 255
        check(content)
    for at in range(0x28, 0x40, 2):  # where the ELF header says what lies where
        content = bytearray(sound)
        content[at] ^= 0xff
        content[at + 1] ^= 0x7f
        check(content)
    check(sound, 1 << 42)
    assert seen == {"", "changed since the run", "damaged, or too large to be read"}


def test_samples_of_this_project_are_named(record):
    done = report(record(SAMPLES / "varying", "varying"))
    assert [place.split(" ")[0] for place in places(done)] == ["main", "main", "main", "make_buffer"]
    lines = {int(line) for line in re.findall(r"varying\.c:(\d+)", done.stdout)}
    code = (ROOT / "samples/varying.c").read_text().splitlines()
    assert lines and all("cudaMalloc" in code[line - 1] for line in lines)
