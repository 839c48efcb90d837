"""Ways to run a program: from what the user wrote to what a run is asked to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphdoctor.facts.bench import CUDA_GRAPH_BACKEND, EAGER, asks_for_cuda_graphs
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.values import RUN, Kind, read_table
from graphdoctor.trials.launch.request import parse_assignments

DEFAULT = "default"
"""The name of torch.compile without arguments."""

REGIONAL = "regional"

_MODES = ("reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_UNSET: Mapping[str, object] = {
    "backend": "inductor",
    "mode": None,
    "dynamic": None,
    "fullgraph": False,
    "options": {},
}
"""Defaults of torch.compile."""
_KINDS = {name: RUN[name] for name in ("backend", "mode", "fullgraph", REGIONAL)}
_KINDS["dynamic"] = Kind(
    "true, false or None", lambda value: value is None or isinstance(value, bool)
)
_KINDS |= {"option.NAME": RUN["options"], "config.NAME": RUN["config"]}
"""The settings of a variant. Options and settings are read by their prefixes."""
_NEXT = re.compile(r"[,\s]+(?=[A-Za-z_][\w.]*=|regional\b)")
"""Between two parts of a variant; a comma within a value is none."""

_FLAG = "--variant"


@dataclass(frozen=True)
class VariantSpec:
    """One way to run the program. ``changes``: fields of ``RunSpec`` with other values than the
    user's.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    is_eager: bool = False

    def spec(self, base: RunSpec) -> RunSpec:
        """Return the run that it asks for."""
        return replace(base, **self.changes)

    def arguments(self, base: RunSpec) -> dict[str, object]:
        """Return the arguments of torch.compile that aren't its defaults; settings of torch's
        config by dotted name.
        """
        if self.is_eager:
            return {}
        spec = self.spec(base)
        arguments = {
            name: getattr(spec, name)
            for name, unset in _UNSET.items()
            if getattr(spec, name) != unset
        }
        return arguments | {
            name: value for name, value in spec.config.items() if base.config.get(name) != value
        }

    def needs_cuda(self, base: RunSpec) -> bool:
        """Without CUDA it isn't possible, or is the same as another one."""
        return asks_for_cuda_graphs(self.arguments(base))


def variants_of(
    texts: Sequence[str], base: RunSpec, is_all: bool, has_blocks: bool = False
) -> tuple[VariantSpec, ...]:
    """List every way to run it once: eager mode, the user's own, those that were asked for.

    ``texts``: those of ``--variant``; ``is_all``: with every mode; ``has_blocks``: some of its
    modules repeat.

    Raises:
        GraphDoctorError: One can't be read.
    """
    variants = [VariantSpec(name_of(base)), *(parse_variant(text, base) for text in texts)]
    if is_all:
        variants += [
            VariantSpec(f"mode={mode}", {"mode": mode}) for mode in _MODES if base.mode != mode
        ]
        changes: dict[str, Any] = {"backend": CUDA_GRAPH_BACKEND, "mode": None, "options": {}}
        variants.append(VariantSpec(f"backend={CUDA_GRAPH_BACKEND}", changes))
        # Last, because it compiles quicker but seldom runs faster.
        if has_blocks:
            variants.append(VariantSpec(REGIONAL, {REGIONAL: True}))
    distinct: list[VariantSpec] = []
    for variant in variants:
        if variant.spec(base) not in [other.spec(base) for other in distinct]:
            distinct.append(variant)
    return (VariantSpec(EAGER, is_eager=True), *distinct)


def name_of(base: RunSpec) -> str:
    """Name a way to run a program by its arguments."""
    arguments = VariantSpec("").arguments(base)
    parts = [f"{name}={_text(value)}" for name, value in arguments.items() if name != "options"]
    parts += [f"option.{name}={_text(value)}" for name, value in base.options.items()]
    parts += [REGIONAL] if base.regional else []
    return " ".join(parts) or DEFAULT


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_variant(text: str, base: RunSpec) -> VariantSpec:
    """Read a text of ``--variant``.

    Raises:
        GraphDoctorError: It can't be read.
    """
    parts = _NEXT.split(text.strip())
    if parts == [DEFAULT]:
        return VariantSpec(DEFAULT, {**_UNSET, REGIONAL: False, "fullgraph": base.fullgraph})
    assignments = [f"{part}=true" if part == REGIONAL else part for part in parts]
    prefixed: dict[str, dict[str, object]] = {"option": {}, "config": {}}
    fields: dict[str, object] = {}
    for name, value in parse_assignments(assignments, _FLAG).items():
        prefix, _, rest = name.partition(".")
        if rest and prefix in prefixed:
            prefixed[prefix][rest] = value
        else:
            fields[name] = value
    changes = read_table(fields, _KINDS, f"{_FLAG} {text!r}: ")
    if changes.get("backend", base.backend) != base.backend:
        # Mode and options belong to a backend.
        changes = {"mode": None, "options": {}, **changes}
    if options := prefixed["option"]:
        changes["options"] = {**({} if "backend" in changes else base.options), **options}
    if config := prefixed["config"]:
        changes["config"] = {**base.config, **config}
    return VariantSpec(" ".join(parts), changes)
