"""What ``DDPOptimizer`` printed of a graph that it split -> ``DdpSplit``.

``compile_fn`` (``torch/_dynamo/backends/distributed.py``, 2.13) counts the sizes of parameters that
require gradients; the print doesn't say which do, so all count here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphdoctor.facts.base import whole_sum
from graphdoctor.facts.recording import DdpBucket, DdpSplit

_SIGNATURE = re.compile(r"def forward\((.*?)\)(?:\s*->[^:\n]+)?:\n", re.DOTALL)
_ARGUMENT = re.compile(r'(\w+)\s*:\s*"(\w+)\[([^\]]*)\]')
_CALL = re.compile(r'^\s+\w+(?:\s*:\s*"[^"]*")?\s*=\s*[\w.]+[(\[]', re.MULTILINE)
_PARAMETER = re.compile(r"_parameters_(?!.*_modules_)")
_DTYPE = re.compile(r"(?:bf|[fiubc])(\d+)")


@dataclass
class SeenSplit:
    """The prints of one split."""

    compile_id: str
    code: str
    parts: list[tuple[str, str]] = field(default_factory=list)


def split_of(seen: SeenSplit, parameters: Mapping[str, str] | None) -> DdpSplit:
    """A split graph's parts, their parameters, and what crosses between them."""
    outside = {name.lower() for name, _ in _arguments(seen.code)}
    crossing: dict[str, int | None] = {}
    buckets: list[DdpBucket] = []
    # The body of a checkpoint or a ``torch.cond`` is in the part that calls it, and is listed
    # beside it.
    parts = [
        (name, code.partition("\n    class ")[0])
        for name, code in seen.parts
        if name.startswith("submod_")
    ]
    for name, code in parts:
        own: dict[str, int | None] = {}
        for argument, size in _arguments(code):
            if argument.lower() not in outside:
                crossing[argument] = size
            elif (known := _parameter(argument, parameters)) is not None:
                own[known] = size
        body = code[match.end() :] if (match := _SIGNATURE.search(code)) else ""
        count = len(_CALL.findall(body))
        buckets.append(
            DdpBucket(
                name=name,
                parameters=tuple(own),
                parameter_bytes=whole_sum(own.values()),
                op_count=count,
            )
        )
    return DdpSplit(
        compile_id=seen.compile_id,
        buckets=tuple(buckets),
        crossing_count=len(crossing),
        crossing_bytes=whole_sum(crossing.values()),
    )


def _arguments(code: str) -> list[tuple[str, int | None]]:
    signature = _SIGNATURE.search(code)
    return [
        (name, _bytes(*size))
        for name, *size in _ARGUMENT.findall(signature[1] if signature else "")
    ]


def _bytes(dtype: str, shape: str) -> int | None:
    bits, sizes = (
        _DTYPE.fullmatch(dtype),
        [part.strip() for part in shape.split(",") if part.strip()],
    )
    is_known = bits is not None and all(size.isdigit() for size in sizes)
    return math.prod(map(int, sizes)) * int(bits[1]) // 8 if bits and is_known else None


def _parameter(argument: str, parameters: Mapping[str, str] | None) -> str | None:
    if parameters is not None:
        return parameters.get(argument.lower())
    return argument if _PARAMETER.search(argument) else None
