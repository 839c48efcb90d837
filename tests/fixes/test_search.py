"""Rounds of trials against a program that answers from a script: which breaks it has with which
fixes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.fixes import PairedTime, SiteCounts, Treatment, TriedFix, WholeRun
from graphdoctor.facts.progress import DecidedTrial, OpenFinding, TrialEvent
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import BreakEffect, BreakReason, BreakRecord, Recording
from graphdoctor.facts.run import ProbeExit, Setting
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.trials import (
    Attacked,
    AttackFailure,
    Comparison,
    Difference,
    Replay,
    ResultKind,
)
from graphdoctor.fixes import search as engine
from graphdoctor.fixes.options import Sources
from graphdoctor.fixes.patch import Candidate, FileChange, Options, SearchOptions, SearchResult
from graphdoctor.fixes.search import search
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.launch import recorded
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request, TargetText
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EqualSizes
from graphdoctor.views.reasons import left_text
from tests.factories import (
    LOOP,
    PRINT,
    change,
    compiled,
    entry,
    frame,
    graph,
    in_words,
    recompiled,
    record,
    recording,
    why,
)

SAME = Comparison(kinds=("outputs",), differences=())
DIED = ProbeExit(status=1, reason="error", message="The program failed in call 1: NameError: y.")
Fixes = frozenset[str]
World = Callable[[Fixes], Recording]


def differing(kind: ResultKind = "outputs") -> Comparison:
    return Comparison(
        kinds=(kind,), differences=(Difference(kind=kind, where="call 1, output", largest=0.5),)
    )


def runs(
    *breaks: int,
    skips: Sequence[int] = (),
    recompiles: int = 0,
    coverage: int = 100,
    effect: BreakEffect | None = None,
    compared: Comparison | None = SAME,
    ended: ProbeExit | None = None,
    file: Path | None = None,
) -> Recording:
    """A run with breaks at lines, of which some make torch skip the function, and that many
    recompiles.

    Where not everything is compiled, the other breaks let the rest of the function run eagerly.
    """
    effect = effect or ("resumed" if coverage == 100 else "rest_eager")
    at = {} if file is None else {"file": str(file)}
    lines = [line for line in breaks if line not in skips]
    records = [record(entry(line, f'print("line {line}")', **at), effect=effect) for line in lines]
    compiles = [compiled()]
    for number, line in enumerate(skips, start=1):
        place = entry(line, f'print("line {line}")', **at)
        records.append(
            record(place, compile_id=f"{number}/0", effect="frame_skipped", chain=(PRINT, LOOP))
        )
        compiles.append(compiled(f"{number}/0", outcome="skipped"))
    compiles += [
        recompiled(f"0/{number}", change(), call=number + 1) for number in range(1, recompiles + 1)
    ]
    frames = (frame(), *(frame(number) for number in range(1, len(skips) + 1)))
    facts = recording(
        breaks=tuple(records), compiles=tuple(compiles), frames=frames, ended=ended,
        graphs=tuple(graph(index=index) for index in range(len(breaks) + 1)),
        coverage=Coverage(graph_ops=coverage, eager_ops=100 - coverage),
    )  # fmt: skip
    results = {"eager": compared} if compared else {}
    return facts.replace(replay=Replay(compared=results, attacked=Attacked(count=1)))


STOPPED = ProbeExit(status=1, reason="error", message="torch stops at a break")


class Script:
    """Stands for ``Replays``: answers from a world instead of starting probes."""

    def __init__(
        self, world: World, special: Mapping[str, Recording], untouched_s: float = 0.0
    ) -> None:
        self._world = world
        self._untouched_s, self.clock_s = untouched_s, 100.0
        self._special = special
        self.setup = Setup()
        self.count = 0
        self.asked: dict[str, Fixes] = {}
        self.backends: dict[str, str] = {}

    def replay(self, program: Program, name: str, **options: Any) -> Recording:
        self.count += 1
        self.clock_s += 1.0 if fixes_in(program) else self._untouched_s
        name = readable(name, fixes_in(program))
        assert name not in self.asked, "each replay has a folder of its own"
        if options.get("spec", {}).get("fullgraph") or program.change.fullgraph:
            facts = self._world(fixes_in(program))
            return facts.replace(exit=STOPPED) if facts.breaks else facts
        self.asked[name] = fixes_in(program)
        self.backends[name] = options.get("backend", "")
        return self._special.get(name) or self._world(fixes_in(program))

    def equal_sizes(self, _name: str) -> EqualSizes:
        return {}

    def in_parallel(
        self, run: Callable[[Any], Any], items: Sequence[Any], *, jobs: int
    ) -> list[Any]:
        return [run(item) for item in items]

    def prepare(self, backend: str) -> None:
        assert backend in ("eager", "inductor")

    def cancel(self) -> None:
        raise AssertionError("nothing was interrupted")

    def close(self) -> None:
        pass

    @property
    def trials(self) -> list[Fixes]:
        """Return the trials in order, without the runs of the untouched program and without second
        runs.
        """
        return [
            asked
            for name, asked in self.asked.items()
            if name not in ("eager", "untouched", "float64") and not name.endswith("-again")
        ]


def readable(name: str, fixes: Fixes) -> str:
    """The name of a replay, with fixes in place of a digest."""
    return re.sub(r"-[0-9a-f]{10}\b", f" {'+'.join(sorted(fixes))}", name)


def fixes_in(program: Program) -> Fixes:
    """Names of a program's fixes: config values, and words that edits left in files."""
    edited = [
        word
        for content in program.content.values()
        for word in content.decode().split()
        if word[0] == "+"
    ]
    return frozenset([*program.change.config, *(word[1:] for word in edited)])


