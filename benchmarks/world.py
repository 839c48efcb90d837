"""What ``fix --unsafe-fixes --apply`` makes of programs as people write them, judged by plain torch
(``judge.py``), which knows nothing of graphdoctor.

A site is a line of a program where torch breaks, also one that shows only once another is gone. A
site that is gone is *merged* if the edit has one code path, *guarded* if it took a setting or a
branch on compiling, *contained* if what was compiled isn't traced any more. In a program that
torch takes whole under ``fullgraph=True`` no site is left. If results differ in eager mode, nothing
counts as gone.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from benchmarks.overhead import graphdoctor
from benchmarks.rows import Share
from graphdoctor.facts.fixes import LeftFinding
from graphdoctor.facts.reading import read_fact
from graphdoctor.views.reasons import left_text

_HERE = Path(__file__).resolve().parent
_PAGE = _HERE.parent / "docs" / "guide" / "fix-results.md"
_TABLE = re.compile(r"\| programs \|.*?\n\n", re.DOTALL)
_HEAD = "| programs | break sites | one code path | setting or guard | break stays | left |\n"
_HEAD += "|---|---|---|---|---|---|\n"
_LIMIT_S = 900
_QUICK_COUNT = 1

_MARKS = {
    "disable": r"compiler\.disable|_dynamo\.disable|@_?disable|decorators\.skip",
    "guard": r"is_compiling|is_dynamo_compiling",
    "setting": r"compiler\.config\.|_dynamo\.config\.|_(?:dy|in)ductor\.config\.|set_stance",
}
"""What a maintainer doesn't merge, by what a line that an edit added has."""

CORPORA = {
    "world": _HERE / "world",
    "set-aside": _HERE / "world" / "set_aside",
    "held-out": _HERE / "world" / "held_out",
    "reach": _HERE.parent / "tests" / "fixes" / "programs",
}
"""Folders of programs by part; in each one ``sites.json`` says how many sites a program has."""


@dataclass(frozen=True)
class Fixed:
    """What became of one program.

    Args:
        name: The program.
        count: Its sites.
        merged: Sites that are gone by grade; the next two likewise.
        changed_count: Lines that were added or removed.
        took_s: How long ``fix`` took.
        attacks: On how many inputs made to break it the edit was compared.
        eager_ratio: How long an eager call takes, as a share of before; None if it wasn't timed.
        is_one_graph: Whether ``fullgraph=True`` accepts every call.
        is_same: Whether eager results and what is printed, logged and warned are the same.
        left: The sites left, as plain torch names them.
        why: Why ``fix`` left findings, in its words.
        judged: Everything that the judge said.
    """

    name: str
    count: int
    merged: int
    guarded: int
    contained: int
    changed_count: int
    took_s: float
    attacks: int
    eager_ratio: float | None
    is_one_graph: bool
    is_same: bool
    left: Sequence[str]
    why: Sequence[str]
    judged: dict[str, Any]

    @property
    def gone(self) -> int:
        """Sites of all grades."""
        return self.merged + self.guarded + self.contained

    def as_share(self) -> Share:
        """The row of the table."""
        said = f"{self.guarded} guarded, {self.contained} contained, {len(self.left)} left"
        ratio = "" if self.eager_ratio is None else f", eager {self.eager_ratio:.2f}x"
        said += f", {self.changed_count} lines, {self.took_s:.0f} s, {self.attacks} attacks{ratio}"
        details = {"fixed": [json.dumps(asdict(self))]}
        said += "" if self.is_same else ", RESULTS DIFFER"
        return Share(f"{self.name}: merged", said, self.merged, self.count, 0.7, details)


def measure(part: str, *, is_quick: bool, folder: Path, names: Sequence[str] = ()) -> list[Share]:
    """Fix the programs of a corpus; all of ``reach`` also writes ``docs/guide/fix-results.md``.

    Args:
        part: A key of ``CORPORA``.
        is_quick: One program only.
        folder: Where to run.
        names: The programs to fix; all if there is none.
    """
    paths = sorted(CORPORA[part].glob("*.py"))
    chosen = [path for path in paths if not names or path.stem in names]
    results: list[Fixed] = []
    rows: list[Share] = []
    for path in chosen[: _QUICK_COUNT if is_quick else None]:
        results.append(fix(path, folder / path.stem))
        rows.append(results[-1].as_share())
        print(*rows[-1].cells()[:3], sep=": ", file=sys.stderr)
    if part == "reach" and len(results) == len(paths):
        write_page(results)
    return rows + summary(part, results)


