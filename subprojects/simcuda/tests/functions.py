"""functions.py LIBRARY HEADERS: the driver exports every function that CUDA's headers in that folder declare, each in every
form, and nothing that neither list of them has."""

import pathlib
import re
import subprocess
import sys

LISTS = [pathlib.Path(__file__).resolve().parents[1] / "driver" / name for name in ("entry_points.def", "unsimulated.def")]
HEADERS = ("cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")
NOT_EXPORTED = {"cuWGLGetDevice",  # Windows only
                "cuGetProcAddress_ptsz", "cuGetProcAddress_v2_ptsz"}  # inline in the header
PER_THREAD = {"PTDS": "_ptds", "PTSZ": "_ptsz"}


def declared(header):
    """Every spelling of a function that a header's text declares: plain, versioned and per-thread ones."""
    text = re.sub(r"//.*", "", re.sub(r"/\*.*?\*/", "", header, flags=re.S))
    found = set(re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text))
    found |= set(re.findall(r"#\s*define\s+cu\w+\s+(cu\w+)\s*$", text, re.M))
    for form, suffix in PER_THREAD.items():
        for name in re.findall(rf"__CUDA_API_{form}\((cu\w+)\)", text):
            found |= {name, name + suffix}
    return found - NOT_EXPORTED


def exported(library):
    told = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" [TW] (cu\w+)$", told, re.M))


def main():
    library, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    ours = exported(library)
    listed = {name for path in LISTS for name in re.findall(r"^ENTRY\((\w+),", path.read_text(encoding="utf-8"), re.M)}
    problems = [f"{name}: listed, not exported" for name in sorted(listed - ours)]
    problems += [f"{name}: exported, not listed" for name in sorted(ours - listed)]
    count = 0
    for header in HEADERS:
        if (folder / header).exists():
            names = declared((folder / header).read_text(encoding="utf-8", errors="replace"))
            count += len(names)
            problems += [f"{name}: declared by {header}, not exported" for name in sorted(names - ours)]
    print("\n".join(problems) or f"{len(ours)} functions, of which the headers declare {count}")
    return 1 if problems or count < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
