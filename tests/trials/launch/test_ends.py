"""Every way in which a child can end, as a ``ProbeExit``; its words are in the snapshot."""

from __future__ import annotations

import signal
from typing import Any, get_args

from graphdoctor.facts.base import field_types
from graphdoctor.facts.run import ProbeExit
from graphdoctor.trials.launch.ends import end_of_block, end_of_failed_call, end_of_probe, end_of_script

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
FINISHED = {"event": "finished", "is_complete": True, "peak_memory_bytes": 7}
ENDED = {"event": "ended"}

PROBES: dict[str, tuple[list[dict[str, Any]], int, Any]] = {
    "it finished": ([CALL, FINISHED], 0, None),
    "it finished, and its threads did not end": ([CALL, FINISHED], -15, "timeout"),
    "it finished, and crashed while Python shut down": ([CALL, FINISHED], -11, None),
    "it was interrupted by us": ([CALL], -2, "interrupted"),
    "it was interrupted by another": ([IMPORTING, {"event": "interrupted"}], 130, None),
    "a call failed": ([CALL, FAILED], 3, None),
    "a changed call failed": ([CALL, FAILED, FAILED | {"dtype": "float16", "batch": 8}], 3, None),
    "a call with another batch size failed": ([FAILED | {"dtype": None, "batch": 8}], 3, None),
    "a call was refused, and finished says so": (
        [FAILED | {"from_compiler": True}, FINISHED | {"is_complete": False}],
        3,
        None,
    ),
    "it took too long": ([CALL], -15, "timeout"),
    "it took too much memory": ([CALL], -9, "memory"),
    "it called sys.exit at import": (
        [IMPORTING, {"event": "exited", "status": 4, "place": "a.py:3", "traceback": "t"}],
        3,
        None,
    ),
    "it called sys.exit in a step of an import": (
        [COMPILING, {"event": "exited", "status": 4, "place": None, "traceback": "t"}],
        3,
        None,
    ),
    "it called sys.exit in a call": (
        [CALL, {"event": "exited", "status": 0, "place": None, "traceback": "t"}],
        3,
        None,
    ),
    "it raised": ([IMPORTING, RAISED], 3, None),
    "torch could not be imported": (
        [{"event": "phase", "phase": "importing torch", "kind": "importing torch"}, RAISED],
        3,
        None,
    ),
    "the target cannot be used": ([{"event": "error", "message": "a.py has no x", "hint": "Did you mean y?"}], 3, None),
    "what was asked for cannot be done": ([CALL, {"event": "error", "code": "no_gradient", "values": {}}], 3, None),
    "a first line announces the next": (
        [CALL, RAISED | {"message": "backend='own' raised:\nRuntimeError: no"}],
        3,
        None,
    ),
    "the interpreter ran no probe": ([], 1, None),
    "os._exit": ([PROCESS, CALL], 5, None),
    "the system killed it": ([PROCESS], -9, None),
    "a crash": ([CALL], -signal.SIGSEGV, None),
    "a signal of its own": ([CALL], -signal.SIGUSR1, None),
    "a signal without a name": ([CALL], -63, None),
    "it could not write": ([CALL], 74, None),
}


def text_of(found: ProbeExit) -> dict[str, object]:
    """What is known of an end, without what isn't."""
    return {name: value for name, value in vars(found).items() if value not in (None, {})}


def test_a_probe_ends(snapshot):
    found = {case: ended(*events, status=status, stopped_for=why) for case, (events, status, why) in PROBES.items()}
    assert {case: text_of(end) for case, end in found.items()} == snapshot
    declared = next(kind for kind in get_args(field_types(ProbeExit)["reason"]) if kind is not type(None))
    assert {end.reason for end in found.values()} == set(get_args(declared))


def test_a_long_message_is_cut():
    found = ended(CALL, {"event": "error", "type": "ValueError", "message": "x" * 600, "traceback": None})
    assert len(found.message) < 600
    assert found.message.endswith("…")


def test_a_script_ends(snapshot):
    scripts: dict[str, tuple[int, float | None, list[dict[str, Any]]]] = {
        "it ended": (0, None, [PROCESS, ENDED]),
        "it ended with a status of its own": (4, None, [PROCESS, ENDED]),
        "it took too long": (-15, 3.0, [PROCESS]),
        "it raised": (1, None, [PROCESS, ENDED | {"error": ERROR}]),
        "it raised without a message": (1, None, [PROCESS, ENDED | {"error": ERROR | {"message": ""}}]),
        "it printed a traceback and went on": (0, None, [PROCESS, ENDED | {"error": ERROR}]),
        "Ctrl-C": (-signal.SIGINT, None, [PROCESS]),
        "KeyboardInterrupt": (1, None, [PROCESS, ENDED | {"error": ERROR | {"type": "KeyboardInterrupt"}}]),
        "a signal": (-signal.SIGKILL, None, [PROCESS]),
        "os._exit": (7, None, [PROCESS]),
        "an interpreter that ignores PYTHONPATH": (2, None, []),
    }
    assert {case: text_of(end_of_script(*how, last(events))) for case, (*how, events) in scripts.items()} == snapshot


def test_a_block_or_a_call_of_our_own_process_ends(snapshot):
    interrupt = ERROR | {"type": "KeyboardInterrupt", "message": ""}
    blocks = [[PROCESS], [ENDED | {"error": ERROR}], [ENDED | {"error": interrupt}]]
    assert [text_of(end_of_block(last(events), duration_s=1.5)) for events in blocks] == snapshot
    assert text_of(end_of_failed_call(FAILED, duration_s=0.5)) == snapshot
