"""Reads the process-wide state of ``GlobalStateGuard`` (``torch/csrc/dynamo/guards.cpp``, 2.13),
and names dtypes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

import orjson

from graphdoctor.facts import expressions
from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.trace.guards.text import (
    Call,
    Comparison,
    GuardText,
    is_source,
    read_call,
    read_comparison,
    split_list,
)
from graphdoctor.wording import clipped, counted

_DTYPES = """
    0 uint8 Byte
    1 int8 Char
    2 int16 Short
    3 int32 Int
    4 int64 Long
    5 float16 Half
    6 float32 Float
    7 float64 Double
    8 complex32 ComplexHalf
    9 complex64 ComplexFloat
    10 complex128 ComplexDouble
    11 bool Bool
    15 bfloat16 BFloat16
    23 float8_e5m2 Float8_e5m2
    24 float8_e4m3fn Float8_e4m3fn
    25 float8_e5m2fnuz Float8_e5m2fnuz
    26 float8_e4m3fnuz Float8_e4m3fnuz
    27 uint16 UInt16
    28 uint32 UInt32
    29 uint64 UInt64
    44 float8_e8m0fnu Float8_e8m0fnu
    45 float4_e2m1fn_x2 Float4_e2m1fn_x2
"""
"""Each dtype's ``c10::ScalarType`` (2.13), as a number, with its name in Python and in C++."""
_ABBREVIATED = re.compile(r"(?<=f)loat|(?<=u)int|(?<=i)nt|(?<=c)omplex|_")
"""Letters that ``torch.dtype.abbr`` leaves out of a name."""
_SHORT = {
    key: "b8" if names[1] == "bool" else _ABBREVIATED.sub("", names[1])
    for names in map(str.split, _DTYPES.strip().splitlines())
    for key in names
}


def short_dtype(dtype: str | int) -> str:
    """A dtype's short name; an unknown dtype as it is, without ``torch.``."""
    key = str(dtype).removeprefix("torch.")
    return _SHORT.get(key, key)


def change_of(
    kind: ChangeKind,
    name: str,
    old: str | None = None,
    new: str | None = None,
    **more: Any,  # noqa: ANN401
) -> GuardChange:
    """A change of what a name is."""
    return GuardChange(kind=kind, expression=name, old=old, new=new, **more)


_DEVICES = "cpu cuda mtia maia xpu ipu hpu xla privateuseone mps"
"""Order of the autocast lists (``at::autocast::_AUTOCAST_SUPPORTED_DEVICES``, 2.13)."""

_AUTOCAST = "autocast"
_ON = {True: "on", False: "off"}
_KINDS: dict[str, tuple[ChangeKind, str]] = {
    "grad_mode": ("grad_mode", "grad mode"),
    "default_dtype": ("default_dtype", "the default dtype"),
    "num_threads": ("threads", "the number of threads"),
    "deterministic_algorithms": ("determinism", "deterministic algorithms"),
    "deterministic_algorithms_warn_only": ("determinism", "deterministic algorithms: warn only"),
    "torch_function": ("global_state", "torch function dispatch"),
    "torch_function_all_disabled": ("global_state", "torch function dispatch, all disabled"),
    "allow_tf32": ("global_state", "TF32 allowed"),
    "allow_fp16_reduce": ("global_state", "reduced precision of fp16 sums"),
    "allow_bf16_reduce": ("global_state", "reduced precision of bf16 sums"),
}
"""Torch's process-wide settings."""
STATE_NAMES = (*(words for _, words in _KINDS.values()), _AUTOCAST)
_SHOWN = (
    "grad_mode",
    "autocast_state",
    "default_dtype",
    "deterministic_algorithms",
    "num_threads",
    "allow_tf32",
    "torch_function",
    "torch_function_all_disabled",
)


def state_words(state: Mapping[str, Any]) -> str:
    """The state in words: the settings that programs change most, and others that aren't torch's
    defaults.
    """
    words = []
    for name in _SHOWN:
        match name, state.get(name):
            case "grad_mode" | "deterministic_algorithms", bool(value):
                words.append(f"{_KINDS[name][1]} {_ON[value]}")
            case "autocast_state", {"enabled": [*enabled]}:
                words.append(f"autocast {_ON[any(enabled)]}")
            case "default_dtype", int(value):
                words.append(f"default dtype {short_dtype(value)}")
            case "num_threads", int(value):
                words.append(counted(value, "thread"))
            case "allow_tf32", True:
                words.append("TF32 on")
            case ("torch_function", False) | ("torch_function_all_disabled", True):
                words.append("torch function dispatch off")
    return ", ".join(dict.fromkeys(words))


