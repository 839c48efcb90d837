"""Which causes don't count: torch never gets to them, a torch setting prevents them, or the project's policies do."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.facts.check import fails
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.fixes.lint.checks import Spot
from graphdoctor.fixes.source.flow import Surrounding
from graphdoctor.fixes.source.program import Program, Scope
from graphdoctor.rules.gate.check import Policy
from graphdoctor.rules.gate.ignores import ignored_by
from graphdoctor.rules.gate.known import known_in

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

    place: Surrounding
    spot: Spot | None = None
    callees: tuple[Scope, ...] = ()


def seen_by_torch(events: Mapping[Scope, Sequence[Event]], program: Program) -> dict[Scope, list[Event]]:
    """The events with causes that torch gets to, by function."""
    breaking = _breaking(events)
    return {scope: _before_loss(found, breaking, scope, program) for scope, found in events.items()}


def _breaking(events: Mapping[Scope, Sequence[Event]]) -> set[Scope]:
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
    if event.spot is not None and (event.spot.is_frame_lost or isinstance(event.place.statement, ast.While)):
        return True
    return any(
        isinstance(one, _LOOPS) or (isinstance(one, (ast.With, ast.AsyncWith)) and not _is_resumed(one, scope, program))
        for one in event.place.around
    )


def _is_resumed(node: ast.With | ast.AsyncWith, scope: Scope, program: Program) -> bool:
    entered = [item.context_expr for item in node.items]
    return all(isinstance(one, ast.Call) and program.dotted(one.func, scope) in _RESUMED for one in entered)


_BY_CODE: dict[str, tuple[str, ...]] = {
    "GD101": ("reorderable_logging_functions", "ignore_logging_functions"),
    "GD103": ("capture_scalar_outputs",),
    "GD104": ("capture_dynamic_output_shape_ops",),
    "GD112": ("trace_autograd_ops",),
    "GD115": ("graph_break_on_nn_param_ctor",),
    "GD116": ("allow_rnn",),
    "GD205": ("allow_unspec_int_on_nn_module",),
}
"""Names in ``torch/_dynamo/config.py``, 2.13, by the rule code whose cause they can prevent."""
_MAX_FILES = 20_000
_LEFT_OUT = frozenset(("node_modules", "site-packages", "build", "dist", "__pycache__"))
_PREFIX = "torch._dynamo.config."
_SETTERS = ("patch", "setattr", "_patch")


def switches_of(code: str) -> tuple[str, ...]:
    """The settings that can prevent the cause of a rule's findings."""
    return _BY_CODE.get(code, ())


def switches_in(root: Path, wanted: Iterable[str]) -> dict[str, Path]:
    """Which settings the Python files below a folder change, each with the first file that does.

    Hidden folders and environments are left out. Values aren't considered: a setting that is assigned may be on.
    """
    found: dict[str, Path] = {}
    missing = set(wanted)
    for count, path in enumerate(_python_files(root)):
        if count >= _MAX_FILES or not missing:
            break
        try:
            content = path.read_bytes()
        except OSError:
            continue
        named = {name for name in missing if name.encode() in content}
        if named:
            named &= _set_in(content)
            found.update(dict.fromkeys(named, path))
            missing -= named
    return found


def _set_in(content: bytes) -> set[str]:
    """Every attribute that a file assigns or changes through a method, and every name in a string or a ``patch``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Constant(value=str(text)) if text.startswith(_PREFIX):
                found.add(text.removeprefix(_PREFIX))
            case ast.Call(func=ast.Attribute(attr="add" | "update", value=ast.Attribute(attr=name))):
                found.add(name)
            case ast.Call(func=ast.Attribute(attr=setter) | ast.Name(id=setter)) if setter in _SETTERS:
                found |= {keyword.arg for keyword in node.keywords if keyword.arg}
                texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
                found |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}
            case _:
                pass
    return found


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _LEFT_OUT)
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)


@dataclass(frozen=True)
class Judged:
    """Findings by what counts.

    Args:
        new: The ones that are neither known nor ignored.
        failing_count: How many of them fail.
        known: The ones that the baseline knows.
        ignored_count: How many a setting or a path pattern leaves out.
    """

    new: tuple[Finding, ...]
    failing_count: int
    known: tuple[Finding, ...]
    ignored_count: int


def judged(findings: Sequence[Finding], policies: Sequence[Policy]) -> Judged:
    """Sort findings by the policies of all targets."""
    counting = [finding for finding in findings if not any(_is_ignored(finding, policy) for policy in policies)]
    baselines = [policy.baseline for policy in policies if policy.baseline is not None]
    known = known_in(baselines[0], counting) if baselines else ()
    new = tuple(finding for finding in counting if finding not in known)
    failing = [finding for finding in new if all(fails(finding, policy.fail_on) for policy in policies)]
    return Judged(new, len(failing), known, len(findings) - len(counting))


def _is_ignored(finding: Finding, policy: Policy) -> bool:
    return ignored_by(finding, comments={}, paths=policy.paths, selection=policy.selection) is not None
