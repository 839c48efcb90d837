"""Samples hold what their first lines say: their findings are there, code that a report suggests
works where it goes, each break site ends as listed, and what is shown fits on 40 lines of 80 columns.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.trials.launch.request import Measured
from graphdoctor.views.guards import guards_view
from graphdoctor.views.report import report_view
from tests.conftest import RECORDED_LOGS, REPOSITORY, RunCli, run_command
from tests.each import at_night
from tests.recorded import recorded
from tests.sections import written
from tests.trace.test_phases import assert_agrees_with_the_metrics, picture_of
from tests.views import test_fixes as fixes
from tests.views.outputs import on_terminal

SAMPLES = sorted((REPOSITORY / "sample_models").glob("*.py"))
HEADING = "graphdoctor finds:"


@dataclass(frozen=True)
class Expected:
    counts: dict[str, float]
    findings: frozenset[tuple[str, int]]


def read_expected(path: Path) -> Expected:
    """Parse the block: counts in ``name=value`` words, then one line a finding."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    before, heading, block = docstring.partition(f"\n{HEADING}\n")
    assert heading, f"no {HEADING!r} in the docstring"
    assert before.strip(), "the docstring begins with what the sample shows"
    counts: dict[str, float] = {}
    findings: list[tuple[str, int]] = []
    for line in block.splitlines():
        if match := re.fullmatch(r"    (GD\d{3}) line (\d+)", line):
            findings.append((match[1], int(match[2])))
            continue
        assert re.fullmatch(r"   (?: [a-z_]+=\d+(?:\.\d\d)?)+", line), f"cannot be read: {line!r}"
        assert not findings, "counts come before findings"
        for word in line.split():
            name, value = word.split("=")
            assert name not in counts, f"{name} is given twice"
            counts[name] = float(value)
    assert counts, "no counts"
    assert len(set(findings)) == len(findings), "a finding is given twice"
    return Expected(counts, frozenset(findings))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler on a CPU")
def test_a_class_is_explained_with_inductor_and_dynamic_shapes(
    tmp_path: Path, explain_json: Callable[..., Any]
) -> None:
    target = f"{REPOSITORY / 'sample_models' / 'attention.py'}:MultiHeadAttention"

    summary = explain_json(target, "--backend", "inductor", "--dynamic")["summary"]

    assert (summary["calls"], summary["graphs"], summary["break_records"]) == (2, 2, 0)
    assert summary["coverage"] == 1.0
    (folder,) = tmp_path.glob(".graphdoctor/*-attention")
    recording, phases = picture_of(folder)
    assert_agrees_with_the_metrics(recording, phases)
    assert recording.picture is not None
    assert recording.config == {}


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


MOST = 40
MODELS = REPOSITORY / "tests" / "truth" / "models.txt"


def assert_fits(recording: Path) -> None:
    diagnosis = diagnose_recording(recording, needs=Needs(guards=True)).diagnosis
    for view in (report_view(diagnosis), guards_view(diagnosis)):
        shown = on_terminal(view)
        assert shown.count("\n") <= MOST, shown
    assert on_terminal(report_view(diagnosis), is_verbose=True).count("\n") > MOST


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


@pytest.mark.slow
@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_sample_has_its_findings_fits_and_suggested_code_works(
    tmp_path: Path, run_here: RunCli, path: Path
) -> None:
    def report(recording: Path) -> dict[str, Any]:
        # Whether the checks of guards take a large share depends on the machine's mood.
        done = run_here("report", recording, "--ignore", "GD301", "--format", "json", status=0)
        return json.loads(done.stdout)

    text, expected = path.read_text(), read_expected(path)
    recording = recorded(tmp_path, text, Measured(coverage=True, guard_cost=True))
    assert_fits(recording)
    document = report(recording)
    summary = document["summary"]
    counts = {
        name: round(summary[name], 2) if summary[name] is not None else None
        for name in expected.counts
    }
    assert counts == expected.counts
    places = [(finding["code"], finding["location"]) for finding in document["findings"]]
    found = {(code, Path(place["file"]).name, place["line"]) for code, place in places}
    assert found == {(code, "model.py", line) for code, line in expected.findings}
    if path.stem in ("print_in_helper", "batch_sizes"):  # words alone would pass
        assert all(finding["fixes"][0]["snippet"] for finding in document["findings"])
    if path.stem == "print_in_forward":  # only a trial tells whether torch's print takes a tuple
        assert [bool(fix["snippet"]) for fix in document["findings"][0]["fixes"]] == [False, True]
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
        changed = edited(text, fix, document["recording"]["target"]["name"])
        after = report(recorded(folder, changed, Measured(coverage=True)))
        assert after["summary"]["calls"] == document["summary"]["calls"]
        assert after["summary"]["calls_failed"] == document["summary"]["calls_failed"]
        key = f"{finding['code']} {finding['message']}"
        assert keys(after).count(key) < keys(document).count(key), f"{snippet}: {keys(after)}"


