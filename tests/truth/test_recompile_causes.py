"""Programs in which exactly one known thing changes: the recorded cause names it, with the old and
the new value."""

from __future__ import annotations

import ast
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_command, run_script
from tests.sections import sections, written

pytestmark = pytest.mark.slow

CHANGES = Path(__file__).with_name("changes.txt")
EXPECTED: dict[str, list[tuple[str, str, str | None, str | None]]] = {
    "size": [("size", "x.shape[0]", "4", "6")],
    "size_of_second_dim": [("size", "x.shape[1]", "5", "7")],
    "size_one": [("relation", "2 <= x.shape[0]", "x.shape[0] = 4", "x.shape[0] = 1")],
    "odd_size": [("relation", "(x.shape[0] % 2) == 0", "x.shape[0] = 6", "x.shape[0] = 7")],
    "number_float": [("number", "factor", "1.5", "2.5")],
    "number_int": [("number", "count", "3", "5")],
    "number_to_float": [("number", "count", "3", "3.5")],
    "flag": [("flag", "flag", "True", "False")],
    "none_to_tensor": [("none", "mask", "None", "f32[4]")],
    "tensor_to_none": [("none", "mask", "f32[4]", "None")],
    "text": [("text", "mode", "'sin'", "'cos'")],
    "list_length": [("length", "len(xs)", "2", "3")],
    "list_to_tuple": [("type", "xs", "a list", "a tuple")],
    "list_to_none": [("none", "xs", "a list", "None")],
    "number_in_list": [("number", "sizes[1]", "3", "7")],
    "dict_keys": [("keys", "the keys of values", "'a', 'b'", "'a', 'c'")],
    "dict_one_more_key": [("keys", "the keys of values", "'a'", "'a', 'b'")],
    "number_in_dict": [("number", "options['scale']", "2.5", "3.5")],
    "attribute_of_object": [("number", "options.scale", "2.5", "3.5")],
    "dtype": [("dtype", "x.dtype", "f32", "f64")],
    "device": [("device", "x.device", "cpu", "meta")],
    "strides": [("stride", "x.stride(0)", "5", "1"), ("stride", "x.stride(1)", "1", "4")],
    "rank": [("rank", "x.ndim", "1", "2")],
    "requires_grad": [("requires_grad", "x.requires_grad", "False", "True")],
    "requires_grad_no_more": [("requires_grad", "x.requires_grad", "True", "False")],
    "parameter": [("tensor_class", "x", "Tensor", "Parameter")],
    "grad_mode": [("grad_mode", "grad mode", "on", "off")],
    "grad_mode_on_again": [("grad_mode", "grad mode", "off", "on")],
    "inference_mode": [("grad_mode", "grad mode", "on", "off")],
    "inference_tensor": [("inference_mode", "x", "a normal tensor", "an inference tensor")],
    "autocast": [("autocast", "autocast", "off", "on (cpu bf16)")],
    "autocast_and_gradient": [("autocast", "autocast", "off", "on (cpu bf16)")],
    "autocast_dtype": [("autocast", "autocast", "on (cpu bf16)", "on (cpu f16)")],
    "training": [("training", "self.drop.training", "train mode", "eval mode")],
    "module_number": [("module_number", "self.count", "2", "3")],
    "module_float": [("module_number", "self.scale", "1.5", "2.5")],
    "module_text": [("text", "self.mode", "'sum'", "'mean'")],
    "module_of_another_class": [("type", "self.act", "a ReLU", "a GELU")],
    "buffer_of_another_dtype": [("dtype", "self.mean.dtype", "f32", "f64")],
    "frozen_parameter": [("requires_grad", "self.weight.requires_grad", "True", "False")],
    "attribute_none_to_tensor": [("none", "self.bias", "None", "f32[4]")],
    "another_instance": [
        ("size", "net.bias.shape[0]", "4", "3"),
        ("size", "net.weight.shape[0]", "4", "3"),
    ],
    "closure_variable": [("number", "factor", "2.5", "3.5")],
    "closure_of_inner_function": [("number", "factor (captured by scale)", "2", "3")],
    "another_lambda": [("identity", "activation", "`<lambda>`", "another `<lambda>`")],
    "another_function": [("identity", "activation", "`sin`", "`cos`")],
    "another_class": [("identity", "kind", "class `ReLU`", "class `GELU`")],
    "aliasing": [("aliasing", "x and y", "two tensors", "the same tensor")],
    "aliasing_no_more": [("aliasing", "x and y", "the same object", "two objects")],
    "default_dtype": [("default_dtype", "the default dtype", "f32", "f64")],
    "default_device": [("default_device", "the default device", "None", "meta")],
    "determinism": [("determinism", "deterministic algorithms", "off", "on")],
    "global_number": [("number", "LIMIT", "3", "7")],
    "global_dict": [("number", "TABLE['a']", "1.0", "2.5")],
    "function_mode": [("function_mode", "the active torch function modes", None, None)],
    "dynamic_marking": [("dynamic_marking", "the dims marked on x", None, None)],
    "tensor_subclass": [("tensor_class", "x", "Tensor", "Named")],
    "enum_member": [("identity", "mode", "Mode.SIN", "Mode.COS")],
    "torch_dtype_argument": [("value", "kind", "torch.float64", "torch.float16")],
    "set_members": [("value", "names", "{'sin'}", "{'cos'}")],
    "one_more_argument": [("length", "len(tensors)", "1", "2")],
}
RAW = re.compile(r"___\w+|\bL\[|\bG\[|0x[0-9a-f]{6}|\b\d{12,}\b")
"""What only torch calls by that name."""

