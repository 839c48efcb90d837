"""What mask-without-indexing leaves alone, and how it writes what it edits."""

from __future__ import annotations

import pytest

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import mask_without_indexing
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

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


@for_each(
    "body, reason",
    [
        ("    return «x[m]»\n", NEEDED),
        ("    return torch.cat([«x[m]», y])\n", NEEDED),
        ("    return «x[m]».sqrt().sum()\n", NEEDED),
        ("    return (1 / «x[m]»).sum()\n", NEEDED),
        ("    return («x[m]» * y).sum()\n", NEEDED),
        ("    return («x[m]» - y[y > 0]).sum()\n", NEEDED),
        ("    return («x[m]» ** 0.5).sum()\n", NEEDED),
        ("    return self.sum(«x[m]»)\n", NEEDED),
        ("    return «x[m]».numel() * y\n", NEEDED),
        ("    return f(«x[m]», y[m]).mean()\n", NEEDED),
        ("    return «x[m]».sum(1)\n", "its arguments aren't supported"),
        ("    return «x[m]».sum(0, True)\n", "its arguments aren't supported"),
        ("    return «x[m]».max(0)\n", "`max` over rows also returns their indices"),
        ("    return «x[self.mask(x)]».mean()\n", "the mask would be computed twice"),
        ("    x[m] = y\n    y = «x[m]».clamp(0)\n", NEEDED),
        ("    y[m] = «x[m]».sqrt()\n", "the assigned values aren't selected by the same mask"),
        ("    y[m] = «x[m]» / y[m]\n", "the assigned values aren't selected by the same mask"),
        ("    «y[m]» += x\n", "the assigned values aren't selected by the same mask"),
        ("    «y[m]» /= x[m]\n", "it could divide by values that the mask leaves out"),
        ("    «y[m]» **= 2\n", "the operator isn't `+=`, `-=`, `*=` or `/=`"),
        ("    self.f()[m] = «x[m]»\n", "the tensor would be computed twice"),
        ("    y[self.mask(x)] = «x[self.mask(x)]»\n", "the mask would be computed twice"),
        ("    y[m], a = «x[m]», 1\n", NEEDED),
        ("    n = «torch.nonzero(m)»\n    return x * n.shape[0]\n", PLACES),
        ("    n = «m.nonzero(as_tuple=False)»\n    return x[n].sum(0)\n", PLACES),
        ("    n = len(«m.nonzero()»)\n    return x * n\n", PLACES),
        ("    n = «m.nonzero()».squeeze(-1)\n    return x[n]\n", NEEDED),
        ("    n = «m.nonzero()».squeeze(-1)\n    return n\n", PLACES),
        ("    n = «m.nonzero()».squeeze(-1)\n    return x[:, n].sum(0)\n", PLACES),
        (
            "    n = «m.nonzero()».squeeze(-1)\n    return x[n].sum()\n",
            "nothing shows that it selects rows of a matrix",
        ),
        (
            "    n = «m.nonzero()».squeeze(-1)\n    n = n + 1\n    return x[n].sum(0)\n",
            "the indices where the mask is true are assigned more than once",
        ),
        ("    a, b = «torch.where(m)»\n    return x[a, b].sum()\n", PLACES),
        ("    self.rows = «m.nonzero()».squeeze(-1)\n", PLACES),
        ("    return «torch.where(m, x, y)»\n", "torch doesn't point to a mask that selects values"),
        ("    return «x[0]».sum()\n", "torch doesn't point to a mask that selects values"),
        ("    return «x.unique()»\n", "torch doesn't point to a mask that selects values"),
        ("    return «x[  # why\n        m\n    ].sum()\n", "a comment inside it would be lost"),
    ],
)
def test_selected_values_that_are_needed_are_left(body: str, reason: str) -> None:
    assert reason_of(lambda: edit(body)) == reason


