"""``[[tool.graphdoctor.targets]]``: the gate's targets, each with its calls, compile arguments and budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from graphdoctor.commands.settings.values import Values, unknown
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec


@dataclass(frozen=True)
class GateTarget:
    """One of the gate's targets; in pyproject.toml the names have hyphens.

    Args:
        spec: What to compile and how to call it.
        name: What people call it; the target's text unless a name is given.
        folder: The folder to run it in, which its paths are relative to; None for the project's.
        python: The interpreter to run it with; None for ours.
        timeout: Seconds until it's stopped; None for the project's setting.
        max_breaks: The most break sites; None for no budget, as for the next three.
        max_recompiles: The most recompiles.
        max_graphs: The most graphs.
        min_coverage: The lowest coverage, a share from 0 to 1.
        fail_on: Replaces the project's setting.
        select: Replaces the project's setting; None keeps it.
        ignore: Replaces the project's setting; None keeps it.
    """

    spec: RunSpec
    name: str
    folder: Path | None = None
    python: str | None = None
    timeout: float | None = None
    max_breaks: int | None = None
    max_recompiles: int | None = None
    max_graphs: int | None = None
    min_coverage: float | None = None
    fail_on: Literal["error", "warning", "info", "never"] | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None

    @property
    def target(self) -> str:
        """The target's text, such as ``model.py:Net``."""
        return self.spec.target


RUN_FIELDS = tuple(found.name for found in fields(RunSpec))
"""What a target says of its run."""

_KNOWN = [*RUN_FIELDS, *(found.name for found in fields(GateTarget) if found.name not in ("spec", "folder"))]


def read_targets(path: Path, value: object) -> tuple[GateTarget, ...]:
    """The targets of a pyproject.toml, in order.

    Args:
        path: The file.
        value: What ``tool.graphdoctor.targets`` holds.

    Raises:
        GraphDoctorError: A key is unknown, a value is wrong, a target has no text, or two targets share a name.
    """
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise GraphDoctorError(
            f"{path}: targets must be a list of tables.",
            hint='Write [[tool.graphdoctor.targets]], and below it target = "model.py".',
        )
    targets: dict[str, GateTarget] = {}
    for number, table in enumerate(value, start=1):
        found = _target(path, number, table)
        if found.name in targets:
            raise GraphDoctorError(
                f"{path}: two targets are named {found.name!r}.", hint="Give each target its own name = …"
            )
        targets[found.name] = found
    return tuple(targets.values())


def _target(path: Path, number: int, table: Mapping[str, object]) -> GateTarget:
    called = table.get("name", table.get("target"))
    where = f"{path}: target {called!r}: " if isinstance(called, str) else f"{path}: target {number}: "
    values = Values(where)
    checked: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _KNOWN:
            raise unknown(where, "setting", key, _KNOWN)
        checked[name] = checked_setting(name, value, values)
    if "target" not in checked:
        raise GraphDoctorError(
            f"{where}target is missing.",
            hint='Say what to compile: target = "model.py" or target = "package.module:name".',
        )
    spec = RunSpec(**{name: checked.pop(name) for name in RUN_FIELDS if name in checked})
    return GateTarget(spec, **{"name": spec.target, **checked})


def checked_setting(name: str, value: object, values: Values) -> Any:  # noqa: ANN401 - the field's own type
    """A target's setting with its type.

    Args:
        name: The field of ``RunSpec`` or ``GateTarget``.
        value: Its value.
        values: Checks it.

    Raises:
        GraphDoctorError: It is of another type.
    """
    match name:
        case "inputs" | "select" | "ignore":
            return values.texts(name, value)
        case "dtype":
            return values.dtype(name, value)
        case "calls" | "batch":
            return values.count(name, value, least=1)
        case "seed" | "max_breaks" | "max_recompiles" | "max_graphs":
            return values.count(name, value, least=0)
        case "dynamic" | "fullgraph" | "regional" | "backward" | "train" | "no_grad":
            return values.switch(name, value)
        case "options" | "config":
            return values.plain_table(name, value)
        case "timeout":
            return values.seconds(name, value)
        case "min_coverage":
            return values.share(name, value)
        case "fail_on":
            return values.severity(name, value)
        case _:
            return values.text(name, value)
