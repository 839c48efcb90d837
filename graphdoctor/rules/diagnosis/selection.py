"""Selection of findings: code prefixes in, a yes or no for each finding out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.diagnosis import Finding


@dataclass(frozen=True)
class Selection:
    """Selection of findings to show.

    Args:
        select: Code prefixes to show; empty for all.
        ignore: Code prefixes to leave out.
        is_own_code_only: Leave out findings in installed packages.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    is_own_code_only: bool = False

    def keeps(self, finding: Finding) -> bool:
        """Return whether a finding is shown."""
        if self.select and not finding.code.startswith(self.select):
            return False
        if self.ignore and finding.code.startswith(self.ignore):
            return False
        return not self.is_own_code_only or finding.location.origin == "user"


def code_prefixes(texts: Sequence[str]) -> tuple[str, ...]:
    """Code prefixes, comma-separated ones too; rules are imported only when there are any.

    Raises:
        GraphDoctorError: No rule's code begins with one of them.
    """
    chosen = tuple(
        part.strip().upper() for text in texts for part in text.split(",") if part.strip()
    )
    if not chosen:
        return ()
    from graphdoctor.rules.catalog import ALL_RULES

    for prefix in chosen:
        if not any(code.startswith(prefix) for code in ALL_RULES):
            raise GraphDoctorError(
                f"No rule's code begins with {prefix!r}.", hint="graphdoctor rule lists the rules."
            )
    return chosen