def state_changes(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[GuardChange]:
    """Yield what differs between two states."""
    for name, before in old.items():
        values = _value(name, before), _value(name, new.get(name))
        if values[0] != values[1]:
            yield change_of(*_kind(name), *values)


def _kind(name: str) -> tuple[ChangeKind, str]:
    if name.startswith(_AUTOCAST):
        return "autocast", _AUTOCAST
    return _KINDS.get(name, ("global_state", name.replace("_", " ")))


def _value(name: str, value: object) -> str:
    match name, value:
        case "autocast_state", {"dtype": [*dtypes], "enabled": [*enabled]}:
            devices = zip(_DEVICES.split(), dtypes, enabled, strict=False)
            on = [f"{device} {short_dtype(dtype)}" for device, dtype, is_on in devices if is_on]
            return f"on ({', '.join(on)})" if on else "off"
        case "autocast_state", _:
            return "unknown"
        case _, bool():
            return _ON[value]
        case "default_dtype", int():
            return short_dtype(value)
    return str(value)


Dims = tuple[int | None, ...]
"""Sizes or strides; None for a dynamic dim."""

expression = partial(expressions.expression, carried=str)
"""A source in the user's words; values passed to a resume function keep torch's names, until the
break is known."""


class TensorMatch(NamedTuple):
    """``check_tensor(…)``: what is expected of a tensor; None for what isn't printed."""

    type: str
    dispatch_keys: str
    dtype: str
    requires_grad: bool
    size: Dims | None
    stride: Dims | None


class Form(NamedTuple):
    """Expectation of a guard, and the change if it fails."""

    kind: str | None = None
    """torch's name for the kind of guard, such as ``TENSOR_MATCH``; None if unknown."""
    source: str | None = None
    """torch's, such as ``L['x']`` (without the ``L[…]`` in recompile reasons); None if there is
    none or unknown."""
    expected: str | None = None
    """Expected value, such as ``f32[4, 4]``, ``1.5`` or ``a dict``; None if unknown."""
    change: ChangeKind = "unknown"
    old: str | None = None
    new: str | None = None
    subject: str | None = None
    """Changed thing, as torch prints it; None if it is the source."""
    parts: TensorMatch | Mapping[str, object] | str | Comparison | None = None
    hint: str | None = None


_STATE = "process-wide state of torch"
_SAME_STATE = "the same process-wide state"
_SAME_TYPE = "a value of the same type"
_DEFAULT_DEVICE = "the default device"
_SAVED_HOOKS = "saved tensor hooks"


def _marked(
    source: str | None, *, is_absent: bool, old: str | None = None, new: str | None = None
) -> Form:
    expected = "no dynamic marking" if is_absent else "the same dynamic marking"
    subject = f"the dims marked on {source or 'a tensor'}"
    kind = "DIMENSION_DYNAMIC_MARKING_GUARD"
    return Form(kind, source, expected, "dynamic_marking", old, new, subject)


_PLAIN: Mapping[str, Form] = {
    r"tensor '(.+?)' Tensor device index mismatch\. Expected device index to be (\S+),"
    r" actual (\S+)": Form(
        "TENSOR_MATCH", r"\1", r"device \2", "device", r"\2", r"\3", r"\1.device"
    ),
    r"TYPE_MISMATCH\((.+)\)$": Form("TYPE_MATCH", r"\1", _SAME_TYPE, "type"),
    r"_(?:has_)?dynamo_\w+ (?:is|should be) present": _marked(
        None, is_absent=True, old="not marked", new="marked"
    ),
    r"_(?:has_)?dynamo_\w+ (?:is|should be) absent": _marked(
        None, is_absent=False, old="marked", new="not marked"
    ),
    r"GLOBAL_STATE changed:": Form(
        "GLOBAL_STATE", None, _SAME_STATE, "global_state", subject=_STATE
    ),
    r"getattr failed on source \s*(.*?)\s*$": Form(
        "HASATTR", r"\1", "the same attributes", "attribute"
    ),
    r"___check_torch_function_mode_stack\(\)": Form(
        "TORCH_FUNCTION_MODE_STACK",
        None,
        "the same torch function modes",
        "function_mode",
        subject="the active torch function modes",
    ),
    r"torch\._functorch\.pyfunctorch\.compare_functorch_state\(": Form(
        "LAMBDA_GUARD", None, "the same functorch transforms", "global_state", subject=_STATE
    ),
    r"BACKEND_MATCH": Form(change="backend", subject="the backend"),
    r"Cache line invalidated because (.+) got deallocated": Form(
        None, r"\1", None, "entry_gone", "one that is gone", "another"
    ),
    r"utils_device\.CURRENT_DEVICE == None$": Form(
        "DEFAULT_DEVICE",
        None,
        "no default device",
        "default_device",
        "None",
        subject=_DEFAULT_DEVICE,
    ),
    r"utils_device\.CURRENT_DEVICE == (.*)": Form(
        "DEFAULT_DEVICE",
        None,
        r"default device \1",
        "default_device",
        r"\1",
        subject=_DEFAULT_DEVICE,
    ),
    r"torch\._functorch\..*top_saved_tensors_hooks.* == None$": Form(
        "LAMBDA_GUARD", None, "no saved-tensor hooks", "global_state", subject=_SAVED_HOOKS
    ),
    r"torch\._functorch\..*top_saved_tensors_hooks": Form(
        "LAMBDA_GUARD", None, "the same saved-tensor hooks", "global_state", subject=_SAVED_HOOKS
    ),
    r"torch\.autograd\.forward_ad\._current_level == (.*)": Form(
        "DUAL_LEVEL", None, r"forward-mode level \1", "global_state", subject=_STATE
    ),
}
"""Guards, and messages about failed ones, by how their text begins; the pattern's groups stand in
the form."""
_PATTERNS = tuple((re.compile(pattern, re.DOTALL), form) for pattern, form in _PLAIN.items())

_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' (?P<property>size|stride|rank|dtype|requires_grad|dispatch key set)"
    r" mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?P<values>.+)",
    re.DOTALL,
)
# From torch 2.14 on, with the class in place of "a tensor type".
_NOT_A_TENSOR = re.compile(
    r"expected type of '(.+?)' to be (?:a tensor type,\s*'?|<class '[^']+'>,)\s*but found <class"
    r" '(.+?)'>"
)
_STATE_CHANGED = "GLOBAL_STATE changed:"
_STATE_GUARD = "___check_global_state()"
_DUPLICATES = "Duplicate tensor"
_ADVICE = ". Guard failed on "
_CLASS = re.compile(r"<(?:class|enum) '([^']+)'>")
_NAN = re.compile(
    r"\(type\((?P<source>.+)\) is (?:float|complex) and __(?:math|numpy)_isnan\((?P=source)\)\)"
)
_MARKING_NAME = re.compile(r"_dynamo_\w*indices|_dynamo_dynamic_range|_dynamo_shape_ids")
_KEY_AT = re.compile(r"\[\d+\]$")
_MODULE_ATTRIBUTE = re.compile(
    r"(?:L\['self'\]|self|L\['fn'\]|fn|L\['args'\]\[0\]|args\[0\])[.\[](?:.*\.)?\w+$"
)
_ON_SIZES = re.compile(r"\.(?:size|stride|storage_offset)\(\)")
_RELATIONS = ("Eq(", "Ne(", "Mod(")
"""Beginnings of conditions that sympy prints as calls
(``torch/fx/experimental/symbolic_shapes.py``, 2.13)."""
_AT_LEAST_2 = re.compile(r"2 <= (.+\.size\(\)\[\d+\])")
_NUMBER = re.compile(r"-?\d+$")
_BOUNDS = {"<=": "at least ", "<": "more than ", "==": ""}
_BACKENDS = ("CUDA", "XPU", "MPS", "Meta", "HPU")
"""Dispatch keys of devices that are shown; the CPU isn't."""
_SAME_OBJECT = {
    "code": "the same code object",
    "type": "the same class",
    "NoneType": "None",
    "ellipsis": "...",
}
_LENGTHS = {
    **dict.fromkeys(("len", "set.__len__", "frozenset.__len__"), "LENGTH_CHECK"),
    **dict.fromkeys(("___tuple_iterator_len", "___list_reverseiterator_len"), "TUPLE_ITERATOR_LEN"),
}
"""Functions that return a length, and the kind of a guard on it."""
_MAX_EXPECTED = 120


