"""``graphdoctor.explain``: one call of a live function, explained in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from graphdoctor.api.block import recording_alone
from graphdoctor.api.report import Report, TemporaryFolder
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import CallSpec, RunSpec
from graphdoctor.trials.launch.child import last_events, write_meta
from graphdoctor.trials.launch.request import Measured, Request, TargetText
from graphdoctor.views.exit_words import PYTHON, words


@dataclass(frozen=True, kw_only=True)
class Explainer(CallSpec):
    """How to compile and call a function to explain it.

    ``backend``, ``mode``, ``dynamic``, ``fullgraph`` and ``options`` are ``torch.compile``'s own
    arguments.

    Args:
        backend: A registered backend's name. By default, ``eager``, which is the fastest and shows
            everything that Dynamo does; ``inductor`` with a mode or options.
        mode: A compile mode, such as ``reduce-overhead``.
        dynamic: Whether to use dynamic shapes; None lets torch decide.
        fullgraph: Raise an error on a graph break.
        options: The backend's options.
        regional: Compile each of the modules that repeat, such as layers, and not the whole.
        calls: How many times to make the call.
        backward: Sum the floating-point outputs and run backward in each call.
        no_grad: Make the calls under ``torch.no_grad()``.
        coverage: Repeat the last call to measure how much of it runs in graphs.
        guards: Repeat the last call to time its guard checks, and include all guards in the
            diagnosis.
        lanes: Record where the time of each call goes, repeating the last one under the profiler.
        own: Installed packages that are your own code, too.
    """

    coverage: bool = True
    guards: bool = False
    lanes: bool = False
    own: tuple[str, ...] = ()

    def explain(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:  # noqa: ANN401
        """Compile a function, call it, and report what torch.compile did.

        Resets torch's compiler state before and after (``torch.compiler.reset()``). Restores what
        the calls change: the module's state, the arguments, and random number generators.
        docs/api.md lists what can't be restored.

        Args:
            function: A module or function. Pass the original, not the result of ``torch.compile``.
            args: The call's positional arguments.
            kwargs: The call's keyword arguments.

        Returns:
            The report, even if the call raises an ``Exception``. Its traceback is then printed to
            standard error and available as ``report.traceback``.

        Raises:
            GraphDoctorError: ``function`` or an option can't be used, or this process is already
                being recorded.
        """
        from graphdoctor.probe.ways_in.in_process import uncompiled

        report: Report = uncompiled(self._explain, function, args, kwargs)
        return report

    def _explain(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Report:
        from graphdoctor.facts.run import ProbeExit
        from graphdoctor.probe.record.errors import RequestError, TargetError
        from graphdoctor.probe.ways_in.in_process import explain, live_target
        from graphdoctor.trials.launch.ends import end_of_failed_call

        self._check()
        folder = TemporaryFolder()
        started = time.monotonic()
        with recording_alone():
            try:
                target = live_target(function)
                text = TargetText(file=None, module=None, name=target.name, is_call=False)
                measured = Measured(
                    coverage=self.coverage, guard_cost=self.guards, lanes=self.lanes
                )
                spec = replace(RunSpec.of(self, target=target.name), own=self.own)
                request = Request(spec, text, measured=measured)
                explain(
                    request.for_probe(),
                    target,
                    (args, kwargs),
                    folder.path,
                    complain=lambda _text: None,
                )
            except RequestError as error:
                message, hint = words(error.code, error.values, PYTHON)
                raise GraphDoctorError(message, hint=hint) from None
            except TargetError as error:
                raise GraphDoctorError(f"{error}.", hint=error.hint) from None
        duration_s = time.monotonic() - started
        ended = ProbeExit(status=None, reason="finished", duration_s=duration_s)
        if (failed := last_events(folder.path).get("call_failed")) is not None:
            ended = end_of_failed_call(failed, duration_s=duration_s)
            # The program's own without torch.compile, if it fails there, too; else Dynamo's.
            print(failed["traceback"], end="", file=sys.stderr)
        write_meta(folder.path, request.described(), ended)
        return Report(folder, has_guards=self.guards)

    def _check(self) -> None:
        if not isinstance(self.backend, str):
            raise GraphDoctorError(
                f"backend must be the name of a backend, not a {type(self.backend).__name__}.",
                hint="Call torch.compile with it yourself, inside graphdoctor.record().",
            )
        if self.calls < 1:
            raise GraphDoctorError(f"calls must be at least 1, not {self.calls}.")


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:  # noqa: ANN401
    """Compile a function with the ``eager`` backend, call it once, and report what torch.compile
    did.

    ``graphdoctor.Explainer`` has other ``torch.compile`` arguments and other measurements; its
    ``explain`` says more.
    """
    return Explainer().explain(function, *args, **kwargs)
