"""Agreement and divergence of ranks: their reports in, a row for each compile out.

Compiles of several ranks are one row if they are of the same function, of the same frame of it in
the order in which frames began, and of the same number among its compiles. A rank that compiles one
function more has other frame ids from there on, so ids alone would call everything after it
different.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.job import (
    Aspect,
    CacheGroup,
    CompileAgreement,
    Divergence,
    DivergentValue,
    HangCandidate,
    HangKind,
    RankCompile,
    RankGroup,
    RankReport,
    Skew,
    Straggler,
    StragglerCause,
)

Key = tuple[str, str, int, int | None, int, int]
"""File name, function, line, where it resumes, which frame of it, which compile of that frame."""

MISSING = "-"
"""Stands for the value of a rank without the compile."""


@dataclass(frozen=True)
class Row:
    """A compile, on each rank that has it."""

    key: Key
    compiles: Mapping[int, RankCompile]

    @property
    def first(self) -> RankCompile:
        """The compile on the first rank that has it."""
        return self.compiles[min(self.compiles)]

    def seconds(self, rank: int) -> float:
        """Return how long a rank compiled it; 0 if that is unknown or it doesn't have it."""
        return (self.compiles[rank].duration_s or 0.0) if rank in self.compiles else 0.0


def rows_of(ranks: Sequence[RankReport]) -> list[Row]:
    """Return all compiles of all ranks, in the order of the first rank; compiles missing there
    follow their predecessor.
    """
    keyed = {report.rank: dict(_keyed(report.compiles)) for report in ranks}
    return [
        Row(key, {rank: compiles[key] for rank, compiles in keyed.items() if key in compiles})
        for key in _merged(keyed.values())
    ]


def _keyed(compiles: Iterable[RankCompile]) -> Iterator[tuple[Key, RankCompile]]:
    numbers: Counter[tuple[str, str, int, int | None, int]] = Counter()
    for compile_ in compiles:
        place = compile_.location
        # Machines of one job can have the same program in other folders.
        frame = (
            place.file.rpartition("/")[2],
            compile_.function,
            place.line,
            compile_.resumes_at,
            compile_.occurrence,
        )
        yield (*frame, numbers[frame]), compile_
        numbers[frame] += 1


def _merged(orders: Iterable[Iterable[Key]]) -> Iterator[Key]:
    """Yield each key once; a key that only a later order has goes behind its predecessor there."""
    after: dict[Key | None, list[Key]] = defaultdict(list)
    seen: set[Key] = set()
    for order in orders:
        before: Key | None = None
        for key in order:
            if key not in seen:
                seen.add(key)
                after[before].append(key)
            before = key
    waiting = list(after[None])
    while waiting:
        key = waiting.pop()
        yield key
        # What later orders add comes first: the rest of the first order follows behind it.
        waiting += after[key]


def agreement_of(row: Row, ranks: Sequence[int]) -> CompileAgreement:
    """Compare a compile on all ranks."""
    first, compiles, values = row.first, sorted(row.compiles.items()), _values(row)
    made = {rank: tuple(of_rank[rank] for of_rank in values.values()) for rank in row.compiles}
    groups = groups_of({rank: made.get(rank) for rank in ranks})
    usual = next(group[0] for group in groups if group[0] in row.compiles)
    caches = groups_of({rank: compile_.mark.cache for rank, compile_ in compiles})
    durations = {
        rank: compile_.duration_s for rank, compile_ in compiles if compile_.duration_s is not None
    }
    differing: list[Aspect] = ["presence"] if len(row.compiles) < len(ranks) else []
    differing += [aspect for aspect, of_rank in values.items() if len(set(of_rank.values())) > 1]
    differing += ["cache"] if len(caches) > 1 else []
    return CompileAgreement(
        compile=first.compile_id,
        **values_of(first, "function", "location", "resumes_at"),
        groups=tuple(_group(row, group, usual, values) for group in groups),
        agree=len(groups) == 1,
        differs_in=tuple(differing),
        caches=tuple(
            CacheGroup(ranks=group, cache=row.compiles[group[0]].mark.cache)
            for group in caches
            if len(caches) > 1
        ),
        duration_s=(min(durations.values()), max(durations.values())) if durations else None,
        slowest=max(durations, key=lambda rank: durations[rank]) if len(durations) > 1 else None,
    )


def _values(row: Row) -> dict[Aspect, Mapping[int, Hashable]]:
    """Return each rank's value of each aspect; an unknown value counts as the most common one,
    since it is no difference.
    """
    values: dict[Aspect, Mapping[int, Hashable]] = {}
    for aspect, value_of in _VALUES.items():
        by_rank = {rank: value_of(compile_) for rank, compile_ in sorted(row.compiles.items())}
        counts = Counter(value for value in by_rank.values() if value is not None)
        usual = max(counts, key=lambda value: counts[value], default=None)
        values[aspect] = {
            rank: usual if value is None else value for rank, value in by_rank.items()
        }
    return values


