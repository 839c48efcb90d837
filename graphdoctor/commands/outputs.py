"""Several files from one run of the gate: ``--output sarif=a.sarif --output junit=b.xml``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.output import Output, check_writable, write_content
from graphdoctor.errors import GraphDoctorError
from graphdoctor.views.formats import CHECK, RenderOptions

if TYPE_CHECKING:
    from graphdoctor.facts.check import CheckReport


def parse_outputs(texts: Sequence[str], *, is_quiet: bool = False) -> tuple[Output[CheckReport], ...]:
    """The pairs of ``--output``, in order."""
    outputs: list[Output[CheckReport]] = []
    taken: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals:
            raise GraphDoctorError(
                f"--output {text} isn't a pair of format and file.", hint=f"Write --output {_guess(text)}={text}."
            )
        format = CHECK.named(name)
        if not file:
            raise GraphDoctorError(f"--output {text} names no file.", hint=f"Write --output {name}=FILE.")
        key = file if file == "-" else os.path.realpath(file)
        if key in taken:
            shown = "standard output" if file == "-" else file
            raise GraphDoctorError(
                f"Two formats, {taken[key]} and {name}, would be written to {shown}.", hint="Name a file for each."
            )
        taken[key] = name
        path = None if file == "-" else Path(file)
        outputs.append(Output(format, path, RenderOptions(Path.cwd()), is_quiet=is_quiet))
    return tuple(outputs)


def check_outputs(outputs: Sequence[Output[CheckReport]], *, force: bool) -> None:
    """Check before anything runs whether all files can be written."""
    for output in outputs:
        if output.path is not None:
            check_writable(output.path, force=force)


def write_outputs(report: CheckReport, outputs: Sequence[Output[CheckReport]]) -> None:
    """Write all; nothing is written unless everything can be rendered."""
    rendered = [(output.content(report), output) for output in outputs]
    for content, output in rendered:
        write_content(content, output.path, is_quiet=output.is_quiet)


def _guess(file: str) -> str:
    suffix = Path(file).suffix.lower()
    return next((each.name for each in CHECK.formats if suffix in each.endings), "FORMAT")
