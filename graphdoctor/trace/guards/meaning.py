"""What a guard's expression checks: its kind by its form, the value's source, the expected value in words.

Comes in: the expression of one guard without its comments. Goes out: kind, source, expected. Pure; what has another
form gives None. Forms as seen in ``torch/_dynamo/guards.py``, 2.13 and 2.15 (``GuardBuilder``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

_CLASS = re.compile(r"<(?:class|enum) '([^']+)'>")
_COMPARISON = re.compile(r" (==|is not|is|!=|<=|>=|<|>) ")
_NUMBER = re.compile(r"-?\d+$")
_SOURCE_START = re.compile(r"[A-Za-z_]\w*(?:[.\[(]|$)")
_NO_MARKING = re.compile(r"_dynamo_\w*indices|_dynamo_dynamic_range|_dynamo_shape_ids")
_MISMATCH = re.compile(
    r"tensor '(?P<source>.+?)' (?P<property>\w+) mismatch(?: at index (?P<index>\d+))?\. "
    r"expected (?:\w+=)?(?P<expected>[^,]+), actual "
)
"""How a failing ``TENSOR_MATCH`` puts it (``torch/csrc/dynamo/guards.cpp``, ``TensorCheck::check_verbose``)."""

DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "b8",
    "complex64": "c64",
    "complex128": "c128",
}
"""torch's dtypes in its own short notation."""

_SCALAR_TYPES = {5: "f16", 6: "f32", 7: "f64", 15: "bf16"}
"""``c10/core/ScalarType.h``: what ``default_dtype`` of the global state can be."""

_SAME_OBJECT = {"code": "the same code object", "type": "the same class", "NoneType": "None", "ellipsis": "..."}
_WORD_OF = {"builtin_function_or_method": "function"}


def outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Positions and characters outside string literals; an unclosed quote is a plain character."""
    at = 0
    while at < len(text):
        character = text[at]
        if character in "'\"":
            end = _string_end(text, at)
            if end is not None:
                at = end
                continue
        yield at, character
        at += 1


def _string_end(text: str, start: int) -> int | None:
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == quote:
            return at + 1
        at += 1
    return None


def _arguments(text: str) -> tuple[list[str], str] | None:
    """The arguments of a call and what follows it.

    Args:
        text: What stands behind the opening parenthesis.
    """
    found: list[str] = []
    depth, start = 0, 0
    for at, character in outside_strings(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            if depth == 0:
                return [*found, text[start:at].strip()], text[at + 1 :]
            depth -= 1
        elif character == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    return None


def _call(text: str, *names: str) -> tuple[list[str], str] | None:
    """Arguments and rest when the text begins with a call of one of the names."""
    for name in names:
        if text.startswith(f"{name}("):
            return _arguments(text[len(name) + 1 :])
    return None


def _compared(text: str) -> tuple[str, str, str] | None:
    """Both sides of the one comparison that the text is, and its operator."""
    depth, places = 0, []
    for at, character in outside_strings(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == " " and (found := _COMPARISON.match(text, at)):
            places.append(found)
    if not places:
        return None
    first = places[0]
    return text[: first.start()].strip(), first[1], text[first.end() :].strip()


def meaning(guard: str) -> tuple[str | None, str | None, str | None]:
    """Kind by its form, source, and expected value in words."""
    for reader in (_tensor, _process_state, _identity, _membership, _attribute, _relation):
        found = reader(guard)
        if found is not None:
            return found
    return None, None, None


_Meaning = tuple[str | None, str | None, str | None] | None


def _tensor(guard: str) -> _Meaning:
    if mismatch := _MISMATCH.match(guard):
        place = "" if mismatch["index"] is None else f" in dim {mismatch['index']}"
        return "TENSOR_MATCH", mismatch["source"], f"{mismatch['property']} {mismatch['expected']}{place}"
    call = _call(guard, "check_tensor")
    if call is None or len(call[0]) < 4:
        return None
    arguments = call[0]
    named = dict(part.partition("=")[::2] for part in arguments if "=" in part.partition("[")[0])
    keys = arguments[2]
    dtype = arguments[3].removeprefix("torch.")
    sizes = _list(named.get("size", ""))
    words = DTYPES.get(dtype, dtype) + (
        "" if sizes is None else f"[{', '.join('any' if s == 'None' else s for s in sizes)}]"
    )
    device = named.get("device", "None")
    backend = next((name for name in ("CUDA", "XPU", "MPS", "Meta", "HPU") if re.search(rf"\b{name}\b", keys)), None)
    if backend is not None:
        words += f" {backend.lower()}" + ("" if device == "None" else f":{device}")
    strides = _list(named.get("stride", ""))
    if sizes and strides and not _is_contiguous(sizes, strides):
        words += f", strides [{', '.join('any' if s == 'None' else s for s in strides)}]"
    if named.get("requires_grad") == "True":
        words += ", requires grad"
    return "TENSOR_MATCH", arguments[0], words


def _list(text: str) -> list[str] | None:
    if not (text.startswith("[") and text.endswith("]")):
        return None
    return [part.strip() for part in text[1:-1].split(",") if part.strip()]


def _is_contiguous(sizes: list[str], strides: list[str]) -> bool:
    """The strides are those of a contiguous tensor, as far as both are numbers."""
    if len(sizes) != len(strides):
        return True
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if not (_NUMBER.match(size) and _NUMBER.match(stride)):
            return True
        if int(size) != 1 and int(stride) != expected:
            return False
        expected *= max(int(size), 1)
    return True


def _process_state(guard: str) -> _Meaning:
    if guard.startswith("___check_global_state()"):
        return "GLOBAL_STATE", None, _global_state(guard.partition(" against ")[2])
    if guard.startswith("___check_torch_function_mode_stack()"):
        return "TORCH_FUNCTION_MODE_STACK", None, "the same torch function modes"
    if guard.startswith("utils_device.CURRENT_DEVICE == "):
        device = guard.partition(" == ")[2]
        return "DEFAULT_DEVICE", None, "no default device" if device == "None" else f"default device {device}"
    if "top_saved_tensors_hooks" in guard:
        hooks = guard.rpartition(" == ")[2]
        return "LAMBDA_GUARD", None, "no saved-tensor hooks" if hooks == "None" else "the same saved-tensor hooks"
    if guard.startswith("torch.autograd.forward_ad._current_level == "):
        return "DUAL_LEVEL", None, f"forward-mode level {guard.rpartition(' == ')[2]}"
    if "compare_functorch_state(" in guard:
        return "LAMBDA_GUARD", None, "the same functorch transforms"
    return None


def _global_state(text: str) -> str:
    """The global state (``GlobalStateGuard::to_json``, 2.13) in words; what differs from torch's defaults shows."""
    try:
        state = orjson.loads(text)
    except orjson.JSONDecodeError:
        state = None
    if not isinstance(state, dict):
        return "the same process-wide state"
    words = []
    if isinstance(grad := state.get("grad_mode"), bool):
        words.append(f"grad mode {_on(grad)}")
    autocast = state.get("autocast_state")
    if isinstance(autocast, dict) and isinstance(enabled := autocast.get("enabled"), list):
        words.append(f"autocast {_on(any(enabled))}")
    default = state.get("default_dtype")
    if isinstance(default, int):
        words.append(f"default dtype {_SCALAR_TYPES.get(default, default)}")
    if isinstance(deterministic := state.get("deterministic_algorithms"), bool):
        words.append(f"deterministic algorithms {_on(deterministic)}")
    if isinstance(threads := state.get("num_threads"), int):
        words.append(f"{threads} thread{'' if threads == 1 else 's'}")
    if state.get("allow_tf32") is True:
        words.append("tf32 on")
    if state.get("torch_function") is False or state.get("torch_function_all_disabled") is True:
        words.append("torch functions off")
    return ", ".join(words) or "the same process-wide state"


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"


def _identity(guard: str) -> _Meaning:
    """Type and identity: the numbers are addresses, which say nothing to anyone."""
    call = _call(guard, "___check_type_id", "___check_fake_script_type")
    if call is not None:
        return "TYPE_MATCH", call[0][0], _article(_class_name(call[1]) or "value of the same type")
    call = _call(guard, "___check_obj_id")
    if call is not None:
        name = _class_name(call[1])
        if name == "bool":
            return "ID_MATCH", call[0][0], "the same bool"
        if name is None:
            return "ID_MATCH", call[0][0], "the same object"
        short = name.rpartition(".")[2]
        return "ID_MATCH", call[0][0], _SAME_OBJECT.get(name, f"the same {_WORD_OF.get(short, short)}")
    call = _call(guard, "check_no_aliasing")
    if call is not None:
        return "NO_TENSOR_ALIASING", None, f"{len(call[0])} tensors that are all different objects"
    return None


def _class_name(text: str) -> str | None:
    found = _CLASS.search(text)
    if found:
        return found[1]
    name = text.rpartition("type=")[2].strip()
    return name or None


