"""Parses what a guard checks, or torch's message about a guard that failed, and puts it into words.

An unknown form keeps torch's own words. The forms are those of ``torch/_dynamo/guards.py`` (``GuardBuilder``) and
``torch/csrc/dynamo/guards.cpp``, 2.13 and 2.15.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal, NamedTuple

from graphdoctor.facts import expressions
from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.trace.guards.state import named_changes, read_state, short_dtype, state_words
from graphdoctor.trace.guards.text import (
    Call,
    Comparison,
    GuardText,
    is_source,
    read_call,
    read_comparison,
    split_list,
)

Dims = tuple[int | None, ...]
"""Sizes or strides; None for a dynamic dim."""

TensorProperty = Literal["size", "stride", "rank", "dtype", "device", "requires_grad", "dispatch_keys"]

expression = partial(expressions.expression, carried=str)
"""A source in the user's words; values passed to a resume function keep torch's names, until the break is known."""


class Meaning(NamedTuple):
    """What one guard expects."""

    kind: str | None = None
    """torch's name for the kind of guard, such as ``TENSOR_MATCH``; None if unknown."""
    source: str | None = None
    """torch's source of the value, such as ``L['x']`` (in recompile reasons without the ``L[…]``); None for
    process-wide state and if unknown."""
    expected: str | None = None
    """What the value must be, such as ``f32[4, 4]``, ``1.5`` or ``a dict``; None if unknown."""


class Change(NamedTuple):
    """What changed if the guard fails: fields of ``GuardChange``, the expression as torch prints it."""

    kind: ChangeKind
    expression: str
    old: str | None = None
    new: str | None = None
    is_parameter: bool = False
    hint: str | None = None


class TensorMatch(NamedTuple):
    """``check_tensor(…)``: all that is expected of a tensor; None for what isn't printed."""

    type: str
    dispatch_keys: str
    dtype: str
    device: str | None
    requires_grad: bool
    size: Dims | None
    stride: Dims | None


class Form(NamedTuple):
    """What a guard checks, or what torch says of one that failed."""

    meaning: Meaning
    change: Change
    parts: TensorMatch | Mapping[str, object] | list[str] | str | Comparison | None = None


_STATE = Change("global_state", "process-wide state of torch")
_MARKING_KIND = "DIMENSION_DYNAMIC_MARKING_GUARD"
_NO_MARKING, _SAME_MARKING = "no dynamic marking", "the same dynamic marking"
_SAME_STATE = "the same process-wide state"
_SAME_TYPE = "a value of the same type"
_WHOLE: Mapping[str, Form] = {
    "___check_torch_function_mode_stack()": Form(
        Meaning("TORCH_FUNCTION_MODE_STACK", None, "the same torch function modes"),
        Change("function_mode", "the active torch function modes"),
    ),
    "torch._functorch.pyfunctorch.compare_functorch_state(": Form(
        Meaning("LAMBDA_GUARD", None, "the same functorch transforms"), _STATE
    ),
    "BACKEND_MATCH": Form(Meaning(), Change("backend", "the backend")),
    "Cache line invalidated": Form(Meaning(), Change("entry_gone", "an object that the compiled code belonged to")),
}
"""What has no parts: guards, and messages about failed ones, by how their text begins."""

_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' (?P<property>size|stride|rank|dtype|requires_grad|dispatch key set) mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?P<values>.+)",
    re.DOTALL,
)
_DEVICE_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' Tensor device index mismatch\. "
    r"Expected device index to be (?P<old>\S+), actual (?P<new>\S+)"
)
# From torch 2.14 on, with the class in place of "a tensor type".
_NOT_A_TENSOR = re.compile(
    r"expected type of '(.+?)' to be (?:a tensor type,\s*'?|<class '[^']+'>,)\s*but found <class '(.+?)'>"
)
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
_MODULE_ATTRIBUTE = re.compile(r"(?:L\['self'\]|self|L\['fn'\]|fn|L\['args'\]\[0\]|args\[0\])[.\[](?:.*\.)?\w+$")
_ON_SIZES = re.compile(r"\.(?:size|stride|storage_offset)\(\)")
_RELATIONS = ("Eq(", "Ne(", "Mod(")
"""Beginnings of conditions that sympy prints as calls (``torch/fx/experimental/symbolic_shapes.py``, 2.13)."""
_NUMBER = re.compile(r"-?\d+$")
_BOUNDS = {"<=": "at least ", "<": "more than ", "==": ""}
_BACKENDS = ("CUDA", "XPU", "MPS", "Meta", "HPU")
"""Dispatch keys of devices that are shown; the CPU isn't."""

