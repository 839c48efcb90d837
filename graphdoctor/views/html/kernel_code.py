"""The code of kernels, each source once.

A kernel that Inductor wrote is a text in the generated code; of a library's function, that code has
calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.stack import parsed
from graphdoctor.views.html.highlight import Language
from graphdoctor.views.profile_words import kernel_name
from graphdoctor.wording import counted

if TYPE_CHECKING:
    from graphdoctor.facts.picture import GeneratedCode
    from graphdoctor.facts.profile import ProfiledKernel

_MAX_LINES = 400
"""Lines of one kernel that are shown."""
_MAX_CALLS = 12
_MAX_CHARACTERS = 500_000
"""Of all code in a page; kernels come in the order of their time."""


@dataclass(frozen=True)
class KernelCode:
    """Code of a kernel, or calls of a library's function, and what was cut."""

    name: str
    language: Language
    text: str
    where: str
    note: str


@dataclass(frozen=True)
class Codes:
    """The code of a profile's kernels, and for each kernel its numbers in it."""

    found: tuple[KernelCode, ...]
    of: tuple[tuple[int, ...], ...]
    left_out: int


def codes_of(kernels: Sequence[ProfiledKernel], generated: Sequence[GeneratedCode]) -> Codes:
    """Find the code of each kernel."""
    files = [_File(code) for code in generated]
    numbers: dict[KernelCode, int] = {}
    of: list[tuple[int, ...]] = []
    room, left_out = _MAX_CHARACTERS, 0
    for kernel in kernels:
        of_kernel = []
        for code in dict.fromkeys(file.code(kernel) for file in files if file.is_of(kernel)):
            if code is None:
                continue
            if code not in numbers:
                if len(code.text) > room:
                    left_out += 1
                    continue
                room -= len(code.text)
                numbers[code] = len(numbers)
            of_kernel.append(numbers[code])
        of.append(tuple(of_kernel))
    return Codes(tuple(numbers), tuple(of), left_out)


class _File:
    """The code of one graph."""

    def __init__(self, generated: GeneratedCode) -> None:
        self._generated = generated
        self._sources = dict(_sources(generated.code))
        self._lines = [line.strip() for line in generated.code.splitlines()]

    def is_of(self, kernel: ProfiledKernel) -> bool:
        """Whether a kernel can be of this graph."""
        stage = self._generated.stage
        is_phase = stage is None or (stage == "backward") == (kernel.phase == "backward")
        return (
            kernel.compile_id is not None
            and self._generated.compile_id == kernel.compile_id
            and is_phase
        )

    def code(self, kernel: ProfiledKernel) -> KernelCode | None:
        """The kernel's own code, or the calls of a library's function; None if there is neither."""
        name, generated = kernel_name(kernel), self._generated
        graph = f"the {generated.stage} graph" if generated.stage else "the graph"
        calls = list(dict.fromkeys(line for line in self._lines if f"{name}(" in line))
        if (source := self._sources.get(name)) is not None:
            language, text = source
            lines, most, noun, where = (
                text.strip("\n").split("\n"),
                _MAX_LINES,
                "more line",
                f"{language}",
            )
        elif kernel.kind in ("library", "communication", "copy") and calls:
            language, lines, most, noun, where = (
                "Python",
                calls,
                _MAX_CALLS,
                "more call",
                "Calls of it",
            )
        else:
            return None
        more = len(lines) - most
        note = f"{counted(more, noun)} cut" if more > 0 else ""
        return KernelCode(
            name,
            language,
            "\n".join(lines[:most]),
            f"{where} in {graph} of compile {generated.compile_id}",
            note,
        )


def _sources(code: str) -> Iterator[tuple[str, tuple[Language, str]]]:
    """The kernels that generated code defines, each with its own code."""
    module = parsed(code)
    for statement in () if module is None else module.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr=made_by),
                    args=arguments,
                ),
            ):
                text = max(_texts(arguments), key=len, default="")
                if "\n" in text:
                    yield name, ("C++" if made_by.startswith("cpp") else "Python", text)
                elif (whole := ast.get_source_segment(code, statement)) is not None:
                    yield name, ("Python", whole)


def _texts(arguments: Iterable[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value
