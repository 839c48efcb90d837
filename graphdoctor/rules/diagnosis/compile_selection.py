"""Which compiles to show of a run that has too many: a diagnosis in, compile ids out, the most telling first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from graphdoctor.facts.diagnosis import Diagnosis, FrameReport

_EACH = 3
"""Compiles of one finding that come before others."""


def most_telling(diagnosis: Diagnosis, *, most: int) -> tuple[str, ...]:
    """The compiles to look at first.

    The first compile of each finding comes first, then further ones of each, then the first of each function, then all
    others in order.

    Args:
        diagnosis: The run, findings worst first.
        most: How many.
    """
    known = {compile_.compile_id for compile_ in diagnosis.recording.compiles}
    wanted = (compile_id for compile_id in _in_turn(diagnosis) if compile_id in known)
    return tuple(islice(dict.fromkeys(wanted), most))


def _in_turn(diagnosis: Diagnosis) -> Iterator[str]:
    for turn in range(_EACH):
        for finding in diagnosis.findings:
            yield from finding.compile_ids[turn : turn + 1]
            yield from finding.effects.graphs[turn : turn + 1]
    functions: dict[object, FrameReport] = {}
    for frame, report in diagnosis.each_frame():
        functions.setdefault((frame.file, frame.line, frame.code_name), report)
    for report in functions.values():
        yield from report.compile_ids[:1]
    yield from (compile_.compile_id for compile_ in diagnosis.recording.compiles)
