"""Numbers, names and near names in English, for the messages of every room. Imports the standard
library only; what only views say is in ``views.words``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoctor.facts.recording import CompileSwitch
    from graphdoctor.facts.trials import ResultKind

MOST_OF_A_VALUE = 60
"""Characters of a value within a sentence; the recompile's or guard's own field has all of it."""
_LEAST_LEFT_OUT = 40
_TIMES = "\N{MULTIPLICATION SIGN}"
UNCHANGED = "same"
"""Shown in place of a ratio that rounds to 1."""


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 graph``, ``2 graphs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural(noun)}"


def plural(noun: str) -> str:
    """Several of a noun: ``graphs``, ``fixes``."""
    return f"{noun}es" if noun.endswith(("x", "ss", "sh", "ch")) else f"{noun}s"


def join_texts(between: str, *texts: str | None) -> str:
    """Those of the texts that say something, as one."""
    return between.join(filter(None, texts))


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks in words, runs of them folded: ``rank 3``, ``ranks 0–6, 8–63``.

    Args:
        ranks: Ascending.
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = (str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(texts)}"


def kind_text(kind: ResultKind) -> str:
    """A kind of result in words."""
    words: dict[ResultKind, str] = {
        "forms": "dtypes and aliasing",
        "stdout": "printed text",
        "logs": "logged text",
        "files": "changed files",
        "stderr": "standard error",
    }
    return words.get(kind, kind)


def percent(share: float) -> str:
    """A share from 0 to 1 in whole percent, but never 0% or 100% for what is neither."""
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def times(number: int) -> str:
    """Say how often: ``never``, ``once``, ``twice``, ``3 times``."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def names(expressions: Iterable[str]) -> str:
    """The names of values in a list, each once, at most three."""
    return listed([quoted(name) for name in dict.fromkeys(expressions)])


def quoted(name: str) -> str:
    """A name in backquotes if it is code; a phrase such as "grad mode", or one that quotes code
    itself, as it is.
    """
    if name == "autocast" or "`" in name:
        return name
    return (
        name if re.search(r"[a-z] [a-z(]", name) and not re.search(r"[<>=%]", name) else f"`{name}`"
    )


_WIDE = 2.0
"""The ends of an interval this far apart, as a factor, leave of a ratio only that it is no
smaller."""


def speed_text(
    ratio: float, low: float | None = None, high: float | None = None, *, has_ends: bool = True
) -> str:
    """How much faster or slower, such as ``1.7x faster`` with a multiplication sign; at least, if
    the interval is wide.

    Args:
        ratio: The time after over the time before, above 0.
        low: Lower end of its confidence interval; None if there is none.
        high: Its upper end.
        has_ends: The interval is written, too.
    """
    is_faster = ratio <= 1
    shown = _factor(1 / ratio if is_faster else ratio)
    if shown == f"1.00{_TIMES}" and low is None:
        return UNCHANGED
    text = f"{shown} {'faster' if is_faster else 'slower'}"
    if low is None or high is None:
        return text
    if low <= 1 <= high:
        return f"no clear difference ({_factor(1 / high)} to {_factor(1 / low)})"
    ends = (1 / high, 1 / low) if is_faster else (low, high)
    if ends[1] > _WIDE * ends[0]:
        return f"at least {_factor(ends[0])} {'faster' if is_faster else 'slower'}"
    return f"{text} ({_factor(ends[0])} to {_factor(ends[1])})" if has_ends else text


def _factor(value: float) -> str:
    digits = 2 if value < 1.095 else 1 if value < 9.95 else 0
    return f"{value:.{digits}f}{_TIMES}"


def shortened(text: str, limit: int) -> str:
    """The first paragraph of a text on one line, without the period at its end."""
    line = " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split()).rstrip(".")
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def clipped(text: str, most: int) -> str:
    """A text, or if it is too long its beginning."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_line(text: str) -> str:
    """The first line that says something; with the next one after ``backend='x' raised:``, which
    alone says nothing.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])


def without_middle(text: str, most: int = MOST_OF_A_VALUE) -> str:
    """A text without its middle if it is too long, with how much that is.

    Args:
        text: The text.
        most: How many of its characters are kept; a few more stay, where saying that they don't
            would take as many.
    """
    if len(text) <= most + _LEAST_LEFT_OUT:
        return text
    tail = most // 4
    return (
        f"{text[: most - tail]} … {len(text) - most:,} characters left out …"
        f" {text[len(text) - tail :]}"
    )


def factor_text(ratio: float) -> str:
    """A ratio of times in as many digits as are worth reading, such as 1.87 with a multiplication
    sign.

    Args:
        ratio: Above 0.
    """
    if ratio < 0.005:
        return f"<0.01{_TIMES}"
    if ratio >= 100:
        return f">1,000{_TIMES}" if ratio > 1000 else f"{ratio:.0f}{_TIMES}"
    digits = 1 if ratio >= 10 else 2
    # What is near 1, but isn't 1, isn't shown as 1.
    digits += f"{ratio:.{digits}f}" == "1.00" and ratio != 1
    return f"{ratio:.{digits}f}{_TIMES}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence, so many of them at most."""
    shown, more = list(names[:most]), len(names) - most
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return join_texts(" and ", ", ".join(shown[:-1]), *shown[-1:])


def duration(us: float) -> str:
    """A time in a unit that fits it."""
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


def bytes_text(size: int) -> str:
    """A size in memory, such as ``2.1 MiB``."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f}".removesuffix(".0") + f" {name}"
    return counted(size, "byte")


def switch_text(switch: CompileSwitch) -> str:
    """Say what keeps torch.compile from compiling: ``TORCH_COMPILE_DISABLE is set``."""
    since = f" from call {switch.call_index} on" if (switch.call_index or 1) > 1 else ""
    return {
        "environment": f"{switch.value} is set{since}",
        "config": f"{switch.value} is True{since}",
        "stance": f'torch.compiler.set_stance("{switch.value}") is in effect{since}',
        "replacement": f"{switch.value} replaced torch.compile",
    }[switch.kind]


_NEAR = 0.65
"""The least share of letters that two names have in common, in order, if one may be meant by the
other."""


def did_you_mean(names: Sequence[str], otherwise: str | None = None) -> str | None:
    """A hint with the names that are near to what was written, or another one where none is."""
    return f"Did you mean {' or '.join(names)}?" if names else otherwise


def nearest(
    name: str, known: Iterable[str], *, most: int = 1, otherwise: str | None = None
) -> str | None:
    """A hint with the known names that are nearest to what was written, or another one where none
    is near.
    """
    return did_you_mean(near_names(name, known, most=most), otherwise)


def near_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names that somebody who wrote this may have meant, the nearest first: a slip of a
    letter or two.
    """
    import difflib

    return difflib.get_close_matches(name, list(known), n=most, cutoff=_NEAR)


def during(phase: str | None) -> str:
    """When something happened, such as `` in call 2``, to follow a verb; None before the probe
    began.
    """
    if phase is None:
        return " before it began"
    return f" in {phase}" if phase.startswith(("call ", "variation ")) else f" while {phase}"
