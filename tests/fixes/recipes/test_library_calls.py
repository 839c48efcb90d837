"""What the recipes of ``library_calls`` leave alone, and how they write what they edit."""

from __future__ import annotations

import runpy

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.library_calls import bincount_to_scatter, numpy_to_torch, one_hot_classes, sort_in_graph
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

# numpy-to-torch


HEAD_OF_NUMPY_TO_TORCH = "import numpy as np\nimport torch\n\n\n"


def edit_numpy_to_torch(call: str, body: str = "def forward(v, t):\n    return {}\n") -> Edit:
    """The edit of a call of NumPy within a function."""
    text = HEAD_OF_NUMPY_TO_TORCH + body.format(call)
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
    assert outcomes(edit_numpy_to_torch, cases) == snapshot


def test_what_is_no_call_of_numpy_is_left() -> None:
    text = "from mine import np\ndef f(v):\n    return np.interp(v, v, v)\n"
    with pytest.raises(DeclinedError, match="torch doesn't point to a call to a NumPy function"):
        numpy_to_torch.edit(place_in(text, "GD109", 3, (12, 30)))


def test_known_functions_are_translated(snapshot: SnapshotAssertion) -> None:
    def result(call: str) -> object:
        found = edit_numpy_to_torch(call)
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
    first = edit_numpy_to_torch(
        "np.interp(v, t, t)", "# Kept.\nclass A:\n    def f(self, v, t): return {}\n"
    ).content.decode()
    assert first.index("def _interp(") < first.index("# Kept.\nclass A:") < first.index("return _interp(v, t, t)")
    again = first + "\n\ndef g(v, t):\n    return np.interp(v, t, t)\n"
    line = len(again.splitlines())
    second = numpy_to_torch.edit(place_in(again, "GD109", line, (12, 30))).content.decode()
    assert second == again.replace("np.interp(v, t, t)", "_interp(v, t, t)")


def test_a_taken_name_is_not_hidden() -> None:
    with pytest.raises(DeclinedError, match="the name `_interp` is already used"):
        edit_numpy_to_torch("np.interp(v, t, t)", "_interp = 1\ndef f(v, t):\n    return {}\n")


@for_each("body", ["def f(v, t):\n\tdef g():\n\t\treturn {}\t# why\n\treturn g()\n", "f = lambda v, t: {}\n"])
def test_tabs_crlf_lambdas_and_nested_functions(body: str) -> None:
    text = (HEAD_OF_NUMPY_TO_TORCH + body.format("np.interp(v, t, t)")).replace("\n", "\r\n")
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "np." in found)
    edited = numpy_to_torch.edit(place_in(text, "GD109", line)).content.decode()
    assert edited.count("\n") == edited.count("\r\n")
    assert "\t# why\r\n" in edited or "lambda v, t: _interp(v, t, t)\r\n" in edited
    compile(edited, "model.py", "exec")


def test_without_columns_the_only_call_of_the_line_is_meant() -> None:
    text = HEAD_OF_NUMPY_TO_TORCH + "def f(v):\n    return np.nanmean(v) + np.nansum(v)\n"
    with pytest.raises(DeclinedError, match="several such expressions"):
        numpy_to_torch.edit(place_in(text, "GD109", 6))


@pytest.mark.slow
def test_interpolation_is_numpys(tmp_path) -> None:
    import numpy as np

    path = tmp_path / "model.py"
    path.write_bytes(edit_numpy_to_torch("np.interp(v, t, t)").content)
    interp = runpy.run_path(str(path))["_interp"]
    generator = np.random.default_rng(0)
    for size in (2, 9):
        xp, fp = np.sort(generator.normal(size=size)), generator.normal(size=size)
        x = np.concatenate([generator.normal(size=(40,)) * 2, xp, [np.nan, np.inf, -np.inf]])
        np.testing.assert_allclose(interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-12)
    x = generator.normal(size=(3, 4)).astype(np.float32)
    steps = [0, 0, 1], [1, 2, 3]
    np.testing.assert_array_equal(interp(x, *steps), np.interp(x, *steps))


# one-hot-classes


HEAD_OF_ONE_HOT_CLASSES = "import torch.nn.functional as F\nfrom torch import nn\n"


def edit_one_hot_classes(text: str) -> Edit:
    """The edit of the line that calls ``one_hot``."""
    text = HEAD_OF_ONE_HOT_CLASSES + text
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "one_hot" in found)
    return one_hot_classes.edit(place_in(text, "GD104", line))


def in_class(init: str, call: str = "F.one_hot(labels)", parameters: str = "self, labels") -> str:
    return (
        f"class Net(nn.Module):\n    def __init__(self, num_classes):\n        {init}\n"
        f"    def forward({parameters}):\n        return {call}\n"
    )


