"""How many processes fit into the memory of this machine."""

from __future__ import annotations

from pathlib import Path


def fitting(peak_bytes: int | None, *, most: int) -> int:
    """How many processes fit into half the free memory, at least one.

    Args:
        peak_bytes: What one of them takes at most; None if unknown.
        most: More than these are never wanted.
    """
    free = _free_bytes()
    if peak_bytes and free is not None:
        most = min(most, free // 2 // peak_bytes)
    return max(most, 1)


def _free_bytes() -> int | None:
    """Memory that new processes can have; None where the system doesn't report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    kibibytes = found.get("MemAvailable", "").removesuffix("kB").strip()
    return int(kibibytes) * 1024 if kibibytes.isdigit() else None
