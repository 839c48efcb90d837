"""What a redaction lets through: nothing but what a table names, and that only where it is torch's
or Python's own."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, get_args

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.reading import json_of, plain, read_fact
from graphdoctor.facts.recording import Environment, Recording
from graphdoctor.facts.run import CallPhase, Phase, ProbeExit
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.break_words import BreakWords
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.redaction import Redaction
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.guards.state import STATE_NAMES
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import diagnosed
from tests.studies.bundle.filled import filled

RECORDINGS = RECORDED_LOGS
LOGS = sorted(RECORDINGS.rglob("*.log"))
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
)


def redaction() -> Redaction:
    return Redaction(ENVIRONMENT, Path("/project"))


def shown() -> Public:
    return redaction().shown


@for_each("mark", MARKS)
@for_each("model", [Diagnosis, Picture])
def test_no_text_of_any_field_goes_through_unread(model, mark):
    value = filled(model, mark)
    assert "qzsecret" in json_of(value).lower()
    redacted = redaction().redacted(value)
    assert "qzsecret" not in json_of(redacted).lower()
    read_fact(model, plain(redacted))


def _marked(value: Any, mark: str) -> Any:
    """JSON with every text replaced; keys, and what tells records apart, stay."""
    if isinstance(value, dict):
        return {
            key: item if key in ("encoding", "opcode", "kind") else _marked(item, mark)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_marked(item, mark) for item in value]
    return mark if isinstance(value, str) else value


@for_each("mark", MARKS)
@for_each("log", [log for log in LOGS if "2.13.0" in log.parts])
def test_no_text_of_any_record_goes_through_unread(log, mark):
    redactor, count = redaction(), 0
    with log.open("rb") as lines:
        for record in read_records(lines, lambda _kind: True, LogDamage()):
            payload = record.payload
            try:
                payload = json.dumps(_marked(json.loads(payload or ""), mark))
            except ValueError:
                payload = (
                    payload
                    and f'{mark}\n  File "{mark}", line 1, in {mark}\n    {mark}\n{mark}: {mark}'
                )
            value = _marked(record.value, mark)
            changed = Record(
                record.kind, record.is_artifact, value, record.metadata | {"stack": mark}, payload
            )
            redacted = redactor.record(changed)
            count += redacted is not None
            assert "qzsecret" not in json.dumps(redacted).lower(), record.kind
    assert count >= 5


@for_each("mark", MARKS)
def test_no_text_of_any_event_goes_through_unread(mark):
    recording = RECORDINGS / "2.13.0" / "item"
    events = [json.loads(line) for line in (recording / "probe.jsonl").read_text().splitlines()]
    known = [
        {"event": "config", "values": {"torch._dynamo.config.x": mark, mark: "True"}},
        {"event": "gap", "kind": mark, "message": mark},
        {
            "event": "call_failed",
            "index": 1,
            "type": mark,
            "message": mark,
            "traceback": mark,
            "eager": mark,
        },
        {"event": "error", "type": mark, "message": mark, "hint": mark, "traceback": mark},
        {"event": "variation", "expression": mark},
        {"event": mark},
        {"event": "lane", "call": 1, "segments": [["eager", 0.0, 1.0, {mark: 2}, 2]], mark: mark},
    ]
    marked = [{**_marked(event, mark), "event": event["event"]} for event in events]
    shown_events = list(redaction().events([*marked, *known]))
    meta = _marked(json.loads((recording / "recording.json").read_text()), mark)
    meta["exit"] = {"message": mark, "hint": mark, "phase": mark, "traceback": mark, "reason": mark}
    meta["exit"] |= {"hint_code": mark, "hint_values": {"error": mark}}
    assert len(shown_events) > len(events)
    assert "qzsecret" not in json.dumps([shown_events, redaction().meta(meta)]).lower()


@for_each(
    "text",
    [
        *STATE_NAMES,
        expression("L['self'].forward.__closure__[0].cell_contents"),
        expression("___stack1"),
    ],
)
def test_our_own_words_for_what_changed_stay(text):
    assert shown().expression(text) == text


@for_each(
    "phase, told",
    [
        *((phase, phase) for phase in get_args(Phase)),
        *((phase.format(index=12), phase.format(index=12)) for phase in get_args(CallPhase)),
        ("call 2, compiling 0/1", "call 2, compiling 0/1"),
        ("call 2, compiling qzsecret", "…"),
        ("call qzsecret", "…"),
        ("variation 1 of 3: scale = 'qzsecret'", "…"),
        ("memory = 4096", "…"),
        ("尺寸 = 4096", "…"),
        ("call 2, 4096", "…"),
    ],
)
def test_a_phase_is_told_unless_it_has_values_in_it(phase, told):
    assert public.phase(phase) == told


def test_a_traceback_of_the_program_keeps_places_and_types_and_nothing_that_it_says():
    lines = (
        "Traceback (most recent call last):",
        '  File "/project/model.py", line 3, in forward',
        "    raise error",
    )
    message = (
        "ValueError: input type is not a list",
        '  File "/project/model.py", line 3',
        "    None",
    )
    told = (
        "Traceback (most recent call last):",
        '  File "file1.py", line 3, in forward',
        "ValueError",
    )
    assert shown().traceback("\n".join((*lines, *message))) == "\n".join(told)


def test_a_number_is_told_of_a_setting_as_far_as_it_is_short_and_never_of_the_seed():
    config = {"torch._dynamo.config.recompile_limit": 8, "torch._inductor.config.x": 739184625}
    options = {"calls": 2, "seed": 739184625}
    target = redaction().meta({"target": {"config": config, "call_options": options}})["target"]
    assert target["config"] == {**config, "torch._inductor.config.x": "…"}
    assert target["call_options"] == {"calls": 2}
    (event,) = redaction().events([{"event": "config", "values": config}])
    assert event["values"] == target["config"]


def test_the_kind_of_a_gap_goes_through_and_its_words_stay_behind():
    gap = {"event": "gap", "kind": "unrecorded_compile", "message": "qzsecret"}
    assert list(redaction().events([gap])) == [{**gap, "message": "…"}]


def test_events_keep_counts_times_and_public_names():
    measured = {
        "extra_calls": 1,
        "extra_compiles": 0,
        "eager_op_names": {"aten::add": 1, "qzsecret::f": 1},
    }
    events = [
        {
            "event": "environment",
            "torch": "2.13.0",
            "packages": {"numpy": "2.1.0", "qzsecret": "1.0"},
        },
        {
            "event": "config",
            "values": {"torch._dynamo.config.recompile_limit": "2", "qzsecret": "True"},
        },
        {"event": "coverage", "graph_ops": 3, "eager_ops": 2, **measured},
        {
            "event": "lane",
            "call": 1,
            "segments": [["eager", 0.0, 1.0, {"aten::add": 1}, 1], ["compile", 1.0, 2.0, "0/1", 0]],
        },
    ]
    environment, config, coverage, lane = redaction().events(events)
    assert (environment["torch"], environment["packages"]) == ("2.13.0", {"numpy": "2.1.0"})
    assert config["values"] == {"torch._dynamo.config.recompile_limit": "2"}
    assert (
        coverage["graph_ops"],
        coverage["eager_ops"],
        sum(coverage["eager_op_names"].values()),
    ) == (3, 2, 2)
    assert coverage["eager_op_names"]["aten::add"] == 1
    assert lane["segments"] == [
        ["eager", 0.0, 1.0, {"aten::add": 1}, 1],
        ["compile", 1.0, 2.0, "0/1", 0],
    ]


def test_a_hint_keeps_its_code_and_what_its_words_need_and_nothing_of_the_programs():
    values = {
        "timeout_s": 3,
        "phase": "call 2",
        "python": "qzsecret",
        "near": ["qzsecret"],
        "qzsecret": 1,
    }
    kept = {"timeout_s": 3, "phase": "call 2", "python": "…", "near": []}
    ended = {
        "reason": "timeout",
        "hint_code": "timeout",
        "hint_values": values,
        "error_type": "my.QzsecretError",
    }
    (event,) = redaction().events([{"event": "error", "code": "timeout", "values": values}])
    assert event == {"event": "error", "code": "timeout", "values": kept}
    meta = redaction().meta({"exit": ended})["exit"]
    assert (meta["hint_code"], meta["hint_values"], meta["error_type"]) == (
        "timeout",
        kept,
        "name1.name2",
    )
    before = read_recording(RECORDINGS / "2.13.0" / "item")
    diagnosis = diagnosed(before, root=Path("/"), exit=ProbeExit(status=1, **ended))
    assert redaction().redacted(diagnosis).recording.exit.hint_values == kept


def _read(content: bytes) -> Recording:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "dedicated_log_torch_trace_1.log"
        log.write_bytes(content)
        return read_recording(log, guards=True, picture=True)


@for_each("log", LOGS)
def test_a_redacted_log_has_the_counts_of_the_log_and_no_damage(log):
    before = read_recording(log)
    ((_, content),) = Redaction(before.environment, Path("/")).files(
        [(f"recording/trace/{log.name}", log)], []
    )
    after = _read(content)
    assert not [gap for gap in after.gaps if gap.code == "GD902"]
    old, new = (diagnosed(found, root=Path("/")) for found in (before, after))
    assert new.summary == old.summary
    assert [(found.torch_id, found.location.line) for found in new.findings if found.torch_id] == [
        (found.torch_id, found.location.line) for found in old.findings if found.torch_id
    ]
    assert [frame.state for frame in new.frames] == [frame.state for frame in old.frames]


def test_a_redacted_diagnosis_has_the_findings_of_the_diagnosis():
    recording = read_recording(RECORDINGS / "2.13.0" / "item", guards=True)
    before = diagnosed(recording, root=Path("/"))
    after = Redaction(recording.environment, Path("/")).redacted(before)
    assert [found.code for found in after.findings] == [found.code for found in before.findings]
    assert after.summary == before.summary
    assert after.recording.graphs[0].inputs[0].shape == before.recording.graphs[0].inputs[0].shape


def test_what_else_a_log_has_keeps_ids_kinds_and_symbols():
    recording = read_recording(RECORDINGS / "2.13.0" / "lowered_sizes.bare")
    known = diagnosed(recording, root=Path("/"))
    before = known.recording.evidence
    after = Redaction(recording.environment, Path("/")).redacted(known).recording.evidence
    assert after.records == before.records
    assert [(found.compile_id, found.cache, found.state) for found in after.cache_answers] == [
        (found.compile_id, found.cache, found.state) for found in before.cache_answers
    ]
    assert {found.key for found in after.cache_answers} == {None}
    assert [(found.kind, found.expression) for found in after.shapes] == [
        (found.kind, found.expression) for found in before.shapes
    ]
    assert {found.text for found in after.shapes} <= {None}


def test_a_name_has_one_pseudonym_wherever_it_stands():
    names = shown()
    assert names.name("Net.forward") == "name1.forward"
    assert names.expression("L['Net'].scale") == "L['name1'].name2"
    assert names.name("torch_dynamo_resume_in_scale_at_12") == "torch_dynamo_resume_in_name2_at_12"
    assert names.file("/project/model.py") == names.file("model.py") == "file1.py"


@for_each(
    "path, told",
    [
        (
            "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py",
            "/site-packages/torch/nn/modules/linear.py",
        ),
        (
            "/other/site-packages/transformers/models/gpt2.py",
            "/site-packages/transformers/models/gpt2.py",
        ),
        ("/venv/lib/python3.11/site-packages/qzsecret/core.py", "/site-packages/package/file1.py"),
        ("/usr/lib/python3.11/json/decoder.py", "/lib/python3.0/json/decoder.py"),
        ("/home/me/lib/python3.11/qzsecret.py", "file1.py"),
        ("<frozen os>", "<frozen os>"),
        ("<qzsecret cell>", "<…>"),
        ("C:\\Users\\me\\model.py", "file1.py"),
    ],
)
def test_what_everybody_can_read_keeps_its_place_and_nothing_else_does(path, told):
    assert shown().file(path) == told


@for_each(
    "text, told",
    [
        ("f32[8, 128], 'f32[1]', 12, flag=True", "f32[8, 128], …"),
        ("i64[s0, 4] cuda:0", "i64[s0, 4] cuda:0"),
        ("f32[]", "f32[]"),
        ("", ""),
    ],
)
def test_arguments_keep_dtype_and_shape(text, told):
    assert shown().values(text) == told


@for_each(
    "reader, value, told",
    [
        (public.version, "2.13.0+cpu", "2.13.0+cpu"),
        (public.version, "2.13.0a0+gitabc123", "2.13.0a0+gitabc123"),
        (public.version, "2.13.0+qzsecret", "2.13.0"),
        (public.version, "qzsecret", None),
        (public.platform, "Linux-6.1.0-qzsecret-x86_64-with-glibc2.36 x86_64", "Linux-6.1 x86_64"),
        (public.platform, "qzsecret", None),
        (public.build, "CUDA 12.8", "CUDA 12.8"),
        (public.build, "qzsecret", None),
        (public.device_name, "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        (public.device_name, "qzsecret", None),
        (public.guard_kind, "TENSOR_MATCH", "TENSOR_MATCH"),
        (public.guard_kind, "QZSECRET", "…"),
        (public.event_name, "backend_compile", "backend_compile"),
        (public.event_name, "qzsecret_compile", "…"),
        (public.event_name, "密码_compile", "…"),
        (public.printed_value, "True", "True"),
        (public.printed_value, "12", "12"),
        (public.printed_value, "'qzsecret'", "…"),
        (
            public.config_name,
            "torch._dynamo.config.recompile_limit",
            "torch._dynamo.config.recompile_limit",
        ),
        (public.config_name, "qzsecret.config.x", None),
        (public.backend, "inductor", "inductor"),
        (public.backend, "qzsecret", "…"),
        (public.record_kind, "dynamo_start", "dynamo_start"),
        (public.record_kind, "qzsecret", "…"),
        (public.package_name, "numpy", "numpy"),
        (public.package_name, "qzsecret", None),
    ],
)
def test_a_reader_keeps_what_is_public_and_nothing_else(reader, value, told):
    assert reader(value) == told


@for_each(
    "kind, old, new, told",
    [
        ("size", "3", "4", ("3", "4")),
        ("dtype", "float32", "qzsecret", ("float32", "…")),
        ("training", "train mode", "eval mode", ("train mode", "eval mode")),
        ("type", "qzsecret", None, ("…", None)),
    ],
)
def test_a_change_keeps_sizes_dtypes_and_modes(kind, old, new, told):
    diagnosis = diagnosed(read_recording(RECORDINGS / "2.13.0" / "item"), root=Path("/"))
    change = GuardChange(kind=kind, expression="x", old=old, new=new)
    (finding, *_) = diagnosis.findings
    marked = diagnosis.replace(findings=(finding.replace(changes=(change,)),))
    (shown_change,) = redaction().redacted(marked).findings[0].changes
    assert (shown_change.old, shown_change.new) == told


def test_a_package_outside_site_packages_is_known_by_the_folders_of_the_environment():
    environment = Environment(torch_root="/opt/build/torch", site_roots=("/opt/packages",))
    there = Public(environment, Path("/project"))
    assert (
        there.file("/opt/build/torch/nn/modules/linear.py")
        == "/site-packages/torch/nn/modules/linear.py"
    )
    assert there.file("/opt/packages/numpy/core.py") == "/site-packages/numpy/core.py"
    assert there.file("/opt/packagesqzsecret/numpy/core.py") == "file1.py"


def test_the_registry_tells_which_words_are_torchs():
    words = BreakWords(None)
    printed = (
        "Dynamo does not know how to trace builtin operator `print` with argument types ['str']"
    )
    assert words.kept(printed, "GB0059") == printed
    assert words.kept("User-inserted graph break. Message: launch Monday", "GB0025").endswith(
        "Message: …"
    )
    assert words.kept("  in forward, code: if y.sum() > 3:", "GB0170") == "  …"
    assert "Failed to trace builtin operator" in words.types


def test_the_target_s_event_hides_nothing_that_recording_json_says() -> None:
    blocks = [
        {
            "class_name": "Block",
            "paths": ["layers.0", "qzsecret.1"],
            "kinds": 1,
            "compiled_as": "module",
        }
    ]
    blocks[0]["container"] = "qzsecret.layers"
    event = {
        "event": "target",
        "name": "Net",
        "kind": "module",
        "class_name": "Net",
        "blocks": blocks,
    }
    (redacted,) = redaction().events([event])
    assert redacted.keys() == event.keys()
    (found,) = redacted["blocks"]
    assert [path.rpartition(".")[2] for path in found["paths"]] == ["0", "1"]
    assert "qzsecret" not in json.dumps(redacted)
