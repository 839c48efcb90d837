"""The user's state folder: what graphdoctor keeps of a user rather than of a project."""

from __future__ import annotations

import os
from pathlib import Path

STATE_VARIABLE = "XDG_STATE_HOME"


def state_folder() -> Path | None:
    """``$XDG_STATE_HOME/graphdoctor``, by default below ``~/.local/state``; None for a user without a home.

    A relative path doesn't count, as the XDG Base Directory Specification says.
    """
    asked = os.environ.get(STATE_VARIABLE, "")
    try:
        base = Path(asked) if Path(asked).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "graphdoctor"
