"""A graph as the text of a function that anybody can run, with inputs of random numbers."""

from __future__ import annotations

import re

import torch
from torch import Tensor
from torch.fx import GraphModule

from .runs import Inputs

_SIGNATURE = re.compile(r"^def forward\(self, ?(?P<rest>.*)$")
_KNOWN = frozenset({"torch", "device", "inf", "nan"})
"""What a graph's text may use besides Python's own names."""


def function_text(module: GraphModule, inputs: Inputs) -> str | None:
    """Write a graph as ``program``, and its ``inputs``; None if it needs more than torch, or inputs
    that random numbers can't replace.
    """
    written = module.graph.python_code("self")
    used = {name for name in written.globals if re.search(rf"\b{name}\b", written.src)}
    if used - _KNOWN or any(node.op == "get_attr" for node in module.graph.nodes):
        return None
    texts = [_input_text(value) for value in inputs.values.values()]
    lines = written.src.strip().splitlines()
    start = next((at for at, line in enumerate(lines) if _SIGNATURE.match(line)), None)
    if start is None or None in texts:
        return None
    lines[start] = _SIGNATURE.sub(r"def program(\g<rest>", lines[start])
    shown = [re.sub(r";  (\w+ = )+None.*$", "", line) for line in lines[start:]]
    made = ", ".join(text for text in texts if text is not None)
    return "\n".join([*shown, "", "", f"inputs = [{made}]"])


def _input_text(value: object) -> str | None:
    if isinstance(value, bool | int | float):
        return repr(value)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return None
    if value.device.type not in ("cpu", "cuda") or value.layout is not torch.strided:
        return None
    device = "" if value.device.type == "cpu" else f', device="{value.device.type}"'
    dtype = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
    text = f"torch.randn({tuple(value.shape)}{dtype}{device})"
    return f"{text}.requires_grad_()" if value.requires_grad else text