def fix(name: str, **values: Any) -> Candidate:
    return Candidate(
        **{
            "title": f"Do {name}", "kind": "config", "is_safe": True, "targets": (),
            "change": RunChange(settings=(Setting(name=name, value=True),)), "snippet": f"{name} = True", **values,
        }
    )  # fmt: skip


@dataclass
class Patient:
    """A program to treat.

    Args:
        world: The recording of a run with some fixes.
        known: Fixes for a finding, best first, by ``code`` or ``code:line``.
        declined: Why no edit is made, likewise.
        untouched_s: How long each run without fixes takes, where one with fixes takes a second.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    world: World
    known: Mapping[str, Iterable[Candidate]] = field(default_factory=dict)
    declined: Mapping[str, str] = field(default_factory=dict)
    special: Mapping[str, Recording] = field(default_factory=dict)
    recorded: Recording | None = None
    script_type: type[Script] = Script
    backend: str = "eager"
    untouched_s: float = 0.0
    script: Script = field(init=False)
    events: list[TrialEvent] = field(init=False)
    phases: list[str] = field(init=False)

    def treated(
        self, check: Callable[[Sequence[FileChange]], None] = lambda _edits: None, **more: Any
    ) -> SearchResult:
        self.events, self.phases = list[TrialEvent](), list[str]()
        self.script = self.script_type(self.world, self.special, self.untouched_s)
        self.monkeypatch.setattr(engine, "monotonic", lambda: self.script.clock_s)
        self.monkeypatch.setattr(engine, "Replays", lambda *_args, **_options: self.script)
        if self.known:
            self.monkeypatch.setattr(engine, "options_for", self._options)
        spec = RunSpec(target="model.py", backend=self.backend)
        request = Request(spec, TargetText("model.py", None, None, is_call=False))
        options: dict[str, Any] = {"selection": Selection(), "is_timed": False, **more}
        self.folder.joinpath("recording").mkdir(exist_ok=True)
        return search(
            request, self.folder / "recording", self.recorded or self.world(frozenset()), root=self.folder,
            options=SearchOptions(**options), check=check,
            setup=Setup(on_trial=self.events.append, on_phase=self.phases.append),
        )  # fmt: skip

    def _options(self, observed: Observed, sources: Sources, selection: Selection) -> list[Options]:
        offered = []
        for proposal in (fix for proposals in self.known.values() for fix in proposals):
            for edit in proposal.edits:
                sources._originals[edit.path] = edit.before
        for finding in filter(selection.keeps, observed.diagnosis.findings):
            keys = (f"{finding.code}:{finding.location.line}", finding.code)
            key = next((key for key in keys if key in self.known), None)
            proposals = tuple(
                replace(candidate, targets=(finding.fingerprint,))
                for candidate in self.known.get(key or "", ())
            )
            declined = next((self.declined[key] for key in keys if key in self.declined), None)
            offered.append(Options(finding, proposals, (declined,) if declined else ()))
        return offered


Make = Callable[..., Patient]


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(
        world: World, fixes: Mapping[str, Iterable[Candidate]] | None = None, **values: Any
    ) -> Patient:
        return Patient(tmp_path, monkeypatch, world, fixes or {}, **values)

    return make


def told(cases: Iterable[TriedFix]) -> list[tuple[str, str, int, bool]]:
    return [
        (case.title.removeprefix("Do "), case.verdict, case.round, case.is_applied)
        for case in cases
    ]


def peeling(fixes: Fixes) -> Recording:
    """The break at line 3 hides the one at line 5, and that the one at line 7."""
    hidden = [line for line, name in ((3, "a"), (5, "b"), (7, "c")) if name not in fixes]
    return runs(*hidden[:1], coverage=100 - 10 * len(hidden))


THREE = {"GD101:3": [fix("a")], "GD101:5": [fix("b")], "GD101:7": [fix("c")]}


def test_a_fix_uncovers_the_next_break(patient):
    searched = patient(peeling, THREE)
    treatment = searched.treated().treatment
    assert told(treatment.tried) == [
        ("a", "verified", 1, True),
        ("b", "verified", 2, True),
        ("c", "verified", 3, True),
    ]
    assert [case.is_on_untouched for case in treatment.tried] == [True, False, False]
    assert [case.sites_new for case in treatment.tried[:1]] == [("/project/model.py:5 (GB0059)",)]
    assert (treatment.before.break_sites, treatment.before.coverage) == (1, 0.7)
    assert treatment.after is not None
    assert (treatment.after.break_sites, treatment.after.coverage) == (0, 1.0)
    assert treatment.settings == ("a = True", "b = True", "c = True")
    # Two are tried without: the third was tried beside the others.
    # torch was asked for one graph before and after.
    assert (treatment.left, treatment.trial_count, treatment.notes) == ((), 10, ())
    assert treatment.whole == WholeRun(is_one_graph=True)
    assert treatment.sites == SiteCounts(guarded=3)
    # It lies beside the recording.
    written = searched.folder / "recording" / "fixes.json"
    assert read_fact(type(treatment), json.loads(written.read_text())) == treatment
    # Each trial is announced once, with the verdicts of the end.
    decided = [event for event in searched.events if isinstance(event, DecidedTrial)]
    assert [(event.number, event.title, event.verdicts) for event in decided] == [
        (number, case.title, ((case.finding_place, case.verdict),))
        for number, case in enumerate(treatment.tried, start=1)
    ]
    # What was found is said before it is tried.
    assert [type(event) for event in searched.events][:4] == [OpenFinding, DecidedTrial] * 2
    found = [event for event in searched.events if isinstance(event, OpenFinding)]
    assert [event.place for event in found] == [case.finding_place for case in treatment.tried]
    trials = [phase for phase in searched.phases if phase.startswith("trial ")]
    assert trials == ["trial 1: Do a", "trial 2: Do b", "trial 3: Do c"]


ASKED = BreakReason(
    gb_type="Call to `torch._dynamo.graph_break()`", torch_id="GB0025", explanation="Asked for."
)


def breaking(*always: int, **mended: int) -> World:
    """A world of lines that break, some until the fix of a name is in."""
    return lambda fixes: runs(
        *sorted([*always, *(line for name, line in mended.items() if name not in fixes)])
    )


def where(*cases: tuple[str, Recording], otherwise: Recording) -> World:
    """A world that is that of the first fix that is in."""
    return lambda fixes: next((facts for name, facts in cases if name in fixes), otherwise)


def known(*fixes: str | Candidate) -> list[Candidate]:
    return [
        fix(name_or_fix) if isinstance(name_or_fix, str) else name_or_fix for name_or_fix in fixes
    ]


def broken(facts: Recording, *breaks: BreakRecord) -> Recording:
    return facts.replace(breaks=breaks)


def same_line(facts: Recording) -> Recording:
    return broken(
        facts, *(record(entry(break_.stack[0].line, 'print("here")')) for break_ in facts.breaks)
    )


def not_together(fixes: Fixes) -> Recording:
    return runs(compared=differing()) if fixes == {"a", "b"} else breaking(a=3, b=5)(fixes)


def neither_alone(fixes: Fixes) -> Recording:
    return runs(*([] if fixes == {"read", "branch"} else [5] if "read" in fixes else [3]))


def bold_or_harmless(fixes: Fixes) -> Recording:
    harmless = [] if "harmless" in fixes else [12]
    return (
        runs(*harmless, 9, skips=[9], coverage=20)
        if "bold" in fixes
        else runs(*harmless, 3, coverage=70)
    )


IN_PACKAGE: dict[str, Any] = {"file": "/x/lib/core.py", "origin": "third_party", "package": "lib"}
GD101_ALONE, OWN_CODE = Selection(select=("GD101",)), Selection(is_own_code_only=True)
TIMED = {"options": {"is_timed": True}}
FASTER = {"ratio": lambda before, now: 0.5 if now - before else 1.0, **TIMED}
A, A_AND_B = {"GD101": known("a")}, {"GD101:3": known("a"), "GD101:5": known("b")}
MEND_3, MEND_3_OF_2 = breaking(a=3), breaking(5, a=3)
OTHER = runs(compared=differing())
GUARD, CONTAINED = {"GD101": known("guard")}, fix("bound", contains=True)
UNASKED = {"GD101:3": known("a"), "GD107": known("b")}
ASKED_TOO = where(
    ("a", runs(5)),
    otherwise=broken(runs(3), *runs(3, 5).breaks, record(entry(7), chain=(ASKED,))),
)  # fmt: skip
MOVING = {"GD101:3": known("a"), "GD101:5": [], "GD101:7": [], "GD101:9": []}
TWO = {"GD101:3": known("a"), "GD101:12": known("b")}
MINE: dict[str, Any] = {"world": breaking(a=3, b=12), "known": TWO, "backend": "mine"}
UNTOUCHED = lambda fixes: runs(*([] if "a" in fixes else [3]), compared=None)


def slow_together(before: Fixes, now: Fixes) -> float:
    return 1.5 if now - before == {"a", "b"} else 1.02 if "b" in now - before else 1.0


SEARCHES: dict[str, dict[str, Any]] = {
    "every finding goes through its alternatives beside the others": {
        "world": breaking(a2=3, b1=5), "known": {"GD101:3": known("a1", "a2"), "GD101:5": known("b1", "b2")},
    },
    "recompiles are tried where no break can be mended": {
        "world": where(("dynamic", runs(3)), otherwise=runs(3, recompiles=1)),
        "known": {**A, "GD202": known("dynamic")},
    },
    "a skipped function is tried once its break is given up": {
        "world": where(("move", runs(3, coverage=80)), otherwise=runs(3, skips=[3], coverage=0)),
        "known": {**GUARD, "GD111": known("move")},
    },
    "equal fixes of several findings are one trial": {
        "world": lambda fixes: runs(*([] if "both" in fixes else [3, 5]), *([] if "other" in fixes else [7])),
        "known": {"GD101:3": known("both"), "GD101:5": known("both"), "GD101:7": known("other")},
    },
    "fixes that don't hold together are taken one by one": {"world": not_together, "known": A_AND_B},
    "what a fix leads to in a package is told though nobody asked for it": {
        "world": where(("a", broken(runs(9), record(entry(9, "break_here()", **IN_PACKAGE), chain=(ASKED,)))),
                       otherwise=runs(3, coverage=70)),
        "known": UNASKED, "options": {"selection": OWN_CODE},
    },
    "what nobody asked for is neither gone nor left": {
        "world": ASKED_TOO, "known": {"GD101:3": known("a"), "GD101:5": [], "GD107": []},
        "options": {"selection": GD101_ALONE},
    },
    # The first fix for line 3 lets torch reach line 9, from where it can't resume; the second
    # bounds the break.
    "a fix that leads to something worse is taken back": {
        "world": where(("bold", runs(9, skips=[9], coverage=0)), ("careful", runs(3, coverage=90)),
                       otherwise=runs(3, coverage=70)),
        "known": {"GD101:3": known("bold", fix("careful", contains=True)), "GD101:9": known("vain")}, **FASTER,
    },
    "a fix beside one that is taken back stays": {
        "world": bold_or_harmless, "known": {"GD101:3": known("bold"), "GD101:12": known("harmless")},
    },
    "of two equal lines the one that stays isn't the one that is gone": {
        "world": lambda fixes: same_line(MEND_3_OF_2(fixes)), "known": {"GD101:3": known("a"), "GD101:5": []},
    },
    "unsafe fixes are noted once and not tried": {
        "world": MEND_3_OF_2, "known": {"GD101:3": known("a"), "GD101:5": known(fix("unsafe", is_safe=False))},
        "options": {"is_unsafe_tried": False},
    },
    "nothing is tried when the run didn't finish": {"world": lambda _fixes: runs(3, ended=DIED), "known": A},
    "a program that fails in a second run proves nothing": {
        "world": MEND_3, "known": A, "special": {"eager-again": runs(ended=DIED, compared=None)},
    },
    "a program whose runs differ proves nothing": {
        "world": MEND_3, "known": A, "special": dict.fromkeys(("eager-again", "eager-again-again"), OTHER),
    },
    "rounding isn't told from a difference where float64 fails": {
        "world": MEND_3, "known": A, "special": {"eager-again": OTHER, "float64": runs(ended=DIED)},
    },
    "a run that can't be repeated leads to suggestions": {
        "world": breaking(3), "known": A, "special": {"untouched": runs(ended=DIED)},
    },
    "only breaks and recompiles are treated": {
        "world": lambda _fixes: recording(graphs=(graph(error="RuntimeError: no"),)), "known": {},
    },
    "nothing is run again where nothing can be tried": {
        "world": breaking(3), "known": {"GD101": []}, "declined": {"GD101": "its result is used"},
    },
    "what is left says why": {
        "world": breaking(5, 7, 9, a=3), "declined": {"GD101:5": "its result is used"},
        "known": {"GD101:3": known("a"), "GD101:5": [], "GD101:7": known("vain"), "GD101:9": []},
    },
    "a contained break is let go if the call isn't faster": {
        "world": where(("bound", runs(3, coverage=90)), otherwise=runs(3, coverage=70)),
        "known": {"GD101": known(CONTAINED, "vain")}, **TIMED,
    },
    "a fix that a later one makes needless is dropped": {
        "world": where(("b", runs()), ("a", runs(5)), otherwise=runs(3, 5)),
        "known": {"GD101:3": known("a"), "GD101:5": known("vain", "b")},
    },
    "a contained break isn't gone though its line no longer breaks": {
        "world": where(("bound", runs(9, coverage=90)), otherwise=runs(3, coverage=50)),
        "known": {"GD101": known(CONTAINED)}, **FASTER,
    },
    "of two fixes one removes what the other broke": {
        "world": neither_alone, "known": {"GD101:3": known("read"), "GD101:5": known("branch")},
    },
    "an operation more in the graph doesn't mend a break that moved": {
        "world": where(("a", runs(5)), otherwise=runs(3, coverage=80, effect="resumed")), "known": MOVING,
    },
    "a break that moved while others went is contained": {
        "world": where(("a", runs(5, 9)), otherwise=runs(3, 7, 9)), "known": MOVING, **FASTER,
    },
    # Compiling for another backend isn't what the user's takes.
    "trials compile with eager and the program with all fixes with the user's backend": MINE,
    "nothing is run under another backend if the user's is eager": {**MINE, "backend": "eager"},
    # Under another backend than the user's, torch doesn't do what it did in the recorded run.
    "trials are run under the user's backend if the findings are its own": {
        **MINE, "special": {"untouched": runs(3, 12, skips=[12])},
    },
    # All together, then the first alone, which works, and the second alone.
    "a fix that fails under the user's backend is found and the other stays": {
        **MINE, "special": {"mine a+b": runs(ended=DIED), "mine b": runs(ended=DIED)},
    },
    "a fix that changes results under the user's backend is blamed": {
        **MINE, "special": dict.fromkeys(("mine a+b", "mine a+b-again", "mine a", "mine a-again"), OTHER),
    },
    "a backend that changes results without fixes proves nothing": {
        **MINE, "special": dict.fromkeys(("untouched-mine", "untouched-mine-again", "mine a+b", "mine a+b-again"), OTHER),
    },
    "nothing is timed unless that is asked for": {"world": peeling, "known": THREE, "ratio": lambda _before, _now: 0.5},
    "of fixes that make the call longer the one to blame is found by halves": {
        "world": breaking(a=3, b=12, c=25),
        "known": {"GD101:3": known("a"), "GD101:12": known("b"), "GD101:25": known("c")},
        "ratio": lambda before, now: 2.0 if "b" in now - before else 0.9, **TIMED,
    },
    "a fix that makes the call longer makes room for another one, once": {
        "world": where(("slow", runs()), ("quick", runs()), otherwise=runs(3)),
        "known": {"GD101": known("slow", "quick")},
        "ratio": lambda _before, now: 4.0 if "slow" in now else 0.9, **TIMED,
    },
    "fixes that are fine alone but slow together lose the last": {
        "world": breaking(a=3, b=12), "known": TWO, "ratio": slow_together, **TIMED,
    },
    "a few microseconds more are no reason to keep a break": {
        "world": MEND_3, "known": A, "ratio": lambda _before, now: 1.04 if now else 1.0, **TIMED,
    },
    "nothing is kept of fixes that are slow in any number": {
        "world": breaking(a=3, b=12), "known": TWO, "ratio": lambda _before, now: 1.5 if now else 1.0, **TIMED,
    },
    "two fixes that fail are both found, and their findings get other ones": {
        "world": lambda fixes: runs(compared=differing()) if {"b", "d"} & fixes else breaking(
            a=3, b2=5, c=7, d2=9)(fixes),
        "known": {"GD101:3": known("a"), "GD101:5": known("b", "b2"), "GD101:7": known("c"), "GD101:9": known("d", "d2")},
    },
    "a fix that uncovers more breaks isn't kept": {
        "world": where(("a", runs(5, 7, coverage=90)), otherwise=runs(3, coverage=70)), "known": {"GD101:3": known("a")},
    },
    "a fix that uncovers more breaks stays if torch traces a function that it skipped": {
        "world": where(("a", runs(5, 7, coverage=90)), otherwise=runs(3, skips=[3], coverage=0)),
        "known": {"GD101:3": known("a")},
    },
    "a fix that removes a break of a skipped function stays though less around it is compiled": {
        "world": where(("a", runs(5, skips=[5], coverage=0)), otherwise=runs(3, 5, skips=[5], coverage=20)),
        "known": {"GD101:3": [fix("a", kind="code")]},
    },
    "a fix that loses output comes after those that don't": {
        "world": breaking(safe=3, lossy=5),
        "known": {"GD101:3": known("safe"), "GD101:5": known(fix("lossy", drops_output=True), "vain")},
    },
    "a setting that breaks more than it mends is found among others": {
        "world": lambda fixes: breaking(a=3, b=5, c=7)(fixes) if "b" not in fixes else runs(
            *([] if "a" in fixes else [3]), *([] if "c" in fixes else [7]), coverage=40),
        "known": {"GD101:3": known("a"), "GD101:5": known("b"), "GD101:7": known("c")},
    },
    "time is bounded and what wasn't tried is said": {
        "world": peeling, "known": THREE, "options": {"budget_s": 0.0},
    },
    "replays are bounded and that is said": {
        "world": breaking(3), "known": {"GD101": known(*(f"vain{number}" for number in range(9)))},
        "most": {"_MAX_REPLAYS": 7},
    },
    "less in graphs is worse": {
        "world": where(("a", runs(coverage=6)), otherwise=runs(3)), "known": A,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_tries_keeps_and_leaves_what_it_should(snapshot, patient, monkeypatch, name):
    settings = {**SEARCHES[name]}
    for bound, most in settings.pop("most", {}).items():
        monkeypatch.setattr(engine, bound, most)
    pairs = timed_pairs(monkeypatch, settings.pop("ratio", lambda _before, _now: 1.0))
    searched = patient(
        settings.pop("world"),
        settings.pop("known"),
        **{key: settings[key] for key in settings if key != "options"},
    )
    treatment = searched.treated(**settings.get("options", {})).treatment
    replays = [
        f"{name} under {searched.script.backends[name] or 'nothing'}: {', '.join(sorted(fixes)) or 'untouched'}"
        for name, fixes in searched.script.asked.items()
    ]
    tried = [
        f"{case.round} {case.title} for {case.code} at {case.finding_place}, {case.backend}: {case.verdict}"
        f"{', applied' if case.is_applied else ''}{', gone' if case.fingerprint in treatment.gone else ''}"
        f"{'' if case.is_on_untouched else ', on top'}{f', new {case.sites_new}' if case.sites_new else ''}"
        f": {why(case)}"
        for case in treatment.tried
    ]
    counts = [
        f"{counts.break_sites} sites, {counts.skipped_frames} skipped, {counts.recompiles} recompiles, "
        f"{counts.coverage}, {counts.compile_time_s} s of compiling"
        for counts in (treatment.before, treatment.after)
        if counts is not None
    ]
    timed = [f"timed {sorted(before)} beside {sorted(after)}" for before, after in pairs]
    timed += [f"{times.backend}: {times.ratio}" for times in treatment.times]
    left = [f"left {left.code} at {left.place}: {left_text(left)}" for left in treatment.left]
    whole = [
        f"{treatment.backend}, {treatment.settings}, {treatment.compared}",
        f"{len(treatment.gone)} gone",
    ]
    assert [
        *replays,
        *tried,
        *counts,
        *timed,
        *left,
        *whole,
        *in_words(treatment.notes),
    ] == snapshot


def edit(name: str, path: Path, *lines: int) -> Candidate:
    """An edit that marks lines of a file as it is on disk."""
    texts = path.read_text().splitlines()
    for line in lines:
        texts[line - 1] += f" # +{name}"
    change = FileChange(path, path.read_bytes(), "\n".join(texts).encode() + b"\n")
    return fix(name, kind="code", edits=(change,), change=RunChange(), snippet=None)


def test_edits_that_meet_are_tried_one_after_the_other(tmp_path, patient):
    path = tmp_path / "model.py"
    path.write_text("".join(f"line_{number}\n" for number in range(1, 9)))

    def world(fixes: Fixes) -> Recording:
        facts = runs(*([] if "a" in fixes else [3]), *([] if "b" in fixes else [4]), file=path)
        # Another cause: an edit that spans two breaks of one cause could have taken away either.
        return facts.replace(
            breaks=tuple(
                break_.replace(chain=(LOOP,)) if break_.stack[0].line == 4 else break_
                for break_ in facts.breaks
            )
        )

    searched = patient(world, {"GD101": []})
    original = path.read_bytes()

    def options(observed: Observed, sources: Sources, _selection: Selection) -> list[Options]:
        sources._originals.setdefault(path, original)
        path.write_bytes(sources._program.content.get(path, original))
        makers = {3: lambda: edit("a", path, 3, 4), 4: lambda: edit("b", path, 4)}
        made = [
            (finding, makers[finding.location.line]()) for finding in observed.diagnosis.findings
        ]
        path.write_bytes(original)
        return [
            Options(finding, (replace(candidate, targets=(finding.fingerprint,)),), ())
            for finding, candidate in made
        ]

    searched._options = options  # type: ignore[method-assign]
    treated = searched.treated()
    assert told(treated.treatment.tried) == [
        ("a", "verified", 1, True), ("b", "verified", 2, True),
    ]  # fmt: skip
    assert searched.script.trials[:2] == [{"a"}, {"a", "b"}]
    [written] = treated.changes
    assert written.before == original
    assert written.after.splitlines()[2:4] == [b"line_3 # +a", b"line_4 # +a # +b"]
    assert treated.treatment.diff.startswith("--- a/model.py\n")


def test_a_guard_is_tried_again_once_its_loop_has_moved(tmp_path, patient):
    path = tmp_path / "model.py"
    path.write_text("def forward(x):\n" + "".join(f"    line_{number}\n" for number in range(2, 9)))

    def world(fixes: Fixes) -> Recording:
        if "move" not in fixes:
            return runs(3, skips=[3], coverage=0, file=path)
        return runs(*([] if "guard" in fixes else [3]), coverage=80, file=path)

    before = path.read_bytes()
    moved = FileChange(path, before, before.replace(b"line_6", b"line_6()  # +move"))
    move = fix("move", kind="code", edits=(moved,), change=RunChange(), snippet=None)
    guard = fix("guard", kind="code")
    treated = patient(world, {"GD101": [guard], "GD111": [move]}).treated()
    assert told(treated.treatment.tried) == [
        ("guard", "no effect", 1, False), ("move", "verified", 1, True), ("guard", "verified", 2, True),
    ]  # fmt: skip


def test_a_function_gets_one_fix_that_contains_a_break(patient, monkeypatch):
    bounds = [fix("bound1", contains=True), fix("bound2", contains=True)]

    def world(fixes: Fixes) -> Recording:
        return runs(3, 5, coverage=50 + 20 * len(fixes))

    monkeypatch.setattr(
        "graphdoctor.fixes.trials.time_pair", timed(lambda before, after: 0.5 ** len(after))
    )
    searched = patient(world, {"GD101:3": bounds[:1], "GD101:5": bounds[1:]})
    treatment = searched.treated(is_timed=True).treatment
    assert [case.title for case in treatment.tried] == ["Do bound1"]
    assert treatment.applied


def test_reverted_edits_are_not_in_the_interrupted_set(patient, monkeypatch):
    class Interrupted(Script):
        def cancel(self) -> None:
            pass

    def time_pair(*_args: Any, **_options: Any) -> PairedTime:
        raise KeyboardInterrupt

    def world(fixes: Fixes) -> Recording:
        if "bold" in fixes:
            return runs(9, skips=[9], coverage=0)
        return runs(5, coverage=90) if "good" in fixes else runs(3, coverage=70)

    monkeypatch.setattr("graphdoctor.fixes.trials.time_pair", time_pair)
    searched = patient(
        world, {"GD101:3": [fix("good")], "GD101:5": [fix("bold")]}, script_type=Interrupted
    )
    treatment = searched.treated(is_timed=True).treatment
    assert treatment.is_interrupted
    written = (searched.folder / "recording" / "fixes.json").read_text()
    assert read_fact(Treatment, json.loads(written)) == treatment
    assert [case.title for case in treatment.tried if case.is_applied] == ["Do good"]
    assert treatment.settings == ("good = True",)
    assert treatment.after is not None
    assert treatment.after.coverage == 0.9


def test_two_equal_lines_in_one_function_are_two_findings(tmp_path, patient):
    path = tmp_path / "model.py"
    head = "import torch\nclass Net:\n    def forward(self, x):\n        for y in x:\n"
    path.write_text(
        f'{head}            print("here")\n            y = y.sin()\n            print("here")\n'
    )

    def world(fixes: Fixes) -> Recording:
        # Each keeps torch from going on in the loop, so the second shows once the first is guarded.
        line = {0: 5, 1: 8}.get(len(fixes))
        facts = runs(
            *([] if line is None else [line]),
            skips=[] if line is None else [line],
            file=path,
            coverage=0,
        )
        text = 'print("here")'
        breaks = [
            break_.replace(stack=(entry(line or 0, text, file=str(path)),))
            for break_ in facts.breaks
        ]
        return facts.replace(breaks=tuple(breaks))

    class Counting(Script):
        def replay(self, program: Program, name: str, **_options: Any) -> Recording:
            guards = sum(content.count(b"is_compiling") for content in program.content.values())
            self.count += 1
            self.asked[name] = frozenset(map(str, range(guards)))
            return world(self.asked[name])

    treated = patient(world, script_type=Counting).treated()
    assert [case.kind for case in treated.treatment.tried if case.is_applied] == ["code", "code"]
    assert treated.changes[0].after.count(b"is_compiling") == 2
    assert treated.treatment.left == ()


def test_without_trials_all_is_suggested_and_first_edits_patch(tmp_path, patient):
    path = tmp_path / "model.py"
    path.write_text("".join(f"    print({number})\n" for number in range(1, 9)))
    first, second, other = edit("a", path, 3), edit("a2", path, 3), edit("b", path, 6)

    def world(_fixes: Fixes) -> Recording:
        return runs(3, 6, file=path)

    searched = patient(world, {"GD101:3": [fix("setting"), first, second], "GD101:6": [other]})
    treated = searched.treated(is_tried=False)
    assert searched.script.asked == {}
    assert {why(case) for case in treated.treatment.tried} == {"trials are off"}
    assert [case.title for case in treated.treatment.tried] == [
        "Do setting",
        "Do a",
        "Do a2",
        "Do b",
    ]
    [change_] = treated.suggested
    assert treated.changes == ()
    assert [line for line in change_.after.decode().splitlines() if "+" in line] == [
        "    print(3) # +a",
        "    print(6) # +b",
    ]
    assert treated.treatment.trial_count == 0
    assert len(treated.treatment.left) == 2


def test_what_may_be_edited_is_checked_before_the_first_trial(tmp_path, patient):
    path = tmp_path / "model.py"
    path.write_text("    print()\n" * 8)
    safe, unsafe = edit("safe", path, 3), replace(edit("unsafe", path, 6), is_safe=False)
    searched = patient(
        lambda _fixes: runs(3, 6, file=path),
        {"GD101:3": [fix("setting"), safe], "GD101:6": [unsafe]},
    )
    asked: list[Sequence[FileChange]] = []

    def check(edits: Sequence[FileChange]) -> None:
        asked.append(edits)
        raise GraphDoctorError("no")

    for is_unsafe_tried in (False, True):
        with pytest.raises(GraphDoctorError):
            searched.treated(check, is_unsafe_tried=is_unsafe_tried)
        assert searched.script.asked == {}
    assert asked == [[*safe.edits], [*safe.edits, *unsafe.edits]]
    searched.treated(check, is_tried=False)
    assert len(asked) == 2, "nothing is written without trials"


def test_trials_are_limited_by_what_the_untouched_program_takes(patient):
    ended = ProbeExit(status=0, reason="finished", duration_s=30.0, peak_memory_bytes=2**30)
    searched = patient(lambda _fixes: runs(3, ended=ended), {"GD101": [fix("a")]})
    searched.treated()
    assert searched.script.setup == Setup(timeout_s=180.0, memory_bytes=4 * 2**30)


@pytest.mark.parametrize(
    "took_s, budget_s, limit_s", [(5.0, 50.0, 50.0), (40.0, 50.0, 80.0), (5.0, 300.0, 60.0)]
)
def test_a_trial_takes_at_most_the_budget(patient, took_s, budget_s, limit_s):
    ended = ProbeExit(status=0, reason="finished", duration_s=took_s)
    searched = patient(lambda _fixes: runs(3, ended=ended), {"GD101": [fix("a")]})
    searched.treated(budget_s=budget_s)
    assert searched.script.setup.timeout_s == limit_s


@pytest.mark.parametrize("untouched_s, verified", [(0.1, "a"), (0.7, "ab"), (1.0, "abc")])
def test_trials_get_as_long_as_the_runs_without_fixes_took(patient, untouched_s, verified):
    searched = patient(peeling, THREE, untouched_s=untouched_s)
    tried = searched.treated(budget_s=0.5).treatment.tried
    assert "".join(name for name, verdict, *_ in told(tried) if verdict == "verified") == verified


def test_rounding_is_settled_too_once_torchs_own_changes_are_known(patient):
    """On other inputs, an edit gives what torch.compile makes of the untouched program; on its own
    calls, it rounds otherwise.
    """
    (difference,) = differing().differences
    failure = AttackFailure(text="x is zero", code="", is_compiled=True, difference=difference)
    both = Replay(compared={"eager": differing()}, attacked=Attacked(count=1, failure=failure))
    beside = Replay(compared={"eager": differing()}, attacked=Attacked(count=1))
    searched = patient(
        MEND_3,
        A,
        special={"trial a": runs().replace(replay=both), "trial a-attacked": runs().replace(replay=beside)},
    )  # fmt: skip
    assert told(searched.treated().treatment.tried) == [("a", "verified", 1, True)]
    assert [name for name in searched.script.asked if name.endswith(("-attacked", "-attacked-again"))] == [
        "untouched-attacked", "trial a-attacked", "trial a-attacked-again"
    ]  # fmt: skip


def paired(ratio: float, backend: str, *, spread: float = 0.02, turns: int = 21) -> PairedTime:
    return PairedTime(
        backend=backend, before_us=1000, after_us=1000 * ratio, ratio=ratio, ratio_low=ratio * (1 - spread),
        ratio_high=ratio * (1 + spread), turns=turns,
    )  # fmt: skip


Pairs = list[tuple[Fixes, Fixes]]


def timed_pairs(monkeypatch: pytest.MonkeyPatch, ratios: Callable[[Fixes, Fixes], float]) -> Pairs:
    """Collect the pairs timed under Inductor, filled while trials are made."""
    asked: Pairs = []

    def time_pair(
        replays: Any, before: Program, after: Program, name: str, *, backend: str
    ) -> PairedTime:
        if backend != "eager":
            asked.append((fixes_in(before), fixes_in(after)))
        return timed(ratios)(replays, before, after, name, backend=backend)

    monkeypatch.setattr("graphdoctor.fixes.trials.time_pair", time_pair)
    return asked


def timed(ratios: Callable[[Fixes, Fixes], float]) -> Callable[..., PairedTime]:
    def time_pair(
        _replays: Any, before: Program, after: Program, _name: str, *, backend: str
    ) -> PairedTime:
        ratio = 1.0 if backend == "eager" else ratios(fixes_in(before), fixes_in(after))
        return paired(ratio, backend)

    return time_pair


def test_one_trial_for_several_findings_is_announced_once(patient):
    both = [fix("a")]
    searched = patient(
        lambda fixes: runs(*(() if "a" in fixes else (3, 5))), {"GD101:3": both, "GD101:5": both}
    )
    searched.treated()
    [decided] = [event for event in searched.events if isinstance(event, DecidedTrial)]
    assert [verdict for _, verdict in decided.verdicts] == ["verified", "verified"]


def test_a_verdict_that_timing_decides_is_announced_after_it(patient, monkeypatch):
    times = paired(0.3, "eager")
    monkeypatch.setattr("graphdoctor.fixes.trials.time_pair", lambda *_args, **_options: times)
    searched = patient(
        lambda fixes: runs(coverage=50) if "a" in fixes else runs(3, coverage=100),
        {"GD101:3": [fix("a")]},
    )
    treatment = searched.treated(is_timed=True).treatment
    decided = [event for event in searched.events if isinstance(event, DecidedTrial)]
    assert [event.verdicts for event in decided] == [
        ((treatment.tried[0].finding_place, treatment.tried[0].verdict),)
    ]


def test_fix_not_run_under_the_users_backend_is_unverified(patient):
    class Interrupted(Script):
        def replay(self, program: Program, name: str, **options: Any) -> Recording:
            if name == "untouched-mine":
                raise KeyboardInterrupt
            return super().replay(program, name, **options)

        def cancel(self) -> None:
            pass

    searched = patient(breaking(a=3, b=12), TWO, backend="mine", script_type=Interrupted)
    treatment = searched.treated().treatment
    assert told(treatment.tried) == [("a", "unproven", 1, False), ("b", "unproven", 1, False)]
    assert why(treatment.tried[0]) == "under mine: it wasn't run there"
    assert treatment.after is None


GIB = 2**30


@pytest.mark.parametrize(
    ("cores", "free", "peak", "device", "expected"),
    [
        (1, None, None, None, 1), (2, 64 * GIB, GIB, None, 2), (64, 64 * GIB, GIB, None, 4), (64, None, GIB, None, 4),
        (4, 12 * GIB, 2 * GIB, None, 3), (4, GIB, 2 * GIB, None, 1), (64, 64 * GIB, GIB, "cuda", 1),
    ],
)  # fmt: skip
def test_as_many_trials_run_as_there_are_cores_and_memory(
    monkeypatch, cores, free, peak, device, expected
):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr(recorded, "memory", lambda: (None, free))
    spec = RunSpec(target="model.py", device=device)
    request = Request(spec, TargetText("model.py", None, None, is_call=False))
    ended = ProbeExit(status=0, reason="finished", peak_memory_bytes=peak)
    assert engine.default_jobs(request, recording(ended=ended)) == expected


def test_a_recompile_that_another_rule_names_now_is_not_gone(patient):
    appends = entry(12, "self.history.append(y.mean().item())")
    length = change("length", "len(self.history)", "0", "1", source="L['self'].history")

    def world(fixes: Fixes) -> Recording:
        # Of a file that an edit changed, nobody knows the line's text.
        place = appends.replace(text=None) if "a" in fixes else appends
        cause = length.replace(guard_location=place)
        recompiles = (recompiled(f"0/{number}", cause, call=number + 1) for number in (1, 2))
        broken_at = () if "a" in fixes else (3,)
        return runs(*broken_at).replace(compiles=(compiled(), *recompiles))

    treatment = patient(world, {"GD101:3": known("a")}).treated().treatment
    assert told(treatment.tried) == [("a", "verified", 1, True)]
    assert [left.code for left in treatment.left] == ["GD215"]
    assert treatment.gone == (treatment.tried[0].fingerprint,)