@for_each(
    "body, text",
    [
        ("    return «x[m]».sum()\n", "    return torch.where(m, x, 0).sum()\n"),
        ("    return torch.sum(«x[m]»)\n", "    return torch.where(m, x, 0).sum()\n"),
        ("    return «x[m]».min() * 2\n", "    return torch.where(m, x, torch.inf).min() * 2\n"),
        ("    return «x[m]».mean() * 2\n", "    return (torch.where(m, x, 0).sum() / m.sum()) * 2\n"),
        ("    return f(«x[m]».mean())\n", "    return f(torch.where(m, x, 0).sum() / m.sum())\n"),
        ("    return «x[x > 0]».sum(0)\n", "    return torch.where(x > 0, x, 0).sum()\n"),
        ("    return «x[~m & (x > 0)]».abs().sum()\n", "    return torch.where(~m & (x > 0), x.abs(), 0).sum()\n"),
        (
            "    return -(«x[m]» - 2 * y[m]).square().sum()\n",
            "    return -torch.where(m, (x - 2 * y).square(), 0).sum()\n",
        ),
        ("    return torch.sum(torch.abs(«x[m]»))\n", "    return torch.where(m, torch.abs(x), 0).sum()\n"),
        ("    return «x.masked_select(m)».sum()\n", "    return torch.where(m, x, 0).sum()\n"),
        (
            "    return «x[m]».sum() + y[m].sum()  # two\n",
            "    return torch.where(m, x, 0).sum() + y[m].sum()  # two\n",
        ),
        (
            "    f = lambda v: «v[m]».sum()\n    return f(x)\n",
            "    f = lambda v: torch.where(m, v, 0).sum()\n    return f(x)\n",
        ),
        ("    y[m] = «x[m]»\n", "    y.copy_(torch.where(m, x, y))\n"),
        ("    «y[m]» -= 0.5 ; a = 1  # two\n", "    y.copy_(torch.where(m, y - 0.5, y)) ; a = 1  # two\n"),
        ("    «self.seen[m]» += x[m]\n", "    self.seen.copy_(torch.where(m, self.seen + x, self.seen))\n"),
        (
            "    z = x + y\n    «z[m]» *= 2\n    return z\n",
            "    z = x + y\n    z = torch.where(m, z * 2, z)\n    return z\n",
        ),
        (
            "    z = x + y\n    w = z\n    «z[m]» *= 2\n    return w\n",
            "    z = x + y\n    w = z\n    z.copy_(torch.where(m, z * 2, z))\n    return w\n",
        ),
        (
            "    z = self.relu(x)\n    «z[m]» *= 2\n    return z\n",
            "    z = self.relu(x)\n    z.copy_(torch.where(m, z * 2, z))\n    return z\n",
        ),
        (
            "    z = x + y\n    w = z.view(-1)\n    «z[m]» *= 2\n    return w\n",
            "    z = x + y\n    w = z.view(-1)\n    z.copy_(torch.where(m, z * 2, z))\n    return w\n",
        ),
        (
            "    n = «torch.nonzero(m > 0)».flatten()\n    return x[n].sum(dim=0)\n",
            "    n = m > 0\n    return torch.where(n.unsqueeze(-1), x, 0).sum(dim=0)\n",
        ),
        (
            "    n = «torch.nonzero(m, as_tuple=True)»\n    x[n] = 0\n    return x\n",
            "    n = m.bool()\n    x[n] = 0\n    return x\n",
        ),
        (
            "    def inner():\n        n = «torch.where(m)»[0]\n        return x[n].mean(0)\n    return inner()\n",
            "    def inner():\n        n = m.bool()\n"
            "        return torch.where(n.unsqueeze(-1), x, 0).sum(0) / n.sum()\n    return inner()\n",
        ),
    ],
)
def test_torch_where_picks(body: str, text: str) -> None:
    assert written(body) == text


def test_tabs_and_crlf_stay() -> None:
    text = "import torch\r\ndef forward(x, m):\r\n\ty = x[m].sum()\t# why\r\n\treturn y\r\n"
    edited = mask_without_indexing.edit(place_in(text, "GD104", 3, (6, 10))).content
    assert edited == b"import torch\r\ndef forward(x, m):\r\n\ty = torch.where(m, x, 0).sum()\t# why\r\n\treturn y\r\n"


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
