"""Makes calls with other inputs: variations of one property, and attacks on an edit.

``Varying`` counts what torch compiles when one property of a call changes. ``Attacking`` compares
an edited program with the untouched one. That decides which calls are worth making and keeps their
results, without torch.compile and with it. Left out is what it refuses itself, other than by its
own ``raise`` or ``assert``. A difference that it has under torch.compile too isn't the edit's.
"""

from __future__ import annotations

import dis
import itertools
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from ...facts.trials import (
    THE_CALL,
    Attacked,
    AttackFailure,
    Difference,
    Replay,
    ResultKind,
    TriedOutcome,
    TriedValue,
)
from ...wording import shortened
from ..measure.coverage import Compiled, watched_compiles
from ..record.errors import TargetError, text_of, type_name
from ..record.files import is_user_file
from ..record.streams import kept_texts
from ..replay.comparing import compared
from ..replay.equal_sizes import EqualSizes
from ..replay.inputs import Property, Variant, Way, attacks_of, properties_of
from ..replay.leaves import leaves_of
from ..replay.results import Results
from ..target.snapshot import FreshCopies, State, seed_everything
from ..target.targets import Call
from ..wire import ATTACKS_FILE
from .workload import Workload

# Variations.

_MAX_WARM_UPS = 4
_MAX_VARIED = 2
_MAX_RAISED = 200


class Varying:
    """The variations of one call."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._request, self._events = workload.request, workload.events
        self._base: Call = ((), {})
        self._state = State(None)
        self._settled: set[str] = set()

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """Keep each call before it is made, since it may change its arguments; the last is varied.

        That is the first one, or the second if it has all tensors of the first and more.
        """
        before: set[str] | None = None
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
        events, request = self._events, self._request
        with watched_compiles() as self._watch:
            if not self._find_state():
                return
            self._state.restore()
            events.phase("looking for what can be varied")
            call, is_no_grad = FreshCopies().call(self._base), request["no_grad"]
            properties = properties_of(call, self._workload.function, is_no_grad=is_no_grad)
            events.write("vary_plan", properties=[prop.planned() for prop in properties])
            # What can't be varied is reported first.
            order = sorted(enumerate(properties), key=lambda it: (it[1].reason is None, it[1].tier))
            possible = sum(prop.reason is None for prop in properties)
            limit, seconds = request["vary"]["count"], request["vary"]["limit_s"]
            ends = time.monotonic() + seconds
            try:
                for count, (number, prop) in enumerate(order, start=1 + possible - len(order)):
                    outcome: dict[str, object] | None = {"reason": prop.reason}
                    if prop.reason is None and count > limit:
                        reason = f"left out: only {limit} properties are varied (vary-count)"
                        outcome = {"reason": reason}
                    elif prop.reason is None and time.monotonic() > ends:
                        lack = f"the {seconds:g} s for variations ran out (vary-seconds)"
                        outcome = {"reason": f"left out: {lack}"}
                    elif prop.reason is None:
                        total = min(possible, limit)
                        place = f"variation {count} of {total}: {prop.expression}"
                        outcome = self._varied(prop, place)
                    if outcome is not None:
                        events.write("variation", number=number, **prop.planned() | outcome)
            finally:
                self._state.restore()
            self._state.report_lost(events, "between calls")
            events.write("vary_end")

    def _find_state(self) -> bool:
        """Begin each call from the state after the first one, as in a program that has run a
        while; returns whether anything can be varied.
        """
        before = self._state
        self._events.phase("repeating the unchanged call")
        self._state = after = State(self._workload.function)
        torch.compiler.reset()
        compiled, raised = self._try(None)
        if raised is not None:
            self._state = before
            torch.compiler.reset()
            compiled, again = self._try(None)
            if again is not None:
                self._gap(f"Nothing was varied: repeated, the unchanged call raises {again}.")
                return False
            self._gap(
                f"Repeated, the unchanged call raises {raised}; variations start from the state "
                "before the first call."
            )
        if not compiled.count:
            self._gap(
                "Nothing was varied: the unchanged call runs no compiled code, so nothing can "
                "recompile."
            )
            return False
        counts: list[int] = []
        while self._state is after and len(counts) < _MAX_WARM_UPS:
            compiled, raised = self._try(None, is_restored=False)
            counts.append(compiled.count)
            if raised is not None:
                self._gap(f"Repeated from the state that it left, the call raises {raised}.")
            if raised is not None or not compiled.count:
                return True
        if counts:
            self._gap(
                f"The unchanged call itself recompiles when it is repeated ({sum(counts)} compiles "
                f"in {len(counts)} repetitions), because of what it changes in the target; here "
                "that is restored before each call."
            )
        return True

    def _varied(self, prop: Property, place: str) -> dict[str, object] | None:
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
            return None if prop.is_joint else {"tied": [], "tried": failed, "reason": reason}
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
            errors: dict[str, str] = {}
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
    ) -> dict[str, object]:
        torch.compiler.reset()
        for _ in range(_MAX_WARM_UPS):
            compiled, raised = self._try(None)
            if raised is not None:
                return {"reason": f"the unchanged call raises {raised}"}
            if not compiled.count:
                break
        else:
            return {"reason": "the unchanged call compiles something each time"}
        tried: list[TriedValue] = []
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

    def _try(
        self, value: Variant | None, *, is_restored: bool = True
    ) -> tuple[Compiled, str | None]:
        self._watch.taken()
        raised = self._raised(value, is_restored=is_restored)
        return self._watch.taken(), raised

    def _raised(
        self, value: Variant | None, *, is_eager: bool = False, is_restored: bool = True
    ) -> str | None:
        """Make a call; returns what it raises, or making its value, as text."""
        if is_restored:
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

    def _gap(self, message: str) -> None:
        self._events.gap("variations", message)


def _tried_value(value: Variant, outcome: TriedOutcome, **facts: Any) -> TriedValue:
    return TriedValue(value=value.text, is_special=value.is_special, outcome=outcome, **facts)


def _raised_text(error: BaseException) -> str:
    lines = text_of(error).strip().splitlines()
    return shortened(": ".join((type(error).__qualname__, *map(str.strip, lines[:1]))), _MAX_RAISED)


# Attacks.

_LIMIT_S = 3.0
_LIMIT_FACTOR = 4
"""How much longer than the untouched program's a changed program's attacks may take."""

_RECOMPILE_LIMIT = 64
_MAX_ERROR = 100
_MAX_CALLS = 8
"""So many of the program's own calls are looked at for the lines that they run."""

