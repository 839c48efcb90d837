"""Findings that a project ignores on purpose: comments on lines, and path patterns.

    y = x.item()  # graphdoctor: ignore[GD103] logged once per epoch

Comes in: the text of source files, findings. Goes out: which findings don't count and why, and
which ignores match nothing. Python's tokenizer finds the comments, so a string that looks like a
comment isn't taken for one.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphdoctor.facts.check import Ignored, UnusedIgnore
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.rules.diagnosis.selection import Selection

_COMMENT = re.compile(
    r"#\s*graphdoctor:\s*ignore(?![\w-])\s*(?P<rest>(?:(?!\s#\s).)*)", re.IGNORECASE
)
_CODES = re.compile(r"\[(?P<codes>[^\]]*)\](?P<reason>.*)", re.DOTALL)
_LINE_ENDS = (tokenize.NEWLINE, tokenize.NL)


@dataclass(frozen=True)
class IgnoreComment:
    """One ignore comment.

    Args:
        line: 1-based.
        first_line: The first line it covers: above ``line`` only where the lines between can't end
            in a comment (a multi-line string, a backslash before the newline).
        codes: Code prefixes; None for all codes.
        reason: The text after the brackets.
        why_void: Why it can't match anything, or None.
    """

    line: int
    first_line: int
    codes: tuple[str, ...] | None
    reason: str | None = None
    why_void: str | None = None

    def code_for(self, finding: Finding) -> str | None:
        """Return the code prefix that covers a finding on the comment's lines; empty for a comment
        on all codes, or None.
        """
        if not self.first_line <= finding.location.line <= self.line or self.why_void:
            return None
        return "" if self.codes is None else _prefix_of(finding, self.codes)


@dataclass(frozen=True)
class PathIgnore:
    """One entry of ``per-path-ignores``.

    Args:
        pattern: A path pattern. ``*`` stays within a folder and ``**`` crosses folders. A pattern
            without a slash is a file name in any folder; one that ends in a slash is everything
            below that folder.
        codes: Code prefixes.
    """

    pattern: str
    codes: tuple[str, ...]

    def covers(self, *paths: str) -> bool:
        """Return whether one of a file's paths matches the pattern."""
        return any(_pattern(self.pattern).fullmatch(path.replace("\\", "/")) for path in paths)

    def code_for(self, finding: Finding) -> str | None:
        """Return the code prefix that covers a finding in a matching file, or None."""
        location = finding.location
        return (
            _prefix_of(finding, self.codes)
            if self.covers(location.file, location.shown_file)
            else None
        )


Comments = Mapping[str, tuple[IgnoreComment, ...]]
"""By the path that findings have: the user's own files that the run touched, including those
without a comment."""


def _prefix_of(finding: Finding, codes: Iterable[str]) -> str | None:
    return next((code for code in codes if code and finding.code.startswith(code)), None)


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """Return a path pattern as a regular expression."""
    glob = glob.replace("\\", "/").removeprefix("./")
    if glob.endswith("/"):
        glob += "**"
    if "/" not in glob:
        glob = f"**/{glob}"
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", glob))
    )


def comments_in(text: str) -> tuple[IgnoreComment, ...]:
    """Return the ignore comments of a source file, in order.

    If Python can't tokenize the whole file, those before the error are returned.
    """
    if "graphdoctor:" not in text.lower():
        return ()
    matches: list[tuple[int, re.Match[str]]] = []
    ends: set[int] = set()
    # No source has a null byte, at which Python 3.12's tokenizer goes on with an exception set.
    source = io.StringIO(text.partition("\0")[0])
    try:
        for token in tokenize.generate_tokens(source.readline):
            if token.type in _LINE_ENDS:
                ends.add(token.start[0])
            elif token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                matches.append((token.start[0], match))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # the file ran, so it's valid in another version of Python
    return tuple(
        _comment(line, _first_line(line, ends), match["rest"].strip()) for line, match in matches
    )


