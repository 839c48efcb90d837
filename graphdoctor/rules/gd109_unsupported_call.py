"""GD109: a call to a builtin, method or library function that Dynamo doesn't support."""

from __future__ import annotations

import ast
import re

from graphdoctor.rules.toolkit import (
    OWN_FUNCTION,
    BreakRule,
    BreakSite,
    Fixes,
    call_before,
    code_fix,
    shortened,
)

_FORMATTED = r"\Aexample_value type: str; op: call_function"
"""Of ``"%s" % y``."""
_TEXT = re.compile(
    r"StringFormatVariable|object of type 'str' has no len|sq_contains not implemented for str$"
)
_UNKNOWN = "a value in it that is unknown while tracing, such as a tensor's"


class UnsupportedCall(BreakRule):
    """A call that Dynamo doesn't support.

    ## What it finds
    A call to a builtin such as `exec`, a method of an object written in C, or a NumPy function
    without a torch version; and text with a tensor's value in it, such as `str(t)` or an f-string,
    where the program does more than pass it on.

    ## Why it costs
    Dynamo ends the graph, makes the call in Python, and starts a new graph after it. In a loop, a
    `try` or a `with`, it skips the whole function.

    ## Example
    ```python
    import numpy as np
    import torch

    def forward(x):
        y = x.sin()
        table = np.interp(np.arange(8.0), [0.0, 7.0], [0.0, 1.0])
        return y * torch.from_numpy(table).float()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return y * (torch.arange(8.0) / 7.0)
    ```
    Or make the call outside the compiled function and pass the result in.

    ## Fix safety
    Unsafe: a different function can return another dtype or differ in the last bits.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0059, GB0156, GB0147 and
    GB0294.
    """

    torch_ids = (
        "GB0059",
        "GB0156",
        "GB0294",
        "GB0147",
        "GB0148",
        "GB9493",
        "GB4818",
        "GB0569",
        "GB0193",
    )
    gb_type = (
        r"Failed to trace builtin operator|Unsupported (?:method|function) call|attempted to trace numpy function "
        r"unsupported by PyTorch|C-implemented special method|call to a callable object with no traceable __call__"
        r"|repr\(\) on tensor|invalid call to builtin op handler|Unhandled args for method"
        r"|Attempted to a str\(\) method implemented in C/C\+\+"
    )

    context = rf"{_FORMATTED}|{_TEXT.pattern}"

    def message(self, site: BreakSite) -> str:
        if "numpy function" in site.gb_type:
            return f"`{site.named}` is a NumPy function that torch can't trace"
        if _needs_text(site):
            is_known = "TensorVariable" in site.torch_context
            what = "a tensor's value in it, as" if is_known else _UNKNOWN
            return f"`{site.shown}` needs text with {what} in an f-string"
        if _is_text(site):
            return f"`{site.named}` turns a tensor's values into text, so torch can't put it in a graph"
        return f"torch doesn't support {'' if isinstance(site.node, ast.Attribute) else 'the call '}`{site.named}`"

    def suggested(self, site: BreakSite) -> Fixes:
        if _is_text(site) or _needs_text(site):
            yield code_fix("Return the tensor and make the text outside the compiled function")
        elif site.bare_call is not None:
            yield code_fix(f"Move `{shortened(site.statement)}` out of the compiled function")
        elif "numpy function" in site.gb_type:
            yield code_fix(f"Replace `{site.named}` with torch operations")
        else:
            yield call_before(site, site.named)
        yield OWN_FUNCTION


def _needs_text(site: BreakSite) -> bool:
    """Whether the line uses text that torch only formats after the graph has run."""
    return _TEXT.search(site.torch_context) is not None


def _is_text(site: BreakSite) -> bool:
    is_str = site.torch_context.startswith(("builtin str ", "builtin repr ", "builtin format "))
    is_formatted = re.search(_FORMATTED, site.torch_context) is not None
    return (
        site.gb_type == "repr() on tensor"
        or is_formatted
        or (is_str and "TensorVariable" in site.torch_context)
    )
