"""What mask-without-indexing leaves alone, and how it writes what it edits."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.masks import mask_without_indexing
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "import torch\n\ndef forward(self, x, y, m):\n"
NEEDED = "the selected values are used directly"
PLACES = "the indices where the mask is true are used directly"


def edit(body: str) -> Edit:
    """The edit of the selection that a body has between two marks."""
    line = next(number for number, text in enumerate(body.splitlines(), 4) if "«" in text)
    text = body.splitlines()[line - 4]
    columns = (text.index("«") + 1, text.index("»") if "»" in text else None)
    return mask_without_indexing.edit(place_in(HEAD + body.replace("«", "").replace("»", ""), "GD104", line, columns))


def written(body: str) -> str:
    return edit(body).content.decode().removeprefix(HEAD)


def test_selected_values_that_are_needed_are_left(snapshot: SnapshotAssertion) -> None:
    cases = [
        "    return «x[m]»\n",
        "    return torch.cat([«x[m]», y])\n",
        "    return «x[m]».sqrt().sum()\n",
        "    return (1 / «x[m]»).sum()\n",
        "    return («x[m]» * y).sum()\n",
        "    return («x[m]» - y[y > 0]).sum()\n",
        "    return («x[m]» ** 0.5).sum()\n",
        "    return self.sum(«x[m]»)\n",
        "    return «x[m]».numel() * y\n",
        "    return f(«x[m]», y[m]).mean()\n",
        "    return «x[m]».sum(1)\n",
        "    return «x[m]».sum(0, True)\n",
        "    return «x[m]».max(0)\n",
        "    return «x[self.mask(x)]».mean()\n",
        "    x[m] = y\n    y = «x[m]».clamp(0)\n",
        "    y[m] = «x[m]».sqrt()\n",
        "    y[m] = «x[m]» / y[m]\n",
        "    «y[m]» += x\n",
        "    «y[m]» /= x[m]\n",
        "    «y[m]» **= 2\n",
        "    self.f()[m] = «x[m]»\n",
        "    y[self.mask(x)] = «x[self.mask(x)]»\n",
        "    y[m], a = «x[m]», 1\n",
        "    n = «torch.nonzero(m)»\n    return x * n.shape[0]\n",
        "    n = «m.nonzero(as_tuple=False)»\n    return x[n].sum(0)\n",
        "    n = len(«m.nonzero()»)\n    return x * n\n",
        "    n = «m.nonzero()».squeeze(-1)\n    return x[n]\n",
        "    n = «m.nonzero()».squeeze(-1)\n    return n\n",
        "    n = «m.nonzero()».squeeze(-1)\n    return x[:, n].sum(0)\n",
        "    n = «m.nonzero()».squeeze(-1)\n    return x[n].sum()\n",
        "    n = «m.nonzero()».squeeze(-1)\n    n = n + 1\n    return x[n].sum(0)\n",
        "    a, b = «torch.where(m)»\n    return x[a, b].sum()\n",
        "    self.rows = «m.nonzero()».squeeze(-1)\n",
        "    return «torch.where(m, x, y)»\n",
        "    return «x[0]».sum()\n",
        "    return «x.unique()»\n",
        "    return «x[  # why\n        m\n    ].sum()\n",
    ]
    assert outcomes(edit, cases) == snapshot


def test_torch_where_picks(snapshot: SnapshotAssertion) -> None:
    cases = [
        "    return «x[m]».sum()\n",
        "    return torch.sum(«x[m]»)\n",
        "    return «x[m]».min() * 2\n",
        "    return «x[m]».mean() * 2\n",
        "    return f(«x[m]».mean())\n",
        "    return «x[x > 0]».sum(0)\n",
        "    return «x[~m & (x > 0)]».abs().sum()\n",
        "    return -(«x[m]» - 2 * y[m]).square().sum()\n",
        "    return torch.sum(torch.abs(«x[m]»))\n",
        "    return «x.masked_select(m)».sum()\n",
        "    return «x[m]».sum() + y[m].sum()  # two\n",
        "    f = lambda v: «v[m]».sum()\n    return f(x)\n",
        "    y[m] = «x[m]»\n",
        "    «y[m]» -= 0.5 ; a = 1  # two\n",
        "    «self.seen[m]» += x[m]\n",
        "    z = x + y\n    «z[m]» *= 2\n    return z\n",
        "    z = x + y\n    w = z\n    «z[m]» *= 2\n    return w\n",
        "    z = self.relu(x)\n    «z[m]» *= 2\n    return z\n",
        "    z = x + y\n    w = z.view(-1)\n    «z[m]» *= 2\n    return w\n",
        "    n = «torch.nonzero(m > 0)».flatten()\n    return x[n].sum(dim=0)\n",
        "    n = «torch.nonzero(m, as_tuple=True)»\n    x[n] = 0\n    return x\n",
        "    def inner():\n        n = «torch.where(m)»[0]\n        return x[n].mean(0)\n    return inner()\n",
    ]
    assert outcomes(written, cases) == snapshot


def test_a_comment_within_the_selection_is_not_lost() -> None:
    text = HEAD + "    return (x[m]  # why\n        .sum())\n"
    with pytest.raises(DeclinedError, match="a comment inside it would be lost"):
        mask_without_indexing.edit(place_in(text, "GD104", 4, (13, 17)))


def test_a_mask_over_several_lines_stays_within_brackets() -> None:
    text = HEAD + "    n = torch.nonzero(\n        m\n        > 0\n    ).squeeze(-1)\n    return x[n].sum(0)\n"
    edited = mask_without_indexing.edit(place_in(text, "GD104", 4, (9, None))).content.decode()
    compile(edited, "model.py", "exec")


def test_without_columns_the_only_selection_of_the_line_is_meant() -> None:
    assert (
        b"torch.where(m, x, 0).sum()"
        in mask_without_indexing.edit(place_in(HEAD + "    return x[m].sum()\n", "GD104", 4)).content
    )
    with pytest.raises(DeclinedError, match="several such expressions"):
        mask_without_indexing.edit(place_in(HEAD + "    return x[m].sum() + y[m].sum()\n", "GD104", 4))


@for_each(
    "body, is_safe",
    [
        ("    «y[y > 0]» *= 2\n", True),
        ("    «y[m]» *= 2\n", False),
        ("    «y[x > 0]» *= 2\n", False),
        ("    «y[y > 0]» *= x[y > 0]\n", False),
        ("    y[y > 0] = «x[y > 0]»\n", False),
        ("    return «y[y > 0]».sum()\n", False),
    ],
)
def test_only_a_number_where_the_tensor_itself_says_is_safe(body: str, is_safe: bool) -> None:
    assert edit(body).is_safe is is_safe
