"""What a report ends with: the command to run next, for what it found, or why none is left.

Comes in: facts of a run or of a study. Goes out: a command for a shell, or ``Done``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from graphdoctor.facts.accuracy import AccuracyReport
from graphdoctor.facts.bench import CURED, EAGER, BenchReport, CureReport
from graphdoctor.facts.check import CheckReport, DiagnosisComparison, TargetCheck
from graphdoctor.facts.command import command_line
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import ExportReport
from graphdoctor.facts.fixes import LOSSY, WORKING, Treatment, TrialChoices
from graphdoctor.facts.profile import ProfileReport
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.survey import SurveyReport
from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.views.parts import Done

_FAILS_ALONE = Done("the program fails without torch.compile: fix that first")
_NAMELESS = Done("no command can name this program; nothing else was found")


def after_run(
    diagnosis: Diagnosis, *, is_written: bool = False, is_within_limits: bool = False
) -> str | Done:
    """Of a run: try fixes for what was found, write those that hold, or measure whether compiling
    pays. One that ended early is run again.

    Of a script or a log, which only a person can change: the page of what was found; of a script
    in which nothing was, the limits that keep it so.
    """
    recording = diagnosis.recording
    if recording.has_failed_alone:
        return _FAILS_ALONE
    if recording.exit.reason == "running":
        return Done("this is what it did so far; it still runs")
    if command_line(recording.target, "explain") is None:
        return _after_script(diagnosis, is_within_limits=is_within_limits)
    return _after_target(diagnosis, is_written=is_written) or _NAMELESS


def _after_script(diagnosis: Diagnosis, *, is_within_limits: bool) -> str | Done:
    recording, target = diagnosis.recording, diagnosis.recording.target
    if recording.exit.reason == "finished" and recording.exit.status and not recording.compiles:
        status = recording.exit.status
        return Done(
            f"the script ended with status {status} before it compiled anything:"
            " its output says why"
        )
    if target.model is not None and not recording.compiles:
        return _explain(target.model) or _NAMELESS
    if page := explained(finding.code for finding in diagnosis.findings):
        return page
    if is_within_limits:
        return Done("it keeps within its limits")
    summary = diagnosis.summary
    line = f"graphdoctor run {target.text}"
    if target.kind != "script" or not line.isprintable():
        return _NAMELESS
    if recording.is_partial:
        return line
    if not recording.compiles:
        return Done("torch.compile compiled nothing in it")
    limits = f"--max-breaks {summary.break_sites} --max-recompiles {summary.recompiles}"
    return line.replace("run", f"run {limits} --no-limit-hit", 1)


def _after_target(diagnosis: Diagnosis, *, is_written: bool) -> str | Done | None:
    recording, target = diagnosis.recording, diagnosis.recording.target
    if target.model is not None and not recording.compiles:
        return _explain(target.model)
    if recording.is_partial:
        return command_line(target, "explain")
    treatment = recording.treatment
    if treatment is None:
        return command_line(target, "fix" if _is_broken(diagnosis.findings) else "bench")
    is_written = is_written or treatment.is_written
    if (patch := treatment.patch) is not None:
        # Write what holds, unless nobody knows where it was read; else measure it, or try fixes in
        # its place.
        if patch.verdict not in WORKING:
            return command_line(target, "fix")
        unsafe = ["--unsafe-fixes"] if patch.verdict == LOSSY else []
        line = command_line(target, "try", *unsafe, *_timing(treatment.choices), "--apply")
        if is_written or patch.name == "-" or line is None:
            return command_line(target, "bench")
        return line.replace("graphdoctor try ", f"graphdoctor try {shlex.quote(patch.name)} ", 1)
    if (command := write_command(treatment, target)) is not None and not is_written:
        return command
    if treatment.is_unfinished:
        return command_line(target, "fix", *_choices(treatment))
    if treatment.after is None and _is_broken(diagnosis.findings):
        if any(fix.untried_cause == "unsafe" for fix in treatment.tried):
            return command_line(target, "fix", *_choices(treatment), "--unsafe-fixes")
        # A bench of what still breaks would lead here again.
        return explained(finding.code for finding in diagnosis.findings)
    if treatment.after is not None and not written_count(treatment):
        # A bench of the program as it is would lead here again.
        return Done("add the lines above to your program yourself")
    return command_line(target, "bench")


def after_bench(report: BenchReport) -> str | Done:
    """Of a bench: measure what may be faster, cure what holds it back, keep what is fast, or see
    why nothing is.
    """
    return _after_bench(report) or _NAMELESS


def _after_bench(report: BenchReport) -> str | None:
    target, verdict, others = _as_asked(report.target), report.verdict, report.variants[1:]
    findings = [finding for variant in others for finding in variant.findings]
    if report.is_interrupted:
        return command_line(target, "bench")
    if verdict.best is None:
        return command_line(target, "explain")
    if all(variant.status == "wrong" for variant in others):
        return command_line(target, "accuracy")
    if verdict.untried is not None:
        return command_line(target, "bench", "--variant", verdict.untried)
    if _is_broken(findings):
        return command_line(target, "fix")
    if verdict.best != EAGER:
        return kept(target)
    # Whoever asked why, and nothing else, has been through the rest.
    if report.measured == ("causes",) and (page := explained(finding.code for finding in findings)):
        return page
    is_slower = all(variant.judgement == "slower" for variant in others if variant.status == "ok")
    return command_line(target, "cure" if is_slower else "profile")


def after_profile(report: ProfileReport) -> str | Done:
    """Of a profile: try what its findings ask for, or search for the fastest way to run."""
    command = "fix" if _is_broken(report.findings) else "cure"
    return command_line(_as_asked(report.target), command) or _NAMELESS


def after_cure(report: CureReport, *, is_written: bool) -> str | Done:
    """Of a cure: write its edits, keep what is fast, search once more where the machine was too
    noisy, or see why the program fails.
    """
    target, noise = _as_asked(report.target), report.noise
    is_known = noise is not None and not noise.is_noisy
    command: str | None
    if report.best == EAGER and is_known and not report.is_interrupted:
        return Done("keep eager mode for this model")
    if report.best is None and report.eager.call_us is None and report.eager.status != "ok":
        return _FAILS_ALONE
    if report.is_interrupted or report.best == EAGER:
        command = command_line(target, "cure")
    elif report.best == CURED and report.diff and not is_written:
        command = command_line(target, "cure", "--apply")
    else:
        command = command_line(target, "explain") if report.best is None else kept(target)
    return command or _NAMELESS


def after_accuracy(report: AccuracyReport) -> str | Done:
    """Of a comparison of results: what differs goes into a report to PyTorch; what was interrupted
    is run again; where nothing was compiled, or nobody can say, why.
    """
    target = _as_asked(report.target)
    if report.is_interrupted:
        return command_line(target, "accuracy") or _NAMELESS
    if report.verdict == "unknown" or not report.graphs:
        return command_line(target, "explain") or _NAMELESS
    if report.verdict != "different":
        return Done("compiled code computes what eager mode does")
    if report.is_branch_explained:
        return Done("the program itself takes another way when it is compiled")
    return "graphdoctor bundle"


def after_export(report: ExportReport) -> str | Done:
    """Of an export: the page of the first rule that is in the way."""
    codes = (blocker.finding.code for way in report.ways for blocker in way.blockers)
    works = Done("torch.export works" if report.best else "torch names no line to change")
    return explained(codes) or works


def after_comparison(comparison: DiagnosisComparison) -> str | Done:
    """Of two runs: try fixes for what is new, or measure both; of scripts, the page of what is
    new.
    """
    remaining = (*comparison.new, *(kept.after for kept in comparison.same))
    command = "fix" if _is_broken(remaining) else "bench"
    return (
        command_line(comparison.after.target, command)
        or explained(finding.code for finding in comparison.new)
        or Done("nothing is new")
    )


def after_check(report: CheckReport) -> str | Done:
    """Of a check: fixes for the first target that failed it, or its run, if that shows more."""
    failed = next((target for target in report.targets if _has_more(target)), None)
    if failed is None:
        is_passed = all(target.state == "passed" for target in report.targets)
        return Done("every target passes") if is_passed else _FAILS_ALONE
    command = "fix" if _is_broken(failed.failing) else "explain"
    return command_line(TargetInfo(text=failed.target), command) or _NAMELESS


def after_survey_comparison(comparison: SurveyComparison) -> str | Done:
    """Of two surveys: the run of the first piece that got worse, or keeps failing, else a
    measurement of what changed.

    What a library brings has no name for either.
    """
    is_worse = any(piece.worse for piece in comparison.pieces)
    why = "the command of each piece is above" if is_worse else "nothing got worse"
    return _after_pieces(comparison) or Done(why)


def _after_pieces(comparison: SurveyComparison) -> str | None:
    pieces = [piece for piece in comparison.pieces if piece.after.library is None]
    worse = [piece for piece in pieces if piece.worse]
    worst = min(worse, key=lambda piece: piece.verdict != "failing", default=None)
    if worst is not None:
        return _explain(worst.after.target)
    return command_line(TargetInfo(text=pieces[0].after.target), "bench") if pieces else None


def after_survey(report: SurveyReport) -> str | Done:
    """Of a survey: the run of what failed first, or broke most."""
    if not report.rows:
        return Done("no piece has finished")
    named = [row for row in report.rows if row.library is None]
    failed = next((row for row in named if row.error is not None), None)
    worst = failed or max(
        named, key=lambda row: (row.skipped_frames or 0, row.break_sites or 0), default=None
    )
    if worst is not None and (failed or worst.skipped_frames or worst.break_sites):
        return _explain(worst.target) or _NAMELESS
    is_whole = all(row.is_passed and row.is_whole for row in report.rows)
    return Done("every target compiles whole" if is_whole else "what costs most is above")


def _has_more(target: TargetCheck) -> bool:
    diagnosis = target.diagnosis
    if target.state == "crashed" and (diagnosis is None or diagnosis.recording.has_failed_alone):
        return False
    return target.state != "passed"


def _explain(target: str) -> str | None:
    return command_line(TargetInfo(text=target), "explain")


def _as_asked(target: TargetInfo) -> TargetInfo:
    """Return the target of a study without the backend that a study has by itself, which the next
    command chooses anew.
    """
    arguments = {
        name: value
        for name, value in target.compile_arguments.items()
        if (name, value) != ("backend", "inductor")
    }
    return target.replace(compile_arguments=arguments)


def kept(target: TargetInfo) -> str | None:
    """Return the gate that holds a program without graph breaks to that; the options of its run
    stand in a file.
    """
    gate = ("check", "--max-breaks", "0")
    alone = command_line(TargetInfo(text=target.text), *gate)
    return alone if command_line(target, *gate) == alone else "graphdoctor init"


def guards_command(target: TargetInfo) -> str:
    """Return the command that records guards; for what has none of its own, with the name of
    one.
    """
    return command_line(target, "guards") or "graphdoctor guards model.py"


def explained(codes: Iterable[str]) -> str | None:
    """Return the page of the first of the rules, which costs most; none has advice on what wasn't
    recorded.
    """
    # A log or a file from elsewhere can call its findings anything.
    rule_codes = (code for code in codes if re.fullmatch(r"GD[0-8][0-9]{2}", code))
    return next((f"graphdoctor rule {code}" for code in rule_codes), None)


def _is_broken(findings: Iterable[Finding]) -> bool:
    return any(finding.is_treatable for finding in findings)


def write_command(treatment: Treatment, target: TargetInfo) -> str | None:
    """Return the command that writes what holds; None if there is nothing to write, or the run was
    not one of a target.
    """
    command = command_line(target, "fix", *_choices(treatment), "--apply")
    return command if written_count(treatment) else None


def written_count(treatment: Treatment) -> int:
    """Count the edits that ``--apply`` writes, settings included."""
    edits = sum(fix.diff is not None for fix in treatment.applied)
    return edits + (len(treatment.settings) if treatment.settings_file is not None else 0)


def _choices(treatment: Treatment) -> list[str]:
    """Return the options of ``fix`` that these fixes were tried with."""
    choices = treatment.choices
    if choices is None:
        is_unsafe = any(fix.is_applied and not fix.is_safe for fix in treatment.tried)
        return ["--unsafe-fixes"] if is_unsafe else []
    flags = [flag for code in choices.select for flag in ("--select", code)]
    flags += [flag for code in choices.ignore for flag in ("--ignore", code)]
    flags += ["--own-code"] if choices.is_own_code_only else []
    flags += ["--unsafe-fixes"] if choices.is_unsafe_tried else []
    return flags + _timing(choices)


def _timing(choices: TrialChoices | None) -> list[str]:
    return [] if choices is None or choices.is_timed else ["--no-timing"]