def _article(name: str) -> str:
    short = name.rpartition(".")[2] or name
    if short == "NoneType":
        return "None"
    return f"{'an' if short[:1].lower() in 'aeio' else 'a'} {short}"


def _membership(guard: str) -> _Meaning:
    is_absent = guard.startswith("not ")
    call = _call(guard.removeprefix("not "), "___dict_contains")
    if call is not None and len(call[0]) == 2:
        return "DICT_CONTAINS", call[0][1], f"{'no ' if is_absent else ''}key {call[0][0]}"
    call = _call(guard.removeprefix("not "), "set.__contains__")
    if call is not None and len(call[0]) == 2:
        return "SET_CONTAINS", call[0][0], f"{'does not hold' if is_absent else 'holds'} {call[0][1]}"
    call = _call(guard, "___dict_version")
    if call is not None:
        return "DICT_VERSION", call[0][0], "the same contents"
    return None


def _attribute(guard: str) -> _Meaning:
    if _NO_MARKING.search(guard) and (call := _call(guard.lstrip("("), "hasattr", "getattr")):
        has_none = guard.startswith("hasattr(") and guard.endswith("== False")
        words = "no dynamic marking" if has_none else "the same dynamic marking"
        return "DIMENSION_DYNAMIC_MARKING_GUARD", call[0][0], words
    is_absent = guard.startswith("not ")
    call = _call(guard.removeprefix("not "), "hasattr")
    if call is not None and len(call[0]) == 2:
        if call[1].strip() == "== False":
            is_absent = True
        return "HASATTR", call[0][0], f"{'no ' if is_absent else ''}attribute {call[0][1].strip(chr(39))}"
    return None


_LENGTHS = {
    "len": "LENGTH_CHECK",
    "set.__len__": "LENGTH_CHECK",
    "frozenset.__len__": "LENGTH_CHECK",
    "___tuple_iterator_len": "TUPLE_ITERATOR_LEN",
    "___list_reverseiterator_len": "LENGTH_CHECK",
}


def _relation(guard: str) -> _Meaning:
    compared = _compared(guard)
    if compared is None:
        if guard.startswith("not math.isnan("):
            return "LAMBDA_GUARD", guard[len("not math.isnan(") : -1], "not NaN"
        if guard.startswith("not ") and _is_source(guard[4:]):
            return "LENGTH_CHECK", guard[4:], "empty"
        return None
    left, operator, right = compared
    for name, kind in _LENGTHS.items():
        if (call := _call(left, name)) is not None and operator == "==" and not call[1]:
            return kind, call[0][0], f"length {right}"
    if (call := _call(left, "list")) is not None and operator == "==":
        keys_of = call[0][0]
        inner = _call(keys_of, "dict.keys")
        source = inner[0][0] if inner else keys_of.removesuffix(".keys()")
        if not call[1]:
            return "DICT_KEYS_MATCH", source, f"the keys {right}"
    return _comparison(left, operator, right)


def _comparison(left: str, operator: str, right: str) -> _Meaning:
    if _NUMBER.match(left) and operator in ("<=", "<", "==") and (found := _compared(f"{left} {operator} {right}")):
        # A relation on sizes, such as ``2 <= L['x'].size()[0]``.
        source = found[2]
        if _compared(source) is None and _is_source(source):
            words = {"<=": "at least", "<": "more than", "==": ""}[operator]
            return "LAMBDA_GUARD", source, f"{words} {left}".strip()
    if not _is_source(left):
        return None
    match operator:
        case "==" if _is_source(right) and "[" in right:
            return "LAMBDA_GUARD", left, f"equal to {right}"
        case "==":
            return "EQUALS_MATCH", left, right
        case "is" if right == "None":
            return "NONE_MATCH", left, right
        case "is" if right in ("True", "False"):
            return "ID_MATCH", left, right
        case "is" if _is_source(right):
            return "OBJECT_ALIASING", left, f"the same object as {right}"
        case "is not" if right == "None":
            return "NOT_NONE_MATCH", left, "not None"
        case "<=" | "<" | ">=" | ">" | "!=":
            return "LAMBDA_GUARD", left, f"{operator} {right}"
        case _:
            return None


def _is_source(text: str) -> bool:
    """One value's source: no operator outside its brackets."""
    depth = 0
    for _, character in outside_strings(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character in " ,+*<>=":
            return False
    return bool(_SOURCE_START.match(text))
