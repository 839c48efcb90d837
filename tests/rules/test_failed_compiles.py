"""Programs that torch.compile refuses although eager mode runs them: each has a finding with its
line."""

from __future__ import annotations

import json

import pytest

from graphdoctor.facts.recording import BreakReason, Call, CallError, FailedCompile
from graphdoctor.facts.run import ProbeExit
from tests.conftest import run_command
from tests.each import for_each
from tests.factories import compiled, entry, frame, recording
from tests.rules.said import findings

BRANCH = """
import torch

def shouted(x):
    print("taken")  # breaks here
    return x.sin()

def build():
    def forward(x):
        return torch.cond(x.sum() > 0, shouted, torch.cos, (x,))
    return forward

def example_inputs():
    return (torch.ones(4),)
"""
FORMATTED = """
import torch

def build():
    def forward(x):
        y = x.sin()
        text = format(y.sum(), ".2f")  # breaks here
        return y.cos()
    return forward

def example_inputs():
    return (torch.ones(4),)
"""
WRONG_FAKE = """
import torch

@torch.library.custom_op("failed::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return x.new_empty(x.shape[7])

def build():
    def forward(x):
        return twice(x.sin()).cos()  # breaks here
    return forward

def example_inputs():
    return (torch.ones(4),)
"""

STANCE = """
import torch

def build():
    def forward(x):
        torch.compiler.set_stance("force_eager")  # breaks here
        return x.cos()
    return forward

def example_inputs():
    return (torch.ones(4),)
"""
TOGGLED = """
import torch

def build():
    def forward(x):
        with torch._dynamo.error_on_graph_break(True):
            print("taken")  # breaks here
        return x.cos()
    return forward

def example_inputs():
    return (torch.ones(4),)
"""


def explained(program, mark, folder):
    """The document on a program, and the number of the line that has a mark."""
    (folder / "model.py").write_text(program)
    printed = run_command("explain", "model.py", "--format", "json", cwd=folder).stdout
    lines = enumerate(program.splitlines(), 1)
    return json.loads(printed), next(number for number, text in lines if mark in text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "codes"),
    [
        (BRANCH, ["GD101"]),
        (FORMATTED, ["GD502"]),
        (WRONG_FAKE, ["GD502", "GD901"]),
        (STANCE, ["GD901"]),
        (TOGGLED, ["GD101"]),
    ],
    ids=["torch.cond", "a class of torch's own", "a fake kernel", "a stance", "toggled errors"],
)
def test_a_refused_call_has_a_finding_at_its_line(program, codes, tmp_path):
    document, line = explained(program, "# breaks here", tmp_path)
    places = [(finding["code"], finding["location"]["line"]) for finding in document["findings"]]
    assert places == [(code, line) for code in codes]
    titles = [fix["title"] for finding in document["findings"] for fix in finding["fixes"]]
    assert not any("fix the program" in title.lower() for title in titles)
    assert document["recording"]["calls"][0]["error"]["eager"] in (None, "ok")
    raised_by = {finding["effects"]["raised_by"] for finding in document["findings"]}
    assert raised_by == {"error_on_graph_break" if program == TOGGLED else None}


RECOMPILED = (
    "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '/app/model.py',"
    " function name: 'foo', line number: 3\n    triggered by the following guard failure(s):\n"
)
VIOLATED = "Constraints violated (L['x'].size()[0])! For more information, run with x.\n  - "
MARKED = (
    f"{VIOLATED}You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (8)."
    ' If so, remove it.\n\nUser stack:\n  File "/app/model.py", line 9, in fn\n\n'
)
INFERRED = (
    f"{VIOLATED}Not all values of RelaxedUnspecConstraint(L['x'].size()[0]) are valid because"
    " L['x'].size()[0] was inferred to be a constant (8)."
)


@pytest.mark.parametrize("where", ["compile", "call", "script"])
@pytest.mark.parametrize(
    ("text", "line", "message", "advice"),
    [
        (RECOMPILED, 3, "`foo` needs a recompile, which the stance", "Make a call with these"),
        (MARKED, 9, "`x.shape[0]` is marked as dynamic, but the code fixes it to 8", "Don't mark"),
        (
            INFERRED,
            5,
            "`x.shape[0]` is marked as dynamic, but the code fixes it to 8",
            "Don't mark",
        ),
        (
            "Attempt to trace forbidden callable <function reset at 0x7f>",
            5,
            "torch allows no `reset`",
            "Call it",
        ),
    ],
    ids=["recompiled", "marked", "inferred", "forbidden"],
)
def test_a_documented_error_is_the_programs(text, line, message, advice, where):
    facts = failed("AssertionError", entry(5), message=text)
    if where == "call":
        error = CallError(type="RuntimeError", message=text, traceback="", eager="ok")
        facts = facts.replace(calls=(Call(index=1, outcome="error", error=error),))
    elif where == "script":
        ended = ProbeExit(status=1, reason="error", traceback=text)
        facts = recording().replace(exit=ended) if text == RECOMPILED else facts.replace(exit=ended)
    (found,) = findings(facts, "GD5", "GD9")
    assert (found.code, found.location.line) == ("GD901", line)
    assert found.message.startswith(message)
    assert found.fixes[0].title.startswith(advice)


