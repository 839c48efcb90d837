"""Settings: ``[tool.graphdoctor]`` in pyproject.toml, then ``GRAPHDOCTOR_*``, then flags; the last one wins."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from graphdoctor.errors import GraphDoctorError

_TABLE = "graphdoctor"
_PREFIX = "GRAPHDOCTOR_"


@dataclass(frozen=True)
class Settings:
    """What can be set for a project; in pyproject.toml the names have hyphens.

    Args:
        keep_recordings: How many recordings stay in ``.graphdoctor/``.
        own_code: Show findings in the user's own code only.
        select: Code prefixes of the findings to show; empty for all.
        ignore: Code prefixes of the findings to leave out.
        timeout: Seconds until a run is stopped; None for no limit.
        vary_count: How many properties ``recompiles --vary`` varies at most.
        vary_seconds: Seconds after which it begins no other.
    """

    keep_recordings: int = 20
    own_code: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    timeout: float | None = None
    vary_count: int = 60
    vary_seconds: float = 300.0


def load_settings(start: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that hold in a directory.

    Args:
        start: The directory; the nearest pyproject.toml in it or above counts.
        environment: Environment variables; those of the process when None.

    Raises:
        GraphDoctorError: A file cannot be read, a key is unknown, or a value has the wrong type.
    """
    settings = Settings()
    path = next(
        (folder / "pyproject.toml" for folder in (start, *start.parents) if (folder / "pyproject.toml").is_file()),
        None,
    )
    if path is not None:
        table = _table(path)
        settings = _apply(settings, {key.replace("-", "_"): value for key, value in table.items()}, f"{path}: ")
    found = os.environ if environment is None else environment
    values = {
        name.removeprefix(_PREFIX).lower(): _from_text(name, text)
        for name, text in found.items()
        if name.startswith(_PREFIX)
    }
    return _apply(settings, values, _PREFIX + "… in the environment: ")


def _table(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GraphDoctorError(f"{path} cannot be read: {error}.") from error
    tool = document.get("tool", {})
    table = tool.get(_TABLE, {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise GraphDoctorError(f"{path}: tool.{_TABLE} is no table.")
    return table


def _from_text(name: str, text: str) -> object:
    """An environment variable's text as the value its setting takes."""
    key = name.removeprefix(_PREFIX).lower()
    match key:
        case "select" | "ignore":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "own_code":
            spoken = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
            return {**spoken, "off": False, "": False}.get(text.strip().lower(), text)
        case "keep_recordings" | "timeout" | "vary_count" | "vary_seconds":
            try:
                return int(text) if key in ("keep_recordings", "vary_count") else float(text)
            except ValueError:
                raise GraphDoctorError(f"{name}={text!r} is no number.") from None
    return text


def _apply(settings: Settings, values: Mapping[str, object], where: str) -> Settings:
    known = [field.name for field in fields(Settings)]
    for key, value in values.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0].replace('_', '-')}?" if near else "Known: " + ", ".join(known)
            raise GraphDoctorError(f"{where}there is no setting {key.replace('_', '-')!r}.", hint=hint)
        settings = replace(settings, **{key: _checked(key, value, where)})
    return settings


def _checked(key: str, value: object, where: str) -> Any:  # noqa: ANN401 - the field's own type
    wrong = GraphDoctorError(f"{where}{key.replace('_', '-')} = {value!r} has the wrong type or range.")
    match key:
        case "select" | "ignore":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise wrong
            return tuple(value)
        case "own_code":
            if not isinstance(value, bool):
                raise wrong
            return value
        case "keep_recordings" | "vary_count":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise wrong
            return value
        case _:
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
                raise wrong
            return float(value)
