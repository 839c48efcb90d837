"""What keeps two diagnoses from being comparable: every way in which they were not made alike, each in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphdoctor.model.comparison import Aspect, Mismatch
from graphdoctor.model.diagnosis import Diagnosis, Finding
from graphdoctor.model.recording import CompileCall

_FOREIGN = "GD904"
_MAX_CALLS = 2


def is_foreign(diagnosis: Diagnosis) -> bool:
    """The diagnosis is of a log that graphdoctor did not record."""
    return any(gap.code == _FOREIGN for gap in diagnosis.gaps)


def mismatches(
    before: Diagnosis, after: Diagnosis, *, gone: Sequence[Finding], new: Sequence[Finding]
) -> tuple[Mismatch, ...]:
    """How two diagnoses were not made alike, the gravest first.

    Args:
        before: The first.
        after: The second.
        gone: Findings that only the first has.
        new: Findings that only the second has.
    """
    return (
        *_recording(before, after),
        *_partial(before, after),
        *_target(before, after),
        *_arguments(before, after),
        *_calls(before, after),
        *_files(before, after),
        *_selection(before, after),
        *_guards(before, after),
        *_torch(before, after, _at_one_line(gone, new)),
        *_versions(before, after),
        *_gaps(before, after),
    )


def _recording(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    match is_foreign(before), is_foreign(after):
        case True, True:
            yield Mismatch(
                aspect="recording",
                message="Neither was recorded by graphdoctor: whether both compiled the same target in the same way is "
                "not known.",
            )
        case True, False:
            yield Mismatch(aspect="recording", message=_foreign_text("before"))
        case False, True:
            yield Mismatch(aspect="recording", message=_foreign_text("after"))


def _foreign_text(side: str) -> str:
    return (
        f"The log {side} was not recorded by graphdoctor: its target, calls, coverage and steady call are not known, "
        "nor are the classes of its functions."
    )


def _partial(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    for side, diagnosis in (("before", before), ("after", after)):
        if diagnosis.is_partial:
            reason = diagnosis.exit.message or "the run ended early"
            yield Mismatch(
                aspect="partial",
                before=reason if side == "before" else None,
                after=reason if side == "after" else None,
                message=f"Partial {side}: {reason.rstrip('.')}. What it did not reach is in no number and no finding.",
            )


def _target(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    old, new = before.target, after.target
    if old.text and new.text and old.text != new.text:
        yield _unlike("target", (old.text, new.text), "Different targets")
    elif old.class_name and new.class_name and old.class_name != new.class_name:
        yield _unlike("target", (old.class_name, new.class_name), "The target is something else")


def _unlike(aspect: Aspect, pair: tuple[str, str], what: str, meaning: str = "") -> Mismatch:
    before, after = pair
    message = f"{what}: {before} before, {after} after. {meaning}".rstrip()
    return Mismatch(aspect=aspect, before=before, after=after, message=message)


def _arguments(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """How torch.compile and the target were called, as far as both sides know."""
    if is_foreign(before) or is_foreign(after):
        return
    old, new = before.target, after.target
    if not (old.runs_itself or new.runs_itself):
        made = (old.compile_arguments, new.compile_arguments)
        yield from _settings("compile arguments", made, "Compiled with other arguments")
        # How many calls there are shows in the calls.
        options = ({**old.call_options, "calls": None}, {**new.call_options, "calls": None})
        yield from _settings("call options", options, "Called in another way")
    elif old.kind == new.kind:
        yield from _compile_calls(before, after)
    yield from _settings("config", (old.config, new.config), "Other config values")


def _settings(aspect: Aspect, pair: tuple[Mapping[str, object], Mapping[str, object]], what: str) -> Iterator[Mismatch]:
    before, after = pair
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if names:
        old, new = (", ".join(f"{name}={side.get(name)}" for name in names) for side in pair)
        yield _unlike(aspect, (old, new), what)


def _compile_calls(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """Calls of torch.compile in a script, wherever they stand."""
    made = [{_compile_call(call) for call in diagnosis.compile_calls} for diagnosis in (before, after)]
    if made[0] != made[1]:
        old, new = (", ".join(sorted(one - other)) or "none else" for one, other in (made, reversed(made)))
        yield _unlike("compile arguments", (old, new), "Other calls of torch.compile")


def _compile_call(call: CompileCall) -> str:
    arguments = "".join(f", {name}={value}" for name, value in call.arguments.items())
    return f"torch.compile({call.compiled}{arguments})"


def _calls(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    if is_foreign(before) or is_foreign(after):
        return
    old, new = before.calls, after.calls
    if len(old) != len(new):
        yield _unlike("calls", (f"{len(old)}", f"{len(new)}"), "Calls")
    differing = [
        (f"call {one.index} {one.inputs}", f"call {other.index} {other.inputs}")
        for one, other in zip(old, new, strict=False)
        if one.inputs and other.inputs and one.inputs != other.inputs
    ]
    if differing:
        shown = differing[:_MAX_CALLS]
        pair = ("; ".join(one for one, _ in shown), "; ".join(other for _, other in shown))
        more = len(differing) - len(shown)
        yield _unlike("calls", pair, "Called with other inputs", f"{more} more calls differ." if more else "")


def _files(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """Findings are matched by file: where no file is on both sides, nothing can be the same."""
    old, new = ({finding.location.file for finding in side.findings} for side in (before, after))
    if old and new and not old & new:
        yield _unlike(
            "files", (min(old), min(new)), "No finding of one side is in a file of the other", "None can be the same."
        )


def _selection(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    for side, diagnosis in (("before", before), ("after", after)):
        hidden = diagnosis.summary.hidden_findings
        if hidden:
            other = "new" if side == "before" else "gone"
            yield Mismatch(
                aspect="selection",
                before=f"{hidden} hidden" if side == "before" else None,
                after=f"{hidden} hidden" if side == "after" else None,
                message=f"The document {side} was written without {hidden} of its findings (--own-code, --select or "
                f"--ignore): such a finding shows as {other} if the other side has it.",
            )


def _guards(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    if (before.guards is None) != (after.guards is None):
        side = "before" if before.guards is not None else "after"
        yield Mismatch(
            aspect="guards",
            before="read" if side == "before" else "not read",
            after="read" if side == "after" else "not read",
            message=f"Guards were read {side} only: findings on guards (GD3) are missing on the other side.",
        )


def _torch(before: Diagnosis, after: Diagnosis, replaced_count: int) -> Iterator[Mismatch]:
    old, new = before.environment.torch, after.environment.torch
    if old and new and old != new:
        meaning = "What is new or gone can be torch's doing, on unchanged code."
        if replaced_count:
            meaning += f" {replaced_count} of the new findings are at a line that had another one before."
        yield _unlike("torch", (old, new), "Another torch", meaning)


def _at_one_line(gone: Sequence[Finding], new: Sequence[Finding]) -> int:
    """How many new findings stand at the line of one that is gone: the same line seen otherwise."""
    lines = {_line(finding) for finding in gone}
    return sum(_line(finding) in lines for finding in new)


def _line(finding: Finding) -> tuple[str, str, str | None]:
    return finding.location.file, finding.location.function, finding.location.text


def _versions(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    programs = (before.graphdoctor_version, after.graphdoctor_version)
    if programs[0] != programs[1]:
        yield _unlike("graphdoctor", programs, "Another graphdoctor", "Its rules may find other things.")
    old, new = before.environment, after.environment
    if old.python and new.python and old.python != new.python:
        yield _unlike("python", (old.python, new.python), "Another Python")
    machines = (_machine(before), _machine(after))
    if machines[0] and machines[1] and machines[0] != machines[1]:
        yield _unlike("machine", machines, "Another machine", "The times cannot be compared.")


def _machine(diagnosis: Diagnosis) -> str:
    return ", ".join(filter(None, (diagnosis.environment.platform, diagnosis.environment.device_name)))


def _gaps(before: Diagnosis, after: Diagnosis) -> Iterator[Mismatch]:
    """What one side could not tell."""
    old, new = ([gap.message for gap in side.gaps if gap.code != _FOREIGN] for side in (before, after))
    for message in dict.fromkeys(old):
        if message not in new:
            yield Mismatch(aspect="gap", before=message, message=f"Before only: {message}")
    for message in dict.fromkeys(new):
        if message not in old:
            yield Mismatch(aspect="gap", after=message, message=f"After only: {message}")
