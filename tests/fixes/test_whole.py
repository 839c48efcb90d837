"""What became of each break site, by the fixes that it needed."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import LeftFinding, SiteCounts, TriedFix
from graphdoctor.fixes.results import count_sites
from tests.factories import diagnosed, entry, record, recording


def sites(*lines: int) -> list[Finding]:
    """A break at each line."""
    breaks = tuple(
        record(entry(line, f'print("{line}")'), compile_id=f"{number}/0")
        for number, line in enumerate(lines)
    )
    return list(diagnosed(recording(breaks=breaks)).findings)


def tried(site: Finding | None, line: int = 0, **values: Any) -> TriedFix:
    told: dict[str, Any] = {
        "title": "Fix it", "kind": "code", "code": "GD101", "grade": "merged", "round": 1, "is_applied": True,
        "fingerprint": site.fingerprint if site else f"later{line}", "is_on_untouched": site is not None,
        "finding_place": f"model.py:{site.location.line if site else line}", "verdict": "verified",
    }  # fmt: skip
    return TriedFix(**{**told, **values})


def counted(
    found: list[Finding], gone: int, *fixes: TriedFix, left: tuple[int, ...] = (), diff: str = ""
) -> SiteCounts:
    """Count, with the first of the findings gone."""
    prints = [finding.fingerprint for finding in found[:gone]]
    rest = [LeftFinding(code="GD101", place=f"model.py:{line}", message="") for line in left]
    return count_sites(found, prints, fixes, rest, diff)


def test_each_site_has_the_grade_of_its_fix() -> None:
    a, b, c = found = sites(1, 2, 3)
    contained = tried(c, verdict="contained", grade="contained")
    counts = counted(found, 2, tried(a), tried(b, grade="guarded"), contained)
    assert (counts.merged, counts.guarded, counts.contained, counts.left) == (1, 1, 1, 0)


def test_site_that_needed_two_fixes_has_the_worse_grade() -> None:
    [a] = found = sites(1)
    counts = counted(found, 1, tried(a), tried(a, grade="guarded"))
    assert (counts.merged, counts.guarded) == (0, 1)


def test_site_that_goes_with_the_fix_of_another_has_its_grade() -> None:
    a, b = found = sites(1, 2)
    counts = counted(found, 2, tried(a, grade="guarded", sites_gone=(a.site, b.site)))
    assert counts.guarded == 2


def test_fix_that_is_not_applied_counts_for_nothing() -> None:
    [a] = found = sites(1)
    assert counted(found, 0, tried(a, is_applied=False), left=(1,)) == SiteCounts(left=1)


def test_function_that_torch_no_longer_compiles_is_contained_though_its_break_is_gone() -> None:
    [a] = found = sites(1)
    assert counted(found, 1, tried(a, grade="contained")) == SiteCounts(contained=1)


def test_sites_that_showed_later_count_once() -> None:
    [a] = found = sites(1)
    later = tried(None, 7)
    counts = counted(found, 1, tried(a), later, later, left=(9,))
    assert (counts.merged, counts.left, counts.total) == (2, 1, 3)


def test_what_showed_at_the_same_line_is_no_other_site() -> None:
    [a] = found = sites(1)
    assert counted(found, 1, tried(a), tried(None, 1)).total == 1


def test_loss_and_changed_lines_are_counted() -> None:
    [a] = found = sites(1)
    diff = "--- a/m.py\n+++ b/m.py\n@@ -1 +1,2 @@\n-print(1)\n+if x:\n+    print(1)\n"
    fix = tried(a, verdict="verified with loss", grade="guarded")
    assert counted(found, 1, fix, diff=diff) == SiteCounts(guarded=1, lossy=1, changed_lines=3)