def meaning_of(guard: GuardText) -> Form:
    """Return what a guard expects; its kind is the printed one, or the one that its form belongs
    to.
    """
    form = read_form(guard.expression)
    expected = form.expected and clipped(form.expected, _MAX_EXPECTED)
    return form._replace(kind=guard.kind or form.kind, expected=expected)


def changes_of(guard: GuardText) -> Iterator[GuardChange]:
    """The change that a failed guard shows, or several changes of process-wide state."""
    text = guard.expression
    if text.startswith(_STATE_CHANGED):
        for name in text.removeprefix(_STATE_CHANGED).split():
            yield change_of(*_kind(name))
        return
    form = read_form(text)
    yield change_of(
        form.change,
        expression(form.subject or form.source or text),
        form.old,
        form.new,
        is_parameter="parameter" in (form.hint or ""),
        guard=text,
        hint=form.hint or guard.hint,
        small_source=small_size(text),
    )


def read_form(text: str) -> Form:
    """Parse a guard's expression, or torch's message about one that failed."""
    return _called(text) or _message(text) or _compared(text) or _unread(text)


def _unread(text: str) -> Form:
    return Form(change="relation" if is_relation(text) else "unknown", subject=text)


def _message(text: str) -> Form | None:
    if match := _MISMATCH.match(text):
        return _tensor_mismatch(match)
    if match := _NOT_A_TENSOR.match(text):
        kind = _an(match[2], vowels="")
        return Form("TENSOR_MATCH", match[1], "a tensor", "type", "a tensor", kind)
    if text.startswith(_DUPLICATES):
        sources = [name.strip("'\"") for name in split_list(text.partition(":")[2].strip()) or ()]
        return _aliasing(sources, "tensors that are all different objects")
    if text.startswith(_STATE_GUARD):
        state = None
        with suppress(orjson.JSONDecodeError):
            state = orjson.loads(text.partition(" against ")[2])
        state = state if isinstance(state, dict) else None
        expected = state_words(state or {}) or _SAME_STATE
        return Form("GLOBAL_STATE", None, expected, "global_state", subject=_STATE, parts=state)
    for pattern, form in _PATTERNS:
        if match := pattern.match(text):
            return Form._make(
                match.expand(part) if isinstance(part, str) else part for part in form
            )
    # A condition on the dims that are marked on a tensor, with any brackets around it
    # (``TENSOR_MATCH``, 2.13).
    call = read_call(text.lstrip("(")) if _MARKING_NAME.search(text) else None
    if call is not None and call.name in ("hasattr", "getattr") and call.arguments:
        return _marked(call.arguments[0], is_absent=False)
    return None


