"""How unevenly ranks compile, and who waits for whom: rows and reports in, seconds out.

Only durations are compared, which torch measures on each machine by itself: clocks of machines differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from graphdoctor.facts.job import RankReport, Skew, Straggler, StragglerCause
from graphdoctor.studies.ranks.agreement import Row

_NOTABLE = 0.2
_NOTABLE_S = 0.1
"""A rank is a straggler if it takes longer than the quickest by this share of the job's compile time, and by as many
seconds."""


def skew_of(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Skew:
    """How unevenly ranks compile."""
    totals = [report.summary.compile_time_s for report in ranks]
    known = [total for total in totals if total is not None]
    job_s = job_seconds(rows)
    return Skew(
        compile_s=(min(known), max(known)) if len(known) == len(totals) else None,
        job_s=job_s,
        straggler=None if job_s is None else _straggler(rows, [report.rank for report in ranks], job_s),
    )


def job_seconds(rows: Sequence[Row]) -> float | None:
    """The longest compile of each row, added up; None if the time of a compile is unknown."""
    longest = [_longest(row) for row in rows]
    return None if None in longest else sum(filter(None, longest))


def waits_of(rows: Sequence[Row], ranks: Sequence[int]) -> Mapping[int, float | None]:
    """Seconds that each rank waits for others, if they wait for each other after each compile."""
    job_s = job_seconds(rows)
    own = dict.fromkeys(ranks, 0.0)
    for row in rows:
        for rank, compile_ in row.found.items():
            own[rank] += compile_.duration_s or 0.0
    return {rank: None if job_s is None else job_s - own[rank] for rank in ranks}


def _longest(row: Row) -> float | None:
    found = [compile_.duration_s for compile_ in row.found.values()]
    return None if None in found else max(filter(None, found), default=0.0)


def _straggler(rows: Sequence[Row], ranks: Sequence[int], job_s: float) -> Straggler | None:
    extra: dict[int, float] = defaultdict(float)
    most: dict[int, tuple[float, Row]] = {}
    for row in rows:
        times = {rank: (row.found[rank].duration_s or 0.0) if rank in row.found else 0.0 for rank in ranks}
        slowest = max(times, key=lambda rank: times[rank])
        longer = times[slowest] - min(times.values())
        extra[slowest] += longer
        if slowest not in most or longer > most[slowest][0]:
            most[slowest] = longer, row
    if not extra:
        return None
    rank = max(extra, key=lambda each: extra[each])
    if extra[rank] < max(_NOTABLE_S, _NOTABLE * job_s):
        return None
    longer, row = most[rank]
    return Straggler(
        rank=rank,
        extra_s=extra[rank],
        compile=row.first.compile_id,
        function=row.first.function,
        compile_extra_s=longer,
        why=_why(row, rank, ranks),
    )


def _why(row: Row, rank: int, ranks: Sequence[int]) -> StragglerCause:
    slow = row.found[rank]
    others = [found for other, found in row.found.items() if other != rank]
    if len(row.found) < len(ranks):
        return "alone"
    quick = min(others, key=lambda found: found.duration_s or 0.0)
    if slow.mark.cache != "hit" and quick.mark.cache == "hit":
        return "cache"
    if None in (slow.backend_s, quick.backend_s, slow.duration_s, quick.duration_s):
        return "unknown"
    longer = (slow.duration_s or 0.0) - (quick.duration_s or 0.0)
    in_backend = (slow.backend_s or 0.0) - (quick.backend_s or 0.0)
    return "backend" if in_backend > longer / 2 else "dynamo"
