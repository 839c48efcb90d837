"""Rows and reports of ranks in, places where they wait for others out, forever or while these
compile.

A log shows what was compiled, not what runs: where they can wait forever are places to look at, not
proofs. Only durations are compared, which torch measures on each machine by itself: clocks of
machines differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphdoctor.facts.job import (
    HangCandidate,
    HangKind,
    RankReport,
    Skew,
    Straggler,
    StragglerCause,
)
from graphdoctor.studies.ranks.agreement import Row, groups_of, ranks_in


def hang_candidates(rows: Sequence[Row], ranks: Sequence[RankReport]) -> tuple[HangCandidate, ...]:
    """Return places where ranks can wait for others forever, each kind at its first place."""
    kinds = (_schedules(rows), _mismatches(rows), _orders(rows, ranks), _absences(rows, ranks))
    candidates = (next(kind, None) for kind in (*kinds, _stops(rows, ranks)))
    return tuple(candidate for candidate in candidates if candidate is not None)


def _schedules(rows: Sequence[Row]) -> Iterator[HangCandidate]:
    """Yield graphs in which ranks call other collectives, or in another order."""
    for row in rows:
        schedules = {
            rank: _started(row, rank)
            for rank in sorted(row.compiles)
            if row.compiles[rank].mark.collectives is not None
        }
        waiting, *others = groups_of(schedules) or [()]
        if others:
            missing = ranks_in(others)
            yield _candidate("schedule", row, waiting, missing, schedules[waiting[0]])


def _mismatches(rows: Sequence[Row]) -> Iterator[HangCandidate]:
    """Yield graphs that torch itself compared over all ranks, and found different
    (``config.spmd_check``).
    """
    for row in rows:
        words = {rank: row.compiles[rank].mark.mismatch for rank in sorted(row.compiles)}
        if ranks := tuple(rank for rank, text in words.items() if text):
            yield _candidate("graph", row, ranks, words=words[ranks[0]])


def _orders(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """Yield graphs that ranks ran where others ran another one."""
    keys = {
        (rank, compile_.compile_id): row for row in rows for rank, compile_ in row.compiles.items()
    }
    orders = {
        report.rank: [keys.get((report.rank, compile_id)) for compile_id in report.executed]
        for report in ranks
        if report.executed is not None
    }
    for at in range(min(map(len, orders.values()), default=0)):
        most, *others = groups_of({rank: id(order[at]) for rank, order in orders.items()})
        if others and (row := orders[most[0]][at]) is not None:
            yield _candidate("order", row, most, ranks_in(others))


def _absences(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """Yield graphs with collectives that some ranks never compiled, nor another graph of the same
    function.
    """
    having: dict[object, set[int]] = {}
    for row in rows:
        having.setdefault(row.key[:3], set()).update(row.compiles)
    for row in rows:
        calling = tuple(rank for rank in sorted(row.compiles) if _started(row, rank))
        missing = tuple(report.rank for report in ranks if report.rank not in having[row.key[:3]])
        if calling and missing:
            yield _candidate("absent", row, calling, missing, _started(row, calling[0]))


def _stops(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """Yield compiles in which ranks ended where others went on."""
    ended = tuple(report.rank for report in ranks if report.complete is False)
    for row in rows:
        # Where nobody came further, those that began it did: one that dies takes the others with
        # it.
        came = [rank for rank in sorted(row.compiles) if row.compiles[rank].outcome != "unfinished"]
        came = came or sorted(row.compiles)
        if missing := tuple(rank for rank in ended if rank not in came):
            yield _candidate("stopped", row, tuple(came), missing, _started(row, came[0]))
    # They compiled all that others did, and ended in or before a call.
    going = tuple(report.rank for report in ranks if report.complete is not False)
    if ended and rows and rows[-1].compiles.keys() & set(going):
        yield _candidate("stopped", rows[-1], going, ended)


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


def _started(row: Row, rank: int) -> tuple[str, ...]:
    """Return collectives without the waits for them, each of which belongs to one."""
    names = row.compiles[rank].mark.collectives or ()
    return tuple(name for name in names if "wait_tensor" not in name)


_NOTABLE = 0.2
_NOTABLE_S = 0.1
"""A rank is a straggler if it takes longer than the quickest by this share of the job's compile
time, and by as many seconds."""


def skew_of(
    rows: Sequence[Row], ranks: Sequence[RankReport]
) -> tuple[Skew, Mapping[int, float | None]]:
    """Return how unevenly ranks compile, and for how many seconds each waits if they wait for each
    other after each compile.

    The longest compile of each row, added up, is what compiling takes the job; it and waits are
    None if the time of a compile is unknown.
    """
    numbers = [report.rank for report in ranks]
    totals = [report.summary.compile_time_s for report in ranks]
    measured = [total for total in totals if total is not None]
    compile_s = (min(measured), max(measured)) if len(measured) == len(totals) else None
    compiles = (compile_ for row in rows for compile_ in row.compiles.values())
    if any(compile_.duration_s is None for compile_ in compiles):
        return Skew(compile_s=compile_s, job_s=None), dict.fromkeys(numbers)
    job_s = sum((max(map(row.seconds, numbers)) for row in rows), 0.0)
    waits = {rank: job_s - sum((row.seconds(rank) for row in rows), 0.0) for rank in numbers}
    straggler = _straggler(rows, numbers, job_s)
    return Skew(compile_s=compile_s, job_s=job_s, straggler=straggler), waits


def _straggler(rows: Sequence[Row], ranks: Sequence[int], job_s: float) -> Straggler | None:
    slowest: dict[int, list[tuple[float, Row]]] = {}
    for row in rows:
        times = {rank: row.seconds(rank) for rank in ranks}
        rank = max(ranks, key=row.seconds)
        slowest.setdefault(rank, []).append((times[rank] - min(times.values()), row))
    extra = {rank: sum(seconds for seconds, _ in pairs) for rank, pairs in slowest.items()}
    rank = max(extra, key=lambda rank: extra[rank], default=-1)
    if not extra or extra[rank] < max(_NOTABLE_S, _NOTABLE * job_s):
        return None
    seconds, row = max(slowest[rank], key=lambda pair: pair[0])
    return Straggler(
        rank=rank,
        extra_s=extra[rank],
        compile=row.first.compile_id,
        function=row.first.function,
        compile_extra_s=seconds,
        why=_why(row, rank, ranks),
    )


def _why(row: Row, rank: int, ranks: Sequence[int]) -> StragglerCause:
    if len(row.compiles) < len(ranks):
        return "alone"
    slow, quick = row.compiles[rank], row.compiles[min(set(ranks) - {rank}, key=row.seconds)]
    if slow.mark.cache != "hit" and quick.mark.cache == "hit":
        return "cache"
    if slow.backend_s is None or quick.backend_s is None:
        return "unknown"
    longer = row.seconds(rank) - (quick.duration_s or 0.0)
    return "backend" if slow.backend_s - quick.backend_s > longer / 2 else "dynamo"
