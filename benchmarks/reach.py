"""How many break sites of programs as people write them ``fix --unsafe-fixes`` removes; writes the
table of ``docs/guide/fix-results.md``.

A site is a line of a program with one cause, also one that showed only once another was gone. It is
gone if a fix that is applied at the end was verified for it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from benchmarks.overhead import graphdoctor
from benchmarks.process import run
from benchmarks.rows import Share
from tests.factories import why_left

_ROOT = Path(__file__).resolve().parent.parent
_PROGRAMS = _ROOT / "tests" / "fixes" / "programs"
_PAGE = _ROOT / "docs" / "guide" / "fix-results.md"
_TABLE = re.compile(r"\| program \|.*?\n\n", re.DOTALL)
_TOTAL = re.compile(r"\d+ of \d+ break\s+sites are gone")
_CLEAN = re.compile(r"In \d+ more programs")
_HEAD = "| program | break sites | gone | what is left, and why |\n|---|---|---|---|\n"
_QUICK_COUNT = 1


def measure(*, is_quick: bool, folder: Path) -> list[Share]:
    """Fix each program; unless one alone is asked for, write the page.

    Args:
        is_quick: One program only.
        folder: Where to run.
    """
    table, gone_count, count, clean_count = _HEAD, 0, 0, 0
    for path in sorted(_PROGRAMS.glob("*.py"))[: _QUICK_COUNT if is_quick else None]:
        gone, left = _fix(path, folder)
        gone_count, count = gone_count + gone, count + gone + len(left)
        if left:
            why = "<br>".join(left).replace("|", "\\|")
            table += f"| `{path.stem}` | {gone + len(left)} | {gone} | {why} |\n"
        else:
            clean_count += 1
    if not is_quick:
        page = _TABLE.sub(lambda _: f"{table}\n", _PAGE.read_text(encoding="utf-8"), count=1)
        page = _TOTAL.sub(f"{gone_count} of {count} break sites are gone", page, count=1)
        page = _CLEAN.sub(f"In {clean_count} more programs", page, count=1)
        _PAGE.write_text(page, encoding="utf-8")
    return [Share("break sites that `fix --unsafe-fixes` removes", "", gone_count, count, 0.9)]


def _fix(path: Path, folder: Path) -> tuple[int, list[str]]:
    program = shutil.copy(path, folder)
    options = ["--unsafe-fixes", "--no-timing", "--quiet", "--force", "-o", "fix.json"]
    run([*graphdoctor(), "fix", program, *options], cwd=folder)
    treatment = json.loads((folder / "fix.json").read_text())["recording"]["treatment"]
    tried, left = (
        [one for one in treatment[name] if _is_own_break(one, path.name)]
        for name in ("tried", "left")
    )
    gone = {
        one["fingerprint"] for one in tried if one["is_applied"] and one["verdict"] == "verified"
    }
    reasons = (
        f"{one['code']} at line {one['place'].rpartition(':')[2]}: {why_left(one)}" for one in left
    )
    return len(gone), sorted(reasons)


def _is_own_break(finding: dict[str, Any], file: str) -> bool:
    is_break = finding["code"].startswith("GD1") and finding["code"] != "GD111"
    place: str = finding.get("finding_place") or finding["place"]
    return is_break and place.startswith(f"{file}:")