_SAME_OBJECT = {
    "code": "the same code object",
    "type": "the same class",
    "NoneType": "None",
    "ellipsis": "...",
    "bool": "the same bool",
}
_BUILTIN = "builtin_function_or_method"
_MAX_EXPECTED = 120


def meaning_of(guard: GuardText) -> Meaning:
    """What a guard expects; its kind is the printed one, or the one that its form belongs to."""
    found = read_form(guard.expression).meaning
    expected = found.expected
    if expected is not None and len(expected) > _MAX_EXPECTED:
        expected = f"{expected[: _MAX_EXPECTED - 1]}…"
    return Meaning(guard.kind or found.kind, found.source, expected)


def changes_of(guard: GuardText) -> Iterator[GuardChange]:
    """The change that a failed guard shows, or several changes of process-wide state."""
    form = read_form(guard.expression)
    if form.meaning.kind == "GLOBAL_STATE" and isinstance(form.parts, list):
        yield from named_changes(form.parts)
        return
    known = form.change._asdict() | {"expression": expression(form.change.expression), "guard": guard.expression}
    yield GuardChange(**known | {"hint": form.change.hint or guard.hint})


def read_form(text: str) -> Form:
    """Parse a guard's expression, or torch's message about one that failed."""
    return (
        _message(text)
        or _process_state(text)
        or _called(text)
        or _marking(text)
        or _compared(text)
        or Form(Meaning(), _unread(text))
    )


def _unread(text: str) -> Change:
    return Change("relation" if is_relation(text) else "unknown", text)


def _message(text: str) -> Form | None:
    if match := _MISMATCH.match(text):
        values, has_advice, advice = match["values"].strip().partition(_ADVICE)
        old, _, new = values.partition(", actual ")
        name = "dispatch_keys" if match["property"] == "dispatch key set" else match["property"]
        hint = (_ADVICE + advice).removeprefix(". ") if has_advice else None
        return _tensor_mismatch(match["source"], name, match["index"], (old, new or None), hint)  # type: ignore[arg-type]
    if match := _DEVICE_MISMATCH.match(text):
        return _tensor_mismatch(match["source"], "device", None, (match["old"], match["new"]), None)
    if match := _NOT_A_TENSOR.match(text):
        change = Change("type", match[1], "a tensor", _a(match[2]))
        return Form(Meaning("TENSOR_MATCH", match[1], "a tensor"), change)
    if match := _TYPE_MISMATCH.match(text):
        return Form(Meaning("TYPE_MATCH", match[1], _SAME_TYPE), Change("type", match[1]))
    if match := _MARKING_MISMATCH.match(text):
        is_marked_now = match[1] == "present"
        old, new = ("not marked", "marked") if is_marked_now else ("marked", "not marked")
        meaning = Meaning(_MARKING_KIND, None, _NO_MARKING if is_marked_now else _SAME_MARKING)
        return Form(meaning, Change("dynamic_marking", "the dims marked on a tensor", old, new))
    if text.startswith(_STATE_CHANGED):
        names = text.removeprefix(_STATE_CHANGED).split()
        return Form(Meaning("GLOBAL_STATE", None, _SAME_STATE), _STATE, names)
    if text.startswith(_MISSING):
        source = text.removeprefix(_MISSING).strip()
        return Form(Meaning("HASATTR", source, "the same attributes"), Change("attribute", source))
    if text.startswith(_DUPLICATES):
        sources = tuple(name.strip("'\"") for name in split_list(text.partition(":")[2].strip()) or [])
        meaning = Meaning("NO_TENSOR_ALIASING", None, "tensors that are all different objects")
        return Form(meaning, _same_tensor(sources))
    return next((form for beginning, form in _WHOLE.items() if text.startswith(beginning)), None)


