"""``graphdoctor run``: a script as it is, and what torch.compile did in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from graphdoctor.commands.options import (
    COLOR,
    VERBOSE,
    Given,
    OutputOptions,
    ProcessOptions,
    ShownOptions,
    argument,
    with_options,
)
from graphdoctor.commands.output import Output, choose_output
from graphdoctor.commands.running import (
    EXIT_FAILED,
    import_meanwhile,
    import_report_meanwhile,
    project_settings,
    tell_place,
)
from graphdoctor.commands.terminal import Color, complain, console_of, reported, say, warn
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.local import executor_for
from graphdoctor.facts.diagnosis import Diagnosis, Result
from graphdoctor.facts.spec import option
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.gate import expectations
from graphdoctor.rules.gate.expectations import UnmetExpectation
from graphdoctor.studies.documents import JOB
from graphdoctor.trace.folder import open_folder
from graphdoctor.trials.launch.child import check_interpreter, interpreter
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.script import find_script, run_script
from graphdoctor.views.formats import DIAGNOSIS, Document
from graphdoctor.wording import first_line

C = TypeVar("C")


_EXCEEDED = 1


@dataclass(frozen=True)
class LimitOptions:
    """Limits of a script."""

    max_recompiles: int | None = option(
        None, "End with status 1 if there are more recompiles.", metavar="N", least=0
    )
    max_breaks: int | None = option(
        None, "End with status 1 if more lines break graphs.", metavar="N", least=0
    )
    max_compile_seconds: float | None = option(
        None, "End with status 1 if torch compiles for longer.", metavar="SECONDS", least=0
    )
    no_limit_hit: bool = option(
        False, "End with status 1 if a function reaches torch's recompile limit."
    )

    @property
    def is_any(self) -> bool:
        """Return whether there is one."""
        return self != LimitOptions()

    def unmet(self, diagnosis: Diagnosis) -> Iterator[UnmetExpectation]:
        """Yield what goes beyond them, or can't be known."""
        checked: list[UnmetExpectation | None] = []
        if (most := self.max_recompiles) is not None:
            checked.append(expectations.recompiles(diagnosis, limit=most, is_empty_allowed=False))
        if (most := self.max_breaks) is not None:
            checked.append(expectations.breaks(diagnosis, limit=most, own_code=False))
        if (most_s := self.max_compile_seconds) is not None:
            checked.append(expectations.compile_time(diagnosis, limit_s=most_s))
        if self.no_limit_hit:
            checked.append(expectations.limit_hits(diagnosis))
        yield from (item for item in checked if item is not None)


@with_options
def run(
    script: Annotated[str, argument("A Python file or a folder with __main__.py.")],
    shown: ShownOptions,
    process: ProcessOptions,
    limits: LimitOptions,
    flags: Given,
    arguments: Annotated[
        list[str] | None,
        argument("The script's own arguments. Our options come before the script."),
    ] = None,
    module: bool = option(False, "The script is a module's name, as in python -m.", flag="-m"),
    report: Path | None = option(
        None, "Also write the report to this file: .html, .md, .json or .txt."
    ),
    force: bool = option(False, "Overwrite the file that --report names."),
    own: list[str] | None = option(
        None, "An installed package that is your own code, too. Repeatable.", metavar="PACKAGE"
    ),
    is_watching: bool = option(
        False, "Also print a line for each compile as it happens.", flag="--watch"
    ),
    verbose: bool = VERBOSE,
    color: Color = COLOR,
) -> None:
    """Run a script as python would, and report what torch.compile did.

    The report goes to standard error. The exit status is the script's own, or 1 if it goes beyond a
    limit.

    Examples:
        graphdoctor run train.py --epochs 2: with the script's options
        graphdoctor run --report report.html train.py: write a page too
    """
    if str(report) == "-":
        raise GraphDoctorError(
            "Standard output belongs to the script.", hint="Name a file: --report out.json."
        )
    if report is None:
        flags.refuse(("force",), without="--report")
    settings = project_settings(process.recordings)
    asked = OutputOptions(
        output=report, force=force, verbose=verbose, quiet=process.quiet, color=color
    )
    output = choose_output(DIAGNOSIS, asked, Given(), is_on_stdout=False)
    selection = shown.selection(settings)
    launched = find_script(script, arguments or [], is_module=module)
    if not module:
        _warn_of_misplaced(script, launched.arguments)
    python = interpreter(process.python)
    check_interpreter(python)
    recording = settings.store.create(launched.label)
    import_report_meanwhile()
    import_meanwhile("graphdoctor.fixes.options")
    ended = run_script(
        launched,
        recording.path,
        python=python,
        timeout_s=process.timeout,
        own=own or (),
        is_watching=is_watching,
    )
    sign(recording.path)
    if ended.unwritten is not None:
        complain(ended.unwritten.message, ended.unwritten.hint)
    elif report is not None or not process.quiet:
        _report(recording.path, selection, output, limits)
        tell_place(recording)
    status = ended.status
    if status == 0 and limits.is_any:
        status = _status_of(limits, recording.path)
    raise typer.Exit(status)


