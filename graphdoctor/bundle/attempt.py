"""Runs ``reproduce.py`` by itself and says whether it shows what the recording shows."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.bundle.reproduce import MODULES, Script
from graphdoctor.capture import script as capture
from graphdoctor.diagnosis.rule import BreakSite
from graphdoctor.diagnosis.sites import view_of
from graphdoctor.errors import GraphDoctorError
from graphdoctor.model.recording import Recording
from graphdoctor.trace.reader import read_recording

SCRIPT = "reproduce.py"
_LEAST_S = 60.0
_TIMES = 6
"""The time that a run may take: this many times what the recorded one took, at least ``_LEAST_S``."""


@dataclass(frozen=True)
class Attempt:
    """What came of running the script.

    Args:
        is_same: It breaks where the recording does, compiles again as often and fails alike; None where it was not run.
        words: What came of it, in sentences.
    """

    is_same: bool | None
    words: str


def not_tried() -> Attempt:
    """Nobody asked for it."""
    return Attempt(None, "It was not run (--no-try).")


def attempt(script: Script, recording: Recording, *, timeout_s: float | None) -> Attempt:
    """Run the script as its reader will, in an empty folder, and compare what torch does with the recording.

    Args:
        script: With a text.
        recording: What it was made of.
        timeout_s: Seconds until it is stopped; None for a multiple of what the recorded run took.

    Raises:
        GraphDoctorError: Interrupted.
    """
    python = recording.environment.executable
    if python is None or not Path(python).exists():
        return Attempt(None, "It was not run: the interpreter of the recording is not there.")
    limit_s = timeout_s or max(_LEAST_S, _TIMES * (recording.exit.duration_s or 0.0))
    with tempfile.TemporaryDirectory(prefix="graphdoctor-") as made:
        # Resolved: stack entries have no links in them.
        folder = Path(made).resolve()
        run, log = folder / "run", folder / "recording"
        write_script_files(script, run)
        log.mkdir()
        program = capture.Script(str(run / SCRIPT), False, ())
        try:
            capture.run_script(program, log, python=python, timeout_s=limit_s, apart=run)
            again = read_recording(log)
        except GraphDoctorError as error:
            return Attempt(None, f"It was not run: {error.message}")
    if again.exit.reason == "interrupted":
        raise GraphDoctorError("Interrupted.", exit_code=130)
    return _compared(recording, again, run)


def write_script_files(script: Script, folder: Path) -> None:
    """The script and its modules as they lie in the bundle."""
    (folder / MODULES).mkdir(parents=True)
    (folder / SCRIPT).write_text(script.text or "", encoding="utf-8")
    for name, text in script.modules.items():
        (folder / MODULES / name).write_text(text, encoding="utf-8")


def _compared(before: Recording, after: Recording, folder: Path) -> Attempt:
    if after.exit.reason in ("timeout", "killed"):
        return Attempt(False, f"Run by itself it did not come to an end: {after.exit.message}")
    compared = (_sites(before, after), _recompiles(before, after), _error(before, after))
    words = [*(told for told, _ in compared if told), *_foreign_files(after, folder)]
    told = ", ".join(words).rstrip(".")
    return Attempt(all(is_same for _, is_same in compared), f"Run by itself, {told}.")


def _sites(before: Recording, after: Recording) -> tuple[str, bool]:
    old, new = ({_key(site): site for site in view_of(recording).sites} for recording in (before, after))
    missing = [site for key, site in old.items() if key not in new]
    other = [site for key, site in new.items() if key not in old]
    if not missing and not other:
        places = {0: "no graph break, as recorded", 1: "the same graph break"}
        return f"it has {places.get(len(old), f'the same {len(old)} graph breaks')}", True
    parts = [f"it has {len(old) - len(missing)} of the {len(old)} recorded graph breaks"]
    if missing:
        parts.append(f"lacks {_named(missing)}")
    if other:
        parts.append(f"has besides {_named(other)}")
    return ", ".join(parts), False


def _key(site: BreakSite) -> Hashable:
    """What stays of a break when its line is in another file: torch's id, the function, the line's text."""
    entry, cause = site.entry, site.cause.torch_id or site.cause.gb_type
    if entry.origin == "user":
        return cause, entry.qualname or entry.function, entry.text
    return cause, entry.file, entry.line


def _named(sites: Sequence[BreakSite]) -> str:
    shown = [f"{Path(site.entry.file).name}:{site.entry.line}" for site in sites[:3]]
    more = [f"{len(sites) - 3} more"] if len(sites) > 3 else []
    return ", ".join([*shown, *more])


def _recompiles(before: Recording, after: Recording) -> tuple[str, bool]:
    old, new = (
        sum(found.is_recompile and found.outcome == "compiled" for found in recording.compiles)
        for recording in (before, after)
    )
    if old == new:
        return (f"as many recompiles ({old})" if old else ""), True
    return f"{new} recompiles instead of {old}", False


def _error(before: Recording, after: Recording) -> tuple[str, bool]:
    failed = next((call.error.type for call in before.calls if call.error is not None), None)
    message = after.exit.message if after.exit.reason != "finished" else None
    if failed is None and message is None:
        return "", True
    if failed is None:
        ended = "came to its end" if before.exit.reason == "finished" else f"ended so: {before.exit.message}"
        return f"and fails ({message}), where the recorded run {ended}", False
    last = failed.rpartition(".")[2]
    if message is not None and last in message:
        return f"and fails with {last} as recorded", True
    return f"and does not fail with {last}, as the recorded run did", False


def _foreign_files(after: Recording, folder: Path) -> list[str]:
    """Files of the project's that the script came to all the same, through an installation or PYTHONPATH."""
    files = {frame.file for frame in after.frames if frame.origin == "user" and not frame.file.startswith("<")}
    outside = sorted(Path(file).name for file in files if not Path(file).is_relative_to(folder))
    return [f"and still needs {', '.join(outside)} of the project"] if outside else []
