"""Reads a recording from disk: our folder, a ``TORCH_TRACE`` folder, or one log file of it.

recording/
  recording.json   what was asked and how the child ended, written by the parent
  probe.jsonl      what the probe said: environment, target, coverage, variations, errors
  trace/*.log      torch's structured trace with our records in it
  what-if.json     what replays under remedies gave, and their own recordings below what-if/
  fixes.json       what trials of fixes gave, and their own recordings below fixes/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from graphdoctor.errors import GraphDoctorError
from graphdoctor.model.fixes import Treatment
from graphdoctor.model.guards import Guards
from graphdoctor.model.recording import (
    CaptureGap,
    Coverage,
    Environment,
    Recording,
    SteadyCall,
    TargetInfo,
)
from graphdoctor.model.run import ProbeExit
from graphdoctor.model.trials import Replay, WhatIf
from graphdoctor.trace.assemble import Assembler
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.merge import Part, merge
from graphdoctor.trace.processes import ProcessLogs, find_logs, find_processes, name_processes
from graphdoctor.trace.script import script_gaps
from graphdoctor.trace.variations import read_variations

_FORMAT = 1
"""Of ``recording.json``, as ``capture/child.py`` writes it."""


def read_recording(path: Path, *, guards: bool = False, picture: bool = False) -> Recording:
    """Read what was recorded.

    Args:
        path: A recording's folder, a folder that ``TORCH_TRACE`` wrote, or one of its log files.
        guards: Read the guards too, which can be most of a log.
        picture: Read what only the picture of the run shows too, which is all of a log.

    Returns:
        The facts; what the log lacks is None with a gap.

    Raises:
        GraphDoctorError: There is nothing of the kind at ``path``.
    """
    if not path.exists():
        raise GraphDoctorError(f"There is no recording at {path}.", hint="Run graphdoctor explain first.")
    if path.is_file():
        _check_log(path)
        return _assemble({}, [], [path], has_guards=guards, has_picture=picture)
    meta = _read_json(path / "recording.json")
    if meta.get("format", _FORMAT) != _FORMAT:
        raise GraphDoctorError(
            f"{path} was written by another version of graphdoctor: its format is {meta['format']}, not {_FORMAT}.",
            hint=f"The trace log inside can be read by itself: graphdoctor report {path / 'trace'}",
        )
    logs = find_logs(path / "trace") or find_logs(path)
    if not meta and not logs:
        raise GraphDoctorError(
            f"{path} holds neither a recording nor a torch trace log.",
            hint="Name a folder below .graphdoctor/, or one that TORCH_TRACE=folder wrote.",
        )
    try:
        events = list(_read_events(path / "probe.jsonl"))
        recording = _assemble(meta, events, logs, has_guards=guards, has_picture=picture)
        tried = _read_json(path / "what-if.json")
        treatment = _read_json(path / "fixes.json")
        return recording.model_copy(
            update={
                "what_if": WhatIf(**tried) if tried else None,
                "treatment": Treatment(**treatment) if treatment else None,
            }
        )
    except ValidationError as error:
        raise GraphDoctorError(
            f"{path} was written by another version of graphdoctor, or changed since.",
            hint="Run graphdoctor explain again; the trace log inside can be read by itself: graphdoctor report "
            f"{path / 'trace'}",
        ) from error


def _check_log(path: Path) -> None:
    try:
        with path.open("rb") as lines:
            is_log = next(read_records(lines, lambda _kind: True, LogDamage()), None) is not None
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be read: {error.strerror}.") from error
    if not is_log:
        raise GraphDoctorError(
            f"{path} holds no record of a torch trace log.",
            hint=f"graphdoctor explain {path} records a run." if path.suffix == ".py" else None,
        )


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
    meta: dict[str, Any],
    events: list[dict[str, Any]],
    logs: list[Path],
    *,
    has_guards: bool = False,
    has_picture: bool = False,
) -> Recording:
    by_kind = {event["event"]: event for event in events}
    environment = Environment(**_fields(by_kind.get("environment")))
    gaps = [
        CaptureGap(code="GD900", kind=event.get("kind"), message=str(event.get("message")))
        for event in events
        if event["event"] == "gap"
    ]
    target = TargetInfo(**(meta.get("target") or {}) | _fields(by_kind.get("target")))
    exit_ = ProbeExit(**meta["exit"]) if meta.get("exit") else ProbeExit(status=None)
    coverage = Coverage(**_fields(by_kind["coverage"])) if "coverage" in by_kind else None
    replay = Replay(**_fields(by_kind["trial"])) if "trial" in by_kind else None
    damage = LogDamage()
    unreadable: dict[str, int] = {}
    main_pid = by_kind.get("process", {}).get("pid")
    # Without any log it is one process that torch wrote nothing in.
    processes = find_processes(logs, main_pid=main_pid) or [ProcessLogs((), main_pid, None)]
    taken_in = [
        _take_in(process, _intake(environment, has_guards, has_picture), damage, unreadable) for process in processes
    ]
    parts: list[Part] = []
    intakes: list[Intake] = []
    for name, taken in _named(taken_in, main_pid):
        for reset, intake in enumerate(taken.intakes):
            recording = Assembler(intake, is_ours=bool(meta) and (name is None or taken.is_ours)).finish(
                target=target, exit=exit_, coverage=coverage, replay=replay, gaps=[], is_cut=taken.is_cut
            )
            parts.append(Part(recording, name, reset))
            intakes.append(intake)
    merged = merge(parts)
    gaps += _damage_gaps(damage) + _part_gaps(parts)
    gaps += [
        CaptureGap(code="GD902", message=f"{count} records of the kind {kind} hold what this version cannot read.")
        for kind, count in unreadable.items()
    ]
    if target.runs_itself:
        gaps += script_gaps(merged, is_hooked="process" in by_kind)
    merged = merged.model_copy(
        update={
            "gaps": (*gaps, *merged.gaps),
            "variations": read_variations(events),
            "steady_call": SteadyCall(**_fields(by_kind["steady_call"])) if "steady_call" in by_kind else None,
        }
    )
    if has_picture:
        from graphdoctor.trace.picture import picture_of

        merged = merged.model_copy(update={"picture": picture_of(parts, intakes, merged, events=events, damage=damage)})
    if not has_guards:
        return merged
    from graphdoctor.trace.guards.sets import guards_of_parts

    cost = by_kind.get("guard_cost")
    found = guards_of_parts(zip(parts, intakes, strict=True), cost=cost)
    missing = _guard_gaps(found, merged.gaps, is_measured=cost is not None)
    return merged.model_copy(update={"guards": found, "gaps": (*merged.gaps, *missing)})


def _intake(environment: Environment, has_guards: bool, has_picture: bool) -> Intake:
    if not has_picture:
        return Intake(environment, has_guards=has_guards)
    from graphdoctor.trace.picture import PictureIntake

    return Intake(environment, has_guards=has_guards, picture=PictureIntake())


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


@dataclass
class _Taken:
    """What one process's logs hold.

    Args:
        process: The process.
        intakes: One, and one more for each reset of Dynamo.
        is_ours: There are records of ours among torch's.
        is_cut: A log ends in the middle of a record.
    """

    process: ProcessLogs
    intakes: list[Intake]
    is_ours: bool = False
    is_cut: bool = False

    @property
    def has_compiled(self) -> bool:
        """Something was compiled or broke."""
        return any(intake.compiles or intake.breaks for intake in self.intakes)


def _take_in(process: ProcessLogs, first: Intake, damage: LogDamage, unreadable: dict[str, int]) -> _Taken:
    taken = _Taken(process, [first])
    for log in process.logs:
        damage.is_last_broken = False
        with log.open("rb") as lines:
            for record in read_records(lines, first.wants, damage):
                taken.is_ours |= record.kind.startswith("graphdoctor_")
                if record.kind == "dynamo_start" and taken.intakes[-1].has_started(record.compile_id):
                    taken.intakes.append(taken.intakes[-1].after_reset())
                try:
                    taken.intakes[-1].add(record)
                except (ValueError, TypeError, LookupError, AttributeError):
                    # Damaged, or of a torch that writes it otherwise.
                    unreadable[record.kind] = unreadable.get(record.kind, 0) + 1
        taken.is_cut |= damage.is_last_broken
    return taken


def _named(taken_in: list[_Taken], main_pid: int | None) -> Iterator[tuple[str | None, _Taken]]:
    """Those that matter with their names; data loader workers and the like import the program and compile nothing."""
    kept = [taken for taken in taken_in if taken.has_compiled or taken.process.pid == main_pid is not None]
    kept = kept or taken_in[:1]
    yield from zip(name_processes(taken.process for taken in kept), kept, strict=True)


def _damage_gaps(damage: LogDamage) -> list[CaptureGap]:
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
    return gaps


def _part_gaps(parts: Sequence[Part]) -> list[CaptureGap]:
    """What compile ids with a prefix mean."""
    gaps = []
    names = list(dict.fromkeys(part.process for part in parts if part.recording.compiles))
    if len(names) > 1:
        others = ", ".join(f"{name}:" for name in names if name is not None)
        gaps.append(
            CaptureGap(
                code="GD903",
                message=f"{len(names)} processes compiled: the counts are sums over all of them, and compile ids of "
                f"all but the first begin with the process ({others}).",
            )
        )
    if any(part.reset for part in parts):
        gaps.append(
            CaptureGap(
                code="GD903",
                message="Dynamo was reset while the program ran and counted its compiles from 0 again: compile ids "
                "behind the first reset begin with reset1:.",
            )
        )
    return gaps
