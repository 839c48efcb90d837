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
from collections.abc import Iterable, Mapping, Sequence
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
        is_covered = self.covers(finding.location.file, finding.location.shown_file)
        return _prefix_of(finding, self.codes) if is_covered else None


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
    comments: list[tuple[int, str]] = []
    ends: set[int] = set()
    # No source has a null byte, at which Python 3.12's tokenizer goes on with an exception set.
    source = io.StringIO(text.partition("\0")[0])
    try:
        for token in tokenize.generate_tokens(source.readline):
            if token.type in _LINE_ENDS:
                ends.add(token.start[0])
            elif token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                comments.append((token.start[0], match["rest"].strip()))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # the file ran, so it's valid in another version of Python
    read = []
    for line, rest in comments:
        first_line = line
        while first_line > 1 and first_line - 1 not in ends:
            first_line -= 1
        read.append(IgnoreComment(line, first_line, *_read(rest)))
    return tuple(read)


def _read(rest: str) -> tuple[tuple[str, ...] | None, str | None, str | None]:
    """Return the codes of a comment, its reason, and why it can't match anything."""
    match = _CODES.fullmatch(rest)
    if match is None and rest.startswith("["):
        return (), None, "its bracket isn't closed"
    reason = (match["reason"] if match else rest).strip().lstrip(":- ").strip() or None
    if match is None:
        return None, reason, None
    codes = tuple(
        dict.fromkeys(code for code in re.split(r"[,\s]+", match["codes"].upper()) if code)
    )
    if not codes:
        return codes, reason, "its brackets are empty"
    if any(rule.startswith(codes) for rule in ALL_RULES):
        return codes, reason, None
    return codes, reason, f"no rule code starts with {' or '.join(codes)}"


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
    """List the ignores that match no finding in any run, in the files that the runs touched.

    Args:
        runs: The comments and all findings of each configured target. All of them, since an ignore
            may be there for just one target.
        paths: ``per-path-ignores``; a pattern that matches none of these files isn't judged.
        pyproject: What to call the file that sets them.
    """
    all_findings = [finding for _, findings in runs for finding in findings]
    all_comments = {
        (file, comment)
        for comments, _ in runs
        for file, in_file in comments.items()
        for comment in in_file
    }
    unused = []
    for file, comment in sorted(all_comments, key=lambda item: (item[0], item[1].line)):
        here = (finding for finding in all_findings if finding.location.file == file)
        matched = {code for finding in here if (code := comment.code_for(finding)) is not None}
        left = tuple(code for code in comment.codes or () if code not in matched)
        if left or not matched:
            why = comment.why_void
            unused.append(UnusedIgnore(file=file, line=comment.line, codes=left, why=why))
    for path in paths:
        covered = {path.code_for(finding) for finding in all_findings}
        left = tuple(code for code in path.codes if code not in covered)
        is_touched = any(path.covers(file) for comments, _ in runs for file in comments)
        if left and (is_touched or covered != {None}):
            why = f"no such finding in {path.pattern!r}"
            unused.append(UnusedIgnore(file=pyproject, codes=left, why=why))
    return tuple(unused)
