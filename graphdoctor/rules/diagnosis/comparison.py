"""Compares two diagnoses: two ``Diagnosis`` in, a ``DiagnosisComparison`` out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial

from graphdoctor.facts.base import grouped
from graphdoctor.facts.check import (
    Aspect,
    Change,
    DiagnosisComparison,
    Match,
    Mismatch,
    SameFinding,
    Side,
)
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.recording import CompileCall
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.wording import counted

_Pairs = list[tuple[Finding, Finding]]


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
    same = [
        _same(*pair, by="fingerprint")
        for pair in _take_pairs(gone, new, lambda finding: finding.fingerprint)
    ]
    if before.recording.is_foreign != after.recording.is_foreign:
        same += [_same(*pair, by="place") for pair in _take_pairs(gone, new, _place)]
    return DiagnosisComparison(
        before=sides[0],
        after=sides[1],
        mismatches=mismatches(before, after, gone=gone, new=new),
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
) -> _Pairs:
    """Take findings with the same key out of both lists, in pairs and in the order of lines."""
    waiting = grouped((key(finding), finding) for finding in sorted(gone, key=_line))
    pairs: _Pairs = []
    for finding in sorted(new, key=_line):
        known = waiting.get(key(finding))
        if known:
            pairs.append((known.pop(0), finding))
    matched = {id(finding) for pair in pairs for finding in pair}
    gone[:] = [finding for finding in gone if id(finding) not in matched]
    new[:] = [finding for finding in new if id(finding) not in matched]
    return pairs


def _line(finding: Finding) -> int:
    return finding.location.line


def _place(finding: Finding) -> Hashable:
    """What identifies a finding in a log that graphdoctor didn't record, where functions have no
    class.
    """
    location = finding.location
    return (
        finding.code,
        location.file,
        location.function.rpartition(".")[2],
        location.text,
        finding.torch_id,
    )


def _same(before: Finding, after: Finding, *, by: Match) -> SameFinding:
    return SameFinding(
        before=before, after=after, changes=tuple(_changes(before, after)), matched_by=by
    )


def _changes(before: Finding, after: Finding) -> Iterator[Change]:
    if before.location.line != after.location.line:
        yield "line"
    if before.severity != after.severity:
        yield "severity"
    if before.count != after.count:
        yield "count"


_MAX_CALLS = 2


def mismatches(
    before: Diagnosis, after: Diagnosis, *, gone: Sequence[Finding], new: Sequence[Finding]
) -> tuple[Mismatch, ...]:
    """Every way in which two runs differ, the most serious first."""
    torch = partial(_torch, replaced_count=_at_one_line(gone, new))
    checks = (
        _recording,
        _partial,
        _target,
        _arguments,
        _calls,
        _files,
        _selection,
        _guards,
        torch,
        _versions,
        _gaps,
    )
    return tuple(mismatch for check in checks for mismatch in check(before, after))


def _recording(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    foreign = [side for side, diagnosis in _sides(before, after) if diagnosis.recording.is_foreign]
    if len(foreign) == 2:
        message = "graphdoctor recorded neither log, so whether both compiled the same target in the same way is unknown."
        yield Mismatch(aspect="recording", message=message)
    elif foreign:
        message = (
            f"{foreign[0].capitalize()}: graphdoctor didn't record this log, so its target, calls, coverage, steady "
            "call and the classes of its functions are unknown."
        )
        yield Mismatch(aspect="recording", message=message)


def _sides(before: Diagnosis, after: Diagnosis) -> tuple[tuple[str, Diagnosis], ...]:
    return ("before", before), ("after", after)


def _one_sided(aspect: Aspect, side: str, value: str | None, message: str) -> Mismatch:
    """What only one side has; the message begins with which."""
    values = {side: value}
    return Mismatch(
        aspect=aspect, before=values.get("before"), after=values.get("after"), message=message
    )


def _partial(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    for side, diagnosis in _sides(before, after):
        if diagnosis.recording.is_partial:
            reason = partial_text(diagnosis)
            rest = "Numbers and findings cover only the part that ran."
            yield _one_sided(
                "partial",
                side,
                reason,
                f"{side.capitalize()}: the run is partial. {reason.rstrip('.')}. {rest}",
            )


def _target(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    old, new = before.recording.target, after.recording.target
    texts = list(_differing("target", (old.text, new.text), "Different targets"))
    yield from texts or _differing("target", (old.class_name, new.class_name), "Different classes")


def _differing(
    aspect: Aspect, pair: tuple[str | None, str | None], what: str, meaning: str = ""
) -> Iterator[Mismatch]:
    before, after = pair
    if before and after and before != after:
        message = f"{what}: {before} before, {after} after. {meaning}".rstrip()
        yield Mismatch(aspect=aspect, before=before, after=after, message=message)


def _arguments(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """How torch.compile and the target were called, as far as both sides know."""
    if before.recording.is_foreign or after.recording.is_foreign:
        return
    old, new = before.recording.target, after.recording.target
    if not (old.runs_itself or new.runs_itself):
        made = [
            {**target.compile_arguments, "regional": target.is_regional} for target in (old, new)
        ]
        yield from _settings("compile arguments", (made[0], made[1]), "Different compile arguments")
        # _calls compares how many calls there are.
        options = ({**old.call_options, "calls": None}, {**new.call_options, "calls": None})
        yield from _settings("call options", options, "Different call options")
    elif old.kind == new.kind:
        yield from _compile_calls(before, after)
    yield from _settings("config", (old.config, new.config), "Different config values")


def _settings(
    aspect: Aspect, pair: tuple[Mapping[str, object], Mapping[str, object]], what: str
) -> Iterator[Mismatch]:
    before, after = pair
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if names:
        old, new = (", ".join(f"{name}={side.get(name)}" for name in names) for side in pair)
        yield from _differing(aspect, (old, new), what)


def _compile_calls(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """Calls of torch.compile in a script, whatever line they are on."""
    made = [
        {_compile_call(call) for call in diagnosis.recording.compile_calls}
        for diagnosis in (before, after)
    ]
    if made[0] != made[1]:
        old, new = (
            ", ".join(sorted(one - other)) or "no others" for one, other in (made, reversed(made))
        )
        yield from _differing("compile arguments", (old, new), "Different calls of torch.compile")


def _compile_call(call: CompileCall) -> str:
    arguments = "".join(f", {name}={value}" for name, value in call.arguments.items())
    return f"torch.compile({call.compiled}{arguments})"


def _calls(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    if before.recording.is_foreign or after.recording.is_foreign:
        return
    old, new = before.recording.calls, after.recording.calls
    yield from _differing("calls", (f"{len(old)}", f"{len(new)}"), "Different numbers of calls")
    differing = [
        (f"call {one.index} {one.inputs}", f"call {other.index} {other.inputs}")
        for one, other in zip(old, new, strict=False)
        if one.inputs and other.inputs and one.inputs != other.inputs
    ]
    if differing:
        shown = differing[:_MAX_CALLS]
        pair = ("; ".join(one for one, _ in shown), "; ".join(other for _, other in shown))
        more = len(differing) - len(shown)
        rest = f"The inputs of {counted(more, 'more call')} differ too." if more else ""
        yield from _differing("calls", pair, "Different inputs", rest)


def _files(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """Findings are matched by file: if no file is on both sides, no finding can be the same."""
    old, new = ({finding.location.file for finding in side.findings} for side in (before, after))
    if old and new and not old & new:
        yield from _differing(
            "files",
            (min(old), min(new)),
            "Findings in different files",
            "No finding can be the same.",
        )


def _selection(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    for side, diagnosis in _sides(before, after):
        if hidden := diagnosis.summary.hidden_findings:
            other = "new" if side == "before" else "gone"
            yield _one_sided(
                "selection",
                side,
                f"{hidden} hidden",
                f"{side.capitalize()}: the document leaves out {counted(hidden, 'finding')} (--own-code, --select or "
                f"--ignore). Those that the other side has show as {other}.",
            )


def _guards(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    read = [
        side for side, diagnosis in _sides(before, after) if diagnosis.recording.guards is not None
    ]
    if len(read) == 1:
        words = {"before": "not read", "after": "not read", read[0]: "read"}
        message = (
            f"Guards were read only {read[0]}: the other side has no findings about guards (GD3)."
        )
        yield Mismatch(
            aspect="guards", before=words["before"], after=words["after"], message=message
        )


def _torch(before: Diagnosis, after: Diagnosis, replaced_count: int) -> Iterator[Mismatch]:
    old, new = before.recording.environment.torch, after.recording.environment.torch
    meaning = "Findings can be new or gone because of torch, without any change of code."
    if replaced_count:
        meaning += (
            f" {counted(replaced_count, 'new finding')} replaced another one at the same line."
        )
    yield from _differing("torch", (old, new), "Different torch versions", meaning)


def _at_one_line(gone: Sequence[Finding], new: Sequence[Finding]) -> int:
    lines = {_text(finding) for finding in gone}
    return sum(_text(finding) in lines for finding in new)


def _text(finding: Finding) -> tuple[str, str, str | None]:
    return finding.location.file, finding.location.function, finding.location.text


def _versions(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    programs = (before.graphdoctor_version, after.graphdoctor_version)
    yield from _differing(
        "graphdoctor", programs, "Different graphdoctor versions", "Their rules can differ."
    )
    old, new = before.recording.environment, after.recording.environment
    yield from _differing("python", (old.python, new.python), "Different Python versions")
    machines = (_machine(before), _machine(after))
    yield from _differing("machine", machines, "Different machines", "Times can't be compared.")


def _machine(diagnosis: Diagnosis) -> str:
    environment = diagnosis.recording.environment
    return ", ".join(filter(None, (environment.platform, environment.device_name)))


def _gaps(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """What only one side lacks."""
    lacks = {
        side: [gap.message for gap in diagnosis.recording.gaps if gap.kind != "foreign_log"]
        for side, diagnosis in _sides(before, after)
    }
    for side, other in (("before", "after"), ("after", "before")):
        for message in dict.fromkeys(lacks[side]):
            if message not in lacks[other]:
                yield _one_sided("gap", side, message, f"{side.capitalize()} only: {message}")


def partial_text(diagnosis: Diagnosis) -> str:
    """Why a diagnosis is partial, as a clause or in the words of what ended the run."""
    if diagnosis.recording.exit.message:
        return diagnosis.recording.exit.message
    # Where a log ends early, the run itself may have gone on.
    is_log = diagnosis.recording.exit.status is None and diagnosis.recording.gap("log_cut")
    return "the log ends early" if is_log else "the run ended early"
