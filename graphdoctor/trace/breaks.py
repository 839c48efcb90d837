"""Parses what torch prints for a graph break, and finds out in which code of torch's own it happened.

The layout is that of ``format_graph_break_message`` and ``unimplemented`` (``torch/_dynamo/exc.py``, 2.13) and of
``log_graph_break`` (``torch/_dynamo/symbolic_convert.py``, 2.13); 2.11 and 2.15 print the same. A text with another
layout is kept whole as the reason: nothing is dropped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoctor.facts.recording import BreakEffect, BreakReason, BreakTopic, RecompileLimit, TorchMechanism
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry

_CHAIN = re.compile(r"^\*\*\* While handling this graph break, another graph break occurred: \*\*\*$", re.MULTILINE)
_ID = re.compile(r"/gb/gb(\d+)\.html")
_INSTRUCTION = re.compile(r"^Encountered graph break when attempting to trace (\w+)")
_HEADER_PARAGRAPH = re.compile(r"\A(?:Encountered graph break|Failed to handle graph break)[^\n]*\n\s*\n")
_HIGHER_ORDER = re.compile(r"^[^\S\n]*Higher Order Operator: (.+)$", re.MULTILINE)
_HEADER_AT = re.compile(r"^Graph break in user code at (.+):(\d+)$", re.MULTILINE)
_WONT_CONVERT = re.compile(r"^WON'T CONVERT (\S+) (.+) line (\d+)\s*$", re.MULTILINE)
_STACK_ENTRY = re.compile(r'^  File "(.+)", line (\d+), in (.+)$')
_SYMBOLIC = ("Could not guard on data-dependent expression", "Could not extract specialized integer")
_UNKNOWN_TYPES = (
    "Unsupported input type",
    "is not supported or pytree-flattenable",
    "which is not a known type",
    "Encountered unrecognized type",
)
"""What torch.export says of an input or an output of a type that it can't take apart (``torch/export/_trace.py``,
``torch/_export/utils.py`` and ``torch/_dynamo/functional_export.py``, 2.13)."""

_EXPORT_ADVICE = re.compile(
    r"\n\s*(?:The error above occurred when calling torch\.export\.export"
    r"|For more information, run with TORCH_LOGS|For C\+\+ stack trace|User Stack \(most recent)"
)
_RECURRENT = "RNN, GRU, or LSTM"
_OLD_REASON = re.compile(r"\A(?:Graph break in user code at [^\n]*\n)?Reason: (?:Unsupported: )?")
_SKIP_NOTICE = "which results in a skip"
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class PrintedEntry:
    """One entry of a printed stack; ``text`` has no indentation and is None if torch printed no source line."""

    file: str
    line: int
    function: str
    text: str | None


@dataclass
class PrintedBreak:
    """A graph break or an error as a record has it; the exact stack that follows can still replace its printed one.

    Args:
        effect: What torch says it does next; None if it says nothing of it.
    """

    chain: tuple[BreakReason, ...]
    words: str
    stack: tuple[PrintedEntry, ...] = ()
    effect: BreakEffect | None = None
    instruction: str | None = None
    higher_order_operator: str | None = None
    header: tuple[str, int] | None = None
    compile_id: str | None = None
    attempt: int | None = None
    call_index: int | None = None
    exact: tuple[StackEntry, ...] = ()

    @property
    def topic(self) -> BreakTopic | None:
        """What the cause is about, if neither its id nor its name says so."""
        return topic_of(self.words, self.chain[0])


def parse_break(payload: str) -> PrintedBreak:
    """Split a ``dynamo_graph_break_reason`` payload into its parts."""
    wont = _WONT_CONVERT.search(payload)
    if wont:
        return _parse_wont_convert(payload, wont)
    words, stack = _split(payload)
    header = _HEADER_AT.search(payload)
    instruction = _INSTRUCTION.search(words)
    operator = _HIGHER_ORDER.search(words)
    return PrintedBreak(
        parse_chain(words if words else payload),
        words or payload.strip(),
        parse_stack(stack),
        effect=_effect(payload, words),
        instruction=instruction[1] if instruction else None,
        higher_order_operator=operator[1].strip() if operator else None,
        header=(header[1], int(header[2])) if header else None,
    )


def _split(payload: str) -> tuple[str, str]:
    if _SKIP_NOTICE in payload:
        # Here torch prints the stack first, and the reason only as the exception of a Python traceback.
        _, _, rest = payload.partition("in the following user code:\n")
        stack, _, trace = rest.partition(_TRACEBACK)
        return exception_words(_TRACEBACK + trace), stack
    _, found, rest = payload.partition("Graph Break Reason: ")
    if not found:
        # As torch 2.6 writes it.
        rest = _OLD_REASON.sub("", payload, count=1)
    words, _, stack = rest.partition("\nUser code traceback:\n")
    words, _, _ = words.partition("\nStack variable source attribution:\n")
    stack = re.split(
        r"^(?:Traceback \(most recent call last\):|NoneType: None)$", stack, maxsplit=1, flags=re.MULTILINE
    )[0]
    return words.strip(), stack


def _effect(payload: str, words: str) -> BreakEffect | None:
    if words.startswith("Encountered graph break that we cannot resume from"):
        return "rest_eager"
    if words.startswith("Failed to handle graph break gracefully") or _SKIP_NOTICE in payload:
        return "frame_skipped"
    if words.startswith(("Encountered graph break when attempting to trace", "Data-dependent")):
        return "resumed"
    return None


def parse_error(trace: str) -> PrintedBreak:
    """Split a ``dynamo_error`` payload, which is Python's traceback text, into its parts.

    After the message torch prints the user's stack (``TorchDynamoException`` and ``augment_exc_message``,
    ``torch/_dynamo/exc.py``, 2.6 to 2.15).
    """
    words = exception_words(trace)
    _, found, rest = trace.rpartition("\nfrom user code:\n")
    stack = rest.partition("\nSet TORCHDYNAMO_VERBOSE=1")[0] if found else ""
    # The first line has one space more than those of other stacks.
    return PrintedBreak(parse_chain(words), words, parse_stack(stack.lstrip("\n").removeprefix(" ")))


def exception_words(trace: str) -> str:
    """The last exception's message in Python's traceback text, without its type name, the user's stack and advice."""
    last = trace.rpartition(_TRACEBACK)[2]
    match = re.search(
        r"^(?!\s)([\w.]+(?:Error|Exception|Unsupported|Failed|Hit|Warning|\w))(?::\s?|$)", last, re.MULTILINE
    )
    message = last[match.end() :] if match else last
    message = re.split(r"^[^\S\n]*from user code:[^\S\n]*$", message, maxsplit=1, flags=re.MULTILINE)[0]
    message = re.split(r"^Set TORCHDYNAMO_VERBOSE=1", message, maxsplit=1, flags=re.MULTILINE)[0]
    return message.strip()