def summary(part: str, results: Sequence[Fixed]) -> list[Share]:
    """What the programs of a corpus say together."""
    count, changed = len(results), [one for one in results if one.changed_count]
    sites = sum(one.count for one in results)
    grades = [sum(getattr(one, name) for one in results) for name in ("guarded", "contained")]
    per_site = [one.changed_count / max(one.gone, 1) for one in changed]
    lines = [one.changed_count for one in changed]
    times = [one.eager_ratio for one in changed if one.eager_ratio is not None]
    took = f"{statistics.median(one.took_s for one in results):.0f} s in the median"
    merged = sum(one.merged for one in results)
    clean = sum(one.is_one_graph and one.merged == one.count for one in results)
    graded = f"{grades[0]} guarded, {grades[1]} contained, {took}"
    most = f"median {statistics.median(lines)}, most {max(lines)}" if lines else ""
    slowest = f"median {statistics.median(times):.2f}, most {max(times):.2f}" if times else ""
    return [
        Share(f"{part}: sites merged", graded, merged, sites, 0.7),
        Share(f"{part}: in one graph", "", sum(one.is_one_graph for one in results), count, 0.6),
        Share(f"{part}: in one graph by merged edits", "", clean, count, 0.6),
        Share(
            f"{part}: sites gone that break under fullgraph=True, too",
            "",
            *_gone_when_captured(results),
            0.7,
        ),
        Share(f"{part}: results kept", "", sum(one.is_same for one in results), count, 1),
        Share(
            f"{part}: at most 4 changed lines a site",
            most,
            sum(value <= 4 for value in per_site),
            len(per_site),
            0.5,
        ),
        Share(
            f"{part}: eager at most 1.1 times as long",
            slowest,
            sum(value <= 1.1 for value in times),
            len(times),
            1,
        ),
    ]


def _gone_when_captured(results: Sequence[Fixed]) -> tuple[int, int]:
    """How many sites are gone, and how many there were, where torch captures numbers and dynamic
    shapes, as it does under ``fullgraph=True``; an edit that changes results removes none.
    """
    gone, count = 0, 0
    for one in results:
        before = one.judged.get("before_captured", [])
        after = one.judged.get("after_captured", before) if one.is_same else before
        gone, count = gone + max(0, len(before) - len(after)), count + len(before)
    return gone, count


