"""Rules about recompiles of a function, whatever changed: GD200, GD201, GD211, GD219."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from graphdoctor.facts.command import command_line
from graphdoctor.facts.counts import EagerReason
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.facts.recording import RecompileLimit as LimitName
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.steadiness import unsettled
from graphdoctor.rules.toolkit import (
    REGIONAL,
    Findings,
    RecompileEvent,
    RecompileRule,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    compile_argument,
    counted,
    distinct_values,
    grouped,
    hidden_change_count,
    names,
    quoted,
    setting,
)

_NEVER_DYNAMIC = frozenset(
    {"length", "keys", "type", "identity", "text", "flag", "none", "attribute"}
)
RAISED = {"recompile_limit": 64, "accumulated_recompile_limit": 512}
"""Above torch's defaults, 8 and 256 (``torch/_dynamo/config.py``, 2.13)."""
_MIN_INSTANCES = 2
"""Number of recompiles of one function from one line in one call that make a pattern."""


class Recompile(RecompileRule, code="GD200"):
    """A function that torch recompiled because a guard failed.

    ## What it finds
    Recompiles of a function because of a change that no other rule describes. The message names the
    value or shows torch's own words.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, new values run eagerly, and torch warns once.

    ## Example
    ```python
    import torch

    def forward(x, names):
        return x.sin() if "a" in names else x.cos()

    def inputs():
        return [(torch.ones(4), {"a"}), (torch.ones(4), {"b"})]
    ```
    In a `TORCH_TRACE` log, a recompile like this one has only torch's words, here
    `set.__contains__(names, 'a')`. graphdoctor can read these and reports GD215. It reports GD200
    for words that it can't read, which can come from a newer torch.

    ## Use instead
    ```python
    def forward(x, has_a):
        return torch.where(has_a, x.sin(), x.cos())

    def inputs():
        return [(torch.ones(4), torch.tensor(True)), (torch.ones(4), torch.tensor(False))]
    ```

    ## Fix safety
    Dynamic shapes and tensors instead of numbers keep results the same. Code specialized on a value
    can be faster than general code.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.11 to 2.15
    (`recompile_reasons`).
    """

    kinds = get_args(ChangeKind)
    remedies = (
        call_fix(
            "Keep the value the same from call to call, or in a tensor if only tensor arithmetic"
            " uses it"
        ),
    )


class RecompileLimit(RecordingRule, code="GD201", severity="error"):
    """A function that torch no longer compiles because it recompiled too often.

    ## What it finds
    A function that hit `torch.compiler.config.recompile_limit` (8) or `accumulated_recompile_limit`
    (256).

    ## Why it costs
    From then on, a call that matches none of the compiled versions runs eagerly, until the process
    ends. torch warns once.

    ## Example
    ```python
    import torch

    def forward(x, name):
        return x.sin() * len(name)

    def inputs():
        return [(torch.ones(4, 8), "n" * length) for length in range(1, 12)]
    ```

    ## Use instead
    ```python
    def forward(x, length):
        return x.sin() * length

    def inputs():
        return [(torch.ones(4, 8), torch.tensor(float(length))) for length in range(1, 12)]
    ```
    Find the value that changes from call to call, in the other GD2 findings of the function, and
    make it dynamic. Raise the limit only if there are a few variants, and no more come.

    ## Fix safety
    A higher limit keeps results the same. It costs compile time and guard checks.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/convert_frame.py`, 2.11 to 2.15
    (`exceeds_recompile_limit`).
    """

    def findings(self, view: RecordingView) -> Findings:
        command = command_line(view.recording.target, "recompiles", "--what-if")
        versions_of = grouped(
            (compile_.frame_id, compile_)
            for compile_ in view.recording.compiles
            if compile_.outcome == "compiled"
        )
        events_of = grouped((event.frame.frame_id, event) for event in view.events)
        never, _ = unsettled(view.recording)
        for event in _over_limit(view):
            # Of a function that recompiles in every call, GD217 says that it gets there.
            if never in event.frames:
                continue
            frame, limit = event.frame, event.compiles[0]
            versions = versions_of.get(frame.frame_id, ())
            events = events_of.get(frame.frame_id, ())
            changes = [change for other in events for change in dict.fromkeys(other.changes)]
            since = "" if limit.call_index is None else f" from call {limit.call_index}"
            others = dict.fromkeys(f"`{other.described}`" for other in event.frames[1:])
            together = f", together with {', '.join(others)}" if others else ""
            # The values that made it recompile, most frequent first.
            counts = Counter(change.key for change in changes).most_common()
            changed = names(dict.fromkeys(expression for (_, expression), _ in counts))
            why = f", because {changed} changed" if changed else ""
            name: LimitName = (limit.failure and limit.failure.limit) or "recompile_limit"
            yield self.finding(
                view,
                frame.entry,
                # A call that a compiled version accepts still runs that; one that none accepts runs
                # eagerly or raises.
                f"`{frame.described}` runs new values uncompiled{since}{together}: it reached"
                f" torch's {name} after {counted(len(versions), 'compile')}{why}",
                event.compiles,
                count=1,
                changes=distinct_values(changes),
                hidden_change_count=hidden_change_count(events),
                reasons=limit.failure.chain if limit.failure else (),
                user_stack=versions[0].stack if versions else (),
                fixes=(
                    call_fix(_advice([key for key, _ in counts], command)),
                    _raised(view.recording, name),
                ),
            )


