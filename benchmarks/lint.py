"""Whether what lint reports happens, and how much of what happens it reports.

Precision: every class of an installed package that has a ``forward`` is handed to torch.compile, in
    a copy of its
file, and linted. Then ``compiled_classes.py`` compiles and calls the classes that it knows how to
call. A site is confirmed if torch broke at that line, refuted if its class was called to the end
and torch didn't, and otherwise nobody knows.

Recall: of the programs of ``tests/fixes/lint``, which are linted and run.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lint_sites import measure as measure_programs
from benchmarks.lint_sites import ordinary_programs, small_programs
from benchmarks.rows import Share
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.fixes.lint import lint_files

_SCRIPT = Path(__file__).with_name("compiled_classes.py")
_QUICK_COUNT = 3
_PACKAGES = {"transformers": ("modular_",), "torch_geometric": ()}
"""Each package, with the beginnings of the names of files from which its other files are
generated."""


def measure(*, is_quick: bool, folder: Path) -> list[Share]:
    """Measure precision on the installed packages, then precision and recall on the programs.

    Args:
        is_quick: Measure a few of the ordinary programs alone.
        folder: A folder for copies of files and for recordings.
    """
    rows = []
    for package in () if is_quick else _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            place = folder / f"lint-{package}"
            place.mkdir()
            rows.append(_precision(package, Path(spec.origin).parent, place))
    ordinary = ordinary_programs()
    groups = {
        "ordinary programs": dict(list(ordinary.items())[:_QUICK_COUNT]) if is_quick else ordinary
    }
    if not is_quick:
        groups["programs with one cause each"] = small_programs()
    for name, programs in groups.items():
        place = folder / f"lint-{name.replace(' ', '-')}"
        place.mkdir()
        found = measure_programs(programs, place)
        both = found.reported & found.seen
        missed = {
            "missed": [f"{file}:{line}" for file, line in sorted(found.seen - found.reported)]
        }
        false = {"false": [f"{file}:{line}" for file, line in sorted(found.reported - found.seen)]}
        rows += [
            Share(
                f"sites that lint reports, {name}: confirmed",
                "",
                len(both),
                len(found.reported),
                1.0,
                false,
            ),
            Share(
                f"sites that a run finds, {name}: reported by lint",
                "",
                len(both),
                len(found.seen),
                0.6,
                missed,
            ),
        ]
    return rows


def _precision(package: str, source: Path, folder: Path) -> Share:
    copies = folder / "copies"
    files = list(_compiled_copies(source, copies, _PACKAGES[package]))
    report = lint_files(files, root=copies, version="0")
    broken, called = _run(package, folder)
    outcomes: dict[str, list[str]] = {"confirmed": [], "refuted": [], "not run": []}
    for file, line in sorted({(one.location.file, one.location.line) for one in report.findings}):
        at_line = [
            one for one in report.findings if (one.location.file, one.location.line) == (file, line)
        ]
        outcomes[_outcome(at_line[0], broken, called, copies)].append(f"{file}:{line}")
    confirmed, refuted, unknown = (
        len(outcomes[name]) for name in ("confirmed", "refuted", "not run")
    )
    return Share(
        f"sites that lint reports, {package}: confirmed",
        f"{unknown} not run" if unknown else "",
        confirmed,
        confirmed + refuted,
        1.0,
        outcomes,
    )


def _compiled_copies(source: Path, target: Path, left_out: tuple[str, ...]) -> Iterator[Path]:
    """Copies of the files that have classes with a ``forward``; each hands all of them to
    torch.compile.
    """
    for path in sorted(source.rglob("*.py")):
        if left_out and path.name.startswith(left_out):
            continue
        text = path.read_text()
        if classes := _with_forward(ast.parse(text)):
            calls = "".join(f"_torch.compile({name}.forward)\n" for name in classes)
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(f"{text.rstrip()}\n\n\nimport torch as _torch\n{calls}")
            yield copy


def _with_forward(tree: ast.Module) -> list[str]:
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body)
    ]


def _run(package: str, folder: Path) -> tuple[set[tuple[str, int]], set[tuple[str, str]]]:
    """Where torch broke in the package, and the classes, each with its file, that were called to
    the end.
    """
    main = "from graphdoctor.commands import main; main()"
    options = ("run", "--quiet", "--report", "all.json")
    command = [sys.executable, "-c", main, *options, str(_SCRIPT), package, "called.json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    broken = {
        (one["location"]["file"].rpartition(f"/{package}/")[2], one["location"]["line"])
        for one in json.loads((folder / "all.json").read_text())["findings"]
        if one["location"]["package"] == package
    }
    called = set()
    for name, error in json.loads((folder / "called.json").read_text()).items():
        module, _, class_name = name.partition(":")
        if error is None:
            called.add((f"{module.replace('.', '/')}.py", class_name))
    return broken, called


def _outcome(
    finding: Finding, broken: set[tuple[str, int]], called: set[tuple[str, str]], copies: Path
) -> str:
    file, owner = finding.location.file, finding.location.function.partition(".")[0]
    if (file, finding.location.line) in broken:
        return "confirmed"
    is_class = owner in _with_forward(ast.parse((copies / file).read_text()))
    is_called = (file, owner) in called or (not is_class and any(file == one for one, _ in called))
    return "refuted" if is_called else "not run"
