"""``graphdoctor rule``: what a rule means."""

from __future__ import annotations

import difflib
import sys
from typing import Annotated

import typer

from graphdoctor.cli.options import Colour, ColourOption, Format, FormatOption
from graphdoctor.cli.terminal import stdout_console
from graphdoctor.errors import GraphDoctorError


def rule(
    codes: Annotated[
        list[str] | None, typer.Argument(help="Codes or beginnings of codes: GD101, GD1.", show_default=False)
    ] = None,
    all_rules: Annotated[bool, typer.Option("--all", help="Every rule.")] = False,
    format: FormatOption = None,
    color: ColourOption = Colour.auto,
) -> None:
    """Explain rules: what one finds, why it costs, what to write instead."""
    from graphdoctor.render.rule_help import render_rules, render_rules_json
    from graphdoctor.rules.catalog import PAGES

    chosen = list(PAGES.values()) if all_rules else []
    for code in codes or []:
        found = [rule for name, rule in PAGES.items() if name.startswith(code.upper()) or rule.name == code]
        if not found:
            near = difflib.get_close_matches(code.upper(), PAGES, n=len(PAGES))
            # A slip is likelier at the end of a code than at its beginning.
            near = sorted(near, key=lambda name: not name.startswith(code.upper()[:3]))[:3]
            hint = f"Did you mean {' or '.join(near)}?" if near else "graphdoctor rule --all lists the rules."
            raise GraphDoctorError(f"There is no rule {code}.", hint=hint)
        chosen += [rule for rule in found if rule not in chosen]
    if not chosen:
        raise GraphDoctorError("No rule is named.", hint="Give a code, such as GD101, or --all.")
    if format is Format.json:
        sys.stdout.write(render_rules_json(chosen))
        return
    render_rules(chosen, stdout_console(color))
