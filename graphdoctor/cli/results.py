"""Writes a result: the format, the file, the colours."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from graphdoctor.cli.files import check_writable
from graphdoctor.cli.options import Colour, Format
from graphdoctor.cli.terminal import file_console, stderr_console, stdout_console
from graphdoctor.errors import GraphDoctorError
from graphdoctor.render.file import write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from graphdoctor.cli.options import OutputOptions, ShownOptions
    from graphdoctor.config import Settings
    from graphdoctor.diagnosis.selection import Selection
    from graphdoctor.model.diagnosis import Diagnosis
    from graphdoctor.model.picture import Picture

Document = Literal["diagnosis", "comparison"]
"""What a command writes."""

_ENDINGS = {
    ".json": Format.json,
    ".txt": Format.text,
    ".text": Format.text,
    ".html": Format.html,
    ".htm": Format.html,
    ".md": Format.markdown,
}
_WRITABLE: dict[Document, tuple[Format, ...]] = {
    "diagnosis": (Format.text, Format.json, Format.html, Format.chrome_trace),
    "comparison": (Format.text, Format.json, Format.html, Format.markdown),
}
_FILE_WIDTH = 120


@dataclass(frozen=True)
class Result:
    """What there is to write.

    Args:
        diagnosis: The result.
        picture: What only some formats show; None when it was not read (``Output.needs_picture``).
    """

    diagnosis: Diagnosis
    picture: Picture | None = None


@dataclass(frozen=True)
class Output:
    """Where a result goes and how it looks.

    Args:
        format: The format.
        path: The file, or None for standard output.
        is_verbose: Show everything.
        colour: When to colour text.
        is_quiet: Say nothing on standard error.
        has_source: A page shows lines of code.
    """

    format: Format
    path: Path | None
    is_verbose: bool
    colour: Colour
    is_quiet: bool
    has_source: bool = True

    @property
    def needs_picture(self) -> bool:
        """The format shows what a plain diagnosis lacks."""
        return self.format in (Format.html, Format.chrome_trace)

    @property
    def needs_guards(self) -> bool:
        """The format shows guards whatever was asked."""
        return self.format is Format.html

    @classmethod
    def choose(cls, asked: OutputOptions, document: Document = "diagnosis") -> Output:
        """Decide before anything runs, so that a wrong file name costs nothing.

        Args:
            asked: The options of the command line.
            document: What is to be written.

        Raises:
            GraphDoctorError: The ending says no format, it is none of the document's, or the file exists.
        """
        path, format = asked.output, asked.format
        if path is not None and str(path) == "-":
            path = None
        if format is None:
            format = Format.text if path is None else _ENDINGS.get(path.suffix.lower())
        if format is None:
            raise GraphDoctorError(
                f"The ending of {path} names no format.", hint="End it in .html, .json or .txt, or give --format."
            )
        if format not in _WRITABLE[document]:
            *most, last = _WRITABLE[document]
            raise GraphDoctorError(
                f"A {document} cannot be written as {format}.", hint=f"Choose {', '.join(most)} or {last}."
            )
        if path is not None:
            check_writable(path, force=asked.force)
        return cls(format, path, asked.verbose, asked.color, asked.quiet, asked.source)

    @classmethod
    def choose_page(cls, asked: OutputOptions, name: Path, document: Document = "diagnosis") -> Output:
        """As ``choose``, for ``--html``.

        Args:
            asked: The options of the command line.
            name: The file where none is named; nobody named it, so it may be written again and again.
            document: What is to be written.

        Raises:
            GraphDoctorError: As there, or another format was asked for too.
        """
        if asked.format not in (None, Format.html):
            raise GraphDoctorError(f"--html and --format {asked.format} exclude each other.", hint="Give one of them.")
        if asked.output is None:
            asked = replace(asked, output=name, force=True)
        return cls.choose(replace(asked, format=Format.html), document)

    @classmethod
    def choose_file(cls, asked: OutputOptions) -> Output:
        """As ``choose``, where standard output belongs to the program that runs.

        Raises:
            GraphDoctorError: As there, or the output is standard output.
        """
        if str(asked.output) == "-":
            raise GraphDoctorError("Standard output belongs to the script.", hint="Name a file: --report out.json.")
        return cls.choose(asked)

    def write(self, result: Result, view: View | None = None) -> None:
        """Write the result.

        Args:
            result: The result, with a picture when ``needs_picture``.
            view: How it reads as text; None for the whole diagnosis.
        """
        if self.path is None:
            self._write_to_stdout(result, view)
            return
        self.write_text(self._text(result, view))

    def write_text(self, text: str) -> None:
        """Write what is rendered already, to the file or to standard output."""
        if self.path is None:
            # Documents are UTF-8 whatever the terminal speaks.
            sys.stdout.buffer.write(text.encode())
            sys.stdout.flush()
            return
        write_file(text, self.path)
        if not self.is_quiet:
            print(f"Wrote {self.path}", file=sys.stderr)

    def show(self) -> None:
        """Open the file that was written in a browser, where someone sits at a terminal."""
        import typer

        if self.path is not None and sys.stdout.isatty():
            typer.launch(self.path.resolve().as_uri())

    def show_on_stderr(self, diagnosis: Diagnosis) -> None:
        """Show the console report on standard error: standard output belongs to the program that ran."""
        from graphdoctor.render.console import render_console

        render_console(diagnosis, stderr_console(self.colour), is_verbose=self.is_verbose)

    def _write_to_stdout(self, result: Result, view: View | None) -> None:
        if self.format is Format.text:
            (view or _whole_view())(result.diagnosis, stdout_console(self.colour), is_verbose=self.is_verbose)
            return
        self.write_text(self._text(result, view))

    def _text(self, result: Result, view: View | None) -> str:
        match self.format:
            case Format.json:
                from graphdoctor.render.json import render_json

                return render_json(result.diagnosis)
            case Format.html:
                from graphdoctor.render.html.page import render_page

                if result.picture is None:
                    raise ValueError("the recording was read without its picture")
                return render_page(result.diagnosis, result.picture, root=Path.cwd(), has_source=self.has_source)
            case Format.chrome_trace:
                from graphdoctor.render.chrome_trace import render_chrome_trace

                if result.picture is None:
                    raise ValueError("the recording was read without its picture")
                return render_chrome_trace(result.diagnosis, result.picture)
            case Format.markdown:
                raise ValueError("a diagnosis has no Markdown")
            case Format.text:
                return self._console_text(result.diagnosis, view)

    def _console_text(self, diagnosis: Diagnosis, view: View | None) -> str:
        from io import StringIO

        buffer = StringIO()
        console = file_console(buffer, self.colour, width=_FILE_WIDTH)
        (view or _whole_view())(diagnosis, console, is_verbose=self.is_verbose)
        return buffer.getvalue()


class View(Protocol):
    """Writes a diagnosis to a terminal."""

    def __call__(self, diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
        """Write it."""


def _whole_view() -> View:
    from graphdoctor.render.console import render_console

    return render_console


@dataclass(frozen=True)
class Shown:
    """Which findings to show.

    Args:
        select: Code prefixes to show; empty for all.
        ignore: Code prefixes to leave out.
        is_own_code_only: Findings in the user's own code only.
    """

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    is_own_code_only: bool

    @classmethod
    def choose(cls, settings: Settings, asked: ShownOptions) -> Shown:
        """Decide before anything runs; the rules are imported only when a code is given.

        Raises:
            GraphDoctorError: No rule's code begins so.
        """
        return cls(
            code_prefixes(asked.select or settings.select),
            code_prefixes(asked.ignore or settings.ignore),
            settings.own_code if asked.own_code is None else asked.own_code,
        )

    def selection(self) -> Selection:
        """As the rules take it."""
        from graphdoctor.diagnosis.selection import Selection

        return Selection(select=self.select, ignore=self.ignore, is_own_code_only=self.is_own_code_only)


def diagnose_recording(
    recording: Path, shown: Shown, output: Output | None = None, *, guards: bool = False, root: Path | None = None
) -> Result:
    """Read a recording, with all that the output shows, and say what it means.

    Args:
        recording: A recording's folder, or a trace log of others.
        shown: Which findings.
        output: Where the result will go; None where only the diagnosis is wanted.
        guards: Read the guards whatever the output.
        root: Paths below it are shown relative to it; the working directory by default.
    """
    from graphdoctor import __version__
    from graphdoctor.diagnosis.diagnose import diagnose
    from graphdoctor.rules.catalog import RULES
    from graphdoctor.trace.reader import read_recording

    has_guards, has_picture = (output.needs_guards, output.needs_picture) if output else (False, False)
    found = read_recording(recording, guards=guards or has_guards, picture=has_picture)
    diagnosis = diagnose(found, RULES, root=root or Path.cwd(), version=__version__, selection=shown.selection())
    return Result(diagnosis, found.picture)


def code_prefixes(texts: Sequence[str]) -> tuple[str, ...]:
    """Code prefixes, comma-separated ones too."""
    chosen = tuple(part.strip().upper() for text in texts for part in text.split(",") if part.strip())
    if not chosen:
        return ()
    from graphdoctor.rules.catalog import ALL_RULES

    for prefix in chosen:
        if not any(code.startswith(prefix) for code in ALL_RULES):
            raise GraphDoctorError(
                f"No rule's code begins with {prefix!r}.", hint="graphdoctor rule --all lists the rules."
            )
    return chosen


def show_summary(recording: Path, shown: Shown, output: Output) -> None:
    """Show a script's report on standard error, and write it where that was asked for.

    Trouble with the report is told and ends here: the exit status is the script's.
    """
    from graphdoctor.cli.terminal import complain
    from graphdoctor.cli.trouble import tell_trouble

    try:
        if output.is_quiet and output.path is None:
            return
        result = diagnose_recording(recording, shown, output)
        if not output.is_quiet:
            output.show_on_stderr(result.diagnosis)
        if output.path is not None:
            output.write(result)
    except GraphDoctorError as error:
        complain(error.message, error.hint)
    except BrokenPipeError:
        pass  # whoever read our standard error has gone
    except Exception as error:  # noqa: BLE001 - see the docstring
        tell_trouble(error)
