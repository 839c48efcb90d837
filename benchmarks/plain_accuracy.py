"""Says by plain torch how compiled results differ from eager mode's, a JSON line each.

``python benchmarks/plain_accuracy.py PROGRAM…`` knows nothing of graphdoctor. The programs are
those of ``benchmarks/accuracy``, with their arguments in ``truth.toml`` beside them.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import io
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

BACKENDS = ("eager", "aot_eager", "inductor")
_FACTOR, _SPACINGS = 4.0, 8.0
"""How much farther than eager mode a result may be from one in float64, and always in spacings."""

Value = tuple[str, Any, Any]
"""Its name, what a program relies on silently, and its content."""


@functools.cache
def load(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Import a program; returns what makes its target, and its calls."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda: _target(module), module.example_inputs


def _target(module: ModuleType) -> Any:
    if hasattr(module, "build"):
        return module.build()
    own = [it for it in vars(module).values() if getattr(it, "__module__", "") == module.__name__]
    own = [it for it in own if callable(it) and it.__name__[0] != "_"]
    classes = [it for it in own if isinstance(it, type)]
    return classes[0]() if classes else next(it for it in own if it.__name__ != "example_inputs")


def run(
    path: Path, backend: str | None, *, is_backward: bool, is_wide: bool = False
) -> Iterator[list[Value]]:
    """Make a program's calls; yields the results of each.

    Args:
        path: The program.
        backend: What compiles it, None for eager mode.
        is_backward: Run backward from the sum of the floating-point outputs.
        is_wide: In float64.
    """
    torch.manual_seed(0)
    make, inputs = load(path)
    torch.manual_seed(0)
    function = make()
    torch.manual_seed(0)
    calls = inputs()
    calls = [calls] if isinstance(calls, tuple) else list(calls)
    if is_wide:
        function = function.double() if isinstance(function, nn.Module) else function
        calls = tree_map_only(Tensor, _widened, calls)
    compiled = function if backend is None else torch.compile(function, backend=backend)
    torch.manual_seed(0)
    for args in calls:
        printed = io.StringIO()
        with redirect_stdout(printed):
            values = _called(function, compiled, args, is_backward=is_backward)
        yield [*values, ("stdout", None, printed.getvalue())]


def _widened(tensor: Tensor) -> Tensor:
    wide = tensor.detach().double() if tensor.is_floating_point() else tensor
    return wide.requires_grad_(tensor.requires_grad) if wide is not tensor else tensor


def _called(function: Any, compiled: Any, args: Any, *, is_backward: bool) -> list[Value]:
    parameters = dict(function.named_parameters()) if isinstance(function, nn.Module) else {}
    try:
        output = compiled(*args)
        leaves = tree_leaves(output)
        if is_backward:
            needed = [it for it in leaves if isinstance(it, Tensor) and it.requires_grad]
            sum(it.sum() for it in needed).backward()  # type: ignore[union-attr]
    except Exception as error:  # noqa: BLE001 (of any type: it is what is compared)
        return [("outputs", f"{type(error).__name__}: {str(error).splitlines()[0][:60]}", None)]
    values: list[Value] = []
    arguments = [it for it in tree_leaves(args) if isinstance(it, Tensor)]
    values += [
        (
            "outputs",
            _relied_on(leaf, leaves, arguments),
            leaf.detach().clone() if isinstance(leaf, Tensor) else leaf,
        )
        for leaf in leaves
    ]
    buffers = dict(function.named_buffers()) if isinstance(function, nn.Module) else {}
    values += [
        ("state", None, tensor.detach().clone()) for tensor in (*arguments, *buffers.values())
    ]
    for tensor in (*arguments, *parameters.values()):
        gradient = tensor.grad if tensor.is_leaf else None
        values.append(("gradients", gradient is None, copy.copy(gradient)))
    return values


def _relied_on(leaf: Any, leaves: list[Any], arguments: list[Tensor]) -> Any:
    if not isinstance(leaf, Tensor):
        return type(leaf).__name__
    shared = [
        isinstance(other, Tensor)
        and other.numel() > 0
        and other.untyped_storage().data_ptr() == leaf.untyped_storage().data_ptr()
        for other in (*leaves, *arguments)
    ]
    strides = leaf.stride() if leaf.numel() > 1 else ()
    return str(leaf.dtype), tuple(leaf.shape), strides, leaf.requires_grad, shared


def verdict(eager: Value, other: Value, exact: Value | None) -> tuple[str, str]:
    """Compare a value with eager mode's; returns a verdict and what differs."""
    (kind, expected, content), (_, relied_on, found) = eager, other
    if expected != relied_on:
        return "different", f"{kind}: {relied_on}, not {expected}"
    if not isinstance(content, Tensor) or not isinstance(found, Tensor):
        is_same = content == found
        return (
            ("same bits", "") if is_same else ("different", f"{kind}: {found!r}, not {content!r}")
        )
    if _same(content, found):
        return "same bits", ""
    if not content.is_floating_point():
        return (
            "different",
            f"{kind}: {found.flatten()[:6].tolist()}, not {content.flatten()[:6].tolist()}",
        )
    is_finite = content.isfinite()
    if not _same(content[~is_finite], found[~is_finite]) or not found[is_finite].isfinite().all():
        return "different", f"{kind}: {found.flatten()[:6].tolist()} not finite elsewhere"
    wide, reference = found.double()[is_finite], content.double()[is_finite]
    truth = exact[2].double()[is_finite] if exact is not None else reference
    size = truth.abs().clamp_min(torch.finfo(content.dtype).tiny)
    spacing = torch.finfo(content.dtype).eps
    own = (reference - truth).abs()
    farther = (wide - truth).abs()
    scale = size.mean()
    allowed = _FACTOR * own.max() + _SPACINGS * spacing * scale if exact is not None else None
    if allowed is None:
        allowed = 64 * spacing * scale
    largest = float(farther.max())
    said = f"{kind}: {largest:.3g} from float64, eager mode {float(own.max()):.3g}"
    return ("rounding" if largest <= float(allowed) else "different"), said


