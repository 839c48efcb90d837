"""Readers: each takes a value from a recording and returns what may be shown of it.

A name from the program gets the same pseudonym everywhere (``name3``, ``file1.py``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, get_args

from graphdoctor.facts.counts import WatchOutcome
from graphdoctor.facts.hints import HintCode
from graphdoctor.facts.kernels import ProfilePhase
from graphdoctor.facts.record_kinds import TORCH_KINDS
from graphdoctor.facts.recording import Environment, GapKind, SwitchKind
from graphdoctor.facts.run import CallPhase, Phase
from graphdoctor.facts.spec import RunSpec, options_of
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.studies.bundle.redact import vocabulary as known
from graphdoctor.studies.bundle.redact.break_words import BreakWords
from graphdoctor.studies.bundle.redact.vocabulary import KNOWN, LEFT_OUT
from graphdoctor.trace.origin import RESUME_NAME, Origins, is_probe

Reader = Callable[[str], str | None]

SITE = "/site-packages"
STDLIB = "/lib/python3.0"

_GENERATED = re.compile(
    r"^<(?:frozen [a-z_.]+|string|unknown|stdin|eval_with_key>[.\d]*|__array_function__ internals)>?$"
)
_SPECIAL = re.compile(r"<(?:module|lambda|listcomp|dictcomp|setcomp|genexpr|locals)>")
_PART = re.compile(r"[\w.+-]+")
_SIZE = r"(?:[su]?\d+)"
_TENSOR = re.compile(
    rf"\b(?:b?f\d+|i\d+|u\d+|b8|c\d+)\[(?:{_SIZE}(?:, ?{_SIZE})*)?\](?: (?:cpu|cuda|xpu|mps|meta)(?::\d+)?)?"
)
_OPERATION = re.compile(
    r"^(?:torch|aten|prims?|inductor|math|_?operator|builtins|_c10d_functional)(?:\.\w+)*$"
)
_OPERATION_SPACES = frozenset(
    {"aten", "prims", "prim", "inductor", "higher_order", "_c10d_functional", "c10d"}
)
_STDLIB_FOLDER = re.compile(r"python3\.\d+|Lib")
_VERSION = re.compile(
    r"^v?(\d+(?:\.(?:\d+|dev\d+|post\d+))*(?:a|b|rc)?\d*(?:\.dev\d+)?)(?:\+(cpu|cu\d+|rocm[\d.]+|xpu|git[0-9a-f]+))?"
)
_TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|[^\W\d]\w*|\d+(?:\.\d+)?|.", re.DOTALL)
_QUOTED_CODE = re.compile(r"`[^`]*`")
_STACK_ENTRY = re.compile(r'^(\s*)File "(.+)", line (\d+), in (.+)$')
_HEADER_AT = re.compile(r"^(.*\bat )(\S.*):(\d+)$")
_INSTRUCTION = re.compile(
    r"^((?:Graph Break Reason: )?Encountered graph break when attempting to trace )([A-Z_]+): .*$"
)
_WONT_CONVERT = re.compile(r"^WON'T CONVERT (\S+) (.+) line (\d+)\s*$")
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: *(.*))?$")
_WORD = re.compile(r"[^\W\d_]+")
_SIZED = ("shape[", "size()[", "stride(", "stride()[", "size(")


class Public:
    """Returns what may be shown of a value."""

    def __init__(self, environment: Environment, root: Path) -> None:
        self._origins = Origins(environment)
        self._root = root
        self._names: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._file_count = 0
        self._values: dict[str, str] = {}
        self._fingerprints: dict[str, str] = {}
        self.breaks = BreakWords(environment.torch_root)

    def name(self, text: str) -> str:
        """A name, dotted or not. The name of a resume function keeps torch's part."""
        if resume := RESUME_NAME.match(text):
            return f"torch_dynamo_resume_in_{self.name(resume[1])}_at_{resume[2]}"
        return ".".join(self._one_name(part) for part in text.split("."))

    def _one_name(self, text: str) -> str:
        if not text or text in known.NAMES or _SPECIAL.fullmatch(text):
            return text
        return self._names.setdefault(text, f"name{len(self._names) + 1}")

    def file(self, path: str) -> str:
        """A file. Keeps the path from the package on for public packages, Python and graphdoctor;
        else a pseudonym.
        """
        if _GENERATED.match(path):
            return path
        if path.startswith("<"):
            return f"<{LEFT_OUT}>"
        whole = path if path.startswith("/") or ":" in path[:3] else str(self._root / path)
        if whole not in self._files:
            self._files[whole] = self._shown_file(whole)
        return self._files[whole]

    def _shown_file(self, path: str) -> str:
        parts, (origin, package) = re.split(r"[/\\]", path), self._origins.of(path)
        if is_probe(path):
            return f"/graphdoctor/probe/{parts[-1]}"
        names = [part.removesuffix(".py") for part in parts]
        if origin == "stdlib":
            start = max(
                (at for at, part in enumerate(parts, start=1) if _STDLIB_FOLDER.fullmatch(part)),
                default=0,
            )
            folder, is_public = STDLIB, names[start] in sys.stdlib_module_names
        else:
            start = (
                len(names) - 1 - names[::-1].index(package)
                if package in known.PACKAGES and package in names
                else 0
            )
            folder, is_public = SITE, start > 0
        if is_public and all(_PART.fullmatch(part) for part in parts[start:]):
            return f"{folder}/{'/'.join(parts[start:])}"
        ending = ".py" if path.endswith(".py") else ""
        self._file_count += 1
        return f"{f'{SITE}/package/' if package else ''}file{self._file_count}{ending}"

    def module_path(self, path: str) -> str:
        """The path of a submodule, such as ``layers.0``; numbers in it stay."""
        return ".".join(part if part.isdigit() else self.name(part) for part in path.split("."))

    def function(self, text: str, file: str) -> str:
        """A function's name, which stays if its file is torch's, Python's, graphdoctor's or a
        public package's.
        """
        shown = self.file(file)
        is_public = shown.startswith(("/", "<frozen", "<eval_with_key")) and not shown.startswith(
            f"{SITE}/package/"
        )
        return text if is_public and re.fullmatch(r"[\w.<>]+", text) else self.name(text)

    def described(self, text: str) -> str:
        """A function as reports call it, such as ``Net.forward from line 16``."""
        match = re.fullmatch(r"(.+)( from line \d+)", text)
        return self.name(match[1]) + match[2] if match else self.name(text)

    def package(self, text: str) -> str:
        """A package's name."""
        return text if text.removesuffix(".py") in known.PACKAGES else "package"

    def place(self, text: str) -> str:
        """``file:line``, with torch's id in parentheses if there is one."""
        match = re.fullmatch(r"(.+):(\d+)(?: \((GB\d{4})\))?.*", text)
        if match is None:
            return text if text == "return" else LEFT_OUT
        return f"{self.file(match[1])}:{match[2]}" + (f" ({match[3]})" if match[3] else "")

    def expression(self, text: str) -> str:
        """A guard's source, or our words for it: ``self.scale`` as ``self.name2``, values in it as
        ``k1``.
        """
        shown: list[str] = []
        for token in _TOKEN.findall(_QUOTED_CODE.sub(f"`{LEFT_OUT}`", text)):
            if token[0] in "'\"":
                shown.append(
                    f"'{self.name(token[1:-1])}'"
                    if token[1:-1].isidentifier()
                    else f"'{self._value(token)}'"
                )
            elif token[0].isdigit():
                shown.append(token if "".join(shown).endswith(_SIZED) else self._value(token))
            elif token[0].isidentifier():
                shown.append(self._one_name(token))
            else:
                shown.append(token if token in ".[](), :=`-<>" + LEFT_OUT else "")
        return "".join(shown)

    def _value(self, text: str) -> str:
        return self._values.setdefault(text, f"k{len(self._values) + 1}")

    def operation(self, text: str) -> str:
        """An operation of torch or Python; one from the program is a name."""
        bare = text.replace("::", ".").removeprefix("torch.ops.")
        spaces = bare.split(".")[0]
        is_ours = bare == text.replace("::", ".") or spaces in _OPERATION_SPACES
        is_torchs = is_ours and _OPERATION.match(bare) and not bare.startswith("torch.classes.")
        if is_torchs or text in KNOWN["methods"]:
            return text
        return self.name(text) if text.replace(".", "_").isidentifier() else LEFT_OUT

    def values(self, text: str) -> str:
        """Summarized arguments: dtypes and shapes of tensors; anything else is left out."""
        unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", LEFT_OUT, text)
        found = _TENSOR.findall(unquoted)
        rest = _TENSOR.sub("", unquoted).strip(", ")
        return ", ".join([*found, *([LEFT_OUT] if rest else [])])

    def exception(self, text: str) -> str:
        """An exception's type."""
        is_known = text.rpartition(".")[2] in known.EXCEPTIONS
        return (
            text
            if is_known and re.fullmatch(r"(?:torch\.[\w.]+\.|builtins\.)?\w+", text)
            else self.name(text)
        )

    def outcome(self, text: str) -> str:
        """``ok``, or an exception's type."""
        return text if text == "ok" else self.exception(text)

    def _stack_line(self, entry: re.Match[str]) -> str:
        return f'{entry[1]}File "{self.file(entry[2])}", line {entry[3]}, in {self.function(entry[4], entry[2])}'

    def traceback(self, text: str) -> str:
        """A printed traceback with places and types, but no source and no messages: these are the
        program's own.
        """
        shown = []
        for line in text.splitlines():
            if entry := _STACK_ENTRY.match(line):
                shown.append(self._stack_line(entry))
            elif not line.startswith(" ") and (raised := _raised(line)):
                shown.append(self.exception(raised[1]))
            elif line.startswith(
                ("Traceback (most recent call last):", "During handling of", "The above exception")
            ):
                shown.append(self.breaks.kept(line))
        return "\n".join(shown)

    def break_text(self, text: str) -> str:
        """What torch says of a graph break: its own words, types and places, and no source."""
        ids = [f"GB{number}" for number in re.findall(r"\bgb(\d{4})\b", text)]
        shown: list[str] = []
        is_source = False
        for line in text.splitlines():
            entry = _STACK_ENTRY.match(line)
            # The source line and the carets below it are left out.
            is_source = entry is not None or (is_source and line.startswith("    "))
            if entry is not None:
                shown.append(self._stack_line(entry))
            elif not is_source:
                shown.append(self._break_line(line, ids))
        return "\n".join(shown)

    def _break_line(self, line: str, ids: list[str]) -> str:
        if wont := _WONT_CONVERT.match(line):
            return f"WON'T CONVERT {self.function(wont[1], wont[2])} {self.file(wont[2])} line {wont[3]}"
        if line.startswith("Graph break in user code at ") and (at := _HEADER_AT.match(line)):
            return f"{at[1]}{self.file(at[2])}:{at[3]}"
        if (raised := _raised(line)) and raised[2]:
            return f"{self.exception(raised[1])}: {self._break_line(raised[2], ids)}"
        if trace := _INSTRUCTION.match(line):
            # After the instruction, torch explains it with an example.
            return f"{trace[1]}{self.breaks.kept(trace[2])}: {LEFT_OUT}"
        return line if line.strip() in self.breaks.types else self.breaks.kept(line, *ids)

    def gb_type(self, text: str) -> str:
        """A graph-break type of torch; of any other text, torch's own words."""
        return text if text in self.breaks.types else self.breaks.kept(text)

    def fingerprint(self, text: str) -> str:
        """A number in place of a hash of the program's own words, which could be guessed."""
        return self._fingerprints.setdefault(text, f"{len(self._fingerprints) + 1:016x}")


