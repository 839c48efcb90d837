"""Changes one property of a call at a time and counts what torch compiles for it."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ...facts.variations import TriedOutcome, TriedValue
from ...wording import shortened
from ..measure.compile_watch import Compiled, watched_compiles
from ..record.errors import text_of
from ..replay.leaves import leaves_of
from ..replay.properties import Property, Value, Way, properties_of
from ..target.snapshot import FreshCopies, State, seed_everything
from ..target.targets import Call
from .workload import Workload

_MAX_WARM_UPS = 4

_MAX_KEPT = 2

_MAX_ERROR = 200


@dataclass(frozen=True)
class _Tried:
    compiled: Compiled
    error: BaseException | None


class Varying:
    """The variations of one call."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._request, self._events = workload.request, workload.events
        self._base: Call = ((), {})
        self._state = State(None)
        self._settled: set[str] = set()

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """The calls to make, each remembered before that: it may change its arguments. The last is
        the one to vary.

        That is the first one, or the second if it has all tensors of the first and more.
        """
        known: set[str] | None = None
        for call in itertools.islice(calls, _MAX_KEPT):
            leaves = leaves_of(call, self._workload.function)
            tensors = {leaf.expression for leaf in leaves if isinstance(leaf.value, torch.Tensor)}
            if known is not None and not known < tensors:
                return
            known = tensors
            self._events.phase("keeping the state of the target")
            self._base = FreshCopies().call(call)
            self._state = State(self._workload.function)
            yield call

    def run(self) -> None:
        """Vary everything, as long as there is time."""
        with watched_compiles() as self._watch:
            if not self._find_state():
                return
            self._state.restore()
            function, is_no_grad = self._workload.function, self._request["no_grad"]
            self._events.phase("looking for what can be varied")
            found = properties_of(FreshCopies().call(self._base), function, is_no_grad=is_no_grad)
            self._events.write("vary_plan", properties=[prop.planned() for prop in found])
            try:
                self._vary_all(found)
            finally:
                self._state.restore()
            self._state.report_lost(self._events, "between calls")
            self._events.write("vary_end")

    def _find_state(self) -> bool:
        """Begin each call from the state after the first one, as in a program that has run a
        while.
        """
        before = self._state
        self._events.phase("repeating the unchanged call")
        self._state = after = State(self._workload.function)
        torch.compiler.reset()
        first = self._try(None)
        if first.error is not None:
            self._state = before
            torch.compiler.reset()
            again = self._try(None)
            if again.error is not None:
                self._gap(
                    f"Nothing was varied: repeated, the unchanged call raises {_error_text(again.error)}."
                )
                return False
            self._gap(
                f"Repeated, the unchanged call raises {_error_text(first.error)}; variations start from the state "
                "before the first call."
            )
            first = again
        if not first.compiled.count:
            self._gap(
                "Nothing was varied: the unchanged call runs no compiled code, so nothing can recompile."
            )
            return False
        if self._state is after:
            self._check_repetition()
        return True

    def _check_repetition(self) -> None:
        counts = []
        for _ in range(_MAX_WARM_UPS):
            tried = self._try(None, is_restored=False)
            counts.append(tried.compiled.count)
            if tried.error is not None:
                self._gap(
                    f"Repeated from the state that it left, the call raises {_error_text(tried.error)}."
                )
            if tried.error is not None or not tried.compiled.count:
                return
        self._gap(
            f"The unchanged call itself recompiles when it is repeated ({sum(counts)} compiles in {len(counts)} "
            "repetitions), because of what it changes in the target; here that is restored before each call."
        )

    def _vary_all(self, found: Sequence[Property]) -> None:
        numbered = sorted(enumerate(found), key=lambda item: item[1].tier)
        possible = [item for item in numbered if item[1].reason is None]
        for number, prop in numbered:
            if prop.reason is not None:
                self._write(number, prop, reason=prop.reason)
        limit, seconds = self._request["vary"]["count"], self._request["vary"]["limit_s"]
        ends = time.monotonic() + seconds
        for count, (number, prop) in enumerate(possible, start=1):
            if count > limit:
                self._write(
                    number,
                    prop,
                    reason=f"left out: only {limit} properties are varied (vary-count)",
                )
                continue
            if time.monotonic() > ends:
                self._write(
                    number,
                    prop,
                    reason=f"left out: the {seconds:g} s for variations ran out (vary-seconds)",
                )
                continue
            place = f"variation {count} of {min(len(possible), limit)}: {prop.expression}"
            try:
                outcome = self._vary(prop, place)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - one variation must not lose the others
                outcome = {"reason": f"trying it raised {_error_text(error)}"}
            if outcome is not None:
                self._write(number, prop, **outcome)

    def _vary(self, prop: Property, place: str) -> dict[str, object] | None:
        way, errors = self._working_way(prop, place)
        failed = [
            TriedValue(
                value=value.text,
                is_special=value.is_special,
                outcome="fails_eager",
                error=errors[value.text],
            )
            for value in way.values
            if value.text in errors
        ]
        working = [value for value in way.values if value.text not in errors]
        # What was varied together with others counts alone too only where it can be anything alone.
        if prop.expression in self._settled and any(not tried.is_special for tried in failed):
            return None
        if not working:
            if prop.is_joint:
                return None
            raised = next(iter(errors.values()), None)
            reason = "there is no other value" if raised is None else f"eager mode raises {raised}"
            return {"tied": [], "tried": failed, "reason": reason}
        torch.compiler.reset()
        if (unsteady := self._warm_up()) is not None:
            return {"reason": unsteady}
        tried: list[TriedValue] = []
        is_over_limit = False
        for value in working:
            self._events.phase("variation", f"{place} = {value.text}")
            made = self._try(value)
            is_over_limit |= made.compiled.is_over_limit
            tried.append(_described(value, made, is_over_limit=is_over_limit))
        back = self._try(None)
        if way.tied:
            self._settled |= {prop.expression, *way.tied}
        return {
            "tied": list(way.tied),
            "tried": tried + failed,
            "back_compiles": back.compiled.count,
        }

    def _working_way(self, prop: Property, place: str) -> tuple[Way, dict[str, str]]:
        """The way in which most ordinary values work in eager mode, the first of several, and what
        the others raise.
        """
        best: tuple[int, Way, dict[str, str]] = (-1, Way(()), {})
        for way in prop.ways:
            errors: dict[str, str] = {}
            for value in way.values:
                self._events.phase("variation", f"{place} = {value.text}, in eager mode")
                if (error := self._made(value, is_eager=True)) is not None:
                    errors[value.text] = _error_text(error)
            ordinary = [value for value in way.values if not value.is_special]
            works = sum(value.text not in errors for value in ordinary)
            if works > best[0]:
                best = works, way, errors
            if works == len(ordinary) or prop.expression in self._settled:
                break
        return best[1], best[2]

    def _warm_up(self) -> str | None:
        for _ in range(_MAX_WARM_UPS):
            tried = self._try(None)
            if tried.error is not None:
                return f"the unchanged call raises {_error_text(tried.error)}"
            if not tried.compiled.count:
                return None
        return "the unchanged call compiles something each time"

    def _try(self, value: Value | None, *, is_restored: bool = True) -> _Tried:
        self._watch.taken()
        error = self._made(value, is_restored=is_restored)
        return _Tried(self._watch.taken(), error)

    def _made(
        self, value: Value | None, *, is_eager: bool = False, is_restored: bool = True
    ) -> BaseException | None:
        if is_restored:
            self._state.restore()
        try:
            call = FreshCopies().call(self._base)
            with contextlib.nullcontext(call) if value is None else value.make(call) as changed:
                seed_everything(self._request["seed"])
                return self._workload.error_of(changed, is_eager=is_eager)
        except Exception as error:  # noqa: BLE001 - the value itself cannot be made
            return error

    def _write(self, number: int, prop: Property, **outcome: object) -> None:
        self._events.write("variation", number=number, **prop.planned() | outcome)

    def _gap(self, message: str) -> None:
        self._events.gap("variations", message)


def _described(value: Value, made: _Tried, *, is_over_limit: bool) -> TriedValue:
    compiled = made.compiled
    outcome: TriedOutcome = (
        "over_limit" if is_over_limit else "compiled" if compiled.count else "free"
    )
    return TriedValue(
        value=value.text,
        is_special=value.is_special,
        outcome=outcome if made.error is None else "fails_compiled",
        compiles=compiled.count,
        compile_s=compiled.seconds,
        torch_reason=compiled.reason,
        error=None if made.error is None else _error_text(made.error),
    )


def _error_text(error: BaseException) -> str:
    lines = text_of(error).strip().splitlines()
    return shortened(": ".join((type(error).__qualname__, *map(str.strip, lines[:1]))), _MAX_ERROR)