def _raised(recording: Recording, name: LimitName) -> Fix:
    """Return a limit above the one in force, which a call of torch.compile can have of its own."""
    title = "Raise the limit if there are only a few variants"
    in_force = (recording.config or {}).get(f"torch._dynamo.config.{name}")
    given = [call.arguments[name] for call in recording.compile_calls if name in call.arguments]
    numbers = [int(text) for text in (in_force, *given) if text is not None and text.isdecimal()]
    value = max([RAISED[name], *(2 * number for number in numbers)])
    if given:
        return compile_argument(f"{name}={value}", title, is_safe=True)
    return setting(name, title, value=value, is_safe=True)


def _over_limit(view: RecordingView) -> Iterator[RecompileEvent]:
    """Yield the first call of each function over its limit, then those without an event."""
    reported: set[int] = set()
    for event in view.events:
        if event.is_over_limit and event.frame.frame_id not in reported:
            yield event
            reported |= {frame.frame_id for frame in event.frames}
    for compile_ in view.recording.compiles:
        frame = view.frames.get(compile_.frame_id)
        if compile_.outcome == "limit" and compile_.frame_id not in reported and frame is not None:
            reported.add(compile_.frame_id)
            yield RecompileEvent(frame, (compile_,), (frame,))


def _advice(changed: Sequence[tuple[ChangeKind, str]], what_if: str | None) -> str:
    """Return what to do about the value that changes most often; the length of a list, say, can't
    be dynamic.
    """
    for kind, expression in changed[:1]:
        if kind in _NEVER_DYNAMIC:
            return f"Keep {quoted(expression)} from changing: its own finding says how"
    tries = "" if what_if is None else f"; `{what_if}` tries it"
    return f"Make the value that changes most often dynamic{tries}"


class EagerStance(RecordingRule, code="GD219"):
    """Calls that a stance runs eagerly, without a word from torch.

    ## What it finds
    Calls of a compiled function under `torch.compiler.set_stance`: with `eager_on_recompile` those
    that no compiled code fits, with `force_eager` all, with `eager_then_compile` the first.

    ## Why it costs
    These calls gain nothing from torch.compile, and torch writes no record of them. Counts and
    coverage are those of the other calls.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        yield (torch.ones(4, 8),)
        with torch.compiler.set_stance("eager_on_recompile"):
            yield (torch.ones(5, 8),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        first = torch.ones(4, 8)
        torch._dynamo.mark_dynamic(first, 0)
        yield (first,)
        with torch.compiler.set_stance("eager_on_recompile"):
            yield (torch.ones(5, 8),)
    ```
    Or make calls with all sizes and values that come later before the stance is set.

    ## Fix safety
    Safe. More calls compile, which takes time before the stance is set.

    ## Source
    `torch.compiler.set_stance`; `torch/_dynamo/eval_frame.py`, 2.11 to 2.15
    (`_callback_from_stance`).
    """

    def findings(self, view: RecordingView) -> Findings:
        for entry, name, calls, counts in _eager_calls(view):
            stances = {why: count for why, count in counts.items() if why != "limit"}
            for stance, count in stances.items():
                of = f"{count} of {'its' if calls is None else calls} calls"
                is_meant = stance == "eager_then_compile"
                yield self.finding(
                    view,
                    entry,
                    f"{of} of `{name}` ran code eagerly under the stance `{stance}`",
                    count=count,
                    subject=f"{name} {stance}",
                    severity="info" if is_meant else self.severity,
                    fixes=() if is_meant else (_STANCES[stance],),
                )


_STANCES: Mapping[EagerReason, Fix] = {
    "eager_on_recompile": call_fix(
        "Before the stance is set, call it with each size and value that comes later"
    ),
    "force_eager": call_fix("Set the stance back to `default` before these calls"),
}


