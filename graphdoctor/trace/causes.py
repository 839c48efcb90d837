"""Turns a ``graphdoctor_recompile`` record, or torch's printed reasons, into the cause of a
recompile.

The cause is about the cache entry that shares most of the function's history. The last call's
values passed all guards of the entry that it used, so what differs from that entry has changed
since, and nothing else that it guards on has: another entry that differs in more is of a call from
longer ago, and says nothing about this recompile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphdoctor.facts.guards import ChangeKind, GuardChange, RecompileCause, distinct_values
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.breaks import PrintedEntry
from graphdoctor.trace.guards.forms import (
    TensorMatch,
    change_of,
    changes_of,
    dispatch_change,
    expression,
    is_relation,
    meaning_of,
    read_form,
    short_dtype,
    state_changes,
    value_kind,
)
from graphdoctor.trace.guards.text import Comparison, GuardText, take_apart
from graphdoctor.trace.origin import PlaceReader

_WHOLE = frozenset(
    {"type", "none", "identity", "attribute", "keys", "length", "value", "entry_gone"}
)
"""Changes after which nothing inside the value is known to be what it was."""

_COUNTS = frozenset({"size", "relation", "number", "module_number"})
"""A size or a number can be guarded on as such, and in a condition."""

_FOLLOWING = frozenset({("stride", "size"), ("stride", "rank"), ("size", "rank")})
"""Strides follow from sizes, and sizes from the number of dims."""


@dataclass(frozen=True)
class ComparedEntry:
    """Differences from one cache entry; ``changes`` lacks what follows from another change."""

    compile_id: str | None
    differing: tuple[GuardChange, ...]
    changes: tuple[GuardChange, ...]
    hidden_count: int = 0


def nearest_entry(entries: Sequence[ComparedEntry]) -> ComparedEntry:
    """The entry with the fewest differences, of those that differ only in values that changed since
    the last call.
    """
    last = entries[0]
    # The last call had what these were compiled for, but for values that changed since.
    possible = [
        entry
        for entry in entries[1:]
        if not entry.hidden_count
        and all(
            any(_is_part(change, other) for other in last.differing) for change in entry.differing
        )
    ]

    def distance(entry: ComparedEntry) -> int:
        names = {change.source or change.expression for change in entry.changes}
        return len(names) + entry.hidden_count

    return min((last, *possible), key=distance)


def _is_part(change: GuardChange, other: GuardChange) -> bool:
    kinds, source, whole = {change.kind, other.kind}, change.source, other.source
    if _name(change) == _name(other) and (len(kinds) == 1 or kinds <= _COUNTS):
        return True
    if source == whole and (change.kind, other.kind) in _FOLLOWING:
        return True
    is_within = source is not None and (
        source == whole or source.startswith((f"{whole}.", f"{whole}["))
    )
    return other.kind in _WHOLE and is_within


def _name(change: GuardChange) -> str:
    return (
        expression(change.source)
        if change.kind == "relation" and change.source
        else change.expression
    )


def with_previous(changes: Iterable[GuardChange], last: ComparedEntry) -> tuple[GuardChange, ...]:
    """The changes with the value that each had in the function's last call, as far as its entry
    shows it.
    """
    # Several values pass a relation, so that the last call's isn't known.
    shown = [change for change in last.differing if change.kind != "relation"]
    values = {change.key: change.old for change in reversed(shown)}
    return tuple(change.replace(previous=values.get(change.key)) for change in changes)


def also_changed(nearest: ComparedEntry, last: ComparedEntry) -> tuple[GuardChange, ...]:
    """Return what else changed since the last call: to the values that the nearest entry was
    compiled for.
    """
    named = {change.expression for change in nearest.differing}
    return tuple(
        change for change in with_previous(last.changes, last) if change.expression not in named
    )


_CARRIED = re.compile(r"\b___stack\d+")
_NUMBER_OF_ONE = re.compile(r"^___stack\d+ = (?!.*___stack)")
_GUARD_NAMES = re.compile(r'guard on "(\w+)"')
_CAPTURED = re.compile(r"\.__closure__\[\d+\]\.cell_contents")
_ARGUMENT = re.compile(r"[LG]\['.*\]")
"""An argument, a global, or an item of one; a member of something else, such as an enum, can't
alias an argument."""

_CONSTANT_GUARDS = frozenset(
    {"EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH", "NONE_MATCH", "NOT_NONE", "FLOAT_IS_NAN"}
)
_TOLD = frozenset({"GLOBAL_STATE", "TENSOR_MATCH", "TYPE_MATCH", "ID_MATCH", "WEAKREF_ALIVE"})
"""Guards whose change says all that the guard does."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MAX_TEXT = 400
_Failed = Mapping[str, Any]
"""A guard that the new values fail, as the probe writes it (``probe/record/guards.py``)."""

