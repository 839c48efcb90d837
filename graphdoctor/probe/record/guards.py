"""Recompiles, seen from inside: every guarded value that differs from a cache entry.

torch reports only the first failed guard of each cache entry. At that moment, the new values are the frame's locals and
each cache entry still has its guards, so all of them can be checked one by one. The ``graphdoctor_recompile`` artifact
follows torch's own ``recompile_reasons``.

What can only be known while an entry is being compiled (the user's line for each guard, what an object was, the
sizes that became dynamic) is kept on the entry's own guard manager and goes with it. Tensors are described, never
copied; no object of the program is asked for its ``repr``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FrameType
from typing import Any
from weakref import WeakSet

import torch

from ..torch_private import torch_api, torch_guards
from ..torch_private.replacing import Undo
from ..wire import ComparedEntryRecord, FailedGuardRecord, RecompileArtifact, StackEntryRecord, ValueRecord
from .describe import value_description
from .listener import stack_entries
from .sources import SourceReader

_MAX_FAILED = 128
"""Differing values of an entry that are written down; the others are counted."""

_MAX_CALLERS = 20
"""Frames of the program that are searched for loops, the innermost first."""

_MAX_ENTRIES = 32
"""Cache entries that are looked at, the one used last first."""

_MAX_WRITTEN = 8
"""Cache entries that are written down: the one used last, and those with the fewest differing values."""

_OBJECT_GUARDS = frozenset(
    {"ID_MATCH", "CLOSURE_MATCH", "FUNCTION_MATCH", "CLASS_MATCH", "MODULE_MATCH", "WEAKREF_ALIVE"}
)
"""Guards that compare an object's identity, as ``torch/_dynamo/guards.py``, 2.13, names them."""

_COMPARABLE = frozenset(
    {"DICT_KEYS", "LENGTH_CHECK", "DICT_LENGTH", "DICT_CONTAINS", "DIMENSION_DYNAMIC_MARKING_GUARD"}
)
"""Guards whose failure leaves the values below to be compared."""

_PLACE = re.compile(r"# (\S+):(\d+) in (\S+)")
_TENSOR_GUARDS = frozenset({"TENSOR_MATCH"})
_FOREIGN = ("G['__builtins_dict__", "G['__import_torch")
"""Sources of Python's and torch's own globals, which no program changes from call to call."""


class _Seen:
    __slots__ = ("lines", "values")

    def __init__(self) -> None:
        self.lines: dict[str, tuple[str, int, str]] = {}
        self.values: dict[str, ValueRecord] = {}


