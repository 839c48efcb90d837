"""Counts the floating-point operations of a node's matrix products and convolutions, by torch's own formulas.

``torch/utils/flop_counter.py`` and ``torch/_inductor/fx_utils.py`` (``count_flops_fx``), 2.11 to 2.15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

_STANDS_FOR = {
    "aten._scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": "_scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_fused_attention_overrideable": "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_fused_attention_overrideable_backward": "_scaled_dot_product_flash_attention_backward",
    "aten._int_mm": "mm",
}
"""Operations that torch has no formula for, with one of ``aten`` that has, whose first arguments are the same."""


def flops_of(nodes: Sequence[torch.fx.Node]) -> int | None:
    """The floating-point operations of nodes, with the sizes of the call that is compiled.

    Returns:
        None if none of them is a matrix product or a convolution that torch can count.
    """
    known = [count for count in map(_flops, nodes) if count]
    return sum(known) if known else None


def factor_dtype(nodes: Sequence[torch.fx.Node]) -> str | None:
    """Dtype of what matrix products and convolutions multiply; None if there are none."""
    return next((dtype for node in nodes if _flops(node) for dtype in input_dtypes(node)), None)


def input_dtypes(node: torch.fx.Node) -> list[str]:
    """Dtypes of the tensors that a node reads, such as ``float32``, each once, in order."""
    names = [dtype_name(each) for each in node.all_input_nodes]
    return list(dict.fromkeys(name for name in names if name is not None))


def dtype_name(node: torch.fx.Node) -> str | None:
    """Dtype of the tensor that a node makes, such as ``float32``; None if it makes none."""
    value = node.meta.get("val")
    return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else None


def _flops(node: torch.fx.Node) -> int | None:
    from torch._inductor.fx_utils import count_flops_fx

    try:
        count = count_flops_fx(node)
        if count is None:
            count = _by_formula(node)
    except (RuntimeError, TypeError, ValueError, AssertionError, IndexError, KeyError):
        # A formula for another form of the operation.
        return None
    if isinstance(count, torch.SymInt):
        # A size of a dynamic dim has a hint, unless it comes from the values of a tensor.
        count = getattr(count.node, "hint", None)
    return count if isinstance(count, int) else None


def _by_formula(node: torch.fx.Node) -> Any:  # noqa: ANN401
    from torch.utils.flop_counter import flop_registry

    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    values = [each.meta.get("val") if isinstance(each, torch.fx.Node) else each for each in node.args]
    out = node.meta.get("val")
    name = f"{target.namespace}.{target._opname}"
    if name in _STANDS_FOR:
        return flop_registry[getattr(torch.ops.aten, _STANDS_FOR[name])](*values, out_val=out)
    return None


def packed_flops(name: str, node: Any, made: torch.fx.Node) -> tuple[int | None, str | None]:  # noqa: ANN401
    """The floating-point operations of oneDNN's and MKL's operations on packed weights, and the dtype of their factors.

    Freezing puts them in the place of nodes, and torch has no formulas for them.

    ``node``: the call, as ``torch/_inductor/mkldnn_ir.py`` has it, 2.13.

    Returns:
        None for other operations, and for sizes that aren't numbers.
    """
    from torch.utils.flop_counter import conv_flop_count

    _, _, operation = name.removeprefix("torch.ops.").partition(".")
    base, _, overload = operation.partition(".")
    is_convolution = base in ("_convolution_pointwise", "_convolution_transpose_pointwise")
    if not is_convolution and base not in ("_linear_pointwise", "_mkl_linear"):
        return None, None
    # Another value that is added comes before the weight.
    first, weight = node.inputs[0], node.inputs[2 if overload == "binary" else 1]
    try:
        values, weights = ([int(size) for size in each.get_size()] for each in (first, weight))
        out = [int(size) for size in made.meta["val"].shape]
        if is_convolution:
            count = conv_flop_count(values, weights, out, transposed="transpose" in base)
        else:
            count = 2 * math.prod(out) * values[-1]
    except (TypeError, KeyError, AttributeError):
        return None, None
    return int(count), str(first.get_dtype()).removeprefix("torch.")
