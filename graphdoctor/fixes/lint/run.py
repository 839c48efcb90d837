"""Lints files. Comes in: paths, and what a recording saw. Goes out: a ``LintReport``. Nothing is
imported or run.
"""

from __future__ import annotations

import ast
import io
import os
import textwrap
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from graphdoctor.facts.base import grouped
from graphdoctor.facts.check import LintReport, UnreadableFile
from graphdoctor.facts.diagnosis import Effects, Finding, fails
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import (
    BreakReason,
    BreakRecord,
    Enclosing,
    Recording,
    SourceContext,
)
from graphdoctor.facts.stack import StackEntry, parsed, relative
from graphdoctor.fixes.lint.checks import Site, Spot, spots_at
from graphdoctor.fixes.lint.regions import Regions, regions
from graphdoctor.fixes.source.flow import Surrounding, certain_nodes
from graphdoctor.fixes.source.program import Program, Scope
from graphdoctor.fixes.source.values import Values
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.rules.diagnosis.diagnose import with_distinct_fingerprints
from graphdoctor.rules.diagnosis.rule import BreakRule, fingerprint
from graphdoctor.rules.diagnosis.sites import BreakSite
from graphdoctor.rules.gate.baseline import known_in
from graphdoctor.rules.gate.check import Policy
from graphdoctor.rules.gate.ignores import comments_in, ignored_by
from graphdoctor.rules.numbers import module_number_fixes
from graphdoctor.trials.launch.discover import project_folders
from graphdoctor.wording import counted

_MAX_STATEMENT_LINES = 12
_LOSING = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar)
"""Statements that torch can't resume in after a break; for a ``with`` it depends on the context
manager."""

_KINDS: dict[type[ast.stmt], str] = {
    **{kind: kind.__name__.lower().removeprefix("async").removesuffix("star") for kind in _LOSING},
    ast.With: "with",
    ast.AsyncWith: "with",
}


def finding_of(
    spot: Spot, place: Surrounding, site: Site, *, file: Path, lines: list[str], root: Path
) -> Finding:
    """Make the finding at a spot."""
    entry = _entry(spot, site, file, lines)
    rule = ALL_RULES[spot.code]
    is_lost = (
        site.region.is_fullgraph
        or spot.is_frame_lost
        or any(isinstance(item, _LOSING) for item in place.around)
    )
    if isinstance(rule, BreakRule):
        where = _break_site(spot, place, entry, lines, site)
        message, fixes = rule.message(where), rule.fixes(where)
    else:
        function = site.region.scope.qualname
        message = (
            f"`{spot.subject}` changes in every call, and `{function}` recompiles for each value"
        )
        fixes = module_number_fixes(GuardChange(kind="module_number", expression=spot.subject))
    return Finding(
        code=rule.code,
        rule=rule.name,
        severity="error" if is_lost and isinstance(rule, BreakRule) else rule.severity,
        message=message,
        location=entry.located(root),
        count=0,
        torch_id=spot.torch_id,
        fixes=rule.sourced(fixes),
        fingerprint=fingerprint(
            rule.code, entry, root, spot.torch_id or spot.gb_type or spot.subject
        ),
    )


def _entry(spot: Spot, site: Site, file: Path, lines: list[str]) -> StackEntry:
    node, qualname = spot.node, site.region.scope.qualname
    line, start = node.lineno, node.col_offset
    func = node.func if isinstance(node, ast.Call) else None
    if (
        isinstance(func, ast.Attribute)
        and func.end_lineno is not None
        and func.end_lineno != func.value.end_lineno
    ):
        # For a chain over several lines, torch names the method's line (``compile.c`` of CPython
        # 3.11).
        line, start = func.end_lineno, (func.end_col_offset or 0) - len(func.attr.encode())
    text = lines[line - 1] if line <= len(lines) else ""
    bare = text.strip()
    return StackEntry(
        file=str(file),
        line=line,
        function=qualname.rpartition(".")[2],
        # A class statement's own line belongs to the class.
        qualname=f"{qualname}.{node.name}" if isinstance(node, ast.ClassDef) else qualname,
        text=bare,
        column=_characters(text, start) + 1,
        end_column=_characters(text, node.end_col_offset or 0) + 1
        if node.end_lineno == line
        else None,
        indent=len(text) - len(text.lstrip()),
        origin="user",
    )


