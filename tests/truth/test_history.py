"""Causes of recompiles where a call differs from the last one in some values, and from an older one
in others.

torch's own words are the other source: its first reason is about the entry that the function's last
call used.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_command, run_script
from tests.sections import written

pytestmark = pytest.mark.slow

CHANGES = Path(__file__).with_name("changes.txt")
REASON = re.compile(
    r"\[(?P<compile>\d+/\d+)\] \[__recompiles\]\s+- (?P<entry>\d+/\d+): (?P<reason>.*)"
)
SIZE = re.compile(
    r"tensor '(?P<name>.+)' size mismatch at index (?P<dim>\d+)\. expected (?P<old>\d+), actual (?P<new>\d+)"
)


def recorded(target: str, folder: Path, *options: str, **variables: str) -> dict[str, Any]:
    environment = clean_environment(**variables)
    name, _, callable_ = target.partition(":")
    process = run_command(
        "recompiles",
        f"{written(CHANGES, name, folder)}:{callable_}",
        *options,
        "--format",
        "json",
        cwd=folder,
        env=environment,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def torchs_reasons(
    program: str, folder: Path, **variables: str
) -> dict[str, list[tuple[str, str]]]:
    """Entry and reason of each recompile, in a run without graphdoctor."""
    environment = clean_environment(TORCH_LOGS="recompiles", **variables)
    found: dict[str, list[tuple[str, str]]] = {}
    for match in REASON.finditer(
        run_script(written(CHANGES, program, folder), cwd=folder, env=environment).stderr
    ):
        found.setdefault(match["compile"], []).append((match["entry"], match["reason"]))
    return found


def sizes_of(report: dict[str, Any]) -> set[tuple[str, str, str]]:
    found = (*report["cause"], *report["also_changed"])
    return {
        (change["expression"], change["previous"], change["new"])
        for change in found
        if change["kind"] == "size"
    }


def agrees_with_torch(document: dict[str, Any], reasons: dict[str, list[tuple[str, str]]]) -> None:
    """Each recompile names the entry that torch compared first, and the size that torch found
    there."""
    reports = {report["compile_ids"][0]: report for report in document["recompiles"]}
    causes = {
        each["compile_id"]: each["cause"]
        for each in document["recording"]["compiles"]
        if each["cause"]
    }
    assert list(reports) == list(reasons)
    for compile_id, report in reports.items():
        (entry, reason), *others = reasons[compile_id]
        assert causes[compile_id]["last_used"] == entry
        assert report["nearest"] in (entry, *(older for older, _ in others))
        if (size := SIZE.match(reason)) is not None:
            # Without the decorator around the model.
            name = re.sub(r"^kwargs\['(\w+)'\]", r"\1", size["name"])
            assert (f"{name}.shape[{size['dim']}]", size["old"], size["new"]) in sizes_of(report)


def values_passed(document: dict[str, Any], expression: str) -> list[str]:
    """The values that a finding's message says an expression had, one after the other."""
    message = next(
        finding["message"]
        for finding in document["findings"]
        if f"`{expression}` changed: " in finding["message"]
    )
    return message.partition(f"`{expression}` changed: ")[2].split(" → ")


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return recorded("growing_cache:forward", tmp_path_factory.mktemp("growing"))


def test_a_growing_cache_is_compared_with_the_last_call(
    growing: dict[str, Any], tmp_path: Path
) -> None:
    agrees_with_torch(growing, torchs_reasons("growing_cache", tmp_path))
    tokens = next(report for report in growing["recompiles"] if report["call_index"] == 3)
    assert tokens["nearest"] == "0/1"
    assert [(change["expression"], change["old"], change["new"]) for change in tokens["cause"]] == [
        (f"cache['{name}'][{index}].shape[1]", "6", "7") for name in ("a", "b") for index in (0, 1)
    ]


def test_the_values_of_a_finding_were_passed_in_this_order(growing: dict[str, Any]) -> None:
    passed = [size for prompt in (6, 9) for size in (prompt, 1, 1, 1)]
    said = [int(value) for value in values_passed(growing, "x.shape[1]")]
    assert said == [6, 1, 9]
    remaining = iter(passed)
    assert all(size in remaining for size in said)


def test_older_entry_is_named_where_only_values_differ(growing: dict[str, Any]) -> None:
    prompt = next(report for report in growing["recompiles"] if report["call_index"] == 5)
    assert prompt["nearest"] == "0/0"
    (change,) = prompt["cause"]
    assert (change["expression"], change["old"], change["previous"], change["new"]) == (
        "x.shape[1]",
        "6",
        "1",
        "9",
    )
    assert "len(cache)" in {change["expression"] for change in prompt["also_changed"]}


def test_a_mode_that_was_compiled_before_is_no_cause(tmp_path: Path) -> None:
    document = recorded("alternating:forward", tmp_path)
    agrees_with_torch(document, torchs_reasons("alternating", tmp_path))
    flag, size = document["recompiles"]
    assert [change["expression"] for change in flag["cause"]] == ["is_even"]
    assert [(change["expression"], change["old"], change["new"]) for change in size["cause"]] == [
        ("x.shape[0]", "4", "6")
    ]
    assert [
        (change["expression"], change["previous"], change["new"]) for change in size["also_changed"]
    ] == [("is_even", "True", "False")]


@pytest.mark.parametrize("kept", ["growing", "static"])
def test_the_caches_of_a_language_model(tmp_path: Path, kept: str) -> None:
    pytest.importorskip("transformers")
    document = recorded("kept_values:model", tmp_path, "--no-grad", CACHE=kept)
    agrees_with_torch(document, torchs_reasons("kept_values", tmp_path, CACHE=kept))
    assert ("input_ids.shape[1]", "6", "1") in sizes_of(document["recompiles"][0])
    if kept == "static":
        assert len(document["recompiles"]) == 1
        return
    assert sizes_of(document["recompiles"][1]) == {
        (f"past_key_values.layers[{layer}].{name}.shape[2]", "6", "7")
        for layer in (0, 1)
        for name in ("keys", "values")
    }
