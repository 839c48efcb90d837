"""A few programs of the benchmark's corpus, so that what is named rightly stays so."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy import ask, programs


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("planted", "middle"),
        ("planted", "backward_tanh"),
        ("planted", "guard_removed"),
        ("rounding", "bf16_matmul_chain"),
        ("rounding", "layer_norm_half"),
    ],
)
def test_names_what_differs_and_excuses_what_rounds(group: str, name: str, tmp_path: Path) -> None:
    path, truth = next(item for item in programs(group).items() if item[0].stem == name)
    named = ask(path, truth, tmp_path)
    assert named.is_right, named
