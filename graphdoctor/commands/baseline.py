"""``graphdoctor baseline``: write down what the gate allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from graphdoctor.commands.gate_runs import Ran, run_all
from graphdoctor.commands.gating import TargetsArgument, choose_targets, policies, read_baseline_at
from graphdoctor.commands.options import ProcessOptions, ShownOptions, with_options
from graphdoctor.commands.output import check_writable, write_content
from graphdoctor.commands.running import this_project
from graphdoctor.commands.terminal import complain, say, say_result
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import BaselineEntry
from graphdoctor.facts.spec import option
from graphdoctor.rules.gate.baseline import (
    Baseline,
    Found,
    Update,
    release,
    run_of,
    updated,
    write_baseline,
)
from graphdoctor.rules.gate.check import Policy, empty_text, known_run, sort_findings, trouble_of
from graphdoctor.wording import counted


def _troubles(
    ran: Sequence[Ran], before: Baseline | None, *, is_empty_allowed: bool
) -> Iterator[tuple[str, str | None]]:
    """Of targets that give nothing to write down, because they ended early or compiled nothing:
    why, and a hint.
    """
    for found in ran:
        name = found.target.name
        if found.diagnosis is None:
            yield f"{name}: {found.error}", found.hint
        elif (error := trouble_of(found.diagnosis)) is not None:
            yield f"{name}: {error}", found.diagnosis.recording.exit.hint
        elif not is_empty_allowed and (
            empty := empty_text(found.diagnosis, known_run(before, name, found.diagnosis))
        ):
            yield f"{name}: {empty}", "--allow-empty writes it down nevertheless."


def _found(ran: Sequence[Ran], judged_by: Mapping[str, Policy]) -> dict[str, Found]:
    return {
        found.target.name: Found(
            release(found.diagnosis.recording.environment.torch or ""),
            sort_findings(found.diagnosis, found.comments, judged_by[found.target.name])[0],
            run_of(found.diagnosis),
        )
        for found in ran
        if found.diagnosis is not None
    }


@with_options
def baseline(
    run: ProcessOptions,
    targets: TargetsArgument = None,
    is_update: bool = option(
        False,
        "Update an existing file: replace the findings of the targets that run, for the torch that runs; drop "
        "targets that are no longer configured; keep everything else.",
        flag="--update",
    ),
    is_empty_allowed: bool = option(
        False,
        "Also write down a target in which torch compiled nothing: its findings and graphs are then gone.",
        flag="--allow-empty",
    ),
    path: Path | None = option(
        None,
        "The file. By default, graphdoctor-baseline.json beside pyproject.toml.",
        flag="--baseline",
    ),
) -> None:
    """Run the configured targets and allow the findings they have.

    They go to a file that check compares with. Commit the file and review its changes like code.

    Nothing is written if a target can't be run to its end, or if torch compiled nothing in it.

    Examples:
        graphdoctor baseline: allow what is there now
        graphdoctor baseline --update: after something was fixed
    """
    project = this_project(run.recordings)
    file = (path or project.baseline).absolute()
    if file.exists() and not is_update:
        raise GraphDoctorError(
            f"{file} exists.",
            hint="graphdoctor baseline --update brings it up to date and says what changed.",
        )
    check_writable(file, force=True)
    before = read_baseline_at(file)
    chosen = choose_targets(project, targets or ())
    judged_by = policies(chosen.targets, project, shown=ShownOptions())
    ran = run_all(chosen.targets, project, run)
    if troubles := list(_troubles(ran, before, is_empty_allowed=is_empty_allowed)):
        for trouble in troubles:
            complain(*trouble)
        raise GraphDoctorError(
            f"{file} was not written: {len(troubles)} of {len(ran)} targets can't be written down."
        )
    is_whole = chosen.targets == project.targets and not chosen.skipped
    update = updated(
        before or Baseline(),
        _found(ran, judged_by),
        configured=[target.name for target in project.targets] if is_whole else None,
    )
    write_content(write_baseline(update.baseline), file, is_quiet=run.quiet)
    _show(update)


def _show(update: Update) -> None:
    from graphdoctor.views.annotations import run_changes

    lines = []
    for name, added in update.added.items():
        dropped = update.dropped[name]
        lines.append(f"{name}: {counted(len(added), 'finding')} added, {len(dropped)} dropped")
        lines += [
            f"  {text}" for text in run_changes(update.before.get(name), update.found[name].run)
        ]
        lines += [f"  + {_entry_text(entry)}" for entry in added]
        lines += [f"  - {_entry_text(entry)}" for entry in dropped]
    lines += [f"{name}: dropped, as it is no longer configured" for name in update.dropped_targets]
    say_result(*lines)
    say("Next: graphdoctor check")


def _entry_text(entry: BaselineEntry) -> str:
    return f"{entry.code} {entry.file} {entry.function}  {entry.text or entry.message}"
