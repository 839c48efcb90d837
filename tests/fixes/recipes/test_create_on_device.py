"""What is made or moved elsewhere stays as it is where the device isn't certain."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.reading import read_fact
from graphdoctor.fixes.recipes import create_on_device
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in


def edited(line: str, kind: str = "cpu_device") -> str:
    place = place_in(f"import torch\n\n\ndef forward(x, n):\n    {line}\n", "GD504", 5)
    skip = read_fact(CudaGraphSkip, {"kind": kind, "reason": "reason=cpu ops"})
    finding = place.finding.model_copy(update={"cuda_graph_skip": skip})
    edit = create_on_device.edit(type(place)(place.source, finding))
    assert not edit.is_safe
    return edit.content.decode().splitlines()[4].strip()


def test_it_goes_where_it_is_used(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = torch.zeros(3).cuda()",
        "y = torch.ones(3).to('cuda:1') + x",
        "y = torch.eye(3).to(device=device) @ x",
        "return x > torch.tensor(0.5)",
        "return (x.to('cpu') + 1).cuda()",
    ]
    assert outcomes(edited, cases) == snapshot


@for_each(
    "line",
    [
        "y = torch.arange(n)",
        "y = torch.rand(3).to(x.device)",
        "y = torch.zeros(3).to(x)",
        "y = torch.zeros(3).to(torch.float64)",
        "y = torch.tensor([n, 2]).to(x.device)",
        "y = torch.zeros(3, device='cpu').to(x.device)",
        "return x.cpu() + 1",
        "return helper(torch.ones(3), x)",
        "y = torch.ones(3)\n    device = pick(y)\n    return y.to(device)",
        "y = x.cpu()\n    return y.to(torch.float64)",
    ],
)
def test_it_declines_what_it_cannot_know(line: str) -> None:
    with pytest.raises(DeclinedError):
        edited(line)


def test_it_declines_another_reason() -> None:
    with pytest.raises(DeclinedError, match="edits only move"):
        edited("y = torch.zeros(3).cuda()", kind="mutation")
