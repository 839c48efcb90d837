"""A profile on the terminal: the answer, lines and kernels that take the time, fusion, memory, what to do, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.views import bench_words
from graphdoctor.views import profile_words as words
from graphdoctor.views.bench_words import time_text
from graphdoctor.views.parts import plain_text
from graphdoctor.views.printable import printable
from graphdoctor.views.terminal_lines import Code, Prose, clean, labeled_rows, write
from graphdoctor.views.words import place_text, worth_trying
from graphdoctor.views.wrapping import cut

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from graphdoctor.facts.diagnosis import Finding
    from graphdoctor.facts.profile import ProfiledKernel, ProfiledLine, ProfileReport
    from graphdoctor.views.parts import Cell

_WIDE = 120
"""From this width on, a line of code and its place, and a kernel and its rates, have columns of their own."""
_BAR = 8
"""Cells of the bar of a share."""
_NARROW_BAR = 6
_LEAST = 12
"""Cells that a line of code or a name is given at least."""
_WIDEST_PLACE = 44
"""A longer path has its beginning cut."""
_FEW_OPERATIONS = 2
"""Operations of a kernel that are named on a narrow terminal."""
_WORDS = ("kind", "waits for")
"""Columns that hold words."""
_EIGHTHS = "▏▎▍▌▋▊▉█"


def render_profile(report: ProfileReport, console: Console, *, root: Path, is_verbose: bool = False) -> None:
    """Write a profile to a terminal.

    Args:
        report: What to show.
        console: Where to.
        root: Paths below it are shown relative to it.
        is_verbose: Show all lines, modules, kernels and saved tensors, and suggestions in full.
    """
    for renderable in _Views(report, words.Files(report, root), console.width, is_verbose=is_verbose).all():
        write(console, renderable)


class _Views:
    """The parts of a profile.

    Args:
        report: The profile.
        files: How files are shown.
        width: Cells of the terminal.
        is_verbose: As in ``render_profile``.
    """

    def __init__(self, report: ProfileReport, files: words.Files, width: int, *, is_verbose: bool) -> None:
        self._report = report
        self._files = files
        self._width = width
        self._is_wide = width >= _WIDE
        self._is_verbose = is_verbose
        self._most = None if is_verbose else words.FEW
        self._has_backward = words.has_backward(report)

    def all(self) -> Iterator[RenderableType]:
        """Everything, from the answer on."""
        yield from self._head()
        for name, table in (
            ("By line", self._lines()),
            ("By module, each with what is in it", self._modules()),
            ("By kernel", self._kernels()),
        ):
            if table is not None:
                yield Text()
                yield Text(name, "bold")
                yield table
        if note := words.sum_note(self._report):
            yield Prose(clean(note, "dim"))
        if self._report.findings:
            yield Text()
            yield Text("What to do", "bold")
            for finding in self._report.findings:
                yield labeled_rows(self._finding(finding))
        rows = [*self._facts()]
        if self._is_verbose and (evidence := words.evidence(self._report)):
            rows.append(("evidence", clean(", ".join(f"{name} {value}" for name, value in evidence))))
        rows += [("unknown", clean(gap.message, "dim")) for gap in self._report.gaps]
        if rows:
            yield Text()
            yield labeled_rows(rows)

    def _head(self) -> Iterator[RenderableType]:
        first, *rest = bench_words.title_parts(self._report)
        title = clean(first, "bold")
        for part in rest:
            title.append(" · ", "dim").append_text(clean(part, "dim"))
        yield title
        yield Text()
        yield clean(words.answer_text(self._report), "bold")
        if measured := words.measured_text(self._report):
            yield clean(measured, "dim")
        if advice := words.advice(self._report):
            yield labeled_rows([("try", clean(each, "green")) for each in advice])

    # Lines.

    def _lines(self) -> RenderableType | None:
        lines = self._report.lines
        if not lines:
            return None
        table = self._table("share", *self._phases(), "waits for" * any(line.bound_by for line in lines))
        if self._is_wide:
            table.add_column("line", no_wrap=True)
            table.add_column("kernels", no_wrap=True)
        table.add_column("", ratio=1)
        for line in lines[: self._most]:
            bound = [line.bound_by or ""] if any(each.bound_by for each in lines) else []
            figures = [self._share(line.share), *self._times(line.forward_us, line.backward_us), *bound]
            table.add_row(*figures, *self._place(line))
        hidden = lines[self._most :] if self._most is not None else ()
        if hidden:
            times = [sum(line.forward_us for line in hidden), sum(line.backward_us for line in hidden)]
            share = sum(line.share for line in hidden)
            self._add_dim(table, share, self._times(*times), counted(len(hidden), "more line"))
        for part in words.rest_parts(self._report):
            self._add_dim(table, part.share, [], f"{time_text(part.us)} {part.name}")
        if self._report.call_us is not None:
            self._add_dim(table, 1.0, [], f"{time_text(self._report.call_us.median)} in all")
        return table

    def _phases(self) -> list[str]:
        return ["forward", "backward"] if self._has_backward else ["time"]

    def _times(self, forward_us: float, backward_us: float) -> list[str]:
        both = [words.phase_time(forward_us), words.phase_time(backward_us)]
        return both if self._has_backward else both[:1]

    def _place(self, line: ProfiledLine) -> list[RenderableType]:
        place, kernels = clean(self._files.place(line.file, line.line), "dim"), words.kernel_numbers(line)
        text = _Cut(clean(line.text or "", "cyan"))
        if self._is_wide:
            return [_Cut(place, most=max(_WIDEST_PLACE, self._width // 3), keeps_end=True), Text(kernels, "dim"), text]
        noun = "kernel" if len(line.kernels) == 1 else "kernels"
        place.append(f" · {noun} {kernels}" if kernels else "", "dim")
        below = Prose(place) if self._is_verbose else _Cut(place, keeps_end=True)
        return [Group(text, below) if line.text else below]

    # Modules.

    def _modules(self) -> RenderableType | None:
        shown = words.shown_modules(self._report, self._most)
        if len(shown) < 2:
            return None
        table = self._table("share", *self._phases())
        table.add_column("", ratio=1)
        for module in shown:
            share = words.module_share(module, self._report)
            table.add_row(
                self._share(share), *self._times(module.forward_us, module.backward_us), _Cut(clean(module.path))
            )
        return table

    # Kernels.

    def _kernels(self) -> RenderableType | None:
        kernels = self._report.kernels
        if not kernels:
            return None
        has_rates = any(words.rates_text(kernel) for kernel in kernels) and self._is_wide
        table = _grid(2)
        headings = ["", "share", "time", "calls", "kind", *(["memory", "arithmetic", "waits for"] if has_rates else [])]
        for heading in headings:
            table.add_column(heading, justify="left" if heading in _WORDS else "right", no_wrap=True)
        table.add_column("", ratio=1)
        for number, kernel in enumerate(kernels[: self._most], start=1):
            rates = [_rate(words.bandwidth_cell(kernel)), _rate(words.compute_cell(kernel)), kernel.bound_by or ""]
            table.add_row(
                Text(str(number), "dim"),
                words.small_percent(kernel.share),
                time_text(kernel.time_us),
                str(kernel.calls),
                kernel.kind,
                *(rates if has_rates else []),
                self._kernel(kernel),
            )
        hidden = kernels[self._most :] if self._most is not None else ()
        blank = [""] * (3 if has_rates else 0)
        for us, share, calls, name in self._other_kernels(hidden):
            table.add_row(
                "", words.small_percent(share), time_text(us), calls, "", *blank, Prose(clean(name, "dim")), style="dim"
            )
        return table

    def _kernel(self, kernel: ProfiledKernel) -> RenderableType:
        phase = "backward" if kernel.phase == "backward" else ""
        if self._is_wide:
            details = [phase, words.operations_text(kernel), words.lines_text(kernel)]
        else:
            bound = f"waits for {kernel.bound_by}" if kernel.bound_by else ""
            operations = words.operations_text(kernel, _FEW_OPERATIONS)
            details = [words.rates_text(kernel), bound, phase, operations, words.lines_text(kernel)]
        details = [part for part in details if part]
        name = _Name(words.kernel_name(kernel))
        return Group(name, Prose(clean(" · ".join(details), "dim"))) if details else name

    def _other_kernels(self, hidden: Sequence[ProfiledKernel]) -> Iterator[tuple[float, float, str, str]]:
        if hidden:
            us, share = sum(kernel.time_us for kernel in hidden), sum(kernel.share for kernel in hidden)
            calls = str(sum(kernel.calls for kernel in hidden))
            yield us, share, calls, counted(len(hidden), "more kernel")
        call_us = self._report.call_us
        if self._report.rest_us and call_us is not None:
            yield self._report.rest_us, self._report.rest_us / call_us.median, "", words.OUTSIDE
        if call_us is not None:
            yield call_us.median, 1.0, "", "in all"

    # What lines and modules share.

    def _table(self, *headings: str) -> Table:
        gap = 2 if self._is_wide else 1
        table = Table(
            box=None, pad_edge=False, show_edge=False, header_style="dim", expand=True, padding=(0, gap, 0, 0)
        )
        for heading in filter(None, headings):
            is_left = heading == "share" or heading in _WORDS
            table.add_column(heading, justify="left" if is_left else "right", no_wrap=True)
        return table

    def _share(self, share: float, *, has_bar: bool = True) -> Text:
        """A share with a small bar."""
        cells = _BAR if self._is_wide else _NARROW_BAR
        eighths = round(min(max(share, 0.0), 1.0) * cells * 8) if has_bar else 0
        bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")
        return Text(f"{words.small_percent(share):>5} ").append(f"{bar:<{cells}}", "blue")

    def _add_dim(self, table: Table, share: float, times: Sequence[str], text: str) -> None:
        blank = [""] * (len(table.columns) - 2 - len(times))
        table.add_row(self._share(share, has_bar=False), *times, *blank, Prose(Text(text)), style="dim")

    # Below.

    def _finding(self, finding: Finding) -> Iterator[tuple[str, RenderableType]]:
        yield finding.code, clean(finding.message)
        location, fixes = finding.location, worth_trying(finding.fixes)
        if location.file:
            place = self._files.place(location.shown_file, location.line)
            yield "at", clean(f"{place} in {location.function}", "dim")
        for fix in fixes if self._is_verbose else fixes[:1]:
            parts: list[RenderableType] = [Prose(clean(fix.title, "green"))]
            if self._is_verbose and fix.snippet is not None:
                parts += [Prose(clean(f"{place_text(fix.place)}:", "dim"))] if fix.place is not None else []
                parts.append(Code(fix.snippet))
            yield "try", Group(*parts)

    def _facts(self) -> Iterator[tuple[str, RenderableType]]:
        for label, texts in words.fact_texts(self._report, self._files, is_short=not self._is_verbose):
            yield from ((label if number == 0 else "", clean(text)) for number, text in enumerate(texts))


class _Cut:
    """A line that is cut where it doesn't fit.

    Args:
        text: One line.
        most: The most cells that it gets; None for all that there are.
        keeps_end: Cut at its beginning, as for a path.
    """

    def __init__(self, text: Text, most: int | None = None, *, keeps_end: bool = False) -> None:
        self._text = text
        self._most = most
        self._keeps_end = keeps_end

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line."""
        width = min(options.max_width, self._most or options.max_width)
        line = self._text.plain
        shown = cut(line[::-1], width)[::-1] if self._keeps_end else cut(line, width)
        yield Text(shown, self._text.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From a few cells to the whole line."""
        widest = min(cell_len(self._text.plain), self._most or options.max_width)
        return Measurement(min(widest, _LEAST), min(widest, options.max_width))


class _Name:
    """A kernel's name; a long one keeps its beginning and its number.

    Args:
        name: It.
    """

    def __init__(self, name: str) -> None:
        self._name = printable(name)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line."""
        yield Text(cut(words.short_name(self._name, options.max_width), options.max_width), no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From a few cells to the whole name."""
        widest = cell_len(self._name)
        return Measurement(min(widest, _LEAST), min(widest, options.max_width))


def _grid(gap: int) -> Table:
    return Table(box=None, pad_edge=False, show_edge=False, header_style="dim", expand=True, padding=(0, gap, 0, 0))


def _rate(cell: Cell) -> Text:
    detail = plain_text(cell.detail)
    return clean(plain_text(cell.text)).append_text(clean(f" ({detail})" if detail else "", "dim"))
