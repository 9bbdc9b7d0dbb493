"""Runs the samples natively and under the pool and prints what changed. Called by scripts/demo."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LIBRARY = BUILD / "src/interpose/libpoolcuda.so"
SIMULATED = [BUILD / "src/sim/driver", BUILD / "src/sim/runtime"]
SAMPLES = ["three_sites", "varying", "stencil", "pipeline", "reduction", "threads", "nearly_all_memory"]
TRACES = sorted((ROOT / "tests/data").glob("*.csv.gz"))


def real_gpu():
    """The name of the machine's GPU, None if it has none."""
    tool = shutil.which("nvidia-smi")
    if not tool or not pathlib.Path("/dev/nvidiactl").exists():
        return None
    query = subprocess.run([tool, "--query-gpu=name", "--format=csv,noheader"],
                           capture_output=True, text=True, check=False)
    return query.stdout.strip().splitlines()[0] if query.returncode == 0 and query.stdout else None


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
        report = BUILD / "demo-report.txt"
        stats = BUILD / "demo-stats.txt"
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
            made = re.search(r"driver calls: (\d+) allocations and (\d+) frees made", text)
            self.hits = float(hit.group(1)) if hit else None
            if self.calls is None and made:
                self.calls = int(made.group(1)) + int(made.group(2))
            held = re.search(r"at their peak: .* live, ([\d.]+) (\w+) held", text)
            if self.held is None and held:
                units = ["B", "KiB", "MiB", "GiB", "TiB"]
                self.held = int(float(held.group(1)) * 1024 ** units.index(held.group(2)))


def mebibytes(value):
    return "-" if value is None else f"{value / (1 << 20):.0f} MiB"


def main():
    gpu = real_gpu()
    folder = compile_for_gpu(sys.argv[1]) if gpu else BUILD / "samples"
    if gpu:
        print(f"GPU: {gpu}, programs linked with NVIDIA's runtime")
    else:
        print("GPU: none here, so the simulated one; its times follow published figures for real calls")
    programs = [(name + form, [str(folder / (name + form))]) for name in SAMPLES
                for form in ("", "-static")]
    programs += [(trace.name.removesuffix(".csv.gz") + " (trace)",
                  [str(folder / "trace_player"), str(trace)]) for trace in TRACES]
    heading = ("program", "native", "pooled", "faster", "alloc+free calls", "peak held", "hits",
               "results")
    form = "{:<26} {:>9} {:>9} {:>7}  {:>16}  {:>21} {:>7}  {}"
    print(form.format(*heading))
    failed = 0
    for name, command in programs:
        native, pooled = (Run(command, p, not gpu) for p in (False, True))
        same = native.output == pooled.output and native.code == pooled.code == 0
        failed += not same or pooled.hazards > 0
        if native.seconds is None or pooled.seconds is None:
            print(f"{name:<26} failed: native exit {native.code}, pooled exit {pooled.code}")
            print(native.errors if native.code else pooled.errors)
            continue
        calls = f"{'-' if native.calls is None else native.calls} -> {pooled.calls}"
        held = f"{mebibytes(native.held)} -> {mebibytes(pooled.held)}"
        verdict = "identical" if same else "DIFFERENT"
        if pooled.hazards:
            verdict += f", {pooled.hazards} HAZARDS"
        print(form.format(name, f"{native.seconds:.3f} s", f"{pooled.seconds:.3f} s",
                          f"{native.seconds / pooled.seconds:.2f}x", calls, held,
                          "-" if pooled.hits is None else f"{pooled.hits:.1f}%", verdict))
    print("Times below a tenth of a second, and ratios near 1, are noise: look at the calls.")
    command = (BUILD / "src/cli/poolcuda").relative_to(ROOT)
    print(f"Your own program: {command} doctor ./app, then {command} run ./app")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
