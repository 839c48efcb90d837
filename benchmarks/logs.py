"""Large trace logs: what graphdoctor and tlparse take to read them, in turns.

One log has compiles of many megabytes each, the other has thousands of small ones. Each is made by
repeating the log of a program in ``logged`` (``large_log``).
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.large_log import write_log
from benchmarks.overhead import graphdoctor
from benchmarks.process import Cost, run
from benchmarks.report_page import browser_path, opened
from benchmarks.rows import Row

_PROGRAMS = Path(__file__).resolve().parent / "logged"
_VIEWS = {
    "`report`": ["report"],
    "`report --format json`": ["report", "--format", "json"],
    "`recompiles`": ["recompiles"],
    "`guards`": ["guards"],
    "`report --html`": ["report", "--format", "html", "-o", "page.html", "--force"],
}
_AS_QUICK = {"`report --format json`": 1.5, "`recompiles`": 1.5}
"""How many times as long as ``report`` a view should take at most."""


@dataclass(frozen=True)
class LoggedProgram:
    """A program whose log is repeated.

    Args:
        name: What its log is called in the rows.
        file: Its file.
        arguments: Its arguments.
    """

    name: str
    file: str
    arguments: tuple[str, ...] = ()


@dataclass
class _Costs:
    tlparse: list[Cost] = field(default_factory=list)
    views: dict[str, list[Cost]] = field(default_factory=lambda: {name: [] for name in _VIEWS})


def measure(*, pairs: int, size_bytes: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure every view of each log.

    Args:
        pairs: How often.
        size_bytes: How long the logs are.
        is_quick: Compile a shallow model.
        folder: Where to write the logs, and run.
    """
    rows = []
    for program in (
        LoggedProgram("large compiles", "large_compiles.py", ("1" if is_quick else "24",)),
        LoggedProgram("small compiles", "small_compiles.py"),
    ):
        log = _log(program, size_bytes, folder)
        name = f"{log.stat().st_size / 1e6:,.0f} MB of log, {program.name}"
        rows += _rows(name, _costs(log, pairs, folder))
        rows += _page_rows(name, folder / "page.html", pairs)
        log.unlink()
    return rows


def _log(program: LoggedProgram, size_bytes: int, folder: Path) -> Path:
    traces = folder / program.file
    traces.mkdir()
    command = [sys.executable, str(_PROGRAMS / program.file), *program.arguments]
    run(command, cwd=folder, environment={"TORCH_TRACE": str(traces)})
    (original,) = traces.glob("*.log")
    log = folder / f"{traces.stem}.log"
    write_log(original, log, size_bytes=size_bytes)
    return log


def _costs(log: Path, pairs: int, folder: Path) -> _Costs:
    costs = _Costs()
    tlparse = Path(sys.executable).with_name("tlparse")
    for _ in range(pairs):
        # Beside each view in turn, so that what else the machine does meets both.
        costs.tlparse.append(
            run([tlparse, "--no-browser", "--overwrite", "-o", "tl_out", log], cwd=folder)
        )
        shutil.rmtree(folder / "tl_out")
        for name, (command, *options) in _VIEWS.items():
            costs.views[name].append(run([*graphdoctor(), command, str(log), *options], cwd=folder))
    return costs


def _rows(name: str, costs: _Costs) -> list[Row]:
    whole = costs.views["`report`"]
    rows = []
    for view, found in costs.views.items():
        others, other, aim = costs.tlparse, "tlparse", 1.0
        if view in _AS_QUICK:
            others, other, aim = whole, "`report`", _AS_QUICK[view]
        theirs, ours = [c.cpu_s for c in others], [c.cpu_s for c in found]
        rows.append(Row(f"{name}: {view}, CPU time", other, "s", theirs, ours, aim))
        theirs, ours = [c.peak_mb for c in others], [c.peak_mb for c in found]
        rows.append(Row(f"{name}: {view}, memory", other, "MB", theirs, ours))
    return rows


def _page_rows(name: str, page: Path, pairs: int) -> list[Row]:
    rows = [Row(f"{name}: size of the page", "", "MB", (), [page.stat().st_size / 1e6])]
    browser = browser_path()
    if browser is None:
        return rows
    ready, _ = opened(page.read_text(encoding="utf-8"), browser, pairs)
    return [*rows, Row(f"{name}: the page ready in Chromium", "", "s", (), ready)]