def parse_chain(words: str) -> tuple[BreakReason, ...]:
    """Torch's chained messages, the cause first; at least one."""
    reasons = tuple(reason for part in _CHAIN.split(words) if (reason := _parse_reason(part)))
    return reasons or (BreakReason(gb_type=_first_line(words)),)


def topic_of(words: str, cause: BreakReason) -> BreakTopic | None:
    """What a cause is about, by torch's words (2.13 and 2.15)."""
    if any(text in words for text in _SYMBOLIC):
        return "symbolic_number"
    return "recurrent_module" if _RECURRENT in f"{cause.gb_type} {cause.explanation}" else None


def export_words(message: str) -> str:
    """The message of an exception of torch.export, without its general advice and the program's stack."""
    message = re.split(r"^[^\S\n]*from user code:[^\S\n]*$", message, maxsplit=1, flags=re.MULTILINE)[0]
    return _EXPORT_ADVICE.split(message, maxsplit=1)[0].strip()


def export_topic(words: str, cause: BreakReason, *, is_truth: bool) -> BreakTopic | None:
    """What an exception of torch.export is about; None if Dynamo's own words name it."""
    if is_truth:
        return "tensor_truth"
    if cause.explanation is not None:
        return topic_of(words, cause)
    if any(text in words for text in _SYMBOLIC):
        return "symbolic_number"
    return "export_type" if any(text in words for text in _UNKNOWN_TYPES) else "export_error"


def limit_of(words: str) -> RecompileLimit:
    """Which of torch's two limits a frame hit (``exceeds_recompile_limit``, ``torch/_dynamo/cache_size.py``, 2.13)."""
    return "accumulated_recompile_limit" if "accumulated_recompile_limit" in words else "recompile_limit"


