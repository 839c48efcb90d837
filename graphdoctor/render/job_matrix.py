"""The matrix of a job: compiles by ranks that did the same in all of them.

Comes in: a ``Job``. Goes out: columns of ranks, and for each compile a cell in each column.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from graphdoctor.model.job import Aspect, CompileAgreement, Job, RankGroup
from graphdoctor.model.wording import counted

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
    signatures: dict[int, list[int]] = {rank.rank: [] for rank in job.ranks}
    for row in job.agreement:
        if not row.agree:
            for number, group in enumerate(row.groups):
                for rank in group.ranks:
                    signatures[rank].append(number)
    columns: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for rank, signature in signatures.items():
        columns[tuple(signature)].append(rank)
    parted = iter(zip(*columns, strict=True))
    rows = tuple(
        MatrixRow(row, row.groups * len(columns) if row.agree else tuple(row.groups[number] for number in next(parted)))
        for row in job.agreement
    )
    return Matrix(tuple(map(tuple, columns.values())), rows)


def cell_state(group: RankGroup) -> CellState:
    """Whether ranks did the same as most that have the compile."""
    if group.compile_id is None:
        return "missing"
    return "differs" if group.differs_in else "same"


def cell_text(group: RankGroup, row: CompileAgreement) -> str:
    """What ranks did at a compile, in short."""
    if group.compile_id is None:
        return "missing"
    parts = [group.outcome] if group.outcome not in (None, "compiled") else []
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
