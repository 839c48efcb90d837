"""Agreement and divergence of ranks: their reports in, a row for each compile out.

Compiles of several ranks are one row if they are of the same code, of the same frame of it in the
order in which frames began, and of the same number among its compiles. Names are for people: what
is known of a function can differ with each rank. A rank that compiles one
function more has other frame ids from there on, so ids alone would call everything after it
different.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from graphdoctor.facts.base import field_types, grouped, values_of
from graphdoctor.facts.job import (
    Aspect,
    CacheGroup,
    CompileAgreement,
    CompiledFunction,
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

    @property
    def function(self) -> dict[str, Any]:
        """The function and the compile on the first rank that has it, as fields of a fact."""
        fields = values_of(self.first, *field_types(CompiledFunction))
        return {"compile": self.first.compile_id, **fields}

    def seconds(self, rank: int) -> float:
        """Return how long a rank compiled it; 0 if that is unknown or it doesn't have it."""
        return (self.compiles[rank].duration_s or 0.0) if rank in self.compiles else 0.0


def rows_of(ranks: Sequence[RankReport]) -> list[Row]:
    """Return all compiles of all ranks, in the order of the first rank; compiles missing there
    follow their predecessor.
    """
    keyed: dict[int, dict[Key, RankCompile]] = {}
    for report in ranks:
        numbers: Counter[tuple[object, ...]] = Counter()
        compiles = keyed.setdefault(report.rank, {})
        for compile_ in report.compiles:
            frame = (*compile_.code, compile_.occurrence)
            compiles[*frame, numbers[frame]] = compile_
            numbers[frame] += 1
    return [
        Row(key, {rank: compiles[key] for rank, compiles in keyed.items() if key in compiles})
        for key in _merged(keyed.values())
    ]


