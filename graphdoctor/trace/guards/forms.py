"""Parses what a guard checks, or torch's message about a guard that failed.

Comes in: the expression of one guard, without its comment. Goes out: its form, a small record of its parts as
printed. Pure; an unknown expression is ``Other``. The forms are those of ``torch/_dynamo/guards.py``
(``GuardBuilder``) and ``torch/csrc/dynamo/guards.cpp``, 2.13 and 2.15. ``meaning.py`` says what a form expects,
``changes.py`` what changed if it fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Literal, NamedTuple

from graphdoctor.trace.guards.state import read_state
from graphdoctor.trace.guards.text import (
    Call,
    Comparison,
    is_source,
    read_call,
    read_comparison,
    split_list,
)

Dims = tuple[int | None, ...]
"""Sizes or strides; None for a dynamic dim."""

TensorProperty = Literal["size", "stride", "rank", "dtype", "device", "requires_grad", "dispatch_keys"]


class TensorMatch(NamedTuple):
    """``check_tensor(…)``: all that is expected of a tensor; None for what isn't printed."""

    source: str
    type: str
    dispatch_keys: str
    dtype: str
    device: str | None
    requires_grad: bool
    size: Dims | None
    stride: Dims | None


class TensorMismatch(NamedTuple):
    """``tensor 'x' size mismatch at index 0. expected 4, actual 6``; ``advice`` is what torch adds."""

    source: str
    property: TensorProperty
    dim: int | None
    expected: str
    actual: str | None
    advice: str | None


class NotATensor(NamedTuple):
    """``expected type of 'x' to be a tensor type, but found <class 'float'>``."""

    source: str
    found: str


class TypeMismatch(NamedTuple):
    """``TYPE_MISMATCH(x)``."""

    source: str


class MissingMember(NamedTuple):
    """``getattr failed on source x``: an attribute that the guard needs is missing."""

    source: str


class MarkingMismatch(NamedTuple):
    """``_has_dynamo_dim_marking is present on runtime tensor …``: dims are marked as dynamic, or no longer."""

    is_marked_now: bool


class GlobalState(NamedTuple):
    """``___check_global_state() against {…}``; the state is None if it can't be read."""

    state: Mapping[str, object] | None


class GlobalStateChanged(NamedTuple):
    """``GLOBAL_STATE changed: grad_mode``."""

    names: tuple[str, ...]


class DefaultDevice(NamedTuple):
    """``utils_device.CURRENT_DEVICE == None``."""

    device: str


class SavedTensorHooks(NamedTuple):
    """``torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None``."""

    ids: str


class ForwardLevel(NamedTuple):
    """``torch.autograd.forward_ad._current_level == -1``."""

    level: str


class Whole(Enum):
    """What has no parts: guards, and messages about failed ones, by how their text begins."""

    MODE_STACK = "___check_torch_function_mode_stack()"
    FUNCTORCH_STATE = "torch._functorch.pyfunctorch.compare_functorch_state("
    BACKEND = "BACKEND_MATCH"
    ENTRY_GONE = "Cache line invalidated"


class TypeIs(NamedTuple):
    """``___check_type_id(x, 140), type=<class 'list'>``; the class's name is None if it isn't printed."""

    source: str
    class_name: str | None


class ObjectIs(NamedTuple):
    """``___check_obj_id(x, 140), type=<class 'function'>``."""

    source: str
    class_name: str | None


class NoAliasing(NamedTuple):
    """``check_no_aliasing(x, y)``: tensors that are all different objects."""

    sources: tuple[str, ...]


class SameTensor(NamedTuple):
    """``Duplicate tensors found: ["x", "y"]``; without names if torch prints none."""

    sources: tuple[str, ...]


class Contains(NamedTuple):
    """``___dict_contains('key', d)`` or ``set.__contains__(s, 'item')``, or with ``not``."""

    source: str
    key: str
    is_dict: bool
    is_absent: bool


