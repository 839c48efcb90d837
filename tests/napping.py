"""Programs whose calls take a known time, however busy the machine is, and another once torch
compiles them."""

import time

import torch

LONG_MS, SHORT_MS, LARGEST = 30, 10, 64


@torch.library.custom_op("napping::wait", mutates_args=())
def wait(x: torch.Tensor, ms: int) -> torch.Tensor:
    """Sleep."""
    time.sleep(ms / 1000)
    return x.clone()


@wait.register_fake
def _(x: torch.Tensor, ms: int) -> torch.Tensor:
    return torch.empty_like(x)


wait.register_autograd(lambda _context, gradient: (gradient, None))


class Faster(torch.nn.Module):
    """30 ms, and 10 ms once torch compiles it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        if x.shape[0] > LARGEST:
            raise ValueError(f"at most {LARGEST} samples")
        return wait(self.layer(x), SHORT_MS if torch.compiler.is_compiling() else LONG_MS)


class Broken(Faster):
    """The same, with a graph break."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        x = super().forward(x)
        torch._dynamo.graph_break()
        return x + 1


class Skipped(Faster):
    """The same, but the branch in the loop makes torch skip the whole function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        for _ in range(2):
            x = self.layer(x)
            if x.sum() > 100:
                x = x * 2
        return wait(x, SHORT_MS if torch.compiler.is_compiling() else LONG_MS)


class Slower(Faster):
    """10 ms, and 30 ms once torch compiles it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        return wait(self.layer(x), LONG_MS if torch.compiler.is_compiling() else SHORT_MS)


def example_inputs() -> tuple[torch.Tensor]:
    """One call."""
    return (torch.randn(8, 16),)
