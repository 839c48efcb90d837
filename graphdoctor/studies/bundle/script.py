"""Writes a script that makes the recorded calls with only torch and what the target's file imports,
and runs it on its own.

Uses the recorded files only: those on disk may have changed.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.picture import SourceText
from graphdoctor.facts.reading import write_private
from graphdoctor.facts.recording import Recording
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.rules.diagnosis.sites import RecordingView
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch import script as capture
from graphdoctor.trials.launch.request import DTYPES
from graphdoctor.views.markdown_text import code, fenced, plain, sentence
from graphdoctor.wording import counted, times

SCRIPT = "reproduce.py"
_MODULES = "modules"
"""The folder next to the script for the modules that it imports."""

_DEFAULTS: Mapping[str, Any] = {
    **{"seed": 0, "calls": 1, "config": {}, "inputs": {}},
    **dict.fromkeys(("device", "dtype", "batch", "train", "no_grad", "backward", "regional")),
}
_COMPILED: Mapping[str, object] = {
    "backend": None,
    "mode": None,
    "options": {},
    "dynamic": None,
    "fullgraph": False,
}
"""Arguments of ``torch.compile``, with what needn't be written."""
_METHODS = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16"}

_LEAST_S = 60.0
_TIMES = 6
"""A run may take this many times as long as the recorded one, and at least ``_LEAST_S``."""


