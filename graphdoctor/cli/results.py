"""Writes a result: the format, the file, the colours."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphdoctor.cli.options import Colour, Format
from graphdoctor.cli.terminal import file_console, stderr_console, stdout_console
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from graphdoctor.cli.options import OutputOptions, ShownOptions
    from graphdoctor.config import Settings
    from graphdoctor.model.diagnosis import Diagnosis
    from graphdoctor.rules.diagnose import Selection

_ENDINGS = {".json": Format.json, ".txt": Format.text, ".text": Format.text}
_FILE_WIDTH = 120


@dataclass(frozen=True)
class Output:
    """Where a result goes and how it looks.

    Args:
        format: The format.
        path: The file, or None for standard output.
        is_verbose: Show everything.
        colour: When to colour text.
        is_quiet: Say nothing on standard error.
    """

    format: Format
    path: Path | None
    is_verbose: bool
    colour: Colour
    is_quiet: bool

    @classmethod
    def choose(cls, asked: OutputOptions) -> Output:
        """Decide before anything runs, so that a wrong file name costs nothing.

        Raises:
            GraphDoctorError: The ending says no format, or the file exists.
        """
        path, format = asked.output, asked.format
        if path is not None and str(path) == "-":
            path = None
        if format is None:
            format = Format.text if path is None else _ENDINGS.get(path.suffix.lower())
        if format is None:
            raise GraphDoctorError(
                f"The ending of {path} names no format.", hint="End it in .json or .txt, or give --format."
            )
        if path is not None:
            try:
                _check_writable(path, force=asked.force)
            except OSError as error:
                raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error
        return cls(format, path, asked.verbose, asked.color, asked.quiet)

    @classmethod
    def choose_file(cls, asked: OutputOptions) -> Output:
        """As ``choose``, where standard output belongs to the program that runs.

        Raises:
            GraphDoctorError: As there, or the output is standard output.
        """
        if str(asked.output) == "-":
            raise GraphDoctorError("Standard output belongs to the script.", hint="Name a file: --report out.json.")
        return cls.choose(asked)

    def write(self, diagnosis: Diagnosis, view: View | None = None) -> None:
        """Write the result.

        Args:
            diagnosis: The result.
            view: How it reads as text; None for the whole diagnosis.
        """
        if self.path is None:
            self._write_to_stdout(diagnosis, view)
            return
        self.write_text(self._text(diagnosis, view))

    def write_text(self, text: str) -> None:
        """Write what is rendered already, to the file or to standard output."""
        if self.path is None:
            # JSON is UTF-8 whatever the terminal speaks.
            sys.stdout.buffer.write(text.encode())
            sys.stdout.flush()
            return
        self._write_file(text, self.path)
        if not self.is_quiet:
            print(f"Wrote {self.path}", file=sys.stderr)

    def show_on_stderr(self, diagnosis: Diagnosis) -> None:
        """Show the console report on standard error: standard output belongs to the program that ran."""
        from graphdoctor.render.console import render_console

        render_console(diagnosis, stderr_console(self.colour), is_verbose=self.is_verbose)

    def _write_to_stdout(self, diagnosis: Diagnosis, view: View | None) -> None:
        if self.format is Format.json:
            self.write_text(self._text(diagnosis, view))
            return
        (view or _whole_view())(diagnosis, stdout_console(self.colour), is_verbose=self.is_verbose)

    def _text(self, diagnosis: Diagnosis, view: View | None) -> str:
        if self.format is Format.json:
            from graphdoctor.render.json import render_json

            return render_json(diagnosis)
        from io import StringIO

        buffer = StringIO()
        console = file_console(buffer, self.colour, width=_FILE_WIDTH)
        (view or _whole_view())(diagnosis, console, is_verbose=self.is_verbose)
        return buffer.getvalue()

    @staticmethod
    def _write_file(text: str, path: Path) -> None:
        """Write to a temporary name and rename, so that nobody ever reads half a file."""
        try:
            handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
                stream.write(text)
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException as error:
            with suppress(OSError):
                Path(temporary).unlink()
            if isinstance(error, OSError):
                raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error
            raise


class View(Protocol):
    """Writes a diagnosis to a terminal."""

    def __call__(self, diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
        """Write it."""


def _whole_view() -> View:
    from graphdoctor.render.console import render_console

    return render_console


def _check_writable(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise GraphDoctorError(f"{path} is a folder.", hint="Name a file in it.")
    if path.exists() and not force:
        raise GraphDoctorError(f"{path} exists.", hint="Give --force to overwrite it.")
    if not path.parent.is_dir():
        raise GraphDoctorError(f"There is no folder {path.parent}.", hint="Make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraphDoctorError(f"The folder {path.parent} cannot be written to.", hint="Name another with -o.")


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
            _prefixes(asked.select or settings.select),
            _prefixes(asked.ignore or settings.ignore),
            settings.own_code if asked.own_code is None else asked.own_code,
        )

    def selection(self) -> Selection:
        """As the rules take it."""
        from graphdoctor.rules.diagnose import Selection

        return Selection(select=self.select, ignore=self.ignore, is_own_code_only=self.is_own_code_only)


def diagnose_recording(recording: Path, shown: Shown, *, guards: bool = False, root: Path | None = None) -> Diagnosis:
    """Read a recording, with its guards when asked, and say what it means.

    Args:
        recording: Its folder, or a log.
        shown: Which findings to show.
        guards: Read the guards too.
        root: Paths below it are shown relative to it; the working directory by default.
    """
    from graphdoctor import __version__
    from graphdoctor.rules.diagnose import diagnose
    from graphdoctor.trace.reader import read_recording

    found = read_recording(recording, guards=guards)
    return diagnose(found, root=root or Path.cwd(), version=__version__, selection=shown.selection())


def _prefixes(texts: Sequence[str]) -> tuple[str, ...]:
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
        diagnosis = diagnose_recording(recording, shown)
        if not output.is_quiet:
            output.show_on_stderr(diagnosis)
        if output.path is not None:
            output.write(diagnosis)
    except GraphDoctorError as error:
        complain(error.message, error.hint)
    except BrokenPipeError:
        pass  # whoever read our standard error has gone
    except Exception as error:  # noqa: BLE001 - see the docstring
        tell_trouble(error)
