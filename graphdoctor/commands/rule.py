"""``graphdoctor rule``: what a rule means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from graphdoctor.commands.options import COLOR, argument, with_options
from graphdoctor.commands.output import Output
from graphdoctor.commands.terminal import Color
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.rules.diagnosis.rule import Page
from graphdoctor.views.formats import RULES, RenderOptions
from graphdoctor.wording import did_you_mean, near_names


@with_options(formats=RULES.names)
def rule(
    codes: Annotated[
        list[str] | None, argument("Codes or beginnings of codes: GD101, GD1.")
    ] = None,
    is_all: bool = option(False, "Every rule, as without a code.", flag="--all"),
    format: str = option(RULES.names[0], "{formats}.", metavar="FORMAT"),
    color: Color = COLOR,
) -> None:
    """Explain a rule: what it finds, why it costs, what to write.

    Examples:
        graphdoctor rule GD101: one rule
        graphdoctor rule: a line for each rule
    """
    from graphdoctor.rules.catalog import PAGES

    output = Output(RULES.named(format), None, RenderOptions(Path.cwd()), color)
    chosen = list(PAGES.values()) if is_all else []
    for code in codes or []:
        chosen += [found for found in _named(code, PAGES) if found not in chosen]
    output.write(chosen or list(PAGES.values()))


def _named(code: str, rules: dict[str, Page]) -> list[Page]:
    found = [
        rule for name, rule in rules.items() if name.startswith(code.upper()) or rule.name == code
    ]
    if found:
        return found
    near = near_names(code.upper(), rules, most=len(rules))
    # A slip is likelier at the end of a code than at its beginning.
    near = sorted(near, key=lambda name: not name.startswith(code.upper()[:3]))[:3]
    hint = did_you_mean(near, "graphdoctor rule lists the rules.")
    raise GraphDoctorError(f"There is no rule {code}.", hint=hint)
