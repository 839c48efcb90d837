"""What numpy-to-torch leaves alone, and how it writes what it translates."""

from __future__ import annotations

import runpy

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import numpy_to_torch
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "import numpy as np\nimport torch\n\n\n"


def edit(call: str, body: str = "def forward(v, t):\n    return {}\n") -> Edit:
    """The edit of a call of NumPy within a function."""
    text = HEAD + body.format(call)
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "np." in found)
    column = text.splitlines()[line - 1].index("np.") + 1
    end = None if "\n" in call else column + len(call)
    return numpy_to_torch.edit(place_in(text, "GD109", line, (column, end)))


def test_unknown_functions_and_arguments_are_left(snapshot: SnapshotAssertion) -> None:
    cases = [
        "np.unwrap(v)",
        "np.maximum.accumulate(v)",
        "np.cov(v)",
        "np.interp(v, t, t, 0.0)",
        "np.interp(v, t, t, period=1)",
        "np.interp(v, t)",
        "np.interp(*v)",
        "np.interp(0.5, t, t)",
        "np.digitize(v, t, True)",
        "np.nanmean(v, 0, None)",
        "np.nanmean(v, keepdims=True)",
        "np.nanmean(axis=0)",
        "np.nanmax(v, where=t)",
        "np.nanmedian(v, axis=(0, 1))",
        "np.nanquantile(v, t)",
        "np.trapezoid(v, t, 2.0)",
        "np.select(t, [v])",
        "np.select([*t], [v])",
        "np.select([t], [v, v])",
        "np.nanmean(  # why\n        v)",
    ]
    assert outcomes(edit, cases) == snapshot


def test_what_is_no_call_of_numpy_is_left() -> None:
    text = "from mine import np\ndef f(v):\n    return np.interp(v, v, v)\n"
    with pytest.raises(DeclinedError, match="torch doesn't point to a call to a NumPy function"):
        numpy_to_torch.edit(place_in(text, "GD109", 3, (12, 30)))


def test_known_functions_are_translated(snapshot: SnapshotAssertion) -> None:
    def result(call: str) -> object:
        found = edit(call)
        return found.content.decode()

    cases = [
        "np.digitize(bins=t, x=v)",
        "np.nanmax(v)",
        "np.nanmin(v, 1)",
        "np.nanmean(v, axis=None)",
        "np.nansum(t.numpy(), (0, 1))",
        "np.nanmedian(v)",
        "np.nanquantile(v, 0.25, axis=1)",
        "np.trapz(v, t)",
        "np.isin(v, [1, 2])",
        "np.ediff1d(v)",
        "np.select([v > 1], [v], default=-1)",
    ]
    assert outcomes(result, cases) == snapshot


def test_one_array_function_is_put_above_what_calls_it_and_used_again() -> None:
    first = edit("np.interp(v, t, t)", "# Kept.\nclass A:\n    def f(self, v, t): return {}\n").content.decode()
    assert first.index("def _interp(") < first.index("# Kept.\nclass A:") < first.index("return _interp(v, t, t)")
    again = first + "\n\ndef g(v, t):\n    return np.interp(v, t, t)\n"
    line = len(again.splitlines())
    second = numpy_to_torch.edit(place_in(again, "GD109", line, (12, 30))).content.decode()
    assert second == again.replace("np.interp(v, t, t)", "_interp(v, t, t)")


def test_a_taken_name_is_not_hidden() -> None:
    with pytest.raises(DeclinedError, match="the name `_interp` is already used"):
        edit("np.interp(v, t, t)", "_interp = 1\ndef f(v, t):\n    return {}\n")


@for_each("body", ["def f(v, t):\n\tdef g():\n\t\treturn {}\t# why\n\treturn g()\n", "f = lambda v, t: {}\n"])
def test_tabs_crlf_lambdas_and_nested_functions(body: str) -> None:
    text = (HEAD + body.format("np.interp(v, t, t)")).replace("\n", "\r\n")
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "np." in found)
    edited = numpy_to_torch.edit(place_in(text, "GD109", line)).content.decode()
    assert edited.count("\n") == edited.count("\r\n")
    assert "\t# why\r\n" in edited or "lambda v, t: _interp(v, t, t)\r\n" in edited
    compile(edited, "model.py", "exec")


def test_without_columns_the_only_call_of_the_line_is_meant() -> None:
    text = HEAD + "def f(v):\n    return np.nanmean(v) + np.nansum(v)\n"
    with pytest.raises(DeclinedError, match="several such expressions"):
        numpy_to_torch.edit(place_in(text, "GD109", 6))


@pytest.mark.slow
def test_interpolation_is_numpys(tmp_path) -> None:
    import numpy as np

    path = tmp_path / "model.py"
    path.write_bytes(edit("np.interp(v, t, t)").content)
    interp = runpy.run_path(str(path))["_interp"]
    generator = np.random.default_rng(0)
    for size in (2, 9):
        xp, fp = np.sort(generator.normal(size=size)), generator.normal(size=size)
        x = np.concatenate([generator.normal(size=(40,)) * 2, xp, [np.nan, np.inf, -np.inf]])
        np.testing.assert_allclose(interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-12)
    x = generator.normal(size=(3, 4)).astype(np.float32)
    steps = [0, 0, 1], [1, 2, 3]
    np.testing.assert_array_equal(interp(x, *steps), np.interp(x, *steps))
