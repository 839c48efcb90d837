"""What a run is: what it is asked to do, declared once; how it ended; what it could not tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphdoctor.model.base import Fact


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What to compile, how, and how to call it.

    The command line, ``[[tool.graphdoctor.targets]]``, the API and a recording all hold one of these.

    Args:
        target: The target's text, such as ``model.py:Net``.
        inputs: One argument of the call each, as ``--input`` takes them; empty where the program brings its own.
        calls: How many rounds of the calls to make.
        backend: A registered backend's name.
        mode: ``torch.compile``'s mode.
        dynamic: ``torch.compile``'s dynamic.
        fullgraph: ``torch.compile``'s fullgraph.
        options: ``torch.compile``'s options.
        config: torch config values to set, by dotted name.
        backward: Sum the floating-point outputs and run backward.
        train: Train or eval mode, or None to leave it.
        no_grad: Call under ``torch.no_grad()``.
        seed: Seed of every random generator.
        device: Where to move the model and the inputs, or None to leave them.
    """

    target: str = ""
    inputs: tuple[str, ...] = ()
    calls: int = 1
    backend: str = "eager"
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    backward: bool = False
    train: bool | None = None
    no_grad: bool = False
    seed: int = 0
    device: str | None = None


class Setting(Fact):
    """A torch setting to write, as data: ``name = value``, or ``name.add(member)`` for a setting that is a set."""

    name: str
    """Dotted name, such as ``torch._dynamo.config.capture_scalar_outputs``."""
    value: bool | int | float | str | None = None
    """What to set it to; None where ``member`` is added."""
    member: str | None = None
    """A Python expression to add to the set, such as ``logging.Logger.info``; None for a plain value."""

    @property
    def line(self) -> str:
        """The line of Python that sets it."""
        return f"{self.name} = {self.value!r}" if self.member is None else f"{self.name}.add({self.member})"


class ProbeExit(Fact):
    """How the child process ended."""

    status: int | None
    """Exit status; negative for a signal; None when not known."""
    phase: str | None = None
    """What it was doing last, such as ``call 2``."""
    reason: Literal["finished", "error", "exited", "timeout", "killed", "interrupted"] | None = None
    """``error``: the target failed; ``exited``: the program ended the process itself."""
    message: str | None = None
    """One sentence for people."""
    hint: str | None = None
    """What to do next."""
    traceback: str | None = None
    """The program's own traceback, when it failed outside a call."""
    duration_s: float | None = None
    """Seconds from the start of the process to its end; None for a script and for a log of others."""
    peak_memory_bytes: int | None = None
    """Most memory that the process had resident; None when it did not finish."""
