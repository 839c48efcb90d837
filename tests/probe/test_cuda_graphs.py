"""What torch's loggers say of CUDA graphs, as the probe hears it."""

import json
import logging
import logging.handlers
import sys
from types import SimpleNamespace

import pytest
import torch

from graphdoctor.probe.events import EventFile, json_text
from graphdoctor.probe.torch_private.torch_kernels import (
    CudaGraphWatch,
    asks_for_cuda_graphs,
    awaits_backward,
    recorded_functions,
)


class Kept(EventFile):
    """Keeps an event in memory."""

    def __init__(self):
        self.kept = {}

    def write(self, _name, **fields):
        self.kept = json.loads(json_text(fields))


def _log_non_cudagraphable_node(logger):
    """Logs as ``torch/_inductor/scheduler.py``, 2.13, does."""
    logger.debug("    %s: %s", "buf0", "reason=cpu ops, ir=ComputedBuffer")
    for line in ('File "m.py", line 5, in f', "y = x.cpu()"):
        logger.debug("         %s", line)


class Trees:
    """Stands for ``torch._inductor.cudagraph_trees`` with one manager."""

    def __init__(self):
        self.manager = SimpleNamespace(
            roots={},
            ids_to_funcs={},
            id_to_mode={},
            id_to_compile_id={},
            get_func_name=lambda number: f"f{number}",
        )
        self.local = SimpleNamespace(
            tree_manager_containers={0: SimpleNamespace(tree_manager=self.manager)}
        )

    def add(self, number, model, *placeholders, mode="INFERENCE"):
        names = [SimpleNamespace(name=name) for name in placeholders]
        self.manager.ids_to_funcs[number] = SimpleNamespace(
            model=model, placeholders=names, mutated_input_idxs=(), static_input_idxs=()
        )
        self.manager.id_to_mode[number] = SimpleNamespace(name=mode)
        self.manager.id_to_compile_id[number] = "0/0"

    def recording(self, number, *pointers, inputs, **more):
        """One CUDA graph; inputs without a pointer are copied."""
        return SimpleNamespace(
            wrapped_function=self.manager.ids_to_funcs[number],
            static_input_data_ptrs=list(pointers),
            non_static_input_idx=[
                index for index, pointer in enumerate(pointers) if pointer is None
            ],
            reconstructed_inputs=inputs,
            children={},
            **more,
        )


def functions_now():
    return recorded_functions()[0]


def copy_of(placeholder, *shape, size):
    return {"placeholder": placeholder, "shape": list(shape), "bytes": size}


@pytest.fixture
def trees(monkeypatch):
    made = Trees()
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", made)
    return made


def test_functions_whose_outputs_await_their_backward_pass_are_recorded(trees, monkeypatch):
    trees.manager.warned_functions = set()
    assert not awaits_backward()
    trees.manager.warned_functions.add(0)
    assert awaits_backward()
    trees.local.tree_manager_containers[0].tree_manager = None
    assert not awaits_backward()
    monkeypatch.delitem(sys.modules, "torch._inductor.cudagraph_trees")
    assert not awaits_backward()


def test_inputs_that_are_copied_are_known_by_their_placeholders(trees):
    trees.add(0, object(), "arg0_1", "arg1_1", "arg2_1")
    inputs = [torch.empty(8, 4), 7, torch.empty(4, 1).expand(4, 100)]
    trees.manager.roots[0] = [trees.recording(0, None, None, None, inputs=inputs)]
    (function,) = functions_now()
    assert (function["compile_id"], function["name"]) == ("0/0", "f0")
    assert (function["recordings"], function["rerecordings"]) == (1, 0)
    assert function["copied"] == [
        copy_of("arg0_1", 8, 4, size=128),
        copy_of("arg2_1", 4, 100, size=16),
    ]
    # torch 2.15 says itself what it copies.
    trees.manager.roots[0] = [trees.recording(0, 1, None, 2, inputs=inputs, input_copy_idxs=[0, 1])]
    assert functions_now()[0]["copied"] == [copy_of("arg0_1", 8, 4, size=128)]