def _tensor_mismatch(match: re.Match[str]) -> Form:
    """``tensor 'x' size mismatch at index 0. expected 4, actual 6``, and after it what torch
    advises.
    """
    source = match["source"]
    name = match["property"]
    dim = match["index"]
    values, has_advice, advice = match["values"].strip().partition(_ADVICE)
    hint = f"Guard failed on {advice}" if has_advice else None
    old, _, actual = values.partition(", actual ")
    new = actual or None
    expected = old
    kind = name
    members = {"size": f".shape[{dim}]", "stride": f".stride({dim})", "rank": ".ndim"}
    subject = source + members.get(name, f".{name}")
    match name:
        case "dispatch key set":
            name = "dispatch keys"
            subject = source
            hint = None
            kind, old, new = dispatch_change(old, new or "")
        case "dtype":
            old = short_dtype(old)
            new = new and short_dtype(new)
        case "requires_grad":
            expected = old.rpartition("=")[2]
            old = str(expected == "1")
            new = str(expected != "1")
    place = "" if dim is None else f" in dim {int(dim)}"
    words = f"{name} {expected}{place}"
    return Form(
        "TENSOR_MATCH", source, words, cast("ChangeKind", kind), old, new, subject, hint=hint
    )


def dispatch_change(old: str, new: str) -> tuple[ChangeKind, str, str]:
    """A change of dispatch keys: its kind and its values in words; an inference tensor lacks the
    keys of autograd.
    """
    is_normal = "ADInplaceOrView" in old
    is_normal_now = "ADInplaceOrView" in new
    if is_normal == is_normal_now:
        return "dispatch_keys", old, new
    words = {True: "a normal tensor", False: "an inference tensor"}
    return "inference_mode", words[is_normal], words[is_normal_now]


