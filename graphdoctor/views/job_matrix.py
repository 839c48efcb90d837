"""The matrix of a job: compiles by ranks that did the same in all of them.

Comes in: a ``Job``. Goes out: columns of ranks, and for each compile a cell in each column.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from graphdoctor.facts.job import Aspect, CompileAgreement, Job, RankGroup
from graphdoctor.facts.wording import counted

CellState = Literal["same", "differs", "missing"]
"""``same``: as in the largest group of ranks that have the compile."""

_OTHER: dict[Aspect, str] = {
    "operations": "operations",
    "sizes": "sizes",
    "collectives": "collectives",
    "guards": "guards",
    "estimates": "tensors at run time",
}
"""What is said to be other; an outcome and causes are themselves in the cell."""


@dataclass(frozen=True)
class MatrixRow:
    """One compile.

    Args:
        compile: What ranks did.
        groups: For each column, the group that its ranks are in.
    """

    compile: CompileAgreement
    groups: tuple[RankGroup, ...]


@dataclass(frozen=True)
class Matrix:
    """Compiles by ranks.

    Args:
        columns: Ranks that did the same in all compiles, by the first of them.
        rows: All compiles, in order.
    """

    columns: tuple[tuple[int, ...], ...]
    rows: tuple[MatrixRow, ...]


def matrix_of(job: Job) -> Matrix:
    """The matrix of a job."""
    differing = [row for row in job.agreement if not row.agree]
    group_of = [{rank: number for number, group in enumerate(row.groups) for rank in group.ranks} for row in differing]
    columns: dict[tuple[int | None, ...], list[int]] = defaultdict(list)
    for rank in job.ranks:
        columns[tuple(numbers.get(rank.rank) for numbers in group_of)].append(rank.rank)
    parted = iter(zip(*columns, strict=True))
    rows = tuple(
        MatrixRow(row, _alike(row, len(columns)) if row.agree else _each(row, next(parted))) for row in job.agreement
    )
    return Matrix(tuple(map(tuple, columns.values())), rows)


def _alike(row: CompileAgreement, count: int) -> tuple[RankGroup, ...]:
    return row.groups[:1] * count


def _each(row: CompileAgreement, numbers: tuple[int | None, ...]) -> tuple[RankGroup, ...]:
    lacking = RankGroup(ranks=(), compile_id=None)
    return tuple(lacking if number is None else row.groups[number] for number in numbers)


def cell_state(group: RankGroup) -> CellState:
    """Whether ranks did the same as most that have the compile."""
    if group.compile_id is None:
        return "missing"
    return "differs" if group.differs_in else "same"


def cell_text(group: RankGroup, row: CompileAgreement) -> str:
    """What ranks did at a compile, in short."""
    if group.compile_id is None:
        return "missing"
    parts: list[str] = [group.outcome] if group.outcome not in (None, "compiled") else []
    parts += group.causes[:1]
    if len(group.causes) > 1:
        parts.append(f"{len(group.causes) - 1} more")
    elif "causes" in row.differs_in and not group.causes:
        parts.append("no recompile")
    if (others := _others(group)) is not None:
        parts.append(others)
    elif "collectives" in row.differs_in and group.collectives is not None:
        parts.append(counted(len(group.collectives), "collective"))
    return ", ".join(parts) or "compiled"


def _others(group: RankGroup) -> str | None:
    """In what ranks differ from most, without what that says of itself."""
    found = [_OTHER[aspect] for aspect in group.differs_in if aspect in _OTHER]
    if "operations" in found and "sizes" in found:
        found.remove("sizes")
    if not found:
        return None
    *most, last = found
    return f"other {', '.join(most)}{' and ' if most else ''}{last}"
