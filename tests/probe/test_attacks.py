"""Attack inputs: what their code says is what is done, and each process makes the same ones."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.inputs import Arguments
from graphdoctor.probe.replay.results import tensors_in
from graphdoctor.probe.target.snapshot import FreshCopies

pytestmark = pytest.mark.slow


def forward(x, batch, mask=None, scale: float = 1.0): ...


def calls():
    torch.manual_seed(0)
    base = torch.randn(6, 4)
    return {
        "floats": ((base, torch.randn(6, requires_grad=True)), {}),
        "a dict with indices and a keyword": (
            (base, {"index": torch.tensor([3, 0, 5, 1, 2, 2]), "sizes": [torch.tensor(7)]}),
            {"mask": base > 0},
        ),
        "views that share memory": ((base.T, base[::2]), {}),
        "nothing that can be changed": (("text", None), {}),
        "empty and complex tensors": (
            (torch.empty(0, 3), torch.randn(2, dtype=torch.complex64)),
            {},
        ),
    }


def values(call):
    args, kwargs = call
    named = dict(zip(("x", "batch", "mask"), args, strict=False)) | kwargs
    return {name: tensor.detach() for name, tensor in tensors_in(named).items()}


def is_same(arguments, other):
    return arguments.keys() == other.keys() and all(
        arguments[name].shape == other[name].shape
        and torch.equal(arguments[name].nan_to_num(), other[name].nan_to_num())
        for name in arguments
    )


@pytest.mark.parametrize("name", calls())
def test_attack_code_makes_the_attacked_call(name):
    call = calls()[name]
    wrong = []
    for attack, again in zip(
        Arguments(call, forward).attacks(), Arguments(calls()[name], forward).attacks(), strict=True
    ):
        with attack.make(FreshCopies().call(call)) as made:
            pass
        args, kwargs = FreshCopies().call(call)
        names = {"torch": torch, **dict(zip(("x", "batch", "mask"), args, strict=False)), **kwargs}
        exec(attack.code, names)
        pasted = (
            tuple(names[place] for place in ("x", "batch", "mask")[: len(args)]),
            {place: names[place] for place in kwargs},
        )
        if not is_same(values(made), values(pasted)):
            wrong.append(attack.text)
        if (attack.text, attack.code) != (again.text, again.code):
            wrong.append(f"{attack.text}: another one in another process")
    assert wrong == []


def test_integers_stay_between_those_of_the_program_or_grow_with_the_samples():
    call = calls()["a dict with indices and a keyword"]
    for attack in Arguments(call, forward).attacks():
        with attack.make(FreshCopies().call(call)) as made:
            x, arguments = made[0]
            index = arguments.get("index", torch.tensor(0))
        bound = max(6, len(x)) if attack.text.startswith("the samples") else 6
        assert index.numel() == 0 or (index.min() >= 0 and index.max() < bound), attack.text


def test_most_important_comes_first_and_tensorless_calls_stay_unattacked():
    texts = [attack.text for attack in Arguments(calls()["floats"], forward).attacks()]
    assert texts[:3] == [
        "nothing is changed",
        "x and batch are all zero",
        "x and batch are NaN in one place",
    ]
    assert (
        texts.index("the batch is 1")
        < texts.index("x is all zero")
        < texts.index("values are random (seed 1)")
    )
    assert [
        attack.text
        for attack in Arguments(calls()["nothing that can be changed"], forward).attacks()
    ] == texts[:1]
