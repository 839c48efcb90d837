"""The comparison under several torches, here under one."""

from __future__ import annotations

import sys

import pytest

from tests.truth.torches import FOLDERS, compared, programs


def test_only_programs_that_need_other_packages_are_left_out() -> None:
    found = {path.stem for path in programs()}
    assert len(found) > 70
    left_out = {path.stem for folder in FOLDERS for path in folder.glob("*.py")} - found
    assert left_out == {"around_bert", "graph_net", "progress_step"}


@pytest.mark.slow
def test_torch_s_own_words_and_ours_are_side_by_side() -> None:
    (row,) = compared(sys.executable, programs(["item"]))
    assert (row.program, row.text, row.differing) == ("item", "1 3 3 1", {})
    assert len(row.sites) == 1
