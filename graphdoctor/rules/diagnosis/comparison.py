"""Compares two diagnoses: two ``Diagnosis`` in, a ``DiagnosisComparison`` out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from graphdoctor.facts.base import grouped
from graphdoctor.facts.check import Aspect, Change, DiagnosisComparison, Mismatch, SameFinding, Side
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.recording import CompileCall
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.wording import counted


def compare(
    before: Diagnosis,
    after: Diagnosis,
    *,
    names: tuple[str | None, str | None] = (None, None),
    selection: Selection | None = None,
) -> DiagnosisComparison:
    """Compare two diagnoses.

    Findings with the same fingerprint are the same finding. A line that moved keeps its finding; an
    edited line has one finding that is gone and one that is new.

    Args:
        before: The first.
        after: The second.
        names: Their names in the report.
        selection: Which findings to compare; None for all.

    Returns:
        What is new, gone and the same, and how the two runs differ.
    """
    chosen = selection or Selection()
    gone = [finding for finding in before.findings if chosen.keeps(finding)]
    new = [finding for finding in after.findings if chosen.keeps(finding)]
    sides = (_side(before, names[0], kept=len(gone)), _side(after, names[1], kept=len(new)))
    order = {id(finding): place for place, finding in enumerate(new)}
    same = [*_take_pairs(gone, new, lambda finding: finding.fingerprint)]
    if before.recording.is_foreign != after.recording.is_foreign:
        same += _take_pairs(gone, new, _place)
    return DiagnosisComparison(
        before=sides[0],
        after=sides[1],
        mismatches=mismatches(before, after),
        new=tuple(new),
        gone=() if after.recording.is_partial else tuple(gone),
        unseen=tuple(gone) if after.recording.is_partial else (),
        same=tuple(sorted(same, key=lambda pair: order[id(pair.after)])),
    )


def _side(diagnosis: Diagnosis, name: str | None, *, kept: int) -> Side:
    return Side(
        name=name,
        graphdoctor_version=diagnosis.graphdoctor_version,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target,
        is_partial=diagnosis.recording.is_partial,
        summary=diagnosis.summary,
        has_calls=not (diagnosis.recording.target.runs_itself or diagnosis.recording.is_foreign),
        hidden_findings=len(diagnosis.findings) - kept,
    )


def _take_pairs(
    gone: list[Finding], new: list[Finding], key: Callable[[Finding], Hashable]
) -> Iterator[SameFinding]:
    """Take findings with the same key out of both lists, in pairs and in the order of lines."""
    waiting = grouped((key(finding), finding) for finding in sorted(gone, key=_line))
    for finding in sorted(new, key=_line):
        if alike := waiting.get(key(finding)):
            before = alike.pop(0)
            gone.remove(before)
            new.remove(finding)
            changes = tuple(_changes(before, finding))
            yield SameFinding(before=before, after=finding, changes=changes)


def _line(finding: Finding) -> int:
    return finding.location.line


def _place(finding: Finding) -> Hashable:
    """Return what identifies a finding in a log that graphdoctor didn't record, where functions
    have no class.
    """
    location = finding.location
    function = location.function.rpartition(".")[2]
    return finding.code, location.file, function, location.text, finding.torch_id


def _changes(before: Finding, after: Finding) -> Iterator[Change]:
    if before.location.line != after.location.line:
        yield "line"
    if before.severity != after.severity:
        yield "severity"
    if before.count != after.count:
        yield "count"


def mismatches(before: Diagnosis, after: Diagnosis) -> tuple[Mismatch, ...]:
    """Return every way in which two runs differ, the most serious first."""
    sides = {"before": before, "after": after}
    return (*_of_programs(sides), *_of_findings(sides), *_of_environments(sides))


_Sides = Mapping[str, Diagnosis]


def _differing(
    aspect: Aspect, values: Iterable[str | None], what: str, meaning: str = ""
) -> Iterator[Mismatch]:
    """Yield what is known of both sides, and differs."""
    before, after = values
    if before and after and before != after:
        message = f"{what}: {before} before, {after} after. {meaning}".rstrip()
        yield Mismatch(aspect=aspect, before=before, after=after, message=message)


def _of_programs(sides: _Sides) -> Iterator[Mismatch]:
    """Compare recordings, targets and how these were called, as far as both sides know."""
    recordings = [diagnosis.recording for diagnosis in sides.values()]
    targets = [recording.target for recording in recordings]
    for side, diagnosis in sides.items():
        if diagnosis.recording.is_foreign:
            message = (
                f"{side.capitalize()}: graphdoctor didn't record this log, so its target, calls,"
                " coverage, steady call and the classes of its functions are unknown."
            )
            yield Mismatch(aspect="recording", message=message)
        if diagnosis.recording.is_partial:
            reason = partial_text(diagnosis)
            rest = "Numbers and findings cover only the part that ran."
            message = f"{side.capitalize()}: the run is partial. {reason.rstrip('.')}. {rest}"
            yield Mismatch(aspect="partial", message=message, **{side: reason})
    texts = list(_differing("target", (target.text for target in targets), "Different targets"))
    classes = (target.class_name for target in targets)
    yield from texts or _differing("target", classes, "Different classes")
    if any(recording.is_foreign for recording in recordings):
        return
    what = "Different compile arguments"
    if not any(target.runs_itself for target in targets):
        arguments = [
            target.compile_arguments | {"regional": target.is_regional} for target in targets
        ]
        yield from _differing("compile arguments", _settings(*arguments), what)
        # How many calls there are is compared below.
        options = [target.call_options | {"calls": None} for target in targets]
        yield from _differing("call options", _settings(*options), "Different call options")
    elif targets[0].kind == targets[1].kind:
        # Calls of torch.compile in a script, whatever line they are on.
        old, new = (set(map(_compile_call, recording.compile_calls)) for recording in recordings)
        others = (", ".join(sorted(own)) or "no others" for own in (old - new, new - old))
        yield from _differing("compile arguments", others, "Different calls of torch.compile")
    configs = _settings(*(target.config for target in targets))
    yield from _differing("config", configs, "Different config values")
    counts = (str(len(recording.calls)) for recording in recordings)
    yield from _differing("calls", counts, "Different numbers of calls")
    for before, after in zip(*(recording.calls for recording in recordings), strict=False):
        if before.inputs and after.inputs and before.inputs != after.inputs:
            shown = (f"call {call.index} {call.inputs}" for call in (before, after))
            yield from _differing("calls", shown, "Different inputs", "Later calls may differ too.")
            return


def _settings(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Return what differs of each side's settings."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple(
        ", ".join(f"{name}={side.get(name)}" for name in names) for side in (before, after)
    )


def _compile_call(call: CompileCall) -> str:
    arguments = "".join(f", {name}={value}" for name, value in call.arguments.items())
    return f"torch.compile({call.compiled}{arguments})"


def _of_findings(sides: _Sides) -> Iterator[Mismatch]:
    """Yield what one side leaves out or can't have, and torch's releases."""
    files = [{finding.location.file for finding in side.findings} for side in sides.values()]
    # Findings are matched by file: if no file is on both sides, no finding can be the same.
    if all(files) and files[0].isdisjoint(files[1]):
        what, meaning = "Findings in different files", "No finding can be the same."
        yield from _differing("files", map(min, files), what, meaning)
    for side, diagnosis in sides.items():
        if hidden := diagnosis.summary.hidden_findings:
            message = (
                f"{side.capitalize()}: the document leaves out {counted(hidden, 'finding')}"
                " (--own-code, --select or --ignore). Those that the other side has show as"
                f" {'new' if side == 'before' else 'gone'}."
            )
            yield Mismatch(aspect="selection", message=message, **{side: f"{hidden} hidden"})
    read = [side for side, diagnosis in sides.items() if diagnosis.recording.guards is not None]
    if len(read) == 1:
        message = (
            f"Guards were read only {read[0]}: the other side has no findings about guards (GD3)."
        )
        values = dict.fromkeys(sides, "not read") | {read[0]: "read"}
        yield Mismatch(aspect="guards", message=message, **values)
    meaning = "Findings can be new or gone because of torch, without any change of code."
    versions = (side.recording.environment.torch for side in sides.values())
    yield from _differing("torch", versions, "Different torch versions", meaning)


def _of_environments(sides: _Sides) -> Iterator[Mismatch]:
    """Compare versions, machines, and what only one side lacks."""
    environments = [diagnosis.recording.environment for diagnosis in sides.values()]
    machines = (
        ", ".join(filter(None, (environment.platform, environment.device_name)))
        for environment in environments
    )
    versions = (diagnosis.graphdoctor_version for diagnosis in sides.values())
    pythons = (environment.python for environment in environments)
    yield from _differing("graphdoctor", versions, "Different graphdoctor versions")
    yield from _differing("python", pythons, "Different Python versions")
    yield from _differing("machine", machines, "Different machines", "Times can't be compared.")
    lacks = [
        dict.fromkeys(gap.message for gap in side.recording.gaps if gap.kind != "foreign_log")
        for side in sides.values()
    ]
    for side, own, other in zip(sides, lacks, reversed(lacks), strict=True):
        for text in own:
            if text not in other:
                message = f"{side.capitalize()} only: {text}"
                yield Mismatch(aspect="gap", message=message, **{side: text})


def partial_text(diagnosis: Diagnosis) -> str:
    """Return why a diagnosis is partial, as a clause or in the words of what ended the run."""
    if diagnosis.recording.exit.message:
        return diagnosis.recording.exit.message
    # Where a log ends early, the run itself may have gone on.
    is_log = diagnosis.recording.exit.status is None and diagnosis.recording.gap("log_cut")
    return "the log ends early" if is_log else "the run ended early"
