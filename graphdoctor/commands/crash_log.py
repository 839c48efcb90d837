"""The log that is left when graphdoctor itself fails."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tempfile
import traceback
from pathlib import Path

import graphdoctor
from graphdoctor.commands.terminal import complain

_PACKAGES = ("torch", "typer", "rich", "pydantic", "orjson", "jinja2", "libcst")


def report_trouble(error: BaseException) -> None:
    """Say in one line that graphdoctor itself failed, and where the log is."""
    path = _write_trouble_log(error)
    complain(f"graphdoctor failed: {type(error).__name__}: {error}", f"please report it with the log {path}")


def _write_trouble_log(error: BaseException) -> Path:
    """Write versions, the command and the traceback to a file of its own."""
    lines = [f"graphdoctor {graphdoctor.__version__}", f"python {sys.version}", platform.platform()]
    for name in _PACKAGES:
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed")
    lines += [f"command: {sys.argv}", "", *traceback.format_exception(error)]
    with tempfile.NamedTemporaryFile(
        "w", prefix="graphdoctor-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
    ) as log:
        log.write("\n".join(lines))
    return Path(log.name)
