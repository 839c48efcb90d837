"""What is concluded from replays, and a real one in which an attribute binds although the size
fails first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphdoctor.facts.trials import Remedy, TrialResult
from graphdoctor.fixes.patch import Candidate
from graphdoctor.fixes.run_changes import RecompileFixes
from graphdoctor.fixes.what_if import _answer, _result
from graphdoctor.trials.program import RunChange
from graphdoctor.views.recompiles import what_if_text
from tests.each import for_each
from tests.factories import compiled, recording, why
from tests.sections import texts_beside

BINDING, NEEDED, MARKED = texts_beside(__file__)


def trial(name: str | None, compiles: int | None, *, limit: int = 0, outputs: str = "equal") -> Any:
    remedies = ()
    if name is not None:
        remedies = (
            Remedy(
                name=name,
                title=name,
                snippet=name,
                kind="config",
                addresses=(f"x.{name}",),
                keeps_results=True,
            ),
        )
    return (), TrialResult(
        remedies=remedies, compiles=compiles, frames_over_limit=limit, outputs=outputs
    )


def joined(first: Any, other: Any) -> Any:
    remedies = (*first[1].remedies, *other[1].remedies)
    return (), first[1].replace(remedies=remedies)


def warmed_up() -> Any:
    _, result = trial("warm-up", 0)
    result = result.replace(remedies=(result.remedies[0].replace(addresses=()),))
    return (Candidate("Warm up", "call", is_safe=True, change=RunChange(warm_up=True)),), result


@for_each(
    "trials, order, conclusion",
    [
        (
            [trial(None, 8, limit=1), trial("size", 8, limit=1), trial("attribute", 1)],
            "attribute, , size",
            "Fixing `x.attribute` alone is enough: 8 compiles → 1, no longer over the recompile limit.",
        ),
        (
            [trial(None, 8), trial("a", 3), trial("b", 3)],
            "a, b, ",
            "No single cause stands out. Fixing one alone: `x.a`: 8 compiles → 3; `x.b`: 8 compiles → 3.",
        ),
        # One that others add to is not enough.
        (
            [trial(None, 8), trial("a", 3), trial("b", 5), joined(trial("a", 1), trial("b", 1))],
            "a, a, b, ",
            "Fixing `x.a` alone helps most: 8 compiles → 3. "
            "Fixing `x.a` and `x.b` together: 8 compiles → 1.",
        ),
        (
            [trial(None, 3), trial("a", 3), trial("b", 3), joined(trial("a", 2), trial("b", 2))],
            "a, , a, b",
            "None of the remedies that were tried saves a compile by itself. Fixing `x.a` and `x.b` together: 3 compiles → 2.",
        ),
        # One that leaves recompiles isn't either, though nothing that was tried saves more.
        (
            [trial(None, 4), trial("a", 3), trial("b", 4)],
            "a, , b",
            "Fixing `x.a` alone helps most: 4 compiles → 3.",
        ),
        # Warming up saves nothing, and comes after what does.
        (
            [trial(None, 8), warmed_up(), trial("a", 2)],
            "a, , warm-up",
            "Fixing `x.a` alone helps most: 8 compiles → 2.",
        ),
        # One that changes results is never the answer, and a replay that failed comes last and is
        # no zero.
        (
            [trial(None, 8), trial("a", 1, outputs="different"), trial("b", 5), trial("c", None)],
            "b, , a, c",
            "Fixing `x.b` alone helps most: 8 compiles → 5.",
        ),
        (
            [trial(None, 8), trial("a", None)],
            ", a",
            "None of the remedies that were tried saves a compile by itself.",
        ),
    ],
)
def test_the_remedy_that_saves_most_alone_names_what_binds(trials, order, conclusion):
    answer = _answer(trials, RecompileFixes(), 0, frames=1)
    names = [result.remedies[0].name if result.remedies else "" for result in answer.results]
    assert (", ".join(names), what_if_text(answer)) == (order, conclusion)
    best = conclusion.split("`")[1] if conclusion.startswith("Fixing") else None
    assert answer.binding == (() if best is None else (best,))


def test_compile_times_that_torch_did_not_tell_are_not_0():
    untold = compiled().replace(duration_s=None)
    results = [
        _result((), recording(compiles=compiles)) for compiles in ((untold,), (compiled(),), ())
    ]
    assert [result.compile_s for result in results] == [None, 0.25, 0.0]
    assert [result.compiles for result in results] == [1, 1, 0]


@pytest.mark.slow
def test_an_attribute_binds_although_the_size_fails_first(run_cli, tmp_path):
    (tmp_path / "net.py").write_text(BINDING)
    done = run_cli("recompiles", "net.py", "--what-if", "--format", "json", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout)["recording"]["what_if"]
    assert tried["binding"] == ["self.step"]
    by_name = {
        " with ".join(remedy["name"] for remedy in result["remedies"]) or "as it is": result
        for result in tried["results"]
    }
    assert (by_name["as it is"]["compiles"], by_name["as it is"]["frames_over_limit"]) == (8, 1)
    marked = by_name["mark_dynamic x 0"]
    assert (marked["compiles"], marked["frames_over_limit"]) == (8, 1)
    attribute = by_name["allow_unspec_int_on_nn_module"]
    assert attribute["compiles"] <= 3
    assert attribute["frames_over_limit"] == 0
    assert {result["outputs"] for result in tried["results"]} == {"equal"}
    assert run_cli("recompiles").stdout.count("Fixing `self.step` alone") == 1, (
        "the recording keeps the answer"
    )


@pytest.mark.slow
def test_suggestion_refuted_by_replay_is_reported_as_worse(run_cli, tmp_path):
    (tmp_path / "needed.py").write_text(NEEDED)
    done = run_cli("recompiles", "needed.py:forward", "--what-if", "--format", "json", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    compiles = {
        " ".join(remedy["name"] for remedy in result["remedies"]): result["compiles"]
        for result in document["recording"]["what_if"]["results"]
    }
    assert compiles["tensor t"] > compiles[""]
    (finding,) = [item for item in document["findings"] if item["code"] == "GD203"]
    assert [(fix["verdict"], why(fix)) for fix in finding["fixes"]] == [
        ("makes it worse", f"replayed: {compiles['']} compiles → {compiles['tensor t']}")
    ]
    report = run_cli("report", "--format", "json")
    (again,) = [item for item in json.loads(report.stdout)["findings"] if item["code"] == "GD203"]
    assert again["fixes"] == finding["fixes"], "the recording keeps what was tried"
