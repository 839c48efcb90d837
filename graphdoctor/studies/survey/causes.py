"""Causes that targets share: findings of one rule in one function, whichever target they are of.

One fix in a shared helper mends all targets that have it, so causes are added up over targets before they are ranked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from graphdoctor.facts.diagnosis import Severity
from graphdoctor.facts.survey import SharedCause, SurveyCause, SurveyRow

_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
_Found = tuple[SurveyRow, SurveyCause]


def shared_causes(rows: Iterable[SurveyRow]) -> tuple[SharedCause, ...]:
    """All causes, the most costly first.

    What one costs is measured in time in few rows, and in targets in all of them: first come those that cost graphs or
    compiles (their severity is more than ``info``), among these the ones of most targets, then those that make most
    functions run eagerly, then those that cost most of the calls' time as far as that is known.

    Args:
        rows: Of all variants.
    """
    found: dict[tuple[str, str, str], list[_Found]] = {}
    for row in rows:
        # What fails without torch.compile has findings of that failure.
        for cause in row.causes if row.is_judged else ():
            found.setdefault((cause.code, cause.file, cause.function), []).append((row, cause))
    single: dict[str, list[_Found]] = {}
    shared: list[list[_Found]] = []
    for (code, *_), together in found.items():
        if len({row.name for row, _ in together}) == 1:
            single.setdefault(code, []).extend(together)
        else:
            shared.append(together)
    causes = [_shared(together) for together in (*shared, *single.values())]
    return tuple(sorted(causes, key=_rank))


def shared_export_causes(rows: Iterable[SurveyRow]) -> tuple[SharedCause, ...]:
    """What ``torch.export`` stops at, what most targets have first.

    It stops in each model's own ``forward``, so findings belong together that say the same, wherever they are.

    Args:
        rows: Of all variants.
    """
    found: dict[tuple[str, str], list[_Found]] = {}
    for row in rows:
        for cause in row.export_causes:
            found.setdefault((cause.code, cause.message), []).append((row, cause))
    return tuple(sorted(map(_shared, found.values()), key=_rank))


def _rank(cause: SharedCause) -> tuple[bool, int, int, float, str, str, str]:
    return (
        cause.severity == "info",
        -len(cause.targets),
        -cause.eager_frames,
        -(cause.call_us or 0.0),
        cause.code,
        cause.file,
        cause.function,
    )


def _shared(found: Sequence[_Found]) -> SharedCause:
    causes = [cause for _, cause in found]
    usual = _most_frequent(causes)
    functions = dict.fromkeys((cause.file, cause.function) for cause in causes)
    by_function = sorted({(list(functions).index((one.file, one.function)), one.line, one.location) for one in causes})
    fixes = [(row, cause) for row, cause in found if cause.fix is not None]
    verified = [(row, cause) for row, cause in fixes if cause.fix_verdict == "verified"]
    fix = next((cause.fix for _, cause in [*verified, *fixes]), None)
    times = [cause.call_us for cause in causes if cause.call_us is not None]
    return SharedCause(
        code=usual.code,
        rule=usual.rule,
        severity=max((cause.severity for cause in causes), key=_SEVERITIES.index),
        message=usual.message,
        file=usual.file,
        function=usual.function,
        package=usual.package,
        lines=tuple(sorted({one.line for one in causes if (one.file, one.function) == (usual.file, usual.function)})),
        functions=len(functions),
        places=tuple(dict.fromkeys(location for _, _, location in by_function)),
        text=usual.text,
        targets=tuple(dict.fromkeys(row.name for row, _ in found)),
        rows=len({row.key for row, _ in found}),
        call_us=sum(times) if times else None,
        eager_frames=sum(cause.eager_frames for cause in causes),
        fix=fix,
        fix_verified=tuple(dict.fromkeys(row.name for row, cause in verified if cause.fix == fix)),
    )


def _most_frequent(causes: Sequence[SurveyCause]) -> SurveyCause:
    """The first of those on the line that most rows have."""
    line = Counter(cause.location for cause in causes).most_common(1)[0][0]
    return next(cause for cause in causes if cause.location == line)