_OFTEN = 3
"""How many of the calls take each step of the program, if there are so many."""

_Arcs = set[tuple[CodeType, int, int]]
"""Steps of the program's own code from one instruction to another."""


class Attacking:
    """The attacks on one program's calls; ``plan``: the request's."""

    def __init__(self, workload: Workload, plan: Mapping[str, Any]) -> None:
        self._workload = workload
        self._folder = Path(plan["folder"])
        self._is_reference, self._is_edited = bool(plan["is_reference"]), bool(plan["is_edited"])
        self._calls: list[Call] = []
        self._state = State(None)
        self._raised: set[tuple[str, int]] = set()
        """The program's own lines that raised on purpose."""
        self._equal = EqualSizes()

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """Keep the first calls before they are made, and the state that they begin with."""
        for call in calls:
            if not self._calls:
                self._state = State(self._workload.function)
            if len(self._calls) < (_MAX_CALLS if self._is_reference else 1):
                self._calls.append(FreshCopies().call(call))
            yield call

    def run(self, replay: Replay) -> None:
        """Make them, and report what they show beside a replay of the program's own calls."""
        # What differs from both is wrong already.
        comparisons = replay.compared.values()
        is_wrong = bool(comparisons) and all(comparison.results for comparison in comparisons)
        if not self._calls or (is_wrong and not self._is_reference):
            return
        events = self._workload.events
        limit = torch._dynamo.config.patch(recompile_limit=_RECOMPILE_LIMIT)
        try:
            with self._workload.repeating("trying other inputs"), limit:
                attacked = self._keep_reference() if self._is_reference else self._attack()
        except Exception as error:  # noqa: BLE001 - an extra, whose failure must not lose the trial
            name = type_name(error)
            events.gap("attacks", f"Other inputs were not tried: making them raised {name}.")
            return
        if attacked is not None:
            events.write("attacked", attacked)

    def _attacks(self) -> Iterator[tuple[int, Variant]]:
        return enumerate(attacks_of(FreshCopies().call(self._calls[0]), self._workload.function))

    def _keep_reference(self) -> Attacked:
        """Make the calls of the untouched program, and keep the results of those that are worth
        making.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        index: list[dict[str, Any]] = []
        refused = 0
        taken: Counter[tuple[CodeType, int, int]] = Counter()
        shown: _Arcs = set()
        torch_kinds: set[ResultKind] = set()
        began_s = time.monotonic()
        # Each trial makes the program's own calls anyway; these show what they reach.
        for at in range(len(self._calls)):
            arcs: _Arcs = set()
            self._results(None, is_eager=True, arcs=arcs, at=at, draw=at)
            taken.update(arcs)
            shown |= arcs
        for number, attack in self._attacks():
            if time.monotonic() > began_s + _LIMIT_S:
                break
            arcs = set()
            eager = self._results(attack, is_eager=True, arcs=arcs, draw=number)
            if eager.is_refused:
                refused += not attack.is_search
                continue
            # Compiling takes long, so what goes no way of its own is only tried in eager mode.
            is_compiled = not attack.is_search or any(taken[arc] < _OFTEN for arc in arcs)
            taken.update(arcs)
            shown |= set() if attack.is_empty else arcs
            eager.save(self._folder / f"{number}-eager.pt")
            if is_compiled:
                compiled = self._results(attack, is_eager=False, draw=number)
                torch_kinds |= _differences(compiled, eager).keys()
                compiled.save(self._folder / f"{number}-compiled.pt")
            index.append({"number": number, "text": attack.text, "is_compiled": is_compiled})
        kept = {
            "attacks": index,
            "took_s": time.monotonic() - began_s,
            "reached": sorted(_lines(shown)),
            "raised": sorted(self._raised),
            "equal": self._equal.as_json(),
        }
        (self._folder / ATTACKS_FILE).write_text(json.dumps(kept), encoding="utf-8")
        kinds = tuple(sorted(torch_kinds))
        return Attacked(count=len(index), refused_count=refused, torch_kinds=kinds)

    def _attack(self) -> Attacked | None:
        """Make the same calls of a changed program, until one gives something else."""
        try:
            plan = json.loads((self._folder / ATTACKS_FILE).read_text(encoding="utf-8"))
        except OSError:
            return None
        ends_s = time.monotonic() + _LIMIT_FACTOR * max(plan["took_s"], _LIMIT_S)
        kept = {attack["number"]: attack["is_compiled"] for attack in plan["attacks"]}
        torch_kinds: set[ResultKind] = set()
        dropped: dict[ResultKind, Difference] = {}
        exceptions: dict[bool, AttackFailure] = {}
        failure: AttackFailure | None = None
        count = 0
        for number, attack in self._attacks():
            modes = [True] * self._is_edited + [False] * kept.get(number, False)
            if number not in kept or not modes or time.monotonic() > ends_s:
                continue
            count += 1
            eager = compiled = Results.load(self._folder / f"{number}-eager.pt")
            if kept[number]:
                compiled = Results.load(self._folder / f"{number}-compiled.pt")
            of_torch = _differences(compiled, eager).keys()
            for is_eager in modes:
                mine = self._results(attack, is_eager=is_eager, draw=number)
                beside = of_torch if is_eager else _differences(mine, compiled).keys()
                for kind, difference in _differences(mine, eager).items():
                    if not is_eager and (kind in of_torch or kind not in beside):
                        torch_kinds.add(kind)
                    elif not is_eager and difference.change == "fewer":
                        dropped.setdefault(kind, difference)
                    else:
                        both = (eager.raised, mine.raised) if eager.raised and mine.raised else None
                        seed = self._workload.request["seed"] + number
                        drawn = f"torch.manual_seed({seed})\n" * mine.draws_random
                        failure = AttackFailure(
                            text=attack.text,
                            code=drawn + attack.code,
                            is_compiled=not is_eager,
                            difference=difference,
                            raised=both,
                        )
                        if both is None:
                            edited = self._is_edited
                            return Attacked(count=count, is_edited=edited, failure=failure)
                        exceptions.setdefault(is_eager, failure)
        return Attacked(
            count=count,
            is_edited=self._is_edited,
            dropped=tuple(dropped.values()),
            exceptions=tuple(exceptions.values()),
            torch_kinds=tuple(sorted(torch_kinds)),
        )

    def _results(
        self,
        attack: Variant | None,
        *,
        is_eager: bool,
        arcs: _Arcs | None = None,
        at: int = 0,
        draw: int,
    ) -> Results:
        """Make a call of the kept ones; an exception is a result, too."""
        if at == 0:
            self._state.restore()
        workload, trial = self._workload, self._workload.trial
        assert trial is not None
        call = FreshCopies().call(self._calls[at])
        raised: BaseException | None = None
        # What is warned once a place is warned again after this.
        with trial.apart() as results, kept_texts() as texts, warnings.catch_warnings():
            try:
                with (
                    nullcontext(call) if attack is None else attack.make(call) as changed,
                    nullcontext() if arcs is None else _traced(arcs, self._equal),
                ):
                    workload.call(changed, is_eager=is_eager, draw=draw)
                workload.keep_results()
            except (KeyboardInterrupt, TargetError):
                raise
            except BaseException as error:  # noqa: BLE001 - the user's program may raise anything
                raised = error
        if raised is not None:
            place = _raised_at(raised)
            self._raised |= {place} if place is not None else set()
            text = f"{type(raised).__name__}: {text_of(raised)}"
            results = Results(raised=text, is_refused=place is None)
        else:
            results.add_state(trial.modules)
        self._equal.settle(is_accepted=not results.is_refused)
        results.add_written(texts())
        return results


def _differences(mine: Results, other: Results) -> dict[ResultKind, Difference]:
    """Return how results differ by more than rounding, by kind; what a process writes to standard
    error is torch's own as well.
    """
    if mine.raised != other.raised:
        value, reference = (of.raised and shortened(of.raised, _MAX_ERROR) for of in (mine, other))
        difference = Difference(kind="outputs", where=THE_CALL, value=value, reference=reference)
        return {"outputs": difference}
    return {
        difference.kind: difference
        for difference in compared(mine, other).differences
        if not difference.may_be_rounding and difference.kind != "stderr"
    }


def _raised_at(error: BaseException) -> tuple[str, int] | None:
    """Find where a program raised an error on purpose, by ``raise`` or ``assert``; None if torch or
    Python raised it.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not is_user_file(last.tb_frame.f_code.co_filename):
        return None
    code = last.tb_frame.f_code
    is_on_purpose = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return (code.co_filename, last.tb_lineno) if is_on_purpose else None


def _lines(arcs: _Arcs) -> set[tuple[str, int]]:
    """Return the lines that were run, with their files."""
    instructions: defaultdict[CodeType, set[int]] = defaultdict(set)
    for code, _, instruction in arcs:
        instructions[code].add(instruction)
    return {
        (code.co_filename, line)
        for code, offsets in instructions.items()
        for start, end, line in code.co_lines()
        if line is not None and any(start <= offset < end for offset in offsets)
    }


@contextmanager
def _traced(arcs: _Arcs, equal: EqualSizes) -> Iterator[None]:
    """Note the steps that the program's own code takes meanwhile, and what equals the sizes in
    it.
    """
    before = sys.gettrace()

    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            # Lines wouldn't do: `a if c else b` is one.
            arcs.add((frame.f_code, last.get(frame, 0), frame.f_lasti))
            last[frame] = frame.f_lasti
        elif event == "line":
            equal.look(frame)
        elif event == "return":
            last.pop(frame, None)
        return local

    def enter(frame: FrameType, _: str, __: object) -> Any:
        if not is_user_file(frame.f_code.co_filename):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = equal.has_sites(frame.f_code), True
        return local

    last: dict[FrameType, int] = {}
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
