"""What ``fix --unsafe-fixes`` does for the programs in ``awkward/``: how many of their own break
sites end gone.

python -m tests.fixes.awkward_results [NAME …]    # prints the table of docs/guide/fix-results.md
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Imported, run_command
from tests.factories import why_left

PROGRAMS = Path(__file__).parent / "awkward"
_PACKAGES = re.compile(r"^(from|import) (transformers|torch_geometric)\b", re.MULTILINE)
HEAD = "| program | break sites | gone | what is left, and why |\n|---|---|---|---|"


@dataclass(frozen=True)
class Result:
    """One program after ``fix --unsafe-fixes``.

    A site is a line of the program with one cause, also one that showed only once another was gone.
    It is gone if a fix that is applied at the end was verified for it.
    """

    name: str
    gone: int
    left: tuple[str, ...]
    treatment: dict[str, Any]

    @property
    def sites(self) -> int:
        return self.gone + len(self.left)

    @property
    def row(self) -> str:
        left = "<br>".join(self.left).replace("|", "\\|") or "nothing"
        return f"| `{self.name}` | {self.sites} | {self.gone} | {left} |"


def names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def result_of(name: str, folder: Path) -> Result:
    """Try fixes for a program's own breaks; sites in packages don't count."""
    program = Path(shutil.copy(PROGRAMS / f"{name}.py", folder))
    imported: Imported = (
        "packages" if _PACKAGES.search(program.read_text(encoding="utf-8")) else "torch"
    )
    target, output = f"{name}.py", folder / "fix.json"
    options = ("--unsafe-fixes", "--no-timing", "--quiet", "--force")
    done = run_command(
        "fix", target, *options, "-o", output, cwd=folder, timeout=3600, imported=imported
    )
    assert output.is_file(), done.stderr
    treatment = json.loads(output.read_text())["recording"]["treatment"]
    own = [case for case in treatment["tried"] if _is_own_break(case, target)]
    gone = {
        case["fingerprint"] for case in own if case["is_applied"] and case["verdict"] == "verified"
    }
    left = [finding for finding in treatment["left"] if _is_own_break(finding, target)]
    lines = sorted(
        f"{found['code']} at line {found['place'].rpartition(':')[2]}: {why_left(found)}"
        for found in left
    )
    return Result(name, len(gone), tuple(lines), treatment)


def total(results: Iterable[tuple[int, int]]) -> str:
    """How many of all sites are gone, as the page says it."""
    sites, gone = (sum(numbers) for numbers in zip(*results, strict=True))
    return f"{gone} of {sites} break sites are gone"


def _is_own_break(finding: dict[str, Any], target: str) -> bool:
    is_break = finding["code"].startswith("GD1") and finding["code"] != "GD111"
    place = finding.get("finding_place") or finding["place"]
    return is_break and place.startswith(f"{target}:")


def main() -> None:
    print(HEAD)
    results = []
    for name in sys.argv[1:] or names():
        with tempfile.TemporaryDirectory() as folder:
            results.append(result_of(name, Path(folder)))
        print(results[-1].row, flush=True)
    print(f"\n{total((result.sites, result.gone) for result in results)}")


if __name__ == "__main__":
    main()