def _same(one: Tensor, other: Tensor) -> bool:
    if not torch.equal(one.isnan(), other.isnan()):
        return False
    values, others = one[~one.isnan()], other[~one.isnan()]
    is_signed = one.is_floating_point()
    # 0.0 and -0.0 are equal, and not the same.
    return torch.equal(values, others) and (
        not is_signed or torch.equal(values.signbit(), others.signbit())
    )


_ORDER = ("same bits", "rounding", "different", "unknown")


def compared(path: Path, backend: str, *, is_backward: bool) -> tuple[str, str]:
    """Compare a program's calls under a backend with eager mode's."""

    def made(backend: str | None, **options: bool) -> list[list[Value]]:
        torch._dynamo.reset()
        with torch._inductor.config.patch(fallback_random=True):
            return list(run(path, backend, is_backward=is_backward, **options))

    first, again = made(None), made(None)
    for value, repeated in zip(chain(*first), chain(*again), strict=True):
        if verdict(value, repeated, None)[0] != "same bits":
            return "unknown", "eager mode differs from itself"
    try:
        exact: list[list[Value]] | None = made(None, is_wide=True)
    except Exception:  # noqa: BLE001 (a program that doesn't run in float64)
        exact = None
    worst = ("same bits", "")
    for number, (one, other) in enumerate(zip(first, made(backend), strict=True)):
        if len(one) != len(other):
            said = f"{other[0][1] or 'returns'}, not {one[0][1] or 'a result'}"
            return "different", f"outputs: {said}"
        for index, (value, found) in enumerate(zip(one, other, strict=True)):
            wide = exact[number][index] if exact and len(exact[number]) == len(one) else None
            if wide is not None and not isinstance(wide[2], Tensor):
                wide = None
            worst = max(worst, verdict(value, found, wide), key=lambda it: _ORDER.index(it[0]))
    return worst


def main() -> None:
    """Judge each program in a process of its own."""
    warnings.simplefilter("ignore")
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        truth = tomllib.loads((path.parent / "truth.toml").read_text()).get(path.stem, {})
        arguments = truth.get("arguments", [])
        backends = ("planted",) if "planted" in arguments else BACKENDS
        if (child := os.fork()) == 0:
            said = {
                backend: compared(path, backend, is_backward="--backward" in arguments)
                for backend in backends
            }
            print(json.dumps({"program": path.stem, "torch": torch.__version__} | said), flush=True)
            os._exit(0)
        if status := os.waitpid(child, 0)[1]:
            print(json.dumps({"program": path.stem, "crashed": status}), flush=True)


if __name__ == "__main__":
    main()
