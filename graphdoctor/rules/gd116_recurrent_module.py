"""GD116: a recurrent module."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting


class RecurrentModule(BreakRule):
    """A call to a `torch.nn.RNN`, `GRU` or `LSTM` module.

    ## What it finds
    A call to a recurrent module in code that torch.compile traces.

    ## Why it costs
    By default, Dynamo doesn't trace recurrent modules. It ends the graph, runs the module eagerly,
    and starts a new graph.

    ## Example
    ```python
    import torch

    torch.manual_seed(0)
    rnn = torch.nn.GRU(8, 8, batch_first=True)

    def forward(x):
        return rnn(x.sin())[0].cos()

    def inputs():
        return (torch.randn(2, 4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    torch.manual_seed(0)
    rnn = torch.nn.GRU(8, 8, batch_first=True)

    CONFIG = {"torch._dynamo.config.allow_rnn": True}

    def forward(x):
        return rnn(x.sin())[0].cos()

    def inputs():
        return (torch.randn(2, 4, 8),)
    ```

    ## Fix safety
    Unsafe: the support is experimental, and torch compiles once for each sequence length.

    ## Source
    torch's own hints for GB0014; `torch/_dynamo/config.py`, 2.13 (`allow_rnn`).
    """

    torch_ids = ("GB0014",)
    topic = "recurrent_module"
    remedies = (
        setting(
            "allow_rnn",
            "Let torch trace recurrent modules",
            "torch's hint for GB0014",
            condition="if none is given a packed sequence",
        ),
    )

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or _is_packed(site)

    def message(self, site: BreakSite) -> str:
        if _is_packed(site):
            return f"`{site.named}` is given a packed sequence, whose sizes torch reads from a tensor into Python"
        name = site.in_context(r"^(\w+)\(") or site.called or site.text
        return f"`{name}` is a recurrent module, which torch doesn't trace by default"

    def suggested(self, site: BreakSite) -> Fixes:
        if not _is_packed(site):
            return super().suggested(site)
        padded = f"Give `{site.named}` a padded tensor, and mask what it computes of the padding"
        return (code_fix(padded), code_fix(f"Call `{site.named}` outside the compiled function"))


def _is_packed(site: BreakSite) -> bool:
    """Whether torch stopped in a module that it traces, at the sizes of a packed sequence."""
    is_read = site.cause.torch_id == "GB0033" or site.records[0].topic == "symbolic_number"
    return is_read and site.is_inside("/torch/nn/modules/rnn.py")