class DictVersion(NamedTuple):
    """``___dict_version(d) == 3``."""

    source: str


class HasAttribute(NamedTuple):
    """``hasattr(x, 'scale')``, or with ``not``."""

    source: str
    name: str
    is_absent: bool


class DynamicMarking(NamedTuple):
    """A condition on the dims of a tensor that are marked as dynamic; ``is_absent`` if there are none."""

    source: str
    is_absent: bool


class Length(NamedTuple):
    """``len(x) == 2``, or the same for an iterator; in torch's message about a failed one, ``len(x) != 2``."""

    source: str
    length: str
    is_iterator: bool


class Empty(NamedTuple):
    """``not x``."""

    source: str


class Keys(NamedTuple):
    """``list(dict.keys(d)) == ['a']``."""

    source: str
    keys: str


class KeyAt(NamedTuple):
    """``list(dict.keys(d))[0] == 'a'``; ``key_source`` is the whole left side."""

    source: str
    key_source: str
    key: str


class IsNan(NamedTuple):
    """``(type(x) is float and __math_isnan(x))``, or ``not math.isnan(x)``."""

    source: str
    is_nan: bool


class Compared(NamedTuple):
    """``x == 1.5``, ``x is None``, ``x.size()[0] == y.size()[0]``, ``2 <= x.size()[0]``."""

    left: str
    operator: str
    right: str


class Other(NamedTuple):
    """An unknown form."""

    text: str


Form = (
    TensorMatch
    | TensorMismatch
    | NotATensor
    | TypeMismatch
    | MissingMember
    | MarkingMismatch
    | GlobalState
    | GlobalStateChanged
    | Whole
    | DefaultDevice
    | SavedTensorHooks
    | ForwardLevel
    | TypeIs
    | ObjectIs
    | NoAliasing
    | SameTensor
    | Contains
    | DictVersion
    | HasAttribute
    | DynamicMarking
    | Length
    | Empty
    | Keys
    | KeyAt
    | IsNan
    | Compared
    | Other
)

_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' (?P<property>size|stride|rank|dtype|requires_grad|dispatch key set) mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?P<values>.+)",
    re.DOTALL,
)
_DEVICE_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' Tensor device index mismatch\. "
    r"Expected device index to be (?P<old>\S+), actual (?P<new>\S+)"
)
_NOT_A_TENSOR = re.compile(r"expected type of '(.+?)' to be a tensor type,\s*'?\s*but found <class '(.+?)'>")
_TYPE_MISMATCH = re.compile(r"TYPE_MISMATCH\((.+)\)$")
_MARKING_MISMATCH = re.compile(r"_(?:has_)?dynamo_\w+ (?:is|should be) (present|absent)")
_MISSING = "getattr failed on source "
_STATE_CHANGED = "GLOBAL_STATE changed:"
_STATE_GUARD = "___check_global_state()"
_DUPLICATES = "Duplicate tensor"
_ADVICE = ". Guard failed on "
_CLASS = re.compile(r"<(?:class|enum) '([^']+)'>")
_NAN = re.compile(r"\(type\((?P<source>.+)\) is (?:float|complex) and __(?:math|numpy)_isnan\((?P=source)\)\)")
_MARKING = re.compile(r"_dynamo_\w*indices|_dynamo_dynamic_range|_dynamo_shape_ids")
_KEY_AT = re.compile(r"\[\d+\]$")


def read_form(expression: str) -> Form:
    """Parse a guard's expression, or torch's message about one that failed."""
    return (
        _message(expression)
        or _process_state(expression)
        or _called(expression)
        or _marking(expression)
        or _compared(expression)
        or Other(expression)
    )


