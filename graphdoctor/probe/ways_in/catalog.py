"""One question about a library's catalog: which architectures it has, or a program of one of
them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...facts.catalog import Architecture
from ..events import EventFile
from ..record.errors import TargetError
from ..wire import LIBRARIES, CatalogRequest, program_header
from .session import reported

if TYPE_CHECKING:
    from ..catalog.library import Library


def main(request_path: Path) -> int:
    """Answer what a request file asks."""
    return reported(request_path, _run)


def _run(request: CatalogRequest, _folder: Path, events: EventFile) -> int:
    events.phase("importing torch")
    import torch  # noqa: F401

    from ..catalog.library import imported

    events.phase("importing the library")
    library = imported(request["library"])
    version = str(sys.modules[LIBRARIES[request["library"]]].__version__)
    events.write("library", version=version)
    if request["architecture"] is None:
        events.phase("listing its architectures")
        found = [
            Architecture(name=name, family=family) for name, family in library.families().items()
        ]
        events.write("architectures", architectures=found)
    else:
        header = program_header(
            library=request["library"],
            version=version,
            architecture=request["architecture"],
            graphdoctor=request["graphdoctor"],
        )
        _write(library, request["architecture"], header, request, events)
    events.write("finished", is_complete=True)
    return 0


def _write(
    library: Library, architecture: str, header: str, request: CatalogRequest, events: EventFile
) -> None:
    from ..catalog.search import RefusedError, find

    events.phase("looking for a small configuration")
    try:
        found = find(library, architecture, header, memory_bytes=request["memory_bytes"])
    except RefusedError as refusal:
        events.write(
            "refused", kind=refusal.kind, message=refusal.message, traceback=refusal.traceback
        )
        return
    path = Path(str(request["program"]))
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        temporary.write_text(found.text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise TargetError(f"{path} can't be written: {error.strerror}.") from error
    events.write("program", parameters=found.parameters)
