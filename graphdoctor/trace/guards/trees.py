"""Parses torch's printed guard trees, and makes ``Guards`` of them and the costs that the probe
measured.

A tree (``GuardManagerWrapper.__str__``, ``torch/_dynamo/guards.py``, 2.13) has a guard manager for
each guarded value, with the guards on it, and the measured latency in its last line. Lines with an
unknown layout are kept as they are.
"""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from graphdoctor.facts.base import Fields, whole_sum
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet, SubtreeCost
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Frame
from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.breaks import PrintedEntry
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.guards.forms import Form, meaning_of
from graphdoctor.trace.guards.text import GuardText, take_apart
from graphdoctor.trace.merge import Part
from graphdoctor.trace.origin import Origins, Root, Wrapped
from graphdoctor.trace.sections import Collector, Section

_LINE = re.compile(r"^(?P<bars>(?:\| )*)\+- ?(?P<text>.*)$", re.DOTALL)
_MANAGER = re.compile(
    r"^(?:KeyManager: |ValueManager: )?\w*(?:Manager|Guard): source=(?P<source>.*?),"
    r" (?:accessed_by=|type=)"
)
_PAIR = re.compile(r"^(?:KeyValueManager pair at index=|RootGuardManager\b)")
_LATENCY = re.compile(r"^Guard latency = \d+(?:\.\d+)? us$")
_HEADING = "TREE_GUARD_MANAGER:"
_VALUE = re.compile(r"[LG]\['\w+'\](?:\._modules\['[^']+'\])*")
_MODULE_FOLDERS = re.compile(
    r"\._(?:modules|parameters|buffers|non_persistent_buffers_set|\w*hooks\w*)\b"
)
_INTERNAL_TAIL = re.compile(
    r"^\)*(?:\[\d+\])?$|^\.__(?:dict|class)__|^\._(?:modules|parameters|buffers|non_persistent_buffers_set|\w*hooks\w*)\b"
)
_IMPORTED = re.compile(r"\b__import_(\w+)")
_BUILTIN = re.compile(r"\b__builtins_dict___\d+\['(\w+)'\]")
_KEY = re.compile(r"^list\(dict\.keys\((.*)\)\)\[(\d+)\]$")
_ROOT_MODULE = re.compile(r"(?:list\(dict\.keys\()?([LG]\['\w+'\])\._modules\b")
_GLOBALS = "globals"
_STATE = "process-wide state"
_MAX_UNREAD = 20
_TORCH_PARTS = {
    "_dynamo",
    "_functorch",
    "_higher_order_ops",
    "_inductor",
    "_ops.py",
    "_prims",
    "_refs",
    "_tensor.py",
    "amp",
    "autograd",
    "compiler",
    "cuda",
    "distributed",
    "distributions",
    "export",
    "functional.py",
    "fx",
    "nn",
    "optim",
    "utils",
}


@dataclass(frozen=True, eq=False)
class TreeGuard:
    """One guard of the tree; equal ones of different trees are one object."""

    depth: int
    manager_source: str | None
    text: GuardText
    meaning: Form


@dataclass(frozen=True)
class GuardTree:
    """A parsed tree."""

    guards: tuple[TreeGuard, ...]
    unread: tuple[str, ...]


class GuardTrees(Collector):
    """Collects the guard trees of a log, the last one of each compile."""

    KINDS = frozenset({"dynamo_cpp_guards_str"})

    def _clear(self) -> None:
        self.trees: dict[str, GuardTree] = {}

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        if record.compile_id is not None and record.payload is not None:
            self.trees[record.compile_id] = parse_tree(record.payload)


@lru_cache(maxsize=100_000)  # compiles of one function have most of theirs in common
def _guard(depth: int, manager_source: str | None, text: str) -> TreeGuard:
    guard = take_apart(text)
    return TreeGuard(depth, manager_source, guard, meaning_of(guard))


def parse_tree(payload: str) -> GuardTree:
    """Parse a printed tree."""
    guards = []
    unread = []
    path: list[tuple[int, str | None]] = []
    for line in _joined(payload.splitlines()):
        match = _LINE.match(line)
        if match is None:
            if line.strip() not in ("", _HEADING) and not _LATENCY.match(line):
                unread.append(line)
            continue
        depth = len(match["bars"]) // 2
        text = match["text"]
        while path and path[-1][0] >= depth:
            path.pop()
        above = path[-1][1] if path else None
        if manager := _MANAGER.match(text):
            path.append((depth, manager["source"]))
        elif _PAIR.match(text):
            path.append((depth, above))
        else:
            guards.append(_guard(depth, above, text))
    return GuardTree(tuple(guards), tuple(unread))


