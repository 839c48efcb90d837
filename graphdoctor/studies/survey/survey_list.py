"""The list of a survey: ``survey.toml`` or options in, targets, variants and limits out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.executors.executor import Environment
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.facts.values import RUN, TEXT, TEXTS, Kind, kinds_of, read_table, tables

_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class ListedTargets:
    """One entry of the list: a target, a pattern of files, or a library.

    Args:
        name: A target's name; None for its text.
        family: The group of all of them; None for the catalog's own, or none.
        only: Patterns of the names to take of a library; empty for all.
        run: Fields of ``RunSpec`` that differ.
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
    """One way to compile all of them; without a name, one is made of its settings."""

    name: str | None = None
    python: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SurveyOptions:
    """Measurements of each piece, and their limits."""

    bench: bool = option(False, "Measure each piece's speedup over eager mode.")
    thorough: bool = option(
        False,
        "With --bench, compare results and measure cold starts, as bench --thorough does.",
        heading="What to measure",
    )
    export: bool = option(False, "Check whether torch.export takes each target.")
    fix: bool = option(False, "Try fixes of each piece's first finding.")
    pages: bool = option(True, "Keep a page for each piece.", flag="--pages/--no-pages")
    jobs: int | None = option(
        None,
        "Pieces to run side by side; on a GPU, one is timed at a time. By default, one for each "
        "core, and 1 with --bench.",
        metavar="N",
        least=1,
        heading="Execution",
    )
    cpus: int | None = option(None, "Cores for each piece.", metavar="N", least=1)
    gpus: int | None = option(
        None,
        "GPUs for each piece. By default, 1 where the device is cuda, which --jobs shares.",
        metavar="N",
        least=0,
    )
    timeout: float | None = option(
        None,
        "Stop a piece after this many seconds. By default, 600.",
        metavar="SECONDS",
        heading="Execution",
    )
    memory: float | None = option(
        None, "Stop a process of a piece that uses more memory than this (Linux).", metavar="GIB"
    )
    retries: int | None = option(
        None, "How often to run a failed piece again. By default, 1.", metavar="N", least=0
    )

    @property
    def timeout_s(self) -> float:
        """Seconds until a piece is stopped."""
        return self.timeout or _TIMEOUT_S

    @property
    def limits(self) -> tuple[float | None, ...]:
        """Time and memory: what reaches one limit may not reach another."""
        return self.timeout_s, self.memory

    @property
    def memory_bytes(self) -> int | None:
        """The limit of one process; None for none."""
        return None if self.memory is None else int(self.memory * 2**30)


@dataclass(frozen=True)
class SurveyList:
    """A whole survey; without variants, ``run`` is the only one.

    Args:
        name: None for a list without a file.
        run: Fields of ``RunSpec`` that all pieces share.
        nodes: Runtime environment of a cluster's nodes.
        shard: The part to run, from 1, and the number of parts; None for all.
    """

    name: str | None = None
    python: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    options: SurveyOptions = SurveyOptions()
    targets: tuple[ListedTargets, ...] = ()
    variants: tuple[ListedVariant, ...] = ()
    nodes: Environment = field(default_factory=Environment)
    shard: tuple[int, int] | None = None

    @property
    def spec(self) -> RunSpec:
        """The run that all pieces share."""
        return self.spec_of({})

    def spec_of(self, changes: Mapping[str, Any]) -> RunSpec:
        """Return the shared run with changes."""
        backend = {"backend": "inductor"} if self.options.bench else {}
        return RunSpec(**{**backend, **self.run, **changes})

    @property
    def shard_text(self) -> str | None:
        """Such as ``3/8``; None for all pieces."""
        return None if self.shard is None else "{}/{}".format(*self.shard)


_OPTIONS = kinds_of(SurveyOptions)
_SHARED = {name: kind for name, kind in RUN.items() if name not in ("target", "inputs")}
"""Without what is a target's own."""
_ANY = Kind("", lambda _value: True)
"""A table of its own, read later."""
_LIST = {"name": TEXT, "python": TEXT, **_OPTIONS}
_LIST |= dict.fromkeys(("run", "targets", "variants", "nodes"), _ANY)
_OF_ENTRY = {"name": TEXT, "family": TEXT, "only": TEXTS, "exclude": TEXTS, "python": TEXT}
_SOURCES = {"target": "target", "glob": "pattern", "from": "library"}
"""Fields of an entry, by key; it has one of these."""
_ENTRY = dict.fromkeys(_SOURCES, TEXT) | _OF_ENTRY | _SHARED | {"inputs": RUN["inputs"]}
_VARIANT = {"name": TEXT, "python": TEXT, **_SHARED}


def read_survey_list(path: Path) -> SurveyList:
    """Read a list, and check every value."""
    try:
        with os_errors(path, "read"):
            document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GraphDoctorError(f"{path} isn't valid TOML: {error}.") from error
    where = f"{path}: "
    table = read_table(document, _LIST, where)
    targets = tables(table.get("targets", []), where, "targets")
    variants = tables(table.get("variants", []), where, "variants")
    if not targets:
        raise GraphDoctorError(
            f"{path} has no targets.",
            hint='Write [[targets]], and below it target = "model.py", glob = "models/*.py" or '
            'from = "transformers".',
        )
    for name in ("run", "nodes"):
        if not isinstance(table.get(name, {}), dict):
            raise GraphDoctorError(
                f"{where}{name} must be a table.",
                hint=f"Write [{name}], and its settings below it.",
            )
    nodes = read_table(table.get("nodes", {}), kinds_of(Environment), f"{where}nodes: ")
    return SurveyList(
        name=table.get("name", path.stem),
        python=table.get("python"),
        run=read_table(table.get("run", {}), _SHARED, f"{where}run: "),
        options=SurveyOptions(**{name: table[name] for name in _OPTIONS if name in table}),
        targets=tuple(
            _entry(entry, f"{where}target {number}: ")
            for number, entry in enumerate(targets, start=1)
        ),
        variants=tuple(
            ListedVariant(table.pop("name", None), table.pop("python", None), table)
            for number, variant in enumerate(variants, start=1)
            for table in (read_table(variant, _VARIANT, f"{where}variant {number}: "),)
        ),
        nodes=Environment(**nodes),
    )


def _entry(content: Mapping[str, object], where: str) -> ListedTargets:
    table = read_table(content, _ENTRY, where)
    sources = [key for key in _SOURCES if key in table]
    if len(sources) != 1:
        raise GraphDoctorError(
            f"{where}it needs one of target, glob and from, "
            f"not {' and '.join(sources) or 'none of them'}.",
            hint='Write target = "model.py", glob = "models/*.py" or from = "transformers".',
        )
    (source,) = sources
    for name, fit in (("name", "target"), ("only", "from"), ("inputs", "target")):
        if name in table and source != fit:
            raise GraphDoctorError(f"{where}{name} goes with {fit} only.")
    if "exclude" in table and source == "target":
        raise GraphDoctorError(f"{where}exclude goes with glob and from only.")
    fields = {name: table.pop(name) for name in _OF_ENTRY if name in table}
    fields[_SOURCES[source]] = table.pop(source)
    return ListedTargets(**fields, run=table)
