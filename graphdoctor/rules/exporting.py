"""Rules about torch.export: GD600, GD601."""

from __future__ import annotations

from graphdoctor.facts.fixes import Fix, SnippetPlace
from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, call_fix, code_fix


class ExportError(BreakRule, code="GD600", severity="error"):
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


class ExportType(BreakRule, code="GD601", severity="error"):
    """A class that torch.export can't take apart.

    ## What it finds
    An argument or a result of a class of the program's own, where `torch.export` needs tensors,
    numbers, strings, or tuples, lists and dicts of these. Only `graphdoctor export` finds it.

    ## Why it costs
    There is no exported program: its inputs and outputs are the tensors in the arguments and
    results, and torch doesn't look for them in an object that it doesn't know.

    ## Example
    ```python
    from dataclasses import dataclass

    import torch

    @dataclass
    class Result:
        value: torch.Tensor

    def forward(x):
        return Result(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    torch.export.register_dataclass(Result)
    ```
    A class that isn't a dataclass is registered with `torch.utils._pytree.register_pytree_node`, or
    its tensors are passed and returned in a tuple, a list or a dict.

    ## Fix safety
    Safe for a dataclass whose fields are all that it is made of: torch makes a new object from the
    fields.

    ## Source
    `torch/export/__init__.py`, 2.13 (`register_dataclass`); torch's own message.
    """

    guide = "torch/export/__init__.py, 2.13 (register_dataclass)"
    topic = "export_type"

    def message(self, site: BreakSite) -> str:
        names = [f"`{class_.name}`" for class_ in site.records[0].classes]
        return f"torch.export can't take {' or '.join(names) or 'an argument or a result'} apart"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        registrations = (
            _registration(known.module, known.name)
            for known in site.records[0].classes
            if known.is_dataclass
        )
        title = "Leave it out, put its tensors into a tuple, a list or a dict, or register the class with "
        return (*registrations, code_fix(f"{title}`torch.utils._pytree.register_pytree_node`"))


def _registration(module: str, name: str) -> Fix:
    snippet = f"from {module} import {name}\ntorch.export.register_dataclass({name})"
    place = SnippetPlace(where="first_call", function="torch.export.export")
    return call_fix(
        f"Register `{name}`, so that torch takes it apart",
        snippet=snippet,
        place=place,
        is_safe=True,
    )