def _joined(lines: list[str]) -> Iterator[str]:
    held = None
    for line in lines:
        is_new = line.startswith(("| ", "+-", _HEADING)) or _LATENCY.match(line) or not line.strip()
        if held is not None and held.startswith(("| ", "+-")) and not is_new:
            held += "\n" + line
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held


def guards_of_parts(parts: Sequence[tuple[Part, Section]], *, cost: Fields | None) -> Guards:
    """The guards of a recording with several parts: processes, and stretches between resets of
    Dynamo.
    """
    mains = [index for index, (part, _) in enumerate(parts) if part.process is None]
    by_part = [
        guards_of(part, section, cost if index in mains[-1:] else None)
        for index, (part, section) in enumerate(parts)
    ]
    whole = by_part[mains[-1]] if mains else Guards()
    return whole.replace(sets=tuple(item for guards in by_part for item in guards.sets))


def guards_of(part: Part, section: Section, cost: Fields | None) -> Guards:
    """Put a part's guards into words."""
    intake = section.intake
    trees = section.collector(GuardTrees).trees
    places = _Places(intake.files, intake.origins)
    measured = cost or {}
    entries = {entry["compile_id"]: entry for entry in measured.get("entries", ())}
    is_complete = measured.get("is_complete")
    call_us = measured.get("call_us")
    frames = part.recording.frames_by_compile()
    nodes: _KnownNodes = {}
    sets = []
    for compile_ in part.recording.compiles:
        compile_id = compile_.compile_id
        frame_id = compile_.frame_id
        tree = trees.get(compile_id)
        if tree is not None:
            root = intake.roots.get(frame_id) or intake.wrapped(frame_id)
            words = _Words(tree, places, frames.get(compile_id), root, nodes)
            # A complete measurement of the steady call includes every entry that the call reaches.
            entry = entries.get(compile_id, {"runs": 0} if is_complete else None)
            sets.append(_guard_set(part.prefix + compile_id, tree, words, entry, call_us))
    # None if one that runs was not measured, and if none runs: a call over its recompile limit
    # checks all in vain.
    costs = [_times(item.check_us, item.runs_per_call) for item in sets if item.runs_per_call]
    checks_us = whole_sum(costs) if costs and call_us and is_complete else None
    fields = {
        **measured,
        "checks_us": checks_us,
        "share": _share(measured.get("searches_us"), call_us),
        "warm_share": _share(checks_us, call_us),
    }
    return read_fact(Guards, fields, skips_unknown=True).replace(sets=tuple(sets))


def _times(us: float | None, runs: int | None) -> float | None:
    return None if us is None or runs is None else us * runs


def _share(us: float | None, call_us: float | None) -> float | None:
    """The part of a call; None too if it took longer than the whole: something disturbed one of
    them.
    """
    return us / call_us if us is not None and call_us and us <= call_us else None


def _guard_set(
    compile_id: str, tree: GuardTree, words: _Words, entry: Fields | None, call_us: float | None
) -> GuardSet:
    nodes = words.nodes()
    # The nodes are facts already, and can be very many.
    fields = {
        "compile_id": compile_id,
        "guard_count": len(nodes),
        "nodes": (),
        "kinds": dict(Counter(node.kind or "other" for node in nodes).most_common()),
        "unread_lines": tree.unread[:_MAX_UNREAD],
    }
    if entry is not None:
        costs = dict(entry)
        runs = costs.pop("runs")
        fields = {
            **costs,
            **fields,
            "runs_per_call": runs,
            "share": _share(_times(entry.get("search_us"), runs), call_us),
            "warm_share": _share(_times(entry.get("check_us"), runs), call_us),
            "bill": [words.cost(part, nodes) for part in entry.get("bill", ())],
        }
    return read_fact(GuardSet, fields).replace(nodes=nodes)


_KnownNodes = dict[object, dict[TreeGuard, GuardNode]]
"""Guards in the user's words, by what the words depend on."""


