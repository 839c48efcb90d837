"""The baseline file: a project's known findings, by target and by torch release, reviewed like code.

Comes in: the file's text, findings. Goes out: a ``Baseline`` and its text. The file has no line numbers and sorts its
entries, so it changes only when the findings do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.gate.parsing import BOM, check_schema, parsed_json
from graphdoctor.model.base import InvalidFactError, field_types
from graphdoctor.model.check import BaselineEntry
from graphdoctor.model.diagnosis import Finding

VERSION = "1.0"
"""Version of the file's schema."""

_KEY = "graphdoctor_baseline"
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)", re.MULTILINE)
_LINE = re.compile(r"(?<=\w):\d+\b")
_REWRITE = "Delete it and run graphdoctor baseline again, or restore an older version."

Entries = tuple[BaselineEntry, ...]


@dataclass(frozen=True)
class Baseline:
    """The known findings.

    Args:
        targets: Entries by target name, then by torch release, such as ``2.13.0``. Empty if nothing was found.
    """

    targets: Mapping[str, Mapping[str, Entries]] = field(default_factory=dict)

    def entries(self, target: str, torch: str) -> tuple[str, Entries] | None:
        """The entries to compare a target with.

        Args:
            target: The target's name.
            torch: The release that ran.

        Returns:
            A release and its entries: the release that ran if the baseline has it, otherwise the newest one before it,
            otherwise the oldest. None if the target isn't in the baseline.
        """
        versions = self.targets.get(target)
        if not versions:
            return None
        before = [version for version in versions if _order(version) <= _order(torch)]
        chosen = torch if torch in versions else max(before, key=_order) if before else min(versions, key=_order)
        return chosen, versions[chosen]

    def all_entries(self) -> Iterator[Entries]:
        """The entries of each target under each torch release."""
        for versions in self.targets.values():
            yield from versions.values()


@dataclass(frozen=True)
class Update:
    """An updated baseline, and how it differs from the one before.

    Args:
        baseline: The new baseline.
        added: By target name, entries that are new for the release that ran.
        dropped: By target name, entries that are gone.
        dropped_targets: Names of targets that are no longer configured.
    """

    baseline: Baseline
    added: Mapping[str, Entries]
    dropped: Mapping[str, Entries]
    dropped_targets: tuple[str, ...]


def release(version: str) -> str:
    """A version without its build tag and pre-release: ``2.13.0`` for ``2.13.0a0+cpu``."""
    match = _RELEASE.match(version)
    return match[0] if match else version


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _RELEASE.findall(version)[:1] for part in part.split("."))


def entries_of(findings: Iterable[Finding]) -> Entries:
    """Findings as baseline entries, in the file's order."""
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
    """Replace a baseline's entries for the targets and the torch release that ran.

    Args:
        before: The baseline so far.
        found: By target name, the release that ran and the findings to allow.
        configured: Names of all configured targets; other targets are dropped. None drops none.
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
    """The old entry with the new count: a message can hold times and a line a comment, and neither is a change."""
    return new if old is None else old.model_copy(update={"count": new.count})


def write_baseline(baseline: Baseline) -> str:
    """The file's text: sorted, indented, without empty values."""
    targets = {
        name: {
            version: [_plain(entry) for entry in sorted(entries, key=_place)]
            for version, entries in sorted(versions.items(), key=lambda item: _order(item[0]))
        }
        for name, versions in sorted(baseline.targets.items())
    }
    return json.dumps({_KEY: VERSION, "targets": targets}, indent=2, ensure_ascii=False) + "\n"


def read_baseline(content: bytes, name: str) -> Baseline:
    """Read the file.

    Args:
        content: The file's content.
        name: What error messages call it.

    Raises:
        GraphDoctorError: It has merge conflict markers, isn't JSON, isn't a baseline, or has a newer schema.
    """
    content = content.removeprefix(BOM)
    if marker := _CONFLICT.search(content.decode("utf-8", errors="replace")):
        line = content[: marker.start()].count(b"\n") + 1
        raise GraphDoctorError(
            f"{name} has merge conflict markers, the first on line {line}.",
            hint="Keep either side of each, then run graphdoctor baseline --update to write the current findings.",
        )
    document = parsed_json(content, name, hint=_REWRITE)
    if not isinstance(document, dict) or not isinstance(document.get(_KEY), str):
        raise GraphDoctorError(f"{name} isn't a baseline written by graphdoctor.", hint=_REWRITE)
    version = document[_KEY]
    hint = "Install the graphdoctor that wrote it, or rewrite it with this one: graphdoctor baseline."
    check_schema(version, name, reads=VERSION, hint=hint)
    try:
        return _targets(document["targets"])
    except (InvalidFactError, LookupError, TypeError, AttributeError) as error:
        what = f": {error}" if isinstance(error, InvalidFactError) else ""
        raise GraphDoctorError(
            f"{name} isn't a valid baseline (schema version {version}){what}.", hint=_REWRITE
        ) from error


def _plain(entry: BaselineEntry) -> dict[str, object]:
    return {name: value for name, value in entry.model_dump().items() if value is not None}


def _targets(value: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Baseline:
    targets = {
        name: {version: tuple(map(_entry, entries)) for version, entries in versions.items()}
        for name, versions in value.items()
    }
    return Baseline(targets)


def _entry(value: Mapping[str, Any]) -> BaselineEntry:
    """An entry without unknown keys: a later minor version may have added them."""
    return BaselineEntry.model_validate({key: item for key, item in value.items() if key in field_types(BaselineEntry)})
