"""What the probe and the other rooms agree on: file names, the format number, each event and each artifact.

The one module of the probe that other rooms may import, and the one that knows nothing but the standard library. The
probe writes what stands here, ``trace`` reads it, ``bundle`` redacts it; none of them reads a sentence of another.
"""

from __future__ import annotations

from typing import Literal

from .file_names import CRASH_FILE as CRASH_FILE
from .file_names import EVENTS_FILE as EVENTS_FILE
from .file_names import FIXES_FILE as FIXES_FILE
from .file_names import META_FILE as META_FILE
from .file_names import REQUEST_FILE as REQUEST_FILE
from .file_names import TRACE_FOLDER as TRACE_FOLDER
from .file_names import WHAT_IF_FILE as WHAT_IF_FILE

FORMAT = 1
"""Of ``recording.json``: a recording with another number is refused."""

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
    "recorder_not_loaded",
    "records_lost",
    "unrecorded_compile",
    "log_damage",
    "log_cut",
    "unreadable_record",
    "foreign_log",
    "several_processes",
    "dynamo_reset",
    "unfinished_compile",
    "compile_disabled",
    "nothing_compiled",
    "not_put_back",
    "missing_torch_name",
    "script",
]
"""What a recording lacks, for whoever decides by it; its ``message`` is for people alone."""

INPUTS_FROM_OPTIONS = "the run's options"
INPUTS_NOT_NEEDED = "no arguments needed"
"""Two values of a target's ``inputs_from``; the others name what the program has, such as ``example_inputs()``."""

HintCode = Literal[
    "no_inputs",
    "unusable_input",
    "unusable_device",
    "mode_and_options",
    "refused_compile_arguments",
    "unknown_config",
    "config_type",
    "no_gradient",
    "timeout",
    "script_timeout",
    "no_torch",
    "unusable_python",
]
"""What ended a run, where its words name options: ``graphdoctor/model/hints.py`` has those of each surface."""

HintValue = str | int | float | bool | list[str] | None

HINT_VALUES: dict[HintCode, tuple[str, ...]] = {
    "no_inputs": ("callable", "looked_for"),
    "unusable_input": ("input", "error"),
    "unusable_device": ("device", "error"),
    "mode_and_options": (),
    "refused_compile_arguments": ("error",),
    "unknown_config": ("name", "near"),
    "config_type": ("name", "value", "type", "default"),
    "no_gradient": (),
    "timeout": ("timeout_s", "phase"),
    "script_timeout": ("timeout_s",),
    "no_torch": ("python", "error"),
    "unusable_python": ("python", "status"),
}
"""The names of the values that come with each code."""
