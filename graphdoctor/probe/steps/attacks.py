"""Makes calls on inputs that are made to break an edit.

An attack is a sequence of calls from the state that the program began with: the attack and a call
with another batch, or the same after one of the program's own. ``Attacking`` makes them of the
untouched program, which decides what is worth making and keeps its results without torch.compile;
then of an edited one; and of the untouched program with torch.compile, which takes long, only where
a compiled program differed. Left out is what the untouched program refuses itself, other
than by its own ``raise`` or ``assert``. A difference that it has under torch.compile too isn't the
edit's, nor is what differs when it makes the same calls again. Gradients aren't compared where an
attack leaves nothing to learn from: the untouched program's outputs or parameters aren't finite.
How many are made depends on the program alone, never on the time that they take.
"""

from __future__ import annotations

import dis
import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...facts.trials import (
    MESSAGES,
    THE_CALL,
    Attacked,
    AttackFailure,
    Difference,
    Replay,
    ResultKind,
)
from ...wording import shortened
from ..record.errors import TargetError, text_of, type_name
from ..record.files import is_user_file
from ..record.streams import kept_texts
from ..replay.assigned import PATTERNS, Assigned, Place
from ..replay.comparing import compared
from ..replay.conditions import Conditions, Outcome, searched
from ..replay.equal_sizes import EqualSizes
from ..replay.inputs import Arguments, Variant, change_tensor, state_attacks
from ..replay.looking import Arcs, Line, Looker, lines_in, lines_left_twice, traced
from ..replay.results import AFTER_CALLS, GRADIENT_OF, Results, plain_of, tensors_of
from ..replay.returned import Returns
from ..replay.rows_alike import RowsAlike, same_rows
from ..target.snapshot import FreshCopies, State, is_same, set_for
from ..target.targets import Call
from ..torch_private.torch_api import tensors_in
from ..wire import ATTACKS_FILE
from .workload import Workload

_RECOMPILE_LIMIT = 64
_MAX_ERROR = 100
_MAX_CALLS = 8
"""So many of the program's own calls are kept, and looked at for the lines that they run."""

_OFTEN = 3
"""How many of the calls take each step of the program, if there are so many."""

_HEAVY, _LONG = 2**23, 2**14
_HEAVY_DRAWN = 10
"""How many calls with random values are made of a program with so many numbers in its tensors, or
so many steps in its calls."""

_SMALL = 2**20
"""Up to so many numbers, threads cost more than they save, as trials share the cores."""

_MAX_OUTCOMES = 8
_MAX_SEARCHED = 3
"""For so many outcomes of conditions inputs are searched, each by changing one of so many
arguments, parameters and buffers."""

_MAX_PLACES, _MAX_VARIED, _MAX_TRACED = 48, 20, 2**16
"""So many assignments are set that give the same in so many other calls, unless the program's own
take so many steps."""

_UNCHANGED = Variant("")


@dataclass
class _Attack:
    """A sequence of calls.

    Args:
        text: What is changed, as a clause.
        variant: The number of the changed call among the attacks on the first call's arguments.
        state: By name of a parameter or buffer, code that changes it before the first call.
        arguments: By expression of an argument, code that changes it in the changed call.
        forced: Where what the program assigns is set, and to what.
        is_used: One of the program's own calls comes first.
        next_size: The batch of the call after it; None for the program's own, 0 for no such call.
        count: How many calls the program accepts; None for all.
        is_compiled: It's made with torch.compile as well.
    """

    text: str = ""
    variant: int = 0
    state: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    forced: tuple[Place, str] | None = None
    is_used: bool = False
    next_size: int | None = 0
    count: int | None = None
    is_compiled: bool = False

    @property
    def words(self) -> str:
        """Name the whole sequence."""
        text = f"{self.text} after another call" if self.is_used else self.text
        if self.next_size == 0 or (self.count is not None and self.count < 2 + self.is_used):
            return text
        then = "a call follows" if self.next_size is None else f"the next batch is {self.next_size}"
        return f"{text}, and {then}"


