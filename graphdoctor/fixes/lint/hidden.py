"""Which causes torch never gets to: after a break that it can't resume from, the rest of a function runs eagerly.

Comes in: what happens in each traced function, in order. Goes out: the causes that torch reports.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.fixes.lint.flow import Place
from graphdoctor.fixes.lint.program import Program, Scope

if TYPE_CHECKING:
    from graphdoctor.fixes.lint.checks import Spot

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar)
_RESUMED = ("torch.no_grad", "torch.enable_grad", "torch.set_grad_enabled", "torch.autograd.no_grad")
"""Context managers that torch enters again when it resumes."""


@dataclass(frozen=True)
class Event:
    """Something that happens in a function: a cause, or a call of functions of the file.

    Args:
        place: What surrounds it.
        spot: The cause.
        callees: The functions that are called.
    """

    place: Place
    spot: Spot | None = None
    callees: tuple[Scope, ...] = ()


def seen_by_torch(events: Mapping[Scope, Sequence[Event]], program: Program) -> dict[Scope, list[Event]]:
    """The events with causes that torch gets to, by function.

    Args:
        events: What happens in each function that torch traces, in order.
        program: The file.
    """
    breaking = _breaking(events)
    return {scope: _before_loss(found, breaking, scope, program) for scope, found in events.items()}


def _breaking(events: Mapping[Scope, Sequence[Event]]) -> set[Scope]:
    """The functions that break, or call one that does."""
    breaking = {scope for scope, found in events.items() if any(_is_break(event) for event in found)}
    while True:
        more = {
            scope
            for scope, found in events.items()
            if scope not in breaking and any(breaking.intersection(event.callees) for event in found)
        }
        if not more:
            return breaking
        breaking |= more


def _before_loss(found: Sequence[Event], breaking: set[Scope], scope: Scope, program: Program) -> list[Event]:
    seen: list[Event] = []
    for event in found:
        if event.spot is not None:
            seen.append(event)
        if (_is_break(event) or breaking.intersection(event.callees)) and _is_lost(event, scope, program):
            break
    return seen


def _is_break(event: Event) -> bool:
    return event.spot is not None and event.spot.code.startswith("GD1")


def _is_lost(event: Event, scope: Scope, program: Program) -> bool:
    """Whether torch can't resume after a break there."""
    if event.spot is not None and (event.spot.is_frame_lost or isinstance(event.place.statement, ast.While)):
        return True
    return any(
        isinstance(one, _LOOPS) or (isinstance(one, (ast.With, ast.AsyncWith)) and not _is_resumed(one, scope, program))
        for one in event.place.around
    )


def _is_resumed(node: ast.With | ast.AsyncWith, scope: Scope, program: Program) -> bool:
    entered = [item.context_expr for item in node.items]
    return all(isinstance(one, ast.Call) and program.dotted(one.func, scope) in _RESUMED for one in entered)
