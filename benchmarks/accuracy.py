"""What ``graphdoctor accuracy`` says about programs whose results are known.

``accuracy/real`` holds programs of PyTorch's issues that differ on some torch, ``planted`` those
with an error put in, ``rounding`` those that only round, draw or can't be decided. ``truth.toml``
beside them says what plain torch measured (``plain_accuracy.py``); the wrong line ends in
``# here``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.overhead import graphdoctor
from benchmarks.rows import Share

FOLDER = Path(__file__).resolve().parent / "accuracy"
GROUPS = {"planted": 1, "real": 0.8, "rounding": 1}
"""Groups, and the share of each that should be named rightly."""
_LIMIT_S = 600


@dataclass(frozen=True)
class Named:
    """What was said about a program.

    Args:
        name: The program.
        expected: The verdict that is right.
        verdict: What was said; None if the command failed.
        operation: The operation that was named.
        line: The line that was named.
        is_operation_right: None if no operation is wrong; the next likewise.
        took_s: How long the command took.
        said: Its answer in a sentence, or the end of its error.
    """

    name: str
    expected: str
    verdict: str | None
    operation: str | None
    line: int | None
    is_operation_right: bool | None
    is_line_right: bool | None
    took_s: float
    said: str

    @property
    def is_right(self) -> bool:
        """Whether verdict, operation and line are."""
        is_verdict_right = self.verdict == self.expected
        return is_verdict_right and False not in (self.is_operation_right, self.is_line_right)

    @property
    def is_false_alarm(self) -> bool:
        """Whether results were called different that aren't."""
        return self.verdict == "different" != self.expected


def programs(group: str) -> dict[Path, dict[str, Any]]:
    """Return the programs of a group that are for this torch, each with its truth."""
    truth = tomllib.loads((FOLDER / group / "truth.toml").read_text(encoding="utf-8"))
    installed = ".".join(version("torch").split(".")[:2])
    return {
        FOLDER / group / f"{name}.py": known
        for name, known in truth.items()
        if installed in known.get("versions", [installed])
    }


def ask(path: Path, truth: dict[str, Any], folder: Path) -> Named:
    """Run ``graphdoctor accuracy`` on a copy of a program.

    Args:
        path: The program.
        truth: Its table in ``truth.toml``.
        folder: Where the copy is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(shutil.copy(path, folder))
    arguments = ["accuracy", program.name, "--format", "json", "-o", "-", "--quiet"]
    started = time.perf_counter()
    try:
        answer = subprocess.run(
            [*graphdoctor(), *arguments, *truth.get("arguments", [])],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        report: dict[str, Any] = json.loads(answer.stdout) if answer.stdout.strip() else {}
        said = report.get("text") or answer.stderr[-400:]
    except (subprocess.TimeoutExpired, ValueError) as error:
        report, said = {}, str(error)[:400]
    took_s = time.perf_counter() - started
    operation, line = _place(report, program.name)
    marked = [
        number
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if text.endswith("# here")
    ]
    expected = truth.get("operation")
    return Named(
        name=path.stem,
        expected=truth["verdict"],
        verdict=report.get("verdict"),
        operation=operation,
        line=line,
        is_operation_right=_is_named(operation, expected) if expected else None,
        is_line_right=line in marked if marked else None,
        took_s=took_s,
        said=said,
    )


def _place(report: dict[str, Any], file: str) -> tuple[str | None, int | None]:
    """Return the operation that a report names, and the line of the program: that of the
    operation, of the value that is stale, or of the branch.
    """
    located, stale = report.get("located") or {}, report.get("stale") or {}
    branches = report.get("branches") or [{}]
    for place in (located, stale, branches[0]):
        entry = place.get("location") or {}
        if entry.get("file", "").endswith(file):
            return located.get("operation"), entry.get("line")
    return located.get("operation"), None


def _is_named(operation: str | None, expected: str) -> bool:
    """Compare names without what stands before the last dot, and an overload after it."""
    parts = (operation or "").replace("_default", "").split(".")
    return expected in (parts[-1], *parts[-2:-1])


def measure(*, is_quick: bool, folder: Path, names: Sequence[str] = ()) -> list[Share]:
    """Ask about every program.

    Args:
        is_quick: One program of each group.
        folder: Where to run.
        names: The programs to ask about; all if there is none.
    """
    rows = []
    for group, aim in GROUPS.items():
        known = programs(group)
        chosen = [path for path in known if not names or path.stem in names]
        results = []
        for path in chosen[: 1 if is_quick else None]:
            results.append(one := ask(path, known[path], folder / group / path.stem))
            right = {True: "right", False: "WRONG", None: "-"}
            places = (right[one.is_operation_right], right[one.is_line_right])
            said = (one.verdict or "FAILED", *places, f"{one.took_s:.0f} s", one.said.strip())
            print(f"{group}/{one.name}", *said, sep=": ", file=sys.stderr)
        rows += summary(group, results, aim)
    return rows


def summary(group: str, results: Sequence[Named], aim: float) -> list[Share]:
    """Count what was said about the programs of a group."""
    wrong = ", ".join(one.name for one in results if not one.is_right)
    details = {"named": [json.dumps(asdict(one)) for one in results]}
    verdicts = sum(one.verdict == one.expected for one in results)
    operations = [one.is_operation_right for one in results if one.is_operation_right is not None]
    lines = [one.is_line_right for one in results if one.is_line_right is not None]
    quiet = [not one.is_false_alarm for one in results if one.expected != "different"]
    rows = [
        Share(
            f"{group}: named rightly",
            wrong,
            sum(it.is_right for it in results),
            len(results),
            aim,
            details,
        ),
        Share(f"{group}: verdict", "", verdicts, len(results), aim),
    ]
    for name, right in (("operation", operations), ("line", lines), ("no false alarm", quiet)):
        rows += [Share(f"{group}: {name}", "", sum(right), len(right), aim)] if right else []
    return rows