def test_one_function_with_several_sizes_is_one(trees):
    model = object()
    trees.add(0, model, "arg0_1")
    trees.add(1, model, "arg0_1")
    trees.add(2, object(), "tangents_1", mode="BACKWARD")
    forward = trees.recording(0, None, inputs=[torch.empty(2)])
    forward.children[2] = [trees.recording(2, 5, inputs=[torch.empty(2)])]
    trees.manager.roots[0] = [forward]
    assert recorded_functions()[1] == 2
    assert [(of["phase"], of["sizes"], of["recordings"]) for of in functions_now()] == [
        ("forward", 2, 1),
        ("backward", 1, 1),
    ]


def test_a_new_address_of_a_parameter_makes_torch_record_again(trees):
    trees.add(0, object(), "arg0_1", "arg1_1")
    inputs = [torch.empty(4), torch.empty(2)]
    recordings = [trees.recording(0, address, None, inputs=inputs) for address in (1, 2, 3)]
    trees.manager.roots[0] = recordings
    (function,) = functions_now()
    assert (function["recordings"], function["rerecordings"]) == (3, 2)
    assert function["moved"] == [copy_of("arg0_1", 4, size=16)]
    # The same function after another one is no recording in place of this.
    trees.manager.roots[0] = recordings[:1]
    recordings[0].children[0] = recordings[1:2]
    (function,) = functions_now()
    assert (function["recordings"], function["rerecordings"], function["moved"]) == (2, 0, [])


def test_what_is_recorded_is_written(trees):
    watch = CudaGraphWatch()
    events = Kept()
    trees.add(0, object(), "arg0_1", "arg1_1")
    trees.manager.roots[0] = [
        trees.recording(0, number, None, inputs=[torch.empty(4), torch.empty(2)])
        for number in (1, 2)
    ]
    watch.report(events)
    watch.close()
    event = events.kept
    assert event["captured"] == 1
    assert event["functions"][0]["copied"] == [copy_of("arg1_1", 2, size=8)]


def test_omitted_operations_and_skipped_graphs_are_recorded_silently():
    scheduler = logging.getLogger("torch._inductor.scheduler.__cudagraphs")
    printed = logging.handlers.BufferingHandler(capacity=10)
    logging.getLogger("torch._inductor").addHandler(printed)
    level = scheduler.level
    filters = list(scheduler.filters)
    watch = CudaGraphWatch()
    events = Kept()
    _log_non_cudagraphable_node(scheduler)
    # Its own function: the logger's name and the function's are what tells a skip.
    torch._inductor.cudagraph_utils.log_cudagraph_skip_and_bump_counter(
        "skipping cudagraphs due to mutated inputs"
    )
    watch.report(events)
    watch.close()
    event = events.kept
    assert event["left_out"] == [
        {
            "reason": 'reason=cpu ops, ir=ComputedBuffer\nFile "m.py", line 5, in f\ny = x.cpu()',
            "compile_id": None,
        }
    ]
    assert event["skipped"] == [
        {"reason": "skipping cudagraphs due to mutated inputs", "compile_id": None}
    ]
    logging.getLogger("torch._inductor").removeHandler(printed)
    assert [record.levelname for record in printed.buffer] == ["WARNING"]
    assert (scheduler.level, scheduler.filters) == (level, filters)
    torch._inductor.cudagraph_utils.log_cudagraph_skip_and_bump_counter(
        "skipping cudagraphs due to mutated inputs"
    )
    assert len(event["skipped"]) == 1


def test_who_asks_for_cuda_graphs():
    asked = {
        ("inductor", "reduce-overhead"): True,
        ("inductor", "max-autotune"): True,
        ("cudagraphs", None): True,
        ("inductor", None): False,
        ("inductor", "max-autotune-no-cudagraphs"): False,
        ("eager", "reduce-overhead"): False,
    }
    assert {number: asks_for_cuda_graphs(*number, {}) for number in asked} == asked
    assert asks_for_cuda_graphs("inductor", None, {"triton.cudagraphs": True})
