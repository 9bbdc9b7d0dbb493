"""Runs the samples natively and under the pool and prints what changed. Called by scripts/demo.

demo.py HEADERS [--rounds=N]  runs each N times (3); on a machine with a GPU they are compiled with CUDA's headers there
demo.py --targets             prints what ninja has to build before
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
REPORTS = BUILD  # where runs leave their figures, until the next run
LIBRARY = BUILD / "src/interpose/libpoolcuda.so"
SIMULATED = [BUILD / "subprojects/simcuda/driver", BUILD / "subprojects/simcuda/runtime"]
SAMPLES = ["three_sites", "varying", "stencil", "pipeline", "reduction", "threads", "nearly_all_memory"]
CUDA_SAMPLES = ["search"]  # with kernels of their own, which nvcc compiles
TRACES = sorted((ROOT / "tests/data").glob("*.csv.gz"))


def real_gpu():
    """The name of the machine's GPU, None if it has none."""
    tool = shutil.which("nvidia-smi")
    if not tool or not pathlib.Path("/dev/nvidiactl").exists():
        return None
    query = subprocess.run([tool, "--query-gpu=name", "--format=csv,noheader"],
                           capture_output=True, text=True, check=False)
    return query.stdout.strip().splitlines()[0] if query.returncode == 0 and query.stdout else None


def targets(gpu):
    """What this machine's demo runs, as ninja names it."""
    found = ["src/interpose/libpoolcuda.so", "src/cli/poolcuda"]
    if not gpu:
        found += [f"samples/{name}{form}" for name in [*SAMPLES, "trace_player"] for form in ("", "-static")]
        found += [f"subprojects/simcuda/{part}" for part in ("driver/libcuda.so.1", "runtime/libcudart_static.a")]
    return found


def compile_cuda(folder, gpu):
    """Compiles the samples of CUDA C++: with the simulated runtime, or for the GPU that is here."""
    compiler = [shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "-arch=native"] if gpu else [str(ROOT / "scripts/simcuda-nvcc")]
    for name in CUDA_SAMPLES:
        command = [*compiler, "-O2", str(ROOT / f"samples/{name}.cu"), "-o", str(folder / f"{name}-nvcc")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            sys.exit(f"{name}: {command[0]}: {error.strerror}: expected CUDA's compiler there or in PATH; no program ran")
        if done.returncode:
            sys.exit(f"{done.stderr.strip()}\n{name} could not be compiled; no program ran")


def compile_for_gpu(headers):
    """Compiles the samples against NVIDIA's own runtime; returns their folder."""
    folder = BUILD / "demo-gpu"
    folder.mkdir(exist_ok=True)
    libraries = [p for p in (pathlib.Path(headers).parent / "lib64", pathlib.Path(headers).parent / "lib")
                 if p.exists()]
    for name in SAMPLES + ["trace_player"]:
        for form, runtime in (("", ["-lcudart"]),
                              ("-static", ["-Wl,-Bstatic", "-lcudart_static", "-Wl,-Bdynamic",
                                           "-lrt", "-ldl", "-lpthread"])):
            command = ["cc", "-O2", "-I", headers, str(ROOT / f"samples/{name}.c"), "-o",
                       str(folder / (name + form))]
            for library in libraries:
                command += [f"-L{library}", f"-Wl,-rpath,{library}"]
            if not subprocess.run(command + runtime + ["-lcuda", "-lz", "-lpthread"],
                                  check=False).returncode == 0:
                sys.exit(f"{name}{form} could not be compiled against NVIDIA's runtime")
    return folder


class Run:
    """One run of a program and what it told about itself."""

    def __init__(self, command, pooled, simulated):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("POOLCUDA_")}
        report = REPORTS / "demo-report.txt"
        stats = REPORTS / "demo-stats.txt"
        for file in (report, stats):
            file.unlink(missing_ok=True)
        if simulated:
            environment["LD_LIBRARY_PATH"] = ":".join(map(str, SIMULATED))
            environment["SIMCUDA_REPORT"] = str(report)
        if pooled:
            environment["LD_PRELOAD"] = str(LIBRARY)
            environment["POOLCUDA_STATS_FILE"] = str(stats)
            environment["POOLCUDA_STATS"] = "1"
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
        seconds = re.search(r"^seconds ([\d.]+)$", done.stderr, re.M)
        self.seconds = float(seconds.group(1)) if seconds else None
        self.calls = self.held = None
        self.hazards = 0
        if simulated and report.exists():
            figures = dict(line.split()[:2] for line in report.read_text().splitlines()
                           if len(line.split()) >= 2)
            self.calls = sum(int(v) for k, v in figures.items()
                             if re.fullmatch(r"calls\.cuMem(Alloc|AllocPitch|Free)_v2", k))
            self.held = int(figures.get("peak_held_bytes", 0))
            self.hazards = int(figures.get("hazards", 0))
        self.hits = None
        if pooled and stats.exists():
            text = stats.read_text()
            hit = re.search(r"from idle memory \(([\d.]+)%", text)
            made = re.search(r"driver calls: (\d+) allocations? and (\d+) frees? made", text)
            self.hits = float(hit.group(1)) if hit else None
            if self.calls is None and made:
                self.calls = int(made.group(1)) + int(made.group(2))
            held = re.search(r"at their peak: .* live, ([\d.]+) (\w+) held", text)
            if self.held is None and held:
                units = ["B", "KiB", "MiB", "GiB", "TiB"]
                self.held = int(float(held.group(1)) * 1024 ** units.index(held.group(2)))


