"""Reads the process-wide state of ``GlobalStateGuard`` (``torch/csrc/dynamo/guards.cpp``, 2.13), and names dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson

from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.facts.wording import counted

_DTYPES = (
    ("uint8", "u8", "Byte", 0),
    ("int8", "i8", "Char", 1),
    ("int16", "i16", "Short", 2),
    ("int32", "i32", "Int", 3),
    ("int64", "i64", "Long", 4),
    ("float16", "f16", "Half", 5),
    ("float32", "f32", "Float", 6),
    ("float64", "f64", "Double", 7),
    ("complex32", "c32", "ComplexHalf", 8),
    ("complex64", "c64", "ComplexFloat", 9),
    ("complex128", "c128", "ComplexDouble", 10),
    ("bool", "b8", "Bool", 11),
    ("bfloat16", "bf16", "BFloat16", 15),
    ("float8_e5m2", "f8e5m2", "Float8_e5m2", 23),
    ("float8_e4m3fn", "f8e4m3fn", "Float8_e4m3fn", 24),
    ("float8_e5m2fnuz", "f8e5m2fnuz", "Float8_e5m2fnuz", 25),
    ("float8_e4m3fnuz", "f8e4m3fnuz", "Float8_e4m3fnuz", 26),
    ("uint16", "u16", "UInt16", 27),
    ("uint32", "u32", "UInt32", 28),
    ("uint64", "u64", "UInt64", 29),
    ("float8_e8m0fnu", "f8e8m0fnu", "Float8_e8m0fnu", 44),
    ("float4_e2m1fn_x2", "f4e2m1fnx2", "Float4_e2m1fn_x2", 45),
)
"""Each dtype's name in Python, in print (``torch.dtype.abbr``), and its ``c10::ScalarType`` (2.13)."""
_SHORT: dict[str | int, str] = {key: short for name, short, scalar, code in _DTYPES for key in (name, scalar, code)}


def short_dtype(dtype: str | int) -> str:
    """A dtype's short name; an unknown dtype as it is, without ``torch.``."""
    key = dtype.removeprefix("torch.") if isinstance(dtype, str) else dtype
    return _SHORT.get(key, str(key))


_AUTOCAST_DEVICES = ("cpu", "cuda", "mtia", "maia", "xpu", "ipu", "hpu", "xla", "privateuseone", "mps")
"""Order of the autocast lists (``at::autocast::_AUTOCAST_SUPPORTED_DEVICES``, 2.13)."""

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
_AUTOCAST = "autocast"
STATE_NAMES = (*(words for _, words in _KINDS.values()), _AUTOCAST)
"""What changes call torch's process-wide settings."""


def read_state(text: str) -> dict[str, object] | None:
    """The state that a guard prints, or None if it isn't JSON."""
    try:
        state = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return state if isinstance(state, dict) else None


def state_words(state: Mapping[str, object]) -> str:
    """The state in words: the settings that programs change most, and others that aren't torch's defaults."""
    autocast, default, threads = (state.get(name) for name in ("autocast_state", "default_dtype", "num_threads"))
    enabled = autocast.get("enabled") if isinstance(autocast, dict) else None
    grad, deterministic = state.get("grad_mode"), state.get("deterministic_algorithms")
    is_off = state.get("torch_function") is False or state.get("torch_function_all_disabled") is True
    words = [
        f"grad mode {_on(is_on=grad)}" if isinstance(grad, bool) else None,
        f"autocast {_on(is_on=any(enabled))}" if isinstance(enabled, list) else None,
        f"default dtype {short_dtype(default)}" if isinstance(default, int) else None,
        f"deterministic algorithms {_on(is_on=deterministic)}" if isinstance(deterministic, bool) else None,
        counted(threads, "thread") if isinstance(threads, int) else None,
        "TF32 on" if state.get("allow_tf32") is True else None,
        "torch function dispatch off" if is_off else None,
    ]
    return ", ".join(filter(None, words))


def state_changes(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[GuardChange]:
    """What differs between two states."""
    for name, before in old.items():
        after = new.get(name)
        if before == after:
            continue
        if name == "autocast_state":
            words_before, words_after = _autocast(before), _autocast(after)
            if words_before != words_after:
                yield GuardChange(kind="autocast", expression=_AUTOCAST, old=words_before, new=words_after)
            continue
        kind, words = _kind(name)
        yield GuardChange(kind=kind, expression=words, old=_value(name, before), new=_value(name, after))


def named_changes(names: Iterable[str]) -> Iterator[GuardChange]:
    """What changed, if torch prints only the names of the settings."""
    for name in names:
        kind, words = _kind(name)
        yield GuardChange(kind=kind, expression=words)


def _kind(name: str) -> tuple[ChangeKind, str]:
    if name.startswith("autocast"):
        return "autocast", _AUTOCAST
    return _KINDS.get(name, ("global_state", name.replace("_", " ")))


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return _on(is_on=value)
    if name == "default_dtype" and isinstance(value, int):
        return short_dtype(value)
    return str(value)


def _on(*, is_on: bool) -> str:
    return "on" if is_on else "off"


def _autocast(state: object) -> str:
    if not isinstance(state, dict):
        return "unknown"
    on = [
        f"{device} {short_dtype(dtype)}"
        for device, dtype, is_on in zip(
            _AUTOCAST_DEVICES, state.get("dtype") or [], state.get("enabled") or [], strict=False
        )
        if is_on
    ]
    return f"on ({', '.join(on)})" if on else "off"
