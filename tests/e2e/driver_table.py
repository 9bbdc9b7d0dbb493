"""The table of driver functions, src/interpose/entry_points.def, and what CUDA's headers declare."""

import re
from collections import namedtuple

from conftest import ROOT

TABLE = ROOT / "src/interpose/entry_points.def"
COLUMNS = "symbol since ours stream work shows sync capture memory host code effect"
Row = namedtuple("Row", COLUMNS)
NOT_EXPORTED = {"cuWGLGetDevice",  # Windows only
                "cuGetProcAddress_ptsz", "cuGetProcAddress_v2_ptsz"}  # inline in the header
PER_THREAD = {"PTDS": "_ptds", "PTSZ": "_ptsz"}


def rows(text=None):
    found = re.findall(r"^ENTRY\((.*)\)$", TABLE.read_text() if text is None else text, re.M)
    return [Row(*re.split(r",\s*", row)) for row in found]


def stubs():
    return {row.symbol for row in rows() if row.ours in ("jump", "look", "peek", "call")}


def without_comments(header):
    return re.sub(r"//.*", "", re.sub(r"/\*.*?\*/", "", header, flags=re.S))


def functions(header):
    """Every exported spelling that a header's text declares: plain, versioned and per-thread ones."""
    text = without_comments(header)
    found = set(re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text))
    found |= set(re.findall(r"#\s*define\s+cu\w+\s+(cu\w+)\s*$", text, re.M))
    for form, suffix in PER_THREAD.items():
        for name in re.findall(rf"__CUDA_API_{form}\((cu\w+)\)", text):
            found |= {name, name + suffix}
    return found - NOT_EXPORTED


def unclassified(header, table=None):
    return sorted(functions(header) - {row.symbol for row in rows(table)})


def split(symbol):
    """The base name of a function, and the ending of a per-thread form or ''."""
    base, per_thread = re.fullmatch(r"(cu\w*?)(?:_v\d+)?(_pt[sd][sz])?", symbol).groups()
    return base, per_thread or ""


def types(header):
    """What a cuda...Typedefs.h has of each form: {(base, since, per-thread ending): parameters}."""
    found = re.findall(r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)\s*\((.*?)\);", without_comments(header), re.S)
    return {(base, since, per_thread): [" ".join(one.split()) for one in parameters.split(",")]
            for base, since, per_thread, parameters in found if base not in NOT_EXPORTED}
