"""Runs a program in fresh probes, each a recording of its own: untouched, or with other source,
settings or calls.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from graphdoctor.facts.located import Compared
from graphdoctor.facts.reading import write_private
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import Judged
from graphdoctor.probe.wire import ATTACKS_FILE, META_FILE, READS_FILE, REQUEST_FILE, TRACE_FOLDER
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.child import Setup, probe_command, record
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.trials.program import Program
from graphdoctor.wording import counted

EAGER = "eager"
_COMPILED = "compiled"
"""The folder of what Inductor writes for timing."""

_COMPILING_S = 600.0
"""How long a replay can take at least, unless it compiles with ``eager``."""

_RESULTS = "outputs.pt"
_ATTACKS = "attacks"
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Equal:
    """The expressions that equaled a number on each of ``count`` occasions, best first."""

    names: tuple[str, ...]
    count: int

    @property
    def is_ambiguous(self) -> bool:
        """Check whether another size of the best one's tensor equaled it, too."""
        tensor, size, _ = self.names[0].rpartition(".shape[")
        return bool(size) and any(name.startswith(f"{tensor}{size}") for name in self.names[1:])

    @property
    def words(self) -> str:
        """Return the sentence to show with an edit that relies on it."""
        return f", equal {counted(self.count, 'time')}"


Way = Literal["reached", "skipped", "raised"]
EqualSizes = Mapping[tuple[str, str, str], Equal]
"""By file, function and the expression that gives the number, as ``ast.unparse`` writes it."""


@dataclass(frozen=True)
class RoundingNames:
    """Replays that say what rounding is; ``float64``: without torch.compile, None if the program
    doesn't run so.
    """

    float64: str | None
    others: tuple[str, ...] = ()
    judged: Judged = "changed"


