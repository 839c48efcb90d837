"""What a second start costs."""

from __future__ import annotations

from graphdoctor.facts.kernels import CacheUse
from graphdoctor.facts.recording import Recording
from graphdoctor.studies.profile.report import Compiling, compiling, restarted
from tests.factories import compiled, graph, recording


def recorded(*times: tuple[float | None, float | None]) -> Recording:
    compiles = tuple(
        compiled(f"{number}/0").model_copy(update={"duration_s": all_s, "backend_s": backend_s})
        for number, (all_s, backend_s) in enumerate(times)
    )
    return recording().model_copy(update={"compiles": compiles})


def test_what_is_not_in_the_backend_is_dynamos():
    assert compiling(recorded((4.0, 3.0), (2.0, 0.5))) == Compiling(6.0, 2.5)
    # A function without operations has no graph for the backend.
    assert compiling(recorded((4.0, 3.0), (1.0, None))) == Compiling(5.0, 2.0)


def test_a_compile_that_torch_did_not_time_leaves_all_unknown():
    assert compiling(recorded((4.0, 3.0), (None, None))) == Compiling(None, None)
    assert compiling(recorded()) == Compiling(None, None)


def test_a_second_start_gives_its_caches_and_seconds():
    again = recorded((4.0, 3.0)).model_copy(update={"caches": CacheUse(hits=1, misses=0, bypasses=0)})
    found = restarted(again)
    assert found == {"restart_caches": again.caches, "compile_warm_s": 4.0, "dynamo_warm_s": 1.0}


def test_time_of_a_backend_that_torch_does_not_tell_is_unknown() -> None:
    """It had a graph to compile, so it isn't 0, and what is left for Dynamo is unknown."""
    found = recorded((4.0, 3.0), (1.0, None))
    with_graph = found.model_copy(update={"graphs": (graph(found.compiles[-1].compile_id),)})
    assert compiling(with_graph) == Compiling(5.0, None)