TOLD_OTHERWISE = {
    # The kind that torch's text gives where it is not the exact one: a length for keys, a type for
    # a class.
    "dict_keys": {"keys"},
    "dict_one_more_key": {"length"},
    "one_more_block": {"length"},
    "number_to_float": {"number", "type"},
    "tensor_to_none": {"type", "none"},
    "none_to_tensor": {"none"},
    "closure_of_inner_function": {"number", "module_number"},
    "inference_mode": {"grad_mode", "dispatch_keys"},
    "inference_tensor": {"inference_mode", "dispatch_keys"},
    "another_instance": {"size"},
    "device": {"device", "dispatch_keys"},
    "parameter": {"tensor_class", "type"},
    "tensor_subclass": {"tensor_class", "type"},
    "enum_member": {"identity", "relation", "value", "aliasing"},
    "list_to_none": {"type"},
    "set_members": {"value", "unknown", "relation", "keys"},
    "another_class": {"identity"},
    "default_device": {"function_mode", "default_device"},
}


def cases(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The recompile of each case, by the function that makes the calls, or by what is compiled in a
    table of calls."""
    program = ast.parse(sections(CHANGES)["one_value"]).body
    nodes: dict[str, ast.AST] = {
        node.name: node for node in program if isinstance(node, ast.FunctionDef)
    }
    for table in (
        node.value
        for node in program
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    ):
        nodes |= {
            ast.literal_eval(key): value
            for key, value in zip(table.keys, table.values, strict=True)
            if key
        }
    lines = {name: range(node.lineno, node.end_lineno + 1) for name, node in nodes.items()}
    frames = {frame["frame_id"]: frame["line"] for frame in document["recording"]["frames"]}
    found: dict[str, dict[str, Any]] = {}
    for report in document["recompiles"]:
        at = (report["call_site"]["line"], frames[int(report["compile_ids"][0].partition("/")[0])])
        name = next(name for name, of in lines.items() if at[0] in of or at[1] in of)
        assert name not in found, f"{name} recompiles twice"
        found[name] = report
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All cases, run and recorded in one process."""
    folder = tmp_path_factory.mktemp("changes")
    process = run_command(
        "run", "--report", "out.json", "-q", written(CHANGES, "one_value", folder), cwd=folder
    )
    assert process.returncode == 0, process.stderr
    return json.loads((folder / "out.json").read_text())


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The same program without graphdoctor: what TORCH_LOGS prints, and its TORCH_TRACE log read
    afterwards."""
    folder = tmp_path_factory.mktemp("bare")
    environment = clean_environment(TORCH_TRACE=str(folder / "trace"), TORCH_LOGS="recompiles")
    process = run_script(written(CHANGES, "one_value", folder), cwd=folder, env=environment)
    return process.stderr, json.loads(
        run_command("recompiles", "trace", "--format", "json", cwd=folder).stdout
    )


def test_the_cause_is_what_the_program_changed(recorded: dict[str, Any]) -> None:
    reports, wrong = cases(recorded), set()
    for name, expected in EXPECTED.items():
        report = reports.get(name)
        # torch 2.11 doesn't compare whether a parameter requires a gradient: no recompile, as its
        # own log says.
        if report is None and name == "frozen_parameter" and version("torch").startswith("2.11"):
            continue
        found = report and [
            (each["kind"], each["expression"], each["old"], each["new"]) for each in report["cause"]
        ]
        if (
            report is None
            or found != expected
            or not report["is_exact"]
            or report["nearest"] is None
        ):
            wrong.add(name)
    # The check of two names for one object isn't among the guards that 2.14 lets us repeat: its
    # cause is known from torch's message alone, which the report says.
    assert wrong == ({"aliasing_no_more"} if version("torch") >= "2.14" else set())


def test_every_recompile_has_a_cause_in_words(recorded: dict[str, Any]) -> None:
    for report in recorded["recompiles"]:
        assert report["cause"], report
        for change in report["cause"]:
            said = " ".join(filter(None, (change["expression"], change["old"], change["new"])))
            assert change["kind"] != "unknown", said
            assert not RAW.search(said), said
    for finding in recorded["findings"]:
        assert finding["code"] != "GD200", finding["message"]
        assert not RAW.search(finding["message"]), finding["message"]


def test_there_are_as_many_recompiles_as_torch_says(
    recorded: dict[str, Any], bare: tuple[str, dict[str, Any]]
) -> None:
    said = bare[0].count("Recompiling function")
    caused = [item for item in recorded["recording"]["compiles"] if item["cause"] is not None]
    assert len(caused) == said
    # torch also logs those that ended without code.
    made = sum(item["outcome"] == "compiled" for item in caused)
    assert recorded["summary"]["recompiles"] == made < said
    assert bare[1]["summary"]["recompiles"] == made


def test_torchs_text_gives_the_same_kinds_with_a_notice(
    recorded: dict[str, Any], bare: tuple[str, dict[str, Any]]
) -> None:
    # torch's own stack lacks the line that made the call, so the cases are matched by their order.
    assert len(bare[1]["recompiles"]) == len(recorded["recompiles"])
    for (name, exact), told in zip(cases(recorded).items(), bare[1]["recompiles"], strict=True):
        assert not told["is_exact"]
        kinds = {change["kind"] for change in told["cause"]}
        allowed = TOLD_OTHERWISE.get(name, set()) | {change["kind"] for change in exact["cause"]}
        assert kinds <= allowed, (name, told["cause"])
