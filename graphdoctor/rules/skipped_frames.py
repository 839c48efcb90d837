"""GD111: functions that torch skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphdoctor.facts.recording import Enclosing, SourceContext
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.toolkit import (
    BreakSite,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    shortened,
)

_LOOPS: tuple[str, ...] = ("for", "while")
_IS_CALL = re.compile(r"(?:[\w., ]+ = )?[\w.]+\([^\n]*\)\Z")
_OF_TORCH = re.compile(r"with torch\.")

_Where = tuple[StackEntry, SourceContext, Enclosing]
"""A line of the call path, its surroundings, and the block among these that torch can't resume in."""


class SkippedFrame(RecordingRule, code="GD111", severity="error"):
    """A function that runs eagerly because torch couldn't resume after a graph break in it.

    ## What it finds
    A graph break inside a loop, a `try` or a `with`, or at another place where torch can't split
    the function. torch skips the whole function, and `torch._dynamo.explain` counts -1 breaks.

    ## Why it costs
    No part of the function is compiled, not even the part before the break. torch can only compile
    the functions that it calls, one by one. Later breaks are hidden until the first one is fixed.

    ## Example
    ```python
    import torch

    def forward(x):
        for i in range(4):
            x = x.sin()
            if i == 3:
                print("last")
        return x

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        for i in range(4):
            x = x.sin()
        return x
    ```
    Fix the break itself. Or move the body of the loop into a function, so that torch compiles the
    body even if it skips the loop. Or move the line out of the `try` or `with`.

    ## Fix safety
    Moving code into a function is safe. For the fix of the break itself, see its own rule.

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/symbolic_convert.py`, 2.13 ("Skipping
    the function and falling back to eager").
    """

    def findings(self, view: RecordingView) -> Findings:
        for site in view.sites:
            skipped = [record for record in site.records if record.effect == "frame_skipped"]
            if not skipped or not site.effects.eager_frames:
                continue
            stack, effects = skipped[0].stack, site.effects
            where = next(_enclosing(site, stack, view), None)
            whole = [f"`{name}`" for name in effects.skipped_frames]
            names = " and ".join(
                [*whole, *(f"the rest of `{name}`" for name in effects.rest_eager_frames)]
            )
            verb = "is" if len({*effects.eager_frames}) == 1 else "are"
            inside, related = "", []
            if where is not None:
                entry, _, block = where
                inside = f" inside a `{block.kind}`"
                line = _entry_at(entry, block.line, block.text)
                related.append((line, f"the break is inside this `{block.kind}`"))
            frame = next((entry for entry in stack if entry.at in view.contexts), None)
            if frame is not None and (number := view.contexts[frame.at].function_line) is not None:
                related.append((_entry_at(frame, number, None), f"{names} {verb} skipped"))
            yield self.finding(
                view,
                site.entry,
                f"{names} {verb} not compiled: torch can't resume after a break{inside}; later breaks may be hidden",
                skipped,
                related=related,
                reasons=skipped[0].chain,
                effects=effects,
                break_effects=("frame_skipped",),
                user_stack=stack,
                fixes=_fixes(site, where),
            )


def _enclosing(
    site: BreakSite, stack: tuple[StackEntry, ...], view: RecordingView
) -> Iterator[_Where]:
    """Yield the blocks that kept torch from resuming, in any function of the call path, innermost
    first, then those whose first line the break is in.
    """
    # torch chains a reason for a loop and for a with, but not for a try. It does resume inside
    # no_grad() and the like.
    kinds: tuple[str, ...] = ("try",)
    chained = {reason.gb_type for record in site.records for reason in record.chain}
    if "graph break in loop" in chained:
        kinds = _LOOPS
    elif "Graph break under GenericContextWrappingVariable" in chained:
        kinds = ("with",)
    beginnings: list[_Where] = []
    for entry in reversed(stack):
        context = view.contexts.get(entry.at)
        if entry.origin == "torch" or context is None:  # nn.Module calls hooks in a loop of its own
            continue
        for block in context.enclosing:
            if block.kind in kinds:
                # What a `for` or `with` begins with is evaluated once, before it: its line is in
                # the blocks around it.
                is_within = block.kind == "while" or block.line != context.statement_line
                if is_within:
                    yield entry, context, block
                else:
                    beginnings.append((entry, context, block))
    yield from beginnings


def _entry_at(entry: StackEntry, line: int, text: str | None) -> StackEntry:
    return entry.replace(line=line, text=text, column=None, end_column=None, indent=None)


def _out_of(where: _Where, site: BreakSite) -> Fixes:
    """Return how to leave the block that kept torch from resuming, which can be in a function that
    called this one.
    """
    entry, context, block = where
    is_called = entry.at != site.entry.at
    if block.kind in _LOOPS:
        # A function that is called is compiled by itself already.
        is_alone = context.statement_line == block.line + 1 and _IS_CALL.match(context.statement)
        if not (is_called and is_alone):
            body = f"the body of the `{block.kind}` on line {block.line}"
            title = f"Move {body} into a function, so that torch compiles that"
            yield code_fix(title, is_safe=True)
        return
    # torch resumes inside its own context managers, such as no_grad().
    around = [
        outer
        for outer in context.enclosing
        if outer.kind in (block.kind, *_LOOPS) and not _OF_TORCH.match(outer.text)
    ] or [block]
    # What a ``with`` or a loop assigns can be used in it alone.
    assigned = (
        name
        for outer in around
        for name in re.findall(r"\bas (\w+)", outer.text)
        or re.findall(r"^for (\w+) in", outer.text)
    )
    if not any(re.search(rf"\b{name}\b", context.statement) for name in assigned):
        line = f"the call `{shortened(entry.text)}`" if is_called and entry.text else "this line"
        ordered = sorted(around, key=lambda outer: outer.line)
        places = " and ".join(f"the `{outer.kind}` on line {outer.line}" for outer in ordered)
        yield code_fix(f"Move {line} out of {places}")


def _fixes(site: BreakSite, where: _Where | None) -> Fixes:
    """Return what helps, unless only the fix of the break does, which has its own finding, as
    torch's own code has.
    """
    is_raised = site.cause.torch_id == "GB0088"
    if site.mechanism is not None or is_raised or (site.is_own_code and where is None):
        return
    if where is not None and site.is_own_code:
        yield from _out_of(where, site)
        return
    # A package's function isn't edited.
    if where is not None and where[0].origin == "user":
        block = where[2]
        title = f"Move the `{block.kind}` on line {block.line} into a function, so that torch skips only that"
        yield code_fix(title, is_safe=True)
    owner = f" of {site.entry.package}" if site.entry.package else ""
    name = f"`{site.entry.qualname or site.entry.function}`{owner}"
    outer = [entry for entry in site.stack if entry.origin in PROGRAM_ORIGINS]
    callers = [entry for entry in outer if entry.at != site.entry.at]
    # Under torch.compiler.disable, its call would still be a break at the same place.
    if callers and callers[-1].origin == "user":
        yield call_fix(f"Call {name} outside the compiled function")
    else:
        yield call_fix(f"Compile what doesn't call {name}, such as layers by themselves")
