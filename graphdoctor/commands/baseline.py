"""``graphdoctor baseline``: write down what the gate allows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.gating import RunOptions, TargetsArgument
from graphdoctor.commands.options import with_options
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option

if TYPE_CHECKING:
    from graphdoctor.facts.check import BaselineEntry
    from graphdoctor.rules.gate.baseline import Update


@with_options
def baseline(
    run: RunOptions,
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
        None, "The file. By default, graphdoctor-baseline.json beside pyproject.toml.", flag="--baseline"
    ),
) -> None:
    """Run the configured targets and allow the findings they have.

    They go to a file that check compares with. Commit the file and review its changes like code.

    Nothing is written if a target can't be run to its end, or if torch compiled nothing in it.
    """
    from graphdoctor.commands.gating import run_all
    from graphdoctor.commands.output import check_writable, write_content
    from graphdoctor.commands.running import this_project
    from graphdoctor.commands.terminal import complain
    from graphdoctor.commands.work.baseline import troubles_of, updated_baseline
    from graphdoctor.commands.work.check import choose_targets, policies, read_baseline_at
    from graphdoctor.rules.gate.baseline import write_baseline

    project = this_project(run.recordings)
    file = (path or project.baseline).absolute()
    if file.exists() and not is_update:
        raise GraphDoctorError(
            f"{file} exists.", hint="graphdoctor baseline --update brings it up to date and says what changed."
        )
    check_writable(file, force=True)
    before = read_baseline_at(file)
    chosen = choose_targets(project, targets or ())
    judged_by = policies(chosen.targets, project)
    ran = run_all(chosen, project, run)
    if troubles := list(troubles_of(ran, before, is_empty_allowed=is_empty_allowed)):
        for trouble in troubles:
            complain(f"{trouble.name}: {trouble.error}", trouble.hint)
        raise GraphDoctorError(f"{file} was not written: {len(troubles)} of {len(ran)} targets can't be written down.")
    update = updated_baseline(before, ran, judged_by, project=project, chosen=chosen)
    write_content(write_baseline(update.baseline), file, is_quiet=run.quiet)
    _show(update)


def _show(update: Update) -> None:
    """What was added and dropped, on standard output."""
    from graphdoctor.commands.terminal import say_result
    from graphdoctor.facts.wording import counted
    from graphdoctor.views.words import run_changes

    lines = []
    for name, added in update.added.items():
        dropped = update.dropped[name]
        lines.append(f"{name}: {counted(len(added), 'finding')} added, {len(dropped)} dropped")
        lines += [f"  {text}" for text in run_changes(update.before.get(name), update.found[name].run)]
        lines += [f"  + {_entry_text(entry)}" for entry in added]
        lines += [f"  - {_entry_text(entry)}" for entry in dropped]
    lines += [f"{name}: dropped, as it is no longer configured" for name in update.dropped_targets]
    say_result(*lines)


def _entry_text(entry: BaselineEntry) -> str:
    return f"{entry.code} {entry.file} {entry.function}  {entry.text or entry.message}"
