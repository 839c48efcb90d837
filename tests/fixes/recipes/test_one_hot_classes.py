"""What one-hot-classes leaves alone, and how it writes the number."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import one_hot_classes
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "import torch.nn.functional as F\nfrom torch import nn\n"


def edit(text: str) -> Edit:
    """The edit of the line that calls ``one_hot``."""
    text = HEAD + text
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
    assert outcomes(edit, cases) == snapshot


def test_the_only_number_of_classes_is_passed(snapshot: SnapshotAssertion) -> None:
    def result(text: str) -> object:
        found = edit(text)
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
    text = HEAD + "def f(x, num_classes):\n    return F.one_hot(x) + F.one_hot(x + 1)\n"
    edited = one_hot_classes.edit(place_in(text, "GD104", 4, (27, 43))).content.decode()
    assert "F.one_hot(x) + F.one_hot(x + 1, num_classes=num_classes)" in edited
