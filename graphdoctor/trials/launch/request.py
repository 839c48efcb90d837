"""What a run is asked to do: from the text of the target and of its inputs to the probe's
request.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.values import is_plain, is_utf8
from graphdoctor.trials.launch.discover import discover, holds_no_target, script_hint
from graphdoctor.wording import did_you_mean, near_names

DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
    "b8": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
"""dtypes of ``--input``, torch's own abbreviations."""

_TENSOR = re.compile(r"^([a-z]+\d*)\[([^\]]*)\]$")
_NAMED = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_MAX_SIZE = 2**63 - 1
_TYPES: dict[str, type[int] | type[float] | type[str]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
}
_INPUT_FORMS = (
    "f32[8,128], i64[8], bool[2,2], int:3, float:0.5, bool:true, str:abc, none, or name=… of these"
)


@dataclass(frozen=True)
class TargetText:
    """A parsed target: a file or a dotted module name, and a name in it, None for the first that
    fits.
    """

    file: str | None
    module: str | None
    name: str | None
    is_call: bool


@dataclass(frozen=True)
class Measured:
    """Measurements to make after the calls.

    ``profile``: which operations are in which kernel, with ``kernels``. An empty folder for what
    torch would keep of graphs, so that it generates all code anew.
    """

    coverage: bool = False
    guard_cost: bool = False
    lanes: bool = False
    kernels: bool = False
    memory: bool = False
    profile: str | None = None
    stages: bool = False
    reads: bool = False


@dataclass(frozen=True)
class Variation:
    """Make the first call alone, then vary one property of it at a time, so many of them, for so
    many seconds.
    """

    count: int = 60
    limit_s: float = 300.0


@dataclass(frozen=True)
class Request:
    """Everything that the probe needs to know.

    ``trial``: how the calls are replayed (``probe/replay/trial.py``). ``timing``: the socket over
    which the last call is timed (``probe/steps/benched.py``); a replay then runs as its user runs
    it, and isn't recorded.
    """

    spec: RunSpec
    target: TargetText
    inputs: dict[str, Any] | None = None
    measured: Measured = Measured()
    vary: Variation | None = None
    trial: Mapping[str, Any] | None = None
    timing: int | None = None

    @classmethod
    def of(
        cls,
        spec: RunSpec,
        measured: Measured = Measured(),
        vary: Variation | None = None,
        *,
        target: str | None = None,
    ) -> Request:
        """Build the request for a run, of the spec's own target unless one is given."""
        if target is not None:
            spec = replace(spec, target=target)
        parsed_target = parse_target(spec.target)
        if (
            parsed_target.file is not None
            and parsed_target.name is None
            and holds_no_target(Path(parsed_target.file))
        ):
            raise GraphDoctorError(
                f"{spec.target} defines nothing that could be the target: no class, no function, no"
                " build() or model.",
                hint=script_hint(spec.target),
            )
        return cls(spec, parsed_target, parse_inputs(spec.inputs), measured, vary)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Open files that the probe inherits."""
        return () if self.timing is None else (self.timing,)

    @property
    def is_recorded(self) -> bool:
        """Check whether the probe writes torch's trace."""
        return self.timing is None or self.trial is None

    def with_spec(self, **changes: Any) -> Request:  # noqa: ANN401 - the fields of RunSpec
        """Return the request with other values in its ``spec``."""
        return replace(self, spec=replace(self.spec, **changes))

    @property
    def quick(self) -> Request:
        """The run that shows soonest what torch.compile does: under ``eager``, without mode and
        options.
        """
        return self.with_spec(backend="eager", mode=None, options={})

    def for_probe(self) -> dict[str, Any]:
        """Write the request file's content: the fields of the spec, the target and what is
        measured.
        """
        said = {**vars(self.spec), **vars(self.target), **vars(self.measured)}
        return {name: value for name, value in said.items() if name != "target"} | {
            "inputs": self.inputs,
            "vary": None if self.vary is None else vars(self.vary),
            "trial": self.trial,
            "timing": self.timing,
        }

    def described(self) -> dict[str, Any]:
        """Describe it as fields of ``TargetInfo``, for the recording."""
        return {
            "text": self.spec.target,
            "inputs": list(self.spec.inputs),
            "own": list(self.spec.own),
            "compile_arguments": self.spec.compile_arguments(),
            "is_regional": self.spec.regional,
            "config": dict(self.spec.config),
            "call_options": self.spec.call_options(),
        }


def parse_target(text: str) -> TargetText:
    """Read ``file.py``, ``file.py:name``, ``file.py:make()`` or ``package.module:name``."""
    if not is_utf8(text) or "\0" in text:
        raise GraphDoctorError(f"{text!r} isn't valid UTF-8.", hint="Rename the file.")
    if not text.strip():
        raise GraphDoctorError(
            "The target is empty.", hint="Write file.py, file.py:name or package.module:name."
        )
    with os_errors(text, "read"):
        place, name = _split_name(text)
        path = Path(place)
        is_folder, file = path.is_dir(), str(path.resolve()) if path.is_file() else None
    is_call = name is not None and name.endswith("()")
    if name is not None:
        name = name.removesuffix("()")
        if not all(part.isidentifier() for part in name.split(".")):
            raise GraphDoctorError(
                f"{text}: {name!r} isn't a name.",
                hint="Write file.py:name, or file.py:make() for a factory.",
            )
    if is_folder:
        raise GraphDoctorError(f"{place} is a folder.", hint=_hint_in(path))
    if file is not None:
        refuse_notebook(path)
        return TargetText(file, None, name, is_call)
    if path.suffix in (".py", ".ipynb") or "/" in place or "\\" in place or path.is_symlink():
        raise missing_file(path)
    if not place or not all(part.isidentifier() for part in place.split(".")):
        near = [f"{place}.py{text[len(place) :]}"] if Path(f"{place}.py").is_file() else []
        forms = "Write file.py, file.py:name or package.module:name."
        raise GraphDoctorError(f"{text!r} isn't a target.", hint=did_you_mean(near, forms))
    return TargetText(None, place, name, is_call)


