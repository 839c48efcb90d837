"""The comparison under several torches, here under one."""

from __future__ import annotations

import sys

import pytest

from tests.truth.torches import FOLDERS, compared, programs


def test_all_programs_of_the_corpus_are_compared_but_for_those_that_need_other_packages() -> None:
    found = {path.stem for path in programs()}
    assert len(found) > 70
    left_out = {path.stem for folder in FOLDERS for path in folder.glob("*.py")} - found
    assert left_out == {"molecule_net", "progress_sampler", "text_classifier"}


@pytest.mark.slow
def test_torch_s_own_words_and_ours_are_side_by_side() -> None:
    (row,) = compared(sys.executable, programs(["item"]))
    assert (row.program, row.text, row.differing) == ("item", "1 3 3 1", {})
    assert len(row.sites) == 1
