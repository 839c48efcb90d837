"""How many of the corpus's own break sites ``graphdoctor fix`` removes, counted by torch.

python -m tests.fixes.corpus.measure [--safe] [--jobs N] [--json OUT] [NAME...]

Of each program, a copy is fixed and its sites are counted before and after. ``fix`` writes edits
and names settings: ``after`` is with the edits alone, ``set`` with the settings too. A site that
only moves is not gone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copy
from typing import Any

from tests.factories import why_left

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
_HEAD = ("program", "before", "after", "gone", "set", "gone", "applied", "seconds")
_ROW = "{:<24}{:>8}{:>7}{:>6}{:>5}{:>6}{:>9}{:>9}  {}"


@dataclass(frozen=True)
class Result:
    """One program.

    Args:
        before: Its own break sites.
        after: Those with the edits that ``fix`` wrote.
        after_set: Those with the settings that it names too.
        applied: Fixes that are applied at the end, by verdict.
        left: What ``fix`` says of each finding that is left.
        error: What went wrong: nothing counts as gone.
    """

    name: str
    before: int
    after: int
    after_set: int
    applied: dict[str, int]
    settings: list[str]
    left: list[str]
    seconds: float
    error: str | None

    @property
    def gone(self) -> int:
        return max(self.before - self.after, 0)

    @property
    def gone_set(self) -> int:
        return max(self.before - self.after_set, 0)

    @property
    def row(self) -> str:
        applied = "+".join(map(str, self.applied.values())) or "0"
        numbers = (
            self.before,
            self.after,
            self.gone,
            self.after_set,
            self.gone_set,
            applied,
            f"{self.seconds:.0f}",
        )
        return _ROW.format(self.name, *numbers, self.error or "").rstrip()


def program_names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def ask_torch(files: Sequence[Path], settings: Sequence[str] = ()) -> dict[Path, dict[str, Any]]:
    """What ``oracle.py`` prints, in a process of its own."""
    set_first = [word for line in settings for word in ("--setting", line)]
    command = [sys.executable, str(HERE / "oracle.py"), *set_first, *map(str, files)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return {Path(file): found for file, found in json.loads(done.stdout).items()}


def measure(name: str, before: int, *, is_safe: bool, jobs: int) -> Result:
    """Fix a copy of a program, and count again."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(copy(PROGRAMS / f"{name}.py", folder))
        report = Path(folder, "fix.json")
        # --force: nobody could undo the edit with git, and nobody needs to.
        options = ["--apply", "--force", "--no-timing", "--jobs", str(jobs), "-o", report.name]
        options += [] if is_safe else ["--unsafe-fixes"]
        command = [sys.executable, "-P", "-m", "graphdoctor", "fix", program.name, *options]
        started = time.monotonic()
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        seconds = time.monotonic() - started
        if not report.is_file():
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return Result(name, before, before, before, {}, [], [], seconds, said[-1])
        treatment = json.loads(report.read_text())["recording"]["treatment"]
        settings = treatment["settings"]
        edited = ask_torch([program])[program]
        with_settings = ask_torch([program], settings)[program] if settings else edited
    applied: dict[str, int] = {}
    for fix in treatment["tried"]:
        if fix["is_applied"]:
            applied[fix["verdict"]] = applied.get(fix["verdict"], 0) + 1
    left = [
        f"{found['code']} at {found['place']}: {found['message']}: {why_left(found)}"
        for found in treatment["left"]
    ]
    after, after_set = (
        before if found["error"] else len(found["sites"]) for found in (edited, with_settings)
    )
    error = edited["error"] or with_settings["error"]
    return Result(name, before, after, after_set, applied, settings, left, seconds, error)


def total(results: Sequence[Result]) -> str:
    """The shares of all sites that are gone."""
    before = sum(result.before for result in results)
    gone, gone_set = (
        sum(result.gone for result in results),
        sum(result.gone_set for result in results),
    )
    return (
        f"{len(results)} programs, {before} sites. Gone with the edits: {gone} ({gone / before:.1%}), "
        f"with the settings too: {gone_set} ({gone_set / before:.1%})."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", default=program_names(), help="programs; all by default"
    )
    parser.add_argument("--safe", action="store_true", help="without --unsafe-fixes")
    parser.add_argument("--jobs", type=int, default=1, help="trials that fix runs side by side")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    options = parser.parse_args()
    found = ask_torch([PROGRAMS / f"{name}.py" for name in options.names])
    print(_ROW.format(*_HEAD, "").rstrip())
    results = []
    for name in options.names:
        before = len(found[PROGRAMS / f"{name}.py"]["sites"])
        results.append(measure(name, before, is_safe=options.safe, jobs=options.jobs))
        print(results[-1].row, flush=True)
        if options.json:
            options.json.write_text(json.dumps([asdict(result) for result in results], indent=2))
    print(total(results))


if __name__ == "__main__":
    main()
