"""Redacts facts: what may leave the machine without the program's own content.

Numbers, flags and literals stay. Text stays only if its type is marked (``facts/shared.py``), as
far as the reader of that mark keeps it; any other text is left out, so a new field is private. A
name from the program has the same pseudonym everywhere (``name3``, ``file1.py``).
"""

from __future__ import annotations

import builtins
import hashlib
import json
import keyword
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from graphdoctor.facts.base import Fact, field_types, shared_kinds
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.picture import GeneratedCode, SourceText
from graphdoctor.facts.record_kinds import TORCH_KINDS
from graphdoctor.facts.recording import Environment, TargetInfo
from graphdoctor.facts.spec import RunSpec, options_of
from graphdoctor.facts.trials import Variation, WhatIf
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.trace.guards.forms import STATE_NAMES
from graphdoctor.trace.origin import Origins

LEFT_OUT = "…"
"""Stands for anything that is left out."""

_FactT = TypeVar("_FactT", bound=Fact)
_Reader = Callable[[str], str | None]

_LEFT_OUT_WHOLE = (WhatIf, Treatment, Variation, SourceText, GeneratedCode)
"""Facts that mostly hold source or values."""

_PUBLIC = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(
        Path(__file__).with_name("public_words.toml").read_text(encoding="utf-8")
    ).items()
}
_EXCEPTIONS = _PUBLIC["exceptions"].union(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
_NAMES = _PUBLIC["source_words"].union(
    dir(builtins),
    keyword.kwlist,
    re.findall(r"[^\W\d]\w*", " ".join(STATE_NAMES)),
    *(map(dir, (object, type, int, float, str, list, dict, set, type(lambda: None)))),
)

_GENERATED = re.compile(
    r"<(?:frozen [a-z_.]+|string|unknown|stdin|eval_with_key>[.\d]*|__array_function__ internals)>?"
)
_SPECIAL = re.compile(r"<(?:module|lambda|listcomp|dictcomp|setcomp|genexpr|locals)>")
_SIZE = r"(?:[su]?\d+)"
_TENSOR = (
    rf"\b(?:b?f\d+|i\d+|u\d+|b8|c\d+)\[(?:{_SIZE}(?:, ?{_SIZE})*)?\]"
    r"(?: (?:cpu|cuda|xpu|mps|meta)(?::\d+)?)?"
)
_DTYPE = (
    r"(?:torch\.)?(?:b?f(?:loat)?(?:16|32|64)|bfloat16|half|double|u?i(?:nt)?(?:8|16|32|64)|b8|bool"
    r"|c(?:omplex)?(?:32|64|128)|f8\w{0,8}|float8_\w{0,10})"
)
_OPERATION = re.compile(
    r"(?:torch\.ops\.)?(?:aten|prims?|inductor|higher_order|_?c10d(?:_functional)?)(?:(?:\.|::)\w+)*"
    r"|(?:torch|math|_?operator|builtins)(?!\.classes)(?:\.\w+)*"
)
_TOKEN = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|[^\W\d]\w*|\d+(?:\.\d+)?|[^\W_]|.", re.DOTALL)
_SIZED = re.compile(r"(?:shape\[|size\(\)\[|stride\(\)?\[?|size\()$")
_VALUE = re.compile(r"True|False|None|-?\d{1,6}(?:\.\d{1,6})?")

_CHANGED = re.compile(rf"train mode|eval mode|on|off|True|False|\d+|{_DTYPE}")

_PATTERNS = {
    "compile_id": r"(?:(?:p|rank|reset)\d+:)*(?:!\d+/?)?(?:-|\d+)?(?:/(?:-|\d+))*(?:_\d+)?$",
    "process": r"(?:p|rank)\d+$",
    "dtype": rf"{_DTYPE}$",
    "device": r"(?:cpu|cuda|xpu|mps|meta|hpu|xla|privateuseone)(?::\d+)?$",
    "rule_code": r"GD\d{3}$",
    "torch_id": r"GB\d{4}$",
    "shape": rf"{_TENSOR}$",
    "size": rf"{_SIZE}$",
    "build": r"(?:CPU|(?:CUDA|ROCm) \d+(?:\.\d+)*)$",
    "device_name": r"(?:NVIDIA|AMD|Intel|Tesla)(?: [\w().-]{1,24}){1,8}$",
    "config_name": r"torch\.(?:_dynamo|_inductor|_functorch|fx\.experimental)\._?config(?:\.\w+)+$",
    # Of a private build only the number stays, of a private kernel only the release.
    "version": r"v?\d+(?:\.(?:\d+|dev\d+|post\d+))*(?:(?:a|b|rc)\d*)?(?:\.dev\d+)?"
    r"(?:\+(?:cpu|cu\d+|rocm[\d.]+|xpu|git[0-9a-f]+)\b)?",
    "platform": r"(?:Linux|macOS|Darwin|Windows)-(?:\d+\.\d+)?",
}
"""Patterns of what is kept of a text, from its beginning."""

_WORDS: Mapping[str, Collection[str]] = {
    "backend": _PUBLIC["backends"],
    "guard_kind": _PUBLIC["guard_kinds"],
    "opcode": _PUBLIC["opcodes"],
    "switch": _PUBLIC["switches"],
    "hint_name": _PUBLIC["hint_names"],
    "record_kind": TORCH_KINDS | _PUBLIC["record_kinds"],
    "option_name": options_of(RunSpec).keys() - {"seed"},
    "inputs_from": _PUBLIC["origins"] | {INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED},
    "mode": _PUBLIC["modes"],
}
"""Texts that are kept."""

_SHOWN_OPTIONS = frozenset({"backend", "mode", "device", "dtype"})


class Redaction:
    """Redacts the facts of one recording. ``root``: paths of its diagnosis are relative to it."""

    def __init__(self, environment: Environment, root: Path) -> None:
        self._origins = Origins(environment)
        self._root = root
        self._pseudonyms: dict[str, dict[str, str]] = {}
        # Every graph-break type of a torch; empty if it isn't there.
        gb_types: set[str] = set()
        with suppress(OSError, ValueError):
            registry = Path(environment.torch_root or "", "_dynamo", "graph_break_registry.json")
            for entries in json.loads(registry.read_text("utf-8")).values():
                gb_types.update(str(entry.get("Gb_type")) for entry in entries)
        self._readers: Mapping[str, _Reader] = {
            **{mark: _matching(pattern) for mark, pattern in _PATTERNS.items()},
            **{mark: _among(words) for mark, words in _WORDS.items()},
            **dict.fromkeys(("name", "described", "module_path"), self._name),
            **dict.fromkeys(("exception", "outcome"), self._exception),
            "event_name": lambda text: (
                text if _PUBLIC["phase_words"].issuperset(re.findall(r"[^\W\d_]+", text)) else None
            ),
            "expression": self._expression,
            "file": self._file,
            # A hash of the program's own words could be guessed.
            "fingerprint": lambda text: self._pseudonym("", text).zfill(16),
            "gb_type": _among(gb_types),
            "operation": self._operation,
            "package_name": lambda text: (
                text if text.replace("-", "_") in _PUBLIC["packages"] else None
            ),
            "place": self._place,
            "traceback": self._traceback,
            "values": _tensors,
        }

    def redacted(self, fact: _FactT) -> _FactT:
        """Return the fact with what may be shown of it."""
        marks, shown = shared_kinds(type(fact)), dict[str, Any]()
        for name, kind in field_types(type(fact)).items():
            shown[name] = self._value(
                getattr(fact, name), kind, self._readers.get(marks.get(name, ""))
            )
        if (file := getattr(fact, "file", None)) is not None:
            names = ("function", "qualname", "code_name")
            shown |= self._in_file(file, {name: getattr(fact, name, None) for name in names})
            if (package := getattr(fact, "package", None)) is not None:
                shown["package"] = package if package in _PUBLIC["packages"] else "package"
        if isinstance(fact, TargetInfo):
            shown["text"] = ":".join(filter(None, (shown["file"], shown["name"]))) or None
        elif isinstance(fact, GuardChange) and fact.kind in _PUBLIC["changes"]:
            shown |= {
                name: value if value is None or _CHANGED.fullmatch(value) else LEFT_OUT
                for name in ("old", "previous", "new")
                for value in (getattr(fact, name),)
            }
        elif isinstance(fact, Finding):
            # A message quotes the line; the rule's title says the same without it.
            rule = ALL_RULES.get(fact.code)
            shown |= {"rule": rule.name, "message": rule.title()} if rule else {}
            shown["fixes"] = ()
        return fact.replace(**shown)

    def _value(self, value: object, kind: object, reader: _Reader | None) -> Any:  # noqa: ANN401 - as many types as fields
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            if any(get_origin(part) is Literal and value in get_args(part) for part in kinds):
                return value
            shown = None if reader is None else reader(value)
            return LEFT_OUT if shown is None and NoneType not in kinds else shown
        if isinstance(value, Fact):
            return None if isinstance(value, _LEFT_OUT_WHOLE) else self.redacted(value)
        if isinstance(value, dict):
            return {} if reader is None else self._table(value, reader)
        item_kind = next(get_args(part)[0] for part in kinds if get_origin(part) is tuple)
        shown_items = [
            self._value(item, item_kind, reader)
            for item in value  # type: ignore[attr-defined]
            if (reader is not None or item_kind is not str)
            and not isinstance(item, _LEFT_OUT_WHOLE)
        ]
        # An empty tuple would mean that there was nothing.
        return None if value and not shown_items and NoneType in kinds else tuple(shown_items)

    def _table(self, table: Mapping[Any, Any], reader: _Reader) -> dict[str, Any]:
        """Return counts by names, left-out names added up, or options that may be shown."""
        counts = Counter[str]()
        options = dict[str, Any]()
        for key, value in table.items():
            name = str(key)
            shown = reader(name)
            is_number = value is None or isinstance(value, (bool, int, float))
            if type(value) is int and reader == self._operation:
                counts[shown or LEFT_OUT] += value
            elif shown is None:
                pass
            # The value of a setting of torch, of another option, or a package's version.
            elif name.startswith("torch."):
                options[shown] = value if _VALUE.fullmatch(str(value)) else LEFT_OUT
            elif is_number:
                options[shown] = value
            elif isinstance(value, str):
                is_package = self._readers["package_name"](name) is not None
                is_shown = is_package or name in _SHOWN_OPTIONS
                value_reader = self._readers.get("version" if is_package else name)
                kept = value_reader(value) if value_reader is not None and is_shown else None
                options[shown] = kept or LEFT_OUT
            else:
                options[shown] = {} if isinstance(value, Mapping) else []
        return options | counts

    def _in_file(self, file: str, names: Mapping[str, str | None]) -> dict[str, Any]:
        """Redact the file, and names in it, which stay if everybody can read it."""
        shown_file = self._file(file)
        is_public = shown_file.startswith(("/", "<")) and shown_file[1:] != f"{LEFT_OUT}>"
        shown: dict[str, Any] = {"file": shown_file}
        for name, text in names.items():
            if text is not None:
                is_kept = is_public and re.fullmatch(r"[\w.<>]+", text)
                shown[name] = text if is_kept else self._name(text)
        return shown

    def _pseudonym(self, kind: str, text: str) -> str:
        numbered = self._pseudonyms.setdefault(kind, {})
        return numbered.setdefault(text, f"{kind}{len(numbered) + 1}")

    def _name(self, text: str) -> str:
        """Redact a name, dotted or not."""
        parts = (
            part
            if not part or part.isdecimal() or part in _NAMES or _SPECIAL.fullmatch(part)
            else self._pseudonym("name", part)
            for part in text.split(".")
        )
        return ".".join(parts)

    def _file(self, path: str) -> str:
        """From the package on for public packages and Python; else a pseudonym."""
        if _GENERATED.fullmatch(path):
            return path
        if path.startswith("<"):
            return f"<{LEFT_OUT}>"
        path = path if path.startswith("/") or ":" in path[:3] else str(self._root / path)
        origin, package = self._origins.of(path)
        folder, start = "/site-packages", ""
        if origin == "stdlib":
            folder, start = "/lib/python3.0", r"(?:python3\.\d+|Lib)[/\\]"
        elif package in _PUBLIC["packages"]:
            start = rf"(?={package}\b)"
        public = start and re.fullmatch(rf".*[/\\]{start}((\w+)[\w.+/\\-]*)", path)
        if public and (package or public[2] in sys.stdlib_module_names):
            return f"{folder}/{public[1]}".replace("\\", "/")
        return self._pseudonym("file", path) + (".py" if path.endswith(".py") else "")

    def _place(self, text: str) -> str:
        """Redact ``file:line``, with torch's id in parentheses if there is one."""
        match = re.fullmatch(r"(.+)(:\d+)( \(GB\d{4}\))?", text)
        if match is None:
            return text if text == "return" else LEFT_OUT
        return self._file(match[1]) + match[2] + (match[3] or "")

    def _expression(self, text: str) -> str:
        """Redact a guard's source: ``self.scale`` as ``self.name2``, values in it as ``k1``."""
        shown = ""
        for token in _TOKEN.findall(text):
            if token[0] in "'\"":
                is_name = token[1:-1].isidentifier()
                inner = self._name(token[1:-1]) if is_name else self._pseudonym("k", token)
                shown += f"'{inner}'"
            elif token[0] == "`":
                shown += f"`{LEFT_OUT}`" if len(token) > 1 else ""
            elif token.isidentifier():
                shown += self._name(token)
            elif token[0].isalnum():
                shown += token if _SIZED.search(shown) else self._pseudonym("k", token)
            else:
                shown += token if token in ".[](), :=-<>" + LEFT_OUT else ""
        return shown

    def _operation(self, text: str) -> str | None:
        """Keep an operation of torch or Python; one from the program is a name."""
        if _OPERATION.fullmatch(text) or text in _PUBLIC["methods"]:
            return text
        return self._name(text) if re.sub(r"\.|::", "_", text).isidentifier() else None

    def _exception(self, text: str) -> str:
        is_public = re.fullmatch(r"(?:(?:torch\.[\w.]+|builtins)\.)?(\w+)", text)
        return text if is_public and is_public[1] in _EXCEPTIONS else self._name(text)

    def _traceback(self, text: str) -> str:
        """Keep the type that was raised; places, source and messages are the program's own."""
        raised = re.findall(r"^([A-Za-z_][\w.]*)(?=:|$)", text, re.MULTILINE)
        types = [name for name in raised if name.rpartition(".")[2] in _EXCEPTIONS]
        return types[-1] if types else LEFT_OUT


def _matching(pattern: str) -> _Reader:
    compiled = re.compile(pattern)
    return lambda text: match[0] if (match := compiled.match(text)) else None


def _among(words: Collection[str]) -> _Reader:
    return lambda text: text if text in words else None


def _tensors(text: str) -> str:
    """Keep the dtypes and shapes of tensors in summarized arguments; anything else is left out."""
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", LEFT_OUT, text)
    rest = re.sub(_TENSOR, "", unquoted).strip(", ")
    return ", ".join([*re.findall(_TENSOR, unquoted), *([LEFT_OUT] if rest else [])])


# Values of environment variables. A compiled function that reads ``os.environ`` is guarded by the
# value (``G['os'].environ._data[b'TOKEN'] == b'…'``; torch 2.13), so it's in guards, in the reasons
# of recompiles and in findings. What the program makes of it isn't known as such, and stays.

_LITERAL = rb"""b?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
_GUARD = re.compile(
    rb"(?:\benviron\._data\[|\._data\[(?=b['\"]))(%b)\] == (%b)" % (_LITERAL, _LITERAL)
)
"""The program can have ``os.environ`` under another name; its data is bytes, but for Windows."""
_ESCAPED = re.compile(rb"\\(.)")
_RECORD = re.compile(rb'^(.*"has_payload": ")[0-9a-f]{32}(".*\n)((?:\t.*(?:\n|\Z))+)', re.MULTILINE)


class EnvironmentValues:
    """The values that a recording's files have.

    ``names``: the variables that torch guards.
    """

    def __init__(self, files: Iterable[bytes]) -> None:
        guarded: set[tuple[bytes, bytes]] = set()
        for content in files:
            for line in content.splitlines() if b"._data[" in content else ():
                if b"._data[" in line:
                    guarded.update(_GUARD.findall(line), _GUARD.findall(_ESCAPED.sub(rb"\1", line)))
        self.names = frozenset(name for name, _ in guarded)
        texts = {value.decode("utf-8", "replace") for _, value in guarded}
        # A file of JSON has them escaped.
        forms = texts | {json.dumps(text)[1:-1] for text in texts}
        self._forms = re.compile(
            "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)"
        )
        self._byte_forms = re.compile(self._forms.pattern.encode())

    def left_out_of(self, content: bytes) -> bytes:
        """Return a file without them. The records of a log get new checksums."""

        def summed(record: re.Match[bytes]) -> bytes:
            before, after, lines = record.groups()
            payload = b"\n".join(line[1:] for line in lines.removesuffix(b"\n").split(b"\n"))
            digest = hashlib.md5(payload, usedforsecurity=False).hexdigest()
            return before + digest.encode() + after + lines

        changed = self._byte_forms.sub(LEFT_OUT.encode(), content)
        return content if changed == content else _RECORD.sub(summed, changed)

    def left_out_of_fact(self, value: Any) -> Any:  # noqa: ANN401 - as many types as fields
        """Return a fact, or what a field of it holds, without them."""
        if isinstance(value, str):
            return self._forms.sub(LEFT_OUT, value)
        if isinstance(value, Fact):
            return value.replace(
                **{name: self.left_out_of_fact(part) for name, part in vars(value).items()}
            )
        if isinstance(value, tuple):
            return tuple(map(self.left_out_of_fact, value))
        if isinstance(value, dict):
            return {
                self.left_out_of_fact(name): self.left_out_of_fact(part)
                for name, part in value.items()
            }
        return value
