"""Parts of the compiler that can be left out of a run, each with how to do that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.trials import CompilerPartKind
from graphdoctor.trials.program import RunChange

INDUCTOR = "inductor"
DECOMPOSED = "aot_eager_decomp_partition"


@dataclass(frozen=True)
class Switch:
    """One part that can be left out.

    Args:
        name: The part, after "without": ``fusion``.
        spec: Fields of the run's ``spec`` that turn it off.
        kind: Kind of parts that have names; None for others.
        part: The one with this name; None for all of the kind.
    """

    name: str
    lines: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict, hash=False)
    kind: CompilerPartKind | None = None
    part: str | None = None


def _config(name: str, *settings: str) -> Switch:
    return Switch(
        name,
        ("import torch._inductor.config", *(f"torch._inductor.config.{line}" for line in settings)),
    )


RANDOM = _config("random numbers of its own", "fallback_random = True")
"""Inductor's kernels draw random numbers of their own; eager mode's kernels can do it, too."""

FUSION = _config("fusion", "max_fusion_size = 1", "epilogue_fusion = False")

_OF_KERNELS = (
    _config("vectorization", "cpp.simdlen = 1"),
    _config("reuse of memory", "allow_buffer_reuse = False", "inplace_buffers = False"),
    _config(
        "its choice of layouts", "layout_optimization = False", "comprehensive_padding = False"
    ),
    _config("higher precision between operations", "emulate_precision_casts = True"),
    _config("splitting of reductions", "split_reductions = False"),
)
_OF_STAGE: Mapping[str, tuple[Switch, ...]] = {
    DECOMPOSED: (
        RANDOM,
        Switch(
            "common subexpression elimination",
            ("import torch._functorch.config", "torch._functorch.config.cse = False"),
        ),
    ),
    # What concerns kernels concerns those of ATen, too: some reuse memory.
    INDUCTOR: (
        *_OF_KERNELS,
        FUSION,
        _config("its pattern matcher", "pattern_matcher = False"),
        RANDOM,
    ),
}
"""Settings of ``torch/_inductor/config.py`` and ``torch/_functorch/config.py``, 2.11 to 2.15."""

_KINDS: Mapping[CompilerPartKind, tuple[str, str]] = {
    "pass": ("passes over its graphs", "the pass {}"),
    "decomposition": ("decompositions", "the decomposition of {}"),
    "lowering": ("lowerings", "the lowering of {}"),
}
"""All parts of a kind, and one of them, in words."""


_WITHOUT: Mapping[CompilerPartKind, tuple[str, str]] = {
    "decomposition": (
        "import torch._inductor.decomposition",
        "torch._inductor.decomposition.decompositions.pop(torch.ops.{}, None)",
    ),
    "lowering": (
        "import torch._inductor.lowering",
        "torch._inductor.lowering.make_fallback(torch.ops.{}, override_decomp=True)",
    ),
}
"""Lines that leave out one of them."""


def all_of(kind: CompilerPartKind) -> Switch:
    """All parts of a kind."""
    return Switch(_KINDS[kind][0], kind=kind)


def switches_of(stage: str, spec: RunSpec) -> tuple[Switch, ...]:
    """What can be left out of a stage, apart from lowerings."""
    kinds: tuple[CompilerPartKind, ...] = (
        ("pass", "decomposition") if stage == INDUCTOR else ("decomposition",)
    )
    named_parts = tuple(all_of(kind) for kind in kinds) if stage in _OF_STAGE else ()
    return (*_OF_STAGE.get(stage, ()), *_of_arguments(stage, spec), *named_parts)


def kernel_switches(stage: str, spec: RunSpec) -> tuple[Switch, ...]:
    """What of that can matter if a stage is right without lowerings; not fusion, which takes
    longest to do without.
    """
    return (*_OF_KERNELS, *_of_arguments(stage, spec))


def _of_arguments(stage: str, spec: RunSpec) -> tuple[Switch, ...]:
    is_own = stage == spec.backend
    found = {
        Switch(f"mode {spec.mode!r}", spec={"mode": None}): is_own
        and spec.mode not in (None, "default"),
        Switch("its options", spec={"options": {}}): is_own and bool(spec.options),
        Switch("dynamic shapes", spec={"dynamic": False}): spec.dynamic is not False,
        Switch("fullgraph", spec={"fullgraph": False}): spec.fullgraph,
    }
    return tuple(switch for switch, is_used in found.items() if is_used)


def named(kind: CompilerPartKind, part: str) -> Switch:
    """One part with a name."""
    return Switch(_KINDS[kind][1].format(part), kind=kind, part=part)


def change_of(switches: Iterable[Switch]) -> RunChange:
    """The change of a run that leaves parts out; the compiler reports which parts it uses."""
    chosen = tuple(switches)
    without: dict[CompilerPartKind, tuple[str, ...] | None] = {}
    for switch in chosen:
        if switch.kind is not None and switch.part is None:
            without[switch.kind] = None
        elif switch.kind is not None and (names := without.get(switch.kind, ())) is not None:
            without[switch.kind] = (*names, str(switch.part))
    return RunChange(
        setup=tuple(dict.fromkeys(line for switch in chosen for line in switch.lines)),
        without=without,
    )


def spec_of(switches: Iterable[Switch]) -> dict[str, Any]:
    """Fields of the run's ``spec`` that leave parts out."""
    return {name: value for switch in switches for name, value in switch.spec.items()}


def lines_of(switches: Iterable[Switch]) -> tuple[str, ...] | None:
    """Lines that a person can write to do without parts; None if one of them has none."""
    chosen = tuple(switches)
    if any(switch.kind is not None and switch.part is None for switch in chosen):
        return None
    found = dict.fromkeys(line for switch in chosen for line in switch.lines)
    for kind, lines in _WITHOUT.items():
        found |= dict.fromkeys(
            line.format(one.part) for one in chosen if one.kind == kind for line in lines
        )
    if passes := [str(switch.part) for switch in chosen if switch.kind == "pass"]:
        setting = f"torch._inductor.config.disabled_passes = {','.join(passes)!r}"
        found |= dict.fromkeys(("import torch._inductor.config", setting))
    return tuple(found)