def _raised(line: str) -> re.Match[str] | None:
    raised = _RAISED.match(line)
    return raised if raised and raised[1].rpartition(".")[2] in known.EXCEPTIONS else None


def _matching(pattern: re.Pattern[str] | str, otherwise: str | None = LEFT_OUT) -> Reader:
    found = re.compile(pattern)
    return lambda text: text if found.fullmatch(text) else otherwise


def _among(words: Collection[str], otherwise: str | None = LEFT_OUT) -> Reader:
    return lambda text: text if text in words else otherwise


compile_id = _matching(r"^(?:(?:p|rank|reset)\d+:)*(?:!\d+/?)?(?:-|\d+)?(?:/(?:-|\d+))*(?:_\d+)?$")
process = _matching(r"^(?:p|rank)\d+$")
dtype = _matching(
    r"^(?:torch\.)?(?:b?f(?:loat)?(?:16|32|64)|bfloat16|half|double|u?i(?:nt)?(?:8|16|32|64)|b8|bool"
    r"|c(?:omplex)?(?:32|64|128)|f8\w{0,8}|float8_\w{0,10})$"
)
device = _matching(r"^(?:cpu|cuda|xpu|mps|meta|hpu|xla|privateuseone)(?::\d+)?$")
rule_code = _matching(r"^GD\d{3}$")
torch_id = _matching(r"^GB\d{4}$", None)
placeholder = _matching(r"^(arg\d+_1|(primals|tangents)_\d+)$")
shape = _matching(_TENSOR)
"""The dtype and shape that a node returns."""
size = _matching(r"[su]?\d+")
"""A symbol or a number."""
printed_value = _matching(r"^(?:True|False|None|-?\d{1,6}(?:\.\d{1,6})?)$")
build = _matching(r"^(?:CPU|(?:CUDA|ROCm) \d+(?:\.\d+)*)$", None)
"""What torch was built for, such as ``CUDA 12.8``."""
device_name = _matching(r"^(?:NVIDIA|AMD|Intel|Tesla)(?: [\w().-]{1,24}){1,8}$", None)
config_name = _matching(
    r"^torch\.(?:_dynamo|_inductor|_functorch|fx\.experimental)\.(?:_?config)(?:\.\w+)+$", None
)
guard_kind, backend, opcode = (
    _among(KNOWN[words]) for words in ("guard_kinds", "backends", "opcodes")
)
record_kind = _among(TORCH_KINDS | KNOWN["record_kinds"])
switch, hint_name = (_among(KNOWN[words], None) for words in ("switches", "hint_names"))
fixed = _among(
    KNOWN["fixed"].union(
        *map(
            get_args, (Phase, CallPhase, ProfilePhase, WatchOutcome, HintCode, SwitchKind, GapKind)
        )
    ),
    None,
)
"""A text that names one of a few things."""
option_name = _among(options_of(RunSpec).keys() - {"seed"}, None)
inputs_from = _among(
    KNOWN["origins"] | {INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED}, "a function in the program"
)
_PHASES = "|".join(
    re.escape(text).replace(r"\{index\}", r"\d+")
    for text in (*get_args(Phase), *get_args(CallPhase))
)
phase = _matching(rf"(?:{_PHASES})(?:, compiling \d+/\d+)?")
"""What the probe was doing; a variation, which has values in it, is left out."""