def _status_of(limits: LimitOptions, recording: Path) -> int:
    """Report what goes beyond the limits, in any rank, and return the exit status."""
    status = 0
    try:
        folder = open_folder(recording)
        # One rank alone is the whole.
        ranks = {it.rank: it.folder for it in folder.ranks} if len(folder.ranks) > 1 else {}
        for rank, of_rank in ranks.items() or ((None, folder),):
            diagnosis = diagnose_recording(of_rank, Selection(), Needs()).diagnosis
            for unmet in limits.unmet(diagnosis):
                status = _EXCEEDED
                where = "" if rank is None else f"rank {rank}: "
                complain(f"{where}expected {unmet.expected}, found {unmet.found}", unmet.hint)
                for finding in unmet.findings:
                    at = f"{relative(finding.location.file, Path.cwd())}:{finding.location.line}"
                    say(f"  {at} {finding.code} {first_line(finding.message)}")
    except Exception as error:  # noqa: BLE001 - what can't be read can't be known to hold
        reported(error)
        return EXIT_FAILED
    return status


def _warn_of_misplaced(script: str, arguments: Sequence[str]) -> None:
    from graphdoctor.commands.app import misplaced_options

    for name in misplaced_options(script, arguments, "run", "explain")[0]:
        warn(f"{name} goes to {script}: options of graphdoctor come before the script.")


def _report(
    recording: Path, selection: Selection, output: Output[Result], limits: LimitOptions
) -> None:
    """Show the report on standard error, and write it where that was asked for.

    Trouble with the report is reported and ends here: the exit status is the script's.
    """
    from graphdoctor.studies.ranks.job import job_report

    try:
        folder = open_folder(recording)
        ranks = folder.ranks
        if len(ranks) > 1:
            job = job_report(recording, ranks, executor_for(), selection)
            _show(job, JOB, output.showing(JOB))
        else:
            from graphdoctor.fixes.options import with_declined

            result = diagnose_recording(folder, selection, output.needs)
            diagnosis = with_declined(result.diagnosis, recording, Path.cwd())
            is_within = limits.is_any and not any(limits.unmet(diagnosis))
            options = replace(output.options, is_within_limits=is_within)
            shown = replace(output, options=options)
            _show(replace(result, diagnosis=diagnosis), DIAGNOSIS, shown)
    except BrokenPipeError:
        pass  # whoever read our standard error has gone
    except Exception as error:  # noqa: BLE001 - see the docstring
        reported(error)


def _show(content: C, document: Document[C], output: Output[C]) -> None:
    if not output.is_quiet:
        options = replace(output.options, console=console_of(output.color, is_stderr=True))
        document.named("text").render(content, options)
    if output.path is not None:
        output.write(content)
