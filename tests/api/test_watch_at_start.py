"""``GRAPHDOCTOR_WATCH=1 python train.py``, where graphdoctor is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import graphdoctor

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

PTH = Path(graphdoctor.__file__).parent / "probe" / "startup" / "graphdoctor_watch.pth"
TRAIN = """
import torch
function = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
for size in (2, 3):
    function(torch.ones(size))
"""


def run(folder, program, variable):
    shutil.copy(PTH, folder)
    # As Python reads it in site-packages.
    code = f"import site; site.addsitedir({str(folder)!r})\n{program}"
    environment = {**os.environ, "GRAPHDOCTOR_WATCH": variable}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_a_variable_prints_a_line_for_each_compile(tmp_path):
    lines = run(tmp_path, TRAIN, "1").stderr.splitlines()
    assert [line.split()[1] for line in lines] == ["compiled", "recompiled", "2"]
    assert lines[1].endswith("x.shape[0]: 2 → 3")


def test_it_names_sinks_and_says_what_it_does_not_know(tmp_path):
    file = tmp_path / "watch.jsonl"
    run(tmp_path, TRAIN, f"jsonl:{file}")
    assert len(file.read_bytes().splitlines()) == 2
    assert "no sink named 'jsnol'" in run(tmp_path, TRAIN, "jsnol").stderr


def test_nothing_is_imported_without_it(tmp_path):
    program = "import sys; print(sorted(name for name in sys.modules if 'graphdoctor' in name))"
    assert run(tmp_path, program, "").stdout == "[]\n"