def event_name(text: str) -> str:
    """The name of one of torch's compile phases."""
    return text if KNOWN["phase_words"].issuperset(_WORD.findall(text)) else LEFT_OUT


def version(text: str) -> str | None:
    """A version. A build tag stays only if torch's own builds have it."""
    match = _VERSION.match(text)
    return None if match is None else match[1] + (f"+{match[2]}" if match[2] else "")


def platform(text: str) -> str | None:
    """System, major release and machine: a kernel's full name can be private."""
    match = re.match(r"^(Linux|macOS|Darwin|Windows)-(\d+\.\d+)?", text)
    machine = text.rpartition(" ")[2]
    known = (
        machine if machine in ("x86_64", "aarch64", "arm64", "AMD64", "ppc64le", "s390x") else ""
    )
    return None if match is None else f"{match[0]} {known}".strip()


_OPTIONS: Mapping[str, Reader] = {
    "backend": backend,
    "mode": _among(("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")),
    "device": device,
    "dtype": dtype,
    "phase": phase,
}


def option(name: str, value: object) -> Any:  # noqa: ANN401 - of as many types as options
    """The value of a name: an option of a run, what the words of a hint need, a config value, a
    package's version.
    """
    if name.startswith("torch."):
        return value if printed_value(str(value)) != LEFT_OUT else LEFT_OUT
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {LEFT_OUT: LEFT_OUT} if value else {}
    if isinstance(value, (list, tuple)):
        return []
    if package_name(name):
        return version(str(value)) or LEFT_OUT
    return _OPTIONS[name](str(value)) if name in _OPTIONS else LEFT_OUT


def package_name(text: str) -> str | None:
    """The name of an installed package, if it's a public one."""
    return text if text.replace("-", "_") in known.PACKAGES or text == "pytorch-triton" else None
