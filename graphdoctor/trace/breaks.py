"""Parses what torch prints for a graph break, and finds out in which code of torch's own it
happened.

The layout is that of ``format_graph_break_message`` and ``unimplemented``
(``torch/_dynamo/exc.py``, 2.13) and of ``log_graph_break`` (``torch/_dynamo/symbolic_convert.py``,
2.13); 2.11 and 2.15 print the same. A text with another layout is kept whole as the reason: nothing
is dropped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from typing import Any, NamedTuple

from graphdoctor.facts.recording import (
    BreakEffect,
    BreakReason,
    BreakRecord,
    BreakTopic,
    RecompileLimit,
    TorchMechanism,
)
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry

_CHAIN = re.compile(
    r"^\*\*\* While handling this graph break, another graph break occurred: \*\*\*$", re.MULTILINE
)
_ID = re.compile(r"/gb/gb(\d+)\.html")
_INSTRUCTION = re.compile(r"^Encountered graph break when attempting to trace (\w+)")
_HEADER_PARAGRAPH = re.compile(
    r"\A(?:Encountered graph break|Failed to handle graph break)[^\n]*\n\s*\n"
)
_HIGHER_ORDER = re.compile(r"^[^\S\n]*Higher Order Operator: (.+)$", re.MULTILINE)
_HEADER_AT = re.compile(r"^Graph break in user code at (.+):(\d+)$", re.MULTILINE)
_WONT_CONVERT = re.compile(r"^WON'T CONVERT (\S+) (.+) line (\d+)\s*$", re.MULTILINE)
_STACK_ENTRY = re.compile(r'^  File "(.+)", line (\d+), in (.+)$')
_SYMBOLIC = (
    "Could not guard on data-dependent expression",
    "Could not extract specialized integer",
)
_UNKNOWN_TYPES = (
    "Unsupported input type",
    "is not supported or pytree-flattenable",
    "which is not a known type",
    "Encountered unrecognized type",
)
"""Words of torch.export for an input or an output of a type that it can't take apart
(``torch/export/_trace.py``, ``torch/_export/utils.py`` and ``torch/_dynamo/functional_export.py``,
2.13)."""

_EXPORT_ADVICE = re.compile(
    r"\n\s*(?:The error above occurred when calling torch\.export\.export"
    r"|For more information, run with TORCH_LOGS|For C\+\+ stack trace|User Stack \(most recent)"
)
_RECURRENT = "RNN, GRU, or LSTM"
_SKIP_NOTICE = "which results in a skip"
_TRACEBACK = "Traceback (most recent call last):"
_END_OF_STACK = re.compile(
    r"^(?:Traceback \(most recent call last\):|NoneType: None)$", re.MULTILINE
)
_EXCEPTION = re.compile(
    r"^(?!\s)([\w.]+(?:Error|Exception|Unsupported|Failed|Hit|Warning|\w))(?::\s?|$)", re.MULTILINE
)
_AFTER_MESSAGE = re.compile(
    r"^(?:[^\S\n]*from user code:[^\S\n]*$|Set TORCHDYNAMO_VERBOSE=1)", re.MULTILINE
)
MAX_MESSAGE = 20_000


class PrintedEntry(NamedTuple):
    """One entry of a printed stack; ``text`` has no indentation and is None if torch printed no
    source line.
    """

    file: str
    line: int
    function: str
    text: str | None


@dataclass
class PrintedBreak:
    """A graph break or an error as its record has it, with the printed stack, which an exact one
    can still replace.
    """

    record: BreakRecord
    """All that torch prints but the stack."""
    stack: tuple[PrintedEntry, ...] = ()
    header: tuple[str, int] | None = None
    exact: tuple[StackEntry, ...] = ()


def break_record(
    words: str,
    chain: tuple[BreakReason, ...],
    effect: BreakEffect,
    **fields: Any,  # noqa: ANN401
) -> BreakRecord:
    """A break without a stack; its topic is read from all of torch's words."""
    operator = _HIGHER_ORDER.search(words)
    fields = {
        "compile_id": None,
        "stack": (),
        "topic": topic_of(words, chain[0]),
        "higher_order_operator": operator and operator[1].strip(),
        **fields,
    }
    return BreakRecord(chain=chain, words=words[:MAX_MESSAGE], effect=effect, **fields)