def _eager_calls(
    view: RecordingView,
) -> Iterator[tuple[StackEntry, str, int | None, Mapping[EagerReason, int]]]:
    """Yield each compiled function with a place and its eager calls."""
    recording = view.recording
    if recording.watch is not None:
        for function in recording.watch.own:
            entry, line = view.line(function.file, function.line), function.line
            if entry is None and function.file is not None and line is not None:
                entry = StackEntry(file=function.file, line=line, function="<unknown>")
            if entry is not None and function.eager_calls:
                yield entry, function.compiled, function.calls, function.eager_calls
        return
    counts = Counter(why for call in recording.calls for why in (call.eager_because or ())[:1])
    frame = view.main_frame
    if counts and frame is not None:
        yield frame.entry, frame.described, len(recording.calls), counts


class PerInstanceRecompile(RecordingRule, code="GD211"):
    """A function that recompiles for each instance of its module.

    ## What it finds
    Within one call, a line calls a method on one module instance after another, and the method
    recompiles for several of them because an attribute or the size of a parameter differs from
    instance to instance. What it is called with may differ too, such as the output of a layer of
    another width.

    ## Why it costs
    torch compiles once for each layer instead of once for all of them. After the recompile limit,
    the remaining layers run eagerly.

    ## Example
    ```python
    import torch

    class Layer(torch.nn.Module):
        def __init__(self, index):
            super().__init__()
            self.index = index

        def forward(self, x):
            return x + self.index

    layers = [Layer(index) for index in range(4)]

    def forward(x):
        for layer in layers:
            torch._dynamo.graph_break()
            x = layer(x)
        return x

    def inputs():
        return (torch.ones(4),)
    ```

    ## Use instead
    ```python
    class Layer(torch.nn.Module):
        def __init__(self, index):
            super().__init__()
            self.register_buffer("index", torch.tensor(index))

        def forward(self, x):
            return x + self.index

    layers = [Layer(index) for index in range(4)]

    def forward(x):
        for layer in layers:
            x = layer(x)
        return x
    ```
    Fix the break in the caller first: a method that torch inlines doesn't recompile. If the break
    must stay, keep numbers that differ between layers in buffers. Sizes of parameters can't be
    equal; if there are more kinds of layers than `recompile_limit`, raise it, or compile each layer
    separately (regional compilation: `layer.compile()`). Or mark the layer with
    `torch.compiler.nested_compile_region`.

    ## Fix safety
    Regional compilation keeps results the same. A buffer can replace a number in arithmetic.

    ## Source
    PyTorch user guide, "Compile time": regional compilation; `torch/compiler/__init__.py`, 2.11 to
    2.15 (`nested_compile_region`).
    """

    def findings(self, view: RecordingView) -> Findings:
        groups = grouped(
            ((event.frame.frame_id, event.call_index, site.file, site.line), event)
            for event in view.events
            if (site := event.call_site) is not None
            and event.call_index is not None
            # Everything that differs belongs to ``self``, or the size of one of its parameters
            # does, which doesn't change from call to call.
            and (
                len(owned := _of_self([event])) == len(event.changes)
                or any(change.kind == "size" and change.is_parameter for change in owned)
            )
        )
        patterns: dict[int, list[RecompileEvent]] = {}
        for (frame_id, *_), events in groups.items():
            if len(events) >= _MIN_INSTANCES:
                patterns.setdefault(frame_id, events)
        is_regional = view.recording.target.is_regional
        for events in patterns.values():
            frame, site = events[0].frame, events[0].call_site
            # Attributes come first: they have names that a person gave them.
            changes = distinct_values(
                sorted(_of_self(events), key=lambda change: change.is_parameter)
            )
            is_sized = any(change.is_parameter for change in changes)
            verb = "differs" if len(changes) == 1 else "differ"
            values = names(change.expression for change in changes)
            yield self.finding(
                view,
                frame.entry,
                f"`{frame.described}` recompiles for each instance, because {values} {verb}",
                [event.compiles[0] for event in events],
                related=[(site, "called here, one instance after another")] if site else (),
                changes=changes,
                hidden_change_count=hidden_change_count(events),
                fixes=(
                    *(() if is_regional else (_INLINE,)),
                    *(() if is_sized else (_BUFFERS,)),
                    _WHOLE if is_regional else REGIONAL,
                ),
            )


def _of_self(events: Sequence[RecompileEvent]) -> list[GuardChange]:
    """Return the changes that belong to ``self``."""
    changes = (change for event in events for change in event.changes)
    return [change for change in changes if (change.source or "").startswith("L['self']")]


_INLINE = code_fix(
    "Fix the graph break in the caller: torch then traces all instances into the caller's graph"
)
_WHOLE = code_fix(
    "Compile the whole module, not each of its blocks: torch then traces all instances into one"
    " graph",
    is_safe=True,
)
_BUFFERS = code_fix("Keep what differs between the instances in buffers")
