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
from dataclasses import dataclass, replace
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import rebased
from graphdoctor.wording import nearest

if TYPE_CHECKING:
    from rich.console import Console

    from graphdoctor.facts.bench import BenchReport
    from graphdoctor.facts.check import CheckReport, DiagnosisComparison, LintReport
    from graphdoctor.facts.diagnosis import Result
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
    is_within_limits: bool = False
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
        return tuple(format.name for format in self.formats)

    @property
    def endings(self) -> tuple[str, ...]:
        """The file endings of all of its formats."""
        return tuple(ending for format in self.formats for ending in format.endings)

    def named(self, name: str) -> Format[C]:
        """Return the format with this name; GraphDoctorError if there is none."""
        for format in self.formats:
            if format.name == name:
                return format
        if name == "chrome-trace":
            raise GraphDoctorError(
                "chrome-trace left graphdoctor: tlparse writes a chromium_events.json of a trace"
                " log."
            )
        hint = nearest(name.lower(), self.names, otherwise=f"Choose {either(self.names)}.")
        message = f"{self.label.capitalize()} can't be written as {name!r}."
        raise GraphDoctorError(message, hint=hint)

    def of_path(self, path: Path) -> Format[C]:
        """Return the format that a file's ending chooses; GraphDoctorError if there is none."""
        for format in self.formats:
            if path.suffix.lower() in format.endings:
                return format
        message = f"The ending of {path} isn't that of a format for {self.label}."
        hint = f"Use {either(self.endings)}, or choose the format by name."
        raise GraphDoctorError(message, hint=hint)


