"""Finds out which sizes of a program's arguments can stay dynamic.

torch is asked to leave dims dynamic (``Dim.AUTO``): those whose sizes differ between the program's
calls, or all of them. Those that it leaves are exported again, so that torch would refuse to make
one a constant (``Dim.DYNAMIC``); the program that comes out is then run with other sizes beside
eager mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graphdoctor.facts.base import field_types, values_of
from graphdoctor.facts.export import DimsFrom, DynamicShapes, ExportDim
from graphdoctor.facts.recording import DifferingDim, DimOfExport, TriedDim
from graphdoctor.facts.stack import innermost
from graphdoctor.studies.export.attempts import Attempt, Exporter
from graphdoctor.studies.export.trials import ExportTrials
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.program import ExportPlan, Program, RunChange

_SMALL = 2


@dataclass(frozen=True)
class DynamicTrials:
    """Exports with dynamic dims.

    Args:
        differing: Dims whose sizes differ between the calls, which are left dynamic; empty if none
            do.
        is_all: Every dim of every tensor is.
    """

    exporter: Exporter
    is_strict: bool
    differing: Sequence[DifferingDim]
    is_all: bool

    def run(self, program: Program) -> DynamicShapes:
        """Find out which dims stay dynamic, and whether the program is right with other sizes."""
        differing = tuple((one.source, one.dim) for one in self.differing)
        wanted: tuple[tuple[str, int], ...] | Literal["all"] = "all" if self.is_all else differing
        origin: DimsFrom = "option" if self.is_all else "calls"
        described = ExportTrials(self.exporter, ExportPlan(self.is_strict)).described
        self.exporter.on_phase("exporting with dynamic sizes")
        plan, reference = (
            ExportPlan(self.is_strict, wanted),
            self.exporter.reference(program.change),
        )
        found = self.exporter.attempt(program, plan, "dynamic-auto", reference)
        shapes = DynamicShapes(
            is_strict=self.is_strict, origin=origin, status=found.status, reason=found.reason
        )
        export = found.export
        if export is None or not found.is_made:
            return replace(shapes, blocker=None if export is None else described(found))
        dims = [self._dim(dim) for dim in export.dims]
        if not dims:
            reason = "torch doesn't say what became of the sizes of its arguments"
            return replace(shapes, status="unknown", reason=reason)
        free = [dim for dim in export.dims if dim.is_dynamic]
        if not free:
            reason = "torch makes every one of these sizes a constant"
            return replace(shapes, reason=reason, dims=tuple(dims))
        final, sizes = self._final(program, free)
        made = final.export
        for number, one in enumerate(dims):
            others = tuple(
                size for size in sizes.get((one.source, one.dim), ()) if size != one.size
            )
            dims[number] = replace(one, other_sizes=others)
        return replace(
            shapes,
            status=final.status,
            reason=final.reason,
            dims=tuple(sorted(dims, key=lambda one: not one.is_dynamic)),
            line=None if made is None or not final.is_made else made.line,
            constraints=() if made is None else made.constraints,
            blocker=described(final),
            correctness=final.correctness,
        )

    def _final(
        self, program: Program, free: Sequence[TriedDim]
    ) -> tuple[Attempt, dict[tuple[str, int], tuple[int, ...]]]:
        sizes, change, reference = self._with_other_sizes(program, free)
        other = program.changed(change)
        wanted = tuple((dim.source, dim.dim) for dim in free)
        for hint in ("DYNAMIC", "AUTO"):
            plan = ExportPlan(self.is_strict, wanted, hint)
            found = self.exporter.attempt(other, plan, f"dynamic-{hint.lower()}-final", reference)
            if found.is_made:
                break
        return found, sizes

    def _with_other_sizes(
        self, program: Program, free: Sequence[TriedDim]
    ) -> tuple[dict[tuple[str, int], tuple[int, ...]], RunChange, Reference]:
        """The calls of other sizes that the program has, or else such that eager mode takes; and
        eager mode's run.
        """
        self.exporter.on_phase("running with other sizes")
        untouched = Program(change=program.change)
        if self.differing:
            change = RunChange(alike="kinds")
            sizes = {(dim.source, dim.dim): dim.sizes for dim in self.differing}
            return sizes, change, self.exporter.eager(untouched.changed(change), "other-")
        count = max(len(dim.other_sizes) for dim in free)
        for choice in range(max(count, 1)):
            sizes = {
                (dim.source, dim.dim): (dim.other_sizes[choice],)
                for dim in free
                if choice < len(dim.other_sizes)
            }
            change = RunChange(
                alike="kinds",
                sizes=tuple(
                    (_torch_source(source), dim, size) for (source, dim), (size,) in sizes.items()
                ),
            )
            reference = self.exporter.eager(untouched.changed(change), f"other-{choice + 1}-")
            if reference.own.reason is None:
                break
        return sizes, change, reference

    def _dim(self, dim: TriedDim) -> ExportDim:
        place = innermost(dim.stack)
        return ExportDim(
            **values_of(dim, *field_types(DimOfExport)),
            reason=_reason(dim),
            location=place.located(self.exporter.root)
            if place is not None and not dim.is_by_another
            else None,
        )


def _reason(dim: TriedDim) -> str | None:
    """Why torch made a dim a constant; None if it didn't, or doesn't say."""
    if dim.is_dynamic:
        return None
    if dim.size < _SMALL:
        return f"torch makes a size of {dim.size} a constant; export with 2 or more"
    return "it must equal another size that is a constant" if dim.is_by_another else None


def _torch_source(source: str) -> str:
    """A tensor of an argument as torch names it, such as ``L['d']['k']``."""
    name, bracket, rest = source.partition("[")
    return f"L['{name}']{bracket}{rest}"