@cache
def _templates() -> Templates:
    templates = Templates(
        loader=PackageLoader("graphdoctor.studies.bundle"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = (code, plain, sentence, counted, times, repr, fenced)
    templates.filters |= {function.__name__: function for function in filters}
    templates.tests |= {"torch_id": re.compile(r"GB\d+").fullmatch, "below": str.startswith}
    return templates


def rendered(template: str, **values: object) -> str:
    """Fill in a template of ``templates/``."""
    return _templates().get_template(template).render(values)


@dataclass(frozen=True)
class Script:
    """The script, or why there is none.

    ``text``: the script; None if there is none.
    ``modules``: texts of the target's own modules by file name.
    """

    text: str | None
    modules: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None

    @property
    def files(self) -> Mapping[str, str]:
        """The script and its modules by their paths in a bundle; empty if there is none."""
        modules = {f"{_MODULES}/{name}": text for name, text in self.modules.items()}
        return {} if self.text is None else {SCRIPT: self.text, **modules}


class _ImpossibleError(Exception):
    """The reason why there can't be a script, as a clause."""


def write_script(recording: Recording, request: Mapping[str, Any]) -> Script:
    """Write the script; ``request``: empty for a log that ``explain`` didn't record."""
    target = recording.target
    try:
        if target.kind == "script":
            raise _ImpossibleError(
                "the recording is of a whole program; graphdoctor explain records a single function"
                " or module"
            )
        if not request or recording.picture is None:
            raise _ImpossibleError(
                "the log was not recorded by graphdoctor explain, so the calls are unknown"
            )
        if target.name is None or target.file is None:
            raise _ImpossibleError("the run ended before the target was created")
        if request.get("file") is None and "." in str(request.get("module")):
            raise _ImpossibleError(
                "the target is a module in a package; name its file to get a script"
            )
        file = Path(target.file)
        sources = _Sources(file, {source.file: source for source in recording.picture.files})
        text = sources.text(target.file)
        modules = dict(sources.modules(text))
    except _ImpossibleError as impossible:
        return Script(None, reason=str(impossible))
    lines, tree = text.splitlines(), ast.parse(text)
    start = _head_lines(tree)
    # From the end, so that earlier line numbers stay valid.
    for node in filter(_is_main_block, reversed(tree.body)):
        del lines[node.lineno - 1 : node.end_lineno]
    spec = {**_DEFAULTS, **{name: value for name, value in request.items() if value is not None}}
    # ``probe/steps/workload.py``, ``probe/target/`` and ``probe/replay/arguments.py`` do the same.
    script = rendered(
        f"{SCRIPT}.jinja",
        head="\n".join(lines[:start]),
        body="\n".join(lines[start:]).strip("\n"),
        file=file.name,
        target=target,
        spec=spec,
        # The factory returned the arguments with the target.
        is_own=target.kind == "factory" and target.inputs_from == f"{target.name}()",
        origins={"options": INPUTS_FROM_OPTIONS, "none": INPUTS_NOT_NEEDED},
        # A list of bare tensors can be the arguments of one call.
        is_one_round=recording.exit.reason == "finished" and len(recording.calls) == spec["calls"],
        dtypes=DTYPES,
        method=_METHODS.get(spec["dtype"]),
        has_modules=bool(modules),
        folder=_MODULES,
        config_modules=tuple(dict.fromkeys(name.rpartition(".")[0] for name in spec["config"])),
        compile_arguments=[
            f"{name}={value!r}"
            for name, default in _COMPILED.items()
            if (value := request.get(name)) not in (None, default)
        ],
    )
    return Script(script, modules)


@dataclass(frozen=True)
class _Sources:
    """The target's file, and every recorded file by its path."""

    file: Path
    recorded: Mapping[str, SourceText]

    def text(self, file: str) -> str:
        source = self.recorded.get(file)
        if source is None or source.text is None:
            raise _ImpossibleError(f"the recording doesn't have the text of {Path(file).name}")
        return source.text

    def modules(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the project's modules that a file and they themselves import: names and texts."""
        seen = {self.file.stem, *sys.stdlib_module_names}
        waiting = [(self.file.name, text)]
        own = [Path(file) for file, source in self.recorded.items() if source.origin == "user"]
        folders = [self.file.parent]
        while (folders[-1] / "__init__.py").is_file():
            folders.append(folders[-1].parent)
        while waiting:
            importer, content = waiting.pop()
            for name in _imported(content, importer):
                if name in seen:
                    continue
                seen.add(name)
                beside = self.file.parent / f"{name}.py"
                files = [file for file in own if file.name == beside.name]
                files = [beside] if str(beside) in self.recorded else files
                if len(files) == 1:
                    waiting.append((f"{name}.py", self.text(str(files[0]))))
                    yield waiting[-1]
                # Of the project, on disk or in the recording; an editable installation can be
                # anywhere.
                elif any(name in file.parts[:-1] for file in own) or any(
                    (folder / path).is_file()
                    for folder in folders
                    for path in (f"{name}.py", f"{name}/__init__.py")
                ):
                    raise _ImpossibleError(
                        f"{importer} imports the project's {name}, which isn't in the recording"
                    )


def _imported(text: str, file: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise _ImpossibleError(f"{python} can't parse {file}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise _ImpossibleError(f"{file} imports from its own package")
        if isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)


def _head_lines(tree: ast.Module) -> int:
    """Count the lines that must stay first: the docstring and imports from ``__future__``."""
    count = 0
    for node in tree.body:
        is_docstring = (
            not count and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not is_docstring and not is_future:
            break
        count = node.end_lineno or count
    return count


def _is_main_block(node: ast.stmt) -> bool:
    """Return whether it runs only when the file itself is run. The probe imported it."""
    names = ast.walk(node.test) if isinstance(node, ast.If) and not node.orelse else ()
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in names)


# Running it.


@dataclass(frozen=True)
class Attempt:
    """The result of running the script; ``is_same``: None if it wasn't run."""

    is_same: bool | None
    words: str
    is_refused: bool = False


NOT_TRIED = Attempt(None, "It was not run (--no-try).")
REFUSED = Attempt(
    None,
    "It was not run: nothing shows that the recording was made by you, on this machine, in the"
    " folder where it is now.",
    is_refused=True,
)
"""The result for a recording that somebody else could have written."""


def attempt(script: Script, recording: Recording, *, timeout_s: float | None) -> Attempt:
    """Run the script in an empty folder, as its reader will, and compare what torch does with the
    recording.
    """
    python = recording.environment.executable
    if python is None or not Path(python).exists():
        return Attempt(None, "It was not run: the recording's Python interpreter is missing.")
    limit_s = timeout_s or max(_LEAST_S, _TIMES * (recording.exit.duration_s or 0.0))
    with tempfile.TemporaryDirectory(prefix="graphdoctor-") as made:
        # Resolved, because stack entries have no links in them.
        folder = Path(made).resolve()
        run, log = folder / "run", folder / "recording"
        (run / _MODULES).mkdir(parents=True)
        for name, text in script.files.items():
            write_private(run / name, text)
        log.mkdir()
        program = capture.Script(str(run / SCRIPT), False, ())
        try:
            capture.run_script(program, log, python=python, timeout_s=limit_s, apart=run)
            again = read_recording(log)
        except GraphDoctorError as error:
            return Attempt(None, f"It was not run: {error.message}")
    if again.exit.reason == "interrupted":
        raise GraphDoctorError("Interrupted.", exit_code=130)
    return compared(recording, again, run)


def compared(before: Recording, after: Recording, folder: Path) -> Attempt:
    """Compare the script's run with the recording."""
    if after.exit.reason in ("timeout", "killed"):
        return Attempt(False, f"On its own, it didn't finish: {after.exit.message}")
    recorded, own = _shown_by(before), _shown_by(after)
    differing = [text for text in recorded if recorded[text] != own[text]]
    words = "it does what was recorded"
    if differing:
        sides = (f"{text}: {recorded[text]} recorded, {own[text]} now" for text in differing)
        words = f"it does something else ({'; '.join(sides)})"
    outside = {
        Path(frame.file).name
        for frame in after.frames
        if frame.origin == "user" and not frame.file.startswith("<")
        if not Path(frame.file).is_relative_to(folder)
    }
    needed = f", and still needs the project's {', '.join(sorted(outside))}" if outside else ""
    return Attempt(not differing, f"On its own, {words}{needed}.")


def _shown_by(recording: Recording) -> dict[str, str]:
    """Return what must be the same when lines are in another file."""
    breaks = set()
    for site in RecordingView(recording, Path()).sites:
        entry, cause = site.entry, site.cause.torch_id or site.cause.gb_type
        where = f"{Path(entry.file).name}:{entry.line}"
        if entry.origin == "user":
            where = f"`{entry.text}` in {entry.qualname or entry.function}"
        breaks.add(f"{cause} at {where}")
    errors = (call.error.type for call in recording.calls if call.error is not None)
    error = next(errors, recording.exit.error_type)
    return {
        "graph breaks": ", ".join(sorted(breaks)) or "none",
        "recompiles": str(sum(compile_.has_recompiled for compile_ in recording.compiles)),
        "error": "none" if error is None else error.rpartition(".")[2],
    }
