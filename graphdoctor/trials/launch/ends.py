"""How a child ended, from its exit status and what it reported.

Comes in: an exit status, the events of ``probe.jsonl``, and what the parent stopped the child for. Goes out: a
``ProbeExit`` in the words of the command line. Imported once the child has ended, because of the models that it needs.
"""

from __future__ import annotations

import signal
from typing import Any, Literal

from graphdoctor.facts.hints import COMMAND_LINE, HintCode, HintValue, during, words
from graphdoctor.facts.run import PhaseKind, ProbeExit
from graphdoctor.probe.wire import EXIT_UNWRITABLE

_MAX_LINE = 500
"""Longest line of a program's message that is repeated in ours; its traceback has the whole message."""

StoppedFor = Literal["timeout", "memory", "interrupted"]


def end_of_probe(
    status: int, stopped_for: StoppedFor | None, events: list[dict[str, Any]], *, python: str, timeout_s: float | None
) -> ProbeExit:
    """How a probe ended."""
    last: dict[str, Any] = {event["event"]: event for event in events}
    phase: str | None = last.get("phase", {}).get("phase")
    kind: PhaseKind | None = last.get("phase", {}).get("kind")
    ended = _end(status, stopped_for, last, phase, kind, python=python, timeout_s=timeout_s)
    limit = stopped_for if stopped_for in ("timeout", "memory") and ended.reason in ("timeout", "killed") else None
    return ended.model_copy(update={"phase": ended.phase or phase, "phase_kind": kind, "stopped_for": limit})


def _end(
    status: int,
    stopped_for: StoppedFor | None,
    last: dict[str, Any],
    phase: str | None,
    kind: PhaseKind | None,
    *,
    python: str,
    timeout_s: float | None,
) -> ProbeExit:
    when = during(phase)
    if last.get("finished", {}).get("is_complete"):
        # What happens while Python shuts down, exit handlers included, takes nothing from the recording.
        peak = last["finished"].get("peak_memory_bytes")
        # Threads that the program left running may keep the process alive; then its end is our doing.
        return ProbeExit(status=None if stopped_for else status, reason="finished", peak_memory_bytes=peak)
    if stopped_for == "interrupted" or "interrupted" in last:
        return ProbeExit(status=status, reason="interrupted", message=f"Interrupted{when}.")
    if "call_failed" in last:
        return end_of_failed_call(last["call_failed"], status=status)
    if stopped_for == "timeout":
        return _coded("timeout", {"timeout_s": timeout_s, "phase": phase}, status=status, reason="timeout")
    if stopped_for == "memory":
        return ProbeExit(status=status, reason="killed", message=f"Stopped{when}: it used too much memory.")
    if "exited" in last:
        return _end_by_exit(last["exited"], status, when, kind)
    if "error" in last:
        return _end_by_error(last["error"], status, when, kind, python)
    if status == EXIT_UNWRITABLE:
        message = f"The recording could not be written{when}: the disk may be full."
        return ProbeExit(status=status, reason="error", message=message)
    if not last:
        return _coded("unusable_python", {"python": python, "status": status}, status=status)
    return _end_by_death(status, when)


def end_of_script(status: int, stopped_after_s: float | None, events: list[dict[str, Any]]) -> ProbeExit:
    """How a program ended that was run as it is."""
    last: dict[str, Any] = {event["event"]: event for event in events}
    if stopped_after_s is not None:
        return _coded("script_timeout", {"timeout_s": stopped_after_s}, status=status, reason="timeout")
    error: dict[str, str] | None = last.get("ended", {}).get("error")
    if status == -signal.SIGINT or (status and error and error["type"] == "KeyboardInterrupt"):
        return ProbeExit(status=status, reason="interrupted", message="Interrupted.")
    if status < 0:
        return ProbeExit(status=status, reason="killed", message=f"The program was killed by {_signal_name(-status)}.")
    # A traceback that the program printed and survived (an interactive loop) is not a failure.
    if error and status:
        return _end_by_raising("The program failed", error, status=status)
    if "process" in last and "ended" not in last:
        message = f"The program ended the process itself (os._exit), with exit status {status}."
        return ProbeExit(status=status, reason="exited", message=message)
    return ProbeExit(status=status, reason="finished")


