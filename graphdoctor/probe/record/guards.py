"""Recompiles, seen from inside: every guarded value that differs from a cache entry.

torch reports only the first failed guard of each. At that moment the new values are the frame's
locals and each cache entry still has its guards, so all of them can be checked one by one, for
``graphdoctor_recompile``.

What only shows while an entry is being compiled (the user's line for each guard, what an object
was, the sizes that became dynamic) is kept as long as the entry's own guard manager lives. Tensors
are described, never copied; no object of the program is asked for its ``repr``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn import Module

from ...facts.base import Fields
from ..torch_private import torch_guards
from ..torch_private.torch_api import Failures, Undo, frames_above_compile, name_of, stack_of
from .describe import value_description
from .files import is_user_file
from .listener import TraceListener, stack_entries

_MAX_FAILED = 128
"""Differing values of an entry that are written down; the others are counted."""

_MAX_CALLERS = 20
"""Frames of the program whose files are recorded, the innermost first."""

_MAX_ENTRIES = 32
"""Cache entries that are looked at, the one used last first."""

_MAX_WRITTEN = 8
"""Cache entries that are written down: the one used last, and those with the fewest differing
values."""

_OBJECT_GUARDS = frozenset(
    {"ID_MATCH", "CLOSURE_MATCH", "FUNCTION_MATCH", "CLASS_MATCH", "MODULE_MATCH", "WEAKREF_ALIVE"}
)
"""Guards that compare an object's identity, as ``torch/_dynamo/guards.py``, 2.13, names them."""

_COMPARABLE = frozenset(
    {"DICT_KEYS", "LENGTH_CHECK", "DICT_LENGTH", "DICT_CONTAINS", "DIMENSION_DYNAMIC_MARKING_GUARD"}
)
"""Guards whose failure leaves the values below to be compared."""

_STATELESS = frozenset(
    {"GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE", "DUAL_LEVEL_MATCH"}
)
"""Guards on process-wide state that have a name here; others are ``AMBIENT``."""

_SOURCE = re.compile(r"[LG]\['\w+'\](?:\.\w+(?:\(\))?|\[[^\[\]]+\])*")
_PLACE = re.compile(r"# (\S+):(\d+) in (\S+)")
_FOREIGN = ("G['__builtins_dict__", "G['__import_torch")
"""Sources of Python's and torch's own globals, which no program changes from call to call."""

_OF_CLASS = "dict(type("
"""Begins the source of a class's attribute that is read of an object."""
_PARTS_OF_MODULES = ("._parameters[", "._buffers[", "._modules[")
_UNKNOWN = object()

_Failed = Fields
"""A guard that the new values fail: ``leaf``, its class or ``RELATION``, ``MISSING``,
``DICT_KEYS``, ``ENTRY_GONE``; ``source`` or None, ``text``, the value ``then`` and ``now``, whether
a module holds it (``is_of_module``), ``sizes`` of a relation, the ``other`` of two tensors that are
one, and the user's ``line`` that made torch guard on it: file, line and function."""

_Place = tuple[str, int, str]
"""File, line and function."""


_Values = dict[str, Fields]
_Compiled = tuple[dict[str, _Place], _Values]
"""Lines and described values by source when an entry was compiled."""


class _Now(Fields):
    """The new values of a frame by source, each evaluated once; ``_UNKNOWN`` where they have
    none.
    """

    def __init__(self, f_locals: Any) -> None:
        super().__init__()
        self.f_locals = f_locals
        self.scope: Fields = {}

    def __missing__(self, source: str) -> Any:
        self[source] = value = _evaluated(source, self.scope)
        return value


