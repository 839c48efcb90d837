"""What the gate allows: the findings of runs to a new baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.gate.baseline import Baseline, Update, release, updated
from graphdoctor.gate.check import Policy, sort_findings, trouble_of

if TYPE_CHECKING:
    from graphdoctor.config import Project
    from graphdoctor.model.diagnosis import Finding
    from graphdoctor.runs.check import Chosen, Ran


@dataclass(frozen=True)
class Trouble:
    """A target that gave nothing to write down.

    Args:
        name: Its name.
        error: Why.
        hint: What to do about it.
    """

    name: str
    error: str
    hint: str | None


def troubles_of(ran: Sequence[Ran]) -> Iterator[Trouble]:
    """The targets that didn't run to their end."""
    for found in ran:
        name = found.target.name
        if found.diagnosis is None:
            yield Trouble(name, found.error or "It could not be run.", found.hint)
        elif (error := trouble_of(found.diagnosis)) is not None:
            yield Trouble(name, error, found.diagnosis.exit.hint)


def updated_baseline(
    before: Baseline | None, ran: Sequence[Ran], judged_by: Mapping[str, Policy], *, project: Project, chosen: Chosen
) -> Update:
    """The baseline with what the runs found.

    Args:
        before: The baseline as it is; None without one.
        ran: Targets that all ran to their end.
        judged_by: The policy of each, by name.
        project: The project.
        chosen: Which targets ran: when they are all that are configured, entries of others are dropped.
    """
    is_whole = chosen.targets == project.targets and not chosen.skipped
    return updated(
        before or Baseline(),
        _found(ran, judged_by),
        configured=[target.name for target in project.targets] if is_whole else None,
    )


def _found(ran: Sequence[Ran], judged_by: Mapping[str, Policy]) -> dict[str, tuple[str, tuple[Finding, ...]]]:
    """Of each target, the torch that ran and the findings that count."""
    return {
        found.target.name: (
            release(found.diagnosis.environment.torch or ""),
            sort_findings(found.diagnosis, found.comments, judged_by[found.target.name]).counting,
        )
        for found in ran
        if found.diagnosis is not None
    }