def parse_break(payload: str) -> PrintedBreak:
    """Split a ``dynamo_graph_break_reason`` payload into its parts."""
    if wont := _WONT_CONVERT.search(payload):
        # The notice of ``unimplemented_with_warning`` (``torch/_dynamo/exc.py``, 2.13): a backend's
        # exception. torch logs a full record of the same break right after it.
        reason = BreakReason(
            gb_type="Backend compiler exception", explanation=exception_words(payload) or None
        )
        entry = PrintedEntry(wont[2], int(wont[3]), wont[1], None)
        record = break_record(payload.strip(), (reason,), "resumed")
        return PrintedBreak(record, (entry,), header=(entry.file, entry.line))
    words, stack = _split(payload)
    header = _HEADER_AT.search(payload)
    instruction = _INSTRUCTION.search(words)
    record = break_record(
        words or payload.strip(),
        parse_chain(words or payload),
        _effect(payload, words),
        instruction=instruction and instruction[1],
    )
    return PrintedBreak(record, parse_stack(stack), header=header and (header[1], int(header[2])))


def _split(payload: str) -> tuple[str, str]:
    if _SKIP_NOTICE in payload:
        # Here torch prints the stack first, and the reason only as the exception of a Python
        # traceback.
        _, _, rest = payload.partition("in the following user code:\n")
        stack, _, trace = rest.partition(_TRACEBACK)
        return exception_words(_TRACEBACK + trace), stack
    text = payload.partition("Graph Break Reason: ")[2] or payload
    words, _, stack = text.partition("\nUser code traceback:\n")
    words, _, _ = words.partition("\nStack variable source attribution:\n")
    return words.strip(), _END_OF_STACK.split(stack, maxsplit=1)[0]


def _effect(payload: str, words: str) -> BreakEffect:
    if words.startswith("Encountered graph break that we cannot resume from"):
        return "rest_eager"
    is_skip = words.startswith("Failed to handle graph break gracefully") or _SKIP_NOTICE in payload
    return "frame_skipped" if is_skip else "resumed"


def parse_error(trace: str) -> PrintedBreak:
    """Split a ``dynamo_error`` payload, which is Python's traceback text, into its parts.

    After the message torch prints the user's stack (``TorchDynamoException`` and
    ``augment_exc_message``, ``torch/_dynamo/exc.py``, 2.11 to 2.15).
    """
    words = exception_words(trace)
    _, has_stack, rest = trace.rpartition("\nfrom user code:\n")
    stack = rest.partition("\nSet TORCHDYNAMO_VERBOSE=1")[0] if has_stack else ""
    # The first line has one space more than those of other stacks.
    printed = parse_stack(stack.lstrip("\n").removeprefix(" "))
    return PrintedBreak(break_record(words, parse_chain(words), "raised"), printed)


def exception_words(trace: str) -> str:
    """The last exception's message in Python's traceback text, without its type name, the user's
    stack and advice.
    """
    last = trace.rpartition(_TRACEBACK)[2]
    match = _EXCEPTION.search(last)
    return _AFTER_MESSAGE.split(last[match.end() :] if match else last, maxsplit=1)[0].strip()


def parse_chain(words: str) -> tuple[BreakReason, ...]:
    """Torch's chained messages, the cause first; at least one."""
    reasons = tuple(reason for part in _CHAIN.split(words) if (reason := _parse_reason(part)))
    return reasons or (BreakReason(gb_type=_first_line(words)),)


def topic_of(words: str, cause: BreakReason) -> BreakTopic | None:
    """Return what a cause is about, by torch's words (2.13 and 2.15)."""
    if any(text in words for text in _SYMBOLIC):
        return "symbolic_number"
    return "recurrent_module" if _RECURRENT in f"{cause.gb_type} {cause.explanation}" else None


def export_words(message: str) -> str:
    """The message of an exception of torch.export, without its general advice and the program's
    stack.
    """
    message = _AFTER_MESSAGE.split(message, maxsplit=1)[0]
    return _EXPORT_ADVICE.split(message, maxsplit=1)[0].strip()