def fix(path: Path, folder: Path, command: Sequence[str] = ()) -> Fixed:
    """Fix a copy of a program and judge it.

    Args:
        path: The program.
        folder: Where the copy is made; other modules beside the program are copied, too.
        command: What starts graphdoctor; the command of this environment if there is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(shutil.copy(path, folder))
    options = ["--unsafe-fixes", "--apply", "--no-timing", "--quiet", "--force", "-o", "fix.json"]
    options += ["--budget", "150"]
    started = time.perf_counter()
    with (folder / "fix.txt").open("w") as said:
        subprocess.run(
            [*(command or graphdoctor()), "fix", program.name, *options],
            cwd=folder,
            stdout=said,
            stderr=said,
            timeout=_LIMIT_S,
            check=False,
        )
    return judge(path, program, folder / "fix.json", took_s=time.perf_counter() - started)


def judge(path: Path, program: Path, document: Path, *, took_s: float) -> Fixed:
    """Count what plain torch finds in a program after an edit.

    Args:
        path: The program before.
        program: The program after.
        document: What ``fix`` wrote as JSON, if it did.
        took_s: How long ``fix`` took.
    """
    answer = subprocess.run(
        [sys.executable, _HERE / "judge.py", path, program],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=True,
    )
    judged: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    lines, judged["marks"] = changes(path, program)
    treatment: dict[str, Any] = {"tried": [], "left": [], "attacked": None}
    if document.exists():
        treatment = json.loads(document.read_text())["recording"]["treatment"] or treatment
    before = [_text(site) for site in judged.get("before", [])]
    is_one_graph = judged.get("why_not_one_graph", "?") is None
    # What torch captures under fullgraph=True breaks no graph of a program that it takes so.
    sites_left = [] if is_one_graph else judged.get("after", judged.get("before", []))
    after = [_text(site) for site in sites_left]
    written = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
    revealed = (Counter(after) - Counter(before)).elements()
    known: dict[str, int] = json.loads((path.parent / "sites.json").read_text())
    count = max(known[path.stem], len(before)) + sum(text in written for text in revealed)
    is_same = judged.get("is_same", False)
    gone = max(0, count - len(after)) if is_same else 0
    grades = _grades(treatment["tried"], path.name)
    is_clean = not any(judged["marks"].values())
    merged = gone if is_clean else min(gone, grades["merged"])
    guarded = gone - merged if not grades["contained"] else min(gone - merged, grades["guarded"])
    attacked = treatment["attacked"] or {"count": 0, "failure": None}
    return Fixed(
        name=path.stem,
        count=count,
        merged=merged,
        guarded=guarded,
        contained=gone - merged - guarded,
        changed_count=len(lines),
        took_s=took_s,
        attacks=0 if attacked["failure"] else attacked["count"],
        eager_ratio=judged.get("eager_ratio") if lines else None,
        is_one_graph=is_one_graph,
        is_same=is_same,
        left=sites_left,
        why=sorted(_why(one) for one in treatment["left"] if _is_own_break(one, path.name)),
        judged=judged,
    )


def changes(before: Path, after: Path) -> tuple[list[str], dict[str, int]]:
    """Lines that were added or removed, and how often each mark stands in those added."""
    old, new = (path.read_text(encoding="utf-8").splitlines() for path in (before, after))
    lines = [
        line
        for line in unified_diff(old, new, lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    added = "\n".join(line[1:] for line in lines if line[0] == "+")
    marks = {name: len(re.findall(pattern, added)) for name, pattern in _MARKS.items()}
    heads = re.findall(r"^\s*def _?\w+\((?:self, )?(.*)\)", added, re.MULTILINE)
    results_of_helpers = re.findall(r"^\s*(.+?) = (?:self\.)?_\w+\(", added, re.MULTILINE)
    marks["wide"] = sum(text.count(",") > 2 for text in heads + results_of_helpers)
    return [line for line in lines if line[1:].strip()], marks


def _text(site: str) -> str:
    return site.partition(": ")[2]


def _grades(tried: Sequence[dict[str, Any]], file: str) -> Counter[str]:
    """How many lines the fixes that were applied are for, by grade."""
    applied = [one for one in tried if one["is_applied"] and _is_own_break(one, file)]
    lines = {(one["finding_place"], _grade(one)) for one in applied}
    return Counter(grade for _, grade in lines)


def _grade(tried: dict[str, Any]) -> str:
    """The grade of a fix by what it adds, whatever graphdoctor calls it."""
    added = "\n".join(
        line[1:] for line in (tried["diff"] or "").splitlines() if line.startswith("+")
    )
    if re.search(r"disable|def _\w+_(?:first|then|rest|before|after|step|loop)", added):
        return "contained"
    if tried["kind"] in ("config", "call") or "is_compiling" in added or ".config." in added:
        return "guarded"
    return "merged"


def _is_own_break(finding: dict[str, Any], file: str) -> bool:
    is_break = finding["code"].startswith("GD1") and finding["code"] != "GD111"
    place: str = finding.get("finding_place") or finding["place"]
    return is_break and place.startswith(f"{file}:")


def _why(left: dict[str, Any]) -> str:
    why = left_text(read_fact(LeftFinding, left))
    return f"{left['code']} at line {left['place'].rpartition(':')[2]}: {why}"


def write_page(results: Sequence[Fixed]) -> None:
    """Write the sums into the guide."""
    names = ("count", "merged", "guarded", "contained", "gone")
    sums = [sum(getattr(one, name) for one in results) for name in names]
    table = f"{_HEAD}| {len(results)} | {' | '.join(map(str, [*sums[:4], sums[0] - sums[4]]))} |\n"
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda _: f"{table}\n", page, count=1), encoding="utf-8")