def _message(text: str) -> Form | None:
    """Torch's message about a guard that failed."""
    if match := _MISMATCH.match(text):
        return _tensor_mismatch(match)
    if match := _DEVICE_MISMATCH.match(text):
        return TensorMismatch(match["source"], "device", None, match["old"], match["new"], None)
    if match := _NOT_A_TENSOR.match(text):
        return NotATensor(match[1], match[2])
    if match := _TYPE_MISMATCH.match(text):
        return TypeMismatch(match[1])
    if match := _MARKING_MISMATCH.match(text):
        return MarkingMismatch(is_marked_now=match[1] == "present")
    if text.startswith(_STATE_CHANGED):
        return GlobalStateChanged(tuple(text.removeprefix(_STATE_CHANGED).split()))
    if text.startswith(_MISSING):
        return MissingMember(text.removeprefix(_MISSING).strip())
    if text.startswith(_DUPLICATES):
        names = split_list(text.partition(":")[2].strip()) or []
        return SameTensor(tuple(name.strip("'\"") for name in names))
    return next((whole for whole in Whole if text.startswith(whole.value)), None)


def _tensor_mismatch(match: re.Match[str]) -> TensorMismatch:
    values, has_advice, advice = match["values"].strip().partition(_ADVICE)
    old, _, new = values.partition(", actual ")
    name: TensorProperty = "dispatch_keys" if match["property"] == "dispatch key set" else match["property"]  # type: ignore[assignment]
    return TensorMismatch(
        source=match["source"],
        property=name,
        dim=int(match["index"]) if match["index"] else None,
        expected=old,
        actual=new or None,
        advice=(_ADVICE + advice).removeprefix(". ") if has_advice else None,
    )


def _process_state(text: str) -> Form | None:
    """A guard on the state of the process, or None."""
    if text.startswith(_STATE_GUARD):
        return GlobalState(read_state(text.partition(" against ")[2]))
    if text.startswith("utils_device.CURRENT_DEVICE == "):
        return DefaultDevice(text.partition(" == ")[2])
    if text.startswith("torch._functorch.") and "top_saved_tensors_hooks" in text:
        return SavedTensorHooks(text.rpartition(" == ")[2])
    if text.startswith("torch.autograd.forward_ad._current_level == "):
        return ForwardLevel(text.rpartition(" == ")[2])
    return None


def _marking(text: str) -> DynamicMarking | None:
    """A condition on the dims that are marked on a tensor, with any brackets around it (``TENSOR_MATCH``, 2.13)."""
    if not _MARKING.search(text):
        return None
    call = read_call(text.lstrip("("))
    if call is None or call.name not in ("hasattr", "getattr") or not call.arguments:
        return None
    return DynamicMarking(call.arguments[0], is_absent=False)


def _called(text: str) -> Form | None:
    """A guard that is a call or a negated call, or None."""
    is_negated = text.startswith("not ")
    call = read_call(text.removeprefix("not "))
    if call is None or not call.arguments or call.name not in _CALLS:
        return None
    return _CALLS[call.name](_Check(call.arguments, call.rest, is_negated))


class _Check(NamedTuple):
    """A guard that is a call or a negated call.

    Args:
        arguments: At least one.
        rest: What comes after the call.
        is_negated: Whether ``not`` comes before it.
    """

    arguments: tuple[str, ...]
    rest: str
    is_negated: bool


def _check_tensor(check: _Check) -> TensorMatch | None:
    if len(check.arguments) < 4:
        return None
    source, kind, keys, dtype, *rest = check.arguments
    named = {name: value for name, _, value in (part.partition("=") for part in rest)}
    inner = read_call(keys)
    device = named.get("device", "None")
    return TensorMatch(
        source=source,
        type=kind,
        dispatch_keys=", ".join(inner.arguments) if inner else keys,
        dtype=dtype,
        device=None if device == "None" else device,
        requires_grad=named.get("requires_grad") == "True",
        size=_dims(named.get("size", "")),
        stride=_dims(named.get("stride", "")),
    )


def _dims(text: str) -> Dims | None:
    items = split_list(text)
    return None if items is None else tuple(int(item) if item.isdecimal() else None for item in items)


