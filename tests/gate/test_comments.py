"""Ignore comments are read from comments alone."""

from __future__ import annotations

from graphdoctor.gate.comments import ignores_in


def test_codes_and_reason_are_read() -> None:
    found = ignores_in(
        "x = 1  # graphdoctor: ignore[GD101, gd2] the log is wanted\ny = 2  # noqa # graphdoctor: ignore\n"
    )
    assert found[1].codes == ("GD101", "GD2")
    assert found[1].reason == "the log is wanted"
    assert found[1].covers("GD205") and not found[1].covers("GD102")
    assert found[2].codes == () and found[2].reason is None and found[2].covers("GD102")


def test_a_text_that_looks_like_a_comment_is_none() -> None:
    assert ignores_in('x = "# graphdoctor: ignore[GD101]"\n') == {}


def test_a_file_that_ends_in_the_middle_keeps_what_was_read() -> None:
    assert list(ignores_in("a = 1  # graphdoctor: ignore\nx = (\n")) == [1]