class Replays:
    """Runs programs, each in its own probe; where the setup has no ``warm`` one, from one of
    theirs.
    """

    def __init__(
        self, request: Request, folder: Path, setup: Setup, *, kept: Collection[str] = ()
    ) -> None:
        self._request, self._folder, self._compiled = request, folder, folder / _COMPILED
        self._kept = kept
        """Those of an earlier command that needn't run again, if they would run the same."""
        self._asked, self.setup = setup, setup
        """As asked for, and with limits of time and memory that were found since."""
        self._warm = setup.warm or WarmProbes(probe_command(setup.interpreter))
        self.count = 0
        self._is_cancelled = threading.Event()

    def __enter__(self) -> Replays:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.cancel()
        self.close()

    def replay(
        self,
        program: Program,
        name: str,
        *,
        references: Mapping[str, str] = {},
        is_eager: bool = False,
        is_float64: bool = False,
        shaken: int | None = None,
        rounding: RoundingNames | None = None,
        earlier: str | None = None,
        coverage: bool = False,
        backend: str | None = None,
        spec: Mapping[str, object] = {},
        measured: Measured | None = None,
        is_counted: bool = True,
        attacks: str | None = None,
        redraws: bool = False,
        keeps_compiled: bool = False,
        locate_s: float | None = None,
        located: Compared = "values",
        has_forms: bool = False,
        is_fresh_compiled: bool = False,
    ) -> Recording:
        """Make the calls once; ``attacks``: then on inputs that the untouched program's replay of
        this name chose, where ``redraws`` allows draws for more rows, and ``keeps_compiled`` is for
        what torch.compile makes of the untouched program on them. ``locate_s``: name the first
        operation of a graph that is wrong, for so many seconds from the first call on;
        ``located``: by what of its results.

        ``has_forms``: what callers rely on besides values, and exceptions, are results too.
        ``is_fresh_compiled``: each call finds no compiled code of an earlier one.
        """
        folder, plan = self._planned(program, name)
        plan |= {
            "is_eager": is_eager,
            "outputs": self._results_of(name),
            "references": {of: self._results_of(other) for of, other in references.items()},
            "is_float64": is_float64,
            "shaken": shaken,
            "earlier": self._results_of(earlier),
            "forms": has_forms,
            "fresh": is_fresh_compiled,
        }
        if attacks is not None:
            folder_of = str(self._folder / attacks / _ATTACKS)
            edited = {"is_reference": attacks == name, "is_edited": bool(program.content)}
            edited |= {"redraws": redraws, "keeps_compiled": keeps_compiled}
            plan["attacks"] = {"folder": folder_of, **edited}
        if locate_s is not None:
            plan["locate"] = {"limit_s": locate_s, "what": located}
        if not is_counted:
            plan |= self._compiled_plan(program, backend)
        if rounding is not None:
            plan |= {
                "float64": self._results_of(rounding.float64),
                "others": [self._results_of(other) for other in rounding.others],
                "judged": rounding.judged,
            }
        measured = measured or Measured(coverage=coverage and not is_eager, reads=True)
        request = replace(self._changed(program, backend, spec), measured=measured, trial=plan)
        if name in self._kept and _was_run(request, program, folder, self._limit_s(request)):
            return read_recording(folder)
        self._begin(program, folder)
        self._record(request, folder)
        return read_recording(folder)

    def serve(
        self,
        program: Program,
        name: str,
        descriptor: int,
        *,
        backend: str | None = None,
        is_eager: bool = False,
        is_start_timed: bool = False,
        cache: Path | None = None,
        spec: Mapping[str, object] = {},
    ) -> ProbeExit:
        """Run a program as its user would, and time its last call over a socket
        (``probe/steps/benched.py``).

        ``is_start_timed``: its start counts. Then it has an interpreter of its own, since a forked
        one has imported part of torch.compile already. ``cache``: what Inductor finds on disk. None
        for what the user has there, and with another program or backend for what was compiled when
        it was timed earlier: nothing but timing finds that, since a compile whose time somebody
        counts must do its work.
        """
        folder, plan = self._planned(program, name)
        self._begin(program, folder)
        plan |= self._compiled_plan(program, backend) if cache is None else {"compiled": str(cache)}
        plan |= {"is_eager": is_eager, "is_start_timed": is_start_timed}
        request = replace(
            self._changed(program, backend, spec),
            measured=Measured(),
            trial=plan,
            timing=descriptor,
        )
        return self._record(request, folder, is_fresh=is_start_timed)

    def serve_recorded(self, recording: Path, descriptor: int) -> ProbeExit:
        """Make the user's own run, recorded and measured as asked, which then times its last call
        as ``serve`` does.
        """
        return self._record(
            replace(self._request, timing=descriptor), recording, is_fresh=True, is_shown=True
        )

    def drop_trace(self, name: str) -> None:
        """Remove what torch logged in a replay that was only timed: nobody reads it."""
        shutil.rmtree(self._folder / name / TRACE_FOLDER, ignore_errors=True)

    def lines(self, name: str, what: Way) -> frozenset[tuple[str, int]]:
        """Read the lines, with files, that the calls and the other inputs of a replay run, below
        which some run the next line and some don't, or that raise.
        """
        return frozenset((file, line) for file, line in self._attacks_of(name).get(what, ()))

    def equal_sizes(self, name: str) -> EqualSizes:
        """Read what equaled numbers that the host needs, on the calls and the other inputs of a
        replay.
        """
        return {
            (item["file"], item["function"], item["text"]): Equal(
                tuple(item["names"]), item["count"]
            )
            for item in self._attacks_of(name).get("equal", ())
        }

    def _attacks_of(self, name: str) -> dict[str, Any]:
        try:
            attacks: dict[str, Any] = json.loads(
                (self._folder / name / _ATTACKS / ATTACKS_FILE).read_text(encoding="utf-8")
            )
        except OSError:
            return {}
        return attacks

    def in_parallel(
        self, run: Callable[[_Item], _Result], items: Sequence[_Item], *, jobs: int
    ) -> list[_Result]:
        """Run a function for each item, several at once; an interrupt stops the running ones."""
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            futures = [pool.submit(run, item) for item in items]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                self.cancel()
                pool.shutdown(cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def cancel(self) -> None:
        """Stop the replays that are running."""
        self._is_cancelled.set()

    def prepare(self, backend: str) -> None:
        """Have what the recorded program and a backend import imported once for all replays, beside
        the first ones.
        """
        self._warm.prepare(self._folder.parent / READS_FILE, backend)

    def close(self) -> None:
        """Let go of what makes probes start and compile sooner."""
        if self._asked.warm is None:
            self._warm.close()
        shutil.rmtree(self._compiled, ignore_errors=True)

    def _results_of(self, name: str | None) -> str | None:
        return None if name is None else str(self._folder / name / _RESULTS)

    def _planned(self, program: Program, name: str) -> tuple[Path, dict[str, object]]:
        """Name the folder of a replay, and plan what is the same for all."""
        folder = self._folder / name
        patches = {str(path): str(edited) for path, edited, _ in _edited(program, folder)}
        return folder, {**program.change.plan(), "patches": patches}

    def _begin(self, program: Program, folder: Path) -> None:
        """Make the folder of a replay, in place of one that an earlier command left."""
        if self._kept:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.count += 1
        for _, edited, content in _edited(program, folder):
            edited.parent.mkdir(exist_ok=True)
            write_private(edited, content)

    def _compiled_plan(self, program: Program, backend: str | None) -> dict[str, object]:
        """Place what Inductor compiles: for the recorded program and backend, where it always
        lies.
        """
        is_recorded = program == Program() and backend in (None, self._request.spec.backend)
        return {} if is_recorded else {"compiled": str(self._compiled)}

    def _changed(
        self, program: Program, backend: str | None, varied: Mapping[str, Any] = {}
    ) -> Request:
        """Build the request for a program, with other values in its ``spec``; the program's
        settings stay.
        """
        change, spec = program.change, self._request.spec
        changes: dict[str, Any] = {
            "dynamic": spec.dynamic if change.dynamic is None else change.dynamic,
            "fullgraph": spec.fullgraph or change.fullgraph,
        }
        if backend not in (None, spec.backend):
            # Mode and options belong to the backend that the user chose.
            changes |= {"backend": backend, "mode": None, "options": {}}
        changes |= varied
        changes["config"] = {**varied.get("config", spec.config), **change.config}
        return self._request.with_spec(**changes)

    def _limit_s(self, request: Request) -> float | None:
        limit = self.setup.timeout_s
        # The time of the untouched program doesn't tell what other graphs need.
        is_compiling = self._asked.timeout_s is None and request.spec.backend != EAGER
        return max(limit, _COMPILING_S) if limit is not None and is_compiling else limit

    def _record(
        self, request: Request, folder: Path, *, is_fresh: bool = False, is_shown: bool = False
    ) -> ProbeExit:
        # Once it has been shown what the program prints.
        silent: dict[str, Any] = (
            {} if is_shown else {"on_phase": Setup.on_phase, "on_output": Setup.on_output}
        )
        setup = replace(
            self.setup,
            **silent,
            is_cancelled=self._is_cancelled.is_set,
            timeout_s=self._limit_s(request),
            warm=None if is_fresh else self._warm,
        )
        ended = record(request, folder, setup)
        if ended.reason == "interrupted":
            # One Ctrl-C ends all trials.
            raise KeyboardInterrupt
        return ended


def _edited(program: Program, folder: Path) -> Iterator[tuple[Path, Path, bytes]]:
    """Name for each file that a program changes where its replay keeps the text."""
    for number, (path, content) in enumerate(program.content.items()):
        yield path, folder / "edited" / f"{number}-{path.name}", content


def _was_run(request: Request, program: Program, folder: Path, limit_s: float | None) -> bool:
    """Tell if a folder holds a replay of the same request and texts that ended by itself, or took
    longer than it may take now.
    """
    try:
        asked = json.loads((folder / REQUEST_FILE).read_bytes())
        is_same = all(path.read_bytes() == text for _, path, text in _edited(program, folder))
        ended = json.loads((folder / META_FILE).read_bytes())["exit"] or {}
    except (OSError, ValueError, KeyError):
        return False
    is_over = ended.get("reason") in ("finished", "error") or (
        ended.get("reason") == "timeout" and limit_s is not None and ended["duration_s"] >= limit_s
    )
    return is_same and is_over and asked == json.loads(json.dumps(request.for_probe()))