class _Words:
    def __init__(
        self,
        tree: GuardTree,
        places: _Places,
        frame: Frame | None,
        root: Root | Wrapped | None,
        nodes: _KnownNodes,
    ) -> None:
        self._tree = tree
        self._places = places
        self._root = root
        self._resumes_at = None if frame is None else frame.resumes_at
        # If the root's class is torch's own, torch compiles a wrapper that gets the root as an
        # argument (``torch/_dynamo/external_utils.py``).
        self._is_wrapped = (
            frame is not None and frame.code_name == "inner" and frame.origin == "torch"
        )
        sources = {guard.manager_source or "" for guard in tree.guards}
        # Arguments and globals that are modules; global ones have their own paths.
        self._modules = frozenset(
            match[1] for source in sources if (match := _ROOT_MODULE.match(source))
        )
        self._known = nodes.setdefault(
            (root, self._resumes_at, self._is_wrapped, self._modules), {}
        )

    def nodes(self) -> tuple[GuardNode, ...]:
        for guard in self._tree.guards:
            if guard not in self._known:
                self._known[guard] = self._node(guard)
        return tuple(map(self._known.__getitem__, self._tree.guards))

    def _node(self, guard: TreeGuard) -> GuardNode:
        text = guard.text
        meaning = guard.meaning
        source = meaning.source or guard.manager_source
        owner = _VALUE.search(guard.manager_source or source or "")
        return GuardNode(
            kind=meaning.kind,
            source=source,
            expression=_STATE if source is None else self._value(source),
            expected=meaning.expected and _in_words(meaning.expected, self._resumes_at),
            path=owner and self._path(owner[0]),
            is_module_internal=source is not None and self._is_module_internal(source),
            depth=guard.depth,
            location=self._places.entry(text.line),
            lower_location=self._places.entry(text.lower if text.lower != text.place else None),
            hint=text.hint or text.note,
            guard=text.expression,
        )

    def cost(self, part: Fields, nodes: Iterable[GuardNode]) -> SubtreeCost:
        path = _GLOBALS if part["source"] == "G" else self._value(part["source"])
        inner = (f"{path}.", f"{path}[")
        count = sum(node.path == path or (node.path or "").startswith(inner) for node in nodes)
        cost = {"path": path, "guard_count": count, "check_us": part["check_us"]}
        return read_fact(SubtreeCost, cost)

    def _value(self, source: str) -> str:
        if self._root is not None:
            return self._root.named(value_words(source, self._resumes_at))
        if self._is_wrapped:
            source = source.replace("L['fn']", "L['self']")
        return value_words(source, self._resumes_at)

    def _path(self, owner: str) -> str:
        is_global = owner.startswith("G[") and owner.partition("._modules[")[0] not in self._modules
        return _GLOBALS if is_global else self._value(owner)

    def _is_module_internal(self, source: str) -> bool:
        owner = _VALUE.search(source)
        if owner is None or _INTERNAL_TAIL.match(source[owner.end() :]) is None:
            return False
        return owner[0] in self._modules or _MODULE_FOLDERS.search(source) is not None


def value_words(source: str, resumes_at: int | None = None) -> str:
    """A guard's source in the user's words: ``key 0 of d``, ``x.shape[0]``,
    ``torch.nn.functional.relu``.
    """
    if key := _KEY.match(source):
        return f"key {key[2]} of {value_words(key[1], resumes_at)}"
    return _in_words(source, resumes_at)


@lru_cache(maxsize=100_000)  # the guards on one value name it again and again
def _in_words(source: str, resumes_at: int | None) -> str:
    text = expression(source, resumes_at)
    text = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), text)
    return _BUILTIN.sub(r"\1", text)


class _Places:
    """Finds the whole paths of files that torch printed shortened.

    torch cuts off what a path has in common with its own folder, plus one character
    (``shorten_filename``, ``torch/utils/_traceback.py``, 2.13), so ``/tmp/net.py`` becomes
    ``mp/net.py``.
    """

    def __init__(self, files: Iterable[str], origins: Origins) -> None:
        self._origins = origins
        self._known = sorted(set(files), key=len)
        self._resolve = cache(self._search)

    def entry(self, printed: PrintedEntry | None) -> StackEntry | None:
        if printed is None:
            return None
        file = self._resolve(printed.file)
        origin, package = self._origins.of(file)
        if file == printed.file and file.partition("/")[0] in _TORCH_PARTS:
            origin = "torch"
            package = "torch"
        return StackEntry(
            **printed._asdict() | {"file": file, "origin": origin, "package": package}
        )

    def _search(self, short: str) -> str:
        root = self._origins.torch_root
        ending = [file for file in self._known if file.endswith(short)]
        if root is not None:
            if exact := [file for file in ending if shortened(file, root) == short]:
                return exact[0]
            first = short.partition("/")[0]
            site = root.rpartition("/")[0]
            if first in _TORCH_PARTS:
                return f"{root}/{short}"
            if any(file.startswith(f"{site}/{first}/") for file in self._known):
                return f"{site}/{short}"
        return ending[0] if ending else short


def shortened(file: str, torch_root: str) -> str:
    """A path as torch shortens it in guards."""
    if not (file.startswith("/") and torch_root.startswith("/")):
        return file
    return file[len(os.path.commonpath((file, torch_root))) + 1 :]
