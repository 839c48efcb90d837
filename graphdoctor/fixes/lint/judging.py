"""What counts of the findings in a project's files.

Comes in: findings, and the policies of the gate's targets. Goes out: which findings are new, which the baseline knows,
and which are ignored. Nobody knows which target runs a line, so the most lenient policy counts: where ``check`` passes,
``lint`` passes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphdoctor.facts.check import fails
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.rules.gate.check import Policy
from graphdoctor.rules.gate.ignores import ignored_by
from graphdoctor.rules.gate.known import known_in


@dataclass(frozen=True)
class Judged:
    """Findings by what counts.

    Args:
        new: The ones that are neither known nor ignored.
        failing_count: How many of them fail.
        known: The ones that the baseline knows.
        ignored_count: How many a setting or a path pattern leaves out.
    """

    new: tuple[Finding, ...]
    failing_count: int
    known: tuple[Finding, ...]
    ignored_count: int


def judged(findings: Sequence[Finding], policies: Sequence[Policy]) -> Judged:
    """Sort findings by the policies of all targets.

    Args:
        findings: Findings whose files are relative to the project's folder, without those that a comment ignores.
        policies: What targets are judged by; at least one.
    """
    counting = [finding for finding in findings if not any(_is_ignored(finding, policy) for policy in policies)]
    baselines = [policy.baseline for policy in policies if policy.baseline is not None]
    known = known_in(baselines[0], counting) if baselines else ()
    new = tuple(finding for finding in counting if finding not in known)
    failing = [finding for finding in new if all(fails(finding, policy.fail_on) for policy in policies)]
    return Judged(new, len(failing), known, len(findings) - len(counting))


def _is_ignored(finding: Finding, policy: Policy) -> bool:
    return ignored_by(finding, comments={}, paths=policy.paths, selection=policy.selection) is not None
