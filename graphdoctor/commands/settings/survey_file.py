"""``survey.toml``: a list of targets, the variants to compile them in, and what to measure.

Comes in: a file. Goes out: a ``SurveyFile``, every value checked; what its patterns and libraries stand for is found
out later.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from graphdoctor.commands.settings.targets import RUN_FIELDS, checked_setting
from graphdoctor.commands.settings.values import Values, unknown
from graphdoctor.errors import GraphDoctorError

_NOT_SHARED = ("target", "inputs")
"""Fields of a run that are a target's own."""


@dataclass(frozen=True)
class ListedTargets:
    """One entry of the list: a target, a pattern of files, or a library.

    Args:
        target: The target's text; None unless it is one.
        pattern: A pattern of files, such as ``models/*.py``.
        library: A library that graphdoctor has a catalog of, such as ``transformers``.
        name: What a target is called; None for its text.
        family: The group that all of them belong to; None for the catalog's own, or none.
        only: Of a library, patterns of the names to take; empty for all.
        exclude: Of a library or a pattern, patterns of the names to leave out.
        python: The interpreter to run them with; None for the survey's.
        run: Fields of a run with other values than the survey's.
    """

    target: str | None = None
    pattern: str | None = None
    library: str | None = None
    name: str | None = None
    family: str | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    python: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ListedVariant:
    """One way to compile all of them.

    Args:
        name: Its name; None for one made of its settings.
        python: The interpreter to run it with; None for the target's or the survey's.
        run: Fields of a run with other values than the target's.
    """

    name: str | None = None
    python: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Nodes:
    """What a Ray cluster's nodes need for the work.

    Args:
        working_dir: A folder to send there; None where they share a file system.
        pip: Packages to install there.
        env_vars: Environment variables to set there.
        py_modules: Folders of packages to send there.
    """

    working_dir: str | None = None
    pip: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = field(default_factory=dict)
    py_modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class SurveyOptions:
    """What is measured, and within which limits; None is what the command line or the default says.

    Args:
        bench: Measure each piece beside eager mode.
        export: Export each target.
        fix: Try fixes of each piece's first finding.
        timeout: Seconds until a piece is stopped.
        memory: GiB of memory above which a process of a piece is stopped.
        retries: How often a piece that failed is run again.
        jobs: How many pieces run side by side.
        cpus: How many cores a piece has for itself.
        gpus: How many GPUs a piece has for itself.
        pages: Write a page for each piece.
    """

    bench: bool | None = None
    export: bool | None = None
    fix: bool | None = None
    timeout: float | None = None
    memory: float | None = None
    retries: int | None = None
    jobs: int | None = None
    cpus: int | None = None
    gpus: int | None = None
    pages: bool | None = None


@dataclass(frozen=True)
class SurveyFile:
    """A whole list.

    Args:
        path: The file.
        name: The survey's name.
        options: What is measured.
        python: The interpreter to run everything with; None for ours.
        run: Fields of a run that all targets share.
        targets: The entries of the list, in order.
        variants: The variants, in order; empty for the one that ``run`` says.
        nodes: What a cluster's nodes need.
    """

    path: Path
    name: str
    options: SurveyOptions = SurveyOptions()
    python: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[ListedTargets, ...] = ()
    variants: tuple[ListedVariant, ...] = ()
    nodes: Nodes = Nodes()


_SHARED = tuple(name for name in RUN_FIELDS if name not in _NOT_SHARED)
_OPTIONS = tuple(each.name for each in fields(SurveyOptions))
_LIST = ("name", "python", "run", "targets", "variants", "nodes", *_OPTIONS)
_KINDS = ("target", "glob", "from")
_ENTRY = (*_KINDS, "name", "family", "only", "exclude", "python", *(name for name in RUN_FIELDS if name != "target"))
_VARIANT = ("name", "python", *_SHARED)
_NODES = tuple(each.name for each in fields(Nodes))


