"""The baseline file: what each target is known to do, by target and by torch release, reviewed like
code.

Comes in: the file's text, diagnoses. Goes out: a ``Baseline`` and its text. The file has no line
numbers and sorts its entries, so it changes only when what it holds does.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import Fact, InvalidFactError, values_of
from graphdoctor.facts.check import BaselineEntry, BaselineRun
from graphdoctor.facts.diagnosis import Diagnosis, Finding, FrameState
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.facts.recording import BreakEffect
from graphdoctor.rules.diagnosis.rule import bare_text
from graphdoctor.rules.gate.documents import BOM, check_schema, parsed_json

VERSION = "1.1"
"""Version of the file's schema. 1.0 has findings alone, without their effects and without
``runs``."""

_KEY = "graphdoctor_baseline"
_FILE = re.compile(r"(.+?)\.py(?=:|\Z)")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)", re.MULTILINE)
_LINE = re.compile(r"(?<=\w):\d+\b")
_EAGER: tuple[FrameState, ...] = ("skipped", "over_limit", "failed")
EFFECTS: tuple[BreakEffect, ...] = ("resumed", "rest_eager", "frame_skipped", "raised")
"""Torch's possible actions at a break, the mildest first."""

_REWRITE = "Delete it and run graphdoctor baseline again, or restore an older version."

Entries = tuple[BaselineEntry, ...]
_Value = TypeVar("_Value")


class Baseline(Fact):
    """Accepted findings and measurements."""

    targets: dict[str, dict[str, Entries]] = field(default_factory=dict)
    """Entries by target name, then by torch release, such as ``2.13.0``. Empty if nothing was
    found."""
    runs: dict[str, dict[str, BaselineRun]] = field(default_factory=dict)
    """Measurements, by target name and torch release; a file of schema version 1.0 has none."""

    def run(self, target: str, torch: str) -> BaselineRun | None:
        """Return what a target's run measured under a release; None if the file doesn't say."""
        return self.runs.get(target, {}).get(torch)

    def entries(self, target: str, torch: str) -> tuple[str, Entries] | None:
        """Return the entries to compare a target with.

        Returns:
            A release and its entries: the release that ran if the baseline has it, otherwise the
            newest one before it, otherwise the oldest. None if the target isn't in the baseline.
        """
        versions = self.targets.get(target)
        if not versions:
            return None
        before = [version for version in versions if _order(version) <= _order(torch)]
        chosen = max(before, key=_order) if before else min(versions, key=_order)
        return chosen, versions[chosen]

    def named(self, targets: Mapping[str, str]) -> Baseline:
        """Return the baseline with each target under its name.

        A target that was named after it had been written down, or that is spelled another way, is
        known by its module.

        Args:
            targets: By name, the text of each configured or chosen target.
        """
        spellings = {module_of(key): key for key in sorted(self.targets.keys() - targets.keys())}
        keys = {
            spellings[module_of(text)]: name
            for name, text in targets.items()
            if name not in self.targets and module_of(text) in spellings
        }
        return Baseline(
            targets={keys.get(key, key): value for key, value in self.targets.items()},
            runs={keys.get(key, key): value for key, value in self.runs.items()},
        )


def module_of(target: str) -> str:
    """Return a target's text with the name of its module, ``pkg.model:Net`` for
    ``./pkg/model.py:Net``: two spellings of one target have the same.
    """
    file = _FILE.match(target)
    if file is None:
        return target
    path = PurePosixPath(file[1].replace("\\", "/"))
    return ".".join(path.parts) + target[file.end() :]


@dataclass(frozen=True)
class TargetFindings:
    """Results of a target's run, to be written down.

    Args:
        torch: The release that ran.
        findings: Those to allow.
        run: What was measured.
    """

    torch: str
    findings: Sequence[Finding]
    run: BaselineRun


@dataclass(frozen=True)
class BaselineUpdate:
    """An updated baseline, and how it differs from the one before.

    Args:
        baseline: The new baseline.
        found: By target name, what was written down.
        before: By target name, what had been measured under the same release; without those that
            weren't.
        added: By target name, entries that are new for the release that ran.
        dropped: By target name, entries that are gone.
        dropped_targets: Names of targets that are no longer configured.
    """

    baseline: Baseline
    found: Mapping[str, TargetFindings]
    before: Mapping[str, BaselineRun]
    added: Mapping[str, Entries]
    dropped: Mapping[str, Entries]
    dropped_targets: tuple[str, ...]


def release(version: str) -> str:
    """Return a version without its build tag and pre-release: ``2.13.0`` for ``2.13.0a0+cpu``."""
    match = _RELEASE.match(version)
    return match[0] if match else version


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _RELEASE.findall(version)[:1] for part in part.split("."))


def entries_of(findings: Iterable[Finding]) -> Entries:
    """Return findings as baseline entries, in the file's order."""
    entries = [
        BaselineEntry(
            fingerprint=finding.fingerprint,
            code=finding.code,
            file=finding.location.shown_file.replace("\\", "/"),
            function=finding.location.function,
            text=finding.location.text,
            package=finding.location.package,
            count=finding.count,
            break_effects=tuple(sorted(finding.break_effects, key=EFFECTS.index)) or None,
            skipped_frames=tuple(sorted(finding.effects.skipped_frames)),
            rest_eager_frames=tuple(sorted(finding.effects.rest_eager_frames)),
            message=_LINE.sub("", finding.message),
        )
        for finding in findings
    ]
    return tuple(sorted(entries, key=_place))


