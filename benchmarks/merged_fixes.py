"""What ``fix --own`` does to packages whose maintainers removed graph breaks, beside what they did.

Each version is installed in an environment of its own. Sites are counted without graphdoctor
(``count_graphs.py``). A site is told from others by its file, function and the text of its line,
because lines move from version to version.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.overhead import graphdoctor
from benchmarks.rows import Row, Share
from benchmarks.world import changes

_HERE = Path(__file__).resolve().parent
_LIMIT_S = 900
_AIM = 0.5

_PASSED_ON = ("KORNIA_CHANGE", "TRANSFORMERS_PROGRAM", "TRANSFORMERS_MODE")
"""What a program of ``merged/`` finds in the environment."""

Site = tuple[str, str, str]
"""A file of the package, the innermost function there and the text of one of its lines."""


@dataclass(frozen=True)
class PullRequest:
    """A merged pull request, versions from before and after it, and what runs its code: a file of
    ``merged/``, which finds in the environment which change it is for.
    """

    name: str
    package: str
    before: str
    after: str
    program: str
    change: str = ""


KORNIA = (
    *("3786", "3787", "3788", "3789", "3790", "3791", "3792", "3793", "3794", "3797", "3798"),
    *("3799", "3800", "3802", "3805", "3806", "3808", "3809", "3823", "3824", "3832", "3842"),
    "3856",
)
"""Changes of kornia with a target in ``merged/kornia_changes.py``."""
PULL_REQUESTS = (
    PullRequest("aimnetcentral 109", "aimnet", "0.2.0", "0.2.5", "aimnet_energy"),
    *(
        PullRequest(f"kornia {change}", "kornia", "0.8.3", "0.9.0", "kornia_changes", change)
        for change in KORNIA
    ),
)


def measure(*, is_quick: bool, folder: Path) -> list[Row | Share]:
    """Compare ``explain`` and ``fix --unsafe-fixes --apply`` with each pull request.

    Args:
        is_quick: One pull request only.
        folder: Where environments and copies are made.
    """
    named, removed, count = 0, 0, 0
    one_graph, merged, broken = 0, 0, 0
    rows: list[Row | Share] = []
    for asked in PULL_REQUESTS[1:2] if is_quick else PULL_REQUESTS:
        python, python_after = (
            _environment(folder / f"{asked.package}-{release}", f"{asked.package}=={release}")
            for release in (asked.before, asked.after)
        )
        os.environ["KORNIA_CHANGE"] = asked.change
        place = folder / asked.name.replace(" ", "-")
        copied = place / "site-packages" / asked.package
        shutil.copytree(_package(python, asked.package), copied)
        program = str(shutil.copy(_HERE / "merged" / f"{asked.program}.py", place))
        before = _sites(python, asked.program, copied)
        if not before:
            nothing = f"{asked.name}: no break of the package before it either"
            rows.append(Share(nothing, f"torch {version('torch')}", 0, 0, 1))
            continue
        broken += 1
        theirs = before - _sites(python_after, asked.program, _package(python_after, asked.package))
        told = _named_by_explain(python, program, copied)
        started = time.perf_counter()
        options = (
            "--own",
            asked.package,
            "--unsafe-fixes",
            "--apply",
            "--no-timing",
            "--budget",
            "300",
            "--python",
            str(python),
        )
        _run([*graphdoctor(), "fix", f"{program}:build()", *options], copied.parent, ok=(0, 1))
        took_s = time.perf_counter() - started
        left = _sites(python, asked.program, copied)
        named, removed, count = (
            named + len(theirs & told),
            removed + len(theirs - left),
            count + len(theirs),
        )
        changed = _changes(_package(python, asked.package), copied)
        one_graph += not left
        merged += not left and not any(changed["marks"].values())
        details = {
            "changed": [json.dumps(changed)],
            "left": [
                f"{file}, {function}: {line}" for file, function, line in sorted(theirs & left)
            ],
            "fix_s": [f"{took_s:.0f}"],
        }
        rows.append(
            Share(
                f"{asked.name}: sites that fix removes",
                f"{took_s:.0f} s",
                len(theirs - left),
                len(theirs),
                _AIM,
                details,
            )
        )
    rows.append(Share("sites of the maintainers that explain names", "", named, count, 1))
    rows.append(Share("sites of the maintainers that fix removes", "", removed, count, _AIM))
    rows.append(Share("targets without a break of the package", "", one_graph, broken, 0.6))
    rows.append(Share("of these by merged edits alone", "", merged, broken, 0.6))
    return rows


def _environment(place: Path, *packages: str) -> Path:
    """The interpreter of an environment with this torch and packages."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        _run(
            [python, "-m", "pip", "install", "--quiet", f"torch=={version('torch')}", *packages],
            place,
        )
    return python


def _package(python: Path, name: str) -> Path:
    return next((python.parent.parent / "lib").glob(f"python*/site-packages/{name}"))


def _changes(before: Path, after: Path) -> dict[str, Any]:
    """How many lines of a package an edit changed, and what a maintainer would reject in it."""
    count, marks = 0, Counter[str]()
    for path in after.rglob("*.py"):
        old = before / path.relative_to(after)
        if path.read_bytes() != old.read_bytes():
            lines, found = changes(old, path)
            count, marks = count + len(lines), marks + Counter(found)
    return {"lines": count, "marks": dict(marks)}


def _sites(python: Path, program: str, package: Path) -> set[Site]:
    """Where plain torch breaks in a package; the program is the one that no edit has touched."""
    command = [python, _HERE / "count_graphs.py", _HERE / "merged" / f"{program}.py"]
    last = _run(command, package.parent).splitlines()[-1]
    return {
        _site(Path(file), int(line), package)
        for file, line in json.loads(last)["sites"]
        if package.name in file
    }


def _site(file: Path, line: int, package: Path) -> Site:
    text = file.read_text()
    around = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    function = max(around, key=lambda node: node.lineno).name if around else ""
    return str(file.relative_to(package)), function, text.splitlines()[line - 1].strip()


def _named_by_explain(python: Path, program: str, package: Path) -> set[Site]:
    options = ("--own", package.name, "--format", "json", "--python", str(python))
    document = json.loads(
        _run([*graphdoctor(), "explain", f"{program}:build()", *options], package.parent)
    )
    places = [
        found["location"] for found in document["findings"] if found["code"].startswith("GD1")
    ]
    own = [place for place in places if place["origin"] == "user"]
    files = [(package.parent / place["file"], place["line"]) for place in own]
    return {_site(file, line, package) for file, line in files if file.is_relative_to(package)}


def _run(command: Sequence[Path | str], packages: Path, *, ok: tuple[int, ...] = (0,)) -> str:
    """Run with the packages of a folder before those of the environment; what it printed."""
    environment: Mapping[str, str] = {
        "PYTHONPATH": str(packages),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    }
    found = subprocess.run(
        command,
        cwd=packages,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if found.returncode not in ok:
        raise RuntimeError(f"{command} failed:\n{found.stderr[-2000:]}")
    return found.stdout