def end_of_block(events: list[dict[str, Any]], *, duration_s: float) -> ProbeExit:
    """How a block of a program ended that was recorded in its own process."""
    error: dict[str, str] | None = next((event.get("error") for event in events if event["event"] == "ended"), None)
    if error is None:
        return ProbeExit(status=None, reason="finished", duration_s=duration_s)
    ended = _end_by_raising("The block failed", error, status=None)
    is_interrupt = error["type"] == "KeyboardInterrupt"
    return ended.model_copy(
        update={"reason": "interrupted" if is_interrupt else "error", "duration_s": duration_s},
    )


def end_of_failed_call(event: dict[str, Any], *, status: int | None, duration_s: float | None = None) -> ProbeExit:
    """How a run ended whose call failed."""
    call = f"call {event['index']}"
    failed = f"torch.compile refused {call}" if event["from_compiler"] else f"The program failed in {call}"
    ended = _end_by_raising(failed, event, status=status)
    changes: dict[str, HintValue] = {"dtype": event.get("dtype"), "batch": event.get("batch")}
    if any(value is not None for value in changes.values()):
        told = _coded("changed_call", {"failed": ended.message, **changes}, status=status)
        ended = told.model_copy(update={"error_type": ended.error_type, "traceback": ended.traceback})
    return ended.model_copy(update={"phase": call, "duration_s": duration_s})


def _end_by_raising(what: str, error: dict[str, str], *, status: int | None) -> ProbeExit:
    message = _first_line(error["message"])
    raised = f"{error['type']}: {message}" if message else error["type"]
    return ProbeExit(
        status=status,
        reason="error",
        message=f"{what}: {raised}",
        error_type=error["type"],
        traceback=error["traceback"],
    )


def _coded(
    code: HintCode,
    values: dict[str, HintValue],
    *,
    status: int | None,
    reason: Literal["error", "timeout"] = "error",
    traceback: str | None = None,
) -> ProbeExit:
    """An end whose words name options: in those of the command line, with the code for other surfaces."""
    message, hint = words(code, values, COMMAND_LINE)
    return ProbeExit(
        status=status,
        reason=reason,
        message=message,
        hint=hint,
        hint_code=code,
        hint_values=values,
        traceback=traceback,
    )


def _end_by_exit(event: dict[str, Any], status: int, when: str, kind: PhaseKind | None) -> ProbeExit:
    place = f" at {event['place']}" if event["place"] else ""
    is_import = kind == "importing the target"
    return ProbeExit(
        status=status,
        reason="exited",
        message=f"The program called sys.exit({event['status']}){when}{place}.",
        hint='Put the part that runs as a script under if __name__ == "__main__":.' if is_import else None,
        traceback=event["traceback"],
    )


def _end_by_error(event: dict[str, Any], status: int, when: str, kind: PhaseKind | None, python: str) -> ProbeExit:
    if "code" in event:
        return _coded(event["code"], event.get("values", {}), status=status)
    if "type" not in event:
        text = str(event.get("message"))
        text = text if text.endswith((".", "…")) else f"{text}."
        return ProbeExit(status=status, reason="error", message=text, hint=event.get("hint"))
    if kind == "importing torch":
        values: dict[str, HintValue] = {"python": python, "error": _first_line(event["message"])}
        return _coded("no_torch", values, status=status, traceback=event["traceback"])
    return _end_by_raising(f"The program failed{when}", event, status=status)


def _end_by_death(status: int, when: str) -> ProbeExit:
    """The process ended without a last event: it was killed, or ended itself."""
    if status >= 0:
        message = f"The program ended the process{when}, with exit status {status}."
        return ProbeExit(status=status, reason="exited", message=message)
    name = _signal_name(-status)
    crash = "Its last Python lines are above. Does the same call work without torch.compile?"
    hints = dict.fromkeys(("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"), crash)
    hints["SIGKILL"] = "The system kills a process that uses up its memory: try smaller inputs."
    message = f"The process was killed by {name}{when}."
    return ProbeExit(status=status, reason="killed", message=message, hint=hints.get(name))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first_line(message: object) -> str:
    """The first line of a program's message, cut where it is longer than a line should be."""
    lines = [line.strip() for line in str(message).splitlines() if line.strip()] or [""]
    # "backend='x' raised:" says nothing without the next line.
    line = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"
