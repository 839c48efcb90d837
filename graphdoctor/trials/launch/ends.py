"""How a child ended, from its exit status, what it reported, and what it was stopped for, in the
command line's words.

Imported once the child has ended, because of the models that it needs.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from graphdoctor.facts.run import HintCode, HintValue, ProbeExit
from graphdoctor.facts.stack import relative
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
    crash: str | None = None,
) -> ProbeExit:
    """Describe how a probe ended; ``crash``: what Python's faulthandler wrote."""
    phase, kind = (last.get("phase", {}).get(name) for name in ("phase", "kind"))
    when = during(phase)
    end: _Fields
    if last.get("finished", {}).get("is_complete"):
        # What happens while Python shuts down, exit handlers included, takes nothing from the
        # recording.
        end = {"reason": "finished", "peak_memory_bytes": last["finished"].get("peak_memory_bytes")}
        if stopped_for:
            # Threads that the program left running kept the process alive: its end is our doing.
            end["status"] = None
    elif stopped_for == "interrupted" or "interrupted" in last:
        end = {"reason": "interrupted", "message": f"Interrupted{when}."}
    elif "call_failed" in last:
        end = _failed_call(last["call_failed"])
    elif stopped_for == "timeout":
        place = _innermost(crash or "")
        end = _coded("timeout", {"timeout_s": timeout_s, "phase": phase, "place": place})
        end |= {"reason": "timeout", "stopped_for": stopped_for}
    elif stopped_for == "memory":
        message = f"Stopped{when}: it used too much memory."
        end = {"reason": "killed", "message": message, "stopped_for": stopped_for}
    elif "exited" in last:
        event = last["exited"]
        place = f" at {event['place']}" if event["place"] else ""
        hint = 'Put the part that runs as a script under if __name__ == "__main__":.'
        end = {
            "reason": "exited",
            "message": f"The program called sys.exit({event['status']}){when}{place}.",
            "hint": hint if kind == "importing the target" else None,
            "traceback": event["traceback"],
        }
    elif "error" in last:
        end = _end_by_error(last["error"], when, python if kind == "importing torch" else None)
    elif status in (EXIT_UNWRITABLE, EXIT_CLOSED):
        closed = "The program closed a file descriptor that isn't its own"
        message = (
            f"The recording could not be written{when}: the disk may be full."
            if status == EXIT_UNWRITABLE
            else f"{closed}{when}, so the recording could not be written."
        )
        end = {"reason": "error", "message": message}
    elif not last:
        end = _coded("unusable_python", {"python": python, "status": status})
    elif status >= 0:
        message = f"The program ended the process{when}, with exit status {status}."
        end = {"reason": "exited", "message": message}
    else:
        name = _signal_name(-status)
        message = f"The process was killed by {name}{when}."
        end = {"reason": "killed", "message": message, "hint": _HINTS.get(name)}
        end["traceback"] = crash
    return ProbeExit(**{"status": status, "phase": phase, "phase_kind": kind, **end})


_HINTS = dict.fromkeys(
    ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"),
    "Its last Python lines are above. Does the same call work without torch.compile?",
)
_HINTS["SIGKILL"] = "The system kills a process that uses up its memory: try smaller inputs."


def end_of_script(
    status: int, stopped_after_s: float | None, last: _Events, *, crash: str | None
) -> ProbeExit:
    """Describe how a program ended that was run as it is."""
    error: dict[str, str] | None = last.get("ended", {}).get("error")
    end: _Fields = {"reason": "finished"}
    if stopped_after_s is not None:
        # Python writes the main thread last.
        place = _innermost((crash or "").rpartition("\nThread 0x")[2])
        values: dict[str, HintValue] = {"timeout_s": stopped_after_s, "place": place}
        end = _coded("script_timeout", values) | {"reason": "timeout"}
    elif status == -signal.SIGINT or (status and error and error["type"] == "KeyboardInterrupt"):
        end = {"reason": "interrupted", "message": "Interrupted."}
    elif status < 0:
        message = f"The program was killed by {_signal_name(-status)}."
        end = {"reason": "killed", "message": message}
    # A traceback that the program printed and survived (an interactive loop) is not a failure.
    elif error and status:
        end = _end_by_raising("The program failed", error)
    elif "process" in last and "ended" not in last:
        message = f"The program ended the process itself (os._exit), with exit status {status}."
        end = {"reason": "exited", "message": message}
    return ProbeExit(status=status, **end)


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


_STOOD = re.compile(
    r'^  File "(?!<|[^"]*/(?:site-packages|lib/python3[^/]*)/)([^"\n]+)", line (\d+)', re.MULTILINE
)
"""A line of faulthandler's in a file of the program's own."""


def _innermost(stack: str) -> str | None:
    """Return the line of the program where a thread stood; None if it stood elsewhere."""
    place = _STOOD.search(stack)
    return None if place is None else f"{relative(place[1], Path.cwd())}:{place[2]}"


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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first_line(message: object) -> str:
    line = first_line(str(message))
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"
