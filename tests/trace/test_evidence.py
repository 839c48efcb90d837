"""What a log says beside compiles, graphs, breaks and guards; and that each kind of record is shown
or counted."""

import hashlib
import json

from graphdoctor.facts.record_kinds import TORCH_KINDS, family_of, is_shown
from graphdoctor.trace.guards.trees import GuardTrees
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.marks import Marks
from graphdoctor.trace.picture import Phases
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.stages import Stages
from tests.conftest import RECORDED_LOGS
from tests.each import for_each

COMPILE = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
SIZE = "L['x'].size()[0]"
TORCH = "/venv/lib/python3.11/site-packages/torch/nn/functional.py"


def line(payload=None, **metadata):
    if payload is not None:
        metadata["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    text = "".join(f"\t{line}\n" for line in payload.split("\n")) if payload is not None else ""
    return f"V1121 02:58:17.809000 7 torch/a.py:1] {json.dumps(metadata)}\n{text}"


def artifact(name, payload, **metadata):
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return line(text, artifact={"name": name, "encoding": "json"}, **{**COMPILE, **metadata})


def stack(*places):
    return [
        {"line": number, "name": "forward", "filename": file, "loc": "x + 1"}
        for file, number in places
    ]


FILES = line(str=["/project/model.py", 0]) + line(str=[TORCH, 1])


def evidence_of(tmp_path, *lines):
    (tmp_path / "a.log").write_text(FILES + "".join(lines))
    return read_recording(tmp_path / "a.log").evidence


def test_each_answer_of_a_cache_is_kept_with_its_reason(tmp_path):
    evidence = evidence_of(
        tmp_path,
        artifact("aotautograd_cache_miss", {"key": "a1", "cache_state": "miss"}),
        artifact("fx_graph_cache_hit", {"key": "f1"}),
        artifact("fx_graph_cache_bypass", {"cache_bypass_reason": "FreezingBypass"}),
    )
    assert [
        (answer.compile_id, answer.cache, answer.state, answer.reason) for answer in evidence.cache_answers
    ] == [
        ("0/0", "aotautograd_cache", "miss", None),
        ("0/0", "fx_graph_cache", "hit", None),
        ("0/0", "fx_graph_cache", "bypass", "FreezingBypass"),
    ]  # fmt: skip


def test_sizes_and_conditions_keep_their_program_line(tmp_path):
    here = stack((0, 4), (1, 134))
    evidence = evidence_of(
        tmp_path,
        line(create_symbol={"symbol": "s7", "val": "4", "vr": "[2, int_oo]", "source": SIZE, "user_stack": here}),
        line(create_unbacked_symbol={"symbol": "u0", "vr": "[0, 9]", "user_stack": [], "stack": stack((0, 6))}),
        line(
            symbolic_shape_specialization={"symbol": "s7", "sources": [SIZE], "value": "4", "reason": "range"}
            | {"user_stack": here}
        ),
        line(guard_added={"expr": "s7 < 9", "user_stack": []}),
        line(guard_added_fast={"expr": "s7 < 9", "user_stack": here}),
        line(propagate_real_tensors={"expr": "u0 > 2", "result": "True", "stack": stack((0, 8))}),
        line(propagate_real_tensors_provenance={"expr": "u0 > 2", "result": "True", "user_stack": stack((0, 8))}),
        line(propagate_real_tensors={"expr": "u0 > 2", "result": "True", "stack": stack((0, 8))}),
        line(guard_on_data_dependent_error={"expr": "u0 > 3", "stack": stack((1, 9))}),
    )  # fmt: skip
    assert [
        (shape.kind, shape.expression, shape.source, shape.line) for shape in evidence.shapes
    ] == [
        ("dynamic", "s7", SIZE, 4),
        ("unbacked", "u0", None, 6),
        ("specialized", "s7", SIZE, 4),
        ("guarded", "s7 < 9", None, 4),
        ("assumed", "u0 > 2", None, 8),
        ("data_dependent", "u0 > 3", None, None),
    ]
    assert {shape.file for shape in evidence.shapes} == {"/project/model.py", None}


def test_an_export_has_its_programs_and_operators(tmp_path):
    evidence = evidence_of(
        tmp_path,
        line("ExportedProgram:", exported_program={}),
        line(missing_fake_kernel={"op": "mylib.foo.default"}),
        line(missing_fake_kernel={"op": "mylib.foo.default"}),
        line(mismatched_fake_kernel={"op": "mylib.bar.default", "reason": "dtype"}),
    )
    assert evidence.exported_programs == 1
    assert [(kernel.op, kernel.is_missing, kernel.reason) for kernel in evidence.fake_kernels] == [
        ("mylib.foo.default", True, None),
        ("mylib.bar.default", False, "dtype"),
    ]


def test_collectives_are_counted(tmp_path):
    operation = "torch.ops._c10d_functional.all_reduce_.default"
    evidence = evidence_of(tmp_path, artifact("inductor_collective_schedule", [operation]))
    assert evidence.collectives == 1


def test_every_kind_is_counted_and_bytecode_as_one(tmp_path):
    evidence = evidence_of(
        tmp_path,
        *(artifact(f"f{number}_ORIGINAL_BYTECODE", "code") for number in range(3)),
        artifact("fx_graph_runnable", "code"),
        artifact("something_of_torch_2_99", {}),
        artifact("fx_graph_cache_hit", {}),
    )
    assert {counted.kind: (counted.count, counted.is_shown) for counted in evidence.records} == {
        "str": (2, True),
        "*_ORIGINAL_BYTECODE": (3, False),
        "fx_graph_runnable": (1, False),
        "something_of_torch_2_99": (1, False),
        "fx_graph_cache_hit": (1, True),
    }


def test_what_is_called_shown_is_what_is_read():
    parts = (Intake.KINDS, GuardTrees.KINDS, Marks.KINDS, Stages.KINDS, Phases.KINDS)
    read = TORCH_KINDS.intersection(frozenset().union(*parts))
    # A header alone says that an export began.
    assert {kind for kind in TORCH_KINDS if is_shown(kind)} - {"export"} == read


@for_each("log", sorted(RECORDED_LOGS.rglob("*.log")))
def test_the_kinds_of_real_logs_are_known(log):
    records = read_recording(log).evidence.records
    unknown = {counted.kind for counted in records if not is_shown(counted.kind)} - TORCH_KINDS
    assert {kind for kind in unknown if not kind.endswith(("_pre_grad", "_post_grad"))} == set()
    assert all(family_of(counted.kind) == counted.kind for counted in records)
