"""``[tool.graphdoctor]`` in pyproject.toml, then ``GRAPHDOCTOR_*``, then flags: the last one wins.

Comes in: a folder and the environment. Goes out: its ``Settings``, or its ``Project`` with the
gate's targets.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Container, Mapping
from configparser import ConfigParser
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast, get_args

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import BudgetName
from graphdoctor.facts.spec import FailOn, RunSpec, option
from graphdoctor.facts.values import RUN, SWITCH, TEXTS, kinds_of, read_table, tables
from graphdoctor.probe.file_names import WATCH_VARIABLE
from graphdoctor.trials.launch.store import Store
from graphdoctor.wording import near_names

TABLE = "graphdoctor"
PYPROJECT = "pyproject.toml"
BASELINE = "graphdoctor-baseline.json"
_PREFIX = "GRAPHDOCTOR_"
_TARGETS = "targets"
"""The only key of the table that isn't a setting."""

_FAIL_ON = {name: name for name in get_args(FailOn)}


@dataclass(frozen=True)
class Settings:
    """A project's settings."""

    recordings: Path | None = option(
        None, "The folder for recordings; unset for `.graphdoctor` here."
    )
    keep_recordings: int = option(
        20, "Recordings to keep; `check` keeps the same number separately.", least=1
    )
    own_code: bool = option(False, "Show only findings in the user's own code.")
    select: tuple[str, ...] = option((), "Code prefixes of the findings to show; empty for all.")
    ignore: tuple[str, ...] = option((), "Code prefixes of the findings to leave out.")
    timeout: float | None = option(
        None, "Seconds until a run is stopped; unset for no limit.", metavar="SECONDS"
    )
    vary_count: int = option(60, "The most properties that `recompiles --vary` varies.", least=1)
    vary_seconds: float = option(
        300.0,
        "Seconds after which `recompiles --vary` stops starting new properties.",
        metavar="SECONDS",
    )
    fail_on: FailOn = option(
        "warning",
        "The lowest severity of a new finding that fails `check`; `never` if only budgets do.",
        choices=_FAIL_ON,
    )
    baseline: Path | None = option(
        None, f"The gate's baseline file; unset for `{BASELINE}` in the project's folder."
    )
    per_path_ignores: tuple[tuple[str, tuple[str, ...]], ...] = option(
        (), "Path patterns, each with the code prefixes that don't count there."
    )

    @property
    def store(self) -> Store:
        """Recordings of the working directory."""
        return Store(Path.cwd(), keep_count=self.keep_recordings, folder=self.recordings)


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Limits of a target; None for any number."""

    max_breaks: int | None = option(None, "Fail if there are more break sites.", least=0)
    max_recompiles: int | None = option(None, "Fail if there are more recompiles.", least=0)
    max_graphs: int | None = option(None, "Fail if there are more graphs.", least=0)
    min_coverage: float | None = option(
        None, "Fail if a smaller share of operations is compiled, 0 to 1.", least=0, most=1
    )

    @property
    def limits(self) -> dict[BudgetName, float]:
        """The budgets that are set."""
        budgets = {
            budget.name.replace("_", "-"): getattr(self, budget.name) for budget in fields(Budgets)
        }
        return cast(
            "dict[BudgetName, float]",
            {name: limit for name, limit in budgets.items() if limit is not None},
        )


@dataclass(frozen=True)
class GateTarget(Budgets):
    """One of the gate's targets."""

    spec: RunSpec
    name: str = option("", "What people call it; the target's text unless a name is given.")
    folder: Path | None = None
    """The folder to run it in, which its paths are relative to; None for the project's."""
    python: str | None = option(
        None, "The interpreter to run it with; unset for the one that runs graphdoctor."
    )
    timeout: float | None = option(
        None, "Seconds until it's stopped; unset for the project's setting.", metavar="SECONDS"
    )
    fail_on: FailOn | None = option(None, "Replaces the project's setting.", choices=_FAIL_ON)
    select: tuple[str, ...] | None = option(None, "Replaces the project's setting; unset keeps it.")
    ignore: tuple[str, ...] | None = option(None, "Replaces the project's setting; unset keeps it.")

    @property
    def target(self) -> str:
        """The target's text, such as ``model.py:Net``."""
        return self.spec.target


_KINDS = kinds_of(Settings)
_TARGET_KINDS = RUN | {
    name: kind for name, kind in kinds_of(GateTarget).items() if name not in ("spec", "folder")
}


@dataclass(frozen=True)
class Project:
    """One project.

    Args:
        pyproject: The file, or None if there is none.
    """

    root: Path
    pyproject: Path | None
    settings: Settings
    targets: tuple[GateTarget, ...]

    @property
    def baseline(self) -> Path:
        """The path of the baseline file, which may not exist."""
        return self.settings.baseline or self.root / BASELINE


