"""Writes the texts of a bundle from their templates: the draft of an issue, the README, the
environment, the script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.recording import Environment
from graphdoctor.facts.wording import counted, times
from graphdoctor.studies.bundle.logs import LOGS
from graphdoctor.views import words
from graphdoctor.views.markdown_text import code, fenced, plain, sentence
from graphdoctor.views.printable import printable_lines
from graphdoctor.views.report import count_texts

if TYPE_CHECKING:
    from graphdoctor.studies.bundle.attempt import Attempt
    from graphdoctor.studies.bundle.reproduce import Script

_MAX_TRACEBACK = 6_000


def rendered(template: str, **values: object) -> str:
    """A template of ``templates/`` with its values."""
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Templates:
    templates = Templates(
        loader=PackageLoader("graphdoctor.studies.bundle"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "code": code,
        "plain": plain,
        "sentence": sentence,
        "counted": counted,
        "times": times,
    }
    templates.filters |= {"repr": repr, "fenced": fenced}
    templates.tests |= {"torch_id": re.compile(r"GB\d+").fullmatch, "below": str.startswith}
    return templates


def issue_text(diagnosis: Diagnosis, script: Script, attempt: Attempt | None) -> str:
    """A draft of a PyTorch issue: what happened, in torch's words, how to reproduce it, and where
    it ran.
    """
    errors = [call.error.traceback for call in diagnosis.recording.calls if call.error is not None]
    error = next(iter(errors), diagnosis.recording.exit.traceback or "")
    text = rendered(
        "issue.md.jinja",
        title=title_of(diagnosis),
        counts=count_texts(diagnosis.summary, None),
        diagnosis=diagnosis,
        error=error[-_MAX_TRACEBACK:],
        script=script,
        attempt=attempt,
        versions=environment_text(diagnosis.recording.environment),
    )
    return printable_lines(text.rstrip("\n")) + "\n"


def title_of(diagnosis: Diagnosis) -> str:
    """What was recorded, for people."""
    return " · ".join(words.title_parts(diagnosis.recording))


def environment_text(
    environment: Environment,
    config: Mapping[str, str] | None = None,
    *,
    graphdoctor: str | None = None,
) -> str:
    """``environment.txt``: the versions that a PyTorch issue asks for, as
    ``torch.utils.collect_env`` prints them.

    ``graphdoctor``: its version, for the whole file with torch's config values; None for the
    versions alone.
    """
    packages = None
    if environment.packages is not None:
        packages = sorted(
            {**environment.packages, "torch": environment.torch or "not recorded"}.items()
        )
    values = {
        "environment": environment,
        "packages": packages,
        "config": config,
        "graphdoctor": graphdoctor,
    }
    return rendered("environment.txt.jinja", **values)


def readme_text(
    title: str, names: Sequence[str], notes: Sequence[str], *, is_redacted: bool
) -> str:
    """What is in a bundle, how to open it, and what was left out."""
    return rendered(
        "README.md.jinja", title=title, names=names, notes=notes, logs=LOGS, is_redacted=is_redacted
    )
