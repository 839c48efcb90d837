"""A filter for images whose loop prints once: nothing is compiled, and compiled it is several times
faster.

Each step is dozens of small operations on the whole image, which inductor fuses into a few kernels.
One ``print`` in the loop makes torch give up the whole ``forward``.

graphdoctor finds:
    calls=1 compiles=0 graphs=0 break_sites=1 break_records=1 skipped_frames=1
    recompiles=0 frames_over_limit=0 coverage=0.00
    GD101 line 34
    GD111 line 34
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Denoiser(nn.Module):
    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.linspace(0.05, 0.2, steps))
        self.edge = nn.Parameter(torch.tensor(0.3))

    def forward(self, image: Tensor) -> Tensor:
        for step, rate in enumerate(self.rates):
            total = torch.zeros_like(image)
            for shift, dim in ((1, -1), (-1, -1), (1, -2), (-1, -2)):
                difference = torch.roll(image, shift, dim) - image
                total = total + difference * torch.exp(-((difference / self.edge) ** 2))
            image = torch.clamp(image + rate * total, 0.0, 1.0)
            if step == 2:
                print("halfway after step", step)
        return image


def example_inputs() -> tuple[Tensor]:
    return (torch.rand(1, 3, 64, 64),)


if __name__ == "__main__":
    torch.compile(Denoiser(), backend="eager")(*example_inputs())
