"""GD111: functions that torch skipped."""

from __future__ import annotations

import re

from graphdoctor.facts.recording import BreakRecord, Enclosing
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.toolkit import (
    BreakSite,
    Fixes,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    code_fix,
    shortened,
)

_LOOPS: tuple[str, ...] = ("for", "while")
_IS_CALL = re.compile(r"(?:[\w., ]+ = )?[\w.]+\([^\n]*\)\Z")
_OF_TORCH = re.compile(r"with torch\.")
_Where = tuple[StackEntry, Enclosing]


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

    def findings(self, view: RecordingView) -> Matches:
        known = (site for site in view.sites if site.effects.eager_frames)
        return (_match(site, view) for site in known if any(map(_is_skipped, site.records)))


def _is_skipped(record: BreakRecord) -> bool:
    return record.effect == "frame_skipped"


def _match(site: BreakSite, view: RecordingView) -> RuleMatch:
    skipped = list(filter(_is_skipped, site.records))
    stack = skipped[0].stack
    where = _enclosing(site, stack, view)
    whole, rest = site.effects.skipped_frames, site.effects.rest_eager_frames
    verb = "is" if len({*whole, *rest}) == 1 else "are"
    names = " and ".join(
        [*(f"`{name}`" for name in whole), *(f"the rest of `{name}`" for name in rest)]
    )
    inside, related = "", []
    if where is not None:
        entry, block = where
        inside = f" inside a `{block.kind}`"
        related.append(
            (_entry_at(entry, block.line, block.text), f"the break is inside this `{block.kind}`")
        )
    frame = next((entry for entry in stack if entry.at in view.contexts), None)
    if frame is not None and (line := view.contexts[frame.at].function_line) is not None:
        related.append((_entry_at(frame, line, None), f"{names} {verb} skipped"))
    return RuleMatch(
        entry=site.entry,
        message=f"{names} {verb} not compiled: torch can't resume after a break{inside}; later breaks may be hidden",
        of=skipped,
        related=tuple(related),
        reasons=skipped[0].chain,
        effects=site.effects,
        break_effects=("frame_skipped",),
        user_stack=stack,
        fixes=_fixes(site, where, view),
    )


def _enclosing(
    site: BreakSite, stack: tuple[StackEntry, ...], view: RecordingView
) -> _Where | None:
    """The innermost block that kept torch from resuming, in any function of the call path."""
    # torch chains a reason for a loop and for a with, but not for a try. It does resume inside
    # no_grad() and the like.
    kinds: tuple[str, ...] = ("try",)
    if "graph break in loop" in site.chained_types:
        kinds = _LOOPS
    elif "Graph break under GenericContextWrappingVariable" in site.chained_types:
        kinds = ("with",)
    beginning: _Where | None = None
    for entry in reversed(stack):
        context = view.contexts.get(entry.at)
        if entry.origin == "torch" or context is None:  # nn.Module calls hooks in a loop of its own
            continue
        blocks = [block for block in context.enclosing if block.kind in kinds]
        # What a `for` or `with` begins with is evaluated once, before it: its line is in the blocks
        # around it.
        within = [
            block
            for block in blocks
            if block.kind == "while" or block.line != context.statement_line
        ]
        if within:
            return entry, within[0]
        beginning = beginning or next(((entry, block) for block in blocks), None)
    return beginning


def _entry_at(entry: StackEntry, line: int, text: str | None) -> StackEntry:
    return entry.replace(line=line, text=text, column=None, end_column=None, indent=None)


def _out_of(entry: StackEntry, block: Enclosing, site: BreakSite, view: RecordingView) -> Fixes:
    """How to leave the block that kept torch from resuming, which can be in a function that called
    this one.
    """
    is_called, context = entry.at != site.entry.at, view.contexts[entry.at]
    if block.kind in _LOOPS:
        # A function that is called is compiled by itself already.
        is_alone = (
            is_called
            and context.statement_line == block.line + 1
            and _IS_CALL.match(context.statement)
        )
        if not is_alone:
            body = f"the body of the `{block.kind}` on line {block.line}"
            yield code_fix(
                f"Move {body} into a function, so that torch compiles that", is_safe=True
            )
        return
    line = f"the call `{shortened(entry.text)}`" if is_called and entry.text else "this line"
    # torch resumes inside its own context managers, such as no_grad().
    kinds = (block.kind, *_LOOPS)
    around = [
        each for each in context.enclosing if each.kind in kinds and not _OF_TORCH.match(each.text)
    ] or [block]
    if any(_gives(each, context.statement) for each in around):
        return
    ordered = sorted(around, key=lambda each: each.line)
    places = " and ".join(f"the `{each.kind}` on line {each.line}" for each in ordered)
    yield code_fix(f"Move {line} out of {places}")


def _gives(block: Enclosing, statement: str) -> bool:
    """Whether a statement uses what a ``with`` or a loop around it assigns."""
    given = re.findall(r"\bas (\w+)", block.text) or re.findall(r"^for (\w+) in", block.text)
    return any(re.search(rf"\b{name}\b", statement) for name in given)


def _fixes(site: BreakSite, where: _Where | None, view: RecordingView) -> Fixes:
    """What helps, unless only the fix of the break does, which has its own finding, as torch's own
    code has.
    """
    is_raised = site.cause.torch_id == "GB0088"
    if site.mechanism is not None or is_raised or (site.is_own_code and where is None):
        return
    if where is not None and site.is_own_code:
        yield from _out_of(*where, site, view)
        return
    # A package's function isn't edited.
    if where is not None and where[0].origin == "user":
        _, block = where
        title = f"Move the `{block.kind}` on line {block.line} into a function, so that torch skips only that"
        yield code_fix(title, is_safe=True)
    owner = f" of {site.entry.package}" if site.entry.package else ""
    name = site.entry.qualname or site.entry.function
    outer = [
        entry
        for entry in site.stack
        if entry.origin in PROGRAM_ORIGINS and entry.at != site.entry.at
    ]
    # Under torch.compiler.disable, its call would still be a break at the same place.
    if outer and outer[-1].origin == "user":
        yield call_fix(f"Call `{name}`{owner} outside the compiled function")
    else:
        yield call_fix(f"Compile what doesn't call `{name}`{owner}, such as layers by themselves")