def _type_id(check: _Check) -> TypeIs:
    return TypeIs(check.arguments[0], _class_name(check.rest))


def _object_id(check: _Check) -> ObjectIs:
    return ObjectIs(check.arguments[0], _class_name(check.rest))


def _class_name(text: str) -> str | None:
    found = _CLASS.search(text)
    return found[1] if found else text.rpartition("type=")[2].strip() or None


def _no_aliasing(check: _Check) -> NoAliasing:
    return NoAliasing(check.arguments)


def _dict_contains(check: _Check) -> Contains | None:
    if len(check.arguments) != 2:
        return None
    key, source = check.arguments
    return Contains(source, key, is_dict=True, is_absent=check.is_negated)


def _set_contains(check: _Check) -> Contains | None:
    if len(check.arguments) != 2:
        return None
    source, item = check.arguments
    return Contains(source, item, is_dict=False, is_absent=check.is_negated)


def _dict_version(check: _Check) -> DictVersion:
    return DictVersion(check.arguments[0])


def _has_attribute(check: _Check) -> HasAttribute | DynamicMarking | None:
    if len(check.arguments) != 2:
        return None
    source, name = check.arguments[0], check.arguments[1].strip("'\"")
    is_absent = check.is_negated or _says_false(check)
    return DynamicMarking(source, is_absent) if name.startswith("_dynamo_") else HasAttribute(source, name, is_absent)


def _says_false(check: _Check) -> bool:
    return check.rest.strip() == "== False"


def _not_nan(check: _Check) -> IsNan:
    return IsNan(check.arguments[0], is_nan=not check.is_negated)


_CALLS: dict[str, Callable[[_Check], Form | None]] = {
    "check_tensor": _check_tensor,
    "___check_type_id": _type_id,
    "___check_fake_script_type": _type_id,
    "___check_obj_id": _object_id,
    "__check_obj_id": _object_id,
    "check_no_aliasing": _no_aliasing,
    "___dict_contains": _dict_contains,
    "set.__contains__": _set_contains,
    "___dict_version": _dict_version,
    "hasattr": _has_attribute,
    "math.isnan": _not_nan,
}
_LENGTHS = {
    "len": False,
    "set.__len__": False,
    "frozenset.__len__": False,
    "___tuple_iterator_len": True,
    "___list_reverseiterator_len": True,
}
"""Functions that return a length, and whether they take an iterator."""


def _compared(text: str) -> Form | None:
    if match := _NAN.fullmatch(text):
        return IsNan(match["source"], is_nan=True)
    comparison = read_comparison(text)
    if comparison is None:
        rest = text.removeprefix("not ")
        return Empty(rest) if rest != text and is_source(rest) else None
    call = read_call(comparison.left)
    found = None
    if call is not None and len(call.arguments) == 1:
        found = _length(call, comparison) or _keys(call, comparison)
    return found or Compared(comparison.left, comparison.operator, comparison.right)


def _length(call: Call, comparison: Comparison) -> Length | None:
    is_iterator = _LENGTHS.get(call.name)
    if is_iterator is None or call.rest or comparison.operator not in ("==", "!="):
        return None
    return Length(call.arguments[0], comparison.right, is_iterator)


def _keys(call: Call, comparison: Comparison) -> Keys | KeyAt | None:
    if call.name != "list" or comparison.operator != "==":
        return None
    listed = call.arguments[0]
    inner = read_call(listed)
    if inner is not None and inner.name in ("dict.keys", "keys") and len(inner.arguments) == 1 and not inner.rest:
        source = inner.arguments[0]
    elif listed.endswith(".keys()"):
        source = listed.removesuffix(".keys()")
    else:
        return None
    if not call.rest:
        return Keys(source, comparison.right)
    return KeyAt(source, comparison.left, comparison.right) if _KEY_AT.fullmatch(call.rest) else None
