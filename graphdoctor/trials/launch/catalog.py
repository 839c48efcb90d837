"""Asks a library which architectures it has, and has a program written of each.

Comes in: a library's name and an interpreter that has it. Goes out: a ``Catalog``, or a file that
is a target. A process of its own does it (``graphdoctor/catalog/answer.py``), which can hang,
crash or use up memory.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.catalog import Architecture, Catalog, Program, Refusal, RefusalKind
from graphdoctor.probe.wire import CATALOG_REQUEST_FILE, LIBRARIES, CatalogRequest, program_header
from graphdoctor.trials.launch.child import ChildExit, Setup, end_of, last_events, watch, written
from graphdoctor.version import __version__
from graphdoctor.wording import nearest


def architectures(library: str, setup: Setup) -> Catalog:
    """List the architectures of a library; builds none of them."""
    events, refusal = _asked(library, setup)
    if refusal is not None:
        raise GraphDoctorError(f"{library} didn't list its architectures: {refusal.message}")
    listed = tuple(Architecture(**item) for item in events["architectures"]["architectures"])
    return Catalog(library=library, version=events["library"]["version"], architectures=listed)


def write_program(
    library: str, architecture: str, folder: Path, setup: Setup, *, version: str | None = None
) -> Program | Refusal:
    """Write a program with an architecture's smallest configuration that runs in eager mode, or say
    why there is none.

    Raises:
        GraphDoctorError: There is no such catalog, the library or torch isn't installed there, or
            the file can't be written.
        KeyboardInterrupt: The process was interrupted.
    """
    path = folder / file_name(architecture)
    made: dict[str, Any] = {"path": str(path), "library": library, "architecture": architecture}
    if library in LIBRARIES and version is not None:
        header = program_header(
            library=library, version=version, architecture=architecture, graphdoctor=__version__
        )
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if path.read_text(encoding="utf-8").startswith(header):
                return Program(**made, version=version, parameters=None)
    events, refusal = _asked(library, setup, architecture, path)
    if refusal is None and "refused" in events:
        names = ("kind", "message", "traceback")
        refusal = Refusal(**{name: events["refused"][name] for name in names})
    if refusal is not None:
        return refusal
    return Program(
        **made, version=events["library"]["version"], parameters=events["program"]["parameters"]
    )


def file_name(architecture: str) -> str:
    """Name the file of an architecture's program as a module can be called."""
    return "".join(letter if letter.isalnum() else "_" for letter in architecture) + ".py"


def _asked(
    library: str, setup: Setup, architecture: str | None = None, program: Path | None = None
) -> tuple[dict[str, Any], Refusal | None]:
    if library not in LIBRARIES:
        hint = nearest(
            library.lower(), LIBRARIES, otherwise=f"There are catalogs of {', '.join(LIBRARIES)}."
        )
        raise GraphDoctorError(f"There is no catalog of {library!r}.", hint=hint)
    request = CatalogRequest(
        library=library,
        architecture=architecture,
        program=None if program is None else str(program.absolute()),
        graphdoctor=__version__,
        memory_bytes=None if program is None else setup.memory_bytes,
    )
    if program is not None:
        with written(program.parent):
            program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="graphdoctor-catalog-") as name:
        folder = Path(name)
        request_path = folder / CATALOG_REQUEST_FILE
        with written(folder):
            request_path.write_text(json.dumps(request), encoding="utf-8")
        child = watch(request_path, setup, library=library)
        last = last_events(folder)
    is_complete = last.get("finished", {}).get("is_complete")
    return last, None if is_complete else _refusal(child, last, setup)


def _refusal(child: ChildExit, last: dict[str, Any], setup: Setup) -> Refusal:
    ended = end_of(child, last, setup)
    if ended.reason == "interrupted":
        raise KeyboardInterrupt
    message = ended.message or "The process ended early."
    if ended.reason == "error":
        raise GraphDoctorError(message, hint=ended.hint)
    kinds: dict[str | None, RefusalKind] = {"timeout": "timeout", "memory": "out_of_memory"}
    kind = kinds.get(child.stopped_for, "crashed")
    return Refusal(kind=kind, message=message, traceback=ended.traceback)
