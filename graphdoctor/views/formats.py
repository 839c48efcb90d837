"""The one registry of formats: for each document, the formats it has, their file endings and what
they need.

Every command that writes takes its choices from here. A renderer is imported when it is used, so
importing this module is cheap: it loads neither rich nor jinja2 nor pydantic.

To add a format, write its module in this folder and add a row to its documents below;
``tests/views/test_formats.py`` then renders it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import rebased
from graphdoctor.views.annotations import annotations_of, annotations_of_lint
from graphdoctor.views.bench import bench_view
from graphdoctor.views.check import check_view
from graphdoctor.views.comparison import comparison_view
from graphdoctor.views.fixes import fixes_view
from graphdoctor.views.github import render_github
from graphdoctor.views.guards import guards_view
from graphdoctor.views.recompiles import recompiles_view, variations_view
from graphdoctor.views.report import report_view
from graphdoctor.wording import nearest

if TYPE_CHECKING:
    from rich.console import Console

    from graphdoctor.facts.bench import BenchReport
    from graphdoctor.facts.check import CheckReport, DiagnosisComparison, LintReport
    from graphdoctor.facts.diagnosis import Diagnosis, Result
    from graphdoctor.facts.profile import ProfileResult
    from graphdoctor.rules.diagnosis.rule import Page
    from graphdoctor.views.parts import View

C = TypeVar("C")
"""What is rendered."""
_SVG_WIDTH = 100
"""Columns of a terminal's text as a picture."""
_FILE_WIDTH = 120


@dataclass(frozen=True)
class RenderOptions:
    """How a result is rendered.

    ``pages`` is the folder, relative to the document, of the pages of a survey's pieces; None for
    no links. Text is written to ``console``, or is of 120 columns.
    """

    root: Path
    has_source: bool = True
    is_verbose: bool = False
    is_written: bool = False
    pages: str | None = None
    console: Console | None = None


@dataclass(frozen=True)
class Format(Generic[C]):
    """A format.

    File ``endings``, lowercase with a dot, choose it; without any, only its name does. ``render``
    returns an empty text if it has written to a console. If it ``is_page``, it shows the details of
    some compiles of a large log.
    """

    name: str
    render: Callable[[C, RenderOptions], str | bytes]
    endings: tuple[str, ...] = ()
    is_binary: bool = False
    needs_guards: bool = False
    needs_picture: bool = False
    is_page: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the format is plain text."""
        return self.name == "text"


@dataclass(frozen=True)
class Document(Generic[C]):
    """Something that commands write."""

    label: str
    formats: tuple[Format[C], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its formats, the default first."""
        return tuple(format_.name for format_ in self.formats)

    @property
    def endings(self) -> tuple[str, ...]:
        """The file endings of all of its formats."""
        return tuple(ending for format_ in self.formats for ending in format_.endings)

    def named(self, name: str) -> Format[C]:
        """The format with this name; GraphDoctorError if there is none."""
        for format in self.formats:
            if format.name == name:
                return format
        if name == "chrome-trace":
            raise GraphDoctorError(
                "chrome-trace left graphdoctor: tlparse writes a chromium_events.json of a trace log."
            )
        hint = nearest(name.lower(), self.names, otherwise=f"Choose {_either(self.names)}.")
        raise GraphDoctorError(
            f"{self.label.capitalize()} can't be written as {name!r}.", hint=hint
        )

    def of_path(self, path: Path) -> Format[C]:
        """The format that a file's ending chooses; GraphDoctorError if there is none."""
        for format_ in self.formats:
            if path.suffix.lower() in format_.endings:
                return format_
        raise GraphDoctorError(
            f"The ending of {path} isn't that of a format for {self.label}.",
            hint=f"Use {_either(self.endings)}, or choose the format by name.",
        )


