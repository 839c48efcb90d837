"""torch's guard texts in words: what a guard compares, what it expects, and what torch says when it fails.

Pure functions from text to facts. The texts were seen on 2.11, 2.13 and 2.15: guards as
``torch/_dynamo/guards.py`` writes them (``L['f'] == 1.5``, ``check_tensor(L['x'], …)``), messages as
``torch/csrc/dynamo/guards.cpp`` makes them (``tensor 'x' size mismatch at index 0. expected 4, actual 6``). What is of
no known form stays as torch's own words: nothing is lost.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import orjson

from graphdoctor.model import expressions
from graphdoctor.model.recompiles import ChangeKind, GuardChange

_COMMENT = re.compile(r"\s+# ")
_PLACE = re.compile(r"# (\S+):(\d+) in (\S+)")
_HINT = re.compile(r"\(HINT: (.*)\)\s*$", re.DOTALL)
_PRINTED_STACK = "\nUser stack trace:\n"
_STACK_LINE = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_ENTRY_ID = re.compile(r"^(\d+/\d+): ")
_TENSOR = re.compile(
    r"check_tensor\((?P<source>.+?), (?P<type>\w+), DispatchKeySet\((?P<keys>.*?)\), torch\.(?P<dtype>\w+), "
    r"device=(?P<device>\w+), requires_grad=(?P<grad>\w+), size=\[(?P<size>.*?)\], stride=\[(?P<stride>.*?)\]\)"
)
_MISMATCH = re.compile(
    r"^tensor '(?P<name>.+?)' (?P<what>size|stride|rank|dtype|requires_grad|dispatch key set) mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?P<old>.+?)(?:, actual (?P<new>.+?))?\s*$"
)
_DEVICE = re.compile(r"^tensor '(.+?)' Tensor device index mismatch\. Expected device index to be (\S+), actual (\S+)")
_NO_TENSOR = re.compile(r"^expected type of '(.+?)' to be a tensor type,\s*'?\s*but found <class '(.+?)'>")
_WRONG_TYPE = re.compile(r"^TYPE_MISMATCH\((.+)\)$")
_STATE = re.compile(r"^GLOBAL_STATE changed: (.+)$")
_STATE_TEXT = re.compile(r"___check_global_state\(\) against (\{.*\})", re.DOTALL)
_OBJECT = re.compile(r"^___check_(obj|type)_id\((.+), \d+\)(?:, type=<class '(.+?)'>)?")
_LENGTH = re.compile(r"^(?:len|___tuple_iterator_len)\((.+)\) [=!]= (\d+)$")
_EMPTY = re.compile(r"^not (.+)$")
_CONTAINS = re.compile(r"^(not )?___dict_contains\((.+?), (.+)\)$")
_HASATTR = re.compile(r"^(not )?hasattr\((.+), '(\w+)'\)( == (?:True|False))?$")
_KEY_AT = re.compile(r"^list\((?:dict\.)?keys\((.+)\)\)\[\d+\] == (.+)$|^list\(dict\.keys\((.+?)\)\)\[\d+\] == (.+)$")
_EQUALS = re.compile(r"^(.+?) (==|is not|is|!=) (.+)$", re.DOTALL)
_MARKED = re.compile(r"^_(?:has_)?dynamo_\w+ is (present|absent) on runtime tensor")
_CURRENT_DEVICE = re.compile(r"^utils_device\.CURRENT_DEVICE == (.+)$")
_MODULE_ATTRIBUTE = re.compile(r"(?:L\['self'\]|self|L\['fn'\]|fn|L\['args'\]\[0\]|args\[0\])[.\[](?:.*\.)?\w+$")
_DTYPE_CODES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 15: "bfloat16",
}  # fmt: skip
"""``c10::ScalarType`` (``torch/csrc/…/ScalarType.h``): the numbers in ``GlobalStateGuard``'s state."""

_AUTOCAST_DEVICES = ("cpu", "cuda", "mtia", "maia", "xpu", "ipu", "hpu", "xla", "privateuseone", "mps")
"""Order of the autocast lists in that state (``at::autocast::_AUTOCAST_SUPPORTED_DEVICES``, 2.13)."""

