"""Why ranks part: what two of them did at their first divergence in, its cause out.

Which branch of the source they took differently, or which size, value or state they had. Nothing is
said of a branch that another rank may not have reached, nor of files that weren't recorded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.facts.guards import ChangeKind, GuardChange, GuardNode
from graphdoctor.facts.job import Parting, PartingKind
from graphdoctor.facts.recording import GraphNode, Recording
from graphdoctor.facts.stack import StackEntry, parsed, relative

Line = tuple[str, int]
Text = str | None

_RANK = re.compile(
    r"_*(get_)?((node_)?local_|global_|node_|group_)?rank|(local_)?process_index"
    r"|is_(local_|global_|world_)?(main|master|process_zero|zero|rank_zero)(_process)?",
    re.IGNORECASE,
)
"""Names that PyTorch and libraries for training give to what differs with the rank."""
_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "GROUP_RANK", "SLURM_PROCID", "SLURM_LOCALID"})
"""Environment variables in which launchers say it."""
_SIZES: frozenset[ChangeKind] = frozenset({"size", "rank", "stride"})
_VALUES: frozenset[ChangeKind] = frozenset(
    {"number", "flag", "text", "none", "value", "type", "identity", "keys", "length", "dtype"}
)
_UNTOLD: frozenset[ChangeKind] = frozenset({"backend", "entry_gone", "unknown", "relation"})
_DEPTH = 4
"""Calls and assignments that are followed from a condition to the rank."""


@dataclass(frozen=True)
class Trail:
    """A rank's way through one compile, and where it came in the whole run."""

    lines: tuple[Line, ...] = ()
    """Lines of the compile's operations, breaks and guards, and of its caller."""
    reached: frozenset[Line] = frozenset()
    """The same of all compiles of the rank."""
    nodes: tuple[GraphNode, ...] = ()
    guards: tuple[GuardNode, ...] = ()
    changes: tuple[GuardChange, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Recorded texts of the files."""

    def came_into(self, file: str, lines: range) -> bool:
        """Return whether the rank reached one of these lines, in any compile."""
        return any((file, line) in self.reached for line in lines)


def trail_of(recording: Recording, compile_id: str | None) -> Trail:
    """Return what a recording, with its picture and guards, says of a compile; of none, only where
    the rank came.
    """
    lines: dict[str | None, list[Line]] = {}
    for compile_ in recording.compiles:
        lines.setdefault(compile_.compile_id, []).extend(entry.at for entry in compile_.stack)
    for id_, frame in recording.frames_by_compile().items():
        if frame.resumes_at is not None:
            lines[id_].append((frame.file, frame.resumes_at))
    for graph in recording.graphs:
        places = ((node.file, node.line) for node in graph.nodes or ())
        of_graph = ((file, line) for file, line in places if file is not None and line is not None)
        lines.setdefault(graph.compile_id, []).extend(of_graph)
    for record in recording.breaks:
        lines.setdefault(record.compile_id, []).extend(entry.at for entry in record.stack)
    sets = () if recording.guards is None else recording.guards.sets
    causes = (
        compile_.cause
        for compile_ in recording.compiles
        if compile_.compile_id == compile_id and compile_.cause is not None
    )
    graphs = (graph for graph in recording.graphs if graph.compile_id == compile_id)
    files = () if recording.picture is None else recording.picture.files
    return Trail(
        lines=tuple(dict.fromkeys(lines.get(compile_id, []))) if compile_id else (),
        reached=frozenset(line for of_compile in lines.values() for line in of_compile),
        nodes=tuple(node for graph in graphs for node in graph.nodes or ()),
        guards=next((set_.nodes for set_ in sets if set_.compile_id == compile_id), ()),
        changes=next((cause.changes for cause in causes), ()),
        files={file.file: file.text for file in files if file.text is not None},
    )


def parting_of(first: Trail, second: Trail, *, root: Path, is_whole: bool) -> Parting | None:
    """Return why two ranks parted; None if it is unknown.

    ``is_whole``: both ran to their end, as far as is known.
    """
    if first.changes or second.changes:
        # From here on one of them has another value; the other may get it later.
        return _of_changes((*first.changes, *second.changes))
    if is_whole:
        source = _Source({**second.files, **first.files}, root)
        if (branch := _taken_alone(first, second, source)) is not None:
            return branch
    # An argument can be of another size because of a constant, and that because of an attribute.
    pairs = zip(first.nodes, second.nodes, strict=False)
    for pair in pairs:
        if _differ(pair):
            if (
                any(node.opcode == "placeholder" for node in pair)
                and len(set(map(_dtype, pair))) == 1
            ):
                return Parting(kind="sizes", value=pair[0].name)
            break
    guards = (_of_guard(guard, root) for guard in _differing_guards(first, second))
    return min(guards, key=lambda parting: _CERTAIN.index(parting.kind), default=None)


_CERTAIN: tuple[PartingKind, ...] = ("sizes", "state", "values")


def _differ(pair: tuple[GraphNode, GraphNode]) -> bool:
    first, second = (node.replace(file=None, line=None, module=None) for node in pair)
    return first != second


def _dtype(node: GraphNode) -> tuple[str, Text]:
    dtype = None if node.value is None else node.value.partition("[")[0]
    return node.target, dtype


def _of_changes(changes: Sequence[GuardChange]) -> Parting | None:
    change = next((change for change in changes if change.kind not in _UNTOLD), None)
    if change is None:
        return None
    kind: PartingKind = "values" if change.kind in _VALUES else "state"
    if change.kind in _SIZES:
        kind = "sizes"
    elif (change.source or "").startswith("L['self']"):
        kind = "state"
    return Parting(kind=kind, value=change.expression)


def _differing_guards(first: Trail, second: Trail) -> list[GuardNode]:
    """Return guards on one value that must be another on the second rank."""
    expected = {_guarded(guard): guard.expected for guard in second.guards}
    return [
        guard
        for guard in first.guards
        if guard.expected is not None
        and expected.get(_guarded(guard)) not in (None, guard.expected)
    ]


def _guarded(guard: GuardNode) -> tuple[Text, Text]:
    """Return what a guard is on; guards on a constant have a kind for some constants."""
    return "constant" if guard.kind in _CONSTANTS else guard.kind, guard.source


_CONSTANTS = ("EQUALS_MATCH", "CONSTANT_MATCH", "TRUE_MATCH", "FALSE_MATCH", "NONE_MATCH")


def _of_guard(guard: GuardNode, root: Path) -> Parting:
    source = guard.source or ""
    kind: PartingKind = "state"
    if source.startswith("L['") and not source.startswith("L['self']"):
        kind = "sizes" if guard.kind == "TENSOR_MATCH" else "values"
    location = None if guard.location is None else guard.location.located(root)
    return Parting(kind=kind, location=location, value=guard.expression)


# Branches.

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _taken_alone(first: Trail, second: Trail, source: _Source) -> Parting | None:
    """Return the branch into which one rank alone came; one that depends on the rank before
    others.
    """
    others = []
    for trail, other in ((first, second), (second, first)):
        for file, line in source.with_calls(trail, other):
            for branch in source.branches.get(file, ()):
                arm = next((arm for arm in branch.arms if line in arm), None)
                if arm is None or other.came_into(file, arm):
                    continue
                parting = source.parting(file, branch)
                if parting.reads is not None:
                    return parting
                # Otherwise the other rank must be seen to have gone past it.
                function = source.function_at(file, branch.node.lineno)
                end = 0 if function is None else function.end_lineno or 0
                past = range((branch.node.end_lineno or 0) + 1, end + 1)
                beside = (other_arm for other_arm in branch.arms if other_arm is not arm)
                if any(other.came_into(file, lines) for lines in (past, *beside)):
                    others.append(parting)
    return next(iter(others), None)


@dataclass(frozen=True)
class _Branch:
    node: ast.stmt
    test: ast.expr
    arms: tuple[range, ...]
    """Lines of each way; after a body that leaves the block, what follows is the other way."""


class _Source:
    """The recorded files of a program."""

    def __init__(self, files: Mapping[str, str], root: Path) -> None:
        self._texts, self._root = files, root
        trees = {file: tree for file, text in files.items() if (tree := parsed(text)) is not None}
        self._nodes = {file: list(ast.walk(tree)) for file, tree in trees.items()}
        self.branches = {
            file: [branch for node in nodes for branch in _branches(node)]
            for file, nodes in self._nodes.items()
        }

    def with_calls(self, trail: Trail, other: Trail) -> Iterator[Line]:
        """Yield the lines of a trail, and the one call of each function into which it alone came:
        operations have their innermost line only.
        """
        called = set()
        waiting = list(reversed(trail.lines))
        while waiting:
            file, line = waiting.pop()
            yield file, line
            function = self.function_at(file, line)
            if function is None or function.name in called:
                continue
            called.add(function.name)
            calls = [
                (caller, node.lineno)
                for caller, nodes in self._nodes.items()
                for node in nodes
                if isinstance(node, ast.Call) and _last_name(node.func) == function.name
            ]
            if len(calls) == 1 and not other.came_into(file, _span([function])):
                waiting += calls

    def function_at(self, file: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the innermost function around a line."""
        nodes = self._nodes.get(file, ())
        around = [node for node in nodes if isinstance(node, _FUNCTIONS) and line in _span([node])]
        return max(around, key=lambda node: node.lineno, default=None)

    def parting(self, file: str, branch: _Branch) -> Parting:
        """Return a branch as the cause."""
        line = branch.node.lineno
        named = (*_FUNCTIONS, ast.ClassDef)
        around = [node for node in self._nodes[file] if isinstance(node, named)]
        names = [node.name for node in around if line in _span([node])]
        entry = StackEntry(
            file=relative(file, self._root),
            line=line,
            function=".".join(names) or "<module>",
            text=self._texts[file].splitlines()[line - 1].strip(),
        )
        reads = self._reads(file, branch.test)
        return Parting(kind="branch", location=entry, value=ast.unparse(branch.test), reads=reads)

    def _reads(self, file: str, value: ast.expr, depth: int = _DEPTH) -> Text:
        """Return the part of an expression that reads the rank; None if none is known to."""
        for node in ast.walk(value):
            match node:
                case ast.Name() | ast.Attribute() if _is_rank(_last_name(node)):
                    return ast.unparse(node)
                case ast.Call(func=called) if _is_rank(_last_name(called)):
                    return ast.unparse(node)
                case ast.Subscript(slice=key) | ast.Call(args=[key, *_]) if _is_variable(key):
                    return ast.unparse(node)
                case ast.Name() | ast.Attribute() | ast.Call() if depth:
                    sources = self._assigned(file, node)
                    if any(self._reads(file, source, depth - 1) for source in sources):
                        return ast.unparse(node)
        return None

    def _assigned(self, file: str, value: ast.expr) -> Iterator[ast.expr]:
        """Yield what a name or attribute is assigned in its file, or what a function returns."""
        if isinstance(value, ast.Call):
            every = (node for nodes in self._nodes.values() for node in nodes)
            name = _last_name(value.func)
            functions = [node for node in every if getattr(node, "name", None) == name]
            # Of several of one name, nobody knows which is called.
            for node in ast.walk(functions[0]) if len(functions) == 1 else ():
                if isinstance(node, ast.Return) and node.value is not None:
                    yield node.value
            return
        here = self.function_at(file, value.lineno)
        for node in self._nodes[file]:
            if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or not node.value:
                continue
            there = self.function_at(file, node.lineno)
            is_seen = isinstance(value, ast.Attribute) or there is None or there is here
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if is_seen and ast.unparse(value) in map(ast.unparse, targets):
                yield node.value


def _branches(outer: ast.AST) -> Iterator[_Branch]:
    """Yield the branches of each block of a node."""
    for name in ("body", "orelse", "finalbody"):
        value = getattr(outer, name, None)
        block: list[ast.stmt] = value if isinstance(value, list) else []
        for at, node in enumerate(block, start=1):
            match node:
                case ast.If(test=test, body=body, orelse=orelse):
                    rest = block[at:] if isinstance(body[-1], _LEAVING) else []
                    yield _Branch(node, test, (_span(body), _span(orelse or rest)))
                case ast.While(test=test, body=body) | ast.For(iter=test, body=body):
                    yield _Branch(node, test, (_span(body),))
                case ast.Match(subject=test, cases=cases):
                    yield _Branch(node, test, tuple(_span(case.body) for case in cases))


def _span(nodes: Sequence[ast.stmt | ast.expr]) -> range:
    return range(nodes[0].lineno, (nodes[-1].end_lineno or 0) + 1) if nodes else range(0)


def _last_name(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _is_rank(name: str) -> bool:
    return _RANK.fullmatch(name) is not None


def _is_variable(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value in _VARIABLES
