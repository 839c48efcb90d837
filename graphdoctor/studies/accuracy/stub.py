from dataclasses import dataclass

from graphdoctor.facts.accuracy import *
from graphdoctor.trials.judge import compared_with_eager
from graphdoctor.trials.program import RunChange


@dataclass(frozen=True)
class Accuracy:
    verdict: object
    reasons: tuple
    call_count: int
    correctness: object
    kinds: tuple
    differences: tuple
    draws_random: bool
    first_call: object
    change: RunChange


def accuracy_of(reference, recording, program, name):
    v = reference.judge(recording, program, name)
    c = compared_with_eager(recording)
    verdict = (
        "unknown"
        if v.correct is None
        else "different"
        if not v.correct
        else "same bits"
        if v.correctness.is_bitwise_equal
        else "rounding"
    )
    kinds = (
        ()
        if c is None
        else tuple(ComparedKind(kind=k, verdict="same bits", count=0) for k in c.kinds)
    )
    return Accuracy(
        verdict,
        v.reasons,
        len(recording.calls),
        v.correctness,
        kinds,
        () if c is None else c.differences,
        False,
        None,
        v.change,
    )