class RecompileRecorder:
    """Hands on the cause of each recompile; ``listener`` records the program's lines that it names,
    None if nothing does.
    """

    def __init__(self, listener: TraceListener | None, write: Callable[[Fields], None]) -> None:
        self._listener = listener
        self._write = write
        self._compiled: WeakKeyDictionary[Any, _Compiled] = WeakKeyDictionary()
        self.failures = Failures()
        """The session reports them as a gap."""

    def install(self) -> Undo:
        """Begin to listen.

        Raises:
            AttributeError, ImportError: This torch lacks a place of the hooks.
        """
        undo = torch_guards.watch_guards(on_built=self._on_built, on_recompile=self._on_recompile)

        def stop() -> None:
            undo()
            self._compiled.clear()

        return stop

    # While a frame is being compiled.

    def _on_built(self, guard_manager: Any, output_graph: Any) -> None:
        with self.failures.survived():
            self._compiled[guard_manager] = self._look(guard_manager, output_graph)

    def _look(self, guard_manager: Any, output_graph: Any) -> _Compiled:
        lines: dict[str, _Place] = {}
        values = {}
        scope = torch_guards.guard_scope(guard_manager, output_graph.local_scope)
        for guard in output_graph.guards:
            source = name_of(guard)
            if not source or source.startswith(_FOREIGN):
                continue
            if stack := guard.user_stack:
                # The innermost line of the user's; without one, the innermost line.
                users = (item for item in reversed(stack) if is_user_file(item.filename))
                entry = next(users, stack[-1])
                if self._listener is not None:
                    self._listener.want_file(entry.filename)
                lines.setdefault(source, (entry.filename, entry.lineno or 0, entry.name))
            # The kinds that it became, and the one that Dynamo asked for.
            kinds = {*(guard.guard_types or ()), guard.create_fn_name()}
            is_object = bool(kinds & _OBJECT_GUARDS) or any("KEY" in kind for kind in kinds)
            is_of_module = any(part in source for part in _PARTS_OF_MODULES)
            is_kept = is_object or ("TENSOR_MATCH" in kinds and not is_of_module)
            if is_kept and (value := _evaluated(source, scope)) is not _UNKNOWN:
                values[source] = value_description(value)
        return lines, values

    # At a recompile.

    def _on_recompile(self, entries: list[Any], frame: Any) -> None:
        with self.failures.survived():
            self._write(self._compare(entries, frame))

    def _compare(self, entries: list[Any], frame: Any) -> Fields:
        now = _Now(frame.f_locals)
        code = frame.f_code
        compared = []
        failed = [(entry, self._failed(entry, now)) for entry in entries[:_MAX_ENTRIES]]
        for entry, guards in _worth_writing(failed):
            shown = guards[:_MAX_FAILED]
            compiled = self._compiled.get(entry.guard_manager, ({}, {}))
            for item in shown:
                self._complete(item, compiled, now)
                if item["leaf"] == "RELATION":
                    printed = _printed_place(item["text"][0], code.co_filename)
                    item["line"] = printed or item.get("line")
                if self._listener is not None and (line := item.get("line")) is not None:
                    self._listener.want_source(*line)
            hidden = len(guards) - len(shown)
            numbered = {"compile_id": str(entry.compile_id), "failed": shown, "hidden": hidden}
            compared.append(numbered)
        # The entry that the function's last call used comes first; none if its failed guards are
        # unknown.
        return {
            "compared": compared,
            "caller": [] if self._listener is None else self._caller(self._listener),
            "stack_names": [name for name in code.co_varnames if name.startswith("___stack")],
        }

    def _failed(self, entry: Any, now: _Now) -> list[_Failed]:
        manager = entry.guard_manager
        root = torch_guards.guard_root(manager)
        if root is None:
            return [_failure("ENTRY_GONE", text=[manager.invalidation_reason])]
        now.scope = torch_guards.guard_scope(manager, now.f_locals)
        failed = []
        for leaf in root.get_leaf_guards():
            # The relational ones aren't callable, and keep state.
            if callable(leaf) and leaf(now.f_locals) is False:
                kind = type(leaf).__name__
                kind = kind if kind in _STATELESS else "AMBIENT"
                failed.append(_failure(kind, text=leaf.verbose_code_parts()))
        failed += _failed_relations(root, now)
        _, before = self._compiled.get(manager, ({}, {}))
        failed += _without_consequences(list(_failed_below(root, now, before)))
        return failed or ([] if root.check(now.f_locals) else _failed_aliasing(manager, now))

    def _complete(self, item: _Failed, compiled: _Compiled, now: _Now) -> None:
        source = item["source"]
        lines, values = compiled
        if item["leaf"] == "GLOBAL_STATE":
            item["now"] = torch_guards.global_state()
        elif item["leaf"] == "DEFAULT_DEVICE":
            item["now"] = {"text": str(torch.get_default_device())}
        if source is None:
            if "sizes" in item:
                sizes = {name: _old_size(name, values) for name in item["sizes"]}
                item["then"] = {name: size for name, size in sizes.items() if size is not None}
                places = (_of_nearest(name, lines) for name in sizes)
                item["line"] = next(filter(None, places), None)
            return
        if (value := now[source]) is not _UNKNOWN:
            item["now"] = value_description(value)
            path = source.removeprefix(_OF_CLASS)
            wholes = (path[: match.start()] for match in re.finditer(r"[.\[)]", path))
            item["is_of_module"] = any(isinstance(now[whole], Module) for whole in wholes)
        is_object = item["leaf"] in _OBJECT_GUARDS
        item["then"] = _of_nearest(source, values) if is_object else values.get(source)
        item["line"] = _of_nearest(source, lines)

    def _caller(self, listener: TraceListener) -> list[Fields]:
        frames = list(frames_above_compile(listener.outside))
        users = [frame for frame in frames if is_user_file(frame.f_code.co_filename)][:_MAX_CALLERS]
        for user in users:
            listener.want_file(user.f_code.co_filename)
        if users:
            listener.want_source(*_place_of(users[0]))
        return stack_entries(stack_of(frames))


