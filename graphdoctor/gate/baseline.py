"""The baseline file: findings that a project knows of, target by target and torch by torch, reviewed like code.

Comes in: the file's text, findings. Goes out: a ``Baseline`` and its text. There are no line numbers in it, and the
entries have an order of their own, so that a change of the file is a change of the findings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import ValidationError

from graphdoctor.errors import GraphDoctorError
from graphdoctor.model.check import BaselineEntry
from graphdoctor.model.diagnosis import Finding

VERSION = "1.0"
"""Version of the file's shape."""

_KEY = "graphdoctor_baseline"
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)", re.MULTILINE)
_LINE = re.compile(r"(?<=\w):\d+\b")
_ANEW = "Remove it and write it anew with graphdoctor baseline, or bring back an older one."

Entries = tuple[BaselineEntry, ...]


@dataclass(frozen=True)
class Baseline:
    """What is known.

    Args:
        targets: By target's name, then by torch's release, such as ``2.13.0``. No entries means that nothing was found.
    """

    targets: Mapping[str, Mapping[str, Entries]] = field(default_factory=dict)

    def entries(self, target: str, torch: str) -> tuple[str, Entries] | None:
        """What to compare a target with.

        Args:
            target: The target's name.
            torch: The release that ran.

        Returns:
            The release and its entries: the one that ran, else the newest before it, else the oldest. None when the
            target is not in the baseline.
        """
        versions = self.targets.get(target)
        if not versions:
            return None
        before = [version for version in versions if _order(version) <= _order(torch)]
        chosen = torch if torch in versions else max(before, key=_order) if before else min(versions, key=_order)
        return chosen, versions[chosen]


@dataclass(frozen=True)
class Update:
    """A baseline after an update, and what became of the one before.

    Args:
        baseline: The new one.
        added: By target's name, entries that are new for the release that ran.
        dropped: Likewise, entries that are gone.
        dropped_targets: Names that are no longer configured.
    """

    baseline: Baseline
    added: Mapping[str, Entries]
    dropped: Mapping[str, Entries]
    dropped_targets: tuple[str, ...]


def release(version: str) -> str:
    """The release without build tag and pre-release: ``2.13.0`` of ``2.13.0a0+cpu``."""
    match = _RELEASE.match(version)
    return match[0] if match else version


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _RELEASE.findall(version)[:1] for part in part.split("."))


def entries_of(findings: Iterable[Finding]) -> Entries:
    """Findings as a baseline has them, in its order."""
    entries = [
        BaselineEntry(
            fingerprint=finding.fingerprint,
            code=finding.code,
            file=finding.location.shown_file.replace("\\", "/"),
            function=finding.location.function,
            text=finding.location.text,
            package=finding.location.package,
            count=finding.count,
            message=_LINE.sub("", finding.message),
        )
        for finding in findings
    ]
    return tuple(sorted(entries, key=_place))


def _place(entry: BaselineEntry) -> tuple[str, ...]:
    return entry.file, entry.function, entry.code, entry.text or "", entry.fingerprint


def updated(
    before: Baseline, found: Mapping[str, tuple[str, Sequence[Finding]]], *, configured: Iterable[str] | None
) -> Update:
    """A baseline with what was found now in place of what it had of the same targets under the same torch.

    Args:
        before: The baseline as it was.
        found: By target's name the release that ran and the findings to allow.
        configured: Names of all targets that there are; others are dropped. None drops none.
    """
    targets = {name: dict(versions) for name, versions in before.targets.items()}
    dropped_targets = () if configured is None else tuple(sorted(set(targets) - {*configured, *found}))
    for name in dropped_targets:
        del targets[name]
    added: dict[str, Entries] = {}
    dropped: dict[str, Entries] = {}
    for name, (version, findings) in found.items():
        old = {entry.fingerprint: entry for entry in targets.get(name, {}).get(version, ())}
        new = tuple(_kept(old.get(entry.fingerprint), entry) for entry in entries_of(findings))
        added[name] = tuple(entry for entry in new if entry.fingerprint not in old)
        names = {entry.fingerprint for entry in new}
        dropped[name] = tuple(entry for entry in old.values() if entry.fingerprint not in names)
        targets.setdefault(name, {})[version] = new
    return Update(Baseline(targets), added, dropped, dropped_targets)


def _kept(old: BaselineEntry | None, new: BaselineEntry) -> BaselineEntry:
    """The entry as it was, its count aside: a message may hold times, a line a comment, and neither is news."""
    return new if old is None else old.model_copy(update={"count": new.count})


def write_baseline(baseline: Baseline) -> str:
    """The file's text: sorted, indented, no value that says nothing."""
    targets = {
        name: {
            version: [entry.model_dump(mode="json", exclude_none=True) for entry in sorted(entries, key=_place)]
            for version, entries in sorted(versions.items(), key=lambda item: _order(item[0]))
        }
        for name, versions in sorted(baseline.targets.items())
    }
    return json.dumps({_KEY: VERSION, "targets": targets}, indent=2, ensure_ascii=False) + "\n"


def read_baseline(content: bytes, name: str) -> Baseline:
    """Read the file.

    Args:
        content: The file.
        name: What to call it in an error.

    Raises:
        GraphDoctorError: It has merge-conflict markers, is no JSON, no baseline, or of a newer schema.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    if marker := _CONFLICT.search(content.decode("utf-8", errors="replace")):
        line = content[: marker.start()].count(b"\n") + 1
        raise GraphDoctorError(
            f"{name} has merge-conflict markers, the first in line {line}.",
            hint="Take either side of each, then run graphdoctor baseline --update: it writes what holds now.",
        )
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise GraphDoctorError(f"{name} is no whole JSON document: {error}.", hint=_ANEW) from error
    if not isinstance(document, dict) or not isinstance(document.get(_KEY), str):
        raise GraphDoctorError(f"{name} is JSON, but no baseline that graphdoctor wrote.", hint=_ANEW)
    version = document[_KEY]
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise GraphDoctorError(
            f"{name} has schema version {version}; this graphdoctor reads {VERSION.partition('.')[0]}.x.",
            hint="Install the graphdoctor that wrote it, or write it anew with this one: graphdoctor baseline.",
        )
    try:
        return _targets(document["targets"])
    except (ValidationError, LookupError, TypeError, AttributeError) as error:
        what = f": {_first(error)}" if isinstance(error, ValidationError) else ""
        raise GraphDoctorError(
            f"{name} does not read as a baseline of schema version {version}{what}.", hint=_ANEW
        ) from error


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _targets(value: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Baseline:
    targets = {
        name: {version: tuple(map(_entry, entries)) for version, entries in versions.items()}
        for name, versions in value.items()
    }
    return Baseline(targets)


def _entry(value: Mapping[str, Any]) -> BaselineEntry:
    """An entry; a file of the same major version may have more than this version knows."""
    return BaselineEntry(**{key: item for key, item in value.items() if key in BaselineEntry.model_fields})
