"""Runs a target or a script in a new recording, which becomes the last one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.trials.launch.child import Watching, interpreter, record
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.script import Script, ScriptEnd, run_script
from graphdoctor.trials.launch.store import NewRecording, Pool, store_of

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Settings
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.progress import TrialEvent
    from graphdoctor.facts.run import ProbeExit
    from graphdoctor.probe.wire import RunChange
    from graphdoctor.trials.launch.request import Request
    from graphdoctor.trials.launch.warm import WarmProbes


@dataclass(frozen=True)
class Setup:
    """How processes are run.

    Args:
        settings: The project's settings.
        python: The interpreter asked for; None for ours.
        timeout_s: Seconds until a run is stopped; None for the setting.
        watching: What to do meanwhile.
        on_trial: Called with how far trials of fixes are, from several threads.
        warm: Where runs of targets start sooner; None to start an interpreter for each.
        memory_bytes: Resident memory above which a process is stopped; None for no limit.
    """

    settings: Settings
    watching: Watching
    python: str | None = None
    timeout_s: float | None = None
    on_trial: Callable[[TrialEvent], None] | None = None
    warm: WarmProbes | None = None
    memory_bytes: int | None = None

    @property
    def interpreter(self) -> str:
        """The interpreter to run with."""
        return interpreter(self.python)

    @property
    def limit_s(self) -> float | None:
        """Seconds until a run is stopped, or None."""
        return self.timeout_s if self.timeout_s is not None else self.settings.timeout


@dataclass(frozen=True)
class Recorded:
    """A recording that was just made.

    Args:
        made: The recording, which stays as long as this object.
        exit: How the probe ended.
    """

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
        """The diagnosis could be made: the run finished, or torch.compile refused a call that works without it.

        Without the records of what torch did there is nothing to make it from.

        Args:
            diagnosis: What the recording gave.
        """
        from graphdoctor.rules.gate.check import refused_call

        if self.lost(diagnosis) is not None:
            return False
        # The refusal is what was asked for.
        return self.exit.reason == "finished" or refused_call(diagnosis) is not None

    @staticmethod
    def lost(diagnosis: Diagnosis) -> str | None:
        """What the program took from the recording, in words; None where it took nothing.

        Args:
            diagnosis: What the recording gave.
        """
        return next((gap.message for gap in diagnosis.gaps if gap.kind == "log_removed"), None)


def record_target(request: Request, setup: Setup, pool: Pool = "") -> Recorded:
    """Run the probe.

    Args:
        request: What to do.
        setup: How.
        pool: Which recordings this one may replace.
    """
    place = request.target.file or request.target.module or ""
    made = _new_recording(Path(place).stem, setup.settings, pool)
    folder = made.path
    ended = record(
        request,
        folder,
        python=setup.interpreter,
        timeout_s=setup.limit_s,
        watching=setup.watching,
        memory_bytes=setup.memory_bytes,
        warm=setup.warm,
    )
    sign(folder)
    return Recorded(made, ended)


def record_script(
    script: Script,
    settings: Settings,
    *,
    python: str | None,
    timeout_s: float | None,
    meanwhile: Callable[[], None] | None = None,
    change: RunChange | None = None,
) -> tuple[NewRecording, ScriptEnd]:
    """Run a script as ``python`` would.

    Args:
        script: What to run.
        settings: The project's settings.
        python: The interpreter asked for, or None for ours.
        timeout_s: Seconds until the script is stopped, or None.
        meanwhile: Called once the recording's folder is there, before the script starts.
        change: What is other in this run; None to leave it as it is.

    Returns:
        The recording, which stays as long as the object, and how the script ended.
    """
    made = _new_recording(script.label, settings)
    folder = made.path
    if meanwhile is not None:
        meanwhile()
    ended = run_script(script, folder, python=interpreter(python), timeout_s=timeout_s, change=change)
    sign(folder)
    return made, ended


def _new_recording(label: str, settings: Settings, pool: Pool = "") -> NewRecording:
    return store_of(settings).create(label, pool)
