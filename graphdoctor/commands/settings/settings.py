"""Settings: ``[tool.graphdoctor]`` in pyproject.toml, then ``GRAPHDOCTOR_*``, then flags; the last one wins."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from graphdoctor.commands.settings.values import Values, unknown
from graphdoctor.errors import GraphDoctorError
from graphdoctor.trials.launch.store import Store

if TYPE_CHECKING:
    from graphdoctor.rules.diagnosis.selection import Selection

TABLE = "graphdoctor"
PYPROJECT = "pyproject.toml"
_PREFIX = "GRAPHDOCTOR_"
_TARGETS = "targets"
"""The only key of the table that isn't a setting: ``graphdoctor.commands.settings.targets`` reads it."""


@dataclass(frozen=True)
class Settings:
    """A project's settings; in pyproject.toml their names have hyphens.

    Args:
        recordings: The folder for recordings; None for ``.graphdoctor`` in the working directory.
        keep_recordings: How many recordings to keep, and as many of the gate's.
        own_code: Show only findings in the user's own code.
        select: Code prefixes of the findings to show; empty for all.
        ignore: Code prefixes of the findings to leave out.
        timeout: Seconds until a run is stopped; None for no limit.
        vary_count: The most properties that ``recompiles --vary`` varies.
        vary_seconds: Seconds after which ``recompiles --vary`` starts no further property.
        fail_on: The lowest severity of a new finding that fails ``check``; ``never`` if only budgets do.
        baseline: The gate's baseline file; None for ``graphdoctor-baseline.json`` in the project's folder.
        per_path_ignores: Path patterns, each with the code prefixes that don't count there.
    """

    recordings: Path | None = None
    keep_recordings: int = 20
    own_code: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    timeout: float | None = None
    vary_count: int = 60
    vary_seconds: float = 300.0
    fail_on: Literal["error", "warning", "info", "never"] = "warning"
    baseline: Path | None = None
    per_path_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def store(self) -> Store:
        """Where the working directory's recordings are."""
        return Store(Path.cwd(), keep_count=self.keep_recordings, folder=self.recordings)

    def selection(
        self,
        *,
        select: Sequence[str] | None = None,
        ignore: Sequence[str] | None = None,
        is_own_code_only: bool | None = None,
    ) -> Selection:
        """Which findings to show: what was asked for, else these settings.

        Args:
            select: Code prefixes; None or empty for those of the settings, as for the next.
            ignore: Code prefixes to leave out.
            is_own_code_only: Findings in the user's own code only; None for the setting.

        Raises:
            GraphDoctorError: No rule's code begins with one of the prefixes.
        """
        from graphdoctor.rules.diagnosis.selection import Selection, code_prefixes

        return Selection(
            select=code_prefixes(select or self.select),
            ignore=code_prefixes(ignore or self.ignore),
            is_own_code_only=self.own_code if is_own_code_only is None else is_own_code_only,
        )


def load_settings(start: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that apply in a directory.

    Args:
        start: The directory; the nearest pyproject.toml in it or above it counts.
        environment: Environment variables; None for those of the process.

    Raises:
        GraphDoctorError: A file can't be read, a key is unknown, or a value is wrong.
    """
    path = find_pyproject(start)
    return settings_of(path, read_table(path) if path else {}, start, environment)


def settings_of(
    path: Path | None, table: Mapping[str, object], start: Path, environment: Mapping[str, str] | None
) -> Settings:
    """The settings in a table that was already read.

    Args:
        path: The file that it's from, or None.
        table: ``[tool.graphdoctor]``.
        start: The directory that paths in environment variables are relative to.
        environment: Environment variables; None for those of the process.
    """
    settings = Settings()
    if path is not None:
        values = {key: value for key, value in table.items() if key != _TARGETS}
        settings = _apply(settings, values, f"{path}: ", path.parent)
    found = os.environ if environment is None else environment
    names = {_PREFIX + field.name.upper(): field.name for field in fields(Settings)}
    values = {names[name]: _from_text(name, text) for name, text in found.items() if name in names}
    return _apply(settings, values, _PREFIX + "… in the environment: ", start)


def unknown_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each ``GRAPHDOCTOR_*`` variable that no setting reads, with the nearest name.

    They aren't errors: another version or another tool may read them.

    Args:
        environment: Environment variables; None for those of the process.
    """
    known = [field.name.upper() for field in fields(Settings)]
    found = os.environ if environment is None else environment
    unread = sorted(name.removeprefix(_PREFIX) for name in found if name.startswith(_PREFIX))
    return [f"graphdoctor doesn't read {_PREFIX}{name}.{_near(name, known)}" for name in unread if name not in known]


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.upper(), known, n=1)
    return f" Did you mean {_PREFIX}{near[0]}?" if near else ""


def find_pyproject(start: Path) -> Path | None:
    """The nearest pyproject.toml in a directory or above it, or None."""
    return next((path for folder in (start, *start.parents) if (path := folder / PYPROJECT).is_file()), None)


def read_table(path: Path) -> dict[str, Any]:
    """``[tool.graphdoctor]`` in a pyproject.toml; empty if there is none.

    Raises:
        GraphDoctorError: The file can't be read, or has something else under that name.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GraphDoctorError(f"{path} can't be read: {error}.") from error
    tool = document.get("tool", {})
    table = tool.get(TABLE, {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise GraphDoctorError(f"{path}: tool.{TABLE} must be a table.")
    return table


def _from_text(name: str, text: str) -> object:
    """An environment variable's text as its setting's value."""
    key = name.removeprefix(_PREFIX).lower()
    match key:
        case "select" | "ignore":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "own_code":
            switches = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
            return {**switches, "off": False, "": False}.get(text.strip().lower(), text)
        case "keep_recordings" | "timeout" | "vary_count" | "vary_seconds":
            try:
                return int(text) if key in ("keep_recordings", "vary_count") else float(text)
            except ValueError:
                raise GraphDoctorError(f"{name} must be a number, not {text!r}.") from None
    return text


def _apply(settings: Settings, values: Mapping[str, object], where: str, folder: Path) -> Settings:
    known = [field.name for field in fields(Settings)]
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            raise unknown(where, "setting", key, [*known, _TARGETS])
        settings = replace(settings, **{name: _checked(name, value, Values(where), folder)})
    return settings


def _checked(name: str, value: object, values: Values, folder: Path) -> Any:  # noqa: ANN401 - the field's own type
    match name:
        case "select" | "ignore":
            return values.texts(name, value)
        case "own_code":
            return values.switch(name, value)
        case "keep_recordings" | "vary_count":
            return values.count(name, value, least=1)
        case "fail_on":
            return values.severity(name, value)
        case "baseline" | "recordings":
            return folder / values.text(name, value)
        case "per_path_ignores":
            return values.globs(name, value)
        case _:
            return values.seconds(name, value)
