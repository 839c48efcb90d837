"""Makes the calls that attack an edit, of the untouched program and later of one with the edit, and
compares them.

The untouched program decides which calls are worth making and keeps what they gave, without
torch.compile and with it. What it refuses itself, other than by its own ``raise`` or ``assert``, is
left out. A difference that it has under torch.compile too isn't the edit's.
"""

from __future__ import annotations

import contextlib
import dis
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch

from ...facts.trials import THE_CALL, Attacked, AttackFailure, Difference, Replay, ResultKind
from ...wording import shortened
from ..record.errors import TargetError, text_of, type_name
from ..record.files import is_user_file
from ..record.streams import kept_texts
from ..replay.attacks import Attack, attacks_of
from ..replay.comparing import compared
from ..replay.equal_sizes import EqualSizes
from ..replay.results import Results
from ..target.snapshot import FreshCopies, State
from ..target.targets import Call
from ..wire import ATTACKS_FILE
from .workload import Workload

_LIMIT_S = 3.0
_LIMIT_FACTOR = 4
"""How much longer than the untouched program's a changed program's attacks may take."""

_RECOMPILE_LIMIT = 64
_MAX_ERROR = 100
_MAX_CALLS = 8
"""So many of the program's own calls are looked at for the lines that they run."""

_OFTEN = 3
"""So many of the calls that are made take each step of the program, if so many are found."""

_Arcs = set[tuple[CodeType, int, int]]
"""Steps of the program's own code from one instruction to another."""


