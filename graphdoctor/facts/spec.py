"""What a run is asked to do, declared once. Standard library only, so that parsing a command line stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Literal, get_args

StageName = Literal["dynamo", "joint", "forward", "backward", "inference", "post-grad", "fusion"]
"""A stage of compiling a graph. ``dynamo``: as Dynamo captured it; ``joint``: as AOTAutograd traced it with its
backward, decomposed where the backend asks for that; ``forward`` and ``backward``: the two that AOTAutograd cut it
into; ``inference``: as AOTAutograd traced it without a backward; ``post-grad``: after Inductor's own passes, as it
lowers it; ``fusion``: the kernels that it made, and the code that runs them."""

STAGES: tuple[StageName, ...] = get_args(StageName)
"""In the order in which torch makes them."""


DTYPES: Mapping[str, str] = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
}
"""The dtypes that a run can have, torch's name by its abbreviation."""


class Timing(StrEnum):
    """What is timed of the fixes that work."""

    final = "final"
    """The program with all of them; single ones only where a verdict depends on it."""
    each = "each"
    """Each of them, too."""
    none = "none"
    """Nothing."""


@dataclass(frozen=True, kw_only=True)
class CallSpec:
    """How to compile a callable and how to call it, whatever the callable and its arguments are.

    Args:
        calls: How many rounds of the calls to make.
        backend: A registered backend's name.
        mode: ``torch.compile``'s mode.
        dynamic: ``torch.compile``'s dynamic.
        fullgraph: ``torch.compile``'s fullgraph.
        options: ``torch.compile``'s options.
        regional: Compile each of the modules that repeat, not the whole.
        backward: Sum the floating-point outputs and run backward.
        no_grad: Call under ``torch.no_grad()``.
    """

    calls: int = 1
    backend: str = "eager"
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    regional: bool = False
    backward: bool = False
    no_grad: bool = False

    def compile_arguments(self) -> dict[str, object]:
        """What ``torch.compile`` is given: ``TargetInfo.compile_arguments``."""
        return {
            "backend": self.backend,
            "mode": self.mode,
            "dynamic": self.dynamic,
            "fullgraph": self.fullgraph,
            "options": dict(self.options),
        }


@dataclass(frozen=True, kw_only=True)
class RunSpec(CallSpec):
    """What to compile, how, and how to call it.

    The command line, ``[[tool.graphdoctor.targets]]``, the API and a recording all hold one of these.

    Args:
        target: The target's text, such as ``model.py:Net``.
        inputs: One argument of the call each, as ``--input`` takes them; empty where the program brings its own.
        config: torch config values to set, by dotted name.
        train: Train or eval mode, or None to leave it.
        seed: Seed of every random generator.
        device: Where to move the model and the inputs, or None to leave them.
        dtype: What to convert their floating-point tensors to, by torch's name, or None to leave them.
        batch: The batch size of all calls, at least 1, or None for the calls' own.
    """

    target: str = ""
    inputs: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    train: bool | None = None
    seed: int = 0
    device: str | None = None
    dtype: str | None = None
    batch: int | None = None

    @classmethod
    def of(cls, calls: CallSpec, *, target: str) -> RunSpec:
        """The run that makes these calls of a target."""
        return cls(target=target, **{known.name: getattr(calls, known.name) for known in fields(CallSpec)})

    def call_options(self) -> dict[str, object]:
        """How calls are made: ``TargetInfo.call_options``."""
        return {
            "calls": self.calls,
            "backward": self.backward,
            "train": self.train,
            "no_grad": self.no_grad,
            "seed": self.seed,
            "device": self.device,
            "dtype": self.dtype,
            "batch": self.batch,
        }