def _merged(orders: Iterable[Iterable[Key]]) -> Iterator[Key]:
    """Yield each key once; a key that only a later order has goes behind its predecessor there."""
    after: dict[Key | None, list[Key]] = defaultdict(list)
    seen = set()
    for order in orders:
        before = None
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
    values, on_rank = _values(row), dict(sorted(row.compiles.items()))
    made = {rank: tuple(of_rank[rank] for of_rank in values.values()) for rank in on_rank}
    ranks_of_groups = groups_of({rank: made.get(rank) for rank in ranks})
    # A rank of the largest group that has the compile, with which others are compared.
    usual = next(members[0] for members in ranks_of_groups if members[0] in on_rank)
    groups = []
    for members in ranks_of_groups:
        if (compile_ := on_rank.get(members[0])) is None:
            groups.append(RankGroup(ranks=members, compile_id=None, differs_in=("presence",)))
            continue
        marks = [on_rank[rank].mark for rank in members]
        guards = (mark.guards for mark in marks if mark.guards is not None)
        collectives = (mark.collectives for mark in marks if mark.collectives is not None)
        differing = (name for name in values if values[name][members[0]] != values[name][usual])
        groups.append(
            RankGroup(
                ranks=members,
                **values_of(compile_, "compile_id", "outcome", "causes", "is_dynamic"),
                graph=compile_.mark.graph,
                guards=next(guards, None),
                collectives=next(collectives, None),
                differs_in=tuple(differing),
            )
        )
    caches = groups_of({rank: compile_.mark.cache for rank, compile_ in on_rank.items()})
    times = [(compile_.duration_s, -rank) for rank, compile_ in on_rank.items()]
    measured = sorted((seconds, rank) for seconds, rank in times if seconds is not None)
    differs_in: list[Aspect] = ["presence"] if len(on_rank) < len(ranks) else []
    differs_in += [aspect for aspect, of_rank in values.items() if len(set(of_rank.values())) > 1]
    differs_in += ["cache"] if len(caches) > 1 else []
    return CompileAgreement(
        **row.function,
        groups=tuple(groups),
        agree=len(groups) == 1,
        differs_in=tuple(differs_in),
        caches=tuple(
            CacheGroup(ranks=members, cache=on_rank[members[0]].mark.cache)
            for members in caches
            if len(caches) > 1
        ),
        duration_s=(measured[0][0], measured[-1][0]) if measured else None,
        slowest=-measured[-1][1] if len(measured) > 1 else None,
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


_VALUES: Mapping[Aspect, Callable[[RankCompile], Hashable]] = {
    "outcome": lambda compile_: compile_.outcome,
    "operations": lambda compile_: compile_.mark.operations,
    "sizes": lambda compile_: compile_.mark.graph,
    "collectives": lambda compile_: compile_.mark.collectives,
    "causes": lambda compile_: compile_.changed,
    "guards": lambda compile_: compile_.mark.guards,
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
                **row.function,
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
    """Return a divergence with the first lines that differ in place of digests; of lines of graphs
    that differ in the shape of one value alone, that value.

    Args:
        divergence: Its values are digests.
        texts: The printed graph or guards of one rank of each group; the first two are compared.
    """
    lines_of_texts = [text.splitlines() for text in texts]
    pairs = zip(*lines_of_texts, strict=False)
    # One goes on where another ends.
    end = min(map(len, lines_of_texts))
    ends = [([*lines, MISSING][end] if lines else MISSING) for lines in lines_of_texts]
    shown = next((list(lines) for lines in pairs if len(set(lines)) > 1), ends)
    if len({_ANNOTATED.sub(r"\1", line) for line in shown}) == 1:
        for annotated in zip(*map(_ANNOTATED.findall, shown), strict=False):
            if len(set(annotated)) > 1:
                shown = [f"{name}: {shape}" for name, shape in annotated]
                break
    values = (
        replace(value, value=line.strip())
        for value, line in zip(divergence.values, shown, strict=True)
    )
    return replace(divergence, values=tuple(values))


_ANNOTATED = re.compile(r'(\w+): "([^"]*)"')


# Who waits for whom.


def hang_candidates(rows: Sequence[Row], ranks: Sequence[RankReport]) -> tuple[HangCandidate, ...]:
    """Return places where ranks can wait for others forever, each kind at its first place."""
    places = {}

    def add(
        kind: HangKind, row: Row, waiting: Ranks, missing: Ranks, collectives: Sequence[str] = ()
    ) -> None:
        if kind not in places:
            places[kind] = HangCandidate(
                kind=kind,
                **row.function,
                waiting=waiting,
                missing=missing,
                collectives=tuple(collectives),
            )

    ended = tuple(report.rank for report in ranks if report.complete is False)
    having = grouped((row.key[:3], row.compiles.keys()) for row in rows)
    for row in rows:
        marks = {rank: row.compiles[rank].mark for rank in sorted(row.compiles)}
        # Without the waits for them, each of which belongs to one.
        started = {
            rank: tuple(name for name in mark.collectives or () if "wait_tensor" not in name)
            for rank, mark in marks.items()
        }
        # Ranks call other collectives in one graph, or in another order.
        known = {rank for rank, mark in marks.items() if mark.collectives is not None}
        waiting, *others = groups_of({rank: started[rank] for rank in sorted(known)}) or [()]
        if others:
            add("schedule", row, waiting, ranks_in(others), collectives=started[waiting[0]])
        # Some never compiled a graph with collectives, nor another graph of the same function.
        calling = tuple(rank for rank, names in started.items() if names)
        present = set().union(*having[row.key[:3]])
        missing = tuple(report.rank for report in ranks if report.rank not in present)
        if calling and missing:
            add("absent", row, calling, missing, collectives=started[calling[0]])
        # Some ended where others went on. Where nobody came further, those that began it did: one
        # that dies takes the others with it.
        came = tuple(rank for rank in marks if row.compiles[rank].outcome != "unfinished")
        came = came or tuple(marks)
        if missing := tuple(rank for rank in ended if rank not in came):
            add("stopped", row, came, missing, collectives=started[came[0]])
    # They compiled all that others did, and ended in or before a call.
    going = tuple(report.rank for report in ranks if report.complete is not False)
    if ended and rows and rows[-1].compiles.keys() & set(going):
        add("stopped", rows[-1], going, ended)
    return tuple(places[kind] for kind in get_args(HangKind) if kind in places)


Ranks = tuple[int, ...]


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
    slowest: dict[int, list[tuple[float, Row]]] = {}
    for row in rows:
        rank = max(numbers, key=row.seconds)
        extra_s = row.seconds(rank) - min(map(row.seconds, numbers))
        slowest.setdefault(rank, []).append((extra_s, row))
    extra = {rank: sum(seconds for seconds, _ in pairs) for rank, pairs in slowest.items()}
    rank = max(extra, key=lambda rank: extra[rank], default=-1)
    straggler = None
    if extra and extra[rank] >= max(_NOTABLE_S, _NOTABLE * job_s):
        seconds, row = max(slowest[rank], key=lambda pair: pair[0])
        straggler = Straggler(
            rank=rank,
            extra_s=extra[rank],
            **row.function,
            missing=tuple(sorted(set(numbers) - row.compiles.keys())),
            compile_extra_s=seconds,
            why=_why(row, rank, numbers),
        )
    return Skew(compile_s=compile_s, job_s=job_s, straggler=straggler), waits


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
