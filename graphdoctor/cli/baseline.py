"""``graphdoctor baseline``: write down what the gate allows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.gating import RunOptions, TargetsArgument
from graphdoctor.cli.options import with_options
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphdoctor.cli.gating import Ran
    from graphdoctor.gate.baseline import Update
    from graphdoctor.gate.check import Policy
    from graphdoctor.model.check import BaselineEntry
    from graphdoctor.model.diagnosis import Finding


@with_options
def baseline(
    run: RunOptions,
    targets: TargetsArgument = None,
    is_update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Write over an existing file: the findings of the targets that are run, under the torch that runs, "
            "are replaced, targets that are no longer configured are dropped, and all else stays.",
        ),
    ] = False,
    path: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            help="The file; by default graphdoctor-baseline.json beside pyproject.toml.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the configured targets and write their findings to a file that `graphdoctor check` allows.

    Commit the file and review its changes like code. Nothing is written when a target cannot be run to its end.
    """
    from graphdoctor.cli.files import check_writable
    from graphdoctor.cli.gating import choose_targets, policies, read_baseline_at, run_targets
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_project
    from graphdoctor.gate.baseline import Baseline, updated, write_baseline
    from graphdoctor.render.file import write_file

    project = load_project(Path.cwd())
    file = (path or project.baseline).absolute()
    if file.exists() and not is_update:
        raise GraphDoctorError(
            f"{file} exists.", hint="graphdoctor baseline --update writes what holds now and says what changes."
        )
    check_writable(file, force=True)
    before = read_baseline_at(file)
    chosen = choose_targets(project, targets or ())
    judged_by = policies(chosen.targets, project)
    ran = run_targets(chosen.targets, project, run)
    if troubles := [(found, *trouble) for found in ran if (trouble := _trouble(found)) is not None]:
        for found, error, hint in troubles:
            complain(f"{found.target.name}: {error}", hint)
        raise GraphDoctorError(f"{file} was not written: {len(troubles)} of {len(ran)} targets crashed.")
    is_whole = not targets and not chosen.skipped
    update = updated(
        before or Baseline(),
        _found(ran, judged_by),
        configured=[target.name for target in project.targets] if is_whole else None,
    )
    write_file(write_baseline(update.baseline), file)
    if not run.quiet:
        print(f"Wrote {file}", file=sys.stderr)
    _say(update)


def _trouble(ran: Ran) -> tuple[str, str | None] | None:
    """Why a target tells nothing to write down, and what to do about it."""
    from graphdoctor.gate.check import trouble_of

    if ran.diagnosis is None:
        return ran.error or "It could not be run.", ran.hint
    trouble = trouble_of(ran.diagnosis)
    return None if trouble is None else (trouble, ran.diagnosis.exit.hint)


def _found(ran: Sequence[Ran], judged_by: Mapping[str, Policy]) -> dict[str, tuple[str, tuple[Finding, ...]]]:
    """Of each target the torch that ran and the findings that count."""
    from graphdoctor.gate.baseline import release
    from graphdoctor.gate.check import sort_findings

    return {
        found.target.name: (
            release(found.diagnosis.environment.torch or ""),
            sort_findings(found.diagnosis, found.comments, judged_by[found.target.name]).counting,
        )
        for found in ran
        if found.diagnosis is not None
    }


def _say(update: Update) -> None:
    """What was added and dropped, on standard output."""
    from graphdoctor.render.printable import printable
    from graphdoctor.render.words import counted

    lines = []
    for name, added in update.added.items():
        dropped = update.dropped[name]
        lines.append(f"{name}: {counted(len(added), 'finding')} added, {len(dropped)} dropped")
        lines += [f"  + {_entry_text(entry)}" for entry in added]
        lines += [f"  - {_entry_text(entry)}" for entry in dropped]
    lines += [f"{name}: dropped, it is no longer configured" for name in update.dropped_targets]
    print(printable("\n".join(lines)))


def _entry_text(entry: BaselineEntry) -> str:
    return f"{entry.code} {entry.file} {entry.function}  {entry.text or entry.message}"
