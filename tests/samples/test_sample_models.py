"""Each sample says in its first lines what graphdoctor must find; here it is held to that."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.trace.test_phases import assert_agrees_with_the_metrics, picture_of

SAMPLES = sorted((REPOSITORY / "sample_models").glob("*.py"))
HEADING = "graphdoctor finds:"


@dataclass(frozen=True)
class Expected:
    counts: dict[str, float]
    findings: frozenset[tuple[str, int]]


def read_expected(path: Path) -> Expected:
    """Parse the block: counts in ``name=value`` words, then one line a finding."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    before, heading, block = docstring.partition(f"\n{HEADING}\n")
    assert heading, f"no {HEADING!r} in the docstring"
    assert before.strip(), "the docstring begins with what the sample shows"
    counts: dict[str, float] = {}
    findings: list[tuple[str, int]] = []
    for line in block.splitlines():
        if match := re.fullmatch(r"    (GD\d{3}) line (\d+)", line):
            findings.append((match[1], int(match[2])))
            continue
        assert re.fullmatch(r"   (?: [a-z_]+=\d+(?:\.\d\d)?)+", line), f"cannot be read: {line!r}"
        assert not findings, "counts come before findings"
        for word in line.split():
            name, value = word.split("=")
            assert name not in counts, f"{name} is given twice"
            counts[name] = float(value)
    assert counts, "no counts"
    assert len(set(findings)) == len(findings), "a finding is given twice"
    return Expected(counts, frozenset(findings))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler on a CPU")
def test_a_class_is_explained_with_inductor_and_dynamic_shapes(
    tmp_path: Path, explain_json: Callable[..., Any]
) -> None:
    target = f"{REPOSITORY / 'sample_models' / 'attention.py'}:MultiHeadAttention"

    summary = explain_json(target, "--backend", "inductor", "--dynamic")["summary"]

    assert (summary["calls"], summary["graphs"], summary["break_records"]) == (2, 2, 0)
    assert summary["coverage"] == 1.0
    (folder,) = tmp_path.glob(".graphdoctor/*-attention")
    recording, phases = picture_of(folder)
    assert_agrees_with_the_metrics(recording, phases)
    # Hit or miss: whether its cache knew the graph, AOTAutograd tells the phase that asked.
    assert any(note.startswith("autograd_cache_") for phase in phases for note in phase.notes)
    assert recording.picture is not None
    assert recording.picture.config == {}