def _group(
    row: Row, ranks: tuple[int, ...], usual: int, values: Mapping[Aspect, Mapping[int, Hashable]]
) -> RankGroup:
    """Return a group, with its differences from the largest one that has the compile, of which
    ``usual`` is a rank.
    """
    first, *_ = ranks
    if first not in row.compiles:
        return RankGroup(ranks=ranks, compile_id=None, differs_in=("presence",))
    compile_, marks = row.compiles[first], [row.compiles[rank].mark for rank in ranks]
    return RankGroup(
        ranks=ranks,
        compile_id=compile_.compile_id,
        outcome=compile_.outcome,
        graph=compile_.mark.graph,
        guards=next((mark.guards for mark in marks if mark.guards is not None), None),
        **values_of(compile_, "causes", "is_dynamic"),
        collectives=next(
            (mark.collectives for mark in marks if mark.collectives is not None), None
        ),
        differs_in=tuple(
            aspect for aspect, of_rank in values.items() if of_rank[first] != of_rank[usual]
        ),
    )


_VALUES: Mapping[Aspect, Callable[[RankCompile], Hashable]] = {
    "outcome": lambda compile_: compile_.outcome,
    "operations": lambda compile_: compile_.mark.operations,
    "sizes": lambda compile_: compile_.mark.graph,
    "collectives": lambda compile_: compile_.mark.collectives,
    "causes": lambda compile_: compile_.changed,
    "guards": lambda compile_: compile_.mark.guards,
    "estimates": lambda compile_: compile_.mark.estimates,
}
"""Values that ranks must share to agree, the gravest first."""


def first_divergence(
    rows: Sequence[Row], agreement: Sequence[CompileAgreement]
) -> Divergence | None:
    """Return the first compile on which ranks differ; None if they agree on all."""
    for row, compared in zip(rows, agreement, strict=True):
        if not compared.agree:
            what = compared.differs_in[0]
            # Ranks can differ in more than the first of it.
            groups = (
                [group.ranks for group in compared.groups]
                if what == "presence"
                else groups_of(_values(row)[what])
            )
            return Divergence(
                **values_of(compared, "compile", "function", "location", "resumes_at"),
                ranks=ranks_in(groups[1:]),
                what=what,
                values=tuple(
                    DivergentValue(ranks=group, value=_value(row, group[0], what))
                    for group in groups
                ),
            )
    return None


def groups_of(values: Mapping[int, Hashable]) -> list[tuple[int, ...]]:
    """Group ranks by value, the most of them first."""
    groups = grouped((value, rank) for rank, value in values.items()).values()
    return sorted(map(tuple, groups), key=lambda group: (-len(group), group))


def ranks_in(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the ranks of groups, ascending."""
    return tuple(sorted(rank for group in groups for rank in group))


def _value(row: Row, rank: int, what: Aspect) -> str:
    """Return a rank's value as its report has it, which may be a digest."""
    compile_ = row.compiles.get(rank)
    if compile_ is None:
        return MISSING
    if what == "collectives":
        return ", ".join(compile_.mark.collectives or ()) or "none"
    if what in ("presence", "causes"):
        return "; ".join(compile_.causes) or (
            "no recompile" if what == "causes" else compile_.outcome
        )
    return str(_VALUES[what](compile_))


def with_texts(divergence: Divergence, texts: Sequence[str]) -> Divergence:
    """Return a divergence with the first lines that differ in place of digests.

    Args:
        divergence: Its values are digests.
        texts: The printed graph or guards of one rank of each group; the first two are compared.
    """
    pairs = zip(*(text.splitlines() for text in texts), strict=False)
    differing = next((lines for lines in pairs if len(set(lines)) > 1), None)
    if differing is None:
        # One goes on where another ends.
        shortest = min(len(text.splitlines()) for text in texts)
        differing = tuple(
            [*text.splitlines(), MISSING][shortest] if text else MISSING for text in texts
        )
    values = (
        replace(value, value=line.strip())
        for value, line in zip(divergence.values, _narrowed(differing), strict=True)
    )
    return replace(divergence, values=tuple(values))


_ANNOTATED = re.compile(r'(\w+): "([^"]*)"')


def _narrowed(lines: Sequence[str]) -> Sequence[str]:
    """Return the value whose shape alone makes lines of graphs differ, else the lines."""
    if len({_ANNOTATED.sub(r"\1", line) for line in lines}) > 1:
        return lines
    for annotated in zip(*(_ANNOTATED.findall(line) for line in lines), strict=False):
        if len(set(annotated)) > 1:
            return [f"{name}: {shape}" for name, shape in annotated]
    return lines


# Who waits for whom.


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
