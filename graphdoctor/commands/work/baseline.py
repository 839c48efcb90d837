"""What the gate allows: the findings of runs to a new baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.rules.gate.baseline import Baseline, Found, Update, release, run_of, updated
from graphdoctor.rules.gate.check import Policy, empty_text, known_run, sort_findings, trouble_of

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Project
    from graphdoctor.commands.work.check import Chosen, Ran


@dataclass(frozen=True)
class Trouble:
    """A target that gave nothing to write down."""

    name: str
    error: str
    hint: str | None


def troubles_of(ran: Sequence[Ran], before: Baseline | None, *, is_empty_allowed: bool) -> Iterator[Trouble]:
    """The targets that give nothing to write down: those that didn't run to their end or compiled nothing."""
    for found in ran:
        name = found.target.name
        if found.diagnosis is None:
            yield Trouble(name, found.error or "It could not be run.", found.hint)
        elif (error := trouble_of(found.diagnosis)) is not None:
            yield Trouble(name, error, found.diagnosis.recording.exit.hint)
        elif not is_empty_allowed and (empty := empty_text(found.diagnosis, known_run(before, name, found.diagnosis))):
            yield Trouble(name, empty, "--allow-empty writes it down nevertheless.")


def updated_baseline(
    before: Baseline | None, ran: Sequence[Ran], judged_by: Mapping[str, Policy], *, project: Project, chosen: Chosen
) -> Update:
    """The baseline with what the runs found."""
    is_whole = chosen.targets == project.targets and not chosen.skipped
    return updated(
        before or Baseline(),
        _found(ran, judged_by),
        configured=[target.name for target in project.targets] if is_whole else None,
    )


def _found(ran: Sequence[Ran], judged_by: Mapping[str, Policy]) -> dict[str, Found]:
    """Of each target, the torch that ran, the findings that count and what was measured."""
    return {
        found.target.name: Found(
            release(found.diagnosis.recording.environment.torch or ""),
            sort_findings(found.diagnosis, found.comments, judged_by[found.target.name]).counting,
            run_of(found.diagnosis),
        )
        for found in ran
        if found.diagnosis is not None
    }
