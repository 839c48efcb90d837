"""``graphdoctor rule`` and ``graphdoctor schema``: what rules and JSON documents mean."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.options import COLOR, FORMAT, argument, with_options
from graphdoctor.commands.output import Output
from graphdoctor.commands.terminal import Color, say
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.rules.diagnosis.rule import Page
from graphdoctor.views.formats import RULES, RenderOptions
from graphdoctor.wording import did_you_mean, near_names


@with_options(formats=RULES.names)
def rule(
    codes: Annotated[
        list[str] | None, argument("Codes, their beginnings, or torch's ids: GD101, GD1, GB0109.")
    ] = None,
    is_all: bool = option(False, "Every rule, as without a code.", flag="--all"),
    format: str = FORMAT,
    color: Color = COLOR,
) -> None:
    """Explain a rule: what it finds, why it costs, what to write.

    Examples:
        graphdoctor rule GD101 GB0109: a rule, and those for what torch calls so
        graphdoctor rule: a line for each rule
    """
    from graphdoctor.rules.catalog import PAGES

    output = Output(RULES.named(format), None, RenderOptions(Path.cwd()), color)
    chosen = list(PAGES.values()) if is_all else []
    for code in codes or []:
        chosen += [page for page in _named(code, PAGES) if page not in chosen]
    output.write(chosen or list(PAGES.values()))


def _named(code: str, rules: dict[str, Page]) -> list[Page]:
    pages = [
        rule
        for name, rule in rules.items()
        if name.startswith(code.upper())
        or rule.name == code
        or code.upper() in getattr(rule, "torch_ids", ())
    ]
    if not pages and re.fullmatch(r"GB\d{4}", code.upper()):
        say(
            f"No rule is for {code.upper()} alone: graphdoctor explain shows which one has a break."
        )
        return [rules["GD100"]]
    if pages:
        return pages
    near = near_names(code.upper(), rules, most=len(rules))
    # A slip is likelier at the end of a code than at its beginning.
    near = sorted(near, key=lambda name: not name.startswith(code.upper()[:3]))[:3]
    hint = did_you_mean(near, "graphdoctor rule lists the rules.")
    raise GraphDoctorError(f"There is no rule {code}.", hint=hint)


def _names() -> list[str]:
    from graphdoctor.views.json import DOCUMENTS

    return list(DOCUMENTS)


@with_options
def schema(
    document: Annotated[
        str,
        typer.Argument(
            autocompletion=_names,
            help=(
                "diagnosis, which explain and others write; job, which report writes of several"
                " ranks; comparison and "
                "survey-comparison, which diff writes; proposal, which mcp sends; or check, lint,"
                " bench, cure, "
                "profile, export or survey, which the command of that name writes."
            ),
        ),
    ] = "diagnosis",
) -> None:
    """Print the JSON Schema of what --format json writes.

    Examples:
        graphdoctor schema: of what explain and others write
        graphdoctor schema check: of what check writes
    """
    from graphdoctor.views.json import schema_text

    sys.stdout.write(schema_text(document))
