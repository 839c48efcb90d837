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
COUNTS = {
    "calls",
    "compiles",
    "graphs",
    "break_sites",
    "break_records",
    "skipped_frames",
    "recompiles",
    "frames_over_limit",
    "coverage",
}
TEXT_OF_CODE = {
    "GD101": r"\bprint\(|\blogger\.\w+\(|\bwarnings\.warn\(",
    "GD102": r"^if .*:$",
    "GD103": r"\.item\(\)",
    "GD104": r"\bnonzero\(",
    "GD106": r"= reference_norm\(",
    "GD107": r"^torch\._dynamo\.graph_break\(\)$",
    "GD108": r"\bcopy\.deepcopy\(",
    "GD109": r"\bnp\.interp\(",
    "GD110": r"^with .*:$",
    "GD112": r"^loss\.backward\(\)$|^optimizer\.\w+\(\)$",
    "GD202": r"self\.\w+\(|\.shape\[",
    "GD203": r"[*/]|^if ",
    "GD205": r"self\.step",
    "GD207": r"^if ",
    "GD210": r"^def \w+\(",
    "GD216": r"\bmask\b|^\w+ = ",
    "GD201": r"^def \w+\(",
    "GD901": r"self\.out\(",
}
"""What the line that a finding points to looks like; GD111 repeats another finding's line."""


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
    assert len(set(findings)) == len(findings), "a finding is given twice"
    return Expected(counts, frozenset(findings))


@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_a_sample_says_what_is_found_and_where(path: Path) -> None:
    expected = read_expected(path)
    lines = path.read_text(encoding="utf-8").splitlines()

    assert expected.counts, "no counts"
    assert set(expected.counts) <= COUNTS
    for code, line in expected.findings:
        if code == "GD111":
            assert [other for other, at in expected.findings if at == line and other != code]
        else:
            assert re.search(TEXT_OF_CODE[code], lines[line - 1].strip()), f"line {line} is no {code}"


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
