"""The code of kernels, each source once.

A kernel that Inductor wrote is a text in the generated code; of a library's function, that code has
calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
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
    sources = [dict(_sources(graph.code)) for graph in generated]
    numbers: dict[KernelCode, int] = {}
    of: list[tuple[int, ...]] = []
    room, left_out = _MAX_CHARACTERS, 0
    for kernel in kernels:
        codes = (_code_of(kernel, *graph) for graph in zip(generated, sources, strict=True))
        of_kernel = []
        for code in dict.fromkeys(code for code in codes if code is not None):
            if code not in numbers and len(code.text) > room:
                left_out += 1
                continue
            room -= 0 if code in numbers else len(code.text)
            of_kernel.append(numbers.setdefault(code, len(numbers)))
        of.append(tuple(of_kernel))
    return Codes(tuple(numbers), tuple(of), left_out)


def _code_of(
    kernel: ProfiledKernel, generated: GeneratedCode, sources: Mapping[str, tuple[Language, str]]
) -> KernelCode | None:
    """The kernel's own code in that of a graph, or the calls of a library's function; None if there
    is neither.
    """
    stage, compile_id, name = generated.stage, generated.compile_id, kernel_name(kernel)
    is_other_phase = stage and (stage == "backward") != (kernel.phase == "backward")
    if kernel.compile_id is None or compile_id != kernel.compile_id or is_other_phase:
        return None
    language: Language = "Python"
    if name in sources:
        language, text = sources[name]
        lines, most, noun = text.strip("\n").split("\n"), _MAX_LINES, "more line"
    else:
        if kernel.kind not in ("library", "communication", "copy"):
            return None
        calls = (line.strip() for line in generated.code.splitlines() if f"{name}(" in line)
        lines, most, noun = [*dict.fromkeys(calls)], _MAX_CALLS, "more call"
    more = len(lines) - most
    note = f"{counted(more, noun)} cut" if more > 0 else ""
    what = language if name in sources else "Calls of it"
    where = f"{what} in the {f'{stage} ' if stage else ''}graph of compile {compile_id}"
    return KernelCode(name, language, "\n".join(lines[:most]), where, note) if lines else None


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
                constants = (item.value for item in arguments if isinstance(item, ast.Constant))
                texts = (value for value in constants if isinstance(value, str))
                text = max(texts, key=len, default="")
                if "\n" in text:
                    yield name, ("C++" if made_by.startswith("cpp") else "Python", text)
                elif (whole := ast.get_source_segment(code, statement)) is not None:
                    yield name, ("Python", whole)
