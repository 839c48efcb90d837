"""Which findings to show: code prefixes in, a yes or no for each finding out."""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.facts.diagnosis import Finding


@dataclass(frozen=True)
class Selection:
    """Which findings to show.

    Args:
        select: Code prefixes to show; empty for all.
        ignore: Code prefixes to leave out.
        is_own_code_only: Leave out findings in installed packages.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    is_own_code_only: bool = False

    def keeps(self, finding: Finding) -> bool:
        """Whether a finding is shown."""
        if self.select and not finding.code.startswith(self.select):
            return False
        if self.ignore and finding.code.startswith(self.ignore):
            return False
        return not self.is_own_code_only or finding.location.origin == "user"
