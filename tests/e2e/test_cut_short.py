"""What becomes of the file of figures, and of the entry of the page, is no signal to the program: neither is mapped."""

import json
import os

import pytest
from steered import Program

CUTS = {"to nothing": lambda path: os.truncate(path, 0), "to a part": lambda path: os.truncate(path, 5000),
        "to nothing, and made longer again": lambda path: (os.truncate(path, 0), os.truncate(path, 1 << 20)),
        "removed": os.unlink, "overwritten": lambda path: path.write_bytes(b"\xff" * (1 << 21))}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("share", ["0", "1"])
def test_a_program_whose_files_are_cut_short_goes_on_and_reports(cut, share, tmp_path):
    figures = tmp_path / "figures"
    with Program(POOLCUDA_STATS_FILE=str(figures), POOLCUDA_SHARE=share) as program:
        for path in [program.page, figures] if share == "1" else [figures]:
            assert path.exists()
            cut(path)
        assert program.do("sites 100") == 0
        program.do("churn")
        for path in (program.page, figures):
            if path.exists():
                cut(path)
        assert program.do("alloc 0 4096") == 0
        assert program.end() == 0
    if figures.exists():
        report = json.loads(figures.read_text())
        assert report["counters"]["malloc_calls"] > 100
