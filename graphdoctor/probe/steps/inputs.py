"""Varies one property of a call at a time, and counts what torch compiles for each value."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ...facts.base import Fields
from ...facts.trials import TriedOutcome, TriedValue
from ...wording import shortened
from ..measure.coverage import Compiled, watched_compiles
from ..record.errors import text_of
from ..replay.inputs import Property, Variant, Way, properties_of
from ..replay.leaves import leaves_of
from ..target.snapshot import FreshCopies, State, seed_everything
from ..target.targets import Call
from .workload import Workload

# Variations.

_MAX_WARM_UPS = 4
_MAX_VARIED = 2
_MAX_RAISED = 200


class Varying:
    """The variations of one call."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._request = workload.request
        self._events = workload.events
        self._base: Call = ((), {})
        self._state = State(None)
        self._settled: set[str] = set()

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """Keep each call before it is made, since it may change its arguments; the last is varied.

        That is the first one, or the second if it has all tensors of the first and more.
        """
        before = None
        for call in itertools.islice(calls, _MAX_VARIED):
            leaves = leaves_of(call, self._workload.function)
            tensors = {leaf.expression for leaf in leaves if isinstance(leaf.value, Tensor)}
            if before is not None and not before < tensors:
                return
            before = tensors
            self._events.phase("keeping the state of the target")
            self._base = FreshCopies().call(call)
            self._state = State(self._workload.function)
            yield call

    def run(self) -> None:
        """Vary everything, as long as there is time."""
        events = self._events
        request = self._request
        with watched_compiles() as self._watch:
            if not self._is_variable():
                return
            self._state.restore()
            events.phase("looking for what can be varied")
            call = FreshCopies().call(self._base)
            properties = properties_of(call, self._workload.function, is_no_grad=request["no_grad"])
            events.write("vary_plan", properties=[prop.planned() for prop in properties])
            # What can't be varied is reported first.
            order = sorted(enumerate(properties), key=lambda it: (it[1].reason is None, it[1].tier))
            possible = sum(prop.reason is None for prop in properties)
            limit, seconds = request["vary"]["count"], request["vary"]["limit_s"]
            ends = time.monotonic() + seconds
            try:
                for count, (number, prop) in enumerate(order, start=1 + possible - len(order)):
                    if prop.reason is not None:
                        outcome: Fields | None = {"reason": prop.reason}
                    elif count > limit:
                        why = f"only {limit} properties are varied (vary-count)"
                        outcome = {"reason": f"left out: {why}"}
                    elif time.monotonic() > ends:
                        why = f"the {seconds:g} s for variations ran out (vary-seconds)"
                        outcome = {"reason": f"left out: {why}"}
                    else:
                        place = f"variation {count} of {min(possible, limit)}: {prop.expression}"
                        outcome = self._varied(prop, place)
                    if outcome is not None:
                        events.write("variation", number=number, **prop.planned() | outcome)
            finally:
                self._state.restore()
            self._state.report_lost(events, "between calls")
            events.write("vary_end")

    def _is_variable(self) -> bool:
        """Make the unchanged call once more; returns whether anything can be varied."""
        self._events.phase("repeating the unchanged call")
        torch.compiler.reset()
        compiled, raised = self._try(None)
        reason = f"repeated, the unchanged call raises {raised}"
        if raised is None:
            reason = "the unchanged call runs no compiled code, so nothing can recompile"
        if raised is not None or not compiled.count:
            self._events.gap("variations", f"Nothing was varied: {reason}.")
            return False
        return True

    def _varied(self, prop: Property, place: str) -> Fields | None:
        """Vary a property; returns fields of ``Variation``, None to leave it out."""
        try:
            way, errors = self._working_way(prop, place)
            failed = [
                _tried_value(value, "fails_eager", error=errors[value.text])
                for value in way.values
                if value.text in errors
            ]
            # What was varied together with others counts alone too only where it can be anything
            # alone.
            is_settled = prop.expression in self._settled
            if is_settled and any(not tried.is_special for tried in failed):
                return None
            working = [value for value in way.values if value.text not in errors]
            if working:
                return self._compiled(prop, way, working, failed, place)
            raised = next(iter(errors.values()), None)
            reason = "there is no other value" if raised is None else f"eager mode raises {raised}"
            return {"tried": failed, "reason": reason}
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - one must not lose the others
            return {"reason": f"trying it raised {_raised_text(error)}"}

    def _working_way(self, prop: Property, place: str) -> tuple[Way, dict[str, str]]:
        """Return the way in which most ordinary values work in eager mode, the first of several,
        and what the others raise.
        """
        best: tuple[int, Way, dict[str, str]] = (-1, Way(()), {})
        for way in prop.ways:
            errors = {}
            for value in way.values:
                self._events.phase("variation", f"{place} = {value.text}, in eager mode")
                if (raised := self._raised(value, is_eager=True)) is not None:
                    errors[value.text] = raised
            ordinary = [value.text for value in way.values if not value.is_special]
            working = len(ordinary) - sum(text in errors for text in ordinary)
            if working > best[0]:
                best = working, way, errors
            if working == len(ordinary) or prop.expression in self._settled:
                break
        return best[1], best[2]

    def _compiled(
        self,
        prop: Property,
        way: Way,
        values: Sequence[Variant],
        failed: list[TriedValue],
        place: str,
    ) -> Fields:
        torch.compiler.reset()
        for _ in range(_MAX_WARM_UPS):
            compiled, raised = self._try(None)
            if raised is not None:
                return {"reason": f"the unchanged call raises {raised}"}
            if not compiled.count:
                break
        else:
            return {"reason": "the unchanged call compiles something each time"}
        tried = []
        is_over_limit = False
        for value in values:
            self._events.phase("variation", f"{place} = {value.text}")
            compiled, raised = self._try(value)
            is_over_limit |= compiled.is_over_limit
            outcome: TriedOutcome = "compiled" if compiled.count else "free"
            if raised is not None or is_over_limit:
                outcome = "over_limit" if raised is None else "fails_compiled"
            facts = {"compile_s": compiled.seconds, "torch_reason": compiled.reason}
            tried.append(
                _tried_value(value, outcome, compiles=compiled.count, error=raised, **facts)
            )
        back, _ = self._try(None)
        if way.tied:
            self._settled |= {prop.expression, *way.tied}
        return {"tied": list(way.tied), "tried": tried + failed, "back_compiles": back.count}

    def _try(self, value: Variant | None) -> tuple[Compiled, str | None]:
        self._watch.taken()
        raised = self._raised(value)
        return self._watch.taken(), raised

    def _raised(self, value: Variant | None, *, is_eager: bool = False) -> str | None:
        """Make a call from the state before it; returns what it raises, or making its value, as
        text.
        """
        self._state.restore()
        error: BaseException | None
        try:
            call = FreshCopies().call(self._base)
            with nullcontext(call) if value is None else value.make(call) as changed:
                seed_everything(self._request["seed"])
                error = self._workload.error_of(changed, is_eager=is_eager)
        except Exception as refused:  # noqa: BLE001 - the value itself cannot be made
            error = refused
        return None if error is None else _raised_text(error)


def _tried_value(value: Variant, outcome: TriedOutcome, **facts: Any) -> TriedValue:
    return TriedValue(value=value.text, is_special=value.is_special, outcome=outcome, **facts)


def _raised_text(error: BaseException) -> str:
    lines = text_of(error).strip().splitlines()
    return shortened(": ".join((type(error).__qualname__, *map(str.strip, lines[:1]))), _MAX_RAISED)
