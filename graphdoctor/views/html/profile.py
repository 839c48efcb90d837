"""A profile as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import percent
from graphdoctor.views import bench_words
from graphdoctor.views import profile_words as words
from graphdoctor.views.html.document import write_document
from graphdoctor.views.html.flame import Node, flame
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.kernel_code import codes_of
from graphdoctor.views.html.timed_source import timed_files
from graphdoctor.views.words import base_name

if TYPE_CHECKING:
    from graphdoctor.facts.picture import Picture
    from graphdoctor.facts.profile import ProfiledKernel, ProfileReport

_MAX_KERNELS = 300
_MAX_OPERATIONS = 12
_MAX_PLACES = 3


def render_profile_page(report: ProfileReport, picture: Picture | None, *, root: Path, has_source: bool = True) -> str:
    """The page.

    Args:
        report: What to show.
        picture: Source files and generated code; None if there is none.
        root: Paths below it are shown relative to it.
        has_source: Show lines of code, and the code that was generated of them.

    Returns:
        A whole HTML document.
    """
    if not has_source:
        from graphdoctor.views.html.sourceless import without_source

        report, picture = without_source(report), None
    page = _Page(report, picture, words.Files(report, root))
    context = page.context() | {"has_source": has_source, "has_picture": picture is not None}
    return write_document(
        "profile.html.j2", context, blobs={}, scripts=("profile.js",), styles=("bench.css", "profile.css")
    )


@dataclass(frozen=True)
class _Tile:
    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class _Kernel:
    """A row of the table of kernels."""

    number: int
    found: ProfiledKernel
    name: str
    operations: str
    places: tuple[tuple[str, str | None], ...]
    more_places: int
    codes: tuple[int, ...]


@dataclass(frozen=True)
class _Flame:
    name: str
    root: Node


class _Page:
    """Where things are in the page, and the variables of its template."""

    def __init__(self, report: ProfileReport, picture: Picture | None, files: words.Files) -> None:
        self._report = report
        self._files = files
        self._sources, self._files_left_out = timed_files(report, picture.files if picture else (), files)
        self._anchors = {file.file: file.number for file in self._sources}
        self._autotuned = picture.autotuned if picture else ()
        self._kernels = report.kernels[:_MAX_KERNELS]
        self._codes = codes_of(self._kernels, picture.generated if picture else ())

    def context(self) -> dict[str, object]:
        """The variables of the template."""
        report = self._report
        return {
            "report": report,
            "title": bench_words.title_parts(report),
            "answer": words.answer_text(report),
            "measured": words.measured_text(report),
            "advice": words.advice(report),
            "evidence": words.evidence(report),
            "tiles": list(self._tiles()),
            "kinds": words.kind_parts(report),
            "rest": words.rest_parts(report),
            "has_rates": any(words.rates_text(kernel) for kernel in self._kernels),
            "has_bounds": any(kernel.bound_by for kernel in self._kernels),
            "sum_note": words.sum_note(report),
            "has_backward": words.has_backward(report),
            "files": self._sources,
            "files_left_out": self._files_left_out,
            "kernels": [self._kernel(number, kernel) for number, kernel in enumerate(self._kernels)],
            "kernels_left_out": len(report.kernels) - len(self._kernels),
            "kernel_kinds": list(self._kernel_kinds()),
            "codes": self._shown_codes(),
            "codes_left_out": self._codes.left_out,
            "autotuned": self._autotuned[:_MAX_KERNELS],
            "has_triton": any(each.triton for each in self._autotuned),
            "flames": list(self._flames()),
            "facts": list(words.fact_texts(report, self._files, is_short=False)),
            "findings": report.findings,
            "settings": [*report.target.compile_arguments.items(), *report.target.call_options.items()],
            "anchor": self._anchor,
            "shown_kernels": len(self._kernels),
            "words": words,
            "time": bench_words.time_text,
            "share": words.small_percent,
        }

    def _tiles(self) -> Iterator[_Tile]:
        report = self._report
        if report.call_us is None:
            return
        eager = report.eager_us
        note = "" if eager is None else f"{bench_words.time_text(eager.median)} without torch.compile"
        yield _Tile("call", bench_words.time_text(report.call_us.median), note)
        if report.kernels_us is not None:
            share = min(report.kernels_us / report.call_us.median, 1.0)
            yield _Tile("in kernels", percent(share), bench_words.time_text(report.kernels_us))
        if report.fusion is not None and report.fusion.launches is not None:
            before = report.fusion.eager_launches
            yield _Tile("kernels", f"{report.fusion.launches:,}", "" if before is None else f"{before:,} in eager mode")
        if report.memory is not None and report.memory.peak_bytes is not None:
            saved = bench_words.bytes_text(report.memory.saved_bytes)
            peak = bench_words.bytes_text(report.memory.peak_bytes) or ""
            yield _Tile("peak memory", peak, f"{saved} saved for backward" if saved else "")

    def _anchor(self, file: str | None, line: int | None) -> str | None:
        """The anchor of a line in the page; None if the page doesn't have it."""
        if file is None or line is None or file not in self._anchors:
            return None
        source = self._sources[self._anchors[file]]
        has_line = any(run.lines[0].number <= line <= run.lines[-1].number for run in source.runs)
        return f"f{source.number}-L{line}" if has_line else None

    def _kernel(self, number: int, kernel: ProfiledKernel) -> _Kernel:
        places = [self._linked(each.file, each.line) for each in kernel.lines]
        return _Kernel(
            number=number,
            found=kernel,
            name=words.kernel_name(kernel),
            operations=words.operations_text(kernel, _MAX_OPERATIONS),
            places=tuple(places[:_MAX_PLACES]),
            more_places=len(places) - len(places[:_MAX_PLACES]),
            codes=self._codes.of[number],
        )

    def _kernel_kinds(self) -> Iterator[tuple[str, int, float]]:
        """Each kind of kernel with their number and share."""
        for kind in dict.fromkeys(kernel.kind for kernel in self._kernels):
            own = [kernel for kernel in self._kernels if kernel.kind == kind]
            yield kind, len(own), sum(kernel.share for kernel in own)

    def _shown_codes(self) -> list[dict[str, object]]:
        users: dict[int, list[int]] = {}
        for number, own in enumerate(self._codes.of):
            for code in own:
                users.setdefault(code, []).append(number)
        return [
            {"code": code, "lines": highlighted(code.text, code.language), "users": users[number]}
            for number, code in enumerate(self._codes.found)
        ]

    def _flames(self) -> Iterator[_Flame]:
        report = self._report
        rest = [(part.name, part.us) for part in words.rest_parts(report) if part.kind != "outside"]
        phases = {number: kernel.phase for number, kernel in enumerate(report.kernels)}
        choices = ["kernels", "forward", "backward"] if words.has_backward(report) else ["kernels"]
        for name in choices:
            parts = [part for part in report.parts if name in ("kernels", phases.get(part.kernel))]
            root = flame(parts, label=name, place=self._linked, rest=rest if name == "kernels" else ())
            if root is not None:
                yield _Flame(name, root)

    def _linked(self, file: str, line: int) -> tuple[str, str | None]:
        """A line, by the name of its file, and its anchor."""
        return f"{base_name(file)}:{line}", self._anchor(file, line)
