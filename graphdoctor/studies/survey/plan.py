"""A survey's list in, its pieces out: each target with every variant.

Nothing runs yet, but for asking libraries which architectures they have.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import glob
import importlib.metadata
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.survey import SurveyVariant
from graphdoctor.facts.values import RUN, TEXT, read_table
from graphdoctor.studies.bench.variants import DEFAULT, name_of, parse_variant
from graphdoctor.studies.survey.piece import CatalogEntry, SurveyPiece, digest_of
from graphdoctor.studies.survey.survey_list import ListedTargets, ListedVariant, SurveyList
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.discover import ready_target
from graphdoctor.version import __version__
from graphdoctor.wording import did_you_mean, near_names

_CATALOG_S = 300.0
"""Time limit for a library to list its architectures."""

_VERSION_S = 60.0
_SETTINGS = ("dtype", "batch", "device", "python")
"""Settings that a variant can change besides how torch compiles."""

_MAX_NAMES = 5


@dataclass(frozen=True)
class Plan:
    """All pieces, or those of a shard."""

    pieces: tuple[SurveyPiece, ...]
    variants: tuple[SurveyVariant, ...]
    notes: tuple[str, ...] = ()


def plan_survey(survey: SurveyList, programs: Path, on_phase: Callable[[str], None]) -> Plan:
    """Plan the pieces of a survey; ``programs``: the folder for a catalog's programs."""
    notes: list[str] = []
    variants, options = _variants(survey), survey.options
    torch_of = functools.cache(_torch_of)
    measured = [options.bench, options.thorough, options.export, options.fix]
    targets: dict[str | None, ListedTargets] = {}
    pieces: dict[tuple[str, str], SurveyPiece] = {}
    for target, entry in _targets(survey, programs, notes, on_phase):
        # One that two entries list alike counts once.
        other = targets.setdefault(target.name, target)
        if (other.target, other.run, other.python) != (target.target, target.run, target.python):
            raise GraphDoctorError(
                f"Two targets are named {target.name!r}: {other.target} and {target.target}.",
                hint="Give each its own name = … in the list.",
            )
        for variant_name, variant in variants.items():
            python = variant.python or target.python or survey.python
            run = survey.spec_of({**target.run, **variant.run, "target": target.target})
            content = [__version__, run, entry, python, torch_of(python), *measured]
            piece = SurveyPiece(
                name=target.name or "",
                family=target.family,
                variant=variant_name,
                spec=run,
                entry=entry,
                python=python,
                options=options,
                plan=digest_of(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)),
            )
            pieces.setdefault(piece.key, piece)
    default = asdict(RunSpec()) | {"backend": None}
    shown = tuple(
        SurveyVariant(
            name=name,
            settings={
                key: value
                for key, value in asdict(survey.spec_of(variant.run)).items()
                if value != default[key]
            },
            python=variant.python,
            torch=torch_of(variant.python or survey.python),
        )
        for name, variant in variants.items()
    )
    # Every so many-th piece, so that each shard has some of the long ones.
    number, count = survey.shard or (1, 1)
    return Plan(tuple(pieces.values())[number - 1 :: count], shown, tuple(notes))


def _targets(
    survey: SurveyList, programs: Path, notes: list[str], on_phase: Callable[[str], None]
) -> Iterator[tuple[ListedTargets, CatalogEntry | None]]:
    for listed in survey.targets:
        if listed.pattern is not None:
            yield from _of_pattern(listed, listed.pattern, notes)
        elif listed.library is not None:
            on_phase(f"listing what {listed.library} has")
            yield from _of_library(listed, listed.library, listed.python or survey.python, programs)
        else:
            yield replace(listed, name=listed.name or listed.target), None


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


def parse_listed(text: str) -> ListedTargets:
    """Read an entry of the command line: a pattern of files, or a target."""
    is_pattern = glob.has_magic(text) and not Path(text).exists()
    return ListedTargets(pattern=text) if is_pattern else ListedTargets(target=text)