def failed(kind, place, **values):
    """A compile that failed at a line."""
    failure = FailedCompile(type=kind, message="words", chain=(), stack=(place,)).replace(**values)
    compile_ = compiled().replace(outcome="failed", failure=failure)
    return recording(compiles=(compile_,), frames=(frame(),))


@pytest.mark.parametrize(
    ("kind", "is_internal"),
    [
        ("InternalTorchDynamoError", True),
        ("AttributeError", True),
        ("AsPythonConstantNotImplementedError", True),
        ("GuardOnDataDependentSymNode", True),
        ("TorchRuntimeError", False),
        ("Unsupported", False),
        ("BackendCompilerFailed", False),
        ("FailOnRecompileLimitHit", False),
        ("KeyboardInterrupt", False),
    ],
)
def test_an_error_inside_dynamo_can_be_of_any_class(kind, is_internal):
    found = findings(failed(kind, entry(12)), "GD502")
    assert [finding.location.line for finding in found] == [12] * is_internal


def test_nothing_of_a_package_is_to_be_put_under_disable():
    def advised(place):
        return [fix.title for fix in findings(failed("AttributeError", place), "GD502")[0].fixes]

    report = "Report it to PyTorch with what graphdoctor bundle writes"
    packaged = entry(12, file="/lib/site-packages/lib/ops.py", origin="third_party", package="lib")
    assert advised(packaged) == [
        "Call this part of the package outside the compiled function",
        report,
    ]
    assert advised(entry(12))[0].startswith("Keep the line out of the compiled function")


LENGTH = """
import torch

class Names(tuple):
    def __len__(self):
        raise NotImplementedError("use dim")  # raised here

NAMES = Names((1, 2))

def build():
    def forward(x):
        return x * NAMES[0]
    return forward

def example_inputs():
    return (torch.ones(4),)
"""
CLASS = """
import torch

class Remote:
    @property
    def __class__(self):
        raise AttributeError("not connected")  # raised here

REMOTE = Remote()

def build():
    def forward(x):
        return x * (2 if REMOTE else 1)
    return forward

def example_inputs():
    return (torch.ones(4),)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name"), [(LENGTH, "__len__"), (CLASS, "__class__")], ids=["a length", "a class"]
)
def test_the_program_s_own_function_that_torch_called_is_named(program, name, tmp_path):
    document, line = explained(program, "# raised here", tmp_path)
    (finding,) = document["findings"]
    assert finding["code"] == "GD502"
    assert finding["message"].endswith(f"; `{name}` raised it (model.py:{line})")
    assert (
        finding["fixes"][0]["title"] == f"Don't raise in `{name}`: torch calls it while it compiles"
    )


@for_each(
    "got, told",
    [
        (
            "RuntimeError('a and b differ: [3, 4] X [3, 4].')",
            "RuntimeError: a and b differ: [3, 4] X [3, 4];",
        ),
        ("KeyError(\"it's 'x'\")", "KeyError: it's 'x';"),
        (
            "ZeroDivisionError('float division by zero')",
            "ZeroDivisionError: float division by zero;",
        ),
        ("RuntimeError('two\nlines')", "RuntimeError: two\nlines;"),
        ("AssertionError()", "RuntimeError when making fake tensor call;"),
        ("something else", "RuntimeError when making fake tensor call;"),
    ],
)
def test_error_raised_while_tracing_has_torchs_id(got, told):
    kind = "RuntimeError when making fake tensor call"
    words = (
        f"Dynamo failed to run FX node with fake tensors: call_function f(*(), **{{}}): got {got}"
    )
    reason = BreakReason(gb_type=kind, torch_id="GB4315", explanation=words)
    known = failed("TorchRuntimeError", entry(12), message=kind, chain=(reason,))
    error = CallError(
        type="torch._dynamo.exc.TorchRuntimeError", message=kind, traceback="", eager="ok"
    )
    calls = (Call(index=1, outcome="error", error=error),)
    (found,) = findings(known.replace(calls=calls), "GD901")
    assert found.message.startswith(f"call 1 raised TorchRuntimeError: {told}")
    assert found.torch_id == "GB4315"
