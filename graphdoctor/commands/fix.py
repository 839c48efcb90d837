"""``graphdoctor fix``: try fixes on the target itself, show what each did, and write what
works when asked.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.options import (
    APPLY,
    OF_TRIALS,
    UNSAFE_FIXES,
    CommonOptions,
    Given,
    TargetArgument,
    TrialOptions,
    with_options,
)
from graphdoctor.commands.running import begin, finish, has_report, recording_of, set_up, trials_of
from graphdoctor.commands.terminal import say
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.facts.stack import relative
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.trials.launch.child import interpreter
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.unchanged import ChangeKind
from graphdoctor.views.fixes import outcome
from graphdoctor.views.formats import FIXES
from graphdoctor.views.reasons import left_text, reason_text
from graphdoctor.views.words import about_time, applied_snippets

if TYPE_CHECKING:
    from graphdoctor.fixes.kept import EarlierTrials
    from graphdoctor.fixes.patch import SearchResult


@with_options(formats=FIXES.names)
def fix(
    target: TargetArgument,
    spec: RunSpec,
    common: CommonOptions,
    trials: TrialOptions,
    flags: Given,
    is_applied: bool = APPLY,
    is_unsafe_tried: bool = UNSAFE_FIXES,
    is_diff: bool = option(
        False, "Write the edits that work to standard output as one patch.", flag="--diff"
    ),
    is_tried: bool = option(
        True,
        "Try each fix by running the target with it; or only suggest fixes.",
        flag="--try/--no-try",
    ),
    is_again: bool = option(
        False, "Try fixes anew, even if nothing changed since they were tried.", flag="--again"
    ),
    budget: float = option(
        60.0,
        "Start no new trial this many seconds after the recorded run, unless running without fixes "
        "took over half of them; the next fix goes on.",
        metavar="SECONDS",
    ),
) -> None:
    """Try fixes by running the target with each, and show which work.

    Nothing is written without --apply.

    Examples:
        graphdoctor fix model.py: try fixes, write nothing
        graphdoctor fix model.py --unsafe-fixes --apply: write those that work
    """
    from graphdoctor.fixes.kept import kept_fixes, try_fixes
    from graphdoctor.fixes.writing import check, write

    _refuse_conflicts(common, flags, is_applied=is_applied, is_diff=is_diff, is_tried=is_tried)
    settings, output = begin(FIXES, common, flags, is_applied=is_applied)
    selection = common.selection(settings)
    request = Request.of(spec, Measured(coverage=True, reads=True), target=target)
    asked = trials_of(trials, selection, is_unsafe_tried=is_unsafe_tried, is_tried=is_tried)
    python = interpreter(common.python)
    before = (
        None
        if is_again or not is_tried
        else kept_fixes(request, asked.choices, settings.store, python)
    )
    if before is not None and not common.quiet:
        say(_said_before(before))
    if before is not None and before.result is not None:
        recorded, folder, treated = None, before.recording, before.result
        if is_applied:
            check(treated.changes, force=common.force)
    else:

        def report(folder: Path) -> None:
            if not is_diff:
                output.write(diagnose_recording(folder, selection, output.needs))

        with _reporting_interrupts(report) as made, contextlib.ExitStack() as stack:
            if before is not None and before.trials is not None:
                recorded, folder, kept = None, before.recording, before.trials
                setup = stack.enter_context(set_up(settings, common, is_warm=True))
            else:
                run = recording_of(request, settings, common, is_warm=is_tried)
                recorded, setup = stack.enter_context(run)
                folder, kept = recorded.folder, frozenset[str]()
            made.append(folder)
            treated = try_fixes(
                request,
                folder,
                replace(asked, budget_s=budget, kept=kept),
                setup,
                # Trials take minutes: what must not be written is refused before them.
                check=partial(check, force=common.force) if is_applied else None,
            )
    result = diagnose_recording(folder, selection, output.needs)
    has_run = has_report(result.diagnosis.recording)
    if is_diff:
        _write_patch(treated)
        if has_run and not common.quiet:
            _print_rest(treated.treatment)
    elif has_run or not output.is_text:
        output.write(result)
    if has_run and not common.quiet and (is_diff or not output.is_text):
        say(outcome(treated.treatment, result.diagnosis.recording.target))
    if is_applied:
        write(treated.changes, force=common.force)
        if treated.changes:
            write_fact(treated.treatment.replace(is_written=True), folder / FIXES_FILE)
        if not common.quiet:
            say(*_wrote(treated, is_rest_shown=is_diff))
    if recorded is not None:
        finish(recorded, result.diagnosis)


def _refuse_conflicts(
    common: CommonOptions, flags: Given, *, is_applied: bool, is_diff: bool, is_tried: bool
) -> None:
    if is_applied and not is_tried:
        raise GraphDoctorError("Only tried fixes are written.", hint="Leave out --no-try.")
    if not is_tried:
        flags.refuse((*OF_TRIALS, "budget"), without="trials")
    if is_diff and (common.output is not None or common.format is not None):
        raise GraphDoctorError(
            "--diff writes a patch to standard output.", hint="Leave out -o and --format."
        )


@contextlib.contextmanager
def _reporting_interrupts(report: Callable[[Path], None]) -> Iterator[list[Path]]:
    """Report what was found and tried before an interrupt; yields a list to add the recording
    to, once there is one.
    """
    made: list[Path] = []
    try:
        yield made
    except KeyboardInterrupt:
        if made:
            report(made[0])
            if (made[0] / FIXES_FILE).is_file():
                raise KeyboardInterrupt("The same command goes on.") from None
        raise


def _write_patch(treated: SearchResult) -> None:
    """Write the edits byte for byte, whatever the files' encodings."""
    from graphdoctor.fixes.patch import unified_bytes

    sys.stdout.flush()
    for change in treated.changes or treated.suggested:
        name = Path(relative(str(change.path), Path.cwd())).as_posix()
        sys.stdout.buffer.write(unified_bytes(change.before, change.after, name.lstrip("/")))
    sys.stdout.flush()