_Value = Mapping[str, Any]
"""A guarded value, as the probe describes it (``probe/record/describe.py``)."""

_NO_VALUE: _Value = {}


def cause_of_record(
    record: Mapping[str, Any], place: PlaceReader, *, reasons: tuple[str, ...] = ()
) -> RecompileCause:
    """The cause in one of our records; what torch printed if it compares no cache entry."""
    entries = [_compared(entry, place) for entry in record.get("compared") or ()]
    loops = record.get("loops") or {}
    if not entries and reasons:
        return cause_of_reasons(reasons, place).replace(loop_values=loops)
    cause = {"entry_count": record.get("entries"), "loop_values": loops, "is_exact": True}
    if entries:
        nearest, last = nearest_entry(entries), entries[0]
        cause |= {
            "nearest": nearest.compile_id,
            "last_used": last.compile_id,
            "changes": with_previous(nearest.changes, last),
            "hidden_change_count": nearest.hidden_count,
            "also_changed": also_changed(nearest, last),
        }
    return read_fact(RecompileCause, {"nearest": None, "changes": ()} | cause)


def _compared(entry: Mapping[str, Any], place: PlaceReader) -> ComparedEntry:
    located = ((item, _line(item, place)) for item in entry.get("failed") or ())
    differing = distinct_values(
        change.replace(guard_location=line) for item, line in located for change in _changes(item)
    )
    return ComparedEntry(
        entry.get("compile_id"),
        differing,
        tuple(_without_consequences(list(differing))),
        entry.get("hidden") or 0,
    )


def cause_of_reasons(reasons: tuple[str, ...], place: PlaceReader) -> RecompileCause:
    """The cause as far as torch printed it: each cache entry's first failed guard, the last call's
    entry first.
    """
    guard = take_apart(reasons[0])
    line = _entry(guard.line, place) or _entry(guard.place, place)
    changes = tuple(change.replace(guard_location=line) for change in changes_of(guard))
    last = ComparedEntry(guard.compile_id, changes, changes)
    fields: dict[str, Any] = {
        "nearest": guard.compile_id,
        "last_used": guard.compile_id,
        "is_exact": False,
    }
    return RecompileCause(**fields, entry_count=len(reasons), changes=with_previous(changes, last))


def _entry(printed: PrintedEntry | None, place: PlaceReader) -> StackEntry | None:
    return None if printed is None else place(printed.file, printed.line, printed.function)


def with_carried(cause: RecompileCause, carried: Callable[[str], str]) -> RecompileCause:
    """The cause with names for the values that Dynamo passed to a resume function."""

    def value(text: str | None) -> str | None:
        return text and _CARRIED.sub(lambda match: carried(match[0]), _NUMBER_OF_ONE.sub("", text))

    def named(changes: tuple[GuardChange, ...]) -> tuple[GuardChange, ...]:
        words = ((change, _carried_words(change.expression, carried)) for change in changes)
        return tuple(
            change.replace(expression=text, old=value(change.old), new=value(change.new))
            for change, text in words
        )

    return cause.replace(changes=named(cause.changes), also_changed=named(cause.also_changed))


def _carried_words(text: str, carried: Callable[[str], str]) -> str:
    member = re.fullmatch(r"(___stack\d+)\.([\w\[\]().]+)", text)
    if member:
        return f"{member[2]} of {carried(member[1])}"
    return _CARRIED.sub(lambda match: carried(match[0]), text)


def _line(item: _Failed, place: PlaceReader) -> StackEntry | None:
    # For a condition on sizes the printed one, otherwise the recorded one.
    kept = item.get("line")
    entry = place(*kept) if kept else None
    if item["leaf"] == "RELATION" or entry is None:
        for text in item.get("text") or ():
            printed = _entry(take_apart(text).place, place)
            if printed is not None and (printed.origin in ("user", "third_party") or entry is None):
                return printed
    return entry