def _tensor_mismatch(
    source: str, name: TensorProperty, dim: str | None, values: tuple[str, str | None], hint: str | None
) -> Form:
    """``tensor 'x' size mismatch at index 0. expected 4, actual 6``; ``hint`` is what torch adds."""
    old, new = values
    expected = old.rpartition("=")[2] if name == "requires_grad" else old
    place = "" if dim is None else f" in dim {int(dim)}"
    meaning = Meaning("TENSOR_MATCH", source, f"{name.replace('_keys', ' keys')} {expected}{place}")
    if name == "dispatch_keys":
        return Form(meaning, _dispatch(source, old, new or ""))
    if name == "dtype":
        old, new = short_dtype(old), None if new is None else short_dtype(new)
    if name == "requires_grad":
        old, new = str(expected == "1"), str(expected != "1")
    members = {"size": f"shape[{dim}]", "stride": f"stride({dim})", "rank": "ndim"}
    member = f"{source}.{members.get(name, name)}"
    return Form(meaning, Change(name, member, old, new, hint is not None and "parameter" in hint, hint))


def dispatch_change(name: str, old: str, new: str) -> GuardChange:
    """A change of dispatch keys; an inference tensor lacks those of autograd."""
    return GuardChange(**_dispatch(name, old, new)._asdict())


def _dispatch(name: str, old: str, new: str) -> Change:
    is_normal, is_normal_now = "ADInplaceOrView" in old, "ADInplaceOrView" in new
    if is_normal == is_normal_now:
        return Change("dispatch_keys", name, old, new)
    words = {True: "a normal tensor", False: "an inference tensor"}
    return Change("inference_mode", name, words[is_normal], words[is_normal_now])


def _process_state(text: str) -> Form | None:
    value = text.rpartition(" == ")[2]
    if text.startswith(_STATE_GUARD):
        state = read_state(text.partition(" against ")[2])
        return Form(Meaning("GLOBAL_STATE", None, state_words(state or {}) or _SAME_STATE), _STATE, state)
    if text.startswith("utils_device.CURRENT_DEVICE == "):
        device = text.partition(" == ")[2]
        words = "no default device" if device == "None" else f"default device {device}"
        return Form(Meaning("DEFAULT_DEVICE", None, words), Change("default_device", "the default device", device))
    if text.startswith("torch._functorch.") and "top_saved_tensors_hooks" in text:
        words = "no saved-tensor hooks" if value == "None" else "the same saved-tensor hooks"
        return Form(Meaning("LAMBDA_GUARD", None, words), Change("global_state", "saved tensor hooks"))
    if text.startswith("torch.autograd.forward_ad._current_level == "):
        return Form(Meaning("DUAL_LEVEL", None, f"forward-mode level {value}"), _STATE)
    return None


def _marking(text: str) -> Form | None:
    """A condition on the dims that are marked on a tensor, with any brackets around it (``TENSOR_MATCH``, 2.13)."""
    call = read_call(text.lstrip("(")) if _MARKING.search(text) else None
    if call is None or call.name not in ("hasattr", "getattr") or not call.arguments:
        return None
    return _marked(call.arguments[0], is_absent=False)


def _marked(source: str, *, is_absent: bool) -> Form:
    meaning = Meaning(_MARKING_KIND, source, _NO_MARKING if is_absent else _SAME_MARKING)
    return Form(meaning, Change("dynamic_marking", f"the dims marked on {source}"))


class _Check(NamedTuple):
    text: str
    arguments: tuple[str, ...]
    """At least one."""
    rest: str
    is_negated: bool


def _called(text: str) -> Form | None:
    call = read_call(text.removeprefix("not "))
    if call is None or not call.arguments or call.name not in _CALLS:
        return None
    return _CALLS[call.name](_Check(text, call.arguments, call.rest, text.startswith("not ")))


def _check_tensor(check: _Check) -> Form | None:
    if len(check.arguments) < 4:
        return None
    source, kind, keys, dtype, *rest = check.arguments
    named = {name: value for name, _, value in (part.partition("=") for part in rest)}
    inner, device = read_call(keys), named.get("device", "None")
    found = TensorMatch(
        type=kind,
        dispatch_keys=", ".join(inner.arguments) if inner else keys,
        dtype=dtype,
        device=None if device == "None" else device,
        requires_grad=named.get("requires_grad") == "True",
        size=_dims(named.get("size", "")),
        stride=_dims(named.get("stride", "")),
    )
    return Form(Meaning("TENSOR_MATCH", source, _tensor_words(found)), _unread(check.text), found)


def _dims(text: str) -> Dims | None:
    items = split_list(text)
    return None if items is None else tuple(int(item) if item.isdecimal() else None for item in items)


