"""What the probe and the other rooms agree on: file names, the format number, each event and each artifact.

The one module of the probe that other rooms may import, and the one that knows nothing but the standard library. The
probe writes what stands here, ``trace`` reads it, ``bundle`` redacts it; none of them reads a sentence of another.
"""

from __future__ import annotations

from typing import Literal

FORMAT = 1
"""Of ``recording.json``: a recording with another number is refused."""

REQUEST_FILE = "request.json"
META_FILE = "recording.json"
EVENTS_FILE = "probe.jsonl"
CRASH_FILE = "crash.txt"
WHAT_IF_FILE = "what-if.json"
FIXES_FILE = "fixes.json"
TRACE_FOLDER = "trace"

ARTIFACT_PREFIX = "graphdoctor_"
"""What the names of our records in torch's trace log begin with."""

GapKind = Literal[
    "coverage",
    "guard_cost",
    "guards",
    "steady_time",
    "lanes",
    "variations",
    "stacks",
    "config",
    "records_lost",
    "unrecorded_compile",
    "log_damage",
    "log_cut",
    "unreadable_record",
    "foreign_log",
    "unfinished_compile",
    "compile_disabled",
    "nothing_compiled",
    "not_put_back",
    "missing_torch_name",
    "script",
]
"""What a recording lacks, for whoever decides by it; its ``message`` is for people alone."""
