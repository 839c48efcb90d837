"""What a survey is asked for, as pieces: the list's entries spelled out, each with every variant.

Comes in: entries, variants and the settings that all share. Goes out: a ``Plan``; nothing has run
yet, but for asking libraries which architectures they have.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import glob
import importlib.metadata
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from graphdoctor import __version__
from graphdoctor.commands.survey_piece import Architecture, SurveyPiece, digest_of
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import grouped
from graphdoctor.facts.hints import did_you_mean, near_names
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.survey import SurveyVariant
from graphdoctor.facts.values import RUN, TEXT, read_table
from graphdoctor.studies.bench.variants import DEFAULT, VariantSpec, name_of, parse_variant
from graphdoctor.studies.survey.survey_file import ListedTargets, ListedVariant, SurveyOptions
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.discover import ready_target

_CATALOG_S = 300.0
"""How long a library may take to list its architectures."""

_VERSION_S = 60.0
_SETTINGS = ("dtype", "batch", "device", "python")
"""What a variant of a survey can change besides how torch compiles."""

_OF_TARGETS = ("target", "inputs")
_MOST_NAMED = 5
_READ_NO_MODE = ("eager", "aot_eager", "aot_eager_decomp_partition")
"""Backends that log that they ignore ``mode`` and ``options`` (torch/_dynamo/backends, 2.13)."""


@dataclass(frozen=True)
class SurveyAsked:
    """What a survey is asked for: ``run`` is what all share, ``shard`` the part to run, from 1, and
    their count.
    """

    name: str
    targets: Sequence[ListedTargets]
    variants: Sequence[ListedVariant]
    run: RunSpec
    python: str | None
    measured: SurveyOptions
    shard: tuple[int, int] | None = None


@dataclass(frozen=True)
class Plan:
    """What will run."""

    pieces: tuple[SurveyPiece, ...]
    variants: tuple[SurveyVariant, ...]
    notes: tuple[str, ...] = ()


_Target = tuple[ListedTargets, Architecture | None]
"""An entry of one target with a name, and what a catalog writes its program of."""


def plan_survey(asked: SurveyAsked, programs: Path, on_phase: Callable[[str], None]) -> Plan:
    """The pieces of a survey."""
    notes: list[str] = []
    targets = _distinct(
        [
            target
            for entry in asked.targets
            for target in _spelled_out(entry, asked, programs, notes, on_phase)
        ]
    )
    variants = _variants(asked)
    notes += _without_effect(asked.run, variants)
    torch_of = functools.cache(_torch_of)
    pieces = []
    for target, architecture in targets:
        for way, variant in variants.items():
            python = variant.python or target.python or asked.python
            spec = replace(asked.run, **{**target.run, **variant.run, "target": target.target})
            pieces.append(
                SurveyPiece(
                    name=target.name or "",
                    family=target.family,
                    variant=way,
                    spec=spec,
                    architecture=architecture,
                    python=python,
                    measured=asked.measured,
                    plan=_digest(spec, architecture, python, torch_of(python), asked.measured),
                )
            )
    shown = tuple(
        SurveyVariant(
            name=way,
            settings=_settings(replace(asked.run, **variant.run)),
            python=variant.python,
            torch=torch_of(variant.python or asked.python),
        )
        for way, variant in variants.items()
    )
    # Every so many-th piece, so that each shard has some of the long ones.
    number, count = asked.shard or (1, 1)
    return Plan(tuple(pieces[number - 1 :: count]), shown, tuple(notes))


def parse_shard(text: str) -> tuple[int, int]:
    """Read ``3/8``."""
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise GraphDoctorError(
        f"--shard {text} isn't a part of a survey.",
        hint="Write --shard 3/8 for the third of eight.",
    )


# Targets.


def listed_text(text: str) -> ListedTargets:
    """An entry of the command line: a pattern of files, or a target."""
    return (
        ListedTargets(pattern=text)
        if glob.has_magic(text) and not Path(text).exists()
        else ListedTargets(target=text)
    )


def _spelled_out(
    entry: ListedTargets,
    asked: SurveyAsked,
    programs: Path,
    notes: list[str],
    on_phase: Callable[[str], None],
) -> Iterator[_Target]:
    if entry.target is not None:
        yield replace(entry, name=entry.name or entry.target), None
    elif entry.pattern is not None:
        yield from _of_pattern(entry, entry.pattern, notes)
    elif entry.library is not None:
        on_phase(f"listing what {entry.library} has")
        yield from _of_library(entry, entry.library, asked, programs)


def _of_pattern(entry: ListedTargets, pattern: str, notes: list[str]) -> Iterator[_Target]:
    matching = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    found = sorted(path for path in matching if path.endswith(".py") and Path(path).is_file())
    if not found:
        raise GraphDoctorError(f"No Python file matches {pattern!r}.", hint=_near_folder(pattern))
    files = [path for path in found if not _is_excluded(path, entry.exclude)]
    ready = [path for path in files if ready_target(Path(path)) is not None]
    if not ready:
        raise GraphDoctorError(
            f"None of the {len(found)} files that match {pattern!r} has a target and its inputs.",
            hint="A file needs build() or one module class, and example_inputs(); or list it as file.py:name.",
        )
    if others := [path for path in files if path not in set(ready)]:
        named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
        notes.append(
            f"{len(others)} of {len(files)} files that match {pattern} have no target with inputs: {named}."
        )
    folders = {str(Path(path).parent) for path in ready}
    for path in ready:
        family = entry.family or (Path(path).parent.as_posix() if len(folders) > 1 else None)
        name = Path(path).with_suffix("").as_posix()
        yield replace(entry, target=path, name=name, family=family), None


def _near_folder(pattern: str) -> str | None:
    folder = Path(pattern).parent
    return (
        None if glob.has_magic(str(folder)) or folder.is_dir() else f"There is no folder {folder}."
    )


def _is_excluded(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def _of_library(
    entry: ListedTargets, library: str, asked: SurveyAsked, programs: Path
) -> Iterator[_Target]:
    from graphdoctor.trials.launch.catalog import architectures, file_name

    python = entry.python or asked.python
    catalog = architectures(library, Setup(python=python, timeout_s=_CATALOG_S))
    kept = [
        one
        for one in catalog.architectures
        if (not entry.only or _is_excluded(one.name, entry.only))
        and not _is_excluded(one.name, entry.exclude)
    ]
    if not kept:
        names = [one.name for one in catalog.architectures]
        near = [name for wanted in entry.only for name in near_names(wanted, names, most=2)]
        hint = did_you_mean(near, f"It has {len(names)}, such as {names[0]}.")
        raise GraphDoctorError(
            f"No architecture of {library} {catalog.version} is left.", hint=hint
        )
    for one in kept:
        architecture = Architecture(library, catalog.version, one.name)
        family = entry.family or one.family
        text = programs_of(architecture, programs) / file_name(one.name)
        # Architectures of two libraries can share a name.
        yield (
            replace(entry, target=str(text), name=f"{library}/{one.name}", family=family),
            architecture,
        )


def programs_of(architecture: Architecture, programs: Path) -> Path:
    """The folder of a library's programs, as seen from the working directory where it is below
    it.
    """
    folder = programs / f"{architecture.library}-{architecture.version}"
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _distinct(targets: Iterable[_Target]) -> list[_Target]:
    """Targets of which no two share a name; one that two entries have alike counts once."""
    found: dict[str | None, _Target] = {}
    for one in targets:
        target, (other, _) = one[0], found.setdefault(one[0].name, one)
        if (other.target, other.run, other.python) != (target.target, target.run, target.python):
            raise GraphDoctorError(
                f"Two targets are named {target.name!r}: {other.target} and {target.target}.",
                hint="Give each its own name = … in the list.",
            )
    return list(found.values())


# Variants.


def variant_of_text(text: str, run: RunSpec) -> ListedVariant:
    """A variant of the command line: what ``bench --variant`` takes, and dtype, batch, device and
    python.
    """
    own: dict[str, Any] = {}
    rest: list[str] = []
    for part in text.split():
        name, equals, value = part.partition("=")
        if equals and name in _SETTINGS:
            own[name] = int(value) if name == "batch" and value.isdecimal() else value
        else:
            rest.append(part)
    checked = read_table(own, RUN | {"python": TEXT}, f"--variant {text!r}: ")
    python = checked.pop("python", None)
    changes = parse_variant(" ".join(rest), run).changes if rest or not own else {}
    return ListedVariant(name=" ".join(text.split()), python=python, run={**changes, **checked})


def _variants(asked: SurveyAsked) -> dict[str, ListedVariant]:
    """By their names."""
    if not asked.variants:
        return {name_of(asked.run): ListedVariant()}
    found: dict[str, ListedVariant] = {}
    for listed in asked.variants:
        run = {**_without_mode(listed.run, asked.run), **listed.run}
        name = listed.name or _name(listed, asked.run)
        if name in found:
            raise GraphDoctorError(
                f"Two variants are named {name!r}.", hint="Give each its own name = … in the list."
            )
        found[name] = replace(listed, run=run)
    return found


def _without_effect(run: RunSpec, variants: Mapping[str, ListedVariant]) -> Iterator[str]:
    """Of variants that change what their backend doesn't read."""
    ways = ((name, replace(run, **variant.run)) for name, variant in variants.items())
    ignored = grouped(
        (own.backend, name)
        for name, own in ways
        if own.backend in _READ_NO_MODE and (own.mode not in (None, "default") or own.options)
    )
    for backend, names in ignored.items():
        shown = ", ".join(names)
        yield f"The backend {backend} ignores modes and options: they change nothing in {shown}. inductor reads them."