def _called(text: str) -> Form | None:
    is_not = text.startswith("not ")
    call = read_call(text.removeprefix("not "))
    if call is None:
        return None
    match call.name, call.arguments:
        case "check_tensor", (source, kind, keys, dtype, *rest):
            return _tensor(text, source, (kind, keys, dtype), rest)
        case "___check_type_id" | "___check_fake_script_type", (source, *_):
            name = _class_name(call.rest)
            expected = _SAME_TYPE if name is None else _an(name)
            return Form("TYPE_MATCH", source, expected, "type", name and _an(name, vowels=""))
        case "___check_obj_id" | "__check_obj_id", (source, *_):
            name = _class_name(call.rest)
            short = "object" if name is None else name.rpartition(".")[2]
            short = "function" if short == "builtin_function_or_method" else short
            words = _SAME_OBJECT.get(name or "", f"the same {short}")
            subject = source.removesuffix(".__code__")
            return Form("ID_MATCH", source, words, "identity", subject=subject, parts=name)
        case "check_no_aliasing", (_, *_):
            words = f"{len(call.arguments)} tensors that are all different objects"
            return _aliasing(call.arguments, words)
        case "___dict_contains", (item, source):
            words = f"{'no ' * is_not}key {item}"
            return _presence("DICT_CONTAINS", source, words, "keys", item, is_not=is_not)
        case "set.__contains__", (source, item):
            words = f"{'does not hold' if is_not else 'holds'} {item}"
            return _presence("SET_CONTAINS", source, words, "keys", item, is_not=is_not)
        case "___dict_version", (source, *_):
            return Form("DICT_VERSION", source, "the same contents", "keys")
        case "hasattr", (source, quoted):
            name = quoted.strip("'\"")
            is_absent = is_not or call.rest.strip() == "== False"
            if name.startswith("_dynamo_"):
                return _marked(source, is_absent=is_absent)
            words = f"{'no ' * is_absent}attribute {name}"
            return _presence("HASATTR", source, words, "attribute", name, is_not=is_absent)
        case "math.isnan", (source, *_):
            return _nan(source, is_not=is_not)
    return None


def _nan(source: str, *, is_not: bool = False) -> Form:
    change = value_kind(source, "0.0", None)
    if is_not:
        return Form("LAMBDA_GUARD", source, "not NaN", change, None, "NaN")
    return Form("EQUALS_MATCH", source, "NaN", change, "NaN")


def _presence(
    kind: str, source: str, expected: str, change: ChangeKind, name: str, *, is_not: bool
) -> Form:
    old, new = (f"with {name}", f"without {name}")[:: -1 if is_not else 1]
    return Form(kind, source, expected, change, old, new)


def _aliasing(sources: Sequence[str], expected: str) -> Form:
    subject = " and ".join(sources) if len(sources) == 2 else "arguments that are the same tensor"
    values = "different tensors", "the same tensor"
    return Form("NO_TENSOR_ALIASING", None, expected, "aliasing", *values, subject)


def _class_name(text: str) -> str | None:
    match = _CLASS.search(text)
    return match[1] if match else text.rpartition("type=")[2].strip() or None


def _tensor(text: str, source: str, printed: tuple[str, str, str], rest: Sequence[str]) -> Form:
    kind, printed_keys, dtype = printed
    inner = read_call(printed_keys)
    keys = ", ".join(inner.arguments if inner else (printed_keys,))
    named = {name: value for name, _, value in (part.partition("=") for part in rest)}
    size, stride = (
        None
        if (items := split_list(named.get(name, ""))) is None
        else tuple(int(item) if item.isdecimal() else None for item in items)
        for name in ("size", "stride")
    )
    requires_grad = named.get("requires_grad") == "True"
    device = named.get("device", "None")
    words = short_dtype(dtype) + ("" if size is None else _dims_words(size))
    keys_set = {key.strip() for key in keys.split(",")}
    if backend := next((name for name in _BACKENDS if name in keys_set), None):
        words += f" {backend.lower()}" + ("" if device == "None" else f":{device}")
    if size and stride and not _is_contiguous(size, stride):
        words += f", strides {_dims_words(stride)}"
    words += ", requires grad" if requires_grad else ""
    parts = TensorMatch(kind, keys, dtype, requires_grad, size, stride)
    return _unread(text)._replace(kind="TENSOR_MATCH", source=source, expected=words, parts=parts)


def _dims_words(dims: Dims) -> str:
    return f"[{', '.join('any' if dim is None else str(dim) for dim in dims)}]"


def _is_contiguous(size: Dims, stride: Dims) -> bool:
    """Return whether the strides are those of a contiguous tensor, as far as sizes and strides are
    numbers.
    """
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