def _characters(text: str, offset: int) -> int:
    return len(text.encode()[:offset].decode(errors="replace"))


def _break_site(
    spot: Spot, place: Surrounding, entry: StackEntry, lines: list[str], site: Site
) -> BreakSite:
    statement = place.statement
    last = min(
        statement.end_lineno or statement.lineno, statement.lineno + _MAX_STATEMENT_LINES - 1
    )
    reason = BreakReason(gb_type=spot.gb_type, torch_id=spot.torch_id, context=spot.context)
    record = BreakRecord(
        compile_id=None, effect="resumed", chain=(reason,), stack=(entry,), words=spot.gb_type
    )
    enclosing = tuple(
        read_fact(
            Enclosing, {"kind": kind, "line": item.lineno, "text": lines[item.lineno - 1].strip()}
        )
        for item in place.around
        if (kind := _KINDS.get(type(item)))
    )
    context = SourceContext(
        file=entry.file,
        line=entry.line,
        qualname=entry.qualname or entry.function,
        function_line=cast(int, getattr(site.region.scope.node, "lineno", None)),
        statement=textwrap.dedent("\n".join(lines[statement.lineno - 1 : last])).rstrip(),
        enclosing=enclosing,
    )
    return BreakSite(entry=entry, records=(record,), effects=Effects(), context=context)


_RESUMED = (
    "torch.no_grad",
    "torch.enable_grad",
    "torch.set_grad_enabled",
    "torch.autograd.no_grad",
)
"""Context managers that torch enters again when it resumes."""


@dataclass(frozen=True)
class Event:
    """Something that happens in a function: a cause, or a call of functions of the file."""

    place: Surrounding
    spot: Spot | None = None
    callees: tuple[Scope, ...] = ()


def seen_by_torch(
    events: Mapping[Scope, Sequence[Event]], program: Program
) -> dict[Scope, list[Event]]:
    """Keep the events with causes that torch gets to, by function."""
    breaking = {
        scope for scope, scope_events in events.items() if any(map(_is_break, scope_events))
    }
    while more := {
        scope
        for scope, scope_events in events.items()
        if scope not in breaking
        and any(breaking.intersection(event.callees) for event in scope_events)
    }:
        breaking |= more
    seen: dict[Scope, list[Event]] = {}
    for scope, scope_events in events.items():
        lost = (
            at
            for at, event in enumerate(scope_events, start=1)
            if (_is_break(event) or breaking.intersection(event.callees))
            and _is_lost(event, scope, program)
        )
        seen[scope] = [
            event for event in scope_events[: next(lost, None)] if event.spot is not None
        ]
    return seen


def _is_break(event: Event) -> bool:
    return event.spot is not None and event.spot.code.startswith("GD1")


def _is_lost(event: Event, scope: Scope, program: Program) -> bool:
    if event.spot is not None and (
        event.spot.is_frame_lost or isinstance(event.place.statement, ast.While)
    ):
        return True
    for block in event.place.around:
        entered = (
            [item.context_expr for item in block.items]
            if isinstance(block, ast.With | ast.AsyncWith)
            else []
        )
        is_resumed = all(
            isinstance(manager, ast.Call) and program.dotted(manager.func, scope) in _RESUMED
            for manager in entered
        )
        if isinstance(block, _LOSING) or not is_resumed:
            return True
    return False