def _split_name(text: str) -> tuple[str, str | None]:
    # A Windows drive has a colon too, so only what follows the last colon can be a name.
    place, colon, name = text.rpartition(":")
    if not colon or Path(text).is_file() or re.search(r"[/\\]", name):
        return text, None
    if not name:
        raise GraphDoctorError(
            f"{text}: the name after the colon is missing.", hint="Write file.py:name."
        )
    return place, name


def refuse_notebook(path: Path) -> None:
    """Refuse what no Python runs as it is."""
    if path.suffix == ".ipynb":
        raise GraphDoctorError(
            f"{path} is a notebook.",
            hint="Move the model to a Python file, or use graphdoctor.explain in the notebook.",
        )


def missing_file(path: Path) -> GraphDoctorError:
    """Say why there is no file where one was named, and which names are near."""
    if path.is_symlink():
        try:
            path.stat()
        except OSError as error:
            return GraphDoctorError(f"The link {path} leads nowhere: {error.strerror}.")
    folder = path.parent
    if not folder.is_dir():
        hint: str | None = f"There is no folder {folder} either."
    else:
        near = near_names(path.stem, (item.stem for item in folder.glob("*.py") if item.is_file()))
        hint = did_you_mean([str(folder / f"{name}.py") for name in near])
    return GraphDoctorError(f"There is no file {path}.", hint=hint)


def _hint_in(folder: Path) -> str:
    if (folder / "__main__.py").is_file():
        return script_hint(str(folder))
    for ready in discover(folder, limit=1).ready:
        return f"Name a file in it, such as {folder / ready.target}."
    return "Name a Python file, or package.module:name."


def parse_inputs(texts: Sequence[str]) -> dict[str, Any] | None:
    """``{"args": […], "kwargs": {…}}`` for the probe; None if there are no inputs."""
    if not texts:
        return None
    if not all(is_utf8(text) for text in texts):
        raise GraphDoctorError("--input isn't valid UTF-8.", hint=f"Write {_INPUT_FORMS}.")
    args: list[dict[str, Any]] = []
    kwargs: dict[str, dict[str, Any]] = {}
    for text in texts:
        named = _NAMED.match(text.strip())
        if named is None:
            if kwargs:
                raise _bad_input(text, "a positional input can't follow a named one")
            args.append(_parse_value(text.strip(), text))
            continue
        if named[1] in kwargs:
            raise _bad_input(text, f"{named[1]} is given twice")
        kwargs[named[1]] = _parse_value(named[2].strip(), text)
    return {"args": args, "kwargs": kwargs}


def _parse_value(value: str, text: str) -> dict[str, Any]:
    tensor = _TENSOR.match(value)
    if tensor:
        if (name := tensor[1]) not in DTYPES:
            near = near_names(name, DTYPES, most=2)
            raise _bad_input(
                text,
                f"unknown dtype {name!r}" + (f", did you mean {' or '.join(near)}" if near else ""),
            )
        return {"kind": "tensor", "dtype": name, "shape": _shape(tensor[2], text)}
    if value.lower() == "none":
        return {"kind": "value", "value": None}
    kind, colon, rest = value.partition(":")
    if (
        not colon
        or kind not in _TYPES
        or (kind == "bool" and rest.lower() not in ("true", "false"))
    ):
        raise _bad_input(text, "unknown form")
    try:
        return {
            "kind": "value",
            "value": rest.lower() == "true" if kind == "bool" else _TYPES[kind](rest),
        }
    except ValueError:
        raise _bad_input(text, f"{rest!r} isn't {'an' if kind == 'int' else 'a'} {kind}") from None


def _shape(sizes: str, text: str) -> list[int]:
    try:
        shape = [int(size) for size in sizes.split(",")] if sizes.strip() else []
    except ValueError:
        raise _bad_input(text, f"[{sizes}] isn't a list of sizes") from None
    if any(size < 0 for size in shape):
        raise _bad_input(text, "a size is negative")
    if any(size > _MAX_SIZE for size in shape):
        raise _bad_input(text, "a size is too large for torch")
    return shape


def _bad_input(text: str, reason: str) -> GraphDoctorError:
    return GraphDoctorError(f"--input {text!r}: {reason}.", hint=f"Write {_INPUT_FORMS}.")


def parse_assignments(texts: Sequence[str], flag: str) -> dict[str, object]:
    """Read ``name=value`` pairs of ``--option`` and ``--config``; a value is a Python literal, else
    text.
    """
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not is_utf8(text):
            raise GraphDoctorError(
                f"{flag} {text!r} isn't name=value.", hint=f"Write {flag} name=True."
            )
        values[name.strip()] = literal = _literal(value.strip())
        if not is_plain(literal):
            raise GraphDoctorError(
                f"{flag} {text!r}: the value must be a number, text, boolean or None, or a list or"
                " dict of these."
            )
    return values


def _literal(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
