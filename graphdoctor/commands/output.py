"""Outputs: the format, the file, the colors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Generic, TypeVar

from graphdoctor.commands.options import Given, OutputOptions, PageOptions
from graphdoctor.commands.terminal import Color, console_of, is_closed, say
from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.facts.check import CheckReport
from graphdoctor.rules.diagnosed import Needs
from graphdoctor.views.formats import CHECK, Document, Format, RenderOptions, write_file

C = TypeVar("C")
D = TypeVar("D")

_FILE_WIDTH = 120


@dataclass(frozen=True)
class Output(Generic[C]):
    """The destination and look of a result.

    Args:
        path: The file; None for standard output.
        recording: The recording that it is of, where nobody named one.
    """

    format: Format[C]
    path: Path | None
    options: RenderOptions
    color: Color = "auto"
    is_quiet: bool = False
    is_opened: bool = False
    recording: str | None = None

    @property
    def needs(self) -> Needs:
        """Facts to read of a recording for it."""
        return Needs(
            guards=self.format.needs_guards,
            picture=self.format.needs_picture,
            is_page=self.format.is_page,
        )

    @property
    def is_text(self) -> bool:
        """Whether the output is plain text."""
        return self.format.is_text

    def write(self, result: C) -> None:
        """Write a result, to the file or to standard output."""
        if self.is_text and self.path is None:
            self.format.render(result, replace(self.options, console=console_of(self.color)))
        else:
            write_content(
                self.content(result), self.path, is_quiet=self.is_quiet, recording=self.recording
            )
        if self.is_opened and self.path is not None and sys.stdout.isatty():
            import typer

            typer.launch(self.path.resolve().as_uri())

    def showing(self, document: Document[D]) -> Output[D]:
        """Return the same for what turned out to be another document."""
        return Output(**vars(self) | {"format": document.named(self.format.name)})

    def content(self, result: C) -> str | bytes:
        """Return a result as it is written to a file."""
        console = (
            console_of(self.color, file=StringIO(), width=_FILE_WIDTH) if self.is_text else None
        )
        return self.format.render(result, replace(self.options, console=console))


def choose_output(
    document: Document[C],
    asked: OutputOptions,
    flags: Given,
    *,
    is_on_stdout: bool = True,
    is_applied: bool = False,
) -> Output[C]:
    """Decide before anything runs, so that a wrong file name costs nothing.

    ``is_applied``: the command also writes the edits that it shows, which ``--force`` is for too.
    """
    path = None if asked.output is None or str(asked.output) == "-" else asked.output
    if asked.format is not None:
        format = document.named(asked.format)
    else:
        format = document.formats[0] if path is None else document.of_path(path)
    if path is not None:
        check_writable(path, force=asked.force)
    elif is_on_stdout and is_closed(sys.stdout):
        raise GraphDoctorError("Standard output is closed.", hint="Name a file: -o FILE.")
    elif is_on_stdout:
        check_shown(format)
    if path is None and "output" not in flags and not is_applied:
        flags.refuse(("force",), without="-o")
    if not format.is_text:
        flags.refuse(("verbose",), without="--format text")
    if format.name != "html" and "html" in document.names:
        flags.refuse(("source",), without="--format html")
    options = RenderOptions(
        Path.cwd(), has_source=asked.source, is_verbose=asked.verbose, is_written=is_applied
    )
    return Output(format, path, options, asked.color, asked.quiet)


def choose_page(
    document: Document[C], asked: OutputOptions, flags: Given, name: Path, *, page: PageOptions
) -> Output[C]:
    """As ``choose_output``, for commands with ``--html`` and ``--no-open``."""
    if not page.html:
        flags.refuse(("is_opened",), without="--html")
        return choose_output(document, asked, flags)
    if asked.format not in (None, "html"):
        raise GraphDoctorError(
            f"--html and --format {asked.format} exclude each other.", hint="Give one of them."
        )
    path = asked.output or name
    chosen = replace(asked, format="html", output=path, force=asked.force or path == name)
    if asked.output is None:
        flags.refuse(("force",), without="-o")
    return replace(choose_output(document, chosen, flags), is_opened=page.is_opened)


def write_content(
    content: str | bytes, path: Path | None, *, is_quiet: bool, recording: str | None = None
) -> None:
    """Write a document, to a file or to standard output."""
    if path is None:
        # Documents are UTF-8, whatever the terminal's encoding.
        sys.stdout.buffer.write(content.encode() if isinstance(content, str) else content)
        sys.stdout.flush()
        return
    write_file(content, path)
    if not is_quiet:
        say(f"Wrote {path}" if recording is None else f"Wrote {path} (recording {recording})")


def check_shown(format: Format[C]) -> None:
    """Check before anything runs whether standard output can take a format."""
    if format.is_binary and sys.stdout.isatty():
        raise GraphDoctorError(
            f"A terminal can't show {format.name}.", hint="Name a file: -o FILE."
        )


def check_writable(path: Path, *, force: bool) -> None:
    """Check before anything runs whether a file can be written."""
    with os_errors(path, "written"):
        if path.is_dir():
            raise GraphDoctorError(f"{path} is a folder.", hint="Name a file in it.")
        if path.exists() and not path.is_file():
            return  # a device or a pipe, which is written to and not replaced
        if path.exists() and not force:
            raise GraphDoctorError(f"{path} exists.", hint="Give --force to overwrite it.")
        if not path.parent.is_dir():
            raise GraphDoctorError(f"There is no folder {path.parent}.", hint="Create it first.")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise GraphDoctorError(
                f"The folder {path.parent} isn't writable.", hint="Name another one with -o."
            )


def parse_outputs(
    texts: Sequence[str], *, is_quiet: bool = False
) -> tuple[Output[CheckReport], ...]:
    """Return the pairs of ``--output``, in order."""
    outputs = []
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals:
            raise GraphDoctorError(
                f"--output {text} isn't a pair of format and file.",
                hint=f"Write --output {_guess(text)}={text}.",
            )
        format = CHECK.named(name)
        if not file:
            raise GraphDoctorError(
                f"--output {text} names no file.", hint=f"Write --output {name}=FILE."
            )
        path = None if file == "-" else Path(file)
        outputs.append(Output(format, path, RenderOptions(Path.cwd()), is_quiet=is_quiet))
    return tuple(outputs)


def check_outputs(outputs: Sequence[Output[C]], *, force: bool) -> None:
    """Check before anything runs that all files can be written, and that no two results go to the
    same place.
    """
    taken = set()
    for output in outputs:
        place = None if output.path is None else output.path.resolve()
        if place in taken:
            raise GraphDoctorError(
                f"{output.path or 'Standard output'} is named twice.", hint="Name a file for each."
            )
        taken.add(place)
        if output.path is not None:
            check_writable(output.path, force=force)


def write_outputs(report: CheckReport, outputs: Sequence[Output[CheckReport]]) -> None:
    """Write all; nothing is written unless everything can be rendered."""
    rendered = [(output.content(report), output) for output in outputs]
    for content, output in rendered:
        write_content(content, output.path, is_quiet=output.is_quiet)


def _guess(file: str) -> str:
    suffix = Path(file).suffix.lower()
    return next((format_.name for format_ in CHECK.formats if suffix in format_.endings), "FORMAT")