def test_without_one_number_of_classes_the_call_is_left(snapshot: SnapshotAssertion) -> None:
    cases = [
        "def forward(labels):\n    return F.one_hot(labels)\n",
        in_class("self.size = num_classes"),
        in_class("self.classes = ['cat', 'dog']"),
        in_class("self.num_classes = None"),
        in_class("self.num_classes = num_classes; self.num_labels = 2"),
        in_class("self.num_classes = num_classes", parameters="self, labels, num_classes"),
        in_class("self.num_classes = num_classes", parameters="labels"),
        in_class("self.num_classes = 2", "F.one_hot(labels, 3)"),
        in_class("self.num_classes = 2", "F.one_hot(labels, num_classes=n)"),
        in_class("self.num_classes = 2", "F.one_hot(*labels)"),
        "def forward(labels):\n    y = F.one_hot(labels)\n    num_classes = 3\n    return y\n",
        "def forward(labels, num_classes=None):\n    return F.one_hot(labels)\n",
        "from mine import num_classes\ndef f(x):\n    return F.one_hot(x)\n",
        "def f(num_classes):\n    return F.one_hot(num_classes)\n",
        "def f(x, num_classes):\n    return x.one_hot(x)\n",
        "def f(x, num_classes):\n    return F.one_hot(x) + F.one_hot(x + 1)\n",
    ]
    assert outcomes(edit_one_hot_classes, cases) == snapshot


def test_the_only_number_of_classes_is_passed(snapshot: SnapshotAssertion) -> None:
    def result(text: str) -> object:
        found = edit_one_hot_classes(text)
        return found.content.decode()

    cases = [
        "def f(x, num_classes):\n    return F.one_hot(x)\n",
        "def f(x, num_classes):\n    return F.one_hot(x, )\n",
        "def f(x, num_classes):\n    return F.one_hot(tensor=x)\n",
        "def f(x, num_classes):\n    F.one_hot(\n        x  # a\n    )\n",
        "def f(x, num_classes):\n    F.one_hot(\n        x)\n",
        "def f(x, n_classes):\n    return F.one_hot(x, - 1)\n",
        "f = lambda x, num_classes: F.one_hot(x)\n",
        "def f(x, num_classes):\n    def g(): return F.one_hot(x)\n",
        in_class("self.num_classes = num_classes"),
        "class A:\n    num_labels = 3\n    def f(self, x): return F.one_hot(x)\n",
        "def f(x):\r\n\tnum_classes = 3\r\n\ty = F.one_hot(x)\t# why\r\n",
    ]
    assert outcomes(result, cases) == snapshot


def test_of_several_calls_on_a_line_the_one_that_torch_points_to_is_meant() -> None:
    text = HEAD_OF_ONE_HOT_CLASSES + "def f(x, num_classes):\n    return F.one_hot(x) + F.one_hot(x + 1)\n"
    edited = one_hot_classes.edit(place_in(text, "GD104", 4, (27, 43))).content.decode()
    assert "F.one_hot(x) + F.one_hot(x + 1, num_classes=num_classes)" in edited


# bincount-to-scatter


def edited(line: str) -> str:
    text = f"import torch\n\n\ndef f(x, w, n):\n    {line}\n"
    return bincount_to_scatter.edit(place_in(text, "GD104", 5)).content.decode().partition("n):\n")[2]


def test_it_counts_into_as_many_places(snapshot: SnapshotAssertion) -> None:
    cases = [
        "return torch.bincount(x, minlength=n)",
        "return x.bincount(w, n)",
        "return x.bincount(None, n)",
        "return torch.bincount(x + 1, minlength=n + 1)",
    ]
    assert outcomes(edited, cases) == snapshot


def test_bincount_to_scatter_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "return x.sum()",
        "return torch.bincount(x)",
        "return torch.bincount(x, **w)",
        "return torch.bincount(x, w, n, out=w)",
        "return torch.bincount(x, w + 1, n)",
        "x = 1; y = torch.bincount(x + 1, minlength=n)",
        "if torch.bincount(x + 1, minlength=n).any(): pass",
    ]
    assert outcomes(edited, cases) == snapshot


# sort-in-graph


def edit_sort_in_graph(line: str, columns: tuple[int, int] | None = None) -> Edit:
    return sort_in_graph.edit(place_in(f"import torch\n{line}\n", "GD123", 2, columns))


def test_sort_in_graph_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = max(x)",
        "y = sorted(x) + sorted(z)",
        "model.parts.sort()",
        "if sorted(x): pass",
        "y = sorted()",
        "y = sorted(*x)",
        "y = sorted(x.values())",
        "y = sorted(a for a in x)",
        "y = sorted([])",
        "y = sorted(x, key=abs)",
        "y = sorted(x, **options)",
        "x.sort(key=abs)",
        "y = x.sort()",
    ]
    assert outcomes(edit_sort_in_graph, cases) == snapshot


def test_it_sorts_in_the_graph(snapshot: SnapshotAssertion) -> None:
    def result(line: str) -> object:
        columns = (1, line.index(";") + 1) if ";" in line else None
        return edit_sort_in_graph(line, columns).content.decode()

    cases = [
        "low, high = sorted((a, b))",
        "low = sorted([a, b])[0]  # the first",
        "low = sorted([a, b])[:1]",
        "y = sorted([i.sum() for i in x])",
        "y = sorted(x, reverse=flag)",
        "x.sort(reverse=True); y = x",
    ]
    assert outcomes(result, cases) == snapshot


def test_torchs_columns_tell_which_sort_is_meant() -> None:
    result = edit_sort_in_graph("y = sorted(x) + sorted(z)", (17, 26)).content.decode()
    assert result == "import torch\ny = sorted(x) + list(torch.stack(z).sort().values)\n"


def test_newlines_and_tabs_stay_and_torch_is_imported() -> None:
    place = place_in("def f(x):\r\n\ta, b = sorted(x)\r\n\treturn a\r\n", "GD123", 2)
    assert sort_in_graph.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\ta, b = torch.stack(x).sort().values\r\n\treturn a\r\n"
    )
