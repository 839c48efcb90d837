"""The dtypes, with all the names that torch's guard texts use for them.

Comes in: ``torch.float32`` from a tensor guard, ``Float`` from a failed one, ``6`` from the process-wide state. Goes
out: ``f32``, torch's own short name.
"""

from __future__ import annotations

from typing import NamedTuple


class DType(NamedTuple):
    """One dtype.

    Args:
        name: Its Python name without ``torch.``.
        short: ``torch.dtype.abbr``, 2.13.
        scalar_type: ``c10::ScalarType``'s name (``torch/headeronly/core/ScalarType.h``, 2.13).
        code: ``c10::ScalarType``'s number.
    """

    name: str
    short: str
    scalar_type: str
    code: int


_DTYPES = (
    DType("uint8", "u8", "Byte", 0),
    DType("int8", "i8", "Char", 1),
    DType("int16", "i16", "Short", 2),
    DType("int32", "i32", "Int", 3),
    DType("int64", "i64", "Long", 4),
    DType("float16", "f16", "Half", 5),
    DType("float32", "f32", "Float", 6),
    DType("float64", "f64", "Double", 7),
    DType("complex32", "c32", "ComplexHalf", 8),
    DType("complex64", "c64", "ComplexFloat", 9),
    DType("complex128", "c128", "ComplexDouble", 10),
    DType("bool", "b8", "Bool", 11),
    DType("bfloat16", "bf16", "BFloat16", 15),
    DType("float8_e5m2", "f8e5m2", "Float8_e5m2", 23),
    DType("float8_e4m3fn", "f8e4m3fn", "Float8_e4m3fn", 24),
    DType("float8_e5m2fnuz", "f8e5m2fnuz", "Float8_e5m2fnuz", 25),
    DType("float8_e4m3fnuz", "f8e4m3fnuz", "Float8_e4m3fnuz", 26),
    DType("uint16", "u16", "UInt16", 27),
    DType("uint32", "u32", "UInt32", 28),
    DType("uint64", "u64", "UInt64", 29),
    DType("float8_e8m0fnu", "f8e8m0fnu", "Float8_e8m0fnu", 44),
    DType("float4_e2m1fn_x2", "f4e2m1fnx2", "Float4_e2m1fn_x2", 45),
)
_SHORT: dict[str | int, str] = {key: each.short for each in _DTYPES for key in (each.name, each.scalar_type, each.code)}


def short_dtype(dtype: str | int) -> str:
    """A dtype's short name; an unknown dtype as it is, without ``torch.``."""
    key = dtype.removeprefix("torch.") if isinstance(dtype, str) else dtype
    return _SHORT.get(key, str(key))
