"""GD600: torch.export raised, for a reason without a rule of its own."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix


class ExportError(BreakRule, severity="error"):
    """torch.export raised an error.

    ## What it finds
    An error that `torch.export` raises on a line that works in eager mode, and that no other rule
    describes. The message is torch's own. Only `graphdoctor export` finds it.

    ## Why it costs
    There is no exported program. In non-strict mode, Python runs the code with tensors that have no
    values (`FakeTensor`), so whatever leaves torch, such as `tensor.numpy()`, has nothing to work
    with.

    ## Example
    ```python
    import numpy
    import torch

    def forward(x):
        return x + torch.from_numpy(numpy.sin(x.numpy()))

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return x + torch.sin(x)
    ```
    If the other mode exports the program, use that: `strict=True` follows NumPy calls.

    ## Fix safety
    It depends on the line.

    ## Source
    PyTorch documentation, "torch.export programming model"; torch's own message.
    """

    topic = "export_error"

    def message(self, site: BreakSite) -> str:
        if not site.expression.strip() or not site.records[0].is_stack_exact:
            return "torch.export raises an error"
        return f"torch.export can't trace `{site.shown}`"

    def suggested(self, site: BreakSite) -> Fixes:
        if site.records[0].is_stack_exact:
            title = "Write this line with torch's own operations, or compute it before the exported part"
            yield code_fix(title, "PyTorch documentation: torch.export programming model")