_SWITCHES: dict[str, tuple[str, ...]] = {
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


def switches_in(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """Find the settings that Python files below a folder change, each with the first file that
    does.

    Hidden folders and environments are left out. Values aren't considered: a setting that is
    assigned may be on.
    """
    switches: dict[str, Path] = {}
    missing = set(names)
    for count, path in enumerate(_walked(root, _LEFT_OUT)):
        if count >= _MAX_FILES or not missing:
            break
        try:
            content = path.read_bytes()
        except OSError:
            continue
        named = {name for name in missing if name.encode() in content}
        if named:
            named &= _set_in(content)
            switches.update(dict.fromkeys(named, path))
            missing -= named
    return switches


def _set_in(content: bytes) -> set[str]:
    tree = parsed(content)
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.Constant(value=str(text)) if text.startswith(_PREFIX):
                names.add(text.removeprefix(_PREFIX))
            case ast.Call(
                func=ast.Attribute(attr="add" | "update", value=ast.Attribute(attr=name))
            ):
                names.add(name)
            case ast.Call(func=ast.Attribute(attr=setter) | ast.Name(id=setter)) if (
                setter in _SETTERS
            ):
                names |= {keyword.arg for keyword in node.keywords if keyword.arg}
                texts = (item.value for item in ast.walk(node) if isinstance(item, ast.Constant))
                names |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}
    return names


def _walked(root: Path, left_out: Collection[str] = ()) -> Iterator[Path]:
    for folder, files in project_folders(root, left_out):
        yield from (
            folder / item for item in files if item.endswith(".py") and not item.startswith(".")
        )


@dataclass(frozen=True)
class Recorded:
    """The facts of a recording that lint uses."""

    functions: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    settings: frozenset[str] = frozenset()


def recorded_in(recording: Recording) -> Recorded:
    """Collect what a recording knows about the user's files.

    Names only, because lines may have moved since. An inlined function is known by the line of a
    graph's node, or of a break in it, if the recording has that line's source.
    """
    named = [
        (frame.file, frame.qualname)
        for frame in recording.frames
        if frame.origin == "user" and frame.qualname
    ]
    traced = {(node.file, node.line) for graph in recording.graphs for node in graph.nodes or ()}
    traced |= {
        entry.at for item in recording.breaks for entry in item.stack if entry.origin == "user"
    }
    named += [
        (context.file, context.qualname) for context in recording.sources if context.at in traced
    ]
    functions = grouped((Path(file), name) for file, name in named)
    return Recorded(
        functions={file: frozenset(names) for file, names in functions.items()},
        settings=frozenset(name.rpartition(".")[2] for name in recording.target.config),
    )


def python_files(path: Path) -> list[Path]:
    """List the file itself, or the Python files below a folder, without environments and hidden
    files.
    """
    return sorted(_walked(path)) if path.is_dir() else [path]


def lint_files(
    paths: Sequence[Path],
    *,
    root: Path,
    version: str,
    shown_from: Path | None = None,
    policies: Sequence[Policy] = (Policy(),),
    recorded: Recorded | None = None,
    texts: Mapping[Path, str] | None = None,
    switches: Callable[[Path, Iterable[str]], Mapping[str, Path]] = switches_in,
) -> LintReport:
    """Find what certainly breaks a graph or recompiles in the functions that files compile, by file
    and line.

    ``texts`` are of files that an editor has changed; ``switches`` finds settings that a project's
    files change.
    """
    shown_from = shown_from or root
    recorded = recorded or Recorded()
    unreadable: list[UnreadableFile] = []
    findings_of_files: list[Finding] = []
    function_count = ignored_count = 0
    files = list(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))  # noqa: PTH100 - links stay links
    for path in files:
        try:
            text, tree = _parsed(path, None if texts is None else texts.get(path))
        except OSError as error:
            message, line = f"can't be read: {error.strerror}", None
        except SyntaxError as error:
            message, line = f"can't be parsed: {error.msg}", error.lineno
        except (ValueError, RecursionError, MemoryError) as error:
            message, line = f"can't be parsed: {error}", None
        else:
            functions = recorded.functions.get(path, frozenset())
            if functions or ("torch" in text and "compile" in text):
                findings, traced_count = _found_in(path, text, tree, root, functions)
                comments = comments_in(text)
                kept = [
                    item
                    for item in findings
                    if all(comment.code_for(item) is None for comment in comments)
                ]
                findings_of_files += kept
                function_count += traced_count
                ignored_count += len(findings) - len(kept)
            continue
        unreadable.append(
            UnreadableFile(file=relative(str(path), shown_from), line=line, message=message)
        )
    findings_of_files, notes = _silenced(
        findings_of_files, root, shown_from, recorded.settings, switches
    )
    counting = [
        finding
        for finding in findings_of_files
        if all(
            ignored_by(finding, comments={}, paths=item.paths, selection=item.selection) is None
            for item in policies
        )
    ]
    baselines = [policy.baseline for policy in policies if policy.baseline is not None]
    accepted = known_in(baselines[0], counting) if baselines else ()
    new = [finding for finding in counting if finding not in accepted]
    return LintReport(
        graphdoctor_version=version,
        file_count=len(files),
        function_count=function_count,
        findings=_shown(new, root, shown_from),
        failing_count=sum(
            all(fails(finding.severity, policy.fail_on) for policy in policies) for finding in new
        ),
        known=_shown(accepted, root, shown_from),
        ignored_count=ignored_count + len(findings_of_files) - len(counting),
        unreadable=tuple(unreadable),
        notes=notes,
    )


