"""How a child ended, from its exit status, what it reported, and what it was stopped for, in the
command line's words.

Imported once the child has ended, because of the models that it needs.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any, Literal

from graphdoctor.facts.run import HintCode, HintValue, ProbeExit
from graphdoctor.probe.wire import EXIT_CLOSED, EXIT_UNWRITABLE
from graphdoctor.views.exit_words import COMMAND_LINE, words
from graphdoctor.wording import during, first_line

_MAX_LINE = 500
"""Longest line of a program's message that is repeated in ours; its traceback has the whole
message."""

StoppedFor = Literal["timeout", "memory", "interrupted"]

_Fields = dict[str, Any]
"""Of a ``ProbeExit``."""

_Events = Mapping[str, dict[str, Any]]
"""What a child reported, the last event of each kind."""


def end_of_probe(
    status: int,
    stopped_for: StoppedFor | None,
    last: _Events,
    *,
    python: str,
    timeout_s: float | None,
) -> ProbeExit:
    """Describe how a probe ended."""
    phase = last.get("phase", {})
    end: _Fields = {"status": status, "phase": phase.get("phase"), "phase_kind": phase.get("kind")}
    end |= _end(status, stopped_for, last, python=python, timeout_s=timeout_s)
    if stopped_for in ("timeout", "memory") and end["reason"] in ("timeout", "killed"):
        end["stopped_for"] = stopped_for
    return ProbeExit(**end)


def _end(
    status: int,
    stopped_for: StoppedFor | None,
    last: _Events,
    *,
    python: str,
    timeout_s: float | None,
) -> _Fields:
    phase, kind = last.get("phase", {}).get("phase"), last.get("phase", {}).get("kind")
    when = during(phase)
    if last.get("finished", {}).get("is_complete"):
        # What happens while Python shuts down, exit handlers included, takes nothing from the
        # recording.
        end = {"reason": "finished", "peak_memory_bytes": last["finished"].get("peak_memory_bytes")}
        # Threads that the program left running may keep the process alive; then its end is our
        # doing.
        return end | ({"status": None} if stopped_for else {})
    if stopped_for == "interrupted" or "interrupted" in last:
        return {"reason": "interrupted", "message": f"Interrupted{when}."}
    if "call_failed" in last:
        return _failed_call(last["call_failed"])
    if stopped_for == "timeout":
        return _coded("timeout", {"timeout_s": timeout_s, "phase": phase}) | {"reason": "timeout"}
    if stopped_for == "memory":
        return {"reason": "killed", "message": f"Stopped{when}: it used too much memory."}
    if "exited" in last:
        return _end_by_exit(last["exited"], when, is_import=kind == "importing the target")
    if "error" in last:
        return _end_by_error(last["error"], when, None if kind != "importing torch" else python)
    if status == EXIT_UNWRITABLE:
        return {
            "reason": "error",
            "message": f"The recording could not be written{when}: the disk may be full.",
        }
    if status == EXIT_CLOSED:
        closed = "The program closed a file descriptor that isn't its own"
        return {
            "reason": "error",
            "message": f"{closed}{when}, so the recording could not be written.",
        }
    if not last:
        return _coded("unusable_python", {"python": python, "status": status})
    return _end_by_death(status, when)


def end_of_script(status: int, stopped_after_s: float | None, last: _Events) -> ProbeExit:
    """Describe how a program ended that was run as it is."""
    return ProbeExit(status=status, **_end_of_script(status, stopped_after_s, last))


def _end_of_script(status: int, stopped_after_s: float | None, last: _Events) -> _Fields:
    if stopped_after_s is not None:
        return _coded("script_timeout", {"timeout_s": stopped_after_s}) | {"reason": "timeout"}
    error: dict[str, str] | None = last.get("ended", {}).get("error")
    if status == -signal.SIGINT or (status and error and error["type"] == "KeyboardInterrupt"):
        return {"reason": "interrupted", "message": "Interrupted."}
    if status < 0:
        return {
            "reason": "killed",
            "message": f"The program was killed by {_signal_name(-status)}.",
        }
    # A traceback that the program printed and survived (an interactive loop) is not a failure.
    if error and status:
        return _end_by_raising("The program failed", error)
    if "process" in last and "ended" not in last:
        message = f"The program ended the process itself (os._exit), with exit status {status}."
        return {"reason": "exited", "message": message}
    return {"reason": "finished"}


def end_of_block(last: _Events, *, duration_s: float) -> ProbeExit:
    """Describe how a block of a program ended that was recorded in its own process."""
    error: dict[str, str] | None = last.get("ended", {}).get("error")
    end: _Fields = (
        {"reason": "finished"} if error is None else _end_by_raising("The block failed", error)
    )
    if error is not None and error["type"] == "KeyboardInterrupt":
        end["reason"] = "interrupted"
    return ProbeExit(status=None, duration_s=duration_s, **end)


def end_of_failed_call(event: dict[str, Any], *, duration_s: float) -> ProbeExit:
    """Describe how a run in the user's own process ended whose call failed."""
    return ProbeExit(status=None, duration_s=duration_s, **_failed_call(event))