def mebibytes(value):
    return "-" if value is None else f"{value / (1 << 20):.0f} MiB"


class Row:
    """One program, run natively and pooled in turns: times are compared within a turn, counts are the last turn's."""

    def __init__(self, name, command, rounds, simulated):
        self.name, self.native, self.pooled = name, [], []
        for _ in range(rounds):
            self.native.append(Run(command, False, simulated))
            self.pooled.append(Run(command, True, simulated))
        turns = list(zip(self.native, self.pooled, strict=True))
        self.ran = all(run.code == 0 and run.seconds is not None for run in self.native + self.pooled)
        self.same = self.ran and all(native.output == pooled.output for native, pooled in turns)
        self.hazards = sum(run.hazards for run in self.pooled)
        self.good = self.same and not self.hazards

    def ratios(self):
        return sorted(native.seconds / pooled.seconds for native, pooled in zip(self.native, self.pooled, strict=True))

    def cells(self):
        """What the table says of it, in the order of HEADING."""
        native, pooled = self.native[-1], self.pooled[-1]
        ratios = self.ratios()
        spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
        verdict = ("identical" if self.same else "DIFFERENT") + (f", {self.hazards} HAZARDS" if self.hazards else "")
        return (self.name, *(f"{statistics.median(run.seconds for run in runs):.3f} s" for runs in (self.native, self.pooled)),
                f"{statistics.median(ratios):.2f}x{spread}",
                f"{'-' if native.calls is None else native.calls} -> {pooled.calls}",
                f"{mebibytes(native.held)} -> {mebibytes(pooled.held)}",
                "-" if pooled.hits is None else f"{pooled.hits:.1f}%", verdict)

    def failure(self):
        bad = next(run for run in self.native + self.pooled if run.code or run.seconds is None)
        where = "natively" if bad in self.native else "under the pool"
        return f"{self.name:<26} failed {where}: exit {bad.code}\n{bad.errors}"


HEADING = ("program", "native", "pooled", "faster", "alloc+free calls", "peak held", "hits", "results")
FORM = "{:<26} {:>9} {:>9} {:>24}  {:>16}  {:>22} {:>6}  {}"


def times_are(rounds):
    """What the times are of, above the table."""
    return f"medians of {rounds} runs; in brackets the least and the greatest gain" if rounds > 1 else "times of one run of each program"


def programs_in(folder):
    """(name in the table, command) of each."""
    found = [(name + form, [str(folder / (name + form))]) for name in SAMPLES for form in ("", "-static")]
    found += [(f"{name} (nvcc)", [str(folder / f"{name}-nvcc")]) for name in CUDA_SAMPLES]
    return found + [(trace.name.removesuffix(".csv.gz") + " (trace)", [str(folder / "trace_player"), str(trace)])
                    for trace in TRACES]


def main():
    gpu = real_gpu()
    if sys.argv[1:] == ["--targets"]:
        print(*targets(gpu))
        return 0
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Runs unmodified programs natively and under the pool.")
    parser.add_argument("headers", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="run each program N times (3)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds: {arguments.rounds}: expected 1 or more")
    sys.stdout.reconfigure(line_buffering=True)  # each row as it comes, into a pipe as well
    folder = compile_for_gpu(arguments.headers) if gpu else BUILD / "samples"
    compile_cuda(folder, gpu)
    if gpu:
        print(f"GPU: {gpu}, programs linked with NVIDIA's runtime")
    else:
        print("GPU: none here, so the simulated one; its times follow published figures for real calls")
    print(times_are(arguments.rounds))
    print(FORM.format(*HEADING))
    bad = 0
    for name, command in programs_in(folder):
        row = Row(name, command, arguments.rounds, not gpu)
        print(FORM.format(*row.cells()) if row.ran else row.failure())
        bad += not row.good
    print("Times below a tenth of a second, and ratios near 1, are noise: look at the calls.")
    command = (BUILD / "src/cli/poolcuda").relative_to(ROOT)
    print(f"Your own program: {command} doctor ./app, then {command} run ./app")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
