"""GD116: a recurrent module."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.lines import called_name, in_context
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.diagnosis.suggestions import setting
from graphdoctor.model.diagnosis import Fix


class RecurrentModule(BreakRule):
    """A call of `torch.nn.RNN`, `GRU` or `LSTM`.

    ## What it finds
    A recurrent module called in code that torch.compile traces.

    ## Why it costs
    Dynamo does not trace them by default: it ends the graph, runs the module eagerly, and starts another graph.

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
    Unsafe: torch calls the support experimental, and it compiles for each sequence length.

    ## Source
    torch's own hints for GB0014; `torch/_dynamo/config.py`, 2.13 (`allow_rnn`).
    """

    code: ClassVar = "GD116"
    name: ClassVar = "recurrent-module"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0014"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        return super().matches(site) or "RNN, GRU, or LSTM" in f"{site.cause.gb_type} {site.cause.explanation}"

    def message(self, site: BreakSite) -> str:
        """Which module."""
        module = in_context(site, r"^(\w+)\(")
        name = module or called_name(site) or site.text
        return f"`{name}` is a recurrent module, which torch does not trace by default"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """The setting."""
        return (setting("allow_rnn", "Let torch trace recurrent modules", source="torch's hint for GB0014"),)