_PLACE = re.compile(r'^  File "(?!.*site-packages)([^"\n]+)", line (\d+)', re.MULTILINE)
"""A line of a traceback in a file that isn't an installed package's."""


def _failed_call(event: dict[str, Any]) -> _Fields:
    call = f"call {event['index']}"
    failed = (
        f"torch.compile refused {call}"
        if event["from_compiler"]
        else f"The program failed in {call}"
    )
    if event.get("is_eager") and (places := _PLACE.findall(event["traceback"])):
        failed += f", at {places[-1][0]}:{places[-1][1]}"
    end = _end_by_raising(failed, event)
    if event.get("is_eager"):
        end["hint"] = (
            "It fails without torch.compile, too: fix the program, or its inputs (example_inputs)."
        )
        if unasked := re.match(r"(\w+\(\)) takes 0 positional arguments but ", event["message"]):
            end["hint"] = (
                f"If it makes what is to be compiled, name it with its parentheses: {unasked[1]}."
            )
    changes: dict[str, HintValue] = {"dtype": event.get("dtype"), "batch": event.get("batch")}
    if any(value is not None for value in changes.values()):
        end |= _coded("changed_call", {"failed": end["message"], **changes})
    return end | {"phase": call}


def _end_by_raising(what: str, error: dict[str, str]) -> _Fields:
    message = _first_line(error["message"])
    raised = f"{error['type']}: {message}" if message else error["type"]
    return {
        "reason": "error",
        "message": f"{what}: {raised}",
        "error_type": error["type"],
        "traceback": error["traceback"],
    }


def _coded(code: HintCode, values: dict[str, HintValue]) -> _Fields:
    """An error whose words name options: in those of the command line, with the code for other
    surfaces.
    """
    message, hint = words(code, values, COMMAND_LINE)
    return {
        "reason": "error",
        "message": message,
        "hint": hint,
        "hint_code": code,
        "hint_values": values,
    }


def _end_by_exit(event: dict[str, Any], when: str, *, is_import: bool) -> _Fields:
    place = f" at {event['place']}" if event["place"] else ""
    return {
        "reason": "exited",
        "message": f"The program called sys.exit({event['status']}){when}{place}.",
        "hint": 'Put the part that runs as a script under if __name__ == "__main__":.'
        if is_import
        else None,
        "traceback": event["traceback"],
    }


def _end_by_error(event: dict[str, Any], when: str, without_torch: str | None) -> _Fields:
    """An error that the probe reported; ``without_torch``: the interpreter, if it occurred while
    torch was imported.
    """
    if "code" in event:
        return _coded(event["code"], event.get("values", {}))
    if "type" not in event:
        text = str(event.get("message"))
        text = text if text.endswith((".", "…")) else f"{text}."
        return {"reason": "error", "message": text, "hint": event.get("hint")}
    if without_torch is not None:
        values: dict[str, HintValue] = {
            "python": without_torch,
            "error": _first_line(event["message"]),
        }
        return _coded("no_torch", values) | {"traceback": event["traceback"]}
    return _end_by_raising(f"The program failed{when}", event)


def _end_by_death(status: int, when: str) -> _Fields:
    if status >= 0:
        return {
            "reason": "exited",
            "message": f"The program ended the process{when}, with exit status {status}.",
        }
    name = _signal_name(-status)
    crash = "Its last Python lines are above. Does the same call work without torch.compile?"
    hints = dict.fromkeys(("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"), crash)
    hints["SIGKILL"] = "The system kills a process that uses up its memory: try smaller inputs."
    return {
        "reason": "killed",
        "message": f"The process was killed by {name}{when}.",
        "hint": hints.get(name),
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first_line(message: object) -> str:
    line = first_line(str(message))
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"
