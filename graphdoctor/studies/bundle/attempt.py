"""Runs ``reproduce.py`` on its own. Comes in: a script and its recording. Goes out: whether it
shows the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.reading import write_private
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.wording import counted, listed
from graphdoctor.rules.diagnosis.rule import BreakSite
from graphdoctor.rules.diagnosis.sites import view_of
from graphdoctor.studies.bundle.reproduce import MODULES, SCRIPT, Script
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch import script as capture

_LEAST_S = 60.0
_TIMES = 6
"""A run may take this many times as long as the recorded one, and at least ``_LEAST_S``."""


@dataclass(frozen=True)
class Attempt:
    """The result of running the script."""

    is_same: bool | None
    words: str
    is_refused: bool = False


NOT_TRIED = Attempt(None, "It was not run (--no-try).")
REFUSED = Attempt(
    None,
    "It was not run: nothing shows that the recording was made by you, on this machine, in the folder where it is now.",
    is_refused=True,
)
"""The result for a recording that somebody else could have written."""


def command_lines(script: Script, recording: Recording) -> Iterator[str]:
    """What ``attempt`` runs, for people to read before: the interpreter and every line of code."""
    yield f"Running {SCRIPT} with {recording.environment.executable}"
    for name, text in script.files.items():
        yield from (f"  {name}:", *(f"    | {line}" for line in text.splitlines()))


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
        (run / MODULES).mkdir(parents=True)
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
    parts = (_sites(before, after), _recompiles(before, after), _error(before, after))
    words = ", ".join(
        [*(text for text, _ in parts if text), *_foreign_files(after, folder)]
    ).rstrip(".")
    return Attempt(all(is_same for _, is_same in parts), f"On its own, {words}.")


def _sites(before: Recording, after: Recording) -> tuple[str, bool]:
    old, new = (
        {_key(site): site for site in view_of(recording).sites} for recording in (before, after)
    )
    missing = [site for key, site in old.items() if key not in new]
    other = [site for key, site in new.items() if key not in old]
    if not missing and not other:
        places = {0: "no graph break, as recorded", 1: "the same graph break"}
        return f"it has {places.get(len(old), f'the same {len(old)} graph breaks')}", True
    parts = [f"it has {len(old) - len(missing)} of the {len(old)} recorded graph breaks"]
    parts += [
        f"{word} {_named(sites)}"
        for word, sites in (("not", missing), ("and also", other))
        if sites
    ]
    return ", ".join(parts), False


def _key(site: BreakSite) -> Hashable:
    """What identifies a break when its line is in another file: torch's id, the function, the
    line's text.
    """
    entry, cause = site.entry, site.cause.torch_id or site.cause.gb_type
    if entry.origin == "user":
        return cause, entry.qualname or entry.function, entry.text
    return cause, entry.file, entry.line


def _named(sites: Sequence[BreakSite]) -> str:
    return listed([f"{Path(site.entry.file).name}:{site.entry.line}" for site in sites])


def _recompiles(before: Recording, after: Recording) -> tuple[str, bool]:
    old, new = (
        sum(found.is_recompile and found.outcome == "compiled" for found in recording.compiles)
        for recording in (before, after)
    )
    if old == new:
        return (f"the same number of recompiles ({old})" if old else ""), True
    return f"{counted(new, 'recompile')} instead of {old}", False


def _error(before: Recording, after: Recording) -> tuple[str, bool]:
    old, new = _error_name(before), _error_name(after)
    if old is not None:
        verb = "fails" if new == old else "doesn't fail"
        return f"and {verb} with {old} as recorded", new == old
    if after.exit.reason == "finished":
        return "", True
    ended = (
        "finished"
        if before.exit.reason == "finished"
        else f"ended differently: {before.exit.message}"
    )
    return f"and fails ({after.exit.message}), while the recorded run {ended}", False


def _error_name(recording: Recording) -> str | None:
    of_call = next((call.error.type for call in recording.calls if call.error is not None), None)
    name = of_call or recording.exit.error_type
    return name and name.rpartition(".")[2]


def _foreign_files(after: Recording, folder: Path) -> list[str]:
    files = {
        frame.file
        for frame in after.frames
        if frame.origin == "user" and not frame.file.startswith("<")
    }
    outside = sorted(Path(file).name for file in files if not Path(file).is_relative_to(folder))
    return [f"and still needs the project's {', '.join(outside)}"] if outside else []
