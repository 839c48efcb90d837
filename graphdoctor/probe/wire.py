"""What the probe and the other rooms agree on: file names, the format, the request, events,
artifacts, hint codes.

The one module of the probe that other rooms may import; it needs nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from .file_names import *  # noqa: F403 - the other rooms' way to these names

FORMAT = 1
"""Of ``recording.json``: a recording with another number is refused."""

EXIT_UNWRITABLE = 74
EXIT_CLOSED = 73
"""Exit status of a probe that couldn't write its events; EX_IOERR of sysexits.h."""

ARTIFACT_PREFIX = "graphdoctor_"
"""What the names of our records in torch's trace log begin with."""

INPUT_FUNCTIONS = ("example_inputs", "get_inputs")
INPUT_ATTRIBUTES = ("example_input_array", "dummy_inputs")
"""Where the arguments of a target's calls are looked for: beside it, and in it."""

INPUTS_FROM_OPTIONS = "the run's options"
INPUTS_NOT_NEEDED = "no arguments needed"
"""Two values of a target's ``inputs_from``; the others name what the program has, such as
``example_inputs()``."""

WARM_ARGUMENT = "warm"
"""The first argument of a probe that forks others; the second is the number of a socket."""


class WarmRequest(TypedDict):
    """What a warm process is asked to fork; its answer's socket, its output and what it inherits
    come along.

    Or, with the socket for its requests alone, another warm process, which has imported more.
    """

    path: str | None
    """Of its ``request.json`` or ``catalog.json``; None for a warm process."""
    library: str | None
    folder: str | None
    """Its working directory; None for a warm process."""
    inherited: list[int]
    """Numbers under which it expects the other open files."""
    modules: list[str]
    """What a warm process imports, in this order."""
    has_inductor: bool
    """Whether a warm process imports Inductor."""


ProbeRequest = Mapping[str, Any]
"""``request.json``: what the probe is asked to do. The fields of ``RunSpec`` but the target, of
``TargetText`` and of ``Measured``; ``inputs``, ``vary`` (a ``Variation``), how the calls are
replayed (``replay/trial.py``) and the socket over which the last one is timed
(``steps/benched.py``)."""


LIBRARIES: dict[str, str] = {
    "transformers": "transformers",
    "torch-geometric": "torch_geometric",
    "timm": "timm",
    "torchvision": "torchvision",
}
"""Libraries that have a catalog, by the name they are installed under: what Python imports, and the
name of its module in ``catalog``."""


class CatalogRequest(TypedDict):
    """``catalog.json``: which architectures a library has, or a program of one of them."""

    library: str
    architecture: str | None
    program: str | None
    graphdoctor: str
    memory_bytes: int | None
    """Resident memory above which the process is stopped."""


def program_header(*, library: str, version: str, architecture: str, graphdoctor: str) -> str:
    """Return the first lines of a catalog's program, which name its source and maker.

    They show whether it must be made again.
    """
    made_of = f'"""{architecture} of {library} {version}, small and with random weights.'
    return f"{made_of}\n\nWritten by graphdoctor {graphdoctor}."


class CallItems(TypedDict):
    """What one call works on."""

    count: int
    unit: Literal["samples", "tokens"]


class CacheCounts(TypedDict):
    """What the caches on disk did, in graphs."""

    hits: int
    misses: int
    bypasses: int


class BenchStart(TypedDict):
    """What a benched program reports over its socket once its calls are steady, or never will
    be.
    """

    is_steady: bool
    excess_s: float
    """Seconds by which ``torch.compile`` and the calls took longer than steady calls do, in all."""
    passes: int
    """How often all calls were made."""
    call_count: int
    inputs: str | None
    items: CallItems | None
    cache: CacheCounts | None
    """None without torch.compile."""
    uses_cuda: bool
    peak_memory_bytes: int
    """The most resident memory of the process until now."""


class BenchTurn(TypedDict):
    """The times of one turn."""

    times_us: list[float]
    """Time of a call in each block of calls in a row, in microseconds."""
    calls: int
    """How many calls a block has."""
    alone_us: list[float]
    """Times of single calls, each until the device is done; empty without CUDA, where calls wait
    for each other."""
    peak_memory_bytes: int | None
    """The most memory until now, since the calls are steady; None if unknown."""


class BenchTime(TypedDict):
    """What a benched program answers to ``{"floor": true}`` and ``{"device": true}``."""

    awaits_backward: bool
    """Outputs of earlier calls await their backward pass, so that torch can't launch its CUDA
    graphs again."""

    us: float | None
    """Time of a compiled call that computes next to nothing, or the GPU's part of a call, in
    microseconds; None if it couldn't be measured."""


UnseenReads = Literal["network", "processes", "reads"]
"""What a process may have read without our seeing it: from a network, in processes that it forked,
or anything."""


class ReadsRecord(TypedDict):
    """``reads.json``: what a process read, as far as Python knows."""

    files: list[str]
    """Absolute paths, those of modules and mapped files among them, but for what changed while the
    process ran."""
    missing: list[str]
    search_path: list[str]
    prefix: list[str]
    """Folders of the interpreter and its environment."""
    unseen: list[UnseenReads]
    modules: dict[str, str]
    """The modules of installed packages that the target imported, in order, with their files; none
    if it changed the environment before or meanwhile, which they may depend on."""
