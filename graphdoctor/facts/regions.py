"""Modules that repeat, as lines of code that compile each of them by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recording import RepeatedBlocks


def block_lines(blocks: Sequence[RepeatedBlocks], arguments: Mapping[str, object]) -> tuple[str, ...]:
    """Lines that compile each block of a model, in place of the program's call of ``torch.compile``.

    Args:
        blocks: The blocks by class; the model is called ``model``.
        arguments: What ``torch.compile`` is given.
    """
    given = tuple(f"{name}={value!r}" for name, value in arguments.items())
    return tuple(line for of in blocks for line in _lines(of, given))


def _lines(of: RepeatedBlocks, given: tuple[str, ...]) -> Iterator[str]:
    compiled = f"block.compile({', '.join(given)})"
    if of.compiled_as == "forward":
        compiled = f"block.forward = torch.compile({', '.join(('block.forward', *given))})"
    if of.container is not None:
        yield f"for block in {_expression(of.container)}:"
        yield f"    {compiled}"
    else:
        yield "for block in model.modules():"
        yield f'    if type(block).__name__ == "{of.name}":'
        yield f"        {compiled}"


def _expression(path: str) -> str:
    steps = (f"[{part}]" if part.isdigit() else f".{part}" for part in filter(None, path.split(".")))
    return "model" + "".join(steps)
