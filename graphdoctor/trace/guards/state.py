"""Reads the process-wide state of ``GlobalStateGuard`` (``torch/csrc/dynamo/guards.cpp``, 2.13),
and names dtypes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import orjson

from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.facts.wording import counted

_DTYPES = {
    **{
        0: ("uint8", "Byte"),
        1: ("int8", "Char"),
        2: ("int16", "Short"),
        3: ("int32", "Int"),
        4: ("int64", "Long"),
    },
    **{
        5: ("float16", "Half"),
        6: ("float32", "Float"),
        7: ("float64", "Double"),
        8: ("complex32", "ComplexHalf"),
    },
    **{9: ("complex64", "ComplexFloat"), 10: ("complex128", "ComplexDouble"), 11: ("bool", "Bool")},
    **{
        15: ("bfloat16", "BFloat16"),
        23: ("float8_e5m2", "Float8_e5m2"),
        24: ("float8_e4m3fn", "Float8_e4m3fn"),
    },
    **{25: ("float8_e5m2fnuz", "Float8_e5m2fnuz"), 26: ("float8_e4m3fnuz", "Float8_e4m3fnuz")},
    **{27: ("uint16", "UInt16"), 28: ("uint32", "UInt32"), 29: ("uint64", "UInt64")},
    **{44: ("float8_e8m0fnu", "Float8_e8m0fnu"), 45: ("float4_e2m1fn_x2", "Float4_e2m1fn_x2")},
}
"""Each dtype's ``c10::ScalarType`` (2.13), as a number, with its name in Python and in C++."""
_ABBREVIATED = re.compile(r"(?<=f)loat|(?<=u)int|(?<=i)nt|(?<=c)omplex|_")
"""What ``torch.dtype.abbr`` leaves out of a name."""
_SHORT: dict[str | int, str] = {
    key: "b8" if names[0] == "bool" else _ABBREVIATED.sub("", names[0])
    for number, names in _DTYPES.items()
    for key in (number, *names)
}


def short_dtype(dtype: str | int) -> str:
    """A dtype's short name; an unknown dtype as it is, without ``torch.``."""
    key = dtype.removeprefix("torch.") if isinstance(dtype, str) else dtype
    return _SHORT.get(key, str(key))


_AUTOCAST_DEVICES = (
    "cpu",
    "cuda",
    "mtia",
    "maia",
    "xpu",
    "ipu",
    "hpu",
    "xla",
    "privateuseone",
    "mps",
)
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
    """The state in words: the settings that programs change most, and others that aren't torch's
    defaults.
    """
    autocast, default, threads = (
        state.get(name) for name in ("autocast_state", "default_dtype", "num_threads")
    )
    enabled = autocast.get("enabled") if isinstance(autocast, dict) else None
    grad, deterministic = state.get("grad_mode"), state.get("deterministic_algorithms")
    is_off = (
        state.get("torch_function") is False or state.get("torch_function_all_disabled") is True
    )
    words = [
        f"grad mode {_on(is_on=grad)}" if isinstance(grad, bool) else None,
        f"autocast {_on(is_on=any(enabled))}" if isinstance(enabled, list) else None,
        f"default dtype {short_dtype(default)}" if isinstance(default, int) else None,
        f"deterministic algorithms {_on(is_on=deterministic)}"
        if isinstance(deterministic, bool)
        else None,
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
                yield GuardChange(
                    kind="autocast", expression=_AUTOCAST, old=words_before, new=words_after
                )
            continue
        kind, words = _kind(name)
        yield GuardChange(
            kind=kind, expression=words, old=_value(name, before), new=_value(name, after)
        )


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
    return short_dtype(value) if name == "default_dtype" and isinstance(value, int) else str(value)


def _on(*, is_on: bool) -> str:
    return "on" if is_on else "off"


def _autocast(state: object) -> str:
    if not isinstance(state, dict):
        return "unknown"
    each = zip(
        _AUTOCAST_DEVICES, state.get("dtype") or [], state.get("enabled") or [], strict=False
    )
    on = [f"{device} {short_dtype(dtype)}" for device, dtype, is_on in each if is_on]
    return f"on ({', '.join(on)})" if on else "off"