def document(
    label: str,
    view: Callable[[C, RenderOptions], View],
    *more: Format[C],
    facts: Callable[[C], object] | None = None,
    page: Callable[[C, RenderOptions], View] | None = None,
    needs_guards: bool = False,
) -> Document[C]:
    """A document that is a tree, so that it has every format that shows trees, and its facts as
    JSON.

    ``facts`` tells what of the content is written as JSON; None for the whole. ``page`` makes the
    tree of a page, which has a recording's guards and draws its picture; None for ``view``.
    ``more`` are formats of its own.
    """

    def show(content: C, console: Console, options: RenderOptions) -> None:
        from graphdoctor.views.terminal import write_view

        write_view(view(content, options), console, is_verbose=options.is_verbose)

    def markdown(content: C, options: RenderOptions) -> str:
        from graphdoctor.views.markdown_text import render_view_markdown

        return render_view_markdown(view(content, options))

    def html(content: C, options: RenderOptions) -> str:
        from graphdoctor.views.html.document import render_view_page
        from graphdoctor.views.html.sourceless import without_source

        shown = content if options.has_source else without_source(content)
        return render_view_page((page or view)(shown, options), has_source=options.has_source)

    def svg(content: C, options: RenderOptions) -> str:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.text import Text

        colors: dict[str, Any] = {
            "force_terminal": True,
            "color_system": "standard",
            "force_jupyter": False,
        }
        written = Console(file=StringIO(), width=_SVG_WIDTH, **colors)
        text = Text.from_ansi(str(_text(show).render(content, replace(options, console=written))))
        # Code isn't broken.
        width = max(_SVG_WIDTH, *map(cell_len, text.plain.split("\n")))
        recorder = Console(file=StringIO(), width=width, record=True, **colors)
        recorder.print(text, soft_wrap=True)
        # A picture loads nothing: each text has its length, so any monospace font does.
        return re.sub(
            r"@font-face \{.*?\}\s*", "", recorder.export_svg(title="graphdoctor"), flags=re.DOTALL
        )

    drawn = dict.fromkeys(("needs_guards", "needs_picture", "is_page"), page is not None)
    pages = Format("html", html, (".html", ".htm"), **drawn)
    trees = (pages, Format("markdown", markdown, (".md",)), Format("svg", svg, (".svg",)))
    formats = (_text(show), _json(facts), *trees, *more)
    return Document(
        label,
        tuple(
            replace(format_, needs_guards=format_.needs_guards or needs_guards)
            for format_ in formats
        ),
    )


def _text(show: Callable[[C, Console, RenderOptions], None]) -> Format[C]:
    def render(content: C, options: RenderOptions) -> str:
        from rich.console import Console

        plain: dict[str, Any] = {
            "force_terminal": False,
            "color_system": None,
            "force_jupyter": False,
        }
        console = options.console or Console(file=StringIO(), width=_FILE_WIDTH, **plain)
        show(content, console, options)
        return console.file.getvalue() if isinstance(console.file, StringIO) else ""

    return Format("text", render, (".txt", ".text"))


def _json(facts: Callable[[C], object] | None = None) -> Format[C]:
    def render(content: C, _: RenderOptions) -> str:
        from graphdoctor.views.json import json_text

        return json_text(content if facts is None else facts(content))

    return Format("json", render, (".json",))