def read_survey_file(path: Path) -> SurveyFile:
    """Read a list.

    Args:
        path: The file.

    Raises:
        GraphDoctorError: It can't be read, a key is unknown, a value is wrong, or there is nothing in it.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GraphDoctorError(f"{path} isn't valid TOML: {error}.") from error
    where = f"{path}: "
    table = _known(document, _LIST, where)
    values = Values(where)
    targets = _tables(table.get("targets", []), "targets", where)
    if not targets:
        raise GraphDoctorError(
            f"{path} has no targets.",
            hint='Write [[targets]], and below it target = "model.py", glob = "models/*.py" or from = "transformers".',
        )
    run = table.get("run", {})
    if not isinstance(run, dict):
        raise GraphDoctorError(f"{where}run must be a table of settings that all targets share.")
    return SurveyFile(
        path=path,
        name=values.text("name", table.get("name", path.stem)),
        options=SurveyOptions(**{name: _option(name, table[name], values) for name in _OPTIONS if name in table}),
        python=values.text("python", table["python"]) if "python" in table else None,
        run=_run(_known(run, _SHARED, f"{where}run: "), Values(f"{where}run: ")),
        targets=tuple(_entry(one, f"{where}target {number}: ") for number, one in enumerate(targets, start=1)),
        variants=tuple(
            _variant(one, f"{where}variant {number}: ")
            for number, one in enumerate(_tables(table.get("variants", []), "variants", where), start=1)
        ),
        nodes=_nodes(table.get("nodes", {}), where),
    )


def _known(table: Mapping[str, object], names: tuple[str, ...], where: str) -> dict[str, object]:
    """A table with the names that its keys stand for, all of them known."""
    found = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in names:
            raise unknown(where, "setting", key, names)
        found[name] = value
    return found


def _tables(value: object, name: str, where: str) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise GraphDoctorError(f"{where}{name} must be a list of tables.", hint=f"Write [[{name}]].")
    return value


def _option(name: str, value: object, values: Values) -> Any:  # noqa: ANN401 - the field's own type
    match name:
        case "timeout":
            return values.seconds(name, value)
        case "memory":
            return values.positive(name, value)
        case "retries" | "gpus":
            return values.count(name, value, least=0)
        case "jobs" | "cpus":
            return values.count(name, value, least=1)
        case _:
            return values.switch(name, value)


def _run(table: Mapping[str, object], values: Values) -> dict[str, Any]:
    return {name: checked_setting(name, value, values) for name, value in table.items()}


def _entry(table: Mapping[str, object], where: str) -> ListedTargets:
    found = _known(table, _ENTRY, where)
    kinds = [kind for kind in _KINDS if kind in found]
    if len(kinds) != 1:
        raise GraphDoctorError(
            f"{where}it needs one of target, glob and from, not {' and '.join(kinds) or 'none of them'}.",
            hint='Write target = "model.py", glob = "models/*.py" or from = "transformers".',
        )
    (kind,) = kinds
    values = Values(where)
    for name, fit in (("name", "target"), ("only", "from"), ("inputs", "target")):
        if name in found and kind != fit:
            raise GraphDoctorError(f"{where}{name} goes with {fit} only.")
    if "exclude" in found and kind == "target":
        raise GraphDoctorError(f"{where}exclude goes with glob and from only.")
    readers: dict[str, Callable[[str, object], Any]] = {
        "name": values.text,
        "family": values.text,
        "only": values.texts,
        "exclude": values.texts,
        "python": values.text,
    }
    own: dict[str, Any] = {name: read(name, found.pop(name)) for name, read in readers.items() if name in found}
    text = values.text(kind, found.pop(kind))
    own[{"target": "target", "glob": "pattern", "from": "library"}[kind]] = text
    return ListedTargets(**own, run=_run(found, values))


def _variant(table: Mapping[str, object], where: str) -> ListedVariant:
    found = _known(table, _VARIANT, where)
    values = Values(where)
    own = {name: values.text(name, found.pop(name)) for name in ("name", "python") if name in found}
    return ListedVariant(**own, run=_run(found, values))


def _nodes(value: object, where: str) -> Nodes:
    where = f"{where}nodes: "
    if not isinstance(value, dict):
        raise GraphDoctorError(f"{where}it must be a table.", hint='Write [nodes], and below it working-dir = ".".')
    found, values = _known(value, _NODES, where), Values(where)
    readers: dict[str, Callable[[str, object], Any]] = {
        "working_dir": values.text,
        "pip": values.texts,
        "env_vars": values.strings,
        "py_modules": values.texts,
    }
    return Nodes(**{name: readers[name](name, one) for name, one in found.items()})