class RecompileRecorder:
    """Writes down the cause of each recompile."""

    def __init__(
        self,
        is_user_file: Callable[[str], bool],
        want_source: Callable[[str, int, str], None],
        want_file: Callable[[str], None],
        outside: Collection[FrameType] = (),
    ) -> None:
        self._outside = outside
        self._is_user_file = is_user_file
        self._want_source = want_source
        self._want_file = want_file
        self._sources = SourceReader()
        self._codes: dict[str, CodeType | None] = {}
        self._places: dict[tuple[str, int, str], tuple[str, int, str]] = {}
        self._undo: Undo | None = None
        self._noted: WeakSet[Any] = WeakSet()
        self.failures: Counter[str] = Counter()
        """Exceptions that were survived here, by type name; the session reports them as a gap."""

    def install(self) -> str | None:
        """Begin to listen.

        Returns:
            What is lost with this torch, or None.
        """
        try:
            self._undo = torch_guards.watch_guards(on_built=self._on_built, on_recompile=self._on_recompile)
        except (ImportError, AttributeError) as error:
            return f"This torch has no {error}: the causes of recompiles come from torch's text alone."
        return None

    def uninstall(self) -> None:
        """Stop listening, and leave nothing on cache entries."""
        if self._undo is not None:
            self._undo()
        for guard_manager in self._noted:
            torch_guards.detach(guard_manager)

    # While a frame is being compiled.

    def _on_built(self, guard_manager: Any, output_graph: Any) -> None:  # noqa: ANN401
        try:
            torch_guards.attach(guard_manager, self._look(guard_manager, output_graph))
            self._noted.add(guard_manager)
        except Exception as error:  # noqa: BLE001 - no error of ours may reach the program that is being compiled
            self.failures[type(error).__name__] += 1

    def _look(self, guard_manager: Any, output_graph: Any) -> _Seen:  # noqa: ANN401
        seen = _Seen()
        scope: dict[str, Any] | None = None
        for guard in output_graph.guards:
            source = torch_guards.guard_source(guard)
            if not source or source.startswith(_FOREIGN):
                continue
            place = self._user_place(guard.user_stack)
            if place is not None:
                seen.lines.setdefault(source, place)
            if not _is_worth_keeping(source, torch_guards.guard_kinds(guard)):
                continue
            if scope is None:
                scope = torch_guards.guard_scope(guard_manager, output_graph.local_scope)
            value, is_known = self._value(source, scope)
            if is_known:
                seen.values[source] = value_description(value)
        return seen

    def _user_place(self, stack: Any) -> tuple[str, int, str] | None:  # noqa: ANN401
        """The innermost user line of a guard's stack; without one, the innermost line."""
        if not stack:
            return None
        entry = next((item for item in reversed(stack) if self._is_user_file(item.filename)), stack[-1])
        place = (entry.filename, entry.lineno or 0, entry.name)
        self._want_file(entry.filename)
        return self._places.setdefault(place, place)

    # At a recompile.

    def _on_recompile(self, entries: list[Any], frame: Any) -> None:  # noqa: ANN401
        try:
            torch_api.write_artifact("graphdoctor_recompile", self._compare(entries, frame))
        except Exception as error:  # noqa: BLE001 - as above
            self.failures[type(error).__name__] += 1

    def _compare(self, entries: list[Any], frame: Any) -> RecompileArtifact:  # noqa: ANN401
        values: dict[str, tuple[Any, bool]] = {}
        failed = [(entry, self._failed(entry, frame.f_locals, values)) for entry in entries[:_MAX_ENTRIES]]
        compared = [self._compared(entry, items, values, frame) for entry, items in _worth_writing(failed)]
        caller, loops = self._caller()
        return RecompileArtifact(
            entries=len(entries),
            compared=compared,
            caller=caller,
            loops=loops,
            stack_names=[name for name in frame.f_code.co_varnames if name.startswith("___stack")],
        )

    def _compared(
        self,
        entry: Any,  # noqa: ANN401
        failed: list[FailedGuardRecord],
        values: dict[str, tuple[Any, bool]],
        frame: Any,  # noqa: ANN401
    ) -> ComparedEntryRecord:
        shown = failed[:_MAX_FAILED]
        for item in shown:
            self._complete(item, entry, values)
            if item["leaf"] == "RELATION":
                item["line"] = _printed_place(item["text"][0], frame.f_code.co_filename) or item.get("line")
            if (line := item.get("line")) is not None:
                self._want_source(*line)
        return ComparedEntryRecord(
            compile_id=torch_guards.entry_compile_id(entry), failed=shown, hidden=len(failed) - len(shown)
        )

    def _failed(self, entry: Any, f_locals: Any, values: dict[str, tuple[Any, bool]]) -> list[FailedGuardRecord]:  # noqa: ANN401
        """The guards of one cache entry that the new values fail, in the order of the tree."""
        manager = entry.guard_manager
        root = torch_guards.guard_root(manager)
        if root is None:
            reason = torch_guards.invalidation_reason(manager)
            return [FailedGuardRecord(leaf="ENTRY_GONE", source=None, text=[reason])]
        scope = torch_guards.guard_scope(manager, f_locals)
        failed = [
            FailedGuardRecord(leaf=kind, source=None, text=parts)
            for kind, parts in torch_guards.failed_root_guards(root, f_locals)
        ]
        failed += self._failed_relations(root, scope)
        failed += _without_consequences(list(self._failed_below(root, scope, values, torch_guards.attached(manager))))
        if not failed and not root.check(f_locals):
            failed = self._failed_aliasing(manager, scope, values)
        return failed

    def _failed_below(
        self,
        manager: Any,  # noqa: ANN401
        scope: dict[str, Any],
        values: dict[str, tuple[Any, bool]],
        seen: _Seen | None,
    ) -> Iterator[FailedGuardRecord]:
        for child in torch_guards.guard_children(manager):
            source = child.get_source()
            value, is_known = self._value_once(source, scope, values)
            if not is_known:
                # A source that isn't a Python expression (a dict's key that is an enum) says nothing.
                if self._code(source) is not None:
                    yield FailedGuardRecord(leaf="MISSING", source=source, text=[])
                continue
            failed = [
                FailedGuardRecord(leaf=type(leaf).__name__, source=source, text=leaf.verbose_code_parts())
                for leaf in child.get_leaf_guards()
                if callable(leaf) and leaf(value) is False
            ]
            then = seen.values.get(source) if seen else None
            if not failed and torch_guards.is_dict_manager(child) and then is not None:
                now = value_description(value)
                if (then.get("type"), then.get("keys")) != (now.get("type"), now.get("keys")):
                    failed = [FailedGuardRecord(leaf="DICT_KEYS", source=source, text=[])]
            yield from failed
            # Below another type or object there is nothing to compare with.
            if all(item["leaf"] in _COMPARABLE for item in failed):
                yield from self._failed_below(child, scope, values, seen)

    def _failed_relations(self, root: Any, scope: dict[str, Any]) -> Iterator[FailedGuardRecord]:  # noqa: ANN401
        """Conditions on dynamic sizes, each by itself: torch keeps them as one guard."""
        for part in torch_guards.relation_guards(root):
            code = self._code(part)
            if code is None:
                continue
            try:
                holds = eval(code, scope)
            except Exception:  # noqa: BLE001 - a value of another kind has no such size; its own guard reports it
                continue
            if holds is False:
                sizes = self._sizes(part, scope)
                yield FailedGuardRecord(leaf="RELATION", source=None, text=[part], sizes=sizes)

    def _sizes(self, part: str, scope: dict[str, Any]) -> dict[str, ValueRecord]:
        sizes = {}
        for source in torch_guards.sources_in(part):
            value, is_known = self._value(source, scope)
            if is_known:
                sizes[source] = value_description(value)
        return sizes

    def _failed_aliasing(
        self,
        manager: Any,  # noqa: ANN401
        scope: dict[str, Any],
        values: dict[str, tuple[Any, bool]],
    ) -> list[FailedGuardRecord]:
        """Arguments that are the same tensor now and were not before."""
        first: dict[int, str] = {}
        for source in torch_guards.unaliased_sources(manager):
            value, is_known = self._value_once(source, scope, values)
            if not is_known:
                continue
            if id(value) in first:
                other = first[id(value)]
                return [FailedGuardRecord(leaf="NO_TENSOR_ALIASING", source=source, text=[], other=other)]
            first[id(value)] = source
        return []

    def _complete(self, item: FailedGuardRecord, entry: Any, values: dict[str, tuple[Any, bool]]) -> None:  # noqa: ANN401
        seen, source = torch_guards.attached(entry.guard_manager), item["source"]
        if item["leaf"] == "GLOBAL_STATE":
            item["now"] = torch_guards.global_state()
        elif item["leaf"] == "DEFAULT_DEVICE":
            item["now"] = {"text": str(torch.get_default_device())}
        if source is None:
            if seen is not None and "sizes" in item:
                item["then"] = {name: found for name in item["sizes"] if (found := _old_size(name, seen)) is not None}
                item["line"] = next(
                    (place for name in item["sizes"] if (place := _nearest_source(name, seen.lines))), None
                )
            return
        value, is_known = values.get(source, (None, False))
        if is_known:
            item["now"] = value_description(value)
        if seen is not None:
            is_object = item["leaf"] in _OBJECT_GUARDS
            item["then"] = _nearest_source(source, seen.values) if is_object else seen.values.get(source)
            item["line"] = _nearest_source(source, seen.lines)

    def _caller(self) -> tuple[list[StackEntryRecord], dict[str, str]]:
        frames = list(torch_api.frames_above_compile(self._outside))
        users = [frame for frame in frames if self._is_user_file(frame.f_code.co_filename)][:_MAX_CALLERS]
        loops: dict[str, str] = {}
        # The outermost loop first: epoch before step.
        for user in reversed(users):
            loops |= self._loop_values(user)
        for user in users:
            self._want_file(user.f_code.co_filename)
        if users:
            self._want_source(users[0].f_code.co_filename, users[0].f_lineno, users[0].f_code.co_name)
        return stack_entries(torch_api.stack_of(frames)), loops

    def _loop_values(self, frame: FrameType) -> dict[str, str]:
        """The counters of the loops around a frame's line: ``{"step": "17"}``."""
        context = self._sources.context(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        names: list[str] = []
        for around in reversed(context["enclosing"] if context else []):
            if around["kind"] in ("for", "while"):
                names += _counted_names(around["text"])
        found = {name: frame.f_locals.get(name) for name in names}
        return {name: str(value) for name, value in found.items() if type(value) is int}

    def _value_once(self, source: str, scope: dict[str, Any], values: dict[str, tuple[Any, bool]]) -> tuple[Any, bool]:
        if source not in values:
            values[source] = self._value(source, scope)
        return values[source]

    def _value(self, source: str, scope: dict[str, Any]) -> tuple[Any, bool]:
        if source == "G":
            return scope["G"], True
        code = self._code(source)
        if code is None:
            return None, False
        try:
            return eval(code, scope), True
        except Exception:  # noqa: BLE001 - a key, attribute or item that the new value lacks
            return None, False

    def _code(self, text: str) -> CodeType | None:
        if text not in self._codes:
            try:
                self._codes[text] = compile(text, "<guard>", "eval")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._codes[text] = None
        return self._codes[text]


def _printed_place(text: str, file: str) -> tuple[str, int, str] | None:
    """The user's line in the comment of a guard, if it is in this file; torch cuts letters off the path's front."""
    found = _PLACE.search(text)
    return (file, int(found[2]), found[3]) if found is not None and file.endswith(found[1]) else None


def _without_consequences(failed: list[FailedGuardRecord]) -> list[FailedGuardRecord]:
    """The failed guards without the values that are missing because what held them has changed."""
    sources = {item["source"] for item in failed if item["leaf"] != "MISSING" and item["source"] is not None}
    changed = sources | {_owner(source) for source in sources}
    return [
        item
        for item in failed
        if item["leaf"] != "MISSING" or not any(_is_part_of(item["source"] or "", source) for source in changed)
    ]


def _owner(source: str) -> str:
    """The object that a source is an attribute or item of; an argument is its own."""
    cut = max(source.rfind("."), source.rfind("["))
    return source[:cut] if cut > 1 else source


def _is_part_of(source: str, whole: str) -> bool:
    return source.startswith(whole) and source[len(whole) : len(whole) + 1] in (".", "[")


def _is_worth_keeping(source: str, kinds: set[str]) -> bool:
    """The guard's text alone doesn't show what the value was."""
    if any(kind in _OBJECT_GUARDS or "KEY" in kind for kind in kinds):
        return True
    is_argument = not any(part in source for part in ("._parameters[", "._buffers[", "._modules["))
    return is_argument and any(kind in _TENSOR_GUARDS for kind in kinds)


def _worth_writing(failed: list[tuple[Any, list[FailedGuardRecord]]]) -> list[tuple[Any, list[FailedGuardRecord]]]:
    """Entries with their failed guards, the one used last first; without those that can't explain the recompile.

    torch drops the guards of an entry whose objects are gone: it counts only if there is no other.
    """
    living = [item for item in failed if not any(each["leaf"] == "ENTRY_GONE" for each in item[1])] or failed[:1]
    # Without a known difference from the entry used last, torch's own words say more than another entry.
    if not living or not living[0][1]:
        return []
    others = sorted((item for item in living[1:] if item[1]), key=lambda item: _weight(item[1]))
    kept = {id(entry) for entry, _ in (living[0], *others[: _MAX_WRITTEN - 1])}
    return [item for item in living if id(item[0]) in kept]


def _weight(failed: list[FailedGuardRecord]) -> int:
    return len({item["source"] or tuple(item["text"]) for item in failed})


def _nearest_source(source: str, known: dict[str, Any]) -> Any:  # noqa: ANN401
    """What is known about a source or its owner: torch guards on ``f.__code__`` because of ``f``."""
    while source not in known:
        owner = _owner(source)
        if owner == source:
            return None
        source = owner
    return known[source]


def _old_size(source: str, seen: _Seen) -> Any:  # noqa: ANN401
    """The size that a dynamic dim had at compile time: ``L['x'].size()[0]``."""
    for method, field in ((".size()[", "shape"), (".stride()[", "stride")):
        tensor, found, index = source.partition(method)
        if found and index[:-1].isdigit():
            known: Any = seen.values.get(tensor) or {}
            old = known.get(field) or []
            return old[int(index[:-1])] if int(index[:-1]) < len(old) else None
    return None


def _counted_names(header: str) -> list[str]:
    """The names that a loop's header assigns, or compares in its condition."""
    try:
        statement = ast.parse(header.rstrip() + "\n    ...").body[0]
    except (SyntaxError, ValueError):
        return []
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        nodes: Iterator[ast.AST] = ast.walk(statement.target)
    elif isinstance(statement, ast.While):
        nodes = ast.walk(statement.test)
    else:
        return []
    return [node.id for node in nodes if isinstance(node, ast.Name)]