def _either(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


# A diagnosis. Each view of it has a text of its own; the other formats hold the whole diagnosis.


def _diagnosis(
    view: Callable[[Diagnosis, RenderOptions], View], *, needs_guards: bool = False
) -> Document[Result]:
    def page(result: Result, options: RenderOptions) -> View:
        return report_view(result.diagnosis, result.picture, root=options.root)

    return document(
        "a diagnosis",
        lambda result, options: view(result.diagnosis, options),
        facts=lambda result: result.diagnosis,
        page=page,
        needs_guards=needs_guards,
    )


DIAGNOSIS: Document[Result] = _diagnosis(lambda diagnosis, _: report_view(diagnosis))
"""The whole diagnosis: ``explain``, ``report``, ``run``."""

RECOMPILES: Document[Result] = _diagnosis(lambda diagnosis, _: recompiles_view(diagnosis))
"""Its recompiles: ``recompiles``."""

VARIATIONS: Document[Result] = _diagnosis(lambda diagnosis, _: variations_view(diagnosis))
"""What each changed property of a call did: ``recompiles --vary``."""

GUARDS: Document[Result] = _diagnosis(
    lambda diagnosis, _: guards_view(diagnosis), needs_guards=True
)
"""Its guards and what they cost: ``guards``."""

FIXES: Document[Result] = _diagnosis(
    lambda diagnosis, options: fixes_view(diagnosis, is_written=options.is_written)
)
"""The fixes tried and what they did: ``fix``."""

COMPARISON: Document[DiagnosisComparison] = document(
    "a comparison of two runs", lambda comparison, _: comparison_view(comparison)
)
"""``diff`` of two runs."""


# The gate's answer. Paths are shown relative to the report's own root, as those of its findings
# are.


def _sarif(report: CheckReport, options: RenderOptions) -> str:
    from graphdoctor.views.sarif import render_sarif

    return render_sarif(_in_repository(report), root=_repository_root(report, options))


def _github(report: CheckReport, options: RenderOptions) -> str:
    return render_github(
        annotations_of(_in_repository(report)), root=_repository_root(report, options)
    )


def _junit(report: CheckReport, _: RenderOptions) -> str:
    from graphdoctor.views.junit import render_junit

    return render_junit(report)


def _in_repository(report: CheckReport) -> CheckReport:
    return rebased(report, Path(report.repository)) if report.repository else report


def _repository_root(report: CheckReport, options: RenderOptions) -> Path:
    root = report.repository or report.root
    return Path(root) if root else options.root


CHECK: Document[CheckReport] = document(
    "a check",
    lambda report, _: check_view(report),
    Format("sarif", _sarif, (".sarif",)),
    Format("github", _github),
    Format("junit", _junit, (".xml",)),
)
"""``check``."""


BENCH: Document[BenchReport] = document("a bench", lambda report, _: bench_view(report))
"""``bench``: each way to run a program beside eager mode."""


def _profile(result: ProfileResult, options: RenderOptions) -> View:
    from graphdoctor.views.profile import profile_view

    # What was generated of lines of code shows them.
    return profile_view(
        result.report, result.picture if options.has_source else None, root=options.root
    )


PROFILE: Document[ProfileResult] = document(
    "a profile", _profile, facts=lambda result: result.report, page=_profile
)
"""``profile``: where the time of a call goes."""


def _lint(report: LintReport, console: Console, _: RenderOptions) -> None:
    from graphdoctor.views.listings import render_lint

    render_lint(report, console)


def _lint_github(report: LintReport, options: RenderOptions) -> str:
    return render_github(annotations_of_lint(report), root=options.root)


LINT: Document[LintReport] = Document(
    "a lint report", (_text(_lint), _json(), Format("github", _lint_github))
)
"""``lint``."""


def _rules(rules: Sequence[Page], console: Console, _: RenderOptions) -> None:
    from graphdoctor.views.listings import render_rules

    render_rules(rules, console)


def _described(rules: Sequence[Page]) -> object:
    from graphdoctor.views.listings import described

    return described(rules)


RULES: Document[Sequence[Page]] = Document("a rule", (_text(_rules), _json(_described)))
"""``rule``: the rules' documentation."""


def write_file(content: str | bytes, path: Path) -> None:
    """Write to a temporary file and rename it, so nobody reads half a file; a device or a pipe is
    written to as it is.

    Raises:
        GraphDoctorError: The file can't be written.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.write(data)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise GraphDoctorError(f"Can't write {path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException as error:
        with suppress(OSError):
            Path(temporary).unlink()
        if isinstance(error, OSError):
            raise GraphDoctorError(f"Can't write {path}: {error.strerror}.") from error
        raise
