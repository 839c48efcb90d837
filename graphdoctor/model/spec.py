"""What a run is asked to do, declared once. Standard library only, so that parsing a command line stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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

    def compile_arguments(self) -> dict[str, object]:
        """What ``torch.compile`` is given: ``TargetInfo.compile_arguments``."""
        return {
            "backend": self.backend,
            "mode": self.mode,
            "dynamic": self.dynamic,
            "fullgraph": self.fullgraph,
            "options": dict(self.options),
        }

    def call_options(self) -> dict[str, object]:
        """How calls are made: ``TargetInfo.call_options``."""
        return {
            "calls": self.calls,
            "backward": self.backward,
            "train": self.train,
            "no_grad": self.no_grad,
            "seed": self.seed,
            "device": self.device,
        }