def _tensor_words(found: TensorMatch) -> str:
    words = short_dtype(found.dtype)
    if found.size is not None:
        words += _dims_words(found.size)
    keys = {key.strip() for key in found.dispatch_keys.split(",")}
    backend = next((name for name in _BACKENDS if name in keys), None)
    if backend is not None:
        words += f" {backend.lower()}" + ("" if found.device is None else f":{found.device}")
    if found.size and found.stride and not _is_contiguous(found.size, found.stride):
        words += f", strides {_dims_words(found.stride)}"
    return words + (", requires grad" if found.requires_grad else "")


def _dims_words(dims: Dims) -> str:
    return f"[{', '.join('any' if dim is None else str(dim) for dim in dims)}]"


def _is_contiguous(size: Dims, stride: Dims) -> bool:
    """Whether the strides are those of a contiguous tensor, as far as sizes and strides are numbers."""
    expected = 1
    for dim, step in zip(reversed(size), reversed(stride), strict=False) if len(size) == len(stride) else ():
        if dim is None or step is None:
            return True
        if dim != 1 and step != expected:
            return False
        expected *= max(dim, 1)
    return True


def _type_id(check: _Check) -> Form:
    source, name = check.arguments[0], _class_name(check.rest)
    meaning = Meaning("TYPE_MATCH", source, _SAME_TYPE if name is None else _an(name))
    return Form(meaning, Change("type", source, name and _a(name)))


def _object_id(check: _Check) -> Form:
    source, name = check.arguments[0], _class_name(check.rest)
    short = "object" if name is None else name.rpartition(".")[2]
    words = "the same function" if short == _BUILTIN else _SAME_OBJECT.get(name or "", f"the same {short}")
    return Form(Meaning("ID_MATCH", source, words), Change("identity", source.removesuffix(".__code__")), name)


def _class_name(text: str) -> str | None:
    found = _CLASS.search(text)
    return found[1] if found else text.rpartition("type=")[2].strip() or None


def _no_aliasing(check: _Check) -> Form:
    words = f"{len(check.arguments)} tensors that are all different objects"
    return Form(Meaning("NO_TENSOR_ALIASING", None, words), _same_tensor(check.arguments))


def _same_tensor(sources: tuple[str, ...]) -> Change:
    words = " and ".join(sources) if len(sources) == 2 else "arguments that are the same tensor"
    return Change("aliasing", words, "different tensors", "the same tensor")


def _contains(check: _Check, *, is_dict: bool) -> Form | None:
    if len(check.arguments) != 2:
        return None
    if is_dict:
        item, source = check.arguments
        kind, words = "DICT_CONTAINS", f"{'no ' if check.is_negated else ''}key {item}"
    else:
        source, item = check.arguments
        kind, words = "SET_CONTAINS", f"{'does not hold' if check.is_negated else 'holds'} {item}"
    return Form(Meaning(kind, source, words), _presence("keys", source, item, was_there=not check.is_negated))


def _has_attribute(check: _Check) -> Form | None:
    if len(check.arguments) != 2:
        return None
    source, name = check.arguments[0], check.arguments[1].strip("'\"")
    is_absent = check.is_negated or check.rest.strip() == "== False"
    if name.startswith("_dynamo_"):
        return _marked(source, is_absent=is_absent)
    meaning = Meaning("HASATTR", source, f"{'no ' if is_absent else ''}attribute {name}")
    return Form(meaning, _presence("attribute", source, name, was_there=not is_absent))


def _presence(kind: ChangeKind, source: str, name: str, *, was_there: bool) -> Change:
    old, new = (f"with {name}", f"without {name}")[:: 1 if was_there else -1]
    return Change(kind, source, old, new)


def _dict_version(check: _Check) -> Form:
    return Form(Meaning("DICT_VERSION", check.arguments[0], "the same contents"), Change("keys", check.arguments[0]))


def _is_nan(source: str, *, is_nan: bool) -> Form:
    kind = value_kind(source, "0.0", None)
    if is_nan:
        return Form(Meaning("EQUALS_MATCH", source, "NaN"), Change(kind, source, "NaN"))
    return Form(Meaning("LAMBDA_GUARD", source, "not NaN"), Change(kind, source, None, "NaN"))


