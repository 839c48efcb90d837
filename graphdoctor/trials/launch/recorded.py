"""Runs a target in a new recording, which becomes the last one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.executors.machine import memory
from graphdoctor.facts.stack import relative
from graphdoctor.trials.launch.child import Setup, check_interpreter, record
from graphdoctor.trials.launch.discover import check_source
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.store import NewRecording, Pool, Store

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.run import ProbeExit
    from graphdoctor.trials.launch.request import Request


@dataclass(frozen=True)
class Recorded:
    """A recording that was just made."""

    made: NewRecording
    exit: ProbeExit

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.made.path

    @property
    def is_interrupted(self) -> bool:
        """Somebody pressed Ctrl-C: nothing that was to follow is wanted."""
        return self.exit.reason == "interrupted"

    def is_explained(self, diagnosis: Diagnosis) -> bool:
        """Tell if the diagnosis could be made: the run finished, or torch.compile refused a call
        that works without it.

        Without the records of what torch did there is nothing to make it from.
        """
        from graphdoctor.rules.gate.check import refused_call

        if self.lost(diagnosis) is not None:
            return False
        # The refusal is what was asked for.
        return self.exit.reason == "finished" or refused_call(diagnosis) is not None

    @staticmethod
    def lost(diagnosis: Diagnosis) -> str | None:
        """Say what the program took from the recording; None where it took nothing."""
        gap = diagnosis.recording.gap("log_removed")
        return gap.message if gap is not None else None


def record_target(request: Request, store: Store, setup: Setup, pool: Pool = "") -> Recorded:
    """Run the probe, in a new recording."""
    made = new_recording(request, store, setup, pool)
    ended = record(request, made.path, setup)
    sign(made.path)
    return Recorded(made, ended)


def new_recording(request: Request, store: Store, setup: Setup, pool: Pool = "") -> NewRecording:
    """Make the folder of a new recording of what can be started."""
    check_interpreter(setup.interpreter, "an interpreter that has torch")
    file = request.target.file
    # Another interpreter may read what this one can't.
    if file is not None and setup.python is None:
        check_source(file, relative(file, setup.folder or Path.cwd()))
    return store.create(Path(file or request.target.module or "").stem, pool)


def fitting(peak_bytes: int | None, *, most: int) -> int:
    """Count the processes that fit into half the free memory of this machine, at least one."""
    free = memory()[1]
    if peak_bytes and free is not None:
        most = min(most, free // 2 // peak_bytes)
    return max(most, 1)