class Attacking:
    """The attacks on one program's calls; ``plan``: the request's."""

    def __init__(self, workload: Workload, plan: Mapping[str, Any]) -> None:
        self._workload = workload
        self._folder = Path(plan["folder"])
        self._is_reference = bool(plan["is_reference"])
        self._is_edited = bool(plan["is_edited"])
        self._calls: list[Call] = []
        self._state = State(None)
        self._raised: set[tuple[str, int]] = set()
        """The program's own lines that raised on purpose."""
        self._equal = EqualSizes()

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """The calls to make; the first ones are remembered before that, and so is the state that
        they begin with.
        """
        for call in calls:
            if not self._calls:
                self._state = State(self._workload.function)
            if len(self._calls) < (_MAX_CALLS if self._is_reference else 1):
                self._calls.append(FreshCopies().call(call))
            yield call

    def run(self, replay: Replay) -> None:
        """Make them, and report what they show beside a replay of the program's own calls."""
        # What differs from both is wrong already.
        is_wrong = bool(replay.compared) and all(
            comparison.results for comparison in replay.compared.values()
        )
        if not self._calls or (is_wrong and not self._is_reference):
            return
        events = self._workload.events
        limit = torch._dynamo.config.patch(recompile_limit=_RECOMPILE_LIMIT)
        try:
            with self._workload.repeating("trying other inputs"), limit:
                found = self._keep_reference() if self._is_reference else self._attack()
        except Exception as error:  # noqa: BLE001 - an extra, whose failure must not lose the trial
            events.gap(
                "attacks", f"Other inputs were not tried: making them raised {type_name(error)}."
            )
            return
        if found is not None:
            events.write("attacked", found)

    def _attacks(self) -> Iterator[Attack]:
        return attacks_of(FreshCopies().call(self._calls[0]), self._workload.function)

    def _keep_reference(self) -> Attacked:
        """Make the calls of the untouched program, and keep those that are worth making with what
        they gave.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        index: list[dict[str, Any]] = []
        refused = 0
        known: Counter[tuple[CodeType, int, int]] = Counter()
        shown: _Arcs = set()
        torchs: set[ResultKind] = set()
        began_s = time.monotonic()
        ended_s = began_s + _LIMIT_S
        # Each trial makes the program's own calls anyway; what they reach is known of the first
        # ones.
        for at in range(len(self._calls)):
            arcs: _Arcs = set()
            self._made(None, is_eager=True, arcs=arcs, at=at, draw=at)
            known.update(arcs)
            shown |= arcs
        for number, attack in enumerate(self._attacks()):
            if time.monotonic() > ended_s:
                break
            arcs = set()
            eager = self._made(attack, is_eager=True, arcs=arcs, draw=number)
            if eager.is_refused:
                refused += not attack.is_search
                continue
            # Compiling takes long, so what goes no way of its own is only tried in eager mode.
            is_compiled = not attack.is_search or any(known[arc] < _OFTEN for arc in arcs)
            known.update(arcs)
            shown |= set() if attack.is_empty else arcs
            eager.save(self._folder / f"{number}-eager.pt")
            if is_compiled:
                compiled = self._made(attack, is_eager=False, draw=number)
                torchs |= {found.kind for found in _differences(compiled, eager)}
                compiled.save(self._folder / f"{number}-compiled.pt")
            index.append({"number": number, "text": attack.text, "is_compiled": is_compiled})
        found = {
            "attacks": index,
            "took_s": time.monotonic() - began_s,
            "reached": sorted(_lines(shown)),
        }
        found |= {"raised": sorted(self._raised), "equal": self._equal.as_json()}
        (self._folder / ATTACKS_FILE).write_text(json.dumps(found), encoding="utf-8")
        return Attacked(count=len(index), refused_count=refused, torch_kinds=tuple(sorted(torchs)))

    def _attack(self) -> Attacked | None:
        """Make the same calls of a changed program, until one gives something else."""
        try:
            plan = json.loads((self._folder / ATTACKS_FILE).read_text(encoding="utf-8"))
        except OSError:
            return None
        ended_s = time.monotonic() + _LIMIT_FACTOR * max(plan["took_s"], _LIMIT_S)
        wanted = {
            attack["number"]: attack["is_compiled"]
            for attack in plan["attacks"]
            if self._is_edited or attack["is_compiled"]
        }
        torchs: set[ResultKind] = set()
        dropped: dict[ResultKind, Difference] = {}
        exceptions: dict[bool, AttackFailure] = {}
        count = 0
        for number, attack in enumerate(self._attacks()):
            if number not in wanted or time.monotonic() > ended_s:
                continue
            count += 1
            eager = compiled = Results.load(self._folder / f"{number}-eager.pt")
            if wanted[number]:
                compiled = Results.load(self._folder / f"{number}-compiled.pt")
            for is_eager in [True] * self._is_edited + [False] * wanted[number]:
                mine = self._made(attack, is_eager=is_eager, draw=number)
                for found in _differences(mine, eager):
                    beside = {} if is_eager else {one.kind for one in _differences(mine, compiled)}
                    own = {} if is_eager else {one.kind for one in _differences(compiled, eager)}
                    if not is_eager and (found.kind in own or found.kind not in beside):
                        torchs.add(found.kind)
                    elif not is_eager and found.change == "fewer":
                        dropped.setdefault(found.kind, found)
                    else:
                        raised = (
                            (eager.raised, mine.raised) if eager.raised and mine.raised else None
                        )
                        failure = AttackFailure(
                            text=attack.text,
                            code=self._seeded(number) * mine.draws_random + attack.code,
                            is_compiled=not is_eager,
                            difference=found,
                            raised=raised,
                        )
                        if raised is None:
                            return self._found(count, failure=failure)
                        exceptions.setdefault(is_eager, failure)
        told = {"dropped": tuple(dropped.values()), "exceptions": tuple(exceptions.values())}
        return self._found(count, **told, torch_kinds=tuple(sorted(torchs)))

    def _seeded(self, draw: int) -> str:
        """The line after which a call draws the same numbers as the trial's."""
        return f"torch.manual_seed({self._workload.request['seed'] + draw})\n"

    def _found(self, count: int, **found: Any) -> Attacked:
        return Attacked(count=count, is_edited=self._is_edited, **found)

    def _made(
        self,
        attack: Attack | None,
        *,
        is_eager: bool,
        arcs: _Arcs | None = None,
        at: int = 0,
        draw: int,
    ) -> Results:
        """What a call gave, or raised."""
        if at == 0:
            self._state.restore()
        workload, trial = self._workload, self._workload.trial
        assert trial is not None
        call = FreshCopies().call(self._calls[at])
        raised: BaseException | None = None
        # What is warned once a place is warned again after this.
        with trial.apart() as results, kept_texts() as texts, warnings.catch_warnings():
            try:
                call = call if attack is None else attack.make(call)
                with contextlib.nullcontext() if arcs is None else _traced(arcs, self._equal):
                    workload.call(call, is_eager=is_eager, draw=draw)
                workload.keep_results()
            except (KeyboardInterrupt, TargetError):
                raise
            except BaseException as error:  # noqa: BLE001 - the user's program may raise anything
                raised = error
        if raised is not None:
            text = f"{type(raised).__name__}: {text_of(raised)}"
            place = _raised_at(raised)
            self._raised |= {place} if place is not None else set()
            results = Results(raised=text, is_refused=place is None)
        else:
            results.add_state(trial.modules)
        self._equal.settle(is_accepted=not results.is_refused)
        results.add_written(texts())
        return results


def _differences(mine: Results, other: Results) -> list[Difference]:
    """How results differ by more than rounding; what a process writes to standard error is torch's
    own as well.
    """
    if mine.raised != other.raised:
        value, reference = (of.raised and shortened(of.raised, _MAX_ERROR) for of in (mine, other))
        return [Difference(kind="outputs", where=THE_CALL, value=value, reference=reference)]
    return [
        one
        for one in compared(mine, other).differences
        if not one.may_be_rounding and one.kind != "stderr"
    ]


def _raised_at(error: BaseException) -> tuple[str, int] | None:
    """Where a program raised an error on purpose, by ``raise`` or ``assert``; None if torch or
    Python raised it.
    """
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not is_user_file(last.tb_frame.f_code.co_filename):
        return None
    code = last.tb_frame.f_code
    is_on_purpose = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return (code.co_filename, last.tb_lineno) if is_on_purpose else None


def _lines(arcs: _Arcs) -> set[tuple[str, int]]:
    """The lines that were run, with their files."""
    run: defaultdict[CodeType, set[int]] = defaultdict(set)
    for code, _, instruction in arcs:
        run[code].add(instruction)
    return {
        (code.co_filename, line)
        for code, instructions in run.items()
        for start, end, line in code.co_lines()
        if line is not None and any(start <= one < end for one in instructions)
    }


@contextlib.contextmanager
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
