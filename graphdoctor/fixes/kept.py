"""Tries fixes of a recorded target, and keeps verified ones, signed, with what they were verified
on.

They are written later if a run would find everything as then; otherwise what changed is told.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphdoctor.facts.fixes import TrialChoices
from graphdoctor.facts.reading import plain, write_private
from graphdoctor.fixes.patch import FIXES_FOLDER, FileChange, Patch, SearchOptions, SearchResult
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.ownership import is_own, signature_of
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.store import Store
from graphdoctor.trials.launch.unchanged import Change, first_change, surroundings_of

_FILE = "verified.json"
_FORMAT = 7
_MAX_LOOKED_AT = 20
_TARGET = ("file", "module", "name", "is_call")
_MEASURED = ("coverage", "guard_cost", "lanes", "reads")
"""What a request asks for besides the calls: trials measure what they need themselves."""


@dataclass(frozen=True)
class EarlierTrials:
    """Trials of an earlier command: a result that still holds, or replays of an unfinished search
    that needn't run again.

    Without either, they prove nothing any more: ``change`` says why, None if the recording isn't as
    it was left.
    """

    recording: Path
    age_s: float
    result: SearchResult | None = None
    trials: frozenset[str] | None = None
    change: Change | None = None


def keep(request: Request, recording: Path, result: SearchResult, setup: Setup) -> None:
    """Keep verified fixes in their recording, or the trials of a search that isn't finished;
    nothing is kept without a key to sign it with, or on a full disk.
    """
    treatment = result.treatment
    if treatment.choices is None or not (treatment.after or treatment.is_unfinished):
        return
    with contextlib.suppress(OSError):
        replays = sorted((recording / FIXES_FOLDER).iterdir())
        seen = surroundings_of(recording, replays, interpreter=setup.interpreter)
        # What is edited must be what was run.
        edited = {
            name: "edited"
            for edit in result.changes
            if seen.get(name := f"file {edit.path}") != _digest(edit.before)
        }
        content = json.dumps(
            {
                "format": _FORMAT,
                "asked": _asked(request, treatment.choices),
                "time_s": time.time(),
                "surroundings": {**edited, **seen, **edited},
                "changes": [
                    [
                        str(change.path),
                        *(text.decode("latin-1") for text in (change.before, change.after)),
                    ]
                    for change in result.changes
                ],
                "fixes": _digest((recording / FIXES_FILE).read_bytes()),
                "trials": {path.name: _digest_all(path) for path in replays}
                if treatment.is_unfinished
                else None,
            }
        )
        signature = signature_of(recording, content)
        if signature is not None:
            signed = json.dumps({"content": content, "signature": signature})
            write_private(recording / _FILE, signed)


def kept_fixes(
    request: Request, choices: TrialChoices, store: Store, interpreter: str
) -> EarlierTrials | None:
    """Find verified fixes for the same request, or trials to go on from."""
    asked = _asked(request, choices)
    otherwise = None
    for recording in store.newest()[:_MAX_LOOKED_AT]:
        content = _content(recording)
        if content is None or any(content["asked"][name] != asked[name] for name in _TARGET):
            continue
        others = [name for name in asked if content["asked"].get(name) != asked[name]]
        # Which trials are made doesn't change what one of them shows.
        is_same_run = content["trials"] is not None and vars(choices).keys() >= {*others}
        if not others or is_same_run:
            return _checked(recording, content, interpreter)
        age_s, change = time.time() - content["time_s"], Change("options", ",".join(others))
        otherwise = otherwise or EarlierTrials(recording, age_s, change=change)
    return otherwise


def _checked(recording: Path, content: dict[str, Any], interpreter: str) -> EarlierTrials:
    earlier = EarlierTrials(recording, time.time() - content["time_s"])
    change = first_change(content["surroundings"], interpreter=interpreter)
    fixes = _digest((recording / FIXES_FILE).read_bytes())
    if change is not None or earlier.age_s < 0 or fixes != content["fixes"]:
        return replace(earlier, change=change)
    if content["trials"] is not None:
        same = (
            name
            for name, digest in content["trials"].items()
            if _digest_all(recording / FIXES_FOLDER / name) == digest
        )
        return replace(earlier, trials=frozenset(same))
    treatment = read_recording(recording).treatment
    changes = tuple(
        FileChange(Path(path), *(text.encode("latin-1") for text in texts))
        for path, *texts in content["changes"]
    )
    result = None if treatment is None else SearchResult(treatment, changes)
    return replace(earlier, result=result)


def _asked(request: Request, choices: TrialChoices) -> dict[str, Any]:
    described = {key: value for key, value in request.for_probe().items() if key not in _MEASURED}
    plain_request: dict[str, Any] = json.loads(json.dumps({**described, **plain(choices)}))
    return plain_request


def _content(recording: Path) -> dict[str, Any] | None:
    """Read what was kept in a recording; None for nothing, for what others wrote, and for another
    version.
    """
    try:
        written = json.loads((recording / _FILE).read_bytes())
        signature = signature_of(recording, written["content"])
        if (
            signature is None
            or not hmac.compare_digest(signature, written["signature"])
            or not is_own(recording)
        ):
            return None
        content = json.loads(written["content"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if content.get("format") == _FORMAT else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_all(folder: Path) -> str:
    """Digest the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            digest.update(f"{path.relative_to(folder)}\0{_digest(path.read_bytes())}\0".encode())
    return digest.hexdigest()


def try_fixes(
    request: Request,
    recording: Path,
    options: SearchOptions,
    setup: Setup,
    check: Callable[[Sequence[FileChange]], None] | None = None,
    patch: Patch | None = None,
) -> SearchResult:
    """Try fixes, or a patch in their place; the recording holds the answer.

    Raises:
        KeyboardInterrupt: It was interrupted; the recording holds what was found until then.
    """
    # Not earlier: the recipes take longer to import than the recorded run takes to begin.
    from graphdoctor.fixes.search import search

    result = search(
        request,
        recording,
        read_recording(recording),
        root=Path.cwd(),
        options=options,
        setup=setup,
        check=check,
        patch=patch,
    )
    if patch is None:
        keep(request, recording, result, setup)
    if result.treatment.is_interrupted:
        raise KeyboardInterrupt
    return result
