"""Every way in which a child can end, as a ``ProbeExit``."""

from __future__ import annotations

import signal
from typing import get_args

from graphdoctor.facts.base import field_types
from graphdoctor.facts.run import ProbeExit
from graphdoctor.trials.launch.ends import end_of_block, end_of_failed_call, end_of_probe, end_of_script
from tests.each import for_each

PROCESS = {"event": "process", "pid": 1}
IMPORTING = {"event": "phase", "phase": "importing the target", "kind": "importing the target"}
COMPILING = {**IMPORTING, "phase": "importing the target, compiling 0/0"}
CALL = {"event": "phase", "phase": "call 2", "kind": "call {index}"}
ERROR = {"type": "ValueError", "message": "\n too small\nsecond line", "traceback": "Traceback…"}
RAISED = {"event": "error", **ERROR}


def ended(*events, status=3, stopped_for=None) -> ProbeExit:
    return end_of_probe(status, stopped_for, list(events), python="/venv/python", timeout_s=2.5)


# (events, status, what it was stopped for) -> (reason, phase, message, hint, code)
PROBES = {
    "it finished": (
        ([CALL, {"event": "finished", "is_complete": True, "peak_memory_bytes": 7}], 0, None),
        ("finished", "call 2", None, None, None),
    ),
    "it finished, and its threads did not end": (
        ([CALL, {"event": "finished", "is_complete": True}], -15, "timeout"),
        ("finished", "call 2", None, None, None),
    ),
    "it was interrupted by us": (
        ([CALL], -2, "interrupted"),
        ("interrupted", "call 2", "Interrupted in call 2.", None, None),
    ),
    "it was interrupted by another": (
        ([IMPORTING, {"event": "interrupted"}], 130, None),
        ("interrupted", "importing the target", "Interrupted while importing the target.", None, None),
    ),
    "a call failed": (
        ([CALL, {"event": "call_failed", "index": 2, "from_compiler": False, **ERROR}], 3, None),
        ("error", "call 2", "The program failed in call 2: ValueError: too small", None, None),
    ),
    "a changed call failed": (
        (
            [
                CALL,
                {"event": "call_failed", "index": 2, "from_compiler": False, **ERROR},
                {"event": "call_failed", "index": 2, "from_compiler": False, **ERROR, "dtype": "float16", "batch": 8},
            ],
            3,
            None,
        ),
        (
            "error",
            "call 2",
            "The program failed in call 2: ValueError: too small.",
            "The call was made with --dtype float16 and --batch 8 in place of its own. Does it work without?",
            "changed_call",
        ),
    ),
    "a call with another batch size failed": (
        ([{"event": "call_failed", "index": 2, "from_compiler": False, **ERROR, "dtype": None, "batch": 8}], 3, None),
        (
            "error",
            "call 2",
            "The program failed in call 2: ValueError: too small.",
            "The call was made with --batch 8 in place of its own. Does it work without?",
            "changed_call",
        ),
    ),
    "a call was refused, and finished says so": (
        (
            [
                {"event": "call_failed", "index": 1, "from_compiler": True, **ERROR},
                {"event": "finished", "is_complete": False},
            ],
            3,
            None,
        ),
        ("error", "call 1", "torch.compile refused call 1: ValueError: too small", None, None),
    ),
    "it took too long": (
        ([CALL], -15, "timeout"),
        (
            "timeout",
            "call 2",
            "Stopped after 2.5 s in call 2.",
            "Raise --timeout, or make the call smaller.",
            "timeout",
        ),
    ),
    "it took too much memory": (
        ([CALL], -9, "memory"),
        ("killed", "call 2", "Stopped in call 2: it used too much memory.", None, None),
    ),
    "it called sys.exit at import": (
        ([IMPORTING, {"event": "exited", "status": 4, "place": "a.py:3", "traceback": "t"}], 3, None),
        (
            "exited",
            "importing the target",
            "The program called sys.exit(4) while importing the target at a.py:3.",
            'Put the part that runs as a script under if __name__ == "__main__":.',
            None,
        ),
    ),
    "it called sys.exit in a call": (
        ([CALL, {"event": "exited", "status": 0, "place": None, "traceback": "t"}], 3, None),
        ("exited", "call 2", "The program called sys.exit(0) in call 2.", None, None),
    ),
    "it raised": (
        ([IMPORTING, RAISED], 3, None),
        (
            "error",
            "importing the target",
            "The program failed while importing the target: ValueError: too small",
            None,
            None,
        ),
    ),
    "torch could not be imported": (
        ([{"event": "phase", "phase": "importing torch", "kind": "importing torch"}, RAISED], 3, None),
        (
            "error",
            "importing torch",
            "/venv/python can't import torch: too small.",
            "Install torch>=2.11 there, or set --python to an interpreter that has it.",
            "no_torch",
        ),
    ),
    "the target cannot be used": (
        ([{"event": "error", "message": "a.py has no x", "hint": "Did you mean y?"}], 3, None),
        ("error", None, "a.py has no x.", "Did you mean y?", None),
    ),
    "what was asked for cannot be done": (
        ([CALL, {"event": "error", "code": "no_gradient", "values": {}}], 3, None),
        (
            "error",
            "call 2",
            "--backward: no floating-point output requires a gradient.",
            "Leave --backward out, or let an input or a parameter require a gradient.",
            "no_gradient",
        ),
    ),
    "the interpreter ran no probe": (
        ([], 1, None),
        (
            "error",
            None,
            "/venv/python couldn't run the probe: it ended with status 1.",
            "Set --python to the path of a Python 3.11 or newer that has torch.",
            "unusable_python",
        ),
    ),
    "os._exit": (
        ([PROCESS, CALL], 5, None),
        ("exited", "call 2", "The program ended the process in call 2, with exit status 5.", None, None),
    ),
    "the system killed it": (
        ([PROCESS], -9, None),
        (
            "killed",
            None,
            "The process was killed by SIGKILL before it began.",
            "The system kills a process that uses up its memory: try smaller inputs.",
            None,
        ),
    ),
    "a crash": (
        ([CALL], -signal.SIGSEGV, None),
        (
            "killed",
            "call 2",
            "The process was killed by SIGSEGV in call 2.",
            "Its last Python lines are above. Does the same call work without torch.compile?",
            None,
        ),
    ),
    "a signal of its own": (
        ([CALL], -signal.SIGUSR1, None),
        ("killed", "call 2", "The process was killed by SIGUSR1 in call 2.", None, None),
    ),
    "a signal without a name": (
        ([CALL], -63, None),
        ("killed", "call 2", "The process was killed by signal 63 in call 2.", None, None),
    ),
}