def load_settings(start: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings that apply in a directory."""
    path = find_pyproject(start)
    return _settings_of(path, _section(path), start, environment)


def load_project(start: Path, environment: Mapping[str, str] = os.environ) -> Project:
    """As ``load_settings``, with the gate's targets."""
    path = find_pyproject(start)
    table = _section(path)
    targets = _read_targets(path, table.get(_TARGETS, []))
    return Project(
        path.parent if path else start, path, _settings_of(path, table, start, environment), targets
    )


def project_folder(start: Path) -> Path | None:
    """Return the nearest folder, from a directory up, whose pyproject.toml configures graphdoctor
    or has a baseline.
    """
    path = find_pyproject(start)
    while path is not None:
        if _section(path) or (path.parent / BASELINE).is_file():
            return path.parent
        above = path.parent.parent
        path = find_pyproject(above) if above != path.parent else None
    return None


def repository_of(start: Path) -> Path | None:
    """Return the root of the git repository that a directory is in; None outside any."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def find_pyproject(start: Path) -> Path | None:
    """Return the nearest pyproject.toml in a directory or above it, or None."""
    return next(
        (path for folder in (start, *start.parents) if (path := folder / PYPROJECT).is_file()), None
    )


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a sentence for each ``GRAPHDOCTOR_*`` variable that no setting reads, with the nearest
    name.

    They aren't errors: another version or another tool may read them.
    """
    setting_names = [field.name.upper() for field in fields(Settings)]
    unread = sorted(name.removeprefix(_PREFIX) for name in environment if name.startswith(_PREFIX))
    return [
        f"graphdoctor doesn't read {_PREFIX}{name}.{_near(name, setting_names)}"
        for name in unread
        if name not in setting_names and _PREFIX + name != WATCH_VARIABLE
    ]


def ruling_variables(
    overruled: Container[str], environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return the ``GRAPHDOCTOR_*`` variables that say what fails, as they are set; without those
    that an option overrules.
    """
    names = {_PREFIX + name.upper(): name for name in ("fail_on", "baseline", "select", "ignore")}
    ruling = (key for key, name in names.items() if key in environment and name not in overruled)
    return tuple(f"{key}={environment[key]}" for key in ruling)


def _near(name: str, setting_names: list[str]) -> str:
    near = near_names(name.upper(), setting_names, most=1)
    return f" Did you mean {_PREFIX}{near[0]}?" if near else ""


def _section(path: Path | None) -> dict[str, Any]:
    """``[tool.graphdoctor]``; empty if there is none."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GraphDoctorError(f"{path} can't be read: {error}.") from error
    tool = document.get("tool", {})
    table = tool.get(TABLE, {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise GraphDoctorError(f"{path}: tool.{TABLE} must be a table.")
    return table


def _settings_of(
    path: Path | None, table: Mapping[str, object], start: Path, environment: Mapping[str, str]
) -> Settings:
    settings = {key: value for key, value in table.items() if key != _TARGETS}
    values = _with_paths(read_table(settings, _KINDS, f"{path}: "), path.parent if path else start)
    names = {_PREFIX + name.upper(): name for name in _KINDS}
    from_environment = {
        names[name]: _from_text(name, names[name], text)
        for name, text in environment.items()
        if name in names
    }
    return Settings(
        **values
        | _with_paths(
            read_table(from_environment, _KINDS, f"{_PREFIX}… in the environment: "), start
        )
    )


def _with_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    return values | {
        name: folder / values[name] for name in ("recordings", "baseline") if name in values
    }


def _from_text(variable: str, name: str, text: str) -> object:
    kind = _KINDS[name]
    if kind is TEXTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is SWITCH:
        return {**ConfigParser.BOOLEAN_STATES, "": False}.get(text.strip().lower(), text)
    if kind.number is None:
        return text
    try:
        return kind.number(text)
    except ValueError:
        raise GraphDoctorError(f"{variable} must be a number, not {text!r}.") from None


def _read_targets(path: Path | None, value: object) -> tuple[GateTarget, ...]:
    targets = {}
    for number, table in enumerate(tables(value, f"{path}: ", f"tool.{TABLE}.{_TARGETS}"), start=1):
        target = _target(path, number, table)
        if target.name in targets:
            raise GraphDoctorError(
                f"{path}: two targets are named {target.name!r}.",
                hint="Give each target its own name = …",
            )
        targets[target.name] = target
    return tuple(targets.values())


def _target(path: Path | None, number: int, table: Mapping[str, object]) -> GateTarget:
    called = table.get("name", table.get("target"))
    where = (
        f"{path}: target {called!r}: " if isinstance(called, str) else f"{path}: target {number}: "
    )
    checked = read_table(table, _TARGET_KINDS, where)
    if "target" not in checked:
        raise GraphDoctorError(
            f"{where}target is missing.",
            hint='Say what to compile: target = "model.py" or target = "package.module:name".',
        )
    spec = RunSpec(**{name: checked.pop(name) for name in RUN if name in checked})
    return replace(GateTarget(spec, **checked), name=checked.get("name", spec.target))