_CHANGES: dict[ChangeKind, str] = {
    "file": "{} changed",
    "modules": "modules were added to {} or removed from it",
    "variable": "the environment variable {} changed",
    "interpreter": "it was with another interpreter",
    "folder": "it was in {}",
    "options": "{} changed",
    "network": "the program talks to a network, and may get something else now",
    "processes": "the program forks processes, and what they read isn't known",
    "reads": "what the program reads isn't known",
}
"""Why verdicts prove nothing any more, as a clause."""


def _said_before(before: EarlierTrials) -> str:
    ago, recording = about_time(before.age_s), f"{before.recording.name} (--again tries anew)"
    if before.trials is not None:
        return f"Going on with the trials of {ago} ago: {recording}."
    if before.result is not None:
        return f"Tried {ago} ago, and nothing changed since: {recording}."
    change = before.change
    if change is None:
        why = "its recording changed"
    else:
        name = (
            _flags(change.name) if change.kind == "options" else relative(change.name, Path.cwd())
        )
        why = _CHANGES[change.kind].format(name)
    return f"Rerunning the trials of {ago} ago: {why}."


def _flags(fields: str) -> str:
    flag_names = {
        "is_timed": "no-timing",
        "is_unsafe_tried": "unsafe-fixes",
        "is_own_code_only": "own-code",
        "inputs": "input",
        "options": "option",
    }
    return ", ".join(
        f"--{flag_names.get(name, name).replace('_', '-')}" for name in fields.split(",")
    )


def _wrote(treated: SearchResult, *, is_rest_shown: bool) -> Iterator[str]:
    yield from (f"Wrote {change.path}" for change in treated.changes)
    if not treated.changes:
        yield "There is nothing to write."
    by_hand = [] if is_rest_shown else applied_snippets(treated.treatment, is_by_hand=True)
    if by_hand:
        yield "Not written, because it isn't an edit:"
    for place, snippet in by_hand:
        yield from (
            *([f"  {place}:"] if place else []),
            *(f"    {line}" for line in snippet.splitlines()),
        )


def _print_rest(treatment: Treatment) -> None:
    for _, snippet in applied_snippets(treatment, is_by_hand=True):
        say("Set yourself:", *snippet.splitlines())
    for left in treatment.left:
        say(f"{left.place}: {left.code} {left.message}", f"    still there: {left_text(left)}")
    for note in treatment.notes:
        say(f"Note: {reason_text(note)}")
