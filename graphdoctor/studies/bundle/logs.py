"""The logs of a bundle as tlparse reads them: each a file of its own, unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from graphdoctor.probe.wire import TRACE_FOLDER
from graphdoctor.trace.logs import logs_of, named_rank
from graphdoctor.trace.storage.places import LogFile, local_log
from graphdoctor.trace.storage.streams import CutStreamError

LOGS = f"recording/{TRACE_FOLDER}/"
"""Where they lie in the zip."""


def plain_logs(path: Path, numbers: Iterator[int]) -> Iterator[tuple[str, LogFile]]:
    """The logs that a file holds, each under a name with a number."""
    found = [file := local_log(path)]
    with suppress(CutStreamError):
        found = logs_of(file) or found
    for number, log in zip(numbers, found, strict=False):
        rank = named_rank(log)
        ranked = "" if rank is None else f"rank_{rank}_"
        yield f"{LOGS}dedicated_log_torch_trace_{ranked}{number}.log", log