def _without_consequences(changes: list[GuardChange]) -> list[GuardChange]:
    # Strides follow from sizes. In another grad mode, torch treats no tensor as requiring a
    # gradient. A mode of the process changes the dispatch keys that torch compares, not the
    # tensor's own. A default device is a function mode.
    kinds = {change.kind for change in changes}
    resized = {
        _tensor_of(change.expression) for change in changes if change.kind in ("size", "rank")
    }
    explained = {
        change.source
        for change in changes
        if change.source and change.kind not in ("relation", "unknown")
    }
    replaced = {change.source for change in changes if change.source and change.kind == "value"}
    kept = [
        change
        for change in changes
        if not (change.kind == "stride" and _tensor_of(change.expression) in resized)
        and not (change.kind == "requires_grad" and "grad_mode" in kinds)
        and not (change.kind == "dispatch_keys" and change.old == change.new)
        and not (change.kind == "function_mode" and "default_device" in kinds)
        and not ("keys" in kinds and (change.source or "").startswith("list(dict.keys("))
        # torch guards on a set's members beside the set, and on an enum's member by identity too.
        and not (change.kind == "keys" and change.source in replaced)
        and not (
            change.kind in ("relation", "unknown")
            and change.source in explained
            and ".shape[" not in change.expression
        )
    ]
    return kept or changes


def _tensor_of(text: str) -> str:
    return re.sub(r"\.(?:shape\[\d+\]|stride\(\d+\)|ndim|dtype|device|requires_grad)$", "", text)


def _changes(item: _Failed) -> Iterator[GuardChange]:
    texts, source = [str(text) for text in item.get("text") or ()], item.get("source") or ""
    words = take_apart(texts[0]) if texts else None
    update: dict[str, Any] = {"source": source or None}
    if words is not None:
        update |= {"hint": words.hint, "guard": None if item["leaf"] in _TOLD else words.expression}
    number: ChangeKind = "module_number" if item.get("is_of_module") else "number"
    for change in _found(item, source, words):
        fields = vars(change)
        added = {key: value for key, value in update.items() if fields[key] is None}
        is_known = change.kind in ("number", "module_number") and "is_of_module" in item
        yield change.replace(**added, kind=number if is_known else change.kind)


def _found(item: _Failed, source: str, words: GuardText | None) -> Iterable[GuardChange]:
    then, now = item.get("then") or _NO_VALUE, item.get("now") or _NO_VALUE
    match item["leaf"]:
        case "DICT_KEYS":
            return [_keys_change(source, then, now)]
        case "MISSING":
            return [change_of("attribute", expression(source), "present", "missing")]
        case "NO_TENSOR_ALIASING":
            both = f"{expression(item.get('other') or '')} and {expression(source)}"
            return [change_of("aliasing", both, "two tensors", "the same tensor")]
        case leaf if words is None:
            return [change_of("unknown", expression(source) or leaf)]
        case "RELATION":
            return [_relation(words, item)]
        case "TYPE_MATCH" | "ID_MATCH" | "WEAKREF_ALIVE":
            return [_object_change(item["leaf"], source, words, then, now)]
        case leaf if leaf in _CONSTANT_GUARDS:
            return [_constant(source, words, now)]
    parts = read_form(words.expression).parts
    match item["leaf"], parts:
        case "GLOBAL_STATE", {} if parts and item.get("now"):
            return state_changes(parts, item["now"])
        case "TENSOR_MATCH", TensorMatch():
            if None in (parts.size or ()):
                # The sizes while compiling aren't those of each call.
                then = {**then, "text": meaning_of(words).expected or "a tensor"}
            return _tensor_changes(source, parts, then, now)
        case "GLOBAL_STATE" | "TENSOR_MATCH", _:
            return changes_of(words)
    return [_with_new(change, now) for change in changes_of(words)]


def _tensor_changes(
    source: str, expected: TensorMatch, then: _Value, now: _Value
) -> Iterator[GuardChange]:
    name = expression(source)
    if "dtype" not in now:
        kind: ChangeKind = "none" if now.get("text") == "None" else "type"
        yield change_of(kind, name, then.get("text") or "a tensor", _text(now))
        return
    changes = list(_member_changes(name, expected, then, now))
    yield from changes or [_hidden_change(name, expected, then, now)]


def _member_changes(
    name: str, expected: TensorMatch, then: _Value, now: _Value
) -> Iterator[GuardChange]:
    size, shape = expected.size or (), now["shape"]
    is_same_rank = len(size) == len(shape)
    sizes = enumerate(zip(size, shape, strict=True)) if is_same_rank else ()
    strides = (
        enumerate(zip(expected.stride or (), now.get("stride") or (), strict=False))
        if is_same_rank
        else ()
    )
    members: tuple[tuple[ChangeKind, str, object, object], ...] = (
        ("tensor_class", "", expected.type, now.get("type")),
        ("dtype", ".dtype", short_dtype(expected.dtype), short_dtype(now["dtype"])),
        ("device", ".device", then.get("device") or None, now["device"]),
        ("rank", ".ndim", len(size), len(shape)),
        *(("size", f".shape[{dim}]", old, new) for dim, (old, new) in sizes),
        *(("stride", f".stride({dim})", old, new) for dim, (old, new) in strides),
        ("requires_grad", ".requires_grad", expected.requires_grad, now["requires_grad"]),
    )
    for kind, member, old, new in members:
        if old is not None and old != new:
            is_parameter = expected.type == "Parameter" and kind in ("size", "stride")
            yield change_of(kind, f"{name}{member}", str(old), str(new), is_parameter=is_parameter)


