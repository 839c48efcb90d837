"""Checks for an empty selection that drop-empty-check leaves alone, and what it writes for the others."""

from __future__ import annotations

import textwrap

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import drop_empty_check
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in


def program(body: str) -> str:
    return (
        "import torch\n\n\ndef f(x, out, mask, experts, route):\n"
        + textwrap.indent(textwrap.dedent(body).strip(), "    ")
        + "\n"
    )


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith(("if", "elif")))
    return drop_empty_check.edit(place_in(text, "GD102", line))


EXPERTS = """
for i, expert in enumerate(experts):
    rows, slot = torch.where(route == i)
    if TEST:
        continue
    out[rows] += expert(x[rows])
"""

OTHER = "the lines after the check do more than change what it selects"


@for_each(
    "test",
    [
        "rows.numel() == 0",
        "len(rows) == 0",
        "not len(rows)",
        "rows.shape[0] == 0",
        "rows.size(0) < 1",
        "not rows.numel()",
        "slot.nelement() <= 0",
        "not (rows.shape[0] > 0)",
    ],
)
def test_an_expert_without_tokens_writes_nothing(test: str) -> None:
    before = program(EXPERTS.replace("TEST", test))
    after = edit(before).content.decode()
    assert after == before.replace(f"        if {test}:\n            continue\n", "")


@for_each(
    "test, line",
    [
        ("mask.any()", "out[mask] = x[mask] * 2"),
        ("mask.sum() > 0", "out = out.masked_fill(mask, 0.0)"),
        ("torch.any(mask)", "out.masked_fill_(mask, 0.0)"),
        ("mask.any().item()", "out[:, mask] = 1"),
        ("bool(mask.any())", "out.index_put_((mask,), x)"),
        ("(x > 0).any()", "out[x > 0] = 1"),
        ("int(mask.sum()) >= 1", "out[mask] += 1"),
        ("mask.any()", "part = x[mask]; out[mask] = part * 2"),
    ],
)
def test_lines_that_change_only_what_a_mask_selects_stay(test: str, line: str) -> None:
    after = edit(program(f"if {test}:\n    {line}\nreturn out")).content.decode()
    assert after == program(f"{line}\nreturn out")


def test_selected_rows_belong_to_their_mask() -> None:
    text = "part = x[mask]\nif len(part) > 0:\n    out[mask] = part * 2\nreturn out"
    assert edit(program(text)).content.decode() == program("part = x[mask]\nout[mask] = part * 2\nreturn out")


def test_comments_stay_with_their_lines() -> None:
    text = "# Any?\nif mask.any():\n    # All.\n    out[mask] = 1  # one\nreturn out"
    assert edit(program(text)).content.decode() == program("# Any?\n# All.\nout[mask] = 1  # one\nreturn out")


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if mask.any():\n    out = out + 1\nreturn out",
        "if mask.any():\n    out[0] = 1\nreturn out",
        "if mask.any():\n    print(out)\n    out[mask] = 1\nreturn out",
        "if mask.any():\n    y = x[mask]\n    out[mask] = y\nreturn out, y",
        "if mask.any():\n    y = x[mask]\nreturn out",
        "if mask.any():\n    self.last[mask], y = x, x\nreturn y",
        "if mask.any():\n    for i in x:\n        out[mask] = i\nreturn out",
        "if mask.any():\n    out[mask] = 1\nelse:\n    out = x\nreturn out",
        "if mask.all():\n    out[mask] = 1\nreturn out",
        "if mask.sum() > 3:\n    out[mask] = 1\nreturn out",
        "if mask.any(0)[0]:\n    out[mask] = 1\nreturn out",
        "if x.shape[1] == 0:\n    return out\nreturn x",
        "if not mask.any():\n    return out\nout[mask] = 1\nreturn out",
        "while out:\n    if not mask.any():\n        continue\n    out[mask] = 1",
        "for i in x:\n    if not mask.any():\n        continue\n    out += i",
        "for i in x:\n    if not mask.any():\n        # why\n        continue\n    out[mask] += i",
        "if mask.any():  # why\n    out[mask] = 1\nreturn out",
    ]
    assert outcomes(lambda text: edit(program(text)), cases) == snapshot
