"""Drawings of a profile: source with times, modules, kernels, and generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphdoctor.facts.base import grouped
from graphdoctor.facts.picture import GeneratedCode, Language, Picture, kernel_sources
from graphdoctor.facts.profile import ProfiledKernel, ProfileReport, TimePart
from graphdoctor.views import profile_words as words
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.lines import AnnotatedFile, Line
from graphdoctor.views.measures import time_text
from graphdoctor.views.parts import Blocks, Drawing
from graphdoctor.views.words import base_name
from graphdoctor.wording import counted

Link = Callable[[str, int], tuple[str, str | None]]
"""The text of a line and its anchor, None if the page doesn't show it."""
_Parts = Sequence[tuple[Sequence[str], TimePart]]

_LEAST = 0.002
"""A smaller part of the whole is put together with others."""
_MAX_FILES = 40
_MAX_LINES = 12_000
"""Lines of all files; of files that have no room left, only functions with time are shown."""
_MAX_KERNELS = 300
_MAX_OPERATIONS = 12
_MAX_PLACES = 3
_MAX_CODE_LINES = 400
"""Lines of the code of one kernel that are shown."""
_MAX_CALLS = 12
"""Calls of a library's function that are shown."""
_MAX_CHARACTERS = 500_000
"""Of all code in a page; kernels come in the order of their time."""


class ProfileDrawings:
    """Drawings that only the page of a profile has; none where there is nothing to draw."""

    def __init__(self, report: ProfileReport, picture: Picture | None, files: words.Files) -> None:
        self._report = report
        self._picture = picture
        by_file = grouped((line.file, line) for line in report.lines)
        costly = sorted(by_file.items(), key=lambda item: -sum(line.share for line in item[1]))
        self._files_left_out = len(costly[_MAX_FILES:])
        texts = {text.file: text for text in picture.files} if picture else {}
        room = _MAX_LINES
        self._sources = []
        self._anchors: dict[tuple[str, int], str] = {}
        for number, (path, timed) in enumerate(costly[:_MAX_FILES]):
            package = files.package(path)
            known = {line.line: Line(line.line, line.text) for line in timed}
            origin: Literal["user", "third_party"] = "third_party" if package else "user"
            file = AnnotatedFile(path, origin, package, texts.get(path), known)
            file.show(room)
            room -= len(file.lines)
            of_line = {line.line: line for line in timed}
            self._sources.append(file.listing(number, files.shown(path)) | {"own": of_line})
            self._anchors |= {
                (path, line.number): f"f{number}-L{line.number}" for line in file.lines
            }
        shown = report.kernels[:_MAX_KERNELS]
        self._codes = codes_of(shown, picture.generated if picture else ())
        self._kernels = [
            {
                "number": number,
                "found": kernel,
                "name": words.kernel_name(kernel),
                "operations": words.operations_text(kernel, _MAX_OPERATIONS),
                "places": [self._link(at.file, at.line) for at in kernel.lines[:_MAX_PLACES]],
                "more_places": len(kernel.lines[_MAX_PLACES:]),
                "codes": codes,
                "bandwidth": words.bandwidth_cell(kernel),
                "compute": words.compute_cell(kernel),
            }
            for number, (kernel, codes) in enumerate(zip(shown, self._codes.of, strict=True))
        ]

    def lines(self, elsewhere: Blocks) -> tuple[Drawing, ...]:
        """Return the source, with the time of each line beside it."""
        times = [line.forward_us + line.backward_us for line in self._report.lines]
        return self._drawing(
            "profile_lines",
            elsewhere,
            is_empty=not self._sources,
            files=self._sources,
            most_us=max(times, default=0.0) or 1.0,
            files_left_out=self._files_left_out,
            has_backward=words.has_backward(self._report),
            shown_kernels=len(self._kernels),
            has_picture=self._picture is not None,
        )

    def modules(self, elsewhere: Blocks) -> tuple[Drawing, ...]:
        """Modules and lines, as wide as their time."""
        report = self._report
        rest = [(part.name, part.us) for part in words.rest_parts(report) if part.kind != "outside"]
        flames = [("kernels", flame(report.parts, label="kernels", link=self._link, rest=rest))]
        # A report from elsewhere may name kernels that it doesn't have.
        phases = {number: kernel.phase for number, kernel in enumerate(report.kernels)}
        for phase in ("forward", "backward") if words.has_backward(report) else ():
            parts = (part for part in report.parts if phases.get(part.kernel) == phase)
            flames.append((phase, flame(parts, label=phase, link=self._link)))
        drawn = [(name, root) for name, root in flames if root is not None]
        return self._drawing("profile_modules", elsewhere, is_empty=not drawn, flames=drawn)

    def kernels(self, elsewhere: Blocks) -> tuple[Drawing, ...]:
        """Return a table that sorts and filters."""
        kernels = self._report.kernels
        shown = kernels[:_MAX_KERNELS]
        kinds = grouped((kernel.kind, kernel.share) for kernel in shown)
        return self._drawing(
            "profile_kernels",
            elsewhere,
            is_empty=not shown,
            kernels_left_out=len(kernels) - len(shown),
            kernel_kinds=[(kind, len(shares), sum(shares)) for kind, shares in kinds.items()],
            has_rates=any(words.rates_text(kernel) for kernel in shown),
            has_bounds=any(kernel.bound_by for kernel in shown),
        )

    def code(self) -> tuple[Drawing, ...]:
        """Return the code that Inductor generated, and what it chose from."""
        users = grouped(
            (code, kernel) for kernel, codes in enumerate(self._codes.of) for code in codes
        )
        codes = [
            {"code": code, "lines": highlighted(code.text, code.language), "users": users[number]}
            for number, code in enumerate(self._codes.found)
        ]
        autotuned = self._picture.autotuned[:_MAX_KERNELS] if self._picture else ()
        return self._drawing(
            "profile_code",
            is_empty=not codes and not autotuned,
            codes=codes,
            codes_left_out=self._codes.left_out,
            autotuned=autotuned,
            has_triton=any(choice.triton for choice in autotuned),
        )

    def _drawing(
        self, template: str, elsewhere: Blocks = (), *, is_empty: bool, **facts: object
    ) -> tuple[Drawing, ...]:
        if is_empty:
            return ()
        facts |= {"kernels": self._kernels, "time": time_text, "share": words.small_percent}
        styles = ("bench.css", "profile.css")
        return (Drawing(f"{template}.html.j2", facts, {}, ("profile.js",), styles, elsewhere),)

    def _link(self, file: str, line: int) -> tuple[str, str | None]:
        """Return a line, by the name of its file, and its anchor."""
        return f"{base_name(file)}:{line}", self._anchors.get((file, line))


