"""The ranks of a job as people read them."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.job import Divergence, DivergentValue, HangCandidate, Job
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import CaptureGap
from graphdoctor.studies.ranks.view import job_view
from tests.each import for_each
from tests.studies.ranks.reports import compiled, found, job, rank, uneven
from tests.views.outputs import on_terminal

SCHEDULE = (
    "torch.ops._c10d_functional.all_reduce_.default",
    "torch.ops._c10d_functional.all_gather_into_tensor.default",
)
UNRECORDED = CaptureGap(
    code="GD904", kind="foreign_log", message="graphdoctor didn't record this log."
)


def two() -> Job:
    """Rank 1 schedules other collectives, and its log ends in the middle."""
    first = rank(
        0,
        compiled("0/0", "step", collectives=SCHEDULE),
        compiled("1/0", "loss", 40),
        findings=(found(),),
    )
    other = compiled("0/0", "step", collectives=SCHEDULE[:1], cache="hit", duration_s=0.2)
    return job(first, rank(1, other, complete=False), recording="my logs")


def eight() -> Job:
    return uneven(8, others=range(3, 4))


def many() -> Job:
    """37 of 64 ranks recompile, more often than fits."""
    made = uneven(64, others=range(3, 40), causes=20)
    return made.replace(
        ranks=tuple(each.replace(complete=None) for each in made.ranks), gaps=(UNRECORDED,)
    )


def scattered() -> Job:
    """Each rank has a size of its own, in a line of a graph that doesn't fit."""
    line = 'def forward(self, L_x_: "f32[{}, 16][16, 1]cpu", L_self_modules_a_parameters_weight_: "f32[32, 16][16, 1]cpu")'
    made = job(
        *(
            rank(n, *(compiled(f"{c}/0", f"f{c}", graph=f"{n}") for c in range(9)))
            for n in range(64)
        )
    )
    values = tuple(DivergentValue(ranks=(n,), value=line.format(n + 8)) for n in range(64))
    return made.replace(first_divergence=made.first_divergence.replace(values=values))


def agreed() -> Job:
    return job(rank(0, compiled()), rank(1, compiled()), recording="logs")


JOBS = {"two": two, "eight": eight, "many": many, "scattered": scattered, "agreed": agreed}


def shown(made: Job, *, is_verbose: bool = False) -> str:
    return on_terminal(job_view(made), width=80, is_verbose=is_verbose)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_on_a_terminal(snapshot: SnapshotAssertion, name: str) -> None:
    text = shown(JOBS[name]())
    assert text == snapshot
    assert max(map(len, text.splitlines())) <= 80
    # All but the findings is on the first screen.
    assert len(text.partition("\nGD2")[0].splitlines()) <= 40


def test_everything_is_there_when_asked_for() -> None:
    text = shown(many(), is_verbose=True)
    assert all(f"0/{n} " in text for n in range(1, 21))
    assert all(f"\n{n:<5}" in text for n in range(64))
    assert "show with -v" not in text


def test_collectives_missing_from_a_log_are_not_zero() -> None:
    made = job(
        rank(0, compiled(collectives=None, cache="hit", graph="other")),
        rank(1, compiled(collectives=SCHEDULE)),
    )
    assert "0 collectives" not in shown(made)


@for_each(
    "kind, said",
    [
        ("schedule", "ranks 0–2 and rank 3 call different collectives in 0/0 step (all_reduce)"),
        (
            "absent",
            "ranks 0–2 can wait in 0/0 step (all_reduce) for rank 3, which never compiled it",
        ),
        ("stopped", "ranks 0–2 can wait for rank 3, whose log ends at 0/0 step (all_reduce)"),
    ],
)
def test_where_ranks_can_wait_forever_is_a_sentence(kind: str, said: str) -> None:
    hang = read_fact(
        HangCandidate,
        {
            "kind": kind,
            "compile": "0/0",
            "function": "step",
            "location": {"file": "net.py", "line": 1, "function": "step"},
            "waiting": (0, 1, 2),
            "missing": (3,),
            "collectives": SCHEDULE[:1],
        },
    )
    made = uneven(8, others=range(3, 4)).replace(hangs=(hang,))
    assert f"Possible hang: {said}." in " ".join(shown(made).split())


def test_a_divergence_without_a_recording_s_name_has_no_commands() -> None:
    made = two().replace(recording=None)
    assert isinstance(made.first_divergence, Divergence)
    assert "graphdoctor diff" not in shown(made)


def test_long_values_are_cut_to_where_they_differ() -> None:
    calls = [
        tuple(f"torch.ops.mine.call{number}.default" for number in range(80)) for _ in range(2)
    ]
    other = (*calls[1][:40], "torch.ops.mine.another.default", *calls[1][41:])
    text = on_terminal(
        job_view(job(rank(0, compiled(collectives=calls[0])), rank(1, compiled(collectives=other))))
    )
    assert "call40" in text
    assert "another" in text
