"""Puts into words what a guard expects.

Comes in: a guard's text, split into its parts. Goes out: a ``Meaning``: the kind of guard, the value's source, and
the expected value in words. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphdoctor.trace.guards import forms
from graphdoctor.trace.guards.forms import Dims, Form, read_form
from graphdoctor.trace.guards.state import short_dtype, state_words
from graphdoctor.trace.guards.text import GuardText, is_source, read_comparison

_NUMBER = re.compile(r"-?\d+$")
_BACKENDS = ("CUDA", "XPU", "MPS", "Meta", "HPU")
"""Dispatch keys of devices that are shown; the CPU isn't."""

_SAME_OBJECT = {
    "code": "the same code object",
    "type": "the same class",
    "NoneType": "None",
    "ellipsis": "...",
    "bool": "the same bool",
}
_WORD_OF = {"builtin_function_or_method": "function"}
_MAX_EXPECTED = 120
_MARKING = "DIMENSION_DYNAMIC_MARKING_GUARD"
_NO_MARKING = "no dynamic marking"
_SAME_MARKING = "the same dynamic marking"
_SAME_STATE = "the same process-wide state"
_SAME_TYPE = "a value of the same type"


@dataclass(frozen=True)
class Meaning:
    """What one guard expects.

    Args:
        kind: torch's name for the kind of guard, such as ``TENSOR_MATCH``; None if unknown.
        source: torch's source of the value, such as ``L['x']`` (in recompile reasons without the ``L[…]``); None for
            process-wide state and if unknown.
        expected: What the value must be, such as ``f32[4, 4]``, ``1.5`` or ``a dict``; None if unknown.
    """

    kind: str | None = None
    source: str | None = None
    expected: str | None = None


def meaning_of(guard: GuardText) -> Meaning:
    """What a guard expects; its kind is the printed one, or the one that its form belongs to."""
    found = _meaning(read_form(guard.expression))
    expected = found.expected
    if expected is not None and len(expected) > _MAX_EXPECTED:
        expected = f"{expected[: _MAX_EXPECTED - 1]}…"
    return Meaning(guard.kind or found.kind, found.source, expected)


def _meaning(form: Form) -> Meaning:
    match form:
        case forms.TensorMatch():
            return _tensor(form)
        case forms.TensorMismatch():
            return _tensor_mismatch(form)
        case forms.NotATensor(source):
            return Meaning("TENSOR_MATCH", source, "a tensor")
        case forms.TypeMismatch(source):
            return Meaning("TYPE_MATCH", source, _SAME_TYPE)
        case forms.MissingMember(source):
            return Meaning("HASATTR", source, "the same attributes")
        case forms.MarkingMismatch(is_marked_now):
            return Meaning(_MARKING, None, _NO_MARKING if is_marked_now else _SAME_MARKING)
        case forms.DynamicMarking(source, is_absent):
            return Meaning(_MARKING, source, _NO_MARKING if is_absent else _SAME_MARKING)
        case forms.GlobalState(state):
            return Meaning("GLOBAL_STATE", None, state_words(state or {}) or _SAME_STATE)
        case forms.GlobalStateChanged():
            return Meaning("GLOBAL_STATE", None, _SAME_STATE)
        case forms.Whole.MODE_STACK:
            return Meaning("TORCH_FUNCTION_MODE_STACK", None, "the same torch function modes")
        case forms.DefaultDevice(device):
            words = "no default device" if device == "None" else f"default device {device}"
            return Meaning("DEFAULT_DEVICE", None, words)
        case forms.SavedTensorHooks(ids):
            words = "no saved-tensor hooks" if ids == "None" else "the same saved-tensor hooks"
            return Meaning("LAMBDA_GUARD", None, words)
        case forms.ForwardLevel(level):
            return Meaning("DUAL_LEVEL", None, f"forward-mode level {level}")
        case forms.Whole.FUNCTORCH_STATE:
            return Meaning("LAMBDA_GUARD", None, "the same functorch transforms")
        case forms.TypeIs(source, class_name):
            return Meaning("TYPE_MATCH", source, _article(class_name) if class_name else _SAME_TYPE)
        case forms.ObjectIs():
            return Meaning("ID_MATCH", form.source, _object(form))
        case forms.NoAliasing(sources):
            return Meaning("NO_TENSOR_ALIASING", None, f"{len(sources)} tensors that are all different objects")
        case forms.SameTensor():
            return Meaning("NO_TENSOR_ALIASING", None, "tensors that are all different objects")
        case forms.Contains(source, key, is_dict, is_absent):
            if is_dict:
                return Meaning("DICT_CONTAINS", source, f"{'no ' if is_absent else ''}key {key}")
            return Meaning("SET_CONTAINS", source, f"{'does not hold' if is_absent else 'holds'} {key}")
        case forms.DictVersion(source):
            return Meaning("DICT_VERSION", source, "the same contents")
        case forms.HasAttribute(source, name, is_absent):
            return Meaning("HASATTR", source, f"{'no ' if is_absent else ''}attribute {name}")
        case forms.Length(source, length, is_iterator):
            return Meaning("TUPLE_ITERATOR_LEN" if is_iterator else "LENGTH_CHECK", source, f"length {length}")
        case forms.Empty(source):
            return Meaning("LENGTH_CHECK", source, "empty")
        case forms.Keys(source, keys):
            return Meaning("DICT_KEYS_MATCH", source, f"the keys {keys}")
        case forms.KeyAt(_, key_source, key):
            return Meaning("EQUALS_MATCH", key_source, key)
        case forms.IsNan(source, is_nan):
            return Meaning("EQUALS_MATCH" if is_nan else "LAMBDA_GUARD", source, "NaN" if is_nan else "not NaN")
        case forms.Compared():
            return _compared(form)
        case forms.Whole.BACKEND | forms.Whole.ENTRY_GONE | forms.Other():
            return Meaning()