# The time of a call by module and line, as a nested list that a style sheet lays out.


@dataclass(frozen=True)
class Node:
    """A part of the call's time, which leads to a line if the page has it."""

    label: str
    kind: Literal["call", "module", "line", "small", "rest"]
    us: float
    href: str | None = None
    inner: tuple[Node, ...] = ()


def flame(
    parts: Iterable[TimePart], *, label: str, link: Link, rest: Sequence[tuple[str, float]] = ()
) -> Node | None:
    """Return the whole as a tree of modules, with lines at its ends and what no line has; None if
    there is nothing.
    """
    named = [([name for name in (part.module or "").split(".") if name], part) for part in parts]
    whole = sum(part.us for _, part in named) + sum(us for _, us in rest)
    least = _LEAST * whole

    def module(name: str, inner: _Parts) -> Node:
        # A module that has nothing but another one is one with it.
        while len({names[0] if names else None for names, _ in inner}) == 1 and inner[0][0]:
            name = f"{name}.{inner[0][0][0]}"
            inner = [(names[1:], part) for names, part in inner]
        us = sum(part.us for _, part in inner)
        return Node(name, "module", us, inner=tuple(nodes(inner)) if us >= least else ())

    def nodes(inner: _Parts) -> Iterator[Node]:
        modules = grouped((names[0], (names[1:], part)) for names, part in inner if names)
        lines = grouped((part.place, part.us) for names, part in inner if not names)
        every = [module(name, of_module) for name, of_module in modules.items()]
        for place, times in lines.items():
            text, href = link(*place)
            every.append(Node(text, "line", sum(times), href))
        yield from sorted((node for node in every if node.us >= least), key=lambda node: -node.us)
        small = [node.us for node in every if node.us < least]
        if small:
            yield Node(counted(len(small), "smaller part"), "small", sum(small))

    if whole <= 0:
        return None
    others = (Node(name, "rest", us) for name, us in rest if us >= least)
    return Node(label, "call", whole, inner=(*nodes(named), *others))


# The code of kernels, each source once. A kernel that Inductor wrote is a text in the generated
# code; of a library's function, that code has calls.


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
    sources = [dict(kernel_sources(graph.code)) for graph in generated]
    numbers: dict[KernelCode, int] = {}
    of = []
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
    """Return the kernel's own code in that of a graph, or the calls of a library's function; None
    if there is neither.
    """
    stage, compile_id, name = generated.stage, generated.compile_id, words.kernel_name(kernel)
    is_other_phase = stage and (stage == "backward") != (kernel.phase == "backward")
    if kernel.compile_id is None or compile_id != kernel.compile_id or is_other_phase:
        return None
    language: Language = "Python"
    if name in sources:
        language, text = sources[name]
        lines, most, noun = text.strip("\n").split("\n"), _MAX_CODE_LINES, "more line"
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