SITES = {
    "break_in_try": (1, 0),
    "break_under_with": (0, 1),
    "data_dependent_branch": (1, 0),
    "deepcopy_state": (1, 0),
    "disabled_call": (1, 0),
    "explicit_graph_break": (1, 0),
    "hidden_second_break": (3, 0),
    "image_filter": (1, 0),
    "item": (1, 0),
    "logger_call": (1, 0),
    "nonzero": (1, 0),
    "numpy_roundtrip": (0, 1),  # a maintainer would interpolate by `torch.searchsorted`
    "print_in_forward": (1, 0),
    "print_in_helper": (1, 0),
    "print_in_loop": (1, 0),
    "training_step": (0, 3),
    "warn_call": (1, 0),
}
"""By sample how many break sites go away, and are left as they are."""
ALIKE = {"hidden_second_break", "print_in_helper", "print_in_loop", "warn_call"}
"""Samples whose fixes are those of others, or of ``tests/commands/test_fix.py``."""


def test_every_sample_with_a_break_is_listed() -> None:
    broken = {
        path.stem
        for path in (REPOSITORY / "sample_models").glob("*.py")
        if not re.search(r"break_sites=0", path.read_text())
    }
    assert broken == SITES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", [at_night(name) if name in ALIKE else name for name in SITES])
def test_every_break_site_ends_as_listed(tmp_path: Path, name: str) -> None:
    text = (REPOSITORY / "sample_models" / f"{name}.py").read_text()
    (tmp_path / "model.py").write_text(text)
    done = run_command(
        "fix",
        "model.py",
        "--unsafe-fixes",
        "--no-timing",
        "--budget",
        "600",
        "--format",
        "json",
        cwd=tmp_path,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    treatment = document["recording"]["treatment"]
    gone, left = SITES[name]
    verified = {
        case["fingerprint"]
        for case in treatment["tried"]
        if case["verdict"].startswith("verified")
        and case["is_applied"]
        and case["code"].startswith("GD1")
    }
    assert len([finding for finding in treatment["left"] if finding["code"] != "GD111"]) == left
    if left:
        assert treatment["after"] is None
        # What leaves a break in place pays by the clock alone.
        assert not any(case["grade"] == "contained" for case in treatment["tried"])
        return
    assert len(verified) >= gone
    assert treatment["after"]["break_sites"] == 0
    assert treatment["whole"]["is_one_graph"]
    assert not treatment["settings"]


@pytest.mark.slow
def test_a_report_of_a_large_model_fits(tmp_path: Path) -> None:
    program = written(MODELS, "gpt2", tmp_path)
    assert_fits(recorded(tmp_path, program.read_text(), Measured(guard_cost=True)))


@pytest.mark.parametrize("name", ["2.13.0/item", "2.13.0/print_in_helper", "2.13.0/break_in_try"])
def test_a_kept_report_fits(name: str) -> None:
    assert_fits(RECORDED_LOGS / name)


@pytest.mark.parametrize(
    "make", [fixes.every_verdict, fixes.suggested, fixes.skipping, fixes.following, fixes.shared]
)
def test_what_was_tried_fits(make: fixes.Callable) -> None:
    shown = fixes.rendered(*make())
    assert shown.count("\n") <= MOST, shown