def export_topic(words: str, cause: BreakReason, *, is_truth: bool) -> BreakTopic | None:
    """Return what an exception of torch.export is about; None if Dynamo's own words name it."""
    if is_truth:
        return "tensor_truth"
    topic = topic_of(words, cause)
    if cause.explanation is not None or topic == "symbolic_number":
        return topic
    return "export_type" if any(text in words for text in _UNKNOWN_TYPES) else "export_error"


def limit_of(words: str) -> RecompileLimit:
    """Return which of torch's two limits a frame hit (``exceeds_recompile_limit``,
    ``torch/_dynamo/cache_size.py``, 2.13).
    """
    name: RecompileLimit = "accumulated_recompile_limit"
    return name if name in words else "recompile_limit"


def _parse_reason(part: str) -> BreakReason | None:
    head, has_body, body = part.partition("\n  Explanation:")
    if not has_body:
        return None
    lines = [line for line in head.splitlines() if line.strip() and not _HIGHER_ORDER.match(line)]
    link = _ID.search(body)
    body = re.split(r"\n\s*For more details about this graph break", body, maxsplit=1)[0]
    body, _, context = body.partition("\n  Developer debug context:")
    pieces = re.split(r"^  Hint: ?", body, flags=re.MULTILINE)
    return BreakReason(
        gb_type=lines[-1].strip() if lines else "unknown",
        torch_id=f"GB{int(link[1]):04d}" if link else None,
        explanation=_dedent(pieces[0]) or None,
        hints=tuple(dict.fromkeys(_dedent(piece) for piece in pieces[1:] if piece.strip())),
        context=_dedent(context) or None,
    )


def _dedent(text: str) -> str:
    first, newline, rest = text.strip("\n").partition("\n")
    return (first.strip() + newline + textwrap.dedent(rest)).strip()


def _first_line(words: str) -> str:
    # A paragraph before the message says what torch does about the break.
    words = _HEADER_PARAGRAPH.sub("", words, count=1)
    return next((line.strip() for line in words.splitlines() if line.strip()), "unknown")[:200]


def parse_stack(text: str) -> tuple[PrintedEntry, ...]:
    """The entries of a printed traceback, without its caret lines."""
    lines = text.splitlines()
    return tuple(
        PrintedEntry(
            match[1], int(match[2]), match[3], (after.startswith("    ") and after.strip()) or None
        )
        for line, after in zip_longest(lines, lines[1:], fillvalue="")
        if (match := _STACK_ENTRY.match(line))
    )


_FOLDERS: tuple[tuple[str, TorchMechanism], ...] = (
    ("/torch/nn/parallel/distributed.py", "ddp_forward"),
    ("/torch/distributed/fsdp/", "fsdp_hook"),
    ("/torch/utils/checkpoint.py", "checkpoint"),
)
_MODULE_FILE = "torch/nn/modules/module.py"
_CHECKPOINT = "torch.utils.checkpoint"
_SIDE_EFFECT = "HOP: Unsafe side effect"


def mechanism_of(path: Sequence[StackEntry], record: BreakRecord) -> TorchMechanism | None:
    """The code of torch's own that a break happened in."""
    cause = record.chain[0]
    outwards = takewhile(lambda entry: entry.origin not in PROGRAM_ORIGINS, reversed(path))
    below = [(entry.file.replace("\\", "/"), entry.text or "") for entry in outwards]
    below = [(file, text) for file, text in below if "/torch/_dynamo/" not in file]
    is_inside = (record.higher_order_operator or "").startswith(f"{_CHECKPOINT}.")
    # A function that Dynamo doesn't trace, such as ``checkpoint_sequential``.
    is_skipped = not below and (cause.context or "").startswith(f"module: {_CHECKPOINT},")
    if is_skipped or (is_inside and cause.gb_type == _SIDE_EFFECT):
        return "checkpoint"
    is_hook = below and below[0][0].endswith(_MODULE_FILE) and "hook(" in below[0][1].lower()
    mechanisms = (mechanism for file, _ in below for part, mechanism in _FOLDERS if part in file)
    return next(mechanisms, "module_hook" if is_hook else None)
