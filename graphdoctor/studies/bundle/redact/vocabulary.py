"""Public words: Python's, and torch's and graphdoctor's own in ``vocabulary.toml``."""

from __future__ import annotations

import builtins
import dis
import keyword
import re
import tomllib
from pathlib import Path

from graphdoctor.trace.guards.forms import STATE_NAMES

LEFT_OUT = "…"
"""Stands for anything that is left out."""

KNOWN = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""Words by what they are, as the file has them."""
_BUILTINS = frozenset(dir(builtins))

PACKAGES = KNOWN["packages"]
FRAMING = KNOWN["framing"] | _BUILTINS | frozenset(dis.opname)
_DUNDERS = (
    name
    for kind in (object, type, int, float, str, list, dict, set, type(lambda: None))
    for name in dir(kind)
    if name.startswith("__")
)
_STATE_WORDS = re.findall(r"[^\W\d]\w*", " ".join(STATE_NAMES))
NAMES = KNOWN["source_words"].union(_BUILTINS, keyword.kwlist, _DUNDERS, _STATE_WORDS)
EXCEPTIONS = KNOWN["exceptions"].union(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
