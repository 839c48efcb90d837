"""Reasons as JSON."""

from __future__ import annotations

from typing import get_args

from graphdoctor.facts.fixes import Reason, ReasonKind, because
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.views.reasons import _WORDS, reason_text


def test_a_reason_survives_json_with_the_types_of_its_values():
    reason = because("but", because("unreached", 18), because("coverage", 0.5, 0.75))
    read = read_fact(Reason, plain(reason))
    assert read == reason
    assert reason_text(read) == (
        "no input that was tried reaches line 18, but coverage goes from 50% to 75%"
    )


def test_each_kind_of_reason_has_words():
    assert _WORDS.keys() == set(get_args(ReasonKind))