def _place_of(frame: FrameType) -> _Place:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _failure(
    leaf: str, source: str | None = None, text: Sequence[str] = (), **more: object
) -> _Failed:
    return {"leaf": leaf, "source": source, "text": [*text], **more}


@lru_cache(maxsize=4096)
def _code(text: str) -> CodeType | None:
    try:
        return compile(text, "<guard>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _evaluated(text: str, scope: Fields) -> Any:
    code = _code(text)
    try:
        return _UNKNOWN if code is None else eval(code, scope)
    except Exception:  # noqa: BLE001 - a key, attribute or item that the new value lacks
        return _UNKNOWN


def _failed_below(manager: Any, now: _Now, before: _Values) -> Iterator[_Failed]:
    for child in torch_guards.guard_children(manager):
        source = child.get_source()
        value = now[source]
        if value is _UNKNOWN:
            # A source that isn't a Python expression (a dict's key that is an enum) says nothing.
            if _code(source) is not None:
                yield _failure("MISSING", source)
            continue
        failed = []
        for leaf in child.get_leaf_guards():
            # The length of None, say, raises: the guard on the type before it has failed.
            with suppress(Exception):
                if callable(leaf) and leaf(value) is False:
                    kind = type(leaf).__name__
                    failed.append(_failure(kind, source, leaf.verbose_code_parts()))
        if any(item["leaf"] == "TYPE_MATCH" for item in failed):
            # What isn't a list has no length to compare: 2.15 calls that another one.
            failed = [item for item in failed if item["leaf"] != "LENGTH_CHECK"]
        then = before.get(source)
        if not failed and then is not None and torch_guards.is_dict_manager(child):
            described = value_description(value)
            if any(then.get(part) != described.get(part) for part in ("type", "keys")):
                failed = [_failure("DICT_KEYS", source)]
        yield from failed
        # Below another type or object there is nothing to compare with.
        if all(item["leaf"] in _COMPARABLE for item in failed):
            yield from _failed_below(child, now, before)


def _failed_relations(root: Any, now: _Now) -> Iterator[_Failed]:
    """Conditions on dynamic sizes, each by itself: torch keeps them as one guard."""
    leaves = root.get_epilogue_lambda_guards()
    for part in [part for leaf in leaves for part in leaf.verbose_code_parts()]:
        # A value of another kind has no such size; its own guard reports it.
        if _evaluated(part, now.scope) is False:
            condition, *_ = re.split(r"\s+# ", part, maxsplit=1)
            sizes = {
                source: value_description(value)
                for source in _SOURCE.findall(condition)
                if (value := now[source]) is not _UNKNOWN
            }
            yield _failure("RELATION", text=[part], sizes=sizes)


def _failed_aliasing(manager: Any, now: _Now) -> list[_Failed]:
    first: dict[int, str] = {}
    for named in manager.no_tensor_aliasing_sources:
        # Before 2.15, they are names.
        source = named if isinstance(named, str) else name_of(named)
        value = now[source]
        if value is not _UNKNOWN and (other := first.setdefault(id(value), source)) != source:
            return [_failure("NO_TENSOR_ALIASING", source, other=other)]
    return []


def _printed_place(text: str, file: str) -> _Place | None:
    """Return the user's line in the comment of a guard, if it is in this file; torch cuts letters
    off the path's front.
    """
    match = _PLACE.search(text)
    is_here = match is not None and file.endswith(match[1])
    return (file, int(match[2]), match[3]) if match is not None and is_here else None


def _without_consequences(failed: list[_Failed]) -> list[_Failed]:
    """Return the failed guards without the values that are missing because what held them has
    changed.
    """
    sources = {item["source"] for item in failed if item["leaf"] != "MISSING" and item["source"]}
    changed = sources | set(map(_owner, sources))
    below = tuple(f"{source}{sign}" for source in changed for sign in ".[")
    return [
        item
        for item in failed
        if item["leaf"] != "MISSING" or not (item["source"] or "").startswith(below)
    ]


def _owner(source: str) -> str:
    """Return the object that a source is an attribute or item of; an argument is its own."""
    cut = max(source.rfind("."), source.rfind("["))
    return source[:cut] if cut > 1 else source


def _worth_writing(failed: list[tuple[Any, list[_Failed]]]) -> list[tuple[Any, list[_Failed]]]:
    """Entries with their failed guards, the one used last first; without those that can't explain
    the recompile.

    One whose guards torch has dropped, since its objects are gone, counts only if there is no
    other.
    """
    living = [
        item for item in failed if not any(guard["leaf"] == "ENTRY_GONE" for guard in item[1])
    ] or failed[:1]
    # Without a difference from the entry used last, torch's own words say more than another entry.
    if not living or not living[0][1]:
        return []
    others = [item for item in living[1:] if item[1]]
    others.sort(key=lambda item: len({it["source"] or tuple(it["text"]) for it in item[1]}))
    kept = {id(entry) for entry, _ in (living[0], *others[: _MAX_WRITTEN - 1])}
    return [item for item in living if id(item[0]) in kept]


def _of_nearest(source: str, table: Fields) -> Any:
    """Return the entry of a source or its owner: torch guards on ``f.__code__`` because of
    ``f``.
    """
    while source not in table and (owner := _owner(source)) != source:
        source = owner
    return table.get(source)


def _old_size(source: str, values: _Values) -> Any:
    """Return the size that a dynamic dim had at compile time: ``L['x'].size()[0]``."""
    for method, field in ((".size()[", "shape"), (".stride()[", "stride")):
        tensor, separator, index = source.partition(method)
        if separator and index[:-1].isdigit():
            sizes = values.get(tensor, {}).get(field) or []
            return dict(enumerate(sizes)).get(int(index[:-1]))
    return None
