"""``survey.toml``: a list of targets, the variants to compile them in, and what to measure, every
value checked.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.executors.executor import Environment
from graphdoctor.facts.spec import option
from graphdoctor.facts.values import RUN, TEXT, TEXTS, Kind, kinds_of, read_table, tables

_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class _Listed:
    """What entries, variants and the whole list can have."""

    name: str | None = None
    python: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ListedTargets(_Listed):
    """One entry of the list: a target, a pattern of files, or a library.

    Args:
        name: What a target is called; None for its text.
        family: The group that all of them belong to; None for the catalog's own, or none.
        only: Of a library, patterns of the names to take; empty for all.
    """

    target: str | None = None
    pattern: str | None = None
    library: str | None = None
    family: str | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedVariant(_Listed):
    """One way to compile all of them; without a name, one is made of its settings."""


@dataclass(frozen=True)
class SurveyOptions:
    """What is measured of each piece, and within which limits."""

    bench: bool = option(False, "Measure each piece beside eager mode, as bench does.")
    thorough: bool = option(
        False,
        "With --bench, compare results and measure cold starts, as bench --thorough does.",
        heading="What to measure",
    )
    export: bool = option(False, "Find out whether torch.export takes each target.")
    fix: bool = option(False, "Try fixes of each one's first finding.")
    pages: bool = option(True, "Keep a page of each piece.", flag="--pages/--no-pages")
    jobs: int | None = option(
        None,
        "How many pieces to run side by side. By default, one for each core, and 1 with --bench.",
        metavar="N",
        least=1,
        heading="Where pieces run",
    )
    cpus: int | None = option(None, "Cores that each piece has for itself.", metavar="N", least=1)
    gpus: int | None = option(
        None,
        "GPUs that each piece has for itself. By default, 1 where the device is cuda.",
        metavar="N",
        least=0,
    )
    timeout: float | None = option(
        None,
        "Stop a piece after this many seconds. By default, 600.",
        metavar="SECONDS",
        heading="Where pieces run",
    )
    memory: float | None = option(
        None, "Stop a process of a piece that takes more memory than this (Linux).", metavar="GIB"
    )
    retries: int | None = option(
        None, "How often to run a piece again that failed. By default, 1.", metavar="N", least=0
    )

    @property
    def timeout_s(self) -> float:
        """Seconds until a piece is stopped."""
        return self.timeout or _TIMEOUT_S

    @property
    def limits(self) -> tuple[float | None, ...]:
        """Of time and memory: what is stopped at one may not be stopped at another."""
        return self.timeout_s, self.memory

    @property
    def memory_bytes(self) -> int | None:
        """Above which a process of a piece is stopped; None for no limit."""
        return None if self.memory is None else int(self.memory * 2**30)


@dataclass(frozen=True)
class SurveyFile(_Listed):
    """A whole list; without variants, there is the one that ``run`` says. ``nodes``: what those of
    a cluster need.
    """

    options: SurveyOptions = SurveyOptions()
    targets: tuple[ListedTargets, ...] = ()
    variants: tuple[ListedVariant, ...] = ()
    nodes: Environment = field(default_factory=Environment)


_OPTIONS = kinds_of(SurveyOptions)
_SHARED = {name: kind for name, kind in RUN.items() if name not in ("target", "inputs")}
"""Without what is a target's own."""
_ANY = Kind("", lambda _value: True)
"""A table of its own, read later."""
_LIST = {
    "name": TEXT,
    "python": TEXT,
    "run": _ANY,
    "targets": _ANY,
    "variants": _ANY,
    "nodes": _ANY,
    **_OPTIONS,
}
_OF_ENTRY = {"name": TEXT, "family": TEXT, "only": TEXTS, "exclude": TEXTS, "python": TEXT}
_FIELDS = {"target": "target", "glob": "pattern", "from": "library"}
"""What an entry is made of, by key."""
_ENTRY = (
    dict.fromkeys(_FIELDS, TEXT)
    | _OF_ENTRY
    | {name: kind for name, kind in RUN.items() if name != "target"}
)
_VARIANT = {"name": TEXT, "python": TEXT, **_SHARED}


def read_survey_file(path: Path) -> SurveyFile:
    """Read a list."""
    try:
        with os_errors(path, "read"):
            document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GraphDoctorError(f"{path} isn't valid TOML: {error}.") from error
    where = f"{path}: "
    found = read_table(document, _LIST, where)
    targets, variants = (
        tables(found.get(name, []), where, name) for name in ("targets", "variants")
    )
    if not targets:
        raise GraphDoctorError(
            f"{path} has no targets.",
            hint='Write [[targets]], and below it target = "model.py", glob = "models/*.py" or from = "transformers".',
        )
    return SurveyFile(
        name=found.get("name", path.stem),
        options=SurveyOptions(**{name: found[name] for name in _OPTIONS if name in found}),
        python=found.get("python"),
        run=read_table(_table(found, "run", where), _SHARED, f"{where}run: "),
        targets=tuple(
            _entry(one, f"{where}target {number}: ") for number, one in enumerate(targets, start=1)
        ),
        variants=tuple(
            _variant(one, f"{where}variant {number}: ")
            for number, one in enumerate(variants, start=1)
        ),
        nodes=Environment(
            **read_table(_table(found, "nodes", where), kinds_of(Environment), f"{where}nodes: ")
        ),
    )


def _table(found: Mapping[str, object], name: str, where: str) -> dict[str, object]:
    value = found.get(name, {})
    if not isinstance(value, dict):
        raise GraphDoctorError(
            f"{where}{name} must be a table.", hint=f"Write [{name}], and its settings below it."
        )
    return value


def _entry(table: Mapping[str, object], where: str) -> ListedTargets:
    found = read_table(table, _ENTRY, where)
    kinds = [kind for kind in _FIELDS if kind in found]
    if len(kinds) != 1:
        raise GraphDoctorError(
            f"{where}it needs one of target, glob and from, not {' and '.join(kinds) or 'none of them'}.",
            hint='Write target = "model.py", glob = "models/*.py" or from = "transformers".',
        )
    (kind,) = kinds
    for name, fit in (("name", "target"), ("only", "from"), ("inputs", "target")):
        if name in found and kind != fit:
            raise GraphDoctorError(f"{where}{name} goes with {fit} only.")
    if "exclude" in found and kind == "target":
        raise GraphDoctorError(f"{where}exclude goes with glob and from only.")
    text = found.pop(kind)
    own = {name: found.pop(name) for name in _OF_ENTRY if name in found}
    return ListedTargets(**{_FIELDS[kind]: text}, **own, run=found)


def _variant(table: Mapping[str, object], where: str) -> ListedVariant:
    found = read_table(table, _VARIANT, where)
    return ListedVariant(name=found.pop("name", None), python=found.pop("python", None), run=found)
