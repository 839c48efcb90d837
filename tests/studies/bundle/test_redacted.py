"""What a redaction lets through: torch's and Python's own words, and pseudonyms."""

from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.reading import json_of, plain, read_fact
from graphdoctor.facts.recording import Call, CallError, Environment, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry
from graphdoctor.studies.bundle.redacted import Redaction
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import diagnosed
from tests.studies.bundle.filled import filled

ITEM = RECORDED_LOGS / "2.13.0" / "item"
ENVIRONMENT = Environment(
    torch_root="/venv/lib/python3.11/site-packages/torch",
    stdlib_root="/usr/lib/python3.11",
    site_roots=("/venv/lib/python3.11/site-packages",),
)
MARKS = (
    "qzsecret",
    "/home/qzsecret/qzsecret.py",
    "qzsecret: qzsecret 'qzsecret' == 5",
    "QZSECRET",
    "L['qzsecret'].x",
    "密码_qzsecret",
)


def redaction():
    return Redaction(ENVIRONMENT, Path("/project"))


@for_each("mark", MARKS)
@for_each("model", [Diagnosis, Picture])
def test_no_text_of_any_field_passes_unread(model, mark):
    value = filled(model, mark)
    assert "qzsecret" in json_of(value).lower()
    redacted = redaction().redacted(value)
    assert "qzsecret" not in json_of(redacted).lower()
    read_fact(model, plain(redacted))


@for_each(
    "recording", [log for log in sorted(RECORDED_LOGS.rglob("*.log")) if "2.13.0" in log.parts]
)
def test_findings_and_counts_stay(recording):
    facts = read_recording(recording, guards=True)
    before = diagnosed(facts, root=Path("/"))
    after = Redaction(facts.environment, Path("/")).redacted(before)
    assert after.summary == before.summary
    assert [
        (finding.code, finding.torch_id, finding.location.line) for finding in after.findings
    ] == [(finding.code, finding.torch_id, finding.location.line) for finding in before.findings]
    assert [record.kind for record in after.recording.evidence.records] == [
        record.kind for record in facts.evidence.records
    ]
    shapes = (
        [graph_input.shape for graph in run.graphs for graph_input in graph.inputs or ()]
        for run in (after.recording, facts)
    )
    assert next(shapes) == next(shapes)


def test_a_name_has_one_pseudonym_everywhere():
    error = CallError(
        type="my.QzError",
        message="qzsecret",
        from_compiler=False,
        traceback="Traceback (most recent call last):\n"
        '  File "/project/model.py", line 3, in forward\n    raise error\n'
        "ValueError: input type is not a list\n",
    )
    entry = StackEntry(file="/project/model.py", line=3, function="Net.forward", origin="user")
    change = GuardChange(kind="value", expression="L['Net'].scale[0]", guard_location=entry)
    redact = redaction().redacted
    shown, call = redact(change), redact(Call(index=1, outcome="error", error=error))
    assert shown.guard_location is not None
    assert call.error is not None
    assert shown.expression == "L['name1'].name2[k1]"
    assert (shown.guard_location.file, shown.guard_location.function) == (
        "file1.py",
        "name1.forward",
    )
    assert call.error.type == "name3.name4"
    assert call.error.traceback == "ValueError"


@for_each(
    "path, shown",
    [
        (
            "/venv/lib/python3.11/site-packages/torch/nn/linear.py",
            "/site-packages/torch/nn/linear.py",
        ),
        ("/other/site-packages/transformers/gpt2.py", "/site-packages/transformers/gpt2.py"),
        ("/venv/lib/python3.11/site-packages/qzsecret/core.py", "file1.py"),
        ("/usr/lib/python3.11/json/decoder.py", "/lib/python3.0/json/decoder.py"),
        ("/home/me/lib/python3.11/qzsecret.py", "file1.py"),
        ("<frozen os>", "<frozen os>"),
        ("<qzsecret cell>", "<…>"),
        ("C:\\Users\\me\\model.py", "file1.py"),
    ],
)
def test_only_public_files_keep_their_place_and_functions(path, shown):
    entry = StackEntry(file=path, line=1, function="secret", origin="user")
    redacted = redaction().redacted(entry)
    assert redacted.file == shown
    assert redacted.function == ("secret" if shown[0] in "/<" and "…" not in shown else "name1")


@for_each(
    "kind, old, new, shown",
    [
        ("size", "3", "4", ("3", "4")),
        ("dtype", "float32", "qzsecret", ("float32", "…")),
        ("training", "train mode", "eval mode", ("train mode", "eval mode")),
        ("type", "qzsecret", None, (None, None)),
        ("value", "739184625", "3", (None, None)),
    ],
)
def test_a_change_keeps_sizes_dtypes_and_modes(kind, old, new, shown):
    change = redaction().redacted(GuardChange(kind=kind, expression="x", old=old, new=new))
    assert (change.old, change.new) == shown


@for_each(
    "fact, name, shown",
    [
        (Environment(torch="2.13.0+cpu"), "torch", "2.13.0+cpu"),
        (Environment(torch="2.13.0a0+gitabc123"), "torch", "2.13.0a0+gitabc123"),
        (Environment(torch="2.13.0+qzsecret"), "torch", "2.13.0"),
        (Environment(platform="Linux-6.1.0-qzsecret-x86_64 x86_64"), "platform", "Linux-6.1"),
        (Environment(torch_build="CUDA 12.8"), "torch_build", "CUDA 12.8"),
        (Environment(device_name="NVIDIA H100 80GB HBM3"), "device_name", "NVIDIA H100 80GB HBM3"),
        (Environment(packages={"numpy": "2.1.0", "qz": "1.0"}), "packages", {"numpy": "2.1.0"}),
        (Call(index=1, inputs="f32[8, s0], 'f32[1]', 12"), "inputs", "f32[8, s0], …"),
        (
            ProbeExit(
                status=1, hint_values={"timeout_s": 3, "phase": "call 2", "python": "qz", "qz": 1}
            ),
            "hint_values",
            {"timeout_s": 3, "phase": "…", "python": "…"},
        ),
        (
            TargetInfo(
                config={
                    "torch._dynamo.config.recompile_limit": 8,
                    "torch._inductor.config.x": 739184625,
                }
            ),
            "config",
            {"torch._dynamo.config.recompile_limit": 8, "torch._inductor.config.x": "…"},
        ),
        (TargetInfo(call_options={"calls": 2, "seed": 739184625}), "call_options", {"calls": 2}),
    ],
)
def test_a_marked_field_keeps_only_what_is_public(fact, name, shown):
    assert getattr(redaction().redacted(fact), name) == shown
