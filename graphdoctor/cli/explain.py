"""``graphdoctor explain``: run a target under torch.compile and say what became of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphdoctor.cli.options import (
    Colour,
    ColourOption,
    ForceOption,
    Format,
    FormatOption,
    IgnoreOption,
    OutputOption,
    OwnCodeOption,
    QuietOption,
    SelectOption,
    VerboseOption,
)

if TYPE_CHECKING:
    from graphdoctor.capture.request import Request
    from graphdoctor.config import Settings
    from graphdoctor.model.diagnosis import Diagnosis

_FAILED = 2
_INTERRUPTED = 130


def explain(
    target: Annotated[
        str,
        typer.Argument(help="file.py, file.py:name, file.py:factory() or package.module:name.", show_default=False),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="One argument of the call: f32[8,128], i64[8], bool[2,2], int:3, float:0.5, bool:true, str:abc, "
            "none, or name=… for a keyword. Integers are drawn from {0, 1}. Repeatable.",
        ),
    ] = None,
    calls: Annotated[int, typer.Option(help="Make the calls so many times.", min=1)] = 1,
    backend: Annotated[str, typer.Option(help="A registered backend; eager shows breaks quickest.")] = "eager",
    mode: Annotated[str | None, typer.Option(help="torch.compile's mode, such as max-autotune.")] = None,
    dynamic: Annotated[
        bool | None,
        typer.Option("--dynamic/--no-dynamic", help="torch.compile's dynamic.", show_default=False),
    ] = None,
    fullgraph: Annotated[bool, typer.Option("--fullgraph", help="torch.compile's fullgraph: a break raises.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="One of torch.compile's options, name=value. Repeatable."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="Set torch._dynamo.config.name=value, or another config. Repeatable."),
    ] = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="Sum the floating outputs of each call and run backward.")
    ] = False,
    train: Annotated[
        bool | None,
        typer.Option("--train/--eval", help="The module's mode; by default as it comes.", show_default=False),
    ] = None,
    no_grad: Annotated[bool, typer.Option("--no-grad", help="Call under torch.no_grad().")] = False,
    seed: Annotated[
        int, typer.Option(help="Seed of Python's, NumPy's and torch's random numbers.", min=0, max=2**64 - 1)
    ] = 0,
    device: Annotated[
        str | None,
        typer.Option(help="Move the module and its inputs there, such as cuda.", show_default=False),
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage/--no-coverage", help="Repeat the last call to measure coverage.")
    ] = True,
    timeout: Annotated[
        float | None, typer.Option(help="Stop the run after so many seconds.", min=0.001, show_default=False)
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="Run the target with this interpreter; it needs torch, not graphdoctor.", show_default=False),
    ] = None,
    own_code: OwnCodeOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    format: FormatOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    color: ColourOption = Colour.auto,
) -> None:
    """Compile a target, make its calls, and say which graphs came out and why it broke."""
    from graphdoctor.capture.request import Request, parse_assignments, parse_inputs, parse_target
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    chosen = Output.choose(format=format, path=output, force=force, verbose=verbose, colour=color, quiet=quiet)
    shown = Shown.choose(settings, own_code=own_code, select=select, ignore=ignore)
    request = Request(
        target=parse_target(target),
        inputs=parse_inputs(inputs or []),
        calls=calls,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        fullgraph=fullgraph,
        options=parse_assignments(option or [], "--option"),
        config=parse_assignments(config or [], "--config"),
        backward=backward,
        train=train,
        no_grad=no_grad,
        seed=seed,
        device=device,
        coverage=coverage,
    )
    recording, ended = _record(request, settings, python=python, timeout_s=timeout, is_quiet=quiet)
    diagnosis = diagnose_recording(recording, shown)
    if diagnosis.calls or diagnosis.compiles or chosen.format is not Format.text:
        chosen.write(diagnosis)
    if ended.get("message"):
        complain(ended["message"], ended.get("hint"))
    if ended["reason"] == "interrupted":
        raise typer.Exit(_INTERRUPTED)
    if ended["reason"] != "finished" and not _is_answer(diagnosis):
        raise typer.Exit(_FAILED)


def _is_answer(diagnosis: Diagnosis) -> bool:
    """torch.compile's own refusal (fullgraph, a backend) of a call that works without it is what was asked for."""
    errors = [call.error for call in diagnosis.calls if call.error is not None]
    return any(error.from_compiler and error.eager in (None, "ok") for error in errors)


def _record(
    request: Request, settings: Settings, *, python: str | None, timeout_s: float | None, is_quiet: bool
) -> tuple[Path, dict[str, Any]]:
    import threading

    from graphdoctor.capture.child import interpreter, record
    from graphdoctor.capture.store import Store
    from graphdoctor.cli.progress import Progress

    store = Store(Path.cwd(), keep_count=settings.keep_recordings)
    place = request.target.file or request.target.module or ""
    recording = store.create(Path(place).stem)
    store.remember(recording)
    # What the report needs is imported while the probe imports torch.
    threading.Thread(target=_import_report, daemon=True).start()
    with Progress(is_quiet=is_quiet) as progress:
        ended = record(
            request,
            recording,
            python=interpreter(python),
            timeout_s=timeout_s if timeout_s is not None else settings.timeout,
            watching=progress.watching,
        )
    return recording, ended


def _import_report() -> None:
    # Only a head start: whatever goes wrong here comes up again where the import is needed.
    with contextlib.suppress(Exception):
        import graphdoctor.render.console
        import graphdoctor.rules.diagnose
        import graphdoctor.trace.reader  # noqa: F401
