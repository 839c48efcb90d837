"""What is found in a sample is what it says, and all code that its report suggests is executed
where it goes."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command
from tests.samples.test_sample_models import SAMPLES, read_expected

CALLED = """

import inspect
_bare_inputs = example_inputs

def example_inputs():
    given = _bare_inputs()
    made = {name}
    called = getattr(made, "forward", made)
    names = list(inspect.signature(called).parameters)[inspect.isclass(made):]
    for number, args in enumerate([given] if isinstance(given, tuple) else given):
        args, kwargs = args if isinstance(args[0], tuple) else (args, {{}})
        passed = dict(zip(names, args)) | kwargs
        if {where!r} == "each_call" or number == 0:
            known = {{"torch": torch}} | {{name: passed[name] for name in {arguments!r}}}
            exec({snippet!r}, known)
            passed.update({{name: known[name] for name in {arguments!r}}})
        yield tuple(passed.values())
"""
"""Calls as the sample makes them, with a suggestion's code before them."""


def report(folder: Path, *options: str) -> dict[str, Any]:
    process = run_command("explain", "model.py", *options, "--format", "json", cwd=folder)
    assert process.stdout, process.stderr
    return json.loads(process.stdout)


def keys(document: dict[str, Any]) -> list[str]:
    """What is wrong, apart from lines, which an edit moves."""
    return [f"{finding['code']} {finding['message']}" for finding in document["findings"]]


def edited(text: str, fix: dict[str, Any], name: str) -> str:
    """The file with a suggestion's code where it says."""
    place, lines = fix["place"], text.splitlines(keepends=True)
    if place["where"] == "compile":
        return text
    if place["where"] in ("first_call", "each_call"):
        known = {
            "name": name,
            "where": place["where"],
            "arguments": place["arguments"],
            "snippet": fix["snippet"],
        }
        return text.partition("\n\nif __name__")[0] + CALLED.format(**known)
    if place["where"] == "start":
        at = next(number for number, line in enumerate(lines) if line == "import torch\n") + 1
        return "".join([*lines[:at], fix["snippet"] + "\n", *lines[at:]])
    first, last = place["line"] - 1, place["end_line"]
    indent = re.match(" *", lines[first])[0]  # type: ignore[index]
    code = textwrap.indent(fix["snippet"], indent) + "\n"
    return "".join([*lines[:first], code, *lines[first if place["where"] == "before" else last :]])


def options(fix: dict[str, Any]) -> list[str]:
    """A suggestion's argument of ``torch.compile`` as an option."""
    return (
        {"dynamic=True": ["--dynamic"]}[fix["snippet"]]
        if fix["place"]["where"] == "compile"
        else []
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_a_sample_has_what_it_says_and_suggested_code_works_where_it_goes(
    tmp_path: Path, path: Path
) -> None:
    text, expected = path.read_text(), read_expected(path)
    (tmp_path / "model.py").write_text(text)
    document = report(tmp_path)
    summary = document["summary"]
    counts = {
        name: round(summary[name], 2) if summary[name] is not None else None
        for name in expected.counts
    }
    assert counts == expected.counts
    places = [(finding["code"], finding["location"]) for finding in document["findings"]]
    found = {(code, Path(place["file"]).name, place["line"]) for code, place in places}
    assert found == {(code, "model.py", line) for code, line in expected.findings}
    if path.stem in ("print_in_forward", "batch_sizes"):  # words alone would pass
        assert all(finding["fixes"][0]["snippet"] for finding in document["findings"])
    suggested = [
        (finding, fix)
        for finding in document["findings"]
        for fix in finding["fixes"]
        if fix["snippet"]
    ]
    for number, (finding, fix) in enumerate(suggested):
        snippet = fix["snippet"]
        ast.parse(f"f({snippet})" if fix["place"]["where"] == "compile" else snippet)
        assert "…" not in snippet
        assert "..." not in snippet
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.py").write_text(edited(text, fix, document["recording"]["target"]["name"]))
        after = report(folder, *options(fix))
        assert after["summary"]["calls"] == document["summary"]["calls"]
        assert after["summary"]["calls_failed"] == document["summary"]["calls_failed"]
        key = f"{finding['code']} {finding['message']}"
        assert keys(after).count(key) < keys(document).count(key), f"{snippet}: {keys(after)}"