def _of_pattern(
    listed: ListedTargets, pattern: str, notes: list[str]
) -> Iterator[tuple[ListedTargets, CatalogEntry | None]]:
    matches = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute one
    matches = sorted(path for path in matches if path.endswith(".py") and Path(path).is_file())
    if not matches:
        folder = Path(pattern).parent
        is_missing = not glob.has_magic(str(folder)) and not folder.is_dir()
        hint = f"There is no folder {folder}." if is_missing else None
        raise GraphDoctorError(f"No Python file matches {pattern!r}.", hint=hint)
    paths = [path for path in matches if not _matches(path, listed.exclude)]
    ready = [path for path in paths if ready_target(Path(path)) is not None]
    if not ready:
        raise GraphDoctorError(
            f"None of the {len(matches)} files that match {pattern!r} has a target and inputs.",
            hint="A file needs build() or one module class, and example_inputs(); or list it as "
            "file.py:name.",
        )
    if others := [path for path in paths if path not in set(ready)]:
        names = ", ".join([*others[:_MAX_NAMES], *["…"] * (len(others) > _MAX_NAMES)])
        notes.append(
            f"{len(others)} of {len(paths)} files that match {pattern} have no target with inputs: "
            f"{names}."
        )
    has_folders = len({Path(path).parent for path in ready}) > 1
    for path in map(Path, ready):
        family = listed.family or (path.parent.as_posix() if has_folders else None)
        name = path.with_suffix("").as_posix()
        yield replace(listed, target=str(path), name=name, family=family), None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _of_library(
    listed: ListedTargets, library: str, python: str | None, programs: Path
) -> Iterator[tuple[ListedTargets, CatalogEntry | None]]:
    from graphdoctor.trials.launch.catalog import architectures, file_name

    catalog = architectures(library, Setup(python=python, timeout_s=_CATALOG_S))
    selected = [
        architecture
        for architecture in catalog.architectures
        if not _matches(architecture.name, listed.exclude)
        and (not listed.only or _matches(architecture.name, listed.only))
    ]
    if not selected:
        names = [architecture.name for architecture in catalog.architectures]
        near = [name for pattern in listed.only for name in near_names(pattern, names, most=2)]
        hint = did_you_mean(near, f"It has {len(names)}, such as {names[0]}.")
        raise GraphDoctorError(
            f"No architecture of {library} {catalog.version} is left.", hint=hint
        )
    folder = programs / f"{library}-{catalog.version}"
    # As seen from the working directory where it is below it.
    folder = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    for architecture in selected:
        target = replace(
            listed,
            target=str(folder / file_name(architecture.name)),
            # Architectures of two libraries can share a name.
            name=f"{library}/{architecture.name}",
            family=listed.family or architecture.family,
        )
        yield target, CatalogEntry(library, catalog.version, architecture.name)


# Variants.


def parse_listed_variant(text: str, run: RunSpec) -> ListedVariant:
    """Read a variant of the command line: as for ``bench --variant``, or dtype, batch, device and
    python.
    """
    table = {}
    parts = []
    for part in text.split():
        name, equals, value = part.partition("=")
        if equals and name in _SETTINGS:
            table[name] = int(value) if name == "batch" and value.isdecimal() else value
        else:
            parts.append(part)
    settings = read_table(table, RUN | {"python": TEXT}, f"--variant {text!r}: ")
    python = settings.pop("python", None)
    changes = parse_variant(" ".join(parts), run).changes if parts or not table else {}
    return ListedVariant(" ".join(text.split()), python, {**changes, **settings})


def _variants(survey: SurveyList) -> dict[str, ListedVariant]:
    """Return variants by name."""
    spec = survey.spec
    if not survey.variants:
        return {name_of(spec): ListedVariant()}
    variants = {}
    for listed in survey.variants:
        run, name = dict(listed.run), listed.name
        if name is None:
            settings = {name: run.get(name) for name in _SETTINGS} | {"python": listed.python}
            changes = {name: value for name, value in run.items() if name not in _SETTINGS}
            parts = [name_of(survey.spec_of(changes))] if changes else []
            parts += [f"{key}={value}" for key, value in settings.items() if value is not None]
            name = " ".join(parts) or DEFAULT
        if run.get("backend", spec.backend) != spec.backend:
            # Mode and options belong to a backend.
            run = {"mode": None, "options": {}} | run
        if name in variants:
            raise GraphDoctorError(
                f"Two variants are named {name!r}.", hint="Give each its own name = … in the list."
            )
        variants[name] = replace(listed, run=run)
    return variants


def _torch_of(python: str | None) -> str | None:
    """Return the version of an interpreter's torch, from its metadata; None without torch."""
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
