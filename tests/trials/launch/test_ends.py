"""Every way in which a child can end, as a ``ProbeExit``; its words are in the snapshot."""

from __future__ import annotations

import signal
from typing import Any, get_args

from graphdoctor.facts.base import field_types
from graphdoctor.facts.run import ProbeExit
from graphdoctor.trials.launch.ends import (
    end_of_block,
    end_of_failed_call,
    end_of_probe,
    end_of_script,
)

PROCESS = {"event": "process", "pid": 1}
IMPORTING = {"event": "phase", "phase": "importing the target", "kind": "importing the target"}
COMPILING = {**IMPORTING, "phase": "importing the target, compiling 0/0"}
CALL = {"event": "phase", "phase": "call 2", "kind": "call {index}"}
ERROR = {"type": "ValueError", "message": "\n too small\nsecond line", "traceback": "Traceback…"}
RAISED = {"event": "error", **ERROR}


def last(events) -> dict[str, dict[str, Any]]:
    return {event["event"]: event for event in events}


def ended(*events, status=3, stopped_for=None) -> ProbeExit:
    return end_of_probe(status, stopped_for, last(events), python="/venv/python", timeout_s=2.5)


FAILED = {"event": "call_failed", "index": 2, "from_compiler": False, **ERROR}
UNASKED = {
    "is_eager": True,
    "type": "TypeError",
    "message": "make() takes 0 positional arguments but 1 was given",
}
FINISHED = {"event": "finished", "is_complete": True, "peak_memory_bytes": 7}
ENDED = {"event": "ended"}


def left(status: int, place: str | None = None) -> dict[str, Any]:
    """An event of a program that calls ``sys.exit``."""
    return {"event": "exited", "status": status, "place": place, "traceback": "t"}


PROBES = {
    "it finished": ended(CALL, FINISHED, status=0),
    "it finished, and its threads did not end": ended(
        CALL, FINISHED, status=-15, stopped_for="timeout"
    ),
    "it finished, and crashed while Python shut down": ended(CALL, FINISHED, status=-11),
    "it was interrupted by us": ended(CALL, status=-2, stopped_for="interrupted"),
    "it was interrupted by another": ended(IMPORTING, {"event": "interrupted"}, status=130),
    "a call failed": ended(CALL, FAILED),
    "a changed call failed": ended(CALL, FAILED, FAILED | {"dtype": "float16", "batch": 8}),
    "a call with another batch size failed": ended(FAILED | {"dtype": None, "batch": 8}),
    "a call failed in eager mode, too": ended(CALL, FAILED | {"is_eager": True}),
    "a function that makes the target was called in its place": ended(CALL, FAILED | UNASKED),
    "a call was refused, and finished says so": ended(
        FAILED | {"from_compiler": True}, FINISHED | {"is_complete": False}
    ),
    "it took too long": ended(CALL, status=-15, stopped_for="timeout"),
    "it took too much memory": ended(CALL, status=-9, stopped_for="memory"),
    "it called sys.exit at import": ended(IMPORTING, left(4, "a.py:3")),
    "it called sys.exit in a step of an import": ended(COMPILING, left(4)),
    "it called sys.exit in a call": ended(CALL, left(0)),
    "it raised": ended(IMPORTING, RAISED),
    "torch could not be imported": ended(
        IMPORTING | dict.fromkeys(("phase", "kind"), "importing torch"), RAISED
    ),
    "the target cannot be used": ended(
        {"event": "error", "message": "a.py has no x", "hint": "Did you mean y?"}
    ),
    "what was asked for cannot be done": ended(
        CALL, {"event": "error", "code": "no_gradient", "values": {}}
    ),
    "a first line announces the next": ended(
        CALL, RAISED | {"message": "backend='own' raised:\nRuntimeError: no"}
    ),
    "the interpreter ran no probe": ended(status=1),
    "os._exit": ended(PROCESS, CALL, status=5),
    "the system killed it": ended(PROCESS, status=-9),
    "a crash": ended(CALL, status=-signal.SIGSEGV),
    "a signal of its own": ended(CALL, status=-signal.SIGUSR1),
    "a signal without a name": ended(CALL, status=-63),
    "it could not write": ended(CALL, status=74),
    "its files were closed": ended(CALL, status=73),
}


def text_of(ended: ProbeExit) -> dict[str, object]:
    """Return the known fields of an end."""
    return {name: value for name, value in vars(ended).items() if value not in (None, {})}


def test_a_probe_ends(snapshot):
    assert {case: text_of(end) for case, end in PROBES.items()} == snapshot
    declared = next(
        kind for kind in get_args(field_types(ProbeExit)["reason"]) if kind is not type(None)
    )
    # Nobody writes that a run goes on, or that its end was never written.
    assert {end.reason for end in PROBES.values()} == set(get_args(declared)) - {"running", "lost"}


def test_a_long_message_is_cut():
    end = ended(
        CALL, {"event": "error", "type": "ValueError", "message": "x" * 600, "traceback": None}
    )
    assert len(end.message) < 600
    assert end.message.endswith("…")


STOOD = """\
Timeout (0:00:02.500000)!
Thread 0x00007f1 (most recent call first):
  File "/work/loader.py", line 9 in run

Thread 0x00007f2 (most recent call first):
  File "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 5 in forward
  File "/work/train.py", line 7 in step
  File "/work/train.py", line 20 in <module>
"""


def test_a_script_ends(snapshot):
    scripts: dict[str, tuple[int, float | None, list[dict[str, Any]]]] = {
        "it ended": (0, None, [PROCESS, ENDED]),
        "it ended with a status of its own": (4, None, [PROCESS, ENDED]),
        "it took too long": (-15, 3.0, [PROCESS]),
        "it raised": (1, None, [PROCESS, ENDED | {"error": ERROR}]),
        "it raised without a message": (
            1,
            None,
            [PROCESS, ENDED | {"error": ERROR | {"message": ""}}],
        ),
        "it printed a traceback and went on": (0, None, [PROCESS, ENDED | {"error": ERROR}]),
        "Ctrl-C": (-signal.SIGINT, None, [PROCESS]),
        "KeyboardInterrupt": (
            1,
            None,
            [PROCESS, ENDED | {"error": ERROR | {"type": "KeyboardInterrupt"}}],
        ),
        "a signal": (-signal.SIGKILL, None, [PROCESS]),
        "os._exit": (7, None, [PROCESS]),
        "an interpreter that ignores PYTHONPATH": (2, None, []),
    }
    assert {
        case: text_of(end_of_script(*how, last(events), crash=STOOD))
        for case, (*how, events) in scripts.items()
    } == snapshot


def test_a_block_or_a_call_of_our_own_process_ends(snapshot):
    interrupt = ERROR | {"type": "KeyboardInterrupt", "message": ""}
    blocks = [[PROCESS], [ENDED | {"error": ERROR}], [ENDED | {"error": interrupt}]]
    assert [text_of(end_of_block(last(events), duration_s=1.5)) for events in blocks] == snapshot
    assert text_of(end_of_failed_call(FAILED, duration_s=0.5)) == snapshot