def either(names: Sequence[str]) -> str:
    """Name what there is to choose from: ``text, json or html``."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


Render = Callable[[Any, RenderOptions], Any]
"""Makes text, bytes or a view of the content."""


def late(module: str, name: str, *asked: str) -> Render:
    """Return a function that is imported when it is called with the content and the options it asks
    for.
    """

    def render(content: Any, options: RenderOptions) -> Any:  # noqa: ANN401
        function = getattr(import_module(f"graphdoctor.{module}"), name)
        return function(content, **{option: getattr(options, option) for option in asked})

    return render


_PLAIN: dict[str, Any] = {"force_terminal": False, "color_system": None, "force_jupyter": False}
_COLORED = _PLAIN | {"force_terminal": True, "color_system": "standard"}


def _text(show: Render) -> Format[Any]:
    """Plain text of a view, or what is written to the console of the options."""

    def render(content: object, options: RenderOptions) -> str:
        from rich.console import Console

        from graphdoctor.views.parts import View
        from graphdoctor.views.terminal import write_view

        console = options.console or Console(file=StringIO(), width=_FILE_WIDTH, **_PLAIN)
        shown = show(content, replace(options, console=console))
        if isinstance(shown, View):
            write_view(shown, console, is_verbose=options.is_verbose)
        return console.file.getvalue() if isinstance(console.file, StringIO) else ""

    return Format("text", render, (".txt", ".text"))


_JSON: Format[Any] = Format("json", late("views.json", "json_text"), (".json",))


def document(
    label: str,
    view: Render,
    *more: Format[Any],
    facts: Callable[[Any], object] | None = None,
    page: Render | None = None,
    needs_guards: bool = False,
) -> Document[Any]:
    """Return a document that is a tree, so that it has every format that shows trees, and its facts
    as JSON.

    ``facts`` tells what of the content is written as JSON; None for the whole. ``page`` makes the
    tree of a page, which has a recording's guards and draws its picture; None for ``view``.
    ``more`` are formats of its own.
    """
    text = _text(view)

    def markdown(content: object, options: RenderOptions) -> str:
        from graphdoctor.views.markdown_text import render_view_markdown

        return render_view_markdown(view(content, options))

    def html(content: object, options: RenderOptions) -> str:
        from graphdoctor.views.html.document import render_view_page
        from graphdoctor.views.html.sourceless import without_source

        shown = content if options.has_source else without_source(content)
        return render_view_page((page or view)(shown, options), has_source=options.has_source)

    def svg(content: object, options: RenderOptions) -> str:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.text import Text

        written = Console(file=StringIO(), width=_SVG_WIDTH, **_COLORED)
        shown = Text.from_ansi(str(text.render(content, replace(options, console=written))))
        # Code isn't broken.
        width = max(_SVG_WIDTH, *map(cell_len, shown.plain.split("\n")))
        recorder = Console(file=StringIO(), width=width, record=True, **_COLORED)
        recorder.print(shown, soft_wrap=True)
        # A picture loads nothing: each text has its length, so any monospace font does.
        drawn = recorder.export_svg(title="graphdoctor")
        return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)

    json = _JSON
    if facts is not None:
        json = replace(_JSON, render=lambda content, options: _JSON.render(facts(content), options))
    is_page = page is not None
    pages = Format("html", html, (".html", ".htm"), needs_picture=is_page, is_page=is_page)
    trees = (pages, Format("markdown", markdown, (".md",)), Format("svg", svg, (".svg",)))
    formats = (text, json, *trees, *more)
    return Document(
        label,
        tuple(
            replace(format, needs_guards=needs_guards or format.needs_picture) for format in formats
        ),
    )


# A diagnosis. Each view of it has a text of its own; the other formats hold the whole diagnosis.


def _diagnosis(view: Render, *, needs_guards: bool = False) -> Document[Result]:
    def page(result: Result, options: RenderOptions) -> View:
        from graphdoctor.views.report import report_view

        return report_view(result.diagnosis, result.picture, root=options.root)

    return document(
        "a diagnosis",
        lambda result, options: view(result.diagnosis, options),
        facts=lambda result: result.diagnosis,
        page=page,
        needs_guards=needs_guards,
    )


DIAGNOSIS: Document[Result] = _diagnosis(late("views.report", "report_view", "is_within_limits"))
"""The whole diagnosis: ``explain``, ``report``, ``run``."""

RECOMPILES: Document[Result] = _diagnosis(late("views.recompiles", "recompiles_view"))
"""Its recompiles: ``recompiles``."""

VARIATIONS: Document[Result] = _diagnosis(late("views.recompiles", "variations_view"))
"""What each changed property of a call did: ``recompiles --vary``."""

GUARDS: Document[Result] = _diagnosis(late("views.guards", "guards_view"), needs_guards=True)
"""Its guards and what they cost: ``guards``."""

FIXES: Document[Result] = _diagnosis(late("views.fixes", "fixes_view", "is_written"))
"""The fixes tried and what they did: ``fix``."""

COMPARISON: Document[DiagnosisComparison] = document(
    "a comparison of two runs", late("views.comparison", "comparison_view")
)
"""``diff`` of two runs."""


def _in_repository(module: str, name: str) -> Render:
    """Return a gate's answer with paths relative to its repository, or to its own root, as those of
    its findings are.
    """
    shown = late(module, name, "root")

    def render(report: CheckReport, options: RenderOptions) -> str:
        root = report.repository or report.root
        if report.repository:
            report = rebased(report, Path(report.repository))
        return str(shown(report, replace(options, root=Path(root) if root else options.root)))

    return render


CHECK: Document[CheckReport] = document(
    "a check",
    late("views.check", "check_view"),
    Format("sarif", _in_repository("views.sarif", "render_sarif"), (".sarif",)),
    Format("github", _in_repository("views.github", "render_github")),
    Format("junit", late("views.junit", "render_junit"), (".xml",)),
)
"""``check``."""

BENCH: Document[BenchReport] = document("a bench", late("views.bench", "bench_view"))
"""``bench``: each way to run a program beside eager mode."""


def _profile(result: ProfileResult, options: RenderOptions) -> View:
    from graphdoctor.views.profile import profile_view

    # What was generated of lines of code shows them.
    picture = result.picture if options.has_source else None
    return profile_view(result.report, picture, root=options.root)


PROFILE: Document[ProfileResult] = document(
    "a profile", _profile, facts=lambda result: result.report, page=_profile
)
"""``profile``: where the time of a call goes."""

LINT: Document[LintReport] = Document(
    "a lint report",
    (
        _text(late("views.listings", "render_lint", "console")),
        _JSON,
        Format("github", late("views.github", "render_github", "root")),
    ),
)
"""``lint``."""

RULES: Document[Sequence[Page]] = Document(
    "a rule",
    (
        _text(late("views.listings", "render_rules", "console")),
        Format("json", late("views.listings", "rules_json"), (".json",)),
    ),
)
"""``rule``: the rules' documentation."""


def write_file(content: str | bytes, path: Path) -> None:
    """Write to a temporary file and rename it, so nobody reads half a file; a device or a pipe is
    written to as it is.

    Raises:
        GraphDoctorError: The file can't be written.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    temporary = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.write(data)
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise GraphDoctorError(f"Can't write {path}: {error.strerror}.") from error
        raise
