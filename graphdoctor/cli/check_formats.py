"""What ``graphdoctor check`` can write: the one place that knows each format and its renderer."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.cli.files import check_writable
from graphdoctor.cli.options import Colour
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from graphdoctor.model.check import CheckReport

_FILE_WIDTH = 120


class CheckFormat(StrEnum):
    """What the gate's answer can be written as."""

    text = "text"
    json = "json"


def rendered(report: CheckReport, format: CheckFormat, *, colour: Colour, is_verbose: bool) -> str:
    """The answer as a document.

    Args:
        report: The answer.
        format: What to write it as.
        colour: When to colour text.
        is_verbose: Show everything, where the format leaves things out.
    """
    match format:
        case CheckFormat.text:
            from graphdoctor.cli.terminal import file_console
            from graphdoctor.render.check import render_check

            buffer = StringIO()
            render_check(report, file_console(buffer, colour, width=_FILE_WIDTH), is_verbose=is_verbose)
            return buffer.getvalue()
        case CheckFormat.json:
            from graphdoctor.render.json import render_json

            return render_json(report)


@dataclass(frozen=True)
class FileOutput:
    """One file to write.

    Args:
        format: What to write it as.
        path: The file, absolute.
    """

    format: CheckFormat
    path: Path


def parse_outputs(texts: Sequence[str], *, force: bool) -> tuple[FileOutput, ...]:
    """Read ``FORMAT=FILE`` of each ``--output``, before anything runs, so that a wrong name costs nothing.

    Args:
        texts: As they were given.
        force: The files may exist.

    Raises:
        GraphDoctorError: A format is unknown, a file cannot be written, or two are one file.
    """
    outputs: dict[Path, FileOutput] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise GraphDoctorError(f"--output {text!r} is no FORMAT=FILE.", hint="Write --output json=check.json.")
        path = Path(file).absolute()
        if path in outputs:
            raise GraphDoctorError(f"--output names {file} twice.", hint="Give each format a file of its own.")
        outputs[path] = FileOutput(_format(name), path)
        check_writable(path, force=force)
    return tuple(outputs.values())


def _format(name: str) -> CheckFormat:
    names = [str(known) for known in CheckFormat]
    if name in names:
        return CheckFormat(name)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else "Formats: " + ", ".join(names) + "."
    raise GraphDoctorError(f"--output: there is no format {name!r}.", hint=hint)
