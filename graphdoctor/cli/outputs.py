"""Several files from one run: ``--output sarif=a.sarif --output junit=b.xml``."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.cli.files import check_writable
from graphdoctor.errors import GraphDoctorError
from graphdoctor.render.check_formats import CHECK_FORMATS
from graphdoctor.render.file import write_file

if TYPE_CHECKING:
    from graphdoctor.model.check import CheckReport


@dataclass(frozen=True)
class CheckOutput:
    """One file to write.

    Args:
        format: A name in ``CHECK_FORMATS``.
        path: The file; None for standard output.
    """

    format: str
    path: Path | None


def parse_outputs(texts: Sequence[str]) -> tuple[CheckOutput, ...]:
    """The pairs of ``--output``, in order.

    Args:
        texts: Each ``format=file``; the file ``-`` is standard output.

    Raises:
        GraphDoctorError: A text is no pair, names no format that there is or no file, or a file that another has.
    """
    outputs: list[CheckOutput] = []
    taken: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals:
            raise GraphDoctorError(
                f"--output {text} is no pair of format and file.", hint=f"Write --output {_guess(text)}={text}."
            )
        if name not in CHECK_FORMATS:
            near = difflib.get_close_matches(name.lower(), CHECK_FORMATS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(CHECK_FORMATS)}."
            raise GraphDoctorError(f"--output {text}: there is no format {name!r}.", hint=hint)
        if not file:
            raise GraphDoctorError(f"--output {text} names no file.", hint=f"Write --output {name}=FILE.")
        key = file if file == "-" else os.path.realpath(file)
        if key in taken:
            shown = "standard output" if file == "-" else file
            raise GraphDoctorError(
                f"Two formats, {taken[key]} and {name}, would be written to {shown}.", hint="Name a file for each."
            )
        taken[key] = name
        outputs.append(CheckOutput(name, None if file == "-" else Path(file)))
    return tuple(outputs)


def check_outputs(outputs: Sequence[CheckOutput], *, force: bool) -> None:
    """Ask before anything runs whether all files can be written.

    Args:
        outputs: The files.
        force: They may exist.

    Raises:
        GraphDoctorError: One cannot, and why.
    """
    for output in outputs:
        if output.path is not None:
            check_writable(output.path, force=force)


def write_outputs(report: CheckReport, outputs: Sequence[CheckOutput], *, is_quiet: bool) -> None:
    """Write all; nothing is written unless everything can be rendered.

    Args:
        report: What to write.
        outputs: As what, and where to.
        is_quiet: Say nothing on standard error.

    Raises:
        GraphDoctorError: A file cannot be written.
    """
    rendered = [(CHECK_FORMATS[output.format](report), output.path) for output in outputs]
    for text, path in rendered:
        if path is None:
            # Documents are UTF-8 whatever the terminal speaks.
            sys.stdout.buffer.write(text.encode())
            sys.stdout.flush()
            continue
        write_file(text, path)
        if not is_quiet:
            print(f"Wrote {path}", file=sys.stderr)


_ENDINGS = {".sarif": "sarif", ".xml": "junit", ".md": "markdown", ".json": "json"}


def _guess(file: str) -> str:
    return _ENDINGS.get(Path(file).suffix.lower(), "FORMAT")
