"""GD127: a module's hook that Dynamo doesn't trace."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, call_fix


class ModuleHook(BreakRule):
    """A hook of a module is a function that torch doesn't trace.

    ## What it finds
    A call of a module that has a hook (`register_forward_hook`, `register_forward_pre_hook`) which
    is under `torch.compiler.disable`, or which Dynamo skips. The line that calls the module is
    fine. A hook that breaks at a line of its own is reported there.

    ## Why it costs
    `nn.Module` calls hooks in a loop, around `forward`, so the graph ends at each such module. In a
    loop of the program, torch skips the whole function.

    ## Example
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)

    @torch.compiler.disable
    def scaled(module, arguments, result):
        return result * 2

    layer.register_forward_hook(scaled)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)

    def scaled(module, arguments, result):
        return result * 2

    layer.register_forward_hook(scaled)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8, requires_grad=True),)
    ```
    A hook that only observes can be removed from the model that trains, or leave early while
    compiling: `if torch.compiler.is_compiling(): return`.

    ## Fix safety
    Unsafe: someone disabled the hook for a reason, and a hook that leaves early observes nothing.

    ## Source
    `torch/nn/modules/module.py`, 2.13 (`_call_impl`); PyTorch user guide, "torch.compile and
    nn.Module hooks".
    """

    guide = "PyTorch user guide: torch.compile, nn.Module hooks"
    mechanism = "module_hook"

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) and "backwards hooks" not in site.gb_type

    def message(self, site: BreakSite) -> str:
        hook = _hook(site)
        whose = f" of `{site.called}`" if site.called and site.is_traced else ""
        named = f"`{hook}`, a hook{whose}," if hook else f"a hook{whose}"
        return f"{named} can't be traced by torch"

    def suggested(self, site: BreakSite) -> Fixes:
        if hook := _hook(site):
            yield call_fix(
                f"Remove `torch.compiler.disable` from `{hook}`", condition="if torch can trace it"
            )
        yield call_fix(
            "Remove the hook from the model that is compiled", condition="if it only observes"
        )


def _hook(site: BreakSite) -> str | None:
    """The name of the function that torch wouldn't call, such as ``scaled``."""
    name = site.in_context(r"<function ([\w.<>]+) at ")
    return None if name is None else name.rpartition("<locals>.")[2]