class Attacking:
    """The attacks on one program's calls; ``plan``: the request's."""

    def __init__(self, workload: Workload, plan: Mapping[str, Any]) -> None:
        self._workload = workload
        self._folder = Path(plan["folder"])
        self._is_reference, self._is_edited = bool(plan["is_reference"]), bool(plan["is_edited"])
        self._redraws = bool(plan["redraws"])
        self._keeps_compiled = bool(plan["keeps_compiled"])
        self._calls: list[Call] = []
        self._state = State(None)
        self._arguments: list[Arguments] = []
        """Of each call."""
        self._variants: list[Variant] = []
        self._step_count = 0
        """Steps of the program's own code in its own calls."""
        self._raised: set[Line] = set()
        """The program's own lines that raised on purpose."""
        self._equal, self._returns, self._conditions = EqualSizes(), Returns(), Conditions()
        self._assigned = Assigned()

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """Keep the first calls before they are made, and the state that they begin with."""
        for call in calls:
            if not self._calls:
                self._state = State(self._workload.function)
            if len(self._calls) < _MAX_CALLS:
                self._calls.append(FreshCopies().call(call))
            yield call

    def run(self, replay: Replay) -> None:
        """Make them, and report what they show beside a replay of the program's own calls."""
        # What differs from both is wrong already.
        comparisons = replay.compared.values()
        is_wrong = bool(comparisons) and all(comparison.results for comparison in comparisons)
        is_untouched = self._is_reference or self._keeps_compiled
        if not self._calls or (is_wrong and not (is_untouched or self._redraws)):
            return
        events = self._workload.events
        limit = torch._dynamo.config.patch(recompile_limit=_RECOMPILE_LIMIT)
        try:
            with self._workload.repeating("trying other inputs"), limit, self._few_threads():
                self._state.restore()
                function = self._workload.function
                # Of copies: the program's own calls stay as they are.
                calls = [FreshCopies().call(call) for call in self._calls]
                self._arguments = [Arguments(call, function) for call in calls]
                self._variants = list(self._arguments[0].attacks())
                attacked = self._attacked()
        except Exception as error:  # noqa: BLE001 - an extra, whose failure must not lose the trial
            name = type_name(error)
            events.gap("attacks", f"Other inputs were not tried: making them raised {name}.")
            return
        if attacked is not None:
            events.write("attacked", attacked)

    def _attacked(self) -> Attacked | None:
        if self._is_reference:
            return self._keep_reference()
        try:
            plan = json.loads((self._folder / ATTACKS_FILE).read_text(encoding="utf-8"))
        except OSError:
            return None
        if not self._keeps_compiled:
            return self._attack(plan)
        for number, attack in _numbered(plan):
            if attack.is_compiled:
                self._results(attack, number, is_eager=False).save(self._compiled_path(number))
        return None

    def _few_threads(self) -> AbstractContextManager[None]:
        """Compute small programs with one thread."""
        given = tensors_in(self._calls[0])
        if sum(tensor.numel() for tensor in (*self._tensors.values(), *given)) > _SMALL:
            return nullcontext()
        return set_for(torch.set_num_threads, torch.get_num_threads(), 1)

    # The untouched program.

    def _attacks(self) -> Iterator[_Attack]:
        """Yield the attacks, each of a kind with another size in the call that follows."""
        tensors = self._tensors
        number_count = sum(tensor.numel() for tensor in tensors.values())
        is_heavy = number_count > _HEAVY or self._step_count > _LONG
        drawn = []
        for number, variant in enumerate(self._variants):
            if variant.is_odd:
                yield _Attack(variant.text, number)
                continue
            if variant.is_drawn:
                drawn.append((number, variant.text))
                continue
            is_alternate = is_heavy or variant.is_search
            for is_used in (number % 2 == 1,) if is_alternate else (False, True):
                size = self._next_size(number + is_used)
                yield _Attack(variant.text, number, is_used=is_used, next_size=size)
        for number, (text, codes) in enumerate(state_attacks(tensors)):
            yield _Attack(text, state=codes, next_size=self._next_size(number))
        if not is_heavy:
            yield from self._searched(tensors)
        for number, text in drawn[: _HEAVY_DRAWN if is_heavy else None]:
            size = self._next_size(number)
            yield _Attack(text, number, is_used=number % 2 == 1, next_size=size)
        if number_count <= _HEAVY and self._step_count <= _MAX_TRACED:
            yield from self._forced()

    def _forced(self) -> Iterator[_Attack]:
        """Yield attacks that set what no argument changes, if a condition then is what it never
        was.
        """
        for place, values in self._undecided().items():
            missing = self._conditions.missing()
            numbers = {
                n + d for o in missing for n in self._conditions.constants[o] for d in (1, -1)
            }
            if all(map(_is_share, values)):
                # A draw or a share is never anything else.
                numbers = {number for number in numbers if 0 <= number <= 1}
            accepted = []
            is_new = False
            for pattern in (*PATTERNS, *map(repr, sorted(numbers - {0, 1})[:_MAX_OUTCOMES])):
                attack = _Attack(place.words(pattern), forced=(place, pattern))
                if self._results(attack, is_looked_at=True).is_refused:
                    continue
                is_other = any(self._conditions.near.get(outcome) == 0 for outcome in missing)
                is_new |= is_other
                accepted += [attack] if is_other or pattern in PATTERNS else []
            yield from accepted if is_new else ()

    def _undecided(self) -> dict[Place, list[Tensor]]:
        """Return what assignments gave that give the same whatever the values of arguments are."""
        if not self._conditions.missing():
            return {}
        with self._assigned.noting() as own:
            self._results(_Attack(), is_looked_at=True)
        same = list(own)
        varied_count = 0
        forms = self._arguments[0].forms
        for number, variant in enumerate(self._variants):
            with variant.make(FreshCopies().call(self._calls[0])) as call:
                other_forms = Arguments(call, self._workload.function).forms
            if not variant.edits or other_forms != forms or varied_count == _MAX_VARIED:
                continue
            with self._assigned.noting() as others:
                results = self._results(_Attack(variant=number), is_looked_at=True)
            if not results.is_refused:
                varied_count += 1
                same = [place for place in same if _is_alike(own[place], others.get(place, []))]
        if forms and not varied_count:
            return {}
        return {place: own[place] for place in same[:_MAX_PLACES]}

    def _searched(self, tensors: Mapping[str, Tensor]) -> Iterator[_Attack]:
        """Yield attacks for which a condition is what it never was so far."""
        floats = [name for name, tensor in tensors.items() if tensor.is_floating_point()]
        floats.sort(key=lambda name: tensors[name].numel())
        names = [("arguments", name) for name in self._arguments[0].searchable[:_MAX_SEARCHED]]
        names += [("state", name) for name in floats[:_MAX_SEARCHED]]
        for outcome in self._conditions.missing()[:_MAX_OUTCOMES]:
            numbers = self._conditions.constants.get(outcome, [])
            for kind, name in names:
                attack = partial(_for_outcome, outcome, kind, name)
                code = searched(partial(self._distance, attack, outcome), numbers)
                if code is not None:
                    yield attack(code)
                    break

    def _distance(
        self, attack: Callable[[str], _Attack], outcome: Outcome, code: str
    ) -> float | None:
        """Measure how far a call with a change is from an outcome; None if it doesn't get there."""
        results = self._results(attack(code), is_looked_at=True)
        return None if results.is_refused else self._conditions.near.get(outcome)

    @property
    def _tensors(self) -> dict[str, Tensor]:
        trial = self._workload.trial
        assert trial is not None
        return tensors_of(trial.modules)

    def _next_size(self, number: int) -> int | None:
        batch = self._arguments[number % len(self._calls)].batch
        sizes = [size for size in (batch // 2, 1, batch * 3 // 8, 2 * batch) if size > 0]
        return sizes[number % len(sizes)] if sizes else None

    def _keep_reference(self) -> Attacked:
        """Make the calls of the untouched program, and keep the results of those that are worth
        making.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        index = []
        whole_count = 0
        taken: Arcs = Counter()
        """How many calls took each step."""
        own_arcs: frozenset[Any] = frozenset()
        forced = {}
        # Each trial makes the program's own calls anyway; these show what they reach.
        for at, call in enumerate(self._calls):
            arcs: Arcs = Counter()
            self._make([(call, _UNCHANGED)], draw=at, arcs=arcs, is_fresh=at == 0)
            taken.update(arcs.keys())
            own_arcs = own_arcs or frozenset(arcs)
            self._step_count += arcs.total()
        shown = Counter(taken.keys())
        """The steps whose results are compared."""
        with self._returns.noted():
            own = [self._results(_Attack()) for _ in range(2)]
        if own[0].draws_random:
            self._own_alike().save(self._alike_path("own"))
        unstable = set(_differences(*own))
        is_finite = all(map(_is_finite, own[0].values["outputs"].values()))
        for number, attack in enumerate(self._attacks()):
            variant = self._variants[attack.variant]
            arcs = Counter()
            eager = self._accepted(attack, number, arcs)
            if eager is None or (variant.is_odd and not own_arcs <= arcs.keys()):
                continue
            # Compiling takes long, so what goes no way of its own is only tried in eager mode.
            is_plain = not variant.is_search and not attack.state and not attack.arguments
            is_rare = is_plain or any(taken[arc] < _OFTEN for arc in arcs)
            attack.is_compiled = is_rare and attack.forced is None
            taken.update(arcs.keys())
            if attack.forced is not None:
                forced[number] = sorted(lines_in(arcs) - lines_in(shown))
            elif not variant.is_empty:
                shown.update(arcs.keys())
            if attack.forced is not None or eager.draws_random:
                self._results(attack, number, is_alike=True).save(self._alike_path(number))
            eager.save(self._folder / f"{number}-eager.pt")
            index.append({"number": number, **asdict(attack)})
            whole_count += not _void_gradients(eager, is_finite=is_finite)
        kept = {
            "attacks": index,
            "unstable": sorted(unstable),
            "reached": sorted(lines_in(shown)),
            "skipped": sorted(lines_left_twice(shown)),
            "forced": forced,
            "raised": sorted(self._raised),
            "equal": self._equal.as_json(),
            "returns": self._returns.relied_on(),
            "is_finite": is_finite,
        }
        (self._folder / ATTACKS_FILE).write_text(json.dumps(kept), encoding="utf-8")
        return Attacked(count=whole_count)

    def _accepted(self, attack: _Attack, number: int, arcs: Arcs) -> Results | None:
        """Make an attack of the untouched program, as far as it accepts it; None if it refuses the
        attack itself.
        """
        least = 1 + attack.is_used
        results = self._results(attack, number, arcs=arcs)
        if results.is_refused and results.call_count >= least and attack.next_size is not None:
            attack.next_size = None
            arcs.clear()
            results = self._results(attack, number, arcs=arcs)
        if results.is_refused and results.call_count >= least:
            attack.count = least
            arcs.clear()
            results = self._results(attack, number, arcs=arcs)
        return None if results.is_refused else results

    # A changed one.

    def _attack(self, plan: Mapping[str, Any]) -> Attacked:
        """Make the same calls of a changed program, until one gives something else."""
        torch_kinds = set()
        dropped: dict[ResultKind, Difference] = {}
        exceptions = []
        failure = None
        redrawn = None
        redrawn_results: dict[int, Results] = {}
        count, unstable = 0, set(plan["unstable"])
        differences = partial(_differences, is_finite=plan["is_finite"])
        reached: set[Line] = set()
        is_own_redrawn = self._redraws and self._is_same_alike(self._own_alike(), "own")
        if self._is_edited and (failure := self._other_kind(plan["returns"])) is not None:
            return Attacked(count=1, is_edited=True, failure=failure)
        # Compiling takes long, and most edits that are wrong show it without.
        ways = [True] * self._is_edited + [False]
        for is_eager, (number, attack) in product(ways, _numbered(plan)):
            # An edit may keep something else in place of what is changed.
            is_made = is_eager or attack.is_compiled
            if not is_made or not attack.state.keys() <= self._tensors.keys():
                continue
            eager = Results.load(self._folder / f"{number}-eager.pt")
            # What is said to be the same on so many inputs has the same gradients, too.
            is_counted = is_eager or not self._is_edited
            is_counted &= not _void_gradients(eager, is_finite=plan["is_finite"])
            mine = self._results(attack, number, is_eager=is_eager)
            if attack.forced is not None:
                # Without that assignment, the edited program can't be compared.
                if not self._assigned.is_forced:
                    continue
                reached.update((file, line) for file, line in plan["forced"][str(number)])
            count += is_counted
            # Compiled, an edit draws as many numbers as it does without.
            differing = differences(mine, redrawn_results.get(number, eager))
            excused = set()
            # Whether torch.compile changes that by itself may not be known yet.
            is_known = is_eager or self._compiled_path(number).exists()
            if differing and not is_eager and is_known:
                compiled = Results.load(self._compiled_path(number))
                excused = differing.keys() & differences(compiled, eager).keys()
                excused |= differing.keys() - differences(mine, compiled).keys()
                torch_kinds |= excused - unstable
            for kind, difference in differing.items():
                if kind in unstable or kind in excused:
                    continue
                is_dropped = kind in MESSAGES and difference.change == "fewer"
                if is_dropped and not is_eager and is_known:
                    dropped.setdefault(kind, difference)
                    continue
                both = (eager.raised, mine.raised) if eager.raised and mine.raised else None
                failure = AttackFailure(
                    text=attack.words,
                    code=self._code(attack, number, is_random=mine.draws_random),
                    is_compiled=not is_eager,
                    difference=difference,
                    raised=both,
                )
                if is_eager and self._is_redrawn(attack, number):
                    redrawn = redrawn or failure
                    redrawn_results[number] = mine
                    break
                # Compiled code raises as it can, which is said; eager mode as before.
                if both is None or is_eager or not is_known:
                    return Attacked(count=count, is_edited=self._is_edited, failure=failure)
                exceptions.append(failure)
        return Attacked(
            count=count,
            is_edited=self._is_edited,
            dropped=tuple(dropped.values()),
            exceptions=tuple(exceptions[:1]),
            reached=tuple(sorted(reached)),
            redrawn=redrawn,
            is_own_redrawn=is_own_redrawn,
            torch_kinds=tuple(sorted(torch_kinds)),
        )

    def _is_redrawn(self, attack: _Attack, number: int) -> bool:
        """Check whether an attack is the same but for how many random numbers are drawn, which the
        edit is known to change.
        """
        return self._redraws and self._is_same_alike(
            self._results(attack, number, is_alike=True), number
        )

    def _compiled_path(self, number: int) -> Path:
        return self._folder / f"{number}-compiled.pt"

    def _alike_path(self, name: int | str) -> Path:
        return self._folder / f"{name}-alike.pt"

    def _is_same_alike(self, mine: Results, name: int | str) -> bool:
        if not self._alike_path(name).exists():
            return False
        other = Results.load(self._alike_path(name))
        same_rows(mine, other)
        return not _differences(mine, other)

    def _own_alike(self) -> Results:
        """Make the program's own calls with random numbers that are the same in every row."""
        with RowsAlike(0, has_single=True):
            return self._make([(call, _UNCHANGED) for call in self._calls], draw=0)

    def _other_kind(self, relied_on: Mapping[str, list[str]]) -> AttackFailure | None:
        """Find a function that returns another kind of value to whoever relies on it."""
        with self._returns.noted():
            self._results(_Attack())
        mine = self._returns.all()
        for function, kinds in relied_on.items():
            if others := sorted(mine.get(function, set()).difference(kinds)):
                difference = Difference(
                    kind="outputs",
                    where=f"what `{function.rpartition(':')[2]}` returns",
                    value=" or ".join(others),
                    reference=" or ".join(kinds),
                )
                text = self._variants[0].text
                return AttackFailure(text=text, code="", is_compiled=False, difference=difference)
        return None

    def _code(self, attack: _Attack, number: int, *, is_random: bool) -> str:
        seed = self._workload.request["seed"] + number
        state = [code.replace("tensor", name) for name, code in attack.state.items()]
        drawn = [f"torch.manual_seed({seed})"] * is_random
        changed = [code.replace("{}", name) for name, code in attack.arguments.items()]
        return "\n".join([*state, *drawn, *changed, self._variants[attack.variant].code])

    # Both.

    def _results(
        self,
        attack: _Attack,
        number: int = 0,
        *,
        is_eager: bool = True,
        arcs: Arcs | None = None,
        is_looked_at: bool = False,
        is_alike: bool = False,
    ) -> Results:
        """Make the calls of an attack; an exception is a result, too.

        ``is_looked_at``: conditions and numbers are noted, as with ``arcs``. ``is_alike``: random
        numbers are the same in every row.
        """
        changed = self._variants[attack.variant]
        if attack.arguments:
            changed = self._arguments[0].changed(attack.arguments)
        calls = [(self._calls[0], _UNCHANGED)] * attack.is_used + [(self._calls[0], changed)]
        if attack.next_size != 0:
            at, size = number % len(self._calls), attack.next_size
            following = _UNCHANGED if size is None else self._arguments[at].resized(size)
            calls.append((self._calls[at], following))
        # What is set for a mask may leave it a single row.
        alike = RowsAlike(number, has_single=attack.forced is None) if is_alike else nullcontext()
        forcing = nullcontext() if attack.forced is None else self._assigned.forcing(*attack.forced)
        with forcing, alike:
            return self._make(
                calls[: attack.count],
                draw=number,
                is_eager=is_eager,
                arcs=arcs,
                is_looked_at=is_looked_at,
                state=attack.state,
            )

    def _make(
        self,
        calls: list[tuple[Call, Variant]],
        *,
        draw: int,
        is_eager: bool = True,
        arcs: Arcs | None = None,
        is_looked_at: bool = False,
        state: Mapping[str, str] = {},
        is_fresh: bool = True,
    ) -> Results:
        """Make changed calls, one after the other, until one raises."""
        if is_fresh:
            self._state.restore()
            for name, code in state.items():
                change_tensor(self._tensors[name], code)
        workload, trial = self._workload, self._workload.trial
        assert trial is not None
        raised: BaseException | None = None
        plain = plain_of(workload.function)
        lookers: list[Looker[Any]] = [self._assigned] if self._assigned.is_needed else []
        is_looked_at |= arcs is not None
        lookers += [self._equal, self._conditions] if is_looked_at else []
        looking = partial(traced, arcs, *lookers)
        self._conditions.near.clear()
        # What is warned once a place is warned again after this.
        with trial.apart() as results, kept_texts() as texts, warnings.catch_warnings():
            try:
                for step, (base, variant) in enumerate(calls):
                    with (
                        variant.make(FreshCopies().call(base)) as changed,
                        looking() if lookers else nullcontext(),
                    ):
                        workload.call(changed, is_eager=is_eager, draw=draw + step)
                    workload.keep_results()
                    self._equal.settle(is_accepted=True)
            except (KeyboardInterrupt, TargetError):
                raise
            except BaseException as error:  # noqa: BLE001 - the user's program may raise anything
                raised = error
        if raised is not None:
            place = _raised_at(raised)
            self._raised |= {place} if place is not None else set()
            results.raised = f"{type(raised).__name__}: {text_of(raised)}"
            results.is_refused = place is None
            self._equal.settle(is_accepted=not results.is_refused)
        else:
            results.add_state(trial.modules)
            results.add_plain(plain, plain_of(workload.function))
        self._conditions.settle(is_accepted=not results.is_refused)
        results.add_written(texts())
        return results


def _for_outcome(outcome: Outcome, kind: str, name: str, code: str) -> _Attack:
    """Return the attack that changes an argument or a tensor of the state to reach an outcome."""
    _, line, _, is_true = outcome
    text = f"the condition at line {line} is {str(is_true).lower()}"
    if kind == "arguments":
        return _Attack(text, arguments={name: code})
    return _Attack(text, state={name: code.replace("{}", "tensor")})


def _differences(
    mine: Results, other: Results, *, is_finite: bool = False
) -> dict[ResultKind, Difference]:
    """Return how results differ by more than rounding, by kind; what a process writes to standard
    error is torch's own as well.

    Args:
        mine: Results of an edited program, or of one that is compiled.
        other: Those of the untouched program.
        is_finite: Whether outputs of the program's own calls are.
    """
    if mine.raised != other.raised:
        value, reference = (of.raised and shortened(of.raised, _MAX_ERROR) for of in (mine, other))
        difference = Difference(kind="outputs", where=THE_CALL, value=value, reference=reference)
        return {"outputs": difference}
    void = _void_gradients(other, is_finite=is_finite)
    mine, other = (results.without("gradients", void) for results in (mine, other))
    return {
        difference.kind: difference
        for difference in compared(mine, other).differences
        if not difference.may_be_rounding and difference.kind != "stderr"
    }


def _void_gradients(results: Results, *, is_finite: bool) -> tuple[str, ...]:
    """Return how the names of gradients begin that nobody could learn from: all of them if a
    parameter isn't finite, else those of calls with an output that isn't where others are.
    """
    state, outputs = results.values["state"], results.values["outputs"]
    learnt = (name.rpartition(GRADIENT_OF)[2] for name in results.values["gradients"])
    learnt = (f"{name.removesuffix(AFTER_CALLS)}{AFTER_CALLS}" for name in learnt)
    if not all(_is_finite(state.get(name)) for name in learnt):
        return ("",)
    if not is_finite:
        return ()
    calls = {name.partition(",")[0] for name, value in outputs.items() if not _is_finite(value)}
    return (*(f"{call}," for call in calls), *([GRADIENT_OF] if calls else []))


def _is_finite(value: object) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return not isinstance(value, float) or math.isfinite(value)


def _raised_at(error: BaseException) -> Line | None:
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


def _is_share(value: Tensor) -> bool:
    return value.is_floating_point() and bool(((value >= 0) & (value <= 1)).all())


def _is_alike(values: list[Tensor], others: list[Tensor]) -> bool:
    return len(values) == len(others) and all(map(is_same, values, others))


def _numbered(plan: Mapping[str, Any]) -> Iterator[tuple[int, _Attack]]:
    """Read the attacks that the untouched program's replay kept."""
    for row in plan["attacks"]:
        attack = _Attack(**{name: value for name, value in row.items() if name != "number"})
        if attack.forced is not None:
            attack.forced = Place(*attack.forced[0]), attack.forced[1]
        yield row["number"], attack
