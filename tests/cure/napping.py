"""Programs whose calls take a known time, however busy the machine is: compiled or not."""

import time

import torch


@torch.library.custom_op("cure_napping::wait", mutates_args=())
def wait(x: torch.Tensor, ms: int) -> torch.Tensor:
    """Sleep."""
    time.sleep(ms / 1000)
    return x.clone()


@wait.register_fake
def _(x: torch.Tensor, ms: int) -> torch.Tensor:
    return torch.empty_like(x)


wait.register_autograd(lambda _context, gradient: (gradient, None))


class Broken(torch.nn.Module):
    """30 ms, and 10 ms once torch compiles it: the branch in the loop makes torch skip the whole function."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        for _ in range(2):
            x = self.layer(x)
            if x.sum() > 100:
                x = x * 2
        return wait(x, 10 if torch.compiler.is_compiling() else 30)


class Slower(torch.nn.Module):
    """10 ms, and 30 ms once torch compiles it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        return wait(self.layer(x), 30 if torch.compiler.is_compiling() else 10)


def example_inputs() -> tuple[torch.Tensor]:
    """One call."""
    return (torch.randn(8, 16),)
