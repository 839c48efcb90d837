"""``--help`` of one command: examples first, then its options under headings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from graphdoctor.commands.commands import EXAMPLES, example_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADINGS: dict[str, tuple[str, ...]] = {
    "What to run": (
        *("-m", "--files", "--from", "--only", "--exclude", "--shard", "--resume", "--input", "--calls", "--backward"),
        *("--train", "--no-grad", "--seed", "--device", "--dtype", "--batch", "--python", "--timeout"),
    ),
    "torch.compile": ("--backend", "--mode", "--dynamic", "--fullgraph", "--option", "--regional", "--config"),
    "What to measure": (
        *("--coverage", "--measure", "--bench", "--variant", "--sweep", "--minify", "--restart", "--export", "--fix"),
        "--pages",
    ),
    "Trials": (
        *("--try", "--unsafe-fixes", "--apply", "--diff", "--again", "--what-if", "--vary", "--run", "--budget"),
        *("--jobs", "--timing", "--no-timing", "--trial-timeout", "--trial-memory"),
    ),
    "What reads logs": ("--on", "--follow"),
    "Where pieces run": ("--cpus", "--gpus", "--memory", "--retries"),
    "What is allowed": (
        *("--max-breaks", "--max-recompiles", "--max-graphs", "--min-coverage", "--fail-on"),
        *("--baseline", "--no-baseline", "--update", "--allow-empty"),
    ),
    "What to report": (
        *("--rank", "--own-code", "--select", "--ignore", "--stages", "--stage", "--graph", "--compile"),
        *("--recording", "--all", "--redact", "--with-trials"),
    ),
    "Output": (
        *("--format", "--output", "--report", "--html", "--open", "--force", "--source", "--stdout"),
        *("--recordings", "--verbose", "--quiet", "--color"),
    ),
    "Help": ("--help",),
}
"""Options by what they are about, in the order in which they are shown; the same in every command."""

_REST = "More options"


class Command(typer.core.TyperCommand):
    """A command whose help has examples, and its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click has no public name
        """Examples, arguments, and options under headings."""
        examples = EXAMPLES.get(self.name or "")
        if examples:
            with formatter.section("Examples"):
                for line in example_lines(examples, formatter.width):
                    formatter.write(f"{line}\n")
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{name: [] for name in HEADINGS}, _REST: []}
        for parameter in self._in_order(self.get_params(ctx)):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections[_heading(parameter)].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    @staticmethod
    def _in_order(parameters: Sequence[Any]) -> list[Any]:
        order = [flag for flags in HEADINGS.values() for flag in flags]
        return sorted(parameters, key=lambda one: min((order.index(f) for f in one.opts if f in order), default=0))


def _heading(parameter: Any) -> str:  # noqa: ANN401 - as above
    if parameter.param_type_name == "argument":
        return "Arguments"
    return parameter.rich_help_panel or next(
        (name for name, flags in HEADINGS.items() if {*flags} & {*parameter.opts}), _REST
    )
