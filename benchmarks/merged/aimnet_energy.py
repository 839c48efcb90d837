"""AIMNet2 with small random weights, on two molecules as flat atoms with a neighbor list (mode
1).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from aimnet.config import build_module
from torch import Tensor, nn

_MLP = {"activation_fn": "torch.nn.GELU", "last_linear": True, "hidden": [16]}
_CONFIG = {
    "class": "aimnet.models.AIMNet2",
    "kwargs": {
        "nfeature": 4,
        "d2features": True,
        "ncomb_v": 3,
        "hidden": [[16, 12], [16, 12], [16, 12, 12]],
        "aim_size": 8,
        "aev": {"rc_s": 5.0, "nshifts_s": 4},
        "outputs": {
            "energy_mlp": {
                "class": "aimnet.modules.Output",
                "kwargs": {
                    "n_in": 8,
                    "n_out": 1,
                    "key_in": "aim",
                    "key_out": "energy",
                    "mlp": _MLP,
                },
            },
            "atomic_sum": {
                "class": "aimnet.modules.AtomicSum",
                "kwargs": {"key_in": "energy", "key_out": "energy"},
            },
        },
    },
}


class Energy(nn.Module):
    """The energy of each molecule."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build_module(_CONFIG)

    def forward(
        self, coord: Tensor, numbers: Tensor, charge: Tensor, mol_idx: Tensor, nbmat: Tensor
    ) -> Tensor:
        """One value for each molecule."""
        data = {
            "coord": coord,
            "numbers": numbers,
            "charge": charge,
            "mol_idx": mol_idx,
            "nbmat": nbmat,
        }
        energy: Tensor = self.model(data)["energy"]
        return energy


def build() -> nn.Module:
    return Energy().eval()


def example_inputs() -> Iterator[tuple[Tensor, ...]]:
    for sizes in ((4, 3), (2, 5)):
        generator = torch.Generator().manual_seed(sizes[0])
        count = sum(sizes)
        mol_idx = torch.tensor([0] * sizes[0] + [1] * sizes[1] + [1])
        numbers = torch.randint(1, 9, (count + 1,), generator=generator)
        numbers[-1] = 0
        nbmat = torch.full((count + 1, 6), count)
        for i in range(count):
            others = [j for j in range(count) if j != i and mol_idx[j] == mol_idx[i]]
            nbmat[i, : len(others)] = torch.tensor(others)
        coord = 2 * torch.rand(count + 1, 3, generator=generator)
        yield coord, numbers, torch.zeros(2), mol_idx, nbmat