def _first_line(line: int, ends: set[int]) -> int:
    """Return the first of the lines above a comment that can't end in a comment of their own."""
    while line > 1 and line - 1 not in ends:
        line -= 1
    return line


def _comment(line: int, first_line: int, rest: str) -> IgnoreComment:
    if not rest.startswith("["):
        return IgnoreComment(line, first_line, None, _reason(rest))
    match = _CODES.fullmatch(rest)
    if match is None:
        return IgnoreComment(line, first_line, (), why_void="its bracket isn't closed")
    codes = tuple(
        dict.fromkeys(code.upper() for code in re.split(r"[,\s]+", match["codes"]) if code)
    )
    unknown = [code for code in codes if not any(known.startswith(code) for known in ALL_RULES)]
    why = None
    if not codes:
        why = "its brackets are empty"
    elif len(unknown) == len(codes):
        why = f"no rule code starts with {' or '.join(unknown)}"
    return IgnoreComment(line, first_line, codes, _reason(match["reason"]), why)


def _reason(text: str) -> str | None:
    return text.strip().lstrip(":- ").strip() or None


def read_comments(texts: Mapping[str, str]) -> Comments:
    """Return the ignore comments of several files."""
    return {file: comments_in(text) for file, text in texts.items()}


def ignored_by(
    finding: Finding, *, comments: Comments, paths: Sequence[PathIgnore], selection: Selection
) -> Ignored | None:
    """Return why a finding doesn't count, or None when it does.

    Args:
        finding: The finding.
        comments: Comments in the user's own files; comments in a package are its authors' business.
        paths: ``per-path-ignores``.
        selection: ``select``, ``ignore`` and ``own-code``.
    """
    for comment in comments.get(finding.location.file, ()):
        if comment.code_for(finding) is not None:
            return Ignored(finding=finding, by="comment", reason=comment.reason)
    if any(path.code_for(finding) for path in paths):
        return Ignored(finding=finding, by="path")
    return None if selection.keeps(finding) else Ignored(finding=finding, by="setting")


def unused_ignores(
    runs: Sequence[tuple[Comments, Sequence[Finding]]],
    paths: Sequence[PathIgnore],
    *,
    pyproject: str,
) -> tuple[UnusedIgnore, ...]:
    """Ignores that match no finding in any run, in the files that the runs touched.

    Args:
        runs: The comments and all findings of each configured target. All of them, since an ignore
            may be there for just one target.
        paths: ``per-path-ignores``; a pattern that matches none of these files isn't judged.
        pyproject: What to call the file that sets them.
    """
    used: dict[tuple[str, int, IgnoreComment], set[str]] = {}
    for comments, findings in runs:
        for file, in_file in comments.items():
            here = [finding for finding in findings if finding.location.file == file]
            for comment in in_file:
                codes = {
                    code for finding in here if (code := comment.code_for(finding)) is not None
                }
                used.setdefault((file, comment.line, comment), set()).update(codes)
    return (*_unused_comments(used), *_unused_paths(runs, paths, pyproject))


def _unused_comments(
    used: Mapping[tuple[str, int, IgnoreComment], set[str]],
) -> Iterator[UnusedIgnore]:
    for (file, line, comment), matched in sorted(used.items(), key=lambda item: item[0][:2]):
        left = tuple(code for code in comment.codes or () if code not in matched)
        if left or not matched:
            yield UnusedIgnore(file=file, line=line, codes=left, why=comment.why_void)


def _unused_paths(
    runs: Sequence[tuple[Comments, Sequence[Finding]]], paths: Sequence[PathIgnore], pyproject: str
) -> Iterator[UnusedIgnore]:
    findings = [finding for _, of_run in runs for finding in of_run]
    files = {file for comments, _ in runs for file in comments}
    for path in paths:
        matched = {path.code_for(finding) for finding in findings}
        left = tuple(code for code in path.codes if code not in matched)
        is_touched = any(path.covers(file) for file in files) or matched != {None}
        if left and is_touched:
            yield UnusedIgnore(
                file=pyproject, codes=left, why=f"no such finding in {path.pattern!r}"
            )
