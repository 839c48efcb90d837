"""What torch.export knows and has no public name for."""

from __future__ import annotations

import torch

from graphdoctor.probe.torch_private import torch_export


def test_conditions_on_sizes_are_those_of_the_arguments():
    arguments = {
        "x": torch.empty(4, 6, device="meta"),
        "flat_args": [torch.empty(3, device="meta")],
    }
    assert torch_export.passes(
        ["L['x'].size()[0] % 2 == 0", "L['flat_args'][0].size()[0] == 3"], arguments
    )
    assert not torch_export.passes(["L['x'].size()[0] == 4", "L['x'].size()[1] > 6"], arguments)


def test_a_condition_that_cannot_be_computed_is_passed():
    assert torch_export.passes(["L['missing'].size()[0] == 3", "nobody knows"], {})
