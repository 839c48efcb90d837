"""What a replay says of a suggestion."""

from __future__ import annotations

from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.trials import Remedy, TrialResult, WhatIf
from graphdoctor.rules.diagnosis.verdicts import with_replays
from tests.each import for_each
from tests.factories import change, compiled, diagnosed, frame, recompiled, recording, why

TENSOR = "t = torch.tensor(t)"


def remedy(snippet):
    return Remedy(
        name="tensor t",
        title="Pass it",
        snippet=snippet,
        kind="call",
        addresses=("t",),
        keeps_results=False,
    )


def result(snippet, compiles, *, limit=0, outputs="equal"):
    return TrialResult(
        remedies=() if snippet is None else (remedy(snippet),),
        compiles=compiles,
        frames_over_limit=limit,
        outputs=outputs,
        error="it raised" if compiles is None else None,
    )


def findings():
    facts = recording(frames=(frame(),), compiles=(compiled(), recompiled("0/1", change())))
    (found,) = diagnosed(facts).findings
    fixes = (
        Fix(title="as a tensor", kind="call", snippet=TENSOR),
        Fix(title="in words", kind="code"),
    )
    return (found.replace(fixes=fixes),)


def judged(*results):
    (found,) = with_replays(findings(), WhatIf(results=results))
    return [(fix.title, fix.verdict, why(fix)) for fix in found.fixes]


WORDS = ("in words", "not tried", None)


def test_a_suggestion_that_adds_compiles_comes_last_with_both_counts():
    assert judged(result(None, 4), result(TENSOR, 9)) == [
        WORDS,
        ("as a tensor", "makes it worse", "replayed: 4 compiles → 9"),
    ]


@for_each(
    "tried, verdict, reason",
    [
        (result(TENSOR, 4), "no effect", "replayed: 4 compiles → 4"),
        (
            result(TENSOR, 3, limit=1),
            "makes it worse",
            "replayed: 4 compiles → 3, over the recompile limit",
        ),
        (result(TENSOR, None), "failed", "it raised"),
        (result(TENSOR, 2, outputs="different"), "changes results", None),
    ],
)
def test_what_does_not_help_is_said_to(tried, verdict, reason):
    assert judged(result(None, 4), tried) == [WORDS, ("as a tensor", verdict, reason)]


def test_finding_that_saves_compiles_keeps_place_and_count():
    assert judged(result(None, 4), result(TENSOR, 2)) == [
        ("as a tensor", "not tried", "replayed: 4 compiles → 2"),
        WORDS,
    ]


def test_without_a_replay_of_the_untouched_calls_nothing_is_said():
    assert judged(result(None, None), result(TENSOR, 9))[0] == ("as a tensor", "not tried", None)
    assert with_replays(findings(), None) == list(findings())
