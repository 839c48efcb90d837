"""The folders that a client works in, and the paths that tools may name: those below them, with
links resolved.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from itertools import compress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mcp.server.mcpserver.exceptions import ToolError


def folder_of(uris: Iterable[str], texts: Collection[str]) -> Path:
    """The folder to run in: the first of the client's that has what the texts name, or the working
    directory.

    Args:
        uris: The client's roots.
        texts: Targets, files and recordings.

    Raises:
        ToolError: One of them names something outside of all.
    """
    paths = [Path(unquote(urlsplit(uri).path)) for uri in uris if urlsplit(uri).scheme == "file"]
    roots = [path.resolve() for path in paths if path.is_dir()] or [Path.cwd()]
    # A target is a file and a name.
    names = [name for text in texts for name in (text, text.rpartition(":")[0]) if name]
    # os: a name that no file can have is an error to pathlib.
    has_one = (any(os.path.exists(root / name) for name in names) for root in roots)  # noqa: PTH110
    folder = next(compress(roots, has_one), roots[0])
    for name in names:
        if "://" in name or not any(
            (folder / name).resolve().is_relative_to(root) for root in roots
        ):
            raise ToolError(f"{name} is outside of {', '.join(map(str, roots))}.")
    return folder
