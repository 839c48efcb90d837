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
from graphdoctor.fixes.lint.regions import Callees, regions
from graphdoctor.fixes.source.flow import Surrounding, certain_nodes
from graphdoctor.fixes.source.program import Program, Scope
from graphdoctor.fixes.source.values import Values
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.rules.changes import module_number_fixes
from graphdoctor.rules.diagnosis.diagnose import with_distinct_fingerprints
from graphdoctor.rules.diagnosis.rule import BreakRule, fingerprint
from graphdoctor.rules.diagnosis.sites import BreakSite
from graphdoctor.rules.gate.baseline import known_in
from graphdoctor.rules.gate.check import Policy
from graphdoctor.rules.gate.ignores import comments_in, ignored_by
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


@dataclass(frozen=True)
class _Event:
    """Something that happens in a function: a cause, or a call of functions of the file."""

    place: Surrounding
    spot: Spot | None = None
    callees: tuple[Scope, ...] = ()

    @property
    def is_break(self) -> bool:
        return self.spot is not None and self.spot.code.startswith("GD1")


class _File:
    """A parsed file, and the findings in the functions of it that torch compiles."""

    def __init__(self, path: Path, text: str, tree: ast.Module, root: Path) -> None:
        self._path, self._root, self._lines = path, root, text.split("\n")
        self._program = Program(tree)
        self._values = Values(self._program)

    def findings(self, recorded: Collection[str]) -> tuple[list[Finding], int]:
        """Find the causes, and count the functions that torch compiles."""
        traced, callees = regions(self._program, self._values, recorded)
        sites, events = {}, {}
        for region in traced:
            site = sites[region.scope] = Site(region, self._program, self._values)
            events[region.scope] = list(_events(site, callees))
        findings: dict[tuple[int, str, str | None], Finding] = {}
        for scope, spots in self._seen_by_torch(events).items():
            made = [self._finding(spot, place, sites[scope]) for spot, place in spots]
            is_lost = any(
                finding.severity == "error" and finding.code.startswith("GD1") for finding in made
            )
            for finding in made:
                if not (is_lost and finding.code.startswith("GD2")):
                    # As in a run, one cause at one line is one site.
                    key = (finding.location.line, finding.code, finding.torch_id)
                    findings.setdefault(key, finding)
        return with_distinct_fingerprints(list(findings.values())), len(traced)

    def _seen_by_torch(
        self, events: Mapping[Scope, Sequence[_Event]]
    ) -> dict[Scope, list[tuple[Spot, Surrounding]]]:
        """Keep the causes that torch gets to, by function."""
        breaking: set[Scope] = set()
        while more := {
            scope
            for scope, scope_events in events.items()
            if scope not in breaking
            and any(
                event.is_break or breaking.intersection(event.callees) for event in scope_events
            )
        }:
            breaking |= more
        seen: dict[Scope, list[tuple[Spot, Surrounding]]] = {}
        for scope, scope_events in events.items():
            seen[scope] = []
            for event in scope_events:
                if event.spot is not None:
                    seen[scope].append((event.spot, event.place))
                has_broken = event.is_break or not breaking.isdisjoint(event.callees)
                if has_broken and self._is_lost(event, scope):
                    break
        return seen

    def _is_lost(self, event: _Event, scope: Scope) -> bool:
        """Tell if torch can't resume after a break."""
        if event.spot is not None and (
            event.spot.is_frame_lost or isinstance(event.place.statement, ast.While)
        ):
            return True

        blocks = event.place.around
        managers = (
            item.context_expr
            for block in blocks
            if isinstance(block, ast.With | ast.AsyncWith)
            for item in block.items
        )
        return any(isinstance(block, _LOSING) for block in blocks) or not all(
            isinstance(manager, ast.Call) and self._program.dotted(manager.func, scope) in _RESUMED
            for manager in managers
        )

    def _finding(self, spot: Spot, place: Surrounding, site: Site) -> Finding:
        entry, rule = self._entry(spot, site), ALL_RULES[spot.code]
        is_break = isinstance(rule, BreakRule)
        if isinstance(rule, BreakRule):
            where = self._break_site(spot, place, entry, site)
            message, fixes = rule.message(where), rule.fixes(where)
        else:
            function = site.region.scope.qualname
            message = (
                f"`{spot.subject}` changes in every call, and `{function}` recompiles for each"
                " value"
            )
            fixes = module_number_fixes(
                [GuardChange(kind="module_number", expression=spot.subject)]
            )
        is_lost = (
            site.region.is_fullgraph
            or spot.is_frame_lost
            or any(isinstance(item, _LOSING) for item in place.around)
        )
        cause = spot.torch_id or spot.gb_type or spot.subject
        return Finding(
            code=rule.code,
            rule=rule.name,
            severity="error" if is_lost and is_break else rule.severity,
            message=message,
            location=entry.located(self._root),
            count=0,
            torch_id=spot.torch_id,
            fixes=rule.sourced(fixes),
            fingerprint=fingerprint(rule.code, entry, self._root, cause),
        )

    def _entry(self, spot: Spot, site: Site) -> StackEntry:
        node, qualname = spot.node, site.region.scope.qualname
        line, start = node.lineno, node.col_offset
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.end_lineno != func.value.end_lineno:
            # For a chain over several lines, torch names the method's line (``compile.c`` of
            # CPython 3.11).
            line = func.end_lineno or line
            start = (func.end_col_offset or 0) - len(func.attr.encode())
        text = self._lines[line - 1] if line <= len(self._lines) else ""

        def column(offset: int) -> int:
            return len(text.encode()[:offset].decode(errors="replace")) + 1

        return StackEntry(
            file=str(self._path),
            line=line,
            function=qualname.rpartition(".")[2],
            # A class statement's own line belongs to the class.
            qualname=f"{qualname}.{node.name}" if isinstance(node, ast.ClassDef) else qualname,
            text=text.strip(),
            column=column(start),
            end_column=column(node.end_col_offset or 0) if node.end_lineno == line else None,
            indent=len(text) - len(text.lstrip()),
            origin="user",
        )

    def _break_site(
        self, spot: Spot, place: Surrounding, entry: StackEntry, site: Site
    ) -> BreakSite:
        first = place.statement.lineno
        last = min(place.statement.end_lineno or first, first + _MAX_STATEMENT_LINES - 1)
        reason = BreakReason(gb_type=spot.gb_type, torch_id=spot.torch_id, context=spot.context)
        record = BreakRecord(
            compile_id=None, effect="resumed", chain=(reason,), stack=(entry,), words=spot.gb_type
        )
        blocks = [
            {"kind": kind, "line": item.lineno, "text": self._lines[item.lineno - 1].strip()}
            for item in place.around
            if (kind := _KINDS.get(type(item)))
        ]
        context = SourceContext(
            file=entry.file,
            line=entry.line,
            qualname=entry.qualname or entry.function,
            function_line=getattr(site.region.scope.node, "lineno", None),
            statement=textwrap.dedent("\n".join(self._lines[first - 1 : last])).rstrip(),
            module_names=tuple(
                node.id
                for node in ast.walk(place.statement)
                if isinstance(node, ast.Name)
                and (resolved := site.region.scope.lookup(node.id)) is not None
                and resolved[0] is self._program.module
            ),
            enclosing=tuple(read_fact(Enclosing, block) for block in blocks),
        )
        return BreakSite(entry=entry, records=(record,), effects=Effects(), context=context)


