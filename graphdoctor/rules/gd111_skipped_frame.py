"""GD111: a function that torch skipped."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.recording import Enclosing, Recording, SourceContext
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.rule import BreakSite, RecordingRule, RecordingView, RuleMatch

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_LOOPS: tuple[str, ...] = ("for", "while")
_IN_LOOP = "graph break in loop"
_UNDER_WITH = "Graph break under GenericContextWrappingVariable"


class SkippedFrame(RecordingRule, code="GD111", name="skipped-frame", severity="error"):
    """A function that runs eagerly because torch couldn't resume after a graph break in it.

    ## What it finds
    A graph break inside a loop, a `try` or a `with`, or at another place where torch can't split the function. torch
    skips the whole function, and `torch._dynamo.explain` counts -1 breaks.

    ## Why it costs
    No part of the function is compiled, not even the part before the break. torch can only compile the functions that
    it calls, one by one. Later breaks are hidden until the first one is fixed.

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
    import torch

    def forward(x):
        for i in range(4):
            x = x.sin()
        return x

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Fix the break itself. Or move the body of the loop into a function, so that torch compiles the body even if it skips
    the loop. Or move the line out of the `try` or `with`.

    ## Fix safety
    Moving code into a function is safe. For the fix of the break itself, see its own rule.

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/symbolic_convert.py`, 2.13 ("Skipping the function and
    falling back to eager").
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        return tuple(_match(site, view.recording) for site in view.sites if site.effects.skipped_frames)


def _match(site: BreakSite, recording: Recording) -> RuleMatch:
    contexts = {(context.file, context.line): context for context in recording.sources}
    skipped = [record for record in site.records if record.effect == "frame_skipped"]
    stack = skipped[0].stack
    where = _enclosing(site, stack, contexts)
    verb = "is" if len(site.effects.skipped_frames) == 1 else "are"
    names = " and ".join(f"`{name}`" for name in site.effects.skipped_frames)
    inside = f" inside a `{where[1].kind}`" if where else ""
    related = []
    if where is not None:
        entry, block = where
        related.append((_entry_at(entry, block.line, block.text), f"the break is inside this `{block.kind}`"))
    frame = next((entry for entry in stack if contexts.get((entry.file, entry.line))), None)
    if frame is not None and (line := contexts[frame.file, frame.line].function_line) is not None:
        related.append((_entry_at(frame, line, None), f"{names} {verb} skipped"))
    return RuleMatch(
        entry=site.entry,
        message=f"{names} {verb} not compiled: torch can't resume after a break{inside}; later breaks may be hidden",
        count=len(skipped),
        compile_ids=tuple(dict.fromkeys(record.compile_id for record in skipped if record.compile_id)),
        related=tuple(related),
        reasons=skipped[0].chain,
        effects=site.effects,
        break_effects=("frame_skipped",),
        user_stack=stack,
        fixes=_fixes(site, where),
    )


def _enclosing(
    site: BreakSite, stack: tuple[StackEntry, ...], contexts: dict[tuple[str, int], SourceContext]
) -> tuple[StackEntry, Enclosing] | None:
    """The innermost block that kept torch from resuming, in any function of the call path."""
    # torch chains a reason for a loop and for a with, but not for a try. It does resume inside no_grad() and the like.
    if _IN_LOOP in site.chained_types:
        kinds = _LOOPS
    elif _UNDER_WITH in site.chained_types:
        kinds = ("with",)
    else:
        kinds = ("try",)
    for entry in reversed(stack):
        if entry.origin == "torch":  # nn.Module calls hooks in a loop of its own
            continue
        context = contexts.get((entry.file, entry.line))
        for block in context.enclosing if context else ():
            if block.kind in kinds:
                return entry, block
    return None


def _entry_at(entry: StackEntry, line: int, text: str | None) -> StackEntry:
    return entry.model_copy(update={"line": line, "text": text, "column": None, "end_column": None, "indent": None})


def _fixes(site: BreakSite, where: tuple[StackEntry, Enclosing] | None) -> tuple[Fix, ...]:
    if site.mechanism is not None:
        return ()  # the finding about torch's own code has the remedy
    if not site.is_own_code:
        return _around_package(site, where)
    if where is None:
        # No block around the line caused it, so only the fix of the break helps, which has its own finding.
        return ()
    _, block = where
    if block.kind in _LOOPS:
        title = f"Move the body of the `{block.kind}` on line {block.line} into a function"
    else:
        title = f"Move this line out of the `{block.kind}` on line {block.line}"
    return (Fix(title=title, kind="code", is_safe=block.kind in _LOOPS, source=_GUIDE),)


def _around_package(site: BreakSite, where: tuple[StackEntry, Enclosing] | None) -> tuple[Fix, ...]:
    """What helps against a break in a package's function, which isn't edited."""
    name = f"`{site.entry.qualname or site.entry.function}`"
    owner = f" of {site.entry.package}" if site.entry.package else ""
    title = f"Call {name}{owner} outside the compiled function, or under torch.compiler.disable"
    call = Fix(title=title, kind="call", source=_GUIDE)
    if where is None or where[0].origin != "user":
        return (call,)
    _, block = where
    title = f"Move the `{block.kind}` on line {block.line} into a function, so that torch skips only that"
    return (Fix(title=title, kind="code", is_safe=True, source=_GUIDE), call)