def _shown(findings: Sequence[Finding], root: Path, shown_from: Path) -> tuple[Finding, ...]:
    moved = []
    for finding in findings:
        file = relative(str(root / finding.location.file), shown_from)
        moved.append(finding.replace(location=finding.location.replace(file=file)))
    moved.sort(
        key=lambda item: (
            item.location.file,
            item.location.line,
            item.location.column or 0,
            item.code,
        )
    )
    return tuple(moved)


def _found_in(
    path: Path, text: str, tree: ast.Module, root: Path, recorded: frozenset[str]
) -> tuple[list[Finding], int]:
    """Find the causes in a file, and count the functions that torch compiles there."""
    program = Program(tree)
    values = Values(program)
    traced_regions = regions(program, values, recorded)
    sites = {region.scope: Site(region, program, values) for region in traced_regions.traced}
    events = {scope: list(_events(site, traced_regions)) for scope, site in sites.items()}
    lines = text.split("\n")
    findings: dict[tuple[int, str, str | None], Finding] = {}
    for scope, seen in seen_by_torch(events, program).items():
        for finding in _findings_in(sites[scope], seen, path, lines, root):
            # As in a run, one cause at one line is one site.
            findings.setdefault((finding.location.line, finding.code, finding.torch_id), finding)
    return with_distinct_fingerprints(list(findings.values())), len(traced_regions.traced)


def _events(site: Site, traced_regions: Regions) -> Iterator[Event]:
    for node, place in certain_nodes(site.region.scope, site.program):
        yield from (Event(place, spot=spot) for spot in spots_at(node, place, site))
        if node in traced_regions.callees:
            yield Event(place, callees=traced_regions.callees[node])


def _findings_in(
    site: Site, seen: list[Event], path: Path, lines: list[str], root: Path
) -> Iterator[Finding]:
    findings = [
        finding_of(event.spot, event.place, site, file=path, lines=lines, root=root)
        for event in seen
        if event.spot is not None
    ]
    is_lost = any(
        finding.severity == "error" and finding.code.startswith("GD1") for finding in findings
    )
    yield from (finding for finding in findings if not (is_lost and finding.code.startswith("GD2")))


def _parsed(path: Path, text: str | None) -> tuple[str, ast.Module]:
    if text is None:
        content = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = io.TextIOWrapper(io.BytesIO(content), encoding).read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python itself will warn about invalid escapes
        return text, ast.parse(text, str(path))


def _silenced(
    findings: list[Finding],
    root: Path,
    shown_from: Path,
    recorded_names: frozenset[str],
    switches: Callable[[Path, Iterable[str]], Mapping[str, Path]],
) -> tuple[list[Finding], tuple[str, ...]]:
    names = {name for finding in findings for name in _SWITCHES.get(finding.code, ())}
    where = dict.fromkeys(names & recorded_names, "the recording")
    where |= {
        name: relative(str(path), shown_from)
        for name, path in switches(root, names - recorded_names).items()
    }
    hiding = [
        next(filter(where.__contains__, _SWITCHES.get(finding.code, ())), None)
        for finding in findings
    ]
    kept = [finding for finding, name in zip(findings, hiding, strict=True) if name is None]
    notes = tuple(
        f"{counted(count, 'finding')} left out: {where[name]} sets torch._dynamo.config.{name}."
        for name, count in sorted(Counter(filter(None, hiding)).items())
    )
    return kept, notes
