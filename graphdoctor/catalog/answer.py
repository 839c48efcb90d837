"""Answers one request about a library: its architectures, or a program of one of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..facts.catalog import Architecture
from ..probe.events import EventFile
from ..probe.record.errors import TargetError
from ..probe.ways_in.session import reported
from ..probe.wire import LIBRARIES, CatalogRequest, program_header


def main(request_path: Path) -> int:
    """Answer a request file; returns the exit status."""
    return reported(request_path, _answer)


def _answer(request: CatalogRequest, _folder: Path, events: EventFile) -> int:
    events.phase("importing torch")
    import torch  # noqa: F401

    from .library import imported
    from .search import RefusedError, find_program

    events.phase("importing the library")
    name, architecture = request["library"], request["architecture"]
    library = imported(name)
    version = str(sys.modules[LIBRARIES[name]].__version__)
    events.write("library", version=version)
    if architecture is None:
        events.phase("listing its architectures")
        families = library.families().items()
        events.write(
            "architectures",
            architectures=[Architecture(name=member, family=family) for member, family in families],
        )
    else:
        events.phase("looking for a small configuration")
        header = program_header(
            library=name,
            version=version,
            architecture=architecture,
            graphdoctor=request["graphdoctor"],
        )
        try:
            text, parameters = find_program(
                library, architecture, header, memory_bytes=request["memory_bytes"]
            )
        except RefusedError as refusal:
            events.write("refused", **vars(refusal))
        else:
            path = Path(str(request["program"]))
            temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
            try:
                temporary.write_text(text, encoding="utf-8")
                temporary.replace(path)
            except OSError as error:
                raise TargetError(f"{path} can't be written: {error.strerror}.") from error
            events.write("program", parameters=parameters)
    events.write("finished", is_complete=True)
    return 0
