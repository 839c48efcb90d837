"""The end of a run, and a torch setting as data. Requests for runs are in ``spec``."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact

HintCode = Literal[
    "no_inputs",
    "unusable_input",
    "unusable_device",
    "unusable_dtype",
    "no_batch",
    "unusable_batch",
    "changed_call",
    "mode_and_options",
    "ignored_mode",
    "refused_compile_arguments",
    "unknown_package",
    "unknown_argument",
    "unknown_config",
    "config_type",
    "no_gradient",
    "no_blocks",
    "timeout",
    "script_timeout",
    "no_torch",
    "unusable_python",
]
"""Cause of the end of a run, where its words name options: ``views/exit_words.py`` has those of
each surface."""

HintValue = str | int | float | bool | list[str] | None

Phase = Literal[
    "importing torch",
    "importing the library",
    "listing its architectures",
    "looking for a small configuration",
    "importing the target",
    "making the target",
    "keeping the state of the target",
    "looking for what can be varied",
    "repeating the unchanged call",
    "profiling the steady call",
    "measuring coverage",
    "measuring guard checks",
    "profiling kernels",
    "measuring what the device reaches",
    "measuring memory",
    "warming up",
    "repeating the last call",
    "making the calls",
    "exporting the target",
    "timing the last call",
    "comparing results",
    "trying other inputs",
]
"""Activity of the probe, other than with a call of its number."""

CallPhase = Literal[
    "call {index}",
    "making the inputs of call {index}",
    "profiling call {index}",
    "trying call {index} without torch.compile",
]
"""Activity of the probe in a call."""

PhaseKind = Phase | CallPhase | Literal["variation"]
"""Kind of phase, whatever its number and its step."""

_PUBLIC = frozenset(
    {
        "accumulated_recompile_limit",
        "allow_unspec_int_on_nn_module",
        "capture_dynamic_output_shape_ops",
        "capture_scalar_outputs",
        "recompile_limit",
        "reorderable_logging_functions",
    }
)
"""Settings of ``torch._dynamo.config`` that ``torch.compiler.config`` has too
(``torch/compiler/config.py``, 2.13)."""


class Setting(Fact):
    """A torch setting to write, as data: ``name = value``, or ``name.add(member)`` for a setting
    that is a set.
    """

    name: str
    """Dotted name, such as ``torch._dynamo.config.capture_scalar_outputs``."""
    value: bool | int | float | str | None = None
    """The value to assign; None if ``member`` is added."""
    member: str | None = None
    """A Python expression to add to the set, such as ``logging.Logger.info``; None for a plain
    value."""
    imports: tuple[str, ...] = ()
    """Modules that ``member`` needs, such as ``logging``."""

    @property
    def drops_output(self) -> bool:
        """Return whether the compiled program prints or logs less with it."""
        return self.name == "torch._dynamo.config.ignore_logging_functions"

    @property
    def line(self) -> str:
        """The line of Python that applies the setting, by its public name if it has one, without
        its imports.
        """
        module, _, name = self.name.rpartition(".")
        is_public = module == "torch._dynamo.config" and name in _PUBLIC
        shown = f"torch.compiler.config.{name}" if is_public else self.name
        return f"{shown} = {self.value!r}" if self.member is None else f"{shown}.add({self.member})"

    @property
    def code(self) -> str:
        """The line with its imports above it."""
        return "\n".join((*(f"import {module}" for module in self.imports), self.line))


class ProbeExit(Fact):
    """End of the child process."""

    status: int | None
    """Exit status; negative for a signal; None when unknown."""
    phase: shared.PhaseText | None = None
    """Its last activity, such as ``call 2``."""
    reason: (
        Literal[
            "finished", "error", "exited", "timeout", "killed", "interrupted", "running", "lost"
        ]
        | None
    ) = None
    """``error``: the target failed; ``exited``: the program ended the process itself; ``running``:
    it hasn't ended; ``lost``: graphdoctor was stopped before it could write how it ended. None for
    a log of others."""
    phase_kind: PhaseKind | None = None
    """Kind of that phase, whatever its number; None if it is unknown, and in recordings of 0.1."""
    stopped_for: Literal["timeout", "memory"] | None = None
    """The limit at which graphdoctor stopped it; None if it ended otherwise."""
    message: str | None = None
    """One sentence for people, with options named as on the command line."""
    hint: str | None = None
    """Next step, with options named as on the command line."""
    hint_code: HintCode | None = None
    """Code for ``message`` and ``hint``, for another surface to word; None where they are the same
    on every surface."""
    hint_values: dict[shared.HintName, HintValue] = field(default_factory=dict)
    """Values that belong to ``hint_code``, such as the device that can't be used."""
    error_type: shared.ExceptionType | None = None
    """Type of the exception that ended the run, such as ``ValueError``; None if none did, and in
    recordings of 0.1."""
    traceback: shared.Traceback | None = None
    """The program's own traceback, when it failed outside a call."""
    duration_s: float | None = None
    """Seconds from the start of the process to its end; None for a script and for a log of
    others."""
    peak_memory_bytes: int | None = None
    """Most memory that the process had resident; None when it did not finish."""
