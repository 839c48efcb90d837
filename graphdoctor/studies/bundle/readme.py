"""Writes a bundle's ``README.md``: what is in it, how to open it, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.probe.wire import TRACE_FOLDER

_REDACTED = """\
## Redacted

This bundle was written with `--redact`. It has no source, no paths, no values, and no names from the program.

It includes:

- torch's own words about graph breaks, as far as they are in its registry; ids, counts, times, line and column numbers,
  compile ids, and how statements are nested;
- torch operations, dtypes, sizes, devices, and kinds of guards;
- files and functions of torch, Python and well-known public packages, starting from the package;
- names that come from torch and Python (`forward`, `self`, `weight`, `__init__`, …). Every other name of a function,
  class, attribute, argument or node is `name1`, `name2`, …, the same one everywhere. Every other file is `file1.py`, ….
  Keys and indexes of containers are `k1`, `k2`, …;
- the types of exceptions and the places in their tracebacks;
- torch config values that differ from their defaults, if they are numbers, `True`, `False` or `None`.

It leaves out source, printed graphs, generated code, bytecode, guards as torch prints them, exception messages,
arguments that aren't tensors, old and new values that aren't sizes, dtypes or torch modes, suggestions (they quote the
line), trials of fixes and replays, `request.json`, and `reproduce.py`. `…` stands for a value that was left out.

`diagnosis.json` and `report.html` were written from the complete recording and then redacted.
`graphdoctor report recording` reads the redacted log, which has no guards and values, so it shows the same counts but
fewer causes.
"""


def readme_text(title: str, names: Sequence[str], notes: Sequence[str], *, is_redacted: bool) -> str:
    """The page.

    Args:
        title: What was recorded, for people.
        names: The names of the bundle's files.
        notes: What was left out, in sentences.
        is_redacted: Whether the bundle was written with ``--redact``.
    """
    return "\n".join(_lines(title, names, notes, is_redacted=is_redacted)) + "\n"


def _lines(title: str, names: Sequence[str], notes: Sequence[str], *, is_redacted: bool) -> Iterator[str]:
    yield "# What torch.compile did"
    yield ""
    yield f"{title}, recorded by graphdoctor."
    yield ""
    yield "| file | content |"
    yield "|---|---|"
    yield "| `issue.md` | a draft of an issue for PyTorch |"
    yield "| `report.html` | the whole diagnosis; open it in any browser |"
    yield "| `diagnosis.json` | the same for programs; `graphdoctor schema` describes the format |"
    yield "| `environment.txt` | versions, and torch config values that differ from the defaults |"
    if "reproduce.py" in names:
        yield "| `reproduce.py` | makes the same calls; run `python reproduce.py` |"
    yield "| `recording/` | the recording; `graphdoctor report recording` shows it again |"
    logs = f"recording/{TRACE_FOLDER}/"
    if any(name.startswith(logs) for name in names):
        yield f"| `{logs}` | torch's own structured trace logs; run `tlparse {logs}NAME.log` |"
    yield ""
    if notes:
        yield "## Left out"
        yield ""
        yield from (f"- {note}" for note in notes)
        yield ""
    if is_redacted:
        yield _REDACTED
