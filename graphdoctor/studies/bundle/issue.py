"""Drafts a PyTorch issue: what happened, in torch's words, how to reproduce it, and where it ran."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.wording import counted, percent, times
from graphdoctor.studies.bundle.attempt import Attempt
from graphdoctor.studies.bundle.environment import versions_text
from graphdoctor.studies.bundle.reproduce import Script
from graphdoctor.views import words
from graphdoctor.views.markdown_text import code, fenced, plain, sentence
from graphdoctor.views.printable import printable_lines

_MAX_FINDINGS = 10
_MAX_SCRIPT_LINES = 150
_MAX_TRACEBACK = 6_000
_TORCH_ID = re.compile(r"GB\d+")
_BREAK_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb"


def issue_text(diagnosis: Diagnosis, script: Script, attempt: Attempt | None) -> str:
    """The draft.

    Args:
        diagnosis: The diagnosis to report.
        script: How to reproduce it, or why there is no script.
        attempt: The result of running the script; None without one.
    """
    return printable_lines("\n".join(_lines(diagnosis, script, attempt))) + "\n"


def _lines(diagnosis: Diagnosis, script: Script, attempt: Attempt | None) -> Iterator[str]:
    yield "<!-- A draft. Add what you expected to happen, and remove what isn't relevant. -->"
    yield ""
    yield "### 🐛 Describe the bug"
    yield ""
    yield code(" · ".join(words.title_parts(diagnosis)))
    yield ""
    yield _counts(diagnosis)
    yield ""
    for number, finding in enumerate(diagnosis.findings[:_MAX_FINDINGS], start=1):
        yield from _finding_lines(number, finding)
    if (more := len(diagnosis.findings) - _MAX_FINDINGS) > 0:
        yield f"{counted(more, 'more finding')} in `diagnosis.json` and `report.html`."
        yield ""
    if diagnosis.is_partial:
        yield f"The run didn't make all of its calls. {diagnosis.exit.message or ''}".rstrip()
        yield ""
    yield from _error_lines(diagnosis)
    yield "### Minimal repro"
    yield ""
    yield from _script_lines(script, attempt)
    yield ""
    yield "### Versions"
    yield ""
    yield from fenced(versions_text(diagnosis.environment).rstrip("\n"), "")
    yield ""
    yield "As recorded. `python -m torch.utils.collect_env` prints the rest."


def _counts(diagnosis: Diagnosis) -> str:
    summary = diagnosis.summary
    parts = [
        counted(summary.calls, "call"),
        counted(summary.graphs, "graph"),
        counted(summary.break_sites, "break site"),
        counted(summary.skipped_frames, "skipped frame"),
        counted(summary.recompiles, "recompile"),
    ]
    if summary.frames_over_limit:
        parts.append(f"{counted(summary.frames_over_limit, 'frame')} over the recompile limit")
    if summary.coverage is not None:
        parts.append(f"{percent(summary.coverage)} of a steady call's tensor operations in graphs")
    return ", ".join(parts) + "."


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    location = finding.location
    yield f"**{number}. {plain(finding.code)} {plain(finding.rule)}**: {sentence(finding.message)}"
    yield ""
    place = f"{location.shown_file}:{location.line} in {location.function}"
    yield f"{code(place)}, {finding.severity}, {times(finding.count)}"
    if finding.torch_id is not None and _TORCH_ID.fullmatch(finding.torch_id):
        yield f"([{finding.torch_id}]({_BREAK_SITE}/{finding.torch_id.lower()}.html))"
    yield ""
    if location.text:
        yield from fenced(location.text, "python")
        yield ""
    if finding.torch_reason:
        yield "torch's message:"
        yield ""
        yield from fenced(finding.torch_reason.strip("\n"))
        yield ""


def _error_lines(diagnosis: Diagnosis) -> Iterator[str]:
    texts = [call.error.traceback for call in diagnosis.calls if call.error is not None]
    if not texts and diagnosis.exit.traceback:
        texts = [diagnosis.exit.traceback]
    if not texts:
        return
    yield "### Error logs"
    yield ""
    yield from fenced(texts[0][-_MAX_TRACEBACK:].strip("\n"))
    yield ""


def _script_lines(script: Script, attempt: Attempt | None) -> Iterator[str]:
    if script.text is None:
        yield f"There is no script: {script.reason}."
        return
    if attempt is not None:
        yield sentence(attempt.words)
        yield ""
    modules = "".join(f", with `modules/{name}`" for name in script.modules)
    if script.text.count("\n") > _MAX_SCRIPT_LINES:
        yield f"`reproduce.py` in the attached zip{modules}."
        return
    yield f"`reproduce.py` in the attached zip{modules}:"
    yield ""
    yield from fenced(script.text.rstrip("\n"), "python")
