"""Public words: Python's, and torch's and graphdoctor's own in ``vocabulary.toml``."""

from __future__ import annotations

import builtins
import dis
import keyword
import re
import tomllib
from pathlib import Path

from graphdoctor.facts.record_kinds import TORCH_KINDS
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.trace.guards.state import STATE_NAMES

LEFT_OUT = "…"
"""Stands for anything that is left out."""

_KNOWN = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
_BUILTINS = frozenset(dir(builtins))

PACKAGES, METHODS, GUARD_KINDS = _KNOWN["packages"], _KNOWN["methods"], _KNOWN["guard_kinds"]
BACKENDS, PHASE_WORDS, OPCODES = _KNOWN["backends"], _KNOWN["phase_words"], _KNOWN["opcodes"]
SWITCHES, HINT_NAMES = _KNOWN["switches"], _KNOWN["hint_names"]
FRAMING = _KNOWN["framing"] | _BUILTINS | frozenset(dis.opname)
RECORD_KINDS = TORCH_KINDS | _KNOWN["record_kinds"]
ORIGINS = _KNOWN["origins"] | {INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED}
_STATE_WORDS = frozenset(re.findall(r"[^\W\d]\w*", " ".join(STATE_NAMES)))
NAMES = _BUILTINS | frozenset(keyword.kwlist) | _KNOWN["source_words"] | _STATE_WORDS
DUNDERS = frozenset(
    name
    for kind in (object, type, int, float, str, list, dict, set, type(lambda: None))
    for name in dir(kind)
    if name.startswith("__")
) | {"__enter__", "__exit__", "__next__", "__module__"}
_TYPES = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
EXCEPTIONS = _KNOWN["exceptions"] | {name for name, value in _TYPES.items() if issubclass(value, BaseException)}


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
