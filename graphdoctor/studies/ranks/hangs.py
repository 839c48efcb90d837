"""Where ranks can wait for others forever: rows and reports in, candidates out.

A log shows what was compiled, not what runs: these are places to look at, not proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.facts.job import HangCandidate, HangKind, RankCompile, RankReport
from graphdoctor.studies.ranks.agreement import Row


def hang_candidates(rows: Sequence[Row], ranks: Sequence[RankReport]) -> tuple[HangCandidate, ...]:
    """Places where ranks can wait for others forever, each kind at its first place."""
    numbers = [report.rank for report in ranks]
    found = (_schedules(rows), _mismatches(rows), _orders(rows, ranks), _absences(rows, numbers), _stops(rows, ranks))
    return tuple(candidate for each in found if (candidate := next(each, None)) is not None)


def _schedules(rows: Sequence[Row]) -> Iterator[HangCandidate]:
    """Graphs in which ranks call other collectives, or in another order."""
    for row in rows:
        schedules: dict[tuple[str, ...], list[int]] = {}
        for rank, compile_ in sorted(row.found.items()):
            if compile_.mark.collectives is not None:
                schedules.setdefault(_started(compile_), []).append(rank)
        if len(schedules) > 1:
            groups = sorted(schedules.items(), key=lambda item: (-len(item[1]), item[1]))
            (most, waiting), *others = groups
            missing = tuple(sorted(rank for _, group in others for rank in group))
            yield _candidate("schedule", row, tuple(waiting), missing, most)


def _mismatches(rows: Sequence[Row]) -> Iterator[HangCandidate]:
    """Graphs that torch itself compared over all ranks, and found different (``config.spmd_check``)."""
    for row in rows:
        told = {rank: found.mark.mismatch for rank, found in sorted(row.found.items()) if found.mark.mismatch}
        if told:
            candidate = _candidate("graph", row, tuple(told), (), ())
            yield candidate.model_copy(update={"words": next(iter(told.values()))})


def _orders(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """The first graph that ranks ran where others ran another one."""
    keys = {(rank, found.compile_id): row for row in rows for rank, found in row.found.items()}
    orders = {
        report.rank: [keys.get((report.rank, compile_id)) for compile_id in report.executed]
        for report in ranks
        if report.executed is not None
    }
    for at in range(min(map(len, orders.values()), default=0)):
        at_once: dict[int, list[int]] = {}
        for rank, order in orders.items():
            at_once.setdefault(id(order[at]), []).append(rank)
        if len(at_once) > 1:
            most, *others = sorted(at_once.values(), key=lambda group: (-len(group), group))
            if (row := orders[most[0]][at]) is not None:
                missing = tuple(sorted(rank for group in others for rank in group))
                yield _candidate("order", row, tuple(most), missing, ())


def _absences(rows: Sequence[Row], ranks: Sequence[int]) -> Iterator[HangCandidate]:
    """Graphs with collectives that some ranks never compiled, nor another graph of the same function."""
    for row in rows:
        calling = {rank: found for rank, found in row.found.items() if _started(found)}
        missing = tuple(rank for rank in ranks if rank not in row.found)
        if calling and missing:
            others = {rank for other in rows if other.key[:3] == row.key[:3] for rank in other.found}
            if gone := tuple(rank for rank in missing if rank not in others):
                yield _candidate("absent", row, tuple(sorted(calling)), gone, _started(calling[min(calling)]))


def _stops(rows: Sequence[Row], ranks: Sequence[RankReport]) -> Iterator[HangCandidate]:
    """Ranks that ended in the middle where others went on."""
    ended = [report.rank for report in ranks if report.complete is False]
    for row in rows:
        done = {rank for rank, found in row.found.items() if found.outcome != "unfinished"}
        # Where nobody came further, those that began it did: one that dies takes the others with it.
        came = done or set(row.found)
        missing = tuple(rank for rank in ended if rank not in came)
        if missing and came:
            yield _candidate("stopped", row, tuple(sorted(came)), missing, _started(row.found[min(came)]))
    # They compiled all that others did, and ended in or before a call.
    going = tuple(report.rank for report in ranks if report.complete is not False)
    if ended and rows and rows[-1].found.keys() & set(going):
        yield _candidate("stopped", rows[-1], going, tuple(ended), ())


def _candidate(
    kind: HangKind, row: Row, waiting: tuple[int, ...], missing: tuple[int, ...], collectives: tuple[str, ...]
) -> HangCandidate:
    return HangCandidate(
        kind=kind,
        compile=row.first.compile_id,
        function=row.first.function,
        waiting=waiting,
        missing=missing,
        collectives=collectives,
    )


def _started(compile_: RankCompile) -> tuple[str, ...]:
    """The collectives of a compile without the waits for them, each of which belongs to one."""
    return tuple(name for name in compile_.mark.collectives or () if "wait_tensor" not in name)