@for_each("case", PROBES)
def test_a_probe_ends(case):
    (events, status, stopped_for), (reason, phase, message, hint, code) = PROBES[case]
    found = ended(*events, status=status, stopped_for=stopped_for)
    own_status = None if reason == "finished" and stopped_for is not None else status
    assert (found.status, found.reason, found.phase, found.message) == (own_status, reason, phase, message)
    assert (found.hint, found.hint_code) == (hint, code)


def test_a_finished_program_that_we_had_to_end_has_no_status_of_its_own():
    finished = {"event": "finished", "is_complete": True}
    assert ended(CALL, finished, status=-15, stopped_for="timeout").status is None
    assert ended(CALL, finished, status=0).status == 0
    assert ended(CALL, finished, status=-11).status == -11


def test_the_ways_to_end_cover_every_reason():
    reasons = {expected[0] for _, expected in PROBES.values()}
    declared = next(kind for kind in get_args(field_types(ProbeExit)["reason"]) if kind is not type(None))
    assert reasons == set(get_args(declared))


def test_the_programs_own_traceback_is_kept():
    for event in (RAISED, {"event": "exited", "status": 1, "place": None, "traceback": "Traceback…"}):
        assert ended(CALL, event).traceback == "Traceback…"


def test_a_long_message_is_cut():
    found = ended(CALL, {"event": "error", "type": "ValueError", "message": "x" * 600, "traceback": None})
    assert len(found.message) < 600
    assert found.message.endswith("…")


