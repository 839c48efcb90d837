"""GD111: a function that torch gave up as a whole."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.rule import BreakSite, RecordingRule, RecordingView, RuleMatch
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recording import Enclosing, Recording, SourceContext
from graphdoctor.model.stack import StackEntry

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_LOOPS: tuple[str, ...] = ("for", "while")
_IN_LOOP = "graph break in loop"
_UNDER_WITH = "Graph break under GenericContextWrappingVariable"


class SkippedFrame(RecordingRule):
    """A function that runs eagerly as a whole because torch could not resume behind a break.

    ## What it finds
    A break inside a loop, a `try` or a `with`, or at another place where torch cannot split the function in two. The
    whole function is skipped; `torch._dynamo.explain` then counts -1 breaks.

    ## Why it costs
    Nothing of the function is compiled, not even what stands before the break. Only functions that it calls can be,
    one by one. Breaks behind the first are not seen until it is gone.

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
    Fix the break itself; or move the body of the loop into a function of its own, so that it is compiled even though
    the loop is not; or move the line out of the `try` or `with`.

    ## Fix safety
    Moving code into a function of its own is safe. What the break's own fix costs, its rule says.

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/symbolic_convert.py`, 2.13 ("Skipping the function and
    falling back to eager").
    """

    code: ClassVar = "GD111"
    name: ClassVar = "skipped-frame"
    severity: ClassVar = "error"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each site that made torch skip a function."""
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
        related.append((_entry_at(entry, block.line, block.text), f"the `{block.kind}` that the break lies in"))
    frame = next((entry for entry in stack if contexts.get((entry.file, entry.line))), None)
    if frame is not None and (line := contexts[frame.file, frame.line].function_line) is not None:
        related.append((_entry_at(frame, line, None), f"{names} {verb} skipped"))
    return RuleMatch(
        entry=site.entry,
        message=f"{names} {verb} not compiled at all: torch cannot resume behind a break{inside}; "
        "more breaks may hide behind it",
        count=len(skipped),
        compile_ids=tuple(dict.fromkeys(record.compile_id for record in skipped if record.compile_id)),
        related=tuple(related),
        reasons=skipped[0].chain,
        effects=site.effects,
        break_effects=("frame_skipped",),
        user_stack=stack,
        fixes=_fixes(site, where[1] if where else None),
    )


def _enclosing(
    site: BreakSite, stack: tuple[StackEntry, ...], contexts: dict[tuple[str, int], SourceContext]
) -> tuple[StackEntry, Enclosing] | None:
    """The innermost block that kept torch from going on, in whichever function of the path it stands."""
    # torch chains its word for a loop and for a with; a try has none. It goes on behind no_grad() and its like.
    if _IN_LOOP in site.chained_types:
        kinds = _LOOPS
    elif _UNDER_WITH in site.chained_types:
        kinds = ("with",)
    else:
        kinds = ("try",)
    for entry in reversed(stack):
        context = contexts.get((entry.file, entry.line))
        for block in context.enclosing if context else ():
            if block.kind in kinds:
                return entry, block
    return None


def _entry_at(entry: StackEntry, line: int, text: str | None) -> StackEntry:
    return entry.model_copy(update={"line": line, "text": text, "column": None, "end_column": None, "indent": None})


def _fixes(site: BreakSite, block: Enclosing | None) -> tuple[Fix, ...]:
    if not site.is_own_code:
        return (
            Fix(
                title="Call the package's function outside the compiled one, or under torch.compiler.disable",
                kind="call",
                source=_GUIDE,
            ),
        )
    if block is None:
        # Nothing around the line is to blame: only the break's own fix helps, and its own finding tells it.
        return ()
    if block.kind in _LOOPS:
        title = f"Move the body of the `{block.kind}` in line {block.line} into a function of its own"
    else:
        title = f"Move this line out of the `{block.kind}` in line {block.line}"
    return (Fix(title=title, kind="code", is_safe=block.kind in _LOOPS, source=_GUIDE),)