def _settings(run: RunSpec) -> dict[str, object]:
    """What a variant's runs have that isn't the default; the backend always."""
    default = asdict(RunSpec())
    own = {
        name: value
        for name, value in asdict(run).items()
        if value != default[name] and name not in _OF_TARGETS
    }
    return {"backend": run.backend} | own


def _without_mode(run: Mapping[str, Any], shared: RunSpec) -> dict[str, Any]:
    """Mode and options belong to a backend: another one has neither unless the variant says so."""
    return (
        {"mode": None, "options": {}}
        if run.get("backend", shared.backend) != shared.backend
        else {}
    )


def _name(listed: ListedVariant, shared: RunSpec) -> str:
    ways = {name: value for name, value in listed.run.items() if name not in _SETTINGS}
    parts = [name_of(VariantSpec("", ways).spec(shared))] if ways else []
    parts += [
        f"{name}={listed.run[name]}" for name in _SETTINGS if listed.run.get(name) is not None
    ]
    parts += [f"python={listed.python}"] if listed.python else []
    return " ".join(parts) or DEFAULT


# What a row depends on.


def _torch_of(python: str | None) -> str | None:
    """The version of an interpreter's torch, from its metadata; None if it isn't installed."""
    if python is None:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version("torch")
        return None
    code = "import importlib.metadata as m; print(m.version('torch'))"
    try:
        ended = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or "it doesn't answer"
        raise GraphDoctorError(f"The interpreter {python} can't be started: {reason}.") from error
    return ended.stdout.strip() or None


def _digest(
    spec: RunSpec,
    architecture: Architecture | None,
    python: str | None,
    torch: str | None,
    measured: SurveyOptions,
) -> str:
    content = [
        __version__,
        spec,
        architecture,
        python,
        torch,
        measured.bench,
        measured.thorough,
        measured.export,
        measured.fix,
    ]
    return digest_of(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))
