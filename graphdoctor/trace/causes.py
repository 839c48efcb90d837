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

from graphdoctor.facts.base import Fields, grouped
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
    small_size,
    state_changes,
    value_kind,
)
from graphdoctor.trace.guards.text import Comparison, GuardText, take_apart
from graphdoctor.trace.origin import PlaceReader

_WHOLE = {"type", "none", "identity", "attribute", "keys", "length", "value", "entry_gone"}
"""Changes after which nothing inside the value is known to be what it was."""

_COUNTS = {"size", "relation", "number", "module_number"}
"""A size or a number can be guarded on as such, and in a condition."""

_FOLLOWING = {("stride", "size"), ("stride", "rank"), ("size", "rank")}
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
        names = {(change.source or change.expression, change.kind) for change in entry.changes}
        return len(names) + entry.hidden_count

    return min((last, *possible), key=distance)


def _is_part(change: GuardChange, other: GuardChange) -> bool:
    kinds = {change.kind, other.kind}
    source = change.source
    whole = other.source
    names = {
        expression(item.source) if item.kind == "relation" and item.source else item.expression
        for item in (change, other)
    }
    if len(names) == 1 and (len(kinds) == 1 or kinds <= _COUNTS):
        return True
    if source == whole and (change.kind, other.kind) in _FOLLOWING:
        return True
    is_within = source is not None and (
        source == whole or source.startswith((f"{whole}.", f"{whole}["))
    )
    return other.kind in _WHOLE and is_within


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
_CARRIED_MEMBER = re.compile(r"(___stack\d+)\.([\w\[\]().]+)")
_GUARD_NAMES = re.compile(r'guard on "(\w+)"')
_CAPTURED = re.compile(r"\.__closure__\[\d+\]\.cell_contents")
_ARGUMENT = re.compile(r"[LG]\['.*\]")
"""An argument, a global, or an item of one; a member of something else, such as an enum, can't
alias an argument."""

