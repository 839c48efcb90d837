"""Guard checks as they happen in a call: what a profile says of them, and what torch itself reads in the same one."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.measure.guard_cost import CheckTimer, CompiledCode, Searches, searches_in, time_searches  # noqa: E402
from graphdoctor.probe.torch_private.torch_kernels import ProfiledEvent, profiled_events, quick_range  # noqa: E402

CALL, EMPTY = "graphdoctor_searched_call", "graphdoctor_empty"
LOOKUP, REGION = "TorchDynamo Cache Lookup", "Torch-Compiled Region: "

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def profile(*calls: list[tuple[str, int]], empty_ns: int = 500) -> list[ProfiledEvent]:
    """Calls with what runs in them: name and nanoseconds."""
    found, now = [], 0
    for inside in calls:
        found.append(ProfiledEvent(EMPTY, 1, now, empty_ns))
        began = now = now + empty_ns
        for name, duration in inside:
            found.append(ProfiledEvent(name, 1, now, duration))
            now += duration
        found.append(ProfiledEvent(CALL, 1, began, now - began))
    return found


def added(found: Searches) -> dict[str, Any]:
    """What is added to the costs of two compiles."""
    cost: dict[str, Any] = {"entries": [{"compile_id": "0/0"}, {"compile_id": "1/0"}]}
    found.add_to(cost)
    return cost


def test_the_profilers_own_time_is_taken_off_each_search() -> None:
    call = [(LOOKUP, 10_500), (REGION + "0/0", 4_000), (LOOKUP, 20_500), (REGION + "1/0", 4_000)]
    cost = added(searches_in(profile(*[call] * 5)))
    one, other = cost.pop("entries")
    assert cost == pytest.approx({"searches_us": 30, "searches_low_us": 30, "searches_high_us": 30, "profiler_us": 0.5})
    assert one == {"compile_id": "0/0", "search_us": 10, "search_low_us": 10, "search_high_us": 10}
    assert other["search_us"] == 20


def test_a_search_that_finds_nothing_is_part_of_the_call_alone() -> None:
    cost = added(searches_in(profile(*[[(LOOKUP, 8_500)]] * 5)))
    assert (cost["searches_us"], cost["entries"][0]) == (8, {"compile_id": "0/0"})


def test_the_first_calls_under_a_profiler_and_other_threads_are_left_out() -> None:
    ranges = profile([(LOOKUP, 900_000)], *[[(LOOKUP, 10_500), (REGION + "0/0", 1_000)]] * 5)
    other = ProfiledEvent(LOOKUP, 2, ranges[-1].start_ns, 70_000)
    assert added(searches_in([*ranges, other], skipped=1))["searches_high_us"] == 10


def test_too_few_calls_are_no_measurement() -> None:
    assert added(searches_in(profile([(LOOKUP, 10_500)]))).keys() == {"entries"}


class Layers(torch.nn.Module):
    """40 layers: about 940 guards."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)) for _ in range(40)
        )

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def steady_call() -> Any:
    """A steady call of 40 layers without gradients."""
    compiled, x = torch.compile(Layers(), backend="eager"), torch.ones(2, 4)

    def call() -> None:
        with torch.no_grad():
            compiled(x)

    for _ in range(3):
        call()
    return call


def test_the_searches_are_those_that_torchs_own_reading_of_the_profile_has() -> None:
    steady = steady_call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(6):
            with quick_range(EMPTY):
                pass
            with torch.profiler.record_function(CALL):
                steady()
    events = list(profiler.events())
    found = searches_in(profiled_events(profiler))
    times = [event.time_range.end - event.time_range.start for event in events if event.name == LOOKUP]
    assert len(times) == 6
    ids, searches = zip(*(search for call in found.calls for search in call), strict=True)
    assert [us + found.profiler_us for us in searches] == pytest.approx(times, abs=0.01)
    assert set(ids) == {"0/0"}


def test_a_search_of_the_call_stands_beside_the_repeated_check() -> None:
    compiled_code = CompiledCode()
    call = steady_call()
    searches = time_searches(call)
    assert searches is not None
    assert {len(each) for each in searches.calls} == {1}
    cost = {"entries": CheckTimer(compiled_code).run(call)}
    compiled_code.close()
    searches.add_to(cost)
    (entry,) = cost["entries"]
    assert entry["search_us"] == cost["searches_us"]
    assert 0 < entry["search_low_us"] <= entry["search_us"] <= entry["search_high_us"]
    assert entry["check_us"] > 0
