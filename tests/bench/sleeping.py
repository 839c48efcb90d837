"""A program whose calls take a known time, however busy the machine is: 30 ms without torch.compile, 10 ms with it."""

import time

import torch

EAGER_MS, COMPILED_MS, LARGEST = 30, 10, 64


@torch.library.custom_op("bench_sleeping::wait", mutates_args=())
def wait(x: torch.Tensor, ms: int) -> torch.Tensor:
    """Sleep."""
    time.sleep(ms / 1000)
    return x.clone()


@wait.register_fake
def _(x: torch.Tensor, ms: int) -> torch.Tensor:
    return torch.empty_like(x)


wait.register_autograd(lambda _context, gradient: (gradient, None))


class Net(torch.nn.Module):
    """A layer, then a nap."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        if x.shape[0] > LARGEST:
            raise ValueError(f"at most {LARGEST} samples")
        return wait(self.layer(x), COMPILED_MS if torch.compiler.is_compiling() else EAGER_MS)


class Broken(Net):
    """The same, with a graph break."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        x = super().forward(x)
        torch._dynamo.graph_break()
        return x + 1


def example_inputs() -> tuple[torch.Tensor]:
    """One call."""
    return (torch.randn(8, 16),)