def _compared(text: str) -> Form | None:
    if match := _NAN.fullmatch(text):
        return _nan(match["source"])
    comparison = read_comparison(text)
    if comparison is None:
        rest = text.removeprefix("not ")
        if rest == text or not is_source(rest):
            return None
        return Form("LENGTH_CHECK", rest, "empty", "length", "0", subject=f"len({rest})")
    left, operator, right = comparison
    call = read_call(left)
    if call is not None and len(call.arguments) == 1:
        form = _of_contents(call, comparison)
        if form is not None:
            return form
    # What changed if it fails.
    change: ChangeKind = "relation"
    old = new = None
    subject = text
    if is_relation(text) or operator not in ("==", "is", "is not", "!="):
        pass
    elif operator == "is" and right != "None":
        change = "aliasing"
        old = "the same object"
        new = "two objects"
        subject = f"{left} and {right}"
    elif operator in ("is not", "!="):
        change = "none" if right == "None" else "value"
        new = right
        subject = left
    else:
        change = value_kind(left, right, None)
        old = right
        subject = left
    return Form(*_expected(comparison), change, old, new, subject, comparison)


def _of_contents(call: Call, comparison: Comparison) -> Form | None:
    """``len(d) == 2``, ``list(dict.keys(d)) == ['a']`` or ``list(dict.keys(d))[0] == 'a'``."""
    (source,), (left, operator, right) = call.arguments, comparison
    if (kind := _LENGTHS.get(call.name)) and not call.rest and operator in ("==", "!="):
        return Form(kind, source, f"length {right}", "length", right, subject=f"len({source})")
    if call.name != "list" or operator != "==":
        return None
    match read_call(source):
        case Call("dict.keys" | "keys", (inner,), ""):
            source = inner
        case _ if source.endswith(".keys()"):
            source = source.removesuffix(".keys()")
        case _:
            return None
    if not call.rest:
        words = f"the keys {right}"
        return Form("DICT_KEYS_MATCH", source, words, "keys", f"with {words}")
    if not _KEY_AT.fullmatch(call.rest):
        return None
    return Form("EQUALS_MATCH", left, right, "keys", f"with {right}", subject=source)


def _expected(comparison: Comparison) -> tuple[str | None, str | None, str | None]:
    """Kind, source and what is expected."""
    left, operator, right = comparison
    is_right_source = is_source(right)
    is_bound = _NUMBER.match(left) and operator in _BOUNDS
    if is_bound and is_right_source and read_comparison(right) is None:
        # A relation on sizes, such as ``2 <= L['x'].size()[0]``.
        return "LAMBDA_GUARD", right, f"{_BOUNDS[operator]}{left}"
    if not is_source(left):
        return None, None, None
    match operator, right:
        case "==", _ if is_right_source and "[" in right:
            return "LAMBDA_GUARD", left, f"equal to {right}"
        case "==", _:
            return "EQUALS_MATCH", left, right
        case "is", "None":
            return "NONE_MATCH", left, right
        case "is", "True" | "False":
            return "ID_MATCH", left, right
        case "is", _ if is_right_source:
            return "OBJECT_ALIASING", left, f"the same object as {right}"
        case "is not", "None":
            return "NOT_NONE_MATCH", left, "not None"
        case "<=" | "<" | ">=" | ">" | "!=", _:
            return "LAMBDA_GUARD", left, f"{operator} {right}"
    return None, None, None


def is_relation(text: str) -> bool:
    """Return whether a text is a condition on sizes, which can involve several values."""
    return _ON_SIZES.search(text) is not None or text.startswith(_RELATIONS)


def small_size(text: str) -> str | None:
    """Return torch's source of the size that a condition keeps from being 0 or 1, such as
    ``2 <= L['x'].size()[0]``; None for another condition.
    """
    match = _AT_LEAST_2.fullmatch(text)
    return match[1] if match else None


def value_kind(source: str, old: str | None, new: str | None) -> ChangeKind:
    """The kind of a constant that changed, from its text before and after."""
    if source.endswith(".training"):
        return "training"
    values = [_literal(text) for text in (old, new) if text is not None]
    if any(value is None for value in values):
        return "none"
    if any(isinstance(value, bool) for value in values):
        return "flag"
    if all(isinstance(value, int | float) for value in values):
        # An attribute of the root module or of a submodule, with or without its scope.
        is_attribute = _MODULE_ATTRIBUTE.match(source) is not None and "__closure__" not in source
        return "module_number" if is_attribute else "number"
    return "text" if any(isinstance(value, str) for value in values) else "value"


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ...


def _an(name: str, *, vowels: str = "aeio") -> str:
    short = name.rpartition(".")[2] or name
    if short == "NoneType":
        return "None"
    return f"{'an' if short[:1].lower() in (*vowels,) else 'a'} {short}"