_CALLS: dict[str, Callable[[_Check], Form | None]] = {
    "check_tensor": _check_tensor,
    "___check_type_id": _type_id,
    "___check_fake_script_type": _type_id,
    "___check_obj_id": _object_id,
    "__check_obj_id": _object_id,
    "check_no_aliasing": _no_aliasing,
    "___dict_contains": partial(_contains, is_dict=True),
    "set.__contains__": partial(_contains, is_dict=False),
    "___dict_version": _dict_version,
    "hasattr": _has_attribute,
    "math.isnan": lambda check: _is_nan(check.arguments[0], is_nan=not check.is_negated),
}
_LENGTHS = {
    **dict.fromkeys(("len", "set.__len__", "frozenset.__len__"), "LENGTH_CHECK"),
    **dict.fromkeys(("___tuple_iterator_len", "___list_reverseiterator_len"), "TUPLE_ITERATOR_LEN"),
}
"""Functions that return a length, and the kind of a guard on it."""


def _compared(text: str) -> Form | None:
    if match := _NAN.fullmatch(text):
        return _is_nan(match["source"], is_nan=True)
    comparison = read_comparison(text)
    if comparison is None:
        rest = text.removeprefix("not ")
        if rest == text or not is_source(rest):
            return None
        return Form(Meaning("LENGTH_CHECK", rest, "empty"), Change("length", f"len({rest})", "0"))
    call = read_call(comparison.left)
    found = None
    if call is not None and len(call.arguments) == 1:
        found = _length(call, comparison) or _keys(call, comparison)
    return found or Form(_compared_meaning(comparison), _compared_change(comparison, text), comparison)


def _length(call: Call, comparison: Comparison) -> Form | None:
    kind = _LENGTHS.get(call.name)
    if kind is None or call.rest or comparison.operator not in ("==", "!="):
        return None
    source, length = call.arguments[0], comparison.right
    return Form(Meaning(kind, source, f"length {length}"), Change("length", f"len({source})", length))


def _keys(call: Call, comparison: Comparison) -> Form | None:
    """``list(dict.keys(d)) == ['a']`` or ``list(dict.keys(d))[0] == 'a'``."""
    if call.name != "list" or comparison.operator != "==":
        return None
    listed, right = call.arguments[0], comparison.right
    inner = read_call(listed)
    if inner is not None and inner.name in ("dict.keys", "keys") and len(inner.arguments) == 1 and not inner.rest:
        source = inner.arguments[0]
    elif listed.endswith(".keys()"):
        source = listed.removesuffix(".keys()")
    else:
        return None
    if not call.rest:
        meaning = Meaning("DICT_KEYS_MATCH", source, f"the keys {right}")
        return Form(meaning, Change("keys", source, f"with the keys {right}"))
    if not _KEY_AT.fullmatch(call.rest):
        return None
    return Form(Meaning("EQUALS_MATCH", comparison.left, right), Change("keys", source, f"with {right}"))


def _compared_meaning(found: Comparison) -> Meaning:
    left, operator, right = found
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


def _compared_change(found: Comparison, text: str) -> Change:
    left, operator, right = found
    if is_relation(text) or operator not in ("==", "is", "is not", "!="):
        return Change("relation", text)
    if operator == "is" and right != "None":
        return Change("aliasing", f"{left} and {right}", "the same object", "two objects")
    if operator in ("is not", "!="):
        return Change("none" if right == "None" else "value", left, None, right)
    return Change(value_kind(left, right, None), left, right)


def is_relation(text: str) -> bool:
    """Whether a text is a condition on sizes, which can involve several values."""
    return _ON_SIZES.search(text) is not None or text.startswith(_RELATIONS)


def value_kind(source: str, old: str | None, new: str | None) -> ChangeKind:
    """The kind of a constant that changed, from its text before and after."""
    if source.endswith(".training"):
        return "training"
    values = [_literal(text) for text in (old, new) if text is not None]
    if any(value is None for value in values):
        return "none"
    if any(isinstance(value, bool) for value in values):
        return "flag"
    if all(isinstance(value, (int, float)) for value in values):
        # An attribute of the root module or of a submodule, with or without its scope.
        is_attribute = _MODULE_ATTRIBUTE.match(source) is not None and "__closure__" not in source
        return "module_number" if is_attribute else "number"
    return "text" if any(isinstance(value, str) for value in values) else "value"


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _NO_LITERAL


_NO_LITERAL = object()


def _a(name: str) -> str:
    short = name.rpartition(".")[2]
    return "None" if short == "NoneType" else f"a {short}"


def _an(name: str) -> str:
    short = name.rpartition(".")[2] or name
    if short == "NoneType":
        return "None"
    return f"{'an' if short[:1].lower() in 'aeio' else 'a'} {short}"
