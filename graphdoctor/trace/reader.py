"""Reads a recording from disk: our folder, a ``TORCH_TRACE`` folder, or one log file of it.

recording/
  recording.json   what was asked and how the child ended, written by the parent
  probe.jsonl      what the probe said: environment, target, coverage, errors
  trace/*.log      torch's structured trace with our records in it
  what-if.json     what replays under remedies gave, and their own recordings below what-if/
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from graphdoctor.errors import GraphDoctorError
from graphdoctor.model.guards import Guards
from graphdoctor.model.recording import (
    CaptureGap,
    Coverage,
    Environment,
    ProbeExit,
    Recording,
    TargetInfo,
)
from graphdoctor.model.trials import Replay, WhatIf
from graphdoctor.trace.assemble import Assembler
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.intake import Intake

_LOG_PATTERN = "dedicated_log_torch_trace_*.log"


def read_recording(path: Path, *, guards: bool = False) -> Recording:
    """Read what was recorded.

    Args:
        path: A recording's folder, a folder that ``TORCH_TRACE`` wrote, or one of its log files.
        guards: Read the guards too, which can be most of a log.

    Returns:
        The facts; what the log lacks is None with a gap.

    Raises:
        GraphDoctorError: There is nothing of the kind at ``path``.
    """
    if not path.exists():
        raise GraphDoctorError(f"There is no recording at {path}.", hint="Run graphdoctor explain first.")
    if path.is_file():
        return _assemble({}, [], [path], has_guards=guards)
    meta = _read_json(path / "recording.json")
    logs = _logs(path / "trace") or _logs(path)
    if not meta and not logs:
        raise GraphDoctorError(
            f"{path} holds neither a recording nor a torch trace log.",
            hint="Name a folder below .graphdoctor/, or one that TORCH_TRACE=folder wrote.",
        )
    try:
        recording = _assemble(meta, list(_read_events(path / "probe.jsonl")), logs, has_guards=guards)
        tried = _read_json(path / "what-if.json")
        return recording.model_copy(update={"what_if": WhatIf(**tried)}) if tried else recording
    except ValidationError as error:
        raise GraphDoctorError(
            f"{path} was written by another version of graphdoctor, or changed since.",
            hint="Run graphdoctor explain again; the trace log inside can be read by itself: graphdoctor report "
            f"{path / 'trace'}",
        ) from error


def _logs(folder: Path) -> list[Path]:
    # The order of creation: names are random.
    return sorted(folder.glob(_LOG_PATTERN), key=lambda log: (log.stat().st_mtime_ns, log.name))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_events(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # a killed probe leaves half a line at the end
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event


def _fields(event: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (event or {}).items() if key != "event"}


def _assemble(
    meta: dict[str, Any], events: list[dict[str, Any]], logs: list[Path], *, has_guards: bool = False
) -> Recording:
    by_kind = {event["event"]: event for event in events}
    environment = Environment(**_fields(by_kind.get("environment")))
    gaps = [CaptureGap(code="GD900", message=str(event.get("message"))) for event in events if event["event"] == "gap"]
    intake = Intake(environment, has_guards=has_guards)
    damage = LogDamage()
    unreadable: dict[str, int] = {}
    compiling: list[Path] = []
    for log in logs:
        before = intake.compile_count
        with log.open("rb") as lines:
            for record in read_records(lines, intake.wants, damage):
                try:
                    intake.add(record)
                except (ValueError, TypeError, LookupError, AttributeError):
                    # Damaged, or of a torch that writes it otherwise.
                    unreadable[record.kind] = unreadable.get(record.kind, 0) + 1
        if intake.compile_count > before or (compiling and intake.has_repeated_ids):
            compiling.append(log)
    gaps += _damage_gaps(damage, len(compiling))
    gaps += [
        CaptureGap(code="GD902", message=f"{count} records of the kind {kind} hold what this version cannot read.")
        for kind, count in unreadable.items()
    ]
    exit_ = ProbeExit(**meta["exit"]) if meta.get("exit") else ProbeExit(status=None)
    coverage = Coverage(**_fields(by_kind["coverage"])) if "coverage" in by_kind else None
    recording = Assembler(intake, is_ours=bool(meta)).finish(
        target=TargetInfo(**(meta.get("target") or {}) | _fields(by_kind.get("target"))),
        exit=exit_,
        coverage=coverage,
        replay=Replay(**_fields(by_kind["trial"])) if "trial" in by_kind else None,
        gaps=gaps,
        is_cut=damage.is_last_broken,
    )
    if not has_guards:
        return recording
    from graphdoctor.trace.guard_sets import guards_of

    cost = by_kind.get("guard_cost")
    found = guards_of(recording, intake.guard_trees, files=intake.files(), origins=intake.origins, cost=cost)
    missing = _guard_gaps(found, recording.gaps, is_measured=cost is not None)
    return recording.model_copy(update={"guards": found, "gaps": (*recording.gaps, *missing)})


def _guard_gaps(guards: Guards, known: tuple[CaptureGap, ...], *, is_measured: bool) -> list[CaptureGap]:
    gaps = []
    if not is_measured and not any("guard checks was not measured" in gap.message for gap in known):
        message = "The cost of guard checks was not measured here; graphdoctor guards TARGET measures it."
        gaps.append(CaptureGap(code="GD900", message=message))
    unread = sum(len(found.unread_lines) for found in guards.sets)
    if unread:
        message = f"{unread} lines of torch's guard trees have a layout that this version does not know."
        gaps.append(CaptureGap(code="GD902", message=message))
    return gaps


def _damage_gaps(damage: LogDamage, compiling_logs: int) -> list[CaptureGap]:
    gaps = []
    if damage.broken_records:
        plural = "s" if damage.broken_records > 1 else ""
        cut = ", the last one among them: the log is cut" if damage.is_last_broken else ""
        gaps.append(
            CaptureGap(
                code="GD902",
                message=f"{damage.broken_records} record{plural} of the trace log could not be read{cut}.",
            )
        )
    if damage.altered_payloads:
        gaps.append(
            CaptureGap(
                code="GD902",
                message=f"{damage.altered_payloads} records of the trace log are not as torch wrote them; what they "
                "say may be wrong.",
            )
        )
    if damage.bad_bytes:
        gaps.append(
            CaptureGap(code="GD902", message=f"{damage.bad_bytes} records of the trace log hold invalid UTF-8.")
        )
    if compiling_logs > 1:
        gaps.append(
            CaptureGap(
                code="GD903",
                message=f"{compiling_logs} processes compiled; their frames are told apart by compile id only, "
                "so equal ids of two processes run together.",
            )
        )
    return gaps
