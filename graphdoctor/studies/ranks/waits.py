"""Where ranks wait for others, forever or while these compile: rows and reports in, candidates and
seconds out.

A log shows what was compiled, not what runs: where they can wait forever are places to look at, not
proofs. Only durations are compared, which torch measures on each machine by itself: clocks of
machines differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.job import (
    HangCandidate,
    HangKind,
    RankCompile,
    RankReport,
    Skew,
    Straggler,
    StragglerCause,
)
from graphdoctor.studies.ranks.agreement import Row, groups_of


def hang_candidates(rows: Sequence[Row], ranks: Sequence[RankReport]) -> tuple[HangCandidate, ...]:
    """Places where ranks can wait for others forever, each kind at its first place."""
    numbers = [report.rank for report in ranks]
    found = (
        _schedules(rows),
        _mismatches(rows),
        _orders(rows, ranks),
        _absences(rows, numbers),
        _stops(rows, ranks),
    )
    return tuple(candidate for each in found if (candidate := next(each, None)) is not None)


def _schedules(rows: Sequence[Row]) -> Iterator[HangCandidate]:
    """Graphs in which ranks call other collectives, or in another order."""
    for row in rows:
        schedules = {
            rank: _started(one)
            for rank, one in sorted(row.found.items())
            if one.mark.collectives is not None
        }
        waiting, *others = groups_of(schedules) or [()]
        if others:
            yield _candidate("schedule", row, waiting, _ranks_in(others), schedules[waiting[0]])


def _mismatches(rows: Sequence[Row]) -> Iterator[HangCandidate]:
    """Graphs that torch itself compared over all ranks, and found different
    (``config.spmd_check``).
    """
    for row in rows:
        told = {
            rank: found.mark.mismatch
            for rank, found in sorted(row.found.items())
            if found.mark.mismatch
        }
        if told:
            yield _candidate("graph", row, tuple(told), words=next(iter(told.values())))


def _orders(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """The first graph that ranks ran where others ran another one."""
    keys = {(rank, found.compile_id): row for row in rows for rank, found in row.found.items()}
    orders = {
        report.rank: [keys.get((report.rank, compile_id)) for compile_id in report.executed]
        for report in ranks
        if report.executed is not None
    }
    for at in range(min(map(len, orders.values()), default=0)):
        most, *others = groups_of({rank: id(order[at]) for rank, order in orders.items()})
        if others and (row := orders[most[0]][at]) is not None:
            yield _candidate("order", row, most, _ranks_in(others))


def _ranks_in(groups: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(rank for group in groups for rank in group))


def _absences(rows: Sequence[Row], ranks: Sequence[int]) -> Iterator[HangCandidate]:
    """Graphs with collectives that some ranks never compiled, nor another graph of the same
    function.
    """
    for row in rows:
        calling = {rank: found for rank, found in row.found.items() if _started(found)}
        missing = tuple(rank for rank in ranks if rank not in row.found)
        if calling and missing:
            others = {
                rank for other in rows if other.key[:3] == row.key[:3] for rank in other.found
            }
            if gone := tuple(rank for rank in missing if rank not in others):
                yield _candidate(
                    "absent", row, tuple(sorted(calling)), gone, _started(calling[min(calling)])
                )


def _stops(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """Ranks that ended in the middle where others went on."""
    ended = [report.rank for report in ranks if report.complete is False]
    for row in rows:
        # Where nobody came further, those that began it did: one that dies takes the others with
        # it.
        came = {rank for rank, found in row.found.items() if found.outcome != "unfinished"} or set(
            row.found
        )
        missing = tuple(rank for rank in ended if rank not in came)
        if missing and came:
            yield _candidate(
                "stopped", row, tuple(sorted(came)), missing, _started(row.found[min(came)])
            )
    # They compiled all that others did, and ended in or before a call.
    going = tuple(report.rank for report in ranks if report.complete is not False)
    if ended and rows and rows[-1].found.keys() & set(going):
        yield _candidate("stopped", rows[-1], going, tuple(ended))


def _candidate(
    kind: HangKind,
    row: Row,
    waiting: tuple[int, ...],
    missing: tuple[int, ...] = (),
    collectives: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
) -> HangCandidate:
    return HangCandidate(
        kind=kind,
        compile=row.first.compile_id,
        function=row.first.function,
        waiting=waiting,
        missing=missing,
        collectives=collectives,
        words=words,
    )


def _started(compile_: RankCompile) -> tuple[str, ...]:
    """The collectives of a compile without the waits for them, each of which belongs to one."""
    return tuple(name for name in compile_.mark.collectives or () if "wait_tensor" not in name)


_NOTABLE = 0.2
_NOTABLE_S = 0.1
"""A rank is a straggler if it takes longer than the quickest by this share of the job's compile
time, and by as many seconds."""


def skew_of(
    rows: Sequence[Row], ranks: Sequence[RankReport]
) -> tuple[Skew, Mapping[int, float | None]]:
    """How unevenly ranks compile, and for how many seconds each waits if they wait for each other
    after each compile.

    The longest compile of each row, added up, is what compiling takes the job; it and waits are
    None if the time of a compile is unknown.
    """
    totals, numbers = (
        [report.summary.compile_time_s for report in ranks],
        [report.rank for report in ranks],
    )
    known = [total for total in totals if total is not None]
    own = {rank: sum((row.seconds(rank) for row in rows), 0.0) for rank in numbers}
    job_s = sum((max(map(row.seconds, numbers)) for row in rows), 0.0)
    is_known = all(
        compile_.duration_s is not None for row in rows for compile_ in row.found.values()
    )
    skew = Skew(
        compile_s=(min(known), max(known)) if len(known) == len(totals) else None,
        job_s=job_s if is_known else None,
        straggler=_straggler(rows, numbers, job_s) if is_known else None,
    )
    return skew, {rank: job_s - seconds if is_known else None for rank, seconds in own.items()}


def _straggler(rows: Sequence[Row], ranks: Sequence[int], job_s: float) -> Straggler | None:
    slowest = ((max(ranks, key=row.seconds), row) for row in rows)
    longer = grouped(
        (rank, (row.seconds(rank) - min(map(row.seconds, ranks)), row)) for rank, row in slowest
    )
    extra = {rank: sum(seconds for seconds, _ in found) for rank, found in longer.items()}
    rank = max(extra, key=lambda each: extra[each], default=None)
    if rank is None or extra[rank] < max(_NOTABLE_S, _NOTABLE * job_s):
        return None
    seconds, row = max(longer[rank], key=lambda pair: pair[0])
    return Straggler(
        rank=rank,
        extra_s=extra[rank],
        compile=row.first.compile_id,
        function=row.first.function,
        compile_extra_s=seconds,
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