def run_of(diagnosis: Diagnosis) -> BaselineRun:
    """Return what a run measured, as the baseline holds it."""
    summary, detail = diagnosis.summary, diagnosis.summary.coverage_detail
    eager = {frame.name for frame, report in diagnosis.each_frame() if report.state in _EAGER}
    return BaselineRun(
        calls=summary.calls,
        graphs=summary.graphs,
        graph_ops=detail.graph_ops if detail else None,
        eager_ops=detail.eager_ops if detail else None,
        eager_functions=tuple(sorted(eager)),
    )


def _place(entry: BaselineEntry) -> tuple[str, ...]:
    return entry.file, entry.function, entry.code, entry.text or "", entry.fingerprint


def updated(
    before: Baseline, found: Mapping[str, TargetFindings], *, configured: Iterable[str] | None
) -> BaselineUpdate:
    """Replace a baseline's entries for the targets and the torch release that ran.

    Args:
        before: The baseline so far.
        found: By target name, what its run found.
        configured: Names of all configured targets; other targets are dropped. None drops none.
    """
    left = before.targets.keys() if configured is None else {*configured, *found}
    targets = {name: dict(before.targets[name]) for name in before.targets if name in left}
    runs = {name: dict(before.runs[name]) for name in before.runs if name in left}
    added: dict[str, Entries] = {}
    dropped: dict[str, Entries] = {}
    measured: dict[str, BaselineRun] = {}
    for name, ran in found.items():
        entries = targets.setdefault(name, {})
        old = {entry.fingerprint: entry for entry in entries.get(ran.torch, ())}
        new = {
            entry.fingerprint: _kept(old.get(entry.fingerprint), entry)
            for entry in entries_of(ran.findings)
        }
        added[name] = tuple(entry for key, entry in new.items() if key not in old)
        dropped[name] = tuple(entry for key, entry in old.items() if key not in new)
        entries[ran.torch] = tuple(new.values())
        if (run := before.run(name, ran.torch)) is not None:
            measured[name] = run
        runs.setdefault(name, {})[ran.torch] = ran.run
    return BaselineUpdate(
        Baseline(targets=targets, runs=runs),
        found,
        measured,
        added,
        dropped,
        dropped_targets=tuple(sorted(before.targets.keys() - left)),
    )


def _kept(old: BaselineEntry | None, new: BaselineEntry) -> BaselineEntry:
    """Return the new entry with the old words: a message can hold times and a line a comment, and
    neither is a change.
    """
    return new if old is None else new.replace(**values_of(old, "message", "text", "may_rise"))


def write_baseline(baseline: Baseline) -> str:
    """Return the file's text: sorted, indented, without empty values."""
    targets = _in_order(
        baseline.targets, lambda entries: [_plain(entry) for entry in sorted(entries, key=_place)]
    )
    document = {_KEY: VERSION, "targets": targets, "runs": _in_order(baseline.runs, _plain)}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _in_order(
    targets: Mapping[str, Mapping[str, _Value]], written: Callable[[_Value], object]
) -> dict[str, dict[str, object]]:
    return {
        name: {version: written(versions[version]) for version in sorted(versions, key=_order)}
        for name, versions in sorted(targets.items())
    }


def read_baseline(content: bytes, name: str) -> Baseline:
    """Read the file.

    Raises:
        GraphDoctorError: It has merge conflict markers, isn't JSON, isn't a baseline, or has a
            newer schema.
    """
    content = content.removeprefix(BOM)
    if marker := _CONFLICT.search(content.decode("utf-8", errors="replace")):
        line = content[: marker.start()].count(b"\n") + 1
        raise GraphDoctorError(
            f"{name} has merge conflict markers, the first on line {line}.",
            hint=(
                "Keep either side of each, then run graphdoctor baseline --update to write the"
                " current findings."
            ),
        )
    document = parsed_json(content, name, hint=_REWRITE)
    if not isinstance(document, dict) or not isinstance(document.get(_KEY), str):
        raise GraphDoctorError(f"{name} isn't a baseline written by graphdoctor.", hint=_REWRITE)
    version = document[_KEY]
    hint = (
        "Install the graphdoctor that wrote it, or rewrite it with this one: graphdoctor baseline."
    )
    check_schema(version, name, reads=VERSION, hint=hint)
    known = {name: document[name] for name in ("targets", "runs") if name in document}
    try:
        if "targets" in known:
            return read_fact(Baseline, known, skips_unknown=True)
        problem = "it has no targets"
    except InvalidFactError as error:
        problem = str(error)
    raise GraphDoctorError(
        f"{name} isn't a valid baseline (schema version {version}): {problem}.", hint=_REWRITE
    )


def _plain(fact: BaselineEntry | BaselineRun) -> dict[str, object]:
    return {
        name: value
        for name, value in plain(fact).items()
        if value not in (None, []) and value is not False
    }


_Line = tuple[str, str, str, str]


def known_in(baseline: Baseline, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that some target of a baseline has.

    A finding is known by its fingerprint. A break is also known by its file, function and line,
    because another release of torch may call its cause something else; as many breaks at equal
    lines as the baseline has.
    """
    fingerprints: set[str] = set()
    left: Counter[_Line] = Counter()
    for versions in baseline.targets.values():
        for entries in versions.values():
            fingerprints |= {entry.fingerprint for entry in entries}
            left |= Counter(map(_line_of, entries))
    known: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: finding.fingerprint not in fingerprints):
        (entry,) = entries_of([finding])
        line = _line_of(entry)
        if finding.fingerprint in fingerprints or left[line] > 0:
            known.append(finding)
            left[line] -= 1
    return tuple(known)


def _line_of(entry: BaselineEntry) -> _Line:
    code = "GD1" if entry.code.startswith("GD1") else entry.code
    return code, entry.file, entry.function, bare_text(entry.text)