def _tensor(form: forms.TensorMatch) -> Meaning:
    words = short_dtype(form.dtype)
    if form.size is not None:
        words += _dims_words(form.size)
    keys = {key.strip() for key in form.dispatch_keys.split(",")}
    backend = next((name for name in _BACKENDS if name in keys), None)
    if backend is not None:
        words += f" {backend.lower()}" + ("" if form.device is None else f":{form.device}")
    if form.size and form.stride and not _is_contiguous(form.size, form.stride):
        words += f", strides {_dims_words(form.stride)}"
    if form.requires_grad:
        words += ", requires grad"
    return Meaning("TENSOR_MATCH", form.source, words)


def _dims_words(dims: Dims) -> str:
    return f"[{', '.join('any' if dim is None else str(dim) for dim in dims)}]"


def _is_contiguous(size: Dims, stride: Dims) -> bool:
    """Whether the strides are those of a contiguous tensor, as far as sizes and strides are numbers."""
    if len(size) != len(stride):
        return True
    expected = 1
    for dim, step in zip(reversed(size), reversed(stride), strict=True):
        if dim is None or step is None:
            return True
        if dim != 1 and step != expected:
            return False
        expected *= max(dim, 1)
    return True


def _tensor_mismatch(form: forms.TensorMismatch) -> Meaning:
    place = "" if form.dim is None else f" in dim {form.dim}"
    expected = form.expected.rpartition("=")[2] if form.property == "requires_grad" else form.expected
    return Meaning("TENSOR_MATCH", form.source, f"{form.property.replace('_keys', ' keys')} {expected}{place}")


def _object(form: forms.ObjectIs) -> str:
    """The object in words; the number in the guard is an address, which means nothing to people."""
    if form.class_name is None:
        return "the same object"
    short = form.class_name.rpartition(".")[2]
    return _SAME_OBJECT.get(form.class_name, f"the same {_WORD_OF.get(short, short)}")


def _article(name: str) -> str:
    short = name.rpartition(".")[2] or name
    if short == "NoneType":
        return "None"
    return f"{'an' if short[:1].lower() in 'aeio' else 'a'} {short}"


_BOUNDS = {"<=": "at least ", "<": "more than ", "==": ""}


def _compared(form: forms.Compared) -> Meaning:
    left, operator, right = form.left, form.operator, form.right
    if _NUMBER.match(left) and operator in _BOUNDS and read_comparison(right) is None and is_source(right):
        # A relation on sizes, such as ``2 <= L['x'].size()[0]``.
        return Meaning("LAMBDA_GUARD", right, f"{_BOUNDS[operator]}{left}")
    if not is_source(left):
        return Meaning()
    match operator:
        case "==" if is_source(right) and "[" in right:
            return Meaning("LAMBDA_GUARD", left, f"equal to {right}")
        case "==":
            return Meaning("EQUALS_MATCH", left, right)
        case "is" if right == "None":
            return Meaning("NONE_MATCH", left, right)
        case "is" if right in ("True", "False"):
            return Meaning("ID_MATCH", left, right)
        case "is" if is_source(right):
            return Meaning("OBJECT_ALIASING", left, f"the same object as {right}")
        case "is not" if right == "None":
            return Meaning("NOT_NONE_MATCH", left, "not None")
        case "<=" | "<" | ">=" | ">" | "!=":
            return Meaning("LAMBDA_GUARD", left, f"{operator} {right}")
    return Meaning()
