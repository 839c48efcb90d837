"""Parameters that local-parameter-to-tensor leaves alone, and what it writes for the others."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import local_parameter_to_tensor
from graphdoctor.fixes.source.tree import DeclinedError
from tests.fixes.recipes.places import outcomes, place_in


def edit(body: str, columns: tuple[int, int] | None = None) -> Edit:
    text = "import torch\ndef f(self, x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return local_parameter_to_tensor.edit(place_in(text, "GD115", 3, columns))


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = make(x)",
        "y = Parameter(x) + Parameter(x)",
        "if Parameter(x): pass",
        "p = Parameter()",
        "p = Parameter(*x)",
        "p = Parameter(x, False)",
        "p = Parameter(x, dtype=int)",
        "self.p = Parameter(x)",
        "p = q = Parameter(x)",
        "return Parameter(x)",
        "y = g(Parameter(x))",
        "p = Parameter(x)\nreturn p",
        "p = Parameter(x)\nself.p = p",
        "p = Parameter(x)\ny = p.grad",
        "p = Parameter(x)\ng(p)",
        "p = Parameter(x)\no = torch.optim.SGD([p])",
    ]
    assert outcomes(edit, cases) == snapshot


def test_it_declines_outside_of_a_function() -> None:
    with pytest.raises(DeclinedError, match="outlives the call"):
        local_parameter_to_tensor.edit(place_in("p = Parameter(x)\n", "GD115", 1))


def test_it_becomes_a_tensor(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = x * nn.Parameter(torch.ones(8))",
        "y = x * nn.Parameter(data=torch.ones(8))",
        "y = torch.add(x, Parameter(x))",
        "y = x * Parameter(x + 1, requires_grad=True)",
        "p: object = Parameter(x[0])  # one",
    ]
    assert outcomes(lambda line: edit(line).content.decode(), cases) == snapshot


def test_torchs_columns_tell_which_parameter_is_meant() -> None:
    assert "y = Parameter(x) + x.detach()\n" in edit("y = Parameter(x) + Parameter(x)", (24, 36)).content.decode()


def test_newlines_and_tabs_stay() -> None:
    place = place_in("import torch\r\ndef f(x):\r\n\treturn x * Parameter(x)\r\n", "GD115", 3)
    assert local_parameter_to_tensor.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\treturn x * x.detach()\r\n"
    )
