"""Text to copy: a run as a command line, lines that compile repeated modules, the address of a
rule's page.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .recording import RepeatedBlocks, TargetInfo
from .shared import FROM_CALLER
from .spec import RunSpec, options_of


def command_line(target: TargetInfo, command: str, *flags: str) -> str | None:
    """Return the command that runs a target as it was run, ready for a shell.

    Args:
        target: What was compiled and how it was called.
        command: A command of graphdoctor's that takes a target and its options, such as ``fix``.
        flags: Other flags of that command.

    Returns:
        One line; None if the run was not one of a target, or has what a terminal can't show.
    """
    if target.text is None or target.runs_itself or target.inputs_from == FROM_CALLER:
        return None
    line = shlex.join(["graphdoctor", command, target.text, *_options(target), *flags])
    return line if line.isprintable() else None


def _options(target: TargetInfo) -> Iterator[str]:
    known: dict[str, Any] = {**target.compile_arguments, **target.call_options}
    known |= {
        "inputs": target.inputs,
        "own": target.own,
        "config": target.config,
        "regional": target.is_regional,
    }
    asked = RunSpec(mode=known.get("mode"), options=known.get("options") or {})
    defaults = RunSpec(backend=asked.backend)
    for name, told in options_of(RunSpec).items():
        value, (on, *off) = known.get(name), told.flags(name).split("/")
        if isinstance(value, bool):
            yield from [on] if value else off
        elif isinstance(value, (tuple, Mapping)):
            texts = (
                [f"{key}={item!r}" for key, item in value.items()]
                if isinstance(value, Mapping)
                else value
            )
            yield from (part for text in texts for part in (on, text))
        elif value not in (None, getattr(defaults, name)):
            yield from (on, str(value))
    if target.python is not None:
        yield from ("--python", target.python)


def block_lines(
    blocks: Sequence[RepeatedBlocks], arguments: Mapping[str, object]
) -> tuple[str, ...]:
    """Write the lines that compile each block of a model, in place of the program's call of
    ``torch.compile``.

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
    steps = (
        f"[{part}]" if part.isdigit() else f".{part}" for part in filter(None, path.split("."))
    )
    return "model" + "".join(steps)


DOCS_URL: str | None = None
"""Base URL of the built site, such as ``https://example.org/graphdoctor/``; None while it is
published nowhere."""


def rule_url(code: str) -> str | None:
    """Return the page of a rule, or None without a published site.

    Args:
        code: A rule's code, such as ``GD101``.
    """
    return None if DOCS_URL is None else f"{DOCS_URL.rstrip('/')}/rules/{code}/"
