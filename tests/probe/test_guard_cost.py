"""What guard checks cost, repeated where they happen and as they happen in a call; measuring leaves
no trace."""

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.measure.guard_cost import (
    CheckTimer,
    CompiledCode,
    searches_in,
    time_searches,
)
from graphdoctor.probe.torch_private import torch_guards
from graphdoctor.probe.torch_private.torch_kernels import (
    ProfiledEvent,
    profiled_events,
    quick_range,
)

CALL = "graphdoctor_searched_call"
EMPTY = "graphdoctor_empty"
LOOKUP = "TorchDynamo Cache Lookup"
REGION = "Torch-Compiled Region: "

pytestmark = pytest.mark.slow

_OPEN = []


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    while _OPEN:
        _OPEN.pop().close()
    torch._dynamo.reset()


def known_code():
    """What knows the code that is compiled until the test ends."""
    _OPEN.append(CompiledCode())
    return _OPEN[-1]


def measured(function, *args):
    """What the timer finds in a steady call."""
    timer = CheckTimer(known_code())
    compiled = torch.compile(function, backend="eager")
    for _ in range(3):
        compiled(*args)
    return timer.run(lambda: compiled(*args)), timer


def test_the_check_of_a_call_is_measured_with_its_parts():
    net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(40)])

    def forward(x, scale):
        return net(x) * scale

    (entry,), timer = measured(forward, torch.ones(2, 4), 1.5)
    assert timer.troubles == []
    assert (entry["compile_id"], entry["runs"]) == ("0/0", 1)
    assert entry["check_us"] > 0
    assert entry["check_low_us"] <= entry["check_us"] <= entry["check_high_us"]
    parts = {part["source"]: part["check_us"] for part in entry["bill"]}
    assert {"L['x']", "L['scale']", "L['net']", "L['net']._modules['0']", "G"} <= set(parts)
    assert parts["L['net']"] is not None


def test_arguments_that_the_call_changes_are_checked_as_they_were():
    timer = CheckTimer(known_code())
    compiled = torch.compile(lambda x, options: x * options.pop("scale", 1.0), backend="eager")

    def call():
        compiled(torch.ones(3), {"scale": 2.0})

    for _ in range(3):
        call()
    (entry,) = timer.run(call)
    assert timer.troubles == []
    assert entry["check_us"] > 0


def test_each_run_counts_and_modes_of_the_call_hold():
    def helper(x):
        torch._dynamo.graph_break()
        return x.sin() + 1

    def forward(x):
        for _ in range(3):
            x = helper(x)
            torch._dynamo.graph_break()
        with torch.no_grad():
            return helper(x) * 2

    entries, timer = measured(forward, torch.ones(3))
    assert timer.troubles == []
    assert max(entry["runs"] for entry in entries) == 3


def test_a_call_is_as_it_was_after_it_was_measured():
    net = torch.nn.Linear(4, 4)
    compiled_count = []

    def backend(graph, _):
        compiled_count.append(graph)
        return graph

    timer = CheckTimer(known_code())
    compiled = torch.compile(net, backend=backend)
    x = torch.ones(2, 4)
    before = compiled(x)
    timer.run(lambda: compiled(x))
    torch.testing.assert_close(compiled(x), before)
    assert len(compiled_count) == 1


# Searches, as they happen in a call.


def profile(*calls, empty_ns=500):
    """Calls with what runs in them: name and nanoseconds."""
    events = []
    now = 0
    for inside in calls:
        events.append(ProfiledEvent(EMPTY, 1, now, empty_ns))
        began = now = now + empty_ns
        for name, duration in inside:
            events.append(ProfiledEvent(name, 1, now, duration))
            now += duration
        events.append(ProfiledEvent(CALL, 1, began, now - began))
    return events


def added(searches):
    """What is added to the costs of two compiles."""
    cost = {"entries": [{"compile_id": "0/0"}, {"compile_id": "1/0"}]}
    searches.add_to(cost)
    return cost


def test_the_profilers_own_time_is_taken_off_each_search():
    call = [(LOOKUP, 10_500), (REGION + "0/0", 4_000), (LOOKUP, 20_500), (REGION + "1/0", 4_000)]
    cost = added(searches_in(profile(*[call] * 5)))
    entry, other = cost.pop("entries")
    assert cost == pytest.approx({"searches_us": 30, "searches_low_us": 30, "searches_high_us": 30})
    assert entry == {
        "compile_id": "0/0",
        "search_us": 10,
        "search_low_us": 10,
        "search_high_us": 10,
    }
    assert other["search_us"] == 20


def test_searches_count_for_the_call_and_their_thread():
    cost = added(searches_in(profile(*[[(LOOKUP, 8_500)]] * 5)))
    assert (cost["searches_us"], cost["entries"][0]) == (8, {"compile_id": "0/0"})
    # The first calls under a profiler and other threads are left out; too few calls are no
    # measurement.
    ranges = profile([(LOOKUP, 900_000)], *[[(LOOKUP, 10_500), (REGION + "0/0", 1_000)]] * 5)
    other = ProfiledEvent(LOOKUP, 2, ranges[-1].start_ns, 70_000)
    assert added(searches_in([*ranges, other], skipped=1))["searches_high_us"] == 10
    assert added(searches_in(profile([(LOOKUP, 10_500)]))).keys() == {"entries"}


def steady_call():
    """A steady call of 40 layers, about 940 guards, without gradients."""
    layers = (
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.ReLU())
        for _ in range(40)
    )
    compiled = torch.compile(torch.nn.Sequential(*layers), backend="eager")
    x = torch.ones(2, 4)

    def call():
        with torch.no_grad():
            compiled(x)

    for _ in range(3):
        call()
    return call


def test_searches_match_torchs_own_reading_of_the_profile():
    code = known_code()
    steady = steady_call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(6):
            with quick_range(EMPTY):
                pass
            with torch.profiler.record_function(CALL):
                steady()
    events = list(profiler.events())
    measured_searches = searches_in(profiled_events(profiler))
    times = [
        event.time_range.end - event.time_range.start for event in events if event.name == LOOKUP
    ]
    assert len(times) == 6
    ids, searches = zip(
        *(search for call in measured_searches.calls for search in call), strict=True
    )
    assert [us + measured_searches.profiler_us for us in searches] == pytest.approx(times, abs=0.01)
    assert set(ids) == {"0/0"}
    # A search of the call stands beside the repeated check.
    timed = time_searches(steady)
    assert {len(of_call) for of_call in timed.calls} == {1}
    cost = {"entries": CheckTimer(code).run(steady)}
    timed.add_to(cost)
    (entry,) = cost["entries"]
    assert entry["search_us"] == cost["searches_us"]
    assert 0 < entry["search_low_us"] <= entry["search_us"] <= entry["search_high_us"]
    assert entry["check_us"] > 0


def test_torch_times_guards_of_each_compile_outside_trials(monkeypatch):
    timed = list[object]()
    monkeypatch.setattr(
        "torch._dynamo.guards.profile_guard_manager", lambda *given: timed.append(given) or 1.0
    )
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert len(timed) == 1
    torch_guards.leave_guards_untimed()
    torch.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
    assert len(timed) == 1
