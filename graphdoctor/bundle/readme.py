"""``README.md`` of a bundle: what is in it, how to open it, what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_REDACTED = """\
## Redacted

This bundle was written with `--redact`: no source, no paths, no values, no names of the program's own.

What is in it:

- torch's own words about graph breaks, as far as its registry has them; ids, counts, times, line and column numbers,
  compile ids, how statements are nested;
- operations of torch's, dtypes, sizes, devices, kinds of guards;
- files and functions of torch, Python and packages that everybody can read, from the package on;
- names that torch and Python give (`forward`, `self`, `weight`, `__init__`, …); every other name of a function, class,
  attribute, argument or node is `name1`, `name2`, …, the same wherever it stands; every other file is `file1.py`, …;
  keys and indexes of containers are `k1`, `k2`, …;
- of an exception its type and the places of its traceback;
- torch's config values that differ from their defaults, where they are numbers, `True`, `False` or `None`.

What is left out: source, printed graphs, generated code, bytecode, guards as torch prints them, messages of
exceptions, arguments that are no tensors, old and new values that are no sizes, dtypes or modes of torch's, suggestions
(they quote the line), trials of fixes and replays, `request.json`, `reproduce.py`, and `…` wherever a value was.

`diagnosis.json` and `report.html` were made before anything was left out, then redacted. `graphdoctor report recording`
reads the redacted log, which lacks guards and values: it has the same counts, but names fewer causes.
"""


def readme_text(title: str, names: Sequence[str], notes: Sequence[str], *, is_redacted: bool) -> str:
    """The page.

    Args:
        title: What was recorded, for people.
        names: Files of the bundle.
        notes: What it lacks, in sentences.
        is_redacted: Written with ``--redact``.
    """
    return "\n".join(_lines(title, names, notes, is_redacted=is_redacted)) + "\n"


def _lines(title: str, names: Sequence[str], notes: Sequence[str], *, is_redacted: bool) -> Iterator[str]:
    yield "# What torch.compile did"
    yield ""
    yield f"{title}, recorded and written by graphdoctor."
    yield ""
    yield "| file | what it is |"
    yield "|---|---|"
    yield "| `issue.md` | a draft of an issue for PyTorch |"
    yield "| `report.html` | the whole diagnosis; open it in a browser, it needs nothing else |"
    yield "| `diagnosis.json` | the same for programs; `graphdoctor schema` says what is in it |"
    yield "| `environment.txt` | versions, and torch's config where it was not the default |"
    if "reproduce.py" in names:
        yield "| `reproduce.py` | makes the same calls: `python reproduce.py` |"
    yield "| `recording/` | the recording: `graphdoctor report recording` shows it again |"
    if any(name.startswith("recording/trace/") for name in names):
        yield "| `recording/trace/` | torch's own structured trace logs: `tlparse recording/trace/NAME.log` |"
    yield ""
    if notes:
        yield "## What is not in it"
        yield ""
        yield from (f"- {note}" for note in notes)
        yield ""
    if is_redacted:
        yield _REDACTED
