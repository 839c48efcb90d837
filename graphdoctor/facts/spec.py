"""The options of a run and their help, declared once.

The command line, ``[[tool.graphdoctor.targets]]``, the Python API, the probe's request and a
recording's description are derived from ``RunSpec``: ``options_of`` has the words, bounds and
choices, the annotation has the type. Standard library only, so that parsing a command line stays
quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from .base import values_of

StageName = Literal["dynamo", "joint", "forward", "backward", "inference", "post-grad", "fusion"]
"""A stage of compiling a graph. ``dynamo``: as Dynamo captured it; ``joint``: as AOTAutograd traced
it with its backward, decomposed where the backend asks for that; ``forward`` and ``backward``: the
two that AOTAutograd cut it into; ``inference``: as AOTAutograd traced it without a backward;
``post-grad``: after Inductor's own passes, as it lowers it; ``fusion``: the kernels that it made,
and the code that runs them."""

STAGES: tuple[StageName, ...] = get_args(StageName)
"""In the order in which torch makes them."""


DTYPES: Mapping[str, str] = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
}
"""The dtypes that a run can have, torch's name by its abbreviation."""


FailOn = Literal["error", "warning", "info", "never"]
"""The lowest severity of what is new or worse that fails; ``never``: only budgets fail."""


@dataclass(frozen=True, kw_only=True)
class RunOption:
    """The declaration of a field that people set.

    Args:
        help: What it does, a sentence or two.
        flag: How it is written on a command line, as typer takes it; None for ``--`` and the
            field's name.
        metavar: What stands for its value there; None for a switch.
        least: The least number that it can be; None for no bound.
        most: The largest.
        choices: What it can be, by each way of writing that; None for anything.
        goes_to: Whether it is an argument of ``torch.compile`` or says how calls are made; None for
            neither.
        heading: What it stands under in the help of its command; None for where others of its flag
            stand.
    """

    help: str
    flag: str | None = None
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    choices: Mapping[str, str] | None = None
    goes_to: Literal["compile", "call"] | None = None
    heading: str | None = None

    def flags(self, name: str) -> str:
        """Return how a field of this name is written on a command line, as typer takes it."""
        return self.flag or f"--{name.replace('_', '-')}"


def option(default: Any, text: str, **declared: Any) -> Any:  # noqa: ANN401 - a field of any type
    """Declare a dataclass's field that people set; ``declared`` are other fields of its
    ``RunOption``.
    """
    declared = {"option": RunOption(help=text, **declared)}
    return (
        field(default_factory=dict, metadata=declared)
        if default is dict
        else field(default=default, metadata=declared)
    )


@dataclass(frozen=True, kw_only=True)
class CallSpec:
    """Options of compiling and calling, whatever the callable and its arguments are.

    These are what the Python API takes.
    """

    calls: int = option(1, "Make the calls this many times.", metavar="N", least=1, goes_to="call")
    backend: str = option(
        None,
        "A registered backend. A mode or options imply inductor.",
        metavar="NAME",
        goes_to="compile",
    )
    mode: str | None = option(
        None, "torch.compile's mode, such as max-autotune.", metavar="MODE", goes_to="compile"
    )
    dynamic: bool | None = option(
        None, "torch.compile's dynamic.", flag="--dynamic/--no-dynamic", goes_to="compile"
    )
    fullgraph: bool = option(
        False, "torch.compile's fullgraph: a graph break raises an error.", goes_to="compile"
    )
    options: Mapping[str, object] = option(
        dict,
        "One of torch.compile's options, name=value. Repeatable.",
        flag="--option",
        metavar="NAME=VALUE",
        goes_to="compile",
    )
    regional: bool = option(
        False, "Compile each of the modules that repeat, such as layers, and not the whole."
    )
    backward: bool = option(
        False, "Sum the floating-point outputs of each call and run backward.", goes_to="call"
    )
    no_grad: bool = option(False, "Make the calls under torch.no_grad().", goes_to="call")

    def __post_init__(self) -> None:
        """Choose the backend unless one is named."""
        if not self.backend:
            backend = "eager" if self.mode is None and not self.options else "inductor"
            object.__setattr__(self, "backend", backend)

    def compile_arguments(self) -> dict[str, object]:
        """Return the arguments of ``torch.compile``: ``TargetInfo.compile_arguments``."""
        return self._given_to("compile")

    def call_options(self) -> dict[str, object]:
        """Return how calls are made: ``TargetInfo.call_options``."""
        return self._given_to("call")

    def _given_to(self, receiver: str) -> dict[str, object]:
        names = (
            name for name, option in options_of(type(self)).items() if option.goes_to == receiver
        )
        return values_of(self, *names)


@dataclass(frozen=True, kw_only=True)
class RunSpec(CallSpec):
    """A target, how to compile it, and how to call it."""

    target: str = ""
    """Its text, such as ``model.py:Net``."""
    inputs: tuple[str, ...] = option(
        (),
        "One argument of the call: f32[8,128], i64[8], bool[2,2], int:3, float:0.5, bool:true,"
        " str:abc, none, or name=… for a keyword argument. Integers are drawn from {0, 1}."
        " Repeatable.",
        flag="--input",
        metavar="VALUE",
    )
    config: Mapping[str, object] = option(
        dict,
        "Set torch._dynamo.config.name=value, or another torch config. Repeatable.",
        metavar="NAME=VALUE",
    )
    train: bool | None = option(
        None,
        "The module's mode. By default, it stays as it is.",
        flag="--train/--eval",
        goes_to="call",
    )
    seed: int = option(
        0,
        "Seed of Python's, NumPy's and torch's random numbers.",
        metavar="N",
        least=0,
        most=2**64 - 1,
        goes_to="call",
    )
    device: str | None = option(
        None,
        "Move the module and its inputs to this device, such as cuda.",
        metavar="DEVICE",
        goes_to="call",
    )
    dtype: str | None = option(
        None,
        "Convert the module and its inputs to float32, float64, float16 or bfloat16.",
        metavar="DTYPE",
        choices={**{name: name for name in DTYPES.values()}, **DTYPES},
        goes_to="call",
    )
    batch: int | None = option(
        None,
        "Make the calls with this batch size: their tensors are cut or repeated.",
        metavar="N",
        least=1,
        goes_to="call",
    )

    own: tuple[str, ...] = option(
        (),
        "An installed package that is your own code, too, by the name that it's imported or"
        " installed under: fix edits its files. Repeatable.",
        metavar="PACKAGE",
    )

    @classmethod
    def of(cls, calls: CallSpec, *, target: str) -> RunSpec:
        """Return the run that makes these calls of a target."""
        return cls(target=target, **values_of(calls, *(field.name for field in fields(CallSpec))))


def options_of(spec: type[CallSpec]) -> dict[str, RunOption]:
    """Return the fields that people set, by name, in order; the target, which is no option, isn't
    among them.
    """
    return {
        field.name: field.metadata["option"] for field in fields(spec) if "option" in field.metadata
    }