_STATE_KINDS: dict[str, tuple[ChangeKind, str]] = {
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
_DTYPE_NAMES = {
    "Float": "f32", "Double": "f64", "Half": "f16", "BFloat16": "bf16", "Long": "i64", "Int": "i32", "Short": "i16",
    "Char": "i8", "Byte": "u8", "Bool": "b8", "ComplexFloat": "c64", "ComplexDouble": "c128",
}  # fmt: skip
DTYPE_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
"""torch's long dtype names and its own short ones (``torch/fx/graph.py``, 2.13, ``dtype_abbrs``)."""


expression = partial(expressions.expression, carried=str)
"""A source in the user's words; values that Dynamo carried over keep torch's name, for whoever knows the break."""


@dataclass(frozen=True)
class GuardWords:
    """A guard's text, taken apart.

    Args:
        code: What is compared, without torch's comment.
        place: File (it can lack its first letters), line and function of the comment, or None.
        hint: torch's hint for this guard.
        entry: The cache entry's compile id, in the text of a recompile reason.
        stack: Places of the printed user stack, outermost first.
    """

    code: str
    place: tuple[str, int, str] | None
    hint: str | None
    entry: str | None
    stack: tuple[tuple[str, int, str], ...]


def take_apart(text: str) -> GuardWords:
    """Split a guard's or a recompile reason's text into code, place, hint and stack."""
    body, _, printed = text.partition(_PRINTED_STACK)
    entry = _ENTRY_ID.match(body)
    body = body[entry.end() :] if entry else body
    code, *comments = _COMMENT.split(body)
    comment = "# " + " # ".join(comments) if comments else ""
    place = list(_PLACE.finditer(comment))
    hint = _HINT.search(body)
    return GuardWords(
        code=code.strip(),
        place=(place[-1][1], int(place[-1][2]), place[-1][3]) if place else None,
        hint=" ".join(hint[1].split()) if hint else None,
        entry=entry[1] if entry else None,
        stack=tuple((match[1], int(match[2]), match[3]) for match in _STACK_LINE.finditer(printed)),
    )


@dataclass(frozen=True)
class ExpectedTensor:
    """What a ``check_tensor`` guard expects; a dim that may change is None."""

    type: str
    keys: str
    dtype: str
    requires_grad: bool
    size: tuple[int | None, ...]
    stride: tuple[int | None, ...]


def expected_tensor(code: str) -> ExpectedTensor | None:
    """A tensor guard's expectation, or None when the text is another guard's."""
    match = _TENSOR.search(code)
    if match is None:
        return None
    return ExpectedTensor(
        type=match["type"],
        keys=match["keys"],
        dtype=DTYPE_SHORT.get(match["dtype"], match["dtype"]),
        requires_grad=match["grad"] == "True",
        size=_sizes(match["size"]),
        stride=_sizes(match["stride"]),
    )


def _sizes(text: str) -> tuple[int | None, ...]:
    return tuple(int(part) if part.strip().isdigit() else None for part in text.split(",") if part.strip())


def changes_in(reason: str) -> Iterator[GuardChange]:
    """What a recompile reason as torch prints it says: one change, or several of process-wide state.

    Args:
        reason: Such as ``0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6``.
    """
    words = take_apart(reason)
    state = _STATE.match(words.code)
    if state:
        for name in state[1].split():
            yield _state_change(name)
        return
    change = _mismatch(words.code) or _comparison(words.code)
    yield change.model_copy(
        update={
            "expression": expression(change.expression),
            "guard": words.code,
            "hint": words.hint,
        }
    )


def _mismatch(code: str) -> GuardChange | None:
    """Torch's message about a tensor that does not fit."""
    if match := _MISMATCH.match(code):
        name, what, index = match["name"], match["what"], match["index"]
        old, new = match["old"], match["new"]
        match what:
            case "size":
                return GuardChange(kind="size", expression=f"{name}.shape[{index}]", old=old, new=new)
            case "stride":
                return GuardChange(kind="stride", expression=f"{name}.stride({index})", old=old, new=new)
            case "rank":
                return GuardChange(kind="rank", expression=f"{name}.ndim", old=old, new=new)
            case "dtype":
                old, new = _DTYPE_NAMES.get(old, old), _DTYPE_NAMES.get(new or "", new)
                return GuardChange(kind="dtype", expression=f"{name}.dtype", old=old, new=new)
            case "requires_grad":
                expected = old.rpartition("=")[2] == "1"
                return GuardChange(
                    kind="requires_grad",
                    expression=f"{name}.requires_grad",
                    old=str(expected),
                    new=str(not expected),
                )
        return dispatch_change(name, old, new or "")
    if match := _DEVICE.match(code):
        return GuardChange(kind="device", expression=f"{match[1]}.device", old=match[2], new=match[3])
    if match := _NO_TENSOR.match(code):
        return GuardChange(kind="type", expression=match[1], old="a tensor", new=_a_type(match[2]))
    if match := _WRONG_TYPE.match(code):
        return GuardChange(kind="type", expression=match[1])
    return None


def dispatch_change(name: str, old: str, new: str) -> GuardChange:
    """Another set of dispatch keys: an inference tensor lacks those of autograd."""
    if ("ADInplaceOrView" in old) != ("ADInplaceOrView" in new):
        words = {True: "a normal tensor", False: "an inference tensor"}
        return GuardChange(
            kind="inference_mode",
            expression=name,
            old=words["ADInplaceOrView" in old],
            new=words["ADInplaceOrView" in new],
        )
    return GuardChange(kind="dispatch_keys", expression=name, old=old, new=new)


def _state_change(name: str) -> GuardChange:
    if name.startswith("autocast"):
        return GuardChange(kind="autocast", expression="autocast")
    kind, words = _STATE_KINDS.get(name, ("global_state", name.replace("_", " ")))
    return GuardChange(kind=kind, expression=words)


def _comparison(code: str) -> GuardChange:
    """A guard that no longer holds, from its text: what it expected is the old value."""
    if match := _STATE_TEXT.search(code):
        return GuardChange(kind="global_state", expression="process-wide state of torch")
    if match := _OBJECT.match(code):
        if match[1] == "type":
            return GuardChange(kind="type", expression=match[2], old=_a_type(match[3]) if match[3] else None)
        return GuardChange(kind="identity", expression=match[2].removesuffix(".__code__"))
    if match := _LENGTH.match(code):
        return GuardChange(kind="length", expression=f"len({match[1]})", old=match[2])
    if match := _CONTAINS.match(code):
        had = match[1] is None
        return GuardChange(
            kind="keys",
            expression=match[3],
            old=f"{'with' if had else 'without'} {match[2]}",
            new=f"{'without' if had else 'with'} {match[2]}",
        )
    if match := _HASATTR.match(code):
        if match[3].startswith("_dynamo_"):
            return GuardChange(kind="dynamic_marking", expression=f"the dims marked on {match[2]}")
        had = match[1] is None and match[4] != " == False"
        return GuardChange(
            kind="attribute",
            expression=match[2],
            old=f"{'with' if had else 'without'} {match[3]}",
            new=f"{'without' if had else 'with'} {match[3]}",
        )
    if match := _KEY_AT.match(code):
        source = match[1] or match[3]
        return GuardChange(kind="keys", expression=source, old=f"with {match[2] or match[4]}")
    if match := _CURRENT_DEVICE.match(code):
        return GuardChange(kind="default_device", expression="the default device", old=match[1])
    if match := _MARKED.match(code):
        old, new = ("marked", "not marked") if match[1] == "absent" else ("not marked", "marked")
        return GuardChange(kind="dynamic_marking", expression="the dims marked on a tensor", old=old, new=new)
    if "___check_torch_function_mode_stack" in code:
        return GuardChange(kind="function_mode", expression="the active torch function modes")
    if "top_saved_tensors_hooks" in code:
        return GuardChange(kind="global_state", expression="saved tensor hooks")
    if code.startswith("BACKEND_MATCH"):
        return GuardChange(kind="backend", expression="the backend")
    if "got deallocated" in code or code.startswith("Cache line invalidated"):
        return GuardChange(kind="entry_gone", expression="an object that the compiled code belonged to")
    if code.startswith("Duplicate tensor"):
        return GuardChange(kind="aliasing", expression="arguments that are the same tensor")
    return _equality(code)


def _equality(code: str) -> GuardChange:
    match = _EQUALS.match(code)
    if match is None or _is_relation(code, match[1], match[3]):
        if _is_relation(code, code, "") or re.search(r"\.(?:size|stride)\(\)|[<>]=? ", code):
            return GuardChange(kind="relation", expression=code)
        if match := _EMPTY.match(code):
            return GuardChange(kind="length", expression=f"len({match[1]})", old="0")
        return GuardChange(kind="unknown", expression=code)
    source, operator, old = match[1], match[2], match[3]
    if operator == "is" and old != "None":
        return GuardChange(kind="aliasing", expression=f"{source} and {old}", old="the same object", new="two objects")
    if operator in ("is not", "!="):
        return GuardChange(kind="none" if old == "None" else "value", expression=source, new=old)
    return GuardChange(kind=value_kind(source, old, None), expression=source, old=old)


def _is_relation(code: str, left: str, right: str) -> bool:
    return any(".size()[" in side or ".stride()[" in side or ".storage_offset()" in side for side in (left, right)) or (
        code.startswith(("Eq(", "Ne(", "Mod("))
    )


def value_kind(source: str, old: str | None, new: str | None) -> ChangeKind:
    """What kind of value a guard on a constant is about, from its text before and after."""
    if source.endswith(".training"):
        return "training"
    values = [_literal(text) for text in (old, new) if text is not None]
    if any(value is None for value in values):
        return "none"
    if any(isinstance(value, bool) for value in values):
        return "flag"
    if all(isinstance(value, (int, float)) for value in values):
        return "module_number" if _is_module_attribute(source) else "number"
    if any(isinstance(value, str) for value in values):
        return "text"
    return "value"


def _is_module_attribute(source: str) -> bool:
    """An attribute of the root module, in torch's words or with the scope stripped, or of one below it."""
    return _MODULE_ATTRIBUTE.match(source) is not None and "__closure__" not in source


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _NO_LITERAL


_NO_LITERAL = object()


def _a_type(name: str) -> str:
    short = name.rpartition(".")[2]
    return "None" if short == "NoneType" else f"a {short}"


def state_of(code: str) -> dict[str, object] | None:
    """The process-wide state in a guard's text, or None."""
    match = _STATE_TEXT.search(code)
    if match is None:
        return None
    try:
        value = orjson.loads(match[1])
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def state_changes(old: dict[str, object], new: dict[str, object]) -> Iterator[GuardChange]:
    """What differs between two process-wide states."""
    for name, before in old.items():
        after = new.get(name)
        if before == after:
            continue
        if name == "autocast_state":
            words_before, words_after = _autocast(before), _autocast(after)
            if words_before != words_after:
                yield GuardChange(kind="autocast", expression="autocast", old=words_before, new=words_after)
            continue
        kind, words = _STATE_KINDS.get(name, ("global_state", name.replace("_", " ")))
        yield GuardChange(kind=kind, expression=words, old=_state_word(name, before), new=_state_word(name, after))


def _state_word(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "default_dtype" and isinstance(value, int):
        return DTYPE_SHORT.get(_DTYPE_CODES.get(value, ""), str(value))
    return str(value)


def _autocast(state: object) -> str:
    if not isinstance(state, dict):
        return "not known"
    enabled, dtypes = state.get("enabled") or [], state.get("dtype") or []
    on = [
        f"{device} {DTYPE_SHORT.get(_DTYPE_CODES.get(dtype, ''), dtype)}"
        for device, dtype, is_on in zip(_AUTOCAST_DEVICES, dtypes, enabled, strict=False)
        if is_on
    ]
    return f"on ({', '.join(on)})" if on else "off"