def test_a_failed_call_of_our_own_process_has_no_status():
    found = end_of_failed_call(
        {"event": "call_failed", "index": 1, "from_compiler": False, **ERROR}, status=None, duration_s=0.5
    )
    assert (found.status, found.reason, found.duration_s) == (None, "error", 0.5)


ENDED = {"event": "ended"}
# (status, seconds after which it was stopped, events) -> (reason, message)
SCRIPTS = {
    "it ended": ((0, None, [PROCESS, ENDED]), ("finished", None)),
    "it ended with a status of its own": ((4, None, [PROCESS, ENDED]), ("finished", None)),
    "it took too long": ((-15, 3.0, [PROCESS]), ("timeout", "Stopped after 3 s.")),
    "it raised": (
        (1, None, [PROCESS, ENDED | {"error": ERROR}]),
        ("error", "The program failed: ValueError: too small"),
    ),
    "it raised without a message": (
        (1, None, [PROCESS, ENDED | {"error": ERROR | {"message": ""}}]),
        ("error", "The program failed: ValueError"),
    ),
    "it printed a traceback and went on": ((0, None, [PROCESS, ENDED | {"error": ERROR}]), ("finished", None)),
    "Ctrl-C": ((-signal.SIGINT, None, [PROCESS]), ("interrupted", "Interrupted.")),
    "KeyboardInterrupt": (
        (1, None, [PROCESS, ENDED | {"error": ERROR | {"type": "KeyboardInterrupt"}}]),
        ("interrupted", "Interrupted."),
    ),
    "a signal": ((-signal.SIGKILL, None, [PROCESS]), ("killed", "The program was killed by SIGKILL.")),
    "os._exit": (
        (7, None, [PROCESS]),
        ("exited", "The program ended the process itself (os._exit), with exit status 7."),
    ),
    "an interpreter that ignores PYTHONPATH": ((2, None, []), ("finished", None)),
}


@for_each("case", SCRIPTS)
def test_a_script_ends(case):
    (status, stopped_after_s, events), (reason, message) = SCRIPTS[case]
    found = end_of_script(status, stopped_after_s, events)
    assert (found.status, found.reason, found.message) == (status, reason, message)


def test_a_script_that_took_too_long_has_a_hint():
    found = end_of_script(-15, 3.0, [PROCESS])
    assert (found.hint_code, found.hint) == ("script_timeout", "Raise --timeout, or leave it out.")


@for_each(
    "events, reason, message",
    [
        ([PROCESS], "finished", None),
        ([ENDED | {"error": ERROR}], "error", "The block failed: ValueError: too small"),
        (
            [ENDED | {"error": ERROR | {"type": "KeyboardInterrupt", "message": ""}}],
            "interrupted",
            "The block failed: KeyboardInterrupt",
        ),
    ],
)
def test_a_block_ends(events, reason, message):
    found = end_of_block(events, duration_s=1.5)
    assert (found.status, found.reason, found.message, found.duration_s) == (None, reason, message, 1.5)


def test_a_step_of_an_import_is_still_the_import() -> None:
    exited = {"event": "exited", "status": 4, "place": None, "traceback": "t"}
    end = end_of_probe(3, None, [COMPILING, exited], python="python", timeout_s=None)
    assert end.hint is not None
    assert "__main__" in end.hint


def test_a_first_line_that_announces_the_next_brings_it_along():
    message = "backend='own' raised:\nRuntimeError: no such kernel\n\nmore"
    found = ended(CALL, {"event": "error", "type": "BackendCompilerFailed", "message": message, "traceback": None})
    assert found.message is not None
    assert found.message.endswith("backend='own' raised: RuntimeError: no such kernel")
