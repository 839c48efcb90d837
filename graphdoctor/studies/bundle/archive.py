"""Packs files into a zip. The same files always give the same bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold."""


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of files, given by name and in order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whatever this system is
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