def _events(site: Site, callees: Callees) -> Iterator[_Event]:
    for node, place in certain_nodes(site.region.scope, site.program):
        yield from (_Event(place, spot=spot) for spot in spots_at(node, place, site))
        if node in callees:
            yield _Event(place, callees=callees[node])


_RESUMED = (
    "torch.no_grad",
    "torch.enable_grad",
    "torch.set_grad_enabled",
    "torch.autograd.no_grad",
)
"""Context managers that torch enters again when it resumes."""


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
    switches = {}
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
    names = set()
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
class RecordedNames:
    """The facts of a recording that lint uses."""

    functions: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    settings: frozenset[str] = frozenset()


def recorded_in(recording: Recording) -> RecordedNames:
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
    return RecordedNames(
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
    recorded: RecordedNames | None = None,
    texts: Mapping[Path, str] | None = None,
    switches: Callable[[Path, Iterable[str]], Mapping[str, Path]] = switches_in,
) -> LintReport:
    """Find what certainly breaks a graph or recompiles in the functions that files compile, by file
    and line.

    ``texts`` are of files that an editor has changed; ``switches`` finds settings that a project's
    files change.
    """
    shown_from = shown_from or root
    recorded = recorded or RecordedNames()
    unreadable = []
    unignored = []
    function_count = total = 0
    files = list(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))  # noqa: PTH100 - links stay links
    for path in files:
        content = _read(path, (texts or {}).get(path), shown_from)
        if isinstance(content, UnreadableFile):
            unreadable.append(content)
            continue
        text, tree = content
        functions = recorded.functions.get(path, frozenset())
        if functions or ("torch" in text and "compile" in text):
            findings, count = _File(path, text, tree, root).findings(functions)
            function_count, total = function_count + count, total + len(findings)
            comments = comments_in(text)
            unignored += [
                finding
                for finding in findings
                if all(comment.code_for(finding) is None for comment in comments)
            ]
    # Settings that prevent a cause, and where they are.
    names = {name for finding in unignored for name in _SWITCHES.get(finding.code, ())}
    places = dict.fromkeys(names & recorded.settings, "the recording")
    for name, path in switches(root, names - recorded.settings).items():
        places[name] = relative(str(path), shown_from)
    counting = []
    silenced: Counter[str] = Counter()
    for finding in unignored:
        preventing = [name for name in _SWITCHES.get(finding.code, ()) if name in places]
        silenced.update(preventing[:1])
        if not preventing and all(
            ignored_by(finding, comments={}, paths=policy.paths, selection=policy.selection) is None
            for policy in policies
        ):
            counting.append(finding)
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
        ignored_count=total - silenced.total() - len(counting),
        unreadable=tuple(unreadable),
        notes=tuple(
            f"{counted(count, 'finding')} left out: {places[name]} sets"
            f" torch._dynamo.config.{name}."
            for name, count in sorted(silenced.items())
        ),
    )


def _shown(findings: Sequence[Finding], root: Path, shown_from: Path) -> tuple[Finding, ...]:
    moved = []
    for finding in findings:
        place = finding.location
        file = relative(str(root / place.file), shown_from)
        moved.append(finding.replace(location=place.replace(file=file)))
    return tuple(
        sorted(moved, key=lambda item: (*item.location.at, item.location.column or 0, item.code))
    )


def _read(
    path: Path, text: str | None, shown_from: Path
) -> tuple[str, ast.Module] | UnreadableFile:
    line = None
    try:
        if text is None:
            content = path.read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            text = io.TextIOWrapper(io.BytesIO(content), encoding).read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python itself will warn about invalid escapes
            return text, ast.parse(text, str(path))
    except OSError as error:
        message = f"can't be read: {error.strerror}"
    except SyntaxError as error:
        message, line = f"can't be parsed: {error.msg}", error.lineno
    except (ValueError, RecursionError, MemoryError) as error:
        message = f"can't be parsed: {error}"
    return UnreadableFile(file=relative(str(path), shown_from), line=line, message=message)
