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
    RankCompile,
    RankGroup,
    RankReport,
)

Key = tuple[str, str, int, int | None, int, int]
"""File name, function, line, where it resumes, which frame of it, which compile of that frame."""

MISSING = "-"
"""Stands for the value of a rank without the compile."""


@dataclass(frozen=True)
class Row:
    """One compile, on each rank that has it."""

    key: Key
    found: Mapping[int, RankCompile]

    @property
    def first(self) -> RankCompile:
        """The compile on the first rank that has it."""
        return self.found[min(self.found)]

    def seconds(self, rank: int) -> float:
        """Return how long a rank compiled it; 0 if it doesn't have it, or that is unknown."""
        return (self.found[rank].duration_s or 0.0) if rank in self.found else 0.0


def rows_of(ranks: Sequence[RankReport]) -> list[Row]:
    """All compiles of all ranks, each once, in the order of the first rank; others where that one
    has them not.
    """
    keyed = {report.rank: dict(_keyed(report.compiles)) for report in ranks}
    return [
        Row(key, {rank: own[key] for rank, own in keyed.items() if key in own})
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
    """Each key once; one that comes only in a later order goes behind the key that it follows
    there.
    """
    after: dict[Key | None, list[Key]] = defaultdict(list)
    known: set[Key] = set()
    for order in orders:
        before: Key | None = None
        for key in order:
            if key not in known:
                known.add(key)
                after[before].append(key)
            before = key
    waiting = list(after[None])
    while waiting:
        key = waiting.pop()
        yield key
        # What later orders add comes first: the rest of the first order follows behind it.
        waiting += after[key]


def agreement_of(row: Row, ranks: Sequence[int]) -> CompileAgreement:
    """One compile on all ranks."""
    first, found, values = row.first, sorted(row.found.items()), _values(row)
    made = {rank: tuple(of_rank[rank] for of_rank in values.values()) for rank in row.found}
    groups = groups_of({rank: made.get(rank) for rank in ranks})
    usual = next(group[0] for group in groups if group[0] in row.found)
    caches = groups_of({rank: compile_.mark.cache for rank, compile_ in found})
    durations = {
        rank: compile_.duration_s for rank, compile_ in found if compile_.duration_s is not None
    }
    differing: list[Aspect] = ["presence"] if len(row.found) < len(ranks) else []
    differing += [aspect for aspect, of_rank in values.items() if len(set(of_rank.values())) > 1]
    differing += ["cache"] if len(caches) > 1 else []
    return CompileAgreement(
        compile=first.compile_id,
        **values_of(first, "function", "location", "resumes_at"),
        groups=tuple(_group(row, group, usual, values) for group in groups),
        agree=len(groups) == 1,
        differs_in=tuple(differing),
        caches=tuple(
            CacheGroup(ranks=group, cache=row.found[group[0]].mark.cache)
            for group in caches
            if len(caches) > 1
        ),
        duration_s=(min(durations.values()), max(durations.values())) if durations else None,
        slowest=max(durations, key=lambda rank: durations[rank]) if len(durations) > 1 else None,
    )


def _values(row: Row) -> dict[Aspect, Mapping[int, Hashable]]:
    """Return what each rank has of each aspect; of what its log doesn't tell, what most have, as
    that is no difference.
    """
    values: dict[Aspect, Mapping[int, Hashable]] = {}
    for aspect, value_of in _VALUES.items():
        found = {rank: value_of(compile_) for rank, compile_ in sorted(row.found.items())}
        known = Counter(value for value in found.values() if value is not None)
        usual = max(known, key=lambda value: known[value], default=None)
        values[aspect] = {rank: usual if value is None else value for rank, value in found.items()}
    return values


def _group(
    row: Row, ranks: tuple[int, ...], usual: int, values: Mapping[Aspect, Mapping[int, Hashable]]
) -> RankGroup:
    """One group, and in what it differs from the largest that has the compile, of which ``usual``
    is a rank.
    """
    first, *_ = ranks
    if first not in row.found:
        return RankGroup(ranks=ranks, compile_id=None, differs_in=("presence",))
    found, marks = row.found[first], [row.found[rank].mark for rank in ranks]
    return RankGroup(
        ranks=ranks,
        compile_id=found.compile_id,
        outcome=found.outcome,
        graph=found.mark.graph,
        guards=next((mark.guards for mark in marks if mark.guards is not None), None),
        **values_of(found, "causes", "is_dynamic"),
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
"""Values that ranks that agree have in common, the gravest first."""


def first_divergence(
    rows: Sequence[Row], agreement: Sequence[CompileAgreement]
) -> Divergence | None:
    """The first compile on which ranks don't agree; None if they agree on all."""
    for row, found in zip(rows, agreement, strict=True):
        if not found.agree:
            what = found.differs_in[0]
            # Ranks can differ in more than the first of it.
            groups = (
                [group.ranks for group in found.groups]
                if what == "presence"
                else groups_of(_values(row)[what])
            )
            return Divergence(
                **values_of(found, "compile", "function", "location", "resumes_at"),
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
    """Return what a rank has there, as far as its report tells; the texts of digests come from its
    recording.
    """
    compile_ = row.found.get(rank)
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
    """A divergence whose values are the first lines that differ, in the place of digests.

    Args:
        divergence: One in what is known as digests only.
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
    """Of lines of graphs that differ in the shape of one value alone, that value."""
    if len({_ANNOTATED.sub(r"\1", line) for line in lines}) > 1:
        return lines
    for found in zip(*(_ANNOTATED.findall(line) for line in lines), strict=False):
        if len(set(found)) > 1:
            return [f"{name}: {shape}" for name, shape in found]
    return lines