_CONSTANT_GUARDS = {
    "EQUALS_MATCH",
    "TRUE_MATCH",
    "FALSE_MATCH",
    "NONE_MATCH",
    "NOT_NONE",
    "FLOAT_IS_NAN",
}
_SELF_EXPLAINED = {"GLOBAL_STATE", "TENSOR_MATCH", "TYPE_MATCH", "ID_MATCH", "WEAKREF_ALIVE"}
"""Guards whose change says all that the guard does."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_TENSOR_MEMBER = re.compile(r"\.(?:shape\[\d+\]|stride\(\d+\)|ndim|dtype|device|requires_grad)$")
_MAX_TEXT = 400
_Failed = Fields
"""A guard that the new values fail, as the probe writes it (``probe/record/guards.py``)."""

_Value = Fields
"""A guarded value, as the probe describes it (``probe/record/describe.py``)."""


def cause_of_record(
    record: Fields, place: PlaceReader, *, reasons: tuple[str, ...] = ()
) -> RecompileCause:
    """The cause in one of our records; what torch printed if it compares no cache entry."""
    entries = [_compared(entry, place) for entry in record.get("compared") or ()]
    if not entries and reasons:
        return cause_of_reasons(reasons, place)
    cause: Fields = {"nearest": None, "changes": (), "is_exact": True}
    if entries:
        nearest = nearest_entry(entries)
        last = entries[0]
        cause |= {
            "nearest": nearest.compile_id,
            "last_used": last.compile_id,
            "changes": with_previous(nearest.changes, last),
            "hidden_change_count": nearest.hidden_count,
            "also_changed": also_changed(nearest, last),
        }
    return read_fact(RecompileCause, cause)


def _compared(entry: Fields, place: PlaceReader) -> ComparedEntry:
    differing = distinct_values(
        change.replace(guard_location=line)
        for item in entry.get("failed") or ()
        for line in (_line(item, place),)
        for change in _changes(item)
    )
    changes = tuple(_without_consequences([*differing]))
    return ComparedEntry(entry.get("compile_id"), differing, changes, entry.get("hidden") or 0)


def cause_of_reasons(reasons: tuple[str, ...], place: PlaceReader) -> RecompileCause:
    """The cause as far as torch printed it: each cache entry's first failed guard, the last call's
    entry first.
    """
    guard = take_apart(reasons[0])
    line = _entry(guard.line, place) or _entry(guard.place, place)
    if guard.lower is not None and guard.lower != guard.place:
        line = None  # which bound failed isn't printed
    changes = tuple(change.replace(guard_location=line) for change in changes_of(guard))
    return RecompileCause(
        nearest=guard.compile_id,
        last_used=guard.compile_id,
        is_exact=False,
        changes=with_previous(changes, ComparedEntry(guard.compile_id, changes, changes)),
    )


def _entry(printed: PrintedEntry | None, place: PlaceReader) -> StackEntry | None:
    return None if printed is None else place(printed.file, printed.line, printed.function)


def with_carried(cause: RecompileCause, carried: Callable[[str], str]) -> RecompileCause:
    """The cause with names for the values that Dynamo passed to a resume function."""

    def words(text: str) -> str:
        if member := _CARRIED_MEMBER.fullmatch(text):
            return f"{member[2]} of {carried(member[1])}"
        return _CARRIED.sub(lambda match: carried(match[0]), text)

    def value(text: str | None) -> str | None:
        return text and _CARRIED.sub(lambda match: carried(match[0]), _NUMBER_OF_ONE.sub("", text))

    def named(changes: tuple[GuardChange, ...]) -> tuple[GuardChange, ...]:
        return tuple(
            change.replace(
                expression=words(change.expression), old=value(change.old), new=value(change.new)
            )
            for change in changes
        )

    return cause.replace(changes=named(cause.changes), also_changed=named(cause.also_changed))


def _line(item: _Failed, place: PlaceReader) -> StackEntry | None:
    # For a condition on sizes the printed one, otherwise the recorded one.
    recorded = item.get("line")
    entry = place(*recorded) if recorded else None
    if item["leaf"] == "RELATION" or entry is None:
        for text in item.get("text") or ():
            guard = take_apart(text)
            is_lower = guard.lower is not None and _is_below(guard.expression, item)
            printed = _entry(guard.lower if is_lower else guard.place, place)
            if printed is not None and (printed.origin in ("user", "third_party") or entry is None):
                return printed
    return entry


def _is_below(expression: str, item: _Failed) -> bool:
    """Return whether the new value is below a range such as ``2 <= L['x'].size()[0] <= 7``."""
    lower, source, _ = expression.split(" <= ")
    text = _text((item.get("sizes") or {}).get(source) or {}) or ""
    numbers = _NUMBER.fullmatch(text), _NUMBER.fullmatch(lower)
    return None not in numbers and float(text) < float(lower)


def _without_consequences(changes: list[GuardChange]) -> list[GuardChange]:
    # Strides follow from sizes. In another grad mode, torch treats no tensor as requiring a
    # gradient. A mode of the process changes the dispatch keys that torch compares, not the
    # tensor's own. A default device is a function mode. torch guards on a set's members beside the
    # set, and on an enum's member by identity too.
    kinds = {change.kind for change in changes}
    by_source = grouped((change.source, change.kind) for change in changes)
    resized = {
        _TENSOR_MEMBER.sub("", change.expression)
        for change in changes
        if change.kind in ("size", "rank")
    }

    def is_consequence(change: GuardChange) -> bool:
        beside = {kind for kind in by_source[change.source] if change.source}
        match change.kind:
            case "stride" if _TENSOR_MEMBER.sub("", change.expression) in resized:
                return True
            case "requires_grad" if kinds & {"grad_mode", "autocast"}:
                return True
            case "dispatch_keys" if change.old == change.new:
                return True
            case "function_mode" if "default_device" in kinds:
                return True
            case "keys" if "value" in beside:
                return True
            case "relation" | "unknown" if beside - {"relation", "unknown"}:
                if ".shape[" not in change.expression:
                    return True
        return "keys" in kinds and (change.source or "").startswith("list(dict.keys(")

    return [change for change in changes if not is_consequence(change)] or changes


def _changes(item: _Failed) -> Iterator[GuardChange]:
    texts = [str(text) for text in item.get("text") or ()]
    source = item.get("source") or ""
    guard = take_apart(texts[0]) if texts else None
    update = {"source": source or None}
    if guard is not None:
        is_explained = item["leaf"] in _SELF_EXPLAINED
        update |= {"hint": guard.hint, "guard": None if is_explained else guard.expression}
    for change in _changes_of_leaf(item, source, guard):
        fields = {name: value for name, value in update.items() if getattr(change, name) is None}
        if change.kind in ("number", "module_number") and "is_of_module" in item:
            fields["kind"] = "module_number" if item["is_of_module"] else "number"
        yield change.replace(**fields)


def _changes_of_leaf(item: _Failed, source: str, guard: GuardText | None) -> Iterable[GuardChange]:
    then = item.get("then") or {}
    now = item.get("now") or {}
    leaf = item["leaf"]
    name = expression(source)
    match leaf:
        case "DICT_KEYS" if then.get("type") != now.get("type"):
            return [change_of("type", name, _a_type(then), _a_type(now))]
        case "DICT_KEYS":
            return [change_of("keys", f"the keys of {name}", _key_list(then), _key_list(now))]
        case "MISSING":
            return [change_of("attribute", name, "present", "missing")]
        case "NO_TENSOR_ALIASING":
            both = f"{expression(item.get('other') or '')} and {name}"
            return [change_of("aliasing", both, "two tensors", "the same tensor")]
    if guard is None:
        return [change_of("unknown", name or leaf)]
    match leaf, read_form(guard.expression).parts:
        case "RELATION", parts:
            return [_relation(guard, parts, then, item.get("sizes") or {})]
        case "TYPE_MATCH" | "ID_MATCH" | "WEAKREF_ALIVE", parts:
            return [_object_change(leaf, source, guard, parts, then, now)]
        case _ if leaf in _CONSTANT_GUARDS:
            return [_constant(source, guard, now)]
        case "GLOBAL_STATE", {} as parts if parts and now:
            return state_changes(parts, now)
        case "TENSOR_MATCH", TensorMatch() as parts:
            if None in (parts.size or ()):
                # The sizes while compiling aren't those of each call.
                then = {**then, "text": meaning_of(guard).expected or "a tensor"}
            return _tensor_changes(name, parts, then, now)
        case "GLOBAL_STATE" | "TENSOR_MATCH", _:
            return changes_of(guard)
    return [_with_new(change, now) for change in changes_of(guard)]


def _tensor_changes(
    name: str, expected: TensorMatch, then: _Value, now: _Value
) -> Iterator[GuardChange]:
    if "dtype" not in now:
        kind: ChangeKind = "none" if now.get("text") == "None" else "type"
        yield change_of(kind, name, then.get("text") or "a tensor", _text(now))
        return
    size = expected.size or ()
    shape = now["shape"]
    dims: list[tuple[ChangeKind, str, object, object]] = []
    if len(size) == len(shape):
        sizes = enumerate(zip(size, shape, strict=True))
        strides = enumerate(zip(expected.stride or (), now.get("stride") or (), strict=False))
        dims += (("size", f".shape[{dim}]", old, new) for dim, (old, new) in sizes)
        dims += (("stride", f".stride({dim})", old, new) for dim, (old, new) in strides)
    members: tuple[tuple[ChangeKind, str, object, object], ...] = (
        ("tensor_class", "", expected.type, now.get("type")),
        ("dtype", ".dtype", short_dtype(expected.dtype), short_dtype(now["dtype"])),
        ("device", ".device", then.get("device") or None, now["device"]),
        ("rank", ".ndim", len(size), len(shape)),
        *dims,
        ("requires_grad", ".requires_grad", expected.requires_grad, now["requires_grad"]),
    )
    differing = [row for row in members if row[2] is not None and row[2] != row[3]]
    for kind, member, old, new in differing:
        is_parameter = expected.type == "Parameter" and kind in ("size", "stride")
        yield change_of(kind, f"{name}{member}", str(old), str(new), is_parameter=is_parameter)
    if differing:
        return
    before = then.get("keys") or expected.dispatch_keys
    kind, *values = dispatch_change(before, now.get("keys") or "")
    if expected.requires_grad and kind == "dispatch_keys":
        # torch treats a tensor as requiring a gradient only while grad mode is on.
        yield change_of("requires_grad", f"{name}.requires_grad", "True", "False")
    else:
        yield change_of(kind, name, *values)


def _object_change(
    leaf: str, source: str, guard: GuardText, class_name: object, then: _Value, now: _Value
) -> GuardChange:
    name = expression(source.removesuffix(".__code__"))
    if leaf == "TYPE_MATCH":
        old = next(changes_of(guard)).old
        is_none = old == "None" or now.get("text") == "None"
        old = then.get("text") if is_none and then else old
        return change_of("none" if is_none else "type", name, old, _a_type(now))
    old = _described(then)
    new = _described(now)
    if old == new and old is not None:
        new = f"another {new}"
    if not old and isinstance(class_name, str):
        old = f"one `{class_name.rpartition('.')[2]}`"
    return change_of(
        "identity", name, old, new, old_place=then.get("place"), new_place=now.get("place")
    )


def _described(value: _Value) -> str | None:
    text = value.get("text") or None
    return f"`{value['type']}` object" if text and text.startswith("<") else text and str(text)


def _a_type(value: _Value) -> str | None:
    kind = value.get("type")
    return "None" if kind == "NoneType" else kind and f"a {kind}"


def _key_list(value: _Value) -> str:
    keys = value.get("keys") or []
    more = (value.get("length") or 0) - len(keys)
    return ", ".join(keys) + (f" and {more} more" if more > 0 else "") if keys else "none"


def _constant(source: str, guard: GuardText, now: _Value) -> GuardChange:
    change = next(changes_of(guard))
    old = change.old
    new = _text(now)
    if change.kind == "none" and guard.expression.endswith(" is not None"):
        old = "something else"
        new = "None"
    captured = _GUARD_NAMES.search(guard.hint or "")
    name = expression(source)
    if captured and (match := _CAPTURED.search(source)):
        name = f"{captured[1]} (captured by {expression(source[: match.start()])})"
    kind = value_kind(source, old, new)
    if "dtype" in now and kind != "none":
        kind = "type"  # a constant became a tensor
    if kind == "training":
        old, new = (("train mode" if value == "True" else "eval mode") for value in (old, new))
    return change_of(kind, name, old, new)


def _relation(
    guard: GuardText, parts: object, then: _Value, sizes: Mapping[str, _Value]
) -> GuardChange:
    code = guard.expression
    match parts:
        case Comparison(left, "==", right) if (
            left in sizes and _NUMBER.fullmatch(right) and not is_relation(code)
        ):
            # A dynamic number that the code needed the value of: only this one fits.
            new = _text(sizes[left])
            kind = value_kind(left, right, new)
            return change_of(kind, expression(left), right, new, source=left)
        case Comparison(_, "is", right) if not sizes or _ARGUMENT.fullmatch(right):
            return next(changes_of(guard))
    values = then, {name: value.get("text") for name, value in sizes.items()}
    old, new = (
        ", ".join(f"{expression(name)} = {value}" for name, value in side.items()) or None
        for side in values
    )
    source = next(iter(sizes), None)
    is_small = len(sizes) == 1 and _text(sizes[source or ""]) in ("0", "1")
    small_source = source if is_small else small_size(code)
    more = {"source": source, "small_source": small_source}
    return change_of("relation", expression(code), old, new, **more)


def _with_new(change: GuardChange, now: _Value) -> GuardChange:
    if change.new is not None or not now or change.kind == "dynamic_marking":
        return change
    is_length = change.kind == "length" and "length" in now
    return change.replace(new=str(now["length"]) if is_length else _text(now))


def _text(value: _Value) -> str | None:
    text = value.get("text")
    return None if text is None else str(text)[:_MAX_TEXT]
