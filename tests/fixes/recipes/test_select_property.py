"""select on programs made by chance: what it writes computes the same, and declining raises
nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graphdoctor.fixes.moves.select import select
from graphdoctor.fixes.source.tree import DeclinedError
from tests.fixes.recipes.places import place_in

NAMES = st.sampled_from(["x", "y", "z"])
# No bare names: `a = x` followed by `a += 1` changes `x` too, which is why the move calls `+=`
# unsafe.
VALUES = st.one_of(
    st.builds("{} + {}".format, NAMES, NAMES),
    st.builds("({} - 2) * {}".format, NAMES, NAMES),
    st.builds("-{}.sin()".format, NAMES),
    st.builds("torch.where({} > 0, {}, 0.5)".format, NAMES, NAMES),
)
TESTS = st.recursive(
    st.one_of(
        st.builds("{}.sum() > 0".format, NAMES),
        st.builds("-1 < {}.mean() < {}.max()".format, NAMES, NAMES),
        st.builds("({} > 0).any()".format, NAMES),
        st.builds("{}.sum()".format, NAMES),
    ),
    lambda tests: st.one_of(
        st.builds("not {}".format, tests),
        st.builds("({} and {})".format, tests, tests),
        st.builds("({} or {})".format, tests, tests),
        st.builds("({})".format, tests),
    ),
    max_leaves=4,
)
STEPS = st.one_of(
    st.builds("{} = {}".format, NAMES, VALUES),
    st.builds("{} {} {}".format, NAMES, st.sampled_from(["+=", "*=", "-="]), VALUES),
    st.just("pass"),
)


@st.composite
def branches(draw: Any) -> str:
    """The lines of one ``if``, perhaps with more ways, perhaps all of them returning."""
    is_returning = draw(st.booleans())
    # The same names in the same order in each way, more often than chance would have it.
    targets = draw(st.one_of(st.none(), st.lists(NAMES, min_size=1, max_size=3)))
    heads = [f"if {draw(TESTS)}:"]
    heads += [f"elif {draw(TESTS)}:" for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        heads.append("else:")
    lines: list[str] = []
    for head in heads:
        if targets is None:
            steps = draw(st.lists(STEPS, min_size=1, max_size=4))
        else:
            steps = [f"{target} = {draw(VALUES)}" for target in targets]
        if draw(st.booleans()):
            # A name that this way alone uses, anywhere among its steps.
            local = f"own_{len(lines)}"
            at = draw(st.integers(0, len(steps)))
            steps.insert(at, f"{local} = {draw(VALUES)}")
            steps = [
                step.replace("-x.", f"{local} * x.") if number > at else step
                for number, step in enumerate(steps)
            ]
        if is_returning:
            steps.append(f"return {draw(VALUES)}")
        lines += [f"    {head}", *(f"        {step}" for step in steps)]
    return "\n".join(lines)


def _outcome(code: str, inputs: list[torch.Tensor]) -> Any:
    names: dict[str, Any] = {}
    exec(compile(code, "<program>", "exec"), names)
    # A factor that is no leaf: programs change their arguments in place.
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    out = names["f"](*(leaf * 1 for leaf in leaves))
    return out, torch.autograd.grad(out.sum(), leaves, allow_unused=True, materialize_grads=True)


@pytest.mark.nightly
@settings(
    max_examples=200,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(
    text=branches(),
    before=st.lists(STEPS, max_size=2),
    returned=st.lists(NAMES, min_size=1, max_size=3),
)
def test_what_is_written_computes_the_same(text, before, returned):
    lines = ["import torch", "def f(x, y, z):", *(f"    {step}" for step in before)]
    code = "\n".join([*lines, text, f"    return {' - '.join(returned)}"]) + "\n"
    try:
        edit = select.edit(place_in(code, "GD102", len(lines) + 1))
    except DeclinedError:
        assume(False)
        return
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        inputs = [torch.randn(3, generator=generator, dtype=torch.float64) for _ in range(3)]
        try:
            expected = _outcome(code, inputs)
        except RuntimeError:
            continue  # `+=` changed what a gradient needs: there is no result to keep
        try:
            outcome = _outcome(edit.content.decode(), inputs)
        except RuntimeError as error:
            # The way not taken needs it too, now that both are computed; such an edit is not called
            # safe.
            assert "modified by an inplace operation" in str(error)
            assert not edit.is_safe
            continue
        torch.testing.assert_close(outcome, expected, msg=edit.content.decode())