def _hidden_change(name: str, expected: TensorMatch, then: _Value, now: _Value) -> GuardChange:
    before, after = then.get("keys") or expected.dispatch_keys, now.get("keys") or ""
    if expected.requires_grad and ("ADInplaceOrView" in before) == ("ADInplaceOrView" in after):
        # torch treats a tensor as requiring a gradient only while grad mode is on.
        return change_of("requires_grad", f"{name}.requires_grad", "True", "False")
    kind, old, new = dispatch_change(before, after)
    return change_of(kind, name, old, new)


def _object_change(
    leaf: str, source: str, guard: GuardText, then: _Value, now: _Value
) -> GuardChange:
    name = expression(source.removesuffix(".__code__"))
    if leaf == "TYPE_MATCH":
        change = next(changes_of(guard))
        is_none = change.old == "None" or now.get("text") == "None"
        old = then.get("text") if is_none and then else change.old
        return change_of("none" if is_none else "type", name, old, _a_type(now))
    old, new = _described(then), _described(now)
    if old == new and old is not None:
        new = f"another {new}"
    if not old and isinstance(kind := read_form(guard.expression).parts, str):
        old = f"one `{kind.rpartition('.')[2]}`"
    places: dict[str, Any] = {"old_place": then.get("place"), "new_place": now.get("place")}
    return change_of("identity", name, old, new, **places)


def _described(value: _Value) -> str | None:
    text = value.get("text") or None
    return f"`{value['type']}` object" if text and text.startswith("<") else text and str(text)


def _a_type(value: _Value) -> str | None:
    kind = value.get("type")
    return "None" if kind == "NoneType" else kind and f"a {kind}"


def _keys_change(source: str, then: _Value, now: _Value) -> GuardChange:
    name = expression(source)
    if then.get("type") != now.get("type"):
        return change_of("type", name, _a_type(then), _a_type(now))
    return change_of("keys", f"the keys of {name}", _key_list(then), _key_list(now))


def _key_list(value: _Value) -> str:
    keys = value.get("keys") or []
    more = (value.get("length") or 0) - len(keys)
    return ", ".join(keys) + (f" and {more} more" if more > 0 else "") if keys else "none"


def _constant(source: str, guard: GuardText, now: _Value) -> GuardChange:
    change = next(changes_of(guard))
    old, new = change.old, _text(now)
    if change.kind == "none" and guard.expression.endswith(" is not None"):
        old, new = "something else", "None"
    captured, name = _GUARD_NAMES.search(guard.hint or ""), expression(source)
    if captured and (match := _CAPTURED.search(source)):
        name = f"{captured[1]} (captured by {expression(source[: match.start()])})"
    kind = value_kind(source, old, new)
    if "dtype" in now and kind != "none":
        kind = "type"  # a constant became a tensor
    if kind == "training":
        old, new = (("train mode" if value == "True" else "eval mode") for value in (old, new))
    return change_of(kind, name, old, new)


def _relation(guard: GuardText, item: _Failed) -> GuardChange:
    code, then, sizes = guard.expression, item.get("then") or {}, item.get("sizes") or {}
    match read_form(code).parts:
        case Comparison(left, "==", right) if (
            left in sizes and _NUMBER.fullmatch(right) and not is_relation(code)
        ):
            # A dynamic number that the code needed the value of: only this one fits.
            new = _text(sizes[left])
            kind = value_kind(left, right, new)
            return GuardChange(
                kind=kind, source=left, expression=expression(left), old=right, new=new
            )
        case Comparison(_, "is", right) if not sizes or _ARGUMENT.fullmatch(right):
            return next(changes_of(guard))
    old = ", ".join(f"{expression(name)} = {value}" for name, value in then.items()) or None
    new = (
        ", ".join(f"{expression(name)} = {value.get('text')}" for name, value in sizes.items())
        or None
    )
    return GuardChange(
        kind="relation",
        source=next(iter(sizes), None),
        expression=expression(code),
        old=old,
        new=new,
    )


def _with_new(change: GuardChange, now: _Value) -> GuardChange:
    if change.new is not None or not now or change.kind == "dynamic_marking":
        return change
    is_length = change.kind == "length" and "length" in now
    return change.replace(new=str(now["length"]) if is_length else _text(now))


def _text(value: _Value) -> str | None:
    text = value.get("text")
    return None if text is None else str(text)[:_MAX_TEXT]