def _parse_reason(part: str) -> BreakReason | None:
    head, found, body = part.partition("\n  Explanation:")
    if not found:
        return None
    lines = [line for line in head.splitlines() if line.strip() and not _HIGHER_ORDER.match(line)]
    link = _ID.search(body)
    body = re.split(r"\n\s*For more details about this graph break", body, maxsplit=1)[0]
    body, _, context = body.partition("\n  Developer debug context:")
    pieces = re.split(r"^  Hint: ?", body, flags=re.MULTILINE)
    hints = tuple(dict.fromkeys(_dedent(piece) for piece in pieces[1:] if piece.strip()))
    return BreakReason(
        gb_type=lines[-1].strip() if lines else "unknown",
        torch_id=f"GB{int(link[1]):04d}" if link else None,
        explanation=_dedent(pieces[0]) or None,
        hints=hints,
        context=_dedent(context) or None,
    )


def _dedent(text: str) -> str:
    """The text without torch's four-space indentation of every line but the first."""
    first, newline, rest = text.strip("\n").partition("\n")
    return (first.strip() + newline + textwrap.dedent(rest)).strip()


def _first_line(words: str) -> str:
    # A paragraph before the message says what torch does about the break.
    words = _HEADER_PARAGRAPH.sub("", words, count=1)
    return next((line.strip() for line in words.splitlines() if line.strip()), "unknown")[:200]


def parse_stack(text: str) -> tuple[PrintedEntry, ...]:
    """The entries of a printed traceback, without its caret lines."""
    entries: list[PrintedEntry] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        match = _STACK_ENTRY.match(line)
        if match is None:
            continue
        following = lines[number + 1] if number + 1 < len(lines) else ""
        source = following.strip() if following.startswith("    ") else None
        entries.append(PrintedEntry(match[1], int(match[2]), match[3], source or None))
    return tuple(entries)


def _parse_wont_convert(payload: str, match: re.Match[str]) -> PrintedBreak:
    """The notice of ``unimplemented_with_warning`` (``torch/_dynamo/exc.py``, 2.13): a backend's exception.

    torch logs a full record of the same break right after it.
    """
    reason = BreakReason(gb_type="Backend compiler exception", explanation=exception_words(payload) or None)
    entry = PrintedEntry(match[2], int(match[3]), match[1], None)
    return PrintedBreak((reason,), payload.strip(), (entry,), header=(entry.file, entry.line))


_FOLDERS: tuple[tuple[str, TorchMechanism], ...] = (
    ("torch/nn/parallel/distributed.py", "ddp_forward"),
    ("torch/distributed/fsdp/", "fsdp_hook"),
    ("torch/utils/checkpoint.py", "checkpoint"),
)
_MODULE_FILE = "torch/nn/modules/module.py"
_CHECKPOINT = "torch.utils.checkpoint."
_SIDE_EFFECT = "HOP: Unsafe side effect"


def mechanism_of(path: Sequence[StackEntry], text: PrintedBreak) -> TorchMechanism | None:
    """The code of torch's own that a break happened in."""
    cause = text.chain[0]
    is_checkpointed = (text.higher_order_operator or "").startswith(_CHECKPOINT)
    below = _below_the_program(path)
    if not below:
        return "checkpoint" if _is_checkpoint_itself(cause.context) or _is_side_effect(cause, is_checkpointed) else None
    if _is_side_effect(cause, is_checkpointed):
        return "checkpoint"
    for entry in reversed(below):
        file = entry.file.replace("\\", "/")
        for part, mechanism in _FOLDERS:
            if f"/{part}" in file:
                return mechanism
    return "module_hook" if _is_module_hook(below) else None


def _below_the_program(path: Sequence[StackEntry]) -> list[StackEntry]:
    below: list[StackEntry] = []
    for entry in reversed(path):
        if entry.origin in PROGRAM_ORIGINS:
            break
        below.append(entry)
    return [entry for entry in reversed(below) if "/torch/_dynamo/" not in entry.file.replace("\\", "/")]


def _is_module_hook(below: Sequence[StackEntry]) -> bool:
    last = below[-1]
    return last.file.replace("\\", "/").endswith(_MODULE_FILE) and "hook(" in (last.text or "").lower()


def _is_checkpoint_itself(context: str | None) -> bool:
    """A function of ``torch.utils.checkpoint`` that Dynamo doesn't trace, such as ``checkpoint_sequential``."""
    return (context or "").startswith("module: torch.utils.checkpoint,")


def _is_side_effect(cause: BreakReason, is_checkpointed: bool) -> bool:
    return is_checkpointed and cause.gb_type == _SIDE_EFFECT
