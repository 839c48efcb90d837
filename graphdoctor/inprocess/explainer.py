"""``graphdoctor.explain``: one call of a live function, explained in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoctor.capture.child import read_events, write_meta
from graphdoctor.capture.request import Measured, Request, TargetText
from graphdoctor.errors import GraphDoctorError
from graphdoctor.inprocess.busy import recording_alone
from graphdoctor.inprocess.folder import RecordingFolder
from graphdoctor.inprocess.report import Report
from graphdoctor.model.hints import PYTHON, words
from graphdoctor.model.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """How a function is compiled and called to be explained.

    The first five are ``torch.compile``'s own arguments.

    Args:
        backend: A registered backend's name; ``eager`` is quickest and shows all that Dynamo does.
        mode: Such as ``reduce-overhead``.
        dynamic: Dynamic shapes always or never; None leaves it to torch.
        fullgraph: Let a graph break fail.
        options: The backend's options.
        calls: How often to make the call.
        backward: Sum the floating-point outputs and run backward, in each call.
        no_grad: Make the calls under ``torch.no_grad()``.
        coverage: Repeat the last call to measure how much of it runs in graphs.
        guards: Repeat it to time its guard checks; the diagnosis then has all guards.
        lanes: Note where the time of each call goes, and repeat the calls under the profiler for it.
    """

    backend: str = "eager"
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    calls: int = 1
    backward: bool = False
    no_grad: bool = False
    coverage: bool = True
    guards: bool = False
    lanes: bool = False

    def explain(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:  # noqa: ANN401
        """Compile a function, call it, and say what became of it.

        torch forgets what it has compiled, before and after (``torch.compiler.reset()``). What the calls change is put
        back: the module's state, the arguments, random numbers. docs/api.md says what cannot be.

        Args:
            function: A module or function; of what ``torch.compile`` made, the original.
            args: The call's positional arguments.
            kwargs: The call's keyword arguments.

        Returns:
            The report, also when the call raises an ``Exception``: then its traceback is printed to standard error,
            and ``report.traceback`` holds it.

        Raises:
            GraphDoctorError: ``function`` or an option cannot be used, or something is recorded here already.
        """
        from graphdoctor.capture.ends import end_of_failed_call
        from graphdoctor.model.run import ProbeExit
        from graphdoctor.probe.target.errors import RequestError, TargetError
        from graphdoctor.probe.ways_in.inside import explain, live_target

        self._check()
        folder = RecordingFolder()
        complaints: list[str] = []
        started = time.monotonic()
        with recording_alone():
            try:
                target = live_target(function)
                request = self._request(target.name)
                explain(request.for_probe(), target, (args, kwargs), folder.path, complain=complaints.append)
            except RequestError as error:
                message, hint = words(error.code, error.values, PYTHON)
                raise GraphDoctorError(message, hint=hint) from None
            except TargetError as error:
                raise GraphDoctorError(f"{error}.", hint=error.hint) from None
        duration_s = time.monotonic() - started
        ended = ProbeExit(status=None, reason="finished", duration_s=duration_s)
        failed = next((event for event in read_events(folder.path) if event.get("event") == "call_failed"), None)
        if failed is not None:
            ended = end_of_failed_call(failed, status=None, duration_s=duration_s)
            # Behind Dynamo's traceback that of the program without torch.compile, if there is one.
            print(complaints[-1], end="", file=sys.stderr)
        write_meta(folder.path, request.described(), ended)
        return Report(folder, has_guards=self.guards)

    def _check(self) -> None:
        if not isinstance(self.backend, str):
            raise GraphDoctorError(
                f"backend is a {type(self.backend).__name__}, not the name of a backend.",
                hint="Call torch.compile with it yourself, inside graphdoctor.record().",
            )
        if self.calls < 1:
            raise GraphDoctorError(f"calls={self.calls} makes no call.", hint="Give 1 or more.")

    def _request(self, name: str) -> Request:
        spec = RunSpec(
            target=name,
            calls=self.calls,
            backend=self.backend,
            mode=self.mode,
            dynamic=self.dynamic,
            fullgraph=self.fullgraph,
            options=self.options,
            backward=self.backward,
            no_grad=self.no_grad,
        )
        measured = Measured(coverage=self.coverage, guard_cost=self.guards, lanes=self.lanes)
        return Request(spec, TargetText(name, file=None, module=None, name=name, is_call=False), measured=measured)


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:  # noqa: ANN401
    """Compile a function with the backend ``eager``, call it once, and say what became of it.

    ``graphdoctor.Explainer`` does the same with other arguments of ``torch.compile`` and other measurements.

    Args:
        function: A module or function; of what ``torch.compile`` made, the original.
        args: The call's positional arguments.
        kwargs: The call's keyword arguments.

    Returns:
        The report, also when the call raises an ``Exception``.

    Raises:
        GraphDoctorError: ``function`` cannot be used, or something is recorded here already.
    """
    return Explainer().explain(function, *args, **kwargs)
