"""torch's settings under which a cause does not break: whoever names one in the project may have switched it on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from graphdoctor.model.diagnosis import Finding

_LOGGING = ("reorderable_logging_functions", "ignore_logging_functions")
_BY_CODE: dict[str, tuple[str, ...]] = {
    "GD101": _LOGGING,
    "GD103": ("capture_scalar_outputs",),
    "GD104": ("capture_dynamic_output_shape_ops",),
    "GD112": ("trace_autograd_ops",),
    "GD115": ("graph_break_on_nn_param_ctor",),
    "GD116": ("allow_rnn",),
    "GD205": ("allow_unspec_int_on_nn_module",),
}
"""Names in ``torch/_dynamo/config.py``, 2.13, by the code that they can silence."""
_MAX_FILES = 20_000
_LEFT_OUT = frozenset(("node_modules", "site-packages", "build", "dist", "__pycache__"))


def switches_for(codes: Iterable[str]) -> frozenset[str]:
    """The settings that can silence findings of these codes."""
    return frozenset(name for code in codes for name in _BY_CODE.get(code, ()))


def is_silenced(finding: Finding, found: frozenset[str]) -> bool:
    """Whether one of the settings found can silence a finding."""
    return not found.isdisjoint(_BY_CODE.get(finding.code, ()))


def switches_in(root: Path, wanted: frozenset[str]) -> frozenset[str]:
    """Which settings any Python file below a folder names; hidden folders and environments are left out."""
    found: set[str] = set()
    for count, path in enumerate(_python_files(root)):
        if count >= _MAX_FILES or found == wanted:
            break
        try:
            content = path.read_bytes()
        except OSError:
            continue
        found |= {name for name in wanted - found if name.encode() in content}
    return frozenset(found)


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _LEFT_OUT)
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)
