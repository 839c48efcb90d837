"""What the reader makes of records and events about what is below Dynamo."""

from __future__ import annotations

import pytest

from graphdoctor.model.kernels import CacheUse
from graphdoctor.trace.below import CacheRecord, cache_use, cuda_graphs, joined, plain_reason, skip_kind
from graphdoctor.trace.events import Events

FX, AOT = "fx_graph_cache", "aotautograd_cache"


def used(*records: tuple) -> tuple[int, int, int, tuple[str, ...]] | None:
    found = cache_use(CacheRecord(*record) for record in records)
    return None if found is None else (found.hits, found.misses, found.bypasses, found.bypass_reasons)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], None),
        ([("0/0", AOT, "miss"), ("0/0", FX, "miss")], (0, 1, 0, ())),
        ([("0/0", FX, "hit"), ("0/0", AOT, "hit")], (1, 0, 0, ())),
        ([("0/0", AOT, "miss"), ("0/0", FX, "hit")], (1, 0, 0, ())),
        ([("0/0", AOT, "miss"), ("0/0", FX, "hit"), ("0/0", FX, "miss")], (0, 1, 0, ())),
        ([("0/0", FX, "hit"), ("0/0", AOT, "hit"), ("0/0", FX, "hit"), ("0/0", AOT, "hit")], (2, 0, 0, ())),
        ([("0/0", AOT, "miss"), ("0/0", FX, "miss"), ("0/0", AOT, "miss"), ("0/0", FX, "miss")], (0, 2, 0, ())),
        ([("0/0", AOT, "bypass", "a hook"), ("0/0", FX, "bypass", "a lambda")], (0, 0, 1, ("a hook", "a lambda"))),
        ([("0/0", AOT, "bypass", "a hook"), ("0/0", FX, "hit")], (1, 0, 0, ())),
        ([("0/0", AOT, "bypass", "a hook"), ("1/0", AOT, "bypass", "a hook")], (0, 0, 2, ("a hook",))),
    ],
)
def test_each_graph_counts_once(records, expected):
    assert used(*records) == expected


def test_processes_are_added_up():
    one = CacheUse(hits=1, misses=2, bypasses=1, bypass_reasons=("a",))
    two = CacheUse(hits=3, misses=0, bypasses=1, bypass_reasons=("a", "b"))
    assert joined([one, None, two]) == CacheUse(hits=4, misses=2, bypasses=2, bypass_reasons=("a", "b"))
    assert joined([None]) is None


REASONS = {
    'skipping cudagraphs due to mutated inputs (2 instances). Found from : \n   File "/p/m.py", line 5': "mutation",
    "skipping cudagraphs due to input storage mutation (1 instances)": "mutation",
    "skipping cudagraphs due to skipping cudagraphs due to cpu device (arg0_1)": "cpu_device",
    "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), …": "several_devices",
    "skipping cudagraphs due to disabling cudagraphs due to incompatible op aten.nonzero.default": "incompatible_op",
    "skipping cudagraphs due to control flow operator: torch.cond.": "incompatible_op",
    "skipping cudagraphs due to graph with symbolic shapes inputs and config.triton.…=True. ": "dynamic_shapes",
    "skipping cudagraphs due to ['non-Tensor inputs']": "non_tensor_input",
    "skipping cudagraph due to function 3 exceeding max re-recording limit (=128) on …": "rerecording",
    "disabling cudagraphs due to override_cudagraphs annotation": "disabled",
    "skipping cudagraphs due to bisector": "other",
    "reason=cpu ops, ir=ComputedBuffer, fx=aten.add.Tensor(arg0_1, 1)": "cpu_device",
    "reason=unbacked binding ops, ir=FallbackKernel, fx=aten.nonzero.default(arg0_1)": "incompatible_op",
}
"""``torch/_inductor``, 2.13."""


@pytest.mark.parametrize("reason", REASONS)
def test_torchs_reasons_have_a_kind(reason):
    assert skip_kind(reason) == REASONS[reason]
    assert "/p/" not in (plain_reason(reason) or "")


def read(*, has_device: bool, reason: str | None):
    event = {"event": "cuda_graphs", "has_device": has_device, "captured": 0}
    found = cuda_graphs(Events([{**event, "skipped": [{"reason": reason, "compile_id": "0/0"}]}]))
    assert found is not None
    return found.skipped[0]


def test_a_graph_that_torch_skips_without_a_word_has_no_cuda_device():
    assert (read(has_device=False, reason=None).kind, read(has_device=True, reason=None).kind) == (
        "no_device",
        "cpu_graph",
    )
    assert read(has_device=False, reason=None).reason == "there is no CUDA device"


def test_the_line_that_torch_points_to_is_read():
    stack = '   File "/p/main.py", line 9, in <module>\n    f(x)\n   File "/p/m.py", line 5, in f\n    x.add_(1)'
    skip = read(
        has_device=True, reason=f"skipping cudagraphs due to mutated inputs (1 instances). Found from : \n{stack}"
    )
    assert skip.reason == "skipping cudagraphs due to mutated inputs (1 instances)"
    assert (skip.kind, skip.file, skip.line, skip.compile_id) == ("mutation", "/p/m.py", 5, "0/0")


def test_what_is_left_out_of_cuda_graphs_has_its_line():
    reason = "reason=unbacked binding ops, ir=FallbackKernel, fx=aten.nonzero.default(arg0_1)"
    left_out = [{"reason": f'{reason}\nFile "/p/m.py", line 5, in f\n  x.nonzero()', "compile_id": "0/0"}]
    event = {"event": "cuda_graphs", "has_device": True, "captured": 2, "skipped": [], "left_out": left_out}
    found = cuda_graphs(Events([event]))
    assert found is not None
    (skip,) = found.left_out
    assert (skip.kind, skip.reason, skip.file, skip.line) == ("incompatible_op", reason, "/p/m.py", 5)


def test_no_cuda_graphs_were_asked_for():
    assert cuda_graphs(Events()) is None
