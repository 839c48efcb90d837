"""What a project ignores on purpose: comments on lines, and patterns of paths.

    y = x.item()  # graphdoctor: ignore[GD103] logged once an epoch

Comes in: the text of source files, findings. Goes out: which findings do not count and why, and which ignores match
nothing. Comments are found by Python's tokenizer, so a string that looks like one is none.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphdoctor.diagnosis.diagnose import Selection
from graphdoctor.model.check import Ignored, UnusedIgnore
from graphdoctor.model.diagnosis import Finding
from graphdoctor.rules.catalog import ALL_RULES

_COMMENT = re.compile(r"#\s*graphdoctor:\s*ignore(?![\w-])\s*(?P<rest>(?:(?!\s#\s).)*)", re.IGNORECASE)
_CODES = re.compile(r"\[(?P<codes>[^\]]*)\](?P<reason>.*)", re.DOTALL)
_LINE_ENDS = (tokenize.NEWLINE, tokenize.NL)


@dataclass(frozen=True)
class IgnoreComment:
    """One comment.

    Args:
        line: 1-based.
        first_line: The first line that it covers: above its own only where no comment can stand at the end of a line,
            in a string over several lines and before a backslash's newline.
        codes: Code prefixes; None for all.
        reason: The words behind them.
        why_void: Why it can match nothing at all, or None.
    """

    line: int
    first_line: int
    codes: tuple[str, ...] | None
    reason: str | None = None
    why_void: str | None = None

    def code_for(self, finding: Finding) -> str | None:
        """Of its codes the one that a finding on its lines falls under, empty for all codes; None when none does."""
        if not self.first_line <= finding.location.line <= self.line or self.why_void:
            return None
        return "" if self.codes is None else _prefix_of(finding, self.codes)


@dataclass(frozen=True)
class PathIgnore:
    """One entry of ``per-path-ignores``.

    Args:
        pattern: A path pattern: ``*`` stays in a folder, ``**`` goes through folders, a pattern without a slash is a
            file's name in any folder, one that ends in a slash is all below a folder.
        codes: Code prefixes.
    """

    pattern: str
    codes: tuple[str, ...]

    def covers(self, *paths: str) -> bool:
        """One of a file's paths fits the pattern."""
        return any(_pattern(self.pattern).fullmatch(path.replace("\\", "/")) for path in paths)

    def code_for(self, finding: Finding) -> str | None:
        """Of its codes the one that a finding in such a file falls under."""
        location = finding.location
        return _prefix_of(finding, self.codes) if self.covers(location.file, location.shown_file) else None


Comments = Mapping[str, tuple[IgnoreComment, ...]]
"""By file as findings name it: the user's own files that the run touched, those without a comment too."""


def _prefix_of(finding: Finding, codes: Iterable[str]) -> str | None:
    return next((code for code in codes if code and finding.code.startswith(code)), None)


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """A path pattern as a regular expression."""
    glob = glob.replace("\\", "/").removeprefix("./")
    if glob.endswith("/"):
        glob += "**"
    if "/" not in glob:
        glob = f"**/{glob}"
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", glob)))


def comments_in(text: str) -> tuple[IgnoreComment, ...]:
    """The ignore comments of a source file, in order.

    A file that Python cannot take apart to its end gives those before the trouble.
    """
    if "graphdoctor:" not in text.lower():
        return ()
    found: list[tuple[int, re.Match[str]]] = []
    ends: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _LINE_ENDS:
                ends.add(token.start[0])
            elif token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                found.append((token.start[0], match))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # a file in another Python's syntax: the run has shown that it is Python
    return tuple(_comment(line, _first_line(line, ends), match["rest"].strip()) for line, match in found)


def _first_line(line: int, ends: set[int]) -> int:
    """The first of the lines above that cannot end in a comment of their own."""
    while line > 1 and line - 1 not in ends:
        line -= 1
    return line


def _comment(line: int, first_line: int, rest: str) -> IgnoreComment:
    if not rest.startswith("["):
        return IgnoreComment(line, first_line, None, _reason(rest))
    match = _CODES.fullmatch(rest)
    if match is None:
        return IgnoreComment(line, first_line, (), why_void="its bracket is not closed")
    codes = tuple(dict.fromkeys(code.upper() for code in re.split(r"[,\s]+", match["codes"]) if code))
    unknown = [code for code in codes if not any(known.startswith(code) for known in ALL_RULES)]
    why = None
    if not codes:
        why = "its brackets are empty"
    elif len(unknown) == len(codes):
        why = f"no rule's code begins with {' or '.join(unknown)}"
    return IgnoreComment(line, first_line, codes, _reason(match["reason"]), why)


def _reason(text: str) -> str | None:
    return text.strip().lstrip(":- ").strip() or None


def read_comments(texts: Mapping[str, str]) -> Comments:
    """The comments of files.

    Args:
        texts: By file as findings name it.
    """
    return {file: comments_in(text) for file, text in texts.items()}


def ignored_by(
    finding: Finding, *, comments: Comments, paths: Sequence[PathIgnore], selection: Selection
) -> Ignored | None:
    """Why a finding does not count, or None when it does.

    Args:
        finding: The finding.
        comments: Comments of the user's own files; those of packages speak for their authors.
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
    runs: Sequence[tuple[Comments, Sequence[Finding]]], paths: Sequence[PathIgnore], *, pyproject: str
) -> tuple[UnusedIgnore, ...]:
    """Ignores that match no finding of any run, in the files that the runs touched.

    Args:
        runs: Of each target the comments and all findings; all targets that there are, since an ignore may be for one
            of them alone.
        paths: ``per-path-ignores``; one whose pattern fits none of these files is not judged.
        pyproject: What to call the file that has them.
    """
    there: dict[tuple[str, int], IgnoreComment] = {}
    used: dict[tuple[str, int], set[str]] = {}
    for comments, findings in runs:
        for file, found in comments.items():
            here = [finding for finding in findings if finding.location.file == file]
            for comment in found:
                there[file, comment.line] = comment
                codes = {code for finding in here if (code := comment.code_for(finding)) is not None}
                used.setdefault((file, comment.line), set()).update(codes)
    return (*_unused_comments(there, used), *_unused_paths(runs, paths, pyproject))


def _unused_comments(
    there: Mapping[tuple[str, int], IgnoreComment], used: Mapping[tuple[str, int], set[str]]
) -> Iterator[UnusedIgnore]:
    for (file, line), comment in sorted(there.items(), key=lambda item: item[0]):
        matched = used[file, line]
        left = tuple(code for code in comment.codes or () if code not in matched)
        if left or not matched:
            yield UnusedIgnore(file=file, line=line, codes=left, why=comment.why_void)


def _unused_paths(
    runs: Sequence[tuple[Comments, Sequence[Finding]]], paths: Sequence[PathIgnore], pyproject: str
) -> Iterator[UnusedIgnore]:
    findings = [finding for _, found in runs for finding in found]
    files = {file for comments, _ in runs for file in comments}
    for path in paths:
        matched = {path.code_for(finding) for finding in findings}
        left = tuple(code for code in path.codes if code not in matched)
        is_touched = any(path.covers(file) for file in files) or matched != {None}
        if left and is_touched:
            yield UnusedIgnore(file=pyproject, codes=left, why=f"{path.pattern!r} has no such finding")
