"""What the recipes of ``copies`` leave alone, and how they write what they edit."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.reading import read_fact
from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.copies import clone_instead_of_deepcopy, create_on_device
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

# clone-instead-of-deepcopy


HEAD = "import copy\nimport torch\nfrom torch import nn\n"


def edit(text: str) -> Edit:
    """The edit of the line that calls ``deepcopy``."""
    text = HEAD + text
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "deepcopy(" in found)
    return clone_instead_of_deepcopy.edit(place_in(text, "GD108", line))


def in_class(init: str, copied: str = "self.state") -> str:
    return (
        f"class Net(nn.Module):\n    def __init__(self):\n        {init}\n"
        f"    def forward(self, x):\n        return copy.deepcopy({copied})\n"
    )


def test_what_may_be_no_tensor_is_left(snapshot: SnapshotAssertion) -> None:
    cases = [
        in_class("self.state = nn.Linear(8, 8)"),
        in_class("self.state = make()"),
        in_class("self.other = 1"),
        in_class("self.state = {}"),
        in_class("self.state = {'a': torch.zeros(1), 'n': 0}"),
        in_class("self.state = [[torch.zeros(1)]]"),
        in_class("self.state = [nn.Linear(1, 1) for _ in range(2)]"),
        in_class("self.state = torch.zeros(1); self.state = [torch.zeros(1)]"),
        in_class("pass", "x * 2"),
        in_class("pass", "self.layer()"),
        in_class("pass", "[*x]"),
        in_class("pass", "x, memo"),
        in_class("pass", "*x"),
        "def f(x: nn.Module):\n    return copy.deepcopy(x)\n",
        "def f(x: dict[str, list]):\n    return copy.deepcopy(x)\n",
        "def f(x: dict):\n    return copy.deepcopy(x)\n",
        "def f(x):\n    return x.deepcopy(x)\n",
        "def f(x, y):\n    return copy.deepcopy(x) + copy.deepcopy(y)\n",
    ]
    assert outcomes(edit, cases) == snapshot


def test_a_comment_within_the_call_is_not_lost() -> None:
    text = HEAD + "def f(x):\n    return copy.deepcopy(  # why\n        x\n    )\n"
    with pytest.raises(DeclinedError, match="a comment inside it would be lost"):
        clone_instead_of_deepcopy.edit(place_in(text, "GD108", 5, (12, None)))


def test_tensors_are_cloned_one_by_one(snapshot: SnapshotAssertion) -> None:
    def result(text: str) -> object:
        found = edit(text)
        return found.content.decode()

    cases = [
        "def f(x):\n    return copy.deepcopy(x)\n",
        "def f(x):\n    return copy.deepcopy(x[0])\n",
        "def f(x):\n    y = copy.deepcopy(x) ; y = y * 2  # two\n",
        "def f(x):\n    return (lambda v: copy.deepcopy(v))(x)\n",
        "def f(x):\n    def g(): return copy.deepcopy(x)\n    return g()\n",
        "def f(x):\r\n\ty = copy.deepcopy(x)\t# why\r\n",
        "def f(x: 'list'):\n    y = [torch.ones(1)]\n    z = copy.deepcopy(y)\n",
        "def f(x: dict[str, torch.Tensor]):\n    return copy.deepcopy(x)\n",
        "def f(x: tuple[torch.Tensor, ...]):\n    return copy.deepcopy(x)\n",
        in_class("self.state = nn.Parameter(torch.ones(1))"),
        in_class("self.state = [torch.ones(1, requires_grad=True)]"),
        in_class("self.state = {n: torch.ones(1) for n in 'ab'}"),
    ]
    assert outcomes(result, cases) == snapshot


def test_a_visibly_detached_tensor_is_safe_to_clone() -> None:
    found = edit("def f(x):\n    return copy.deepcopy(x.detach())\n")
    assert found.is_safe
    assert b"return x.detach().clone()" in found.content


# create-on-device


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
