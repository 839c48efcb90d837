"""What is read of an export that torch refused."""

import pytest

from graphdoctor.facts.recording import Environment
from graphdoctor.trace.breaks import export_words
from graphdoctor.trace.events import Events, with_export
from tests.factories import diagnosed, recording

ADVICE = (
    "\n\nThe error above occurred when calling torch.export.export. If you would like to view some more information "
    "about this error, and get a list of all other errors that may occur in your export call, you can replace your "
    "`export()` call with `draft_export()`."
)
GUARD = (
    "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  (Size-like symbols: none)\n\n"
    "consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and statically_known_true.\n"
    "Caused by: (_export/non_strict_utils.py:1205 in __torch_function__)\n"
    'For more information, run with TORCH_LOGS="dynamic"\n'
)
USER = {
    "file": "/project/model.py",
    "function": "forward",
    "indent": 8,
    "text": "if x.sum() > 0:",
    "line": 7,
}


def event(message, *, is_truth=False, is_at_line=True, classes=()):
    inside = {
        "file": "/torch/_export/utils.py",
        "line": 3,
        "function": "run",
        "indent": 0,
        "text": "x",
    }
    return {
        "event": "export",
        "is_strict": False,
        "is_wrapped": False,
        "seconds": 0.1,
        "line": "program = …",
        "failure": {
            "type": "builtins.ValueError",
            "message": message,
            "stack": [{**USER, "column": 12, "end_column": 23}, inside],
            "is_at_line": is_at_line,
            "is_truth": is_truth,
            "classes": list(classes),
        },
        "op_count": None,
        "inputs": [],
        "constraints": [],
    }


def finding_of(tmp_path, *args, **more):
    environment = Environment(torch_root="/torch")
    found = with_export(recording(), Events([event(*args, **more)]), environment)
    assert found.export is not None
    (finding,) = diagnosed(found, root=tmp_path).findings
    return finding, found


@pytest.mark.parametrize(
    ("message", "is_truth", "code"),
    [
        (GUARD + ADVICE, True, "GD102"),
        (GUARD + ADVICE, False, "GD119"),
        (
            "Unsupported input type <class 'model.Out'>. Export only supports pytree containers",
            False,
            "GD601",
        ),
        (".numpy() is not supported for tensor subclasses." + ADVICE, False, "GD600"),
    ],
)
def test_what_torch_says_is_named_by_a_rule(tmp_path, message, is_truth, code):
    finding, found = finding_of(tmp_path, message, is_truth=is_truth)
    assert (finding.code, finding.severity, finding.location.line) == (code, "error", 7)
    assert found.breaks[-1].stack[-1].file == "/project/model.py"
    assert "draft_export" not in (found.export.failure.message + (finding.torch_reason or ""))


def test_an_error_of_any_kind_shows_its_type(tmp_path):
    finding, _ = finding_of(tmp_path, "it is late")
    assert finding.torch_reason == "ValueError: it is late"


def test_error_about_no_line_has_no_line_advice(tmp_path):
    finding, _ = finding_of(tmp_path, "Must provide a tree_name", is_at_line=False)
    assert (finding.message, finding.fixes) == ("torch.export raises an error", ())


def test_a_dataclass_that_torch_names_can_be_registered(tmp_path):
    named = {"name": "Out", "module": "model", "is_dataclass": True}
    finding, _ = finding_of(
        tmp_path, "Unsupported input type <class 'model.Out'>.", classes=(named,)
    )
    assert finding.message == "torch.export can't take `Out` apart"
    assert finding.fixes[0].snippet == "from model import Out\ntorch.export.register_dataclass(Out)"


def test_general_advice_is_cut():
    assert export_words("no" + ADVICE) == "no"
    assert export_words(GUARD).endswith("in __torch_function__)")


def test_strict_export_errors_are_named_as_in_compiles(tmp_path):
    message = (
        "Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: None\n  Hint: "
        "Remove it.\n\n  Developer debug context: Called\n\n For more details about this graph break, please visit: "
        'https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0025.html\n\nfrom user code:\n   File "x"\n'
    )
    finding, _ = finding_of(tmp_path, message)
    assert (finding.code, finding.torch_id) == ("GD107", "GB0025")
