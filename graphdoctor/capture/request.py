"""What a run is asked to do: the text of the target and of ``--input`` to the probe's request."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphdoctor.errors import GraphDoctorError

DTYPES = ("f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "b8", "c64", "c128")
"""dtypes of ``--input``, torch's own abbreviations."""

_TENSOR = re.compile(r"^([a-z]+\d*)\[([^\]]*)\]$")
_NAMED = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_MAX_SIZE = 2**63 - 1
_INPUT_FORMS = "f32[8,128], i64[8], bool[2,2], int:3, float:0.5, bool:true, str:abc, none, or name=… of these"


@dataclass(frozen=True)
class TargetText:
    """A target as it was written.

    Args:
        text: As written.
        file: Path of the file, or None for a module.
        module: Dotted module name, or None for a file.
        name: What to take from it, or None for the first that fits.
        is_call: The name ends in ``()``: it is a factory.
    """

    text: str
    file: str | None
    module: str | None
    name: str | None
    is_call: bool


@dataclass(frozen=True)
class Request:
    """Everything that the probe needs to know.

    Args:
        target: What to compile.
        inputs: ``{"args": […], "kwargs": {…}}`` of ``--input``, or None.
        calls: How many rounds of the calls to make.
        backend: A registered backend's name.
        mode: ``torch.compile``'s mode.
        dynamic: ``torch.compile``'s dynamic.
        fullgraph: ``torch.compile``'s fullgraph.
        options: ``torch.compile``'s options.
        config: torch config values to set, by dotted name.
        backward: Sum the floating outputs and run backward.
        train: Train or eval mode, or None to leave it.
        no_grad: Call under ``torch.no_grad()``.
        seed: Seed of every random generator.
        device: Where to move the model and the inputs.
        coverage: Measure coverage after the calls.
        trial: How the calls are replayed to try a remedy (``graphdoctor/probe/replay/trial.py``), or None.
        guard_cost: Measure what guard checks cost after the calls.
        vary: Make the first call alone, then vary one property of it at a time.
        vary_count: How many properties are varied at most.
        vary_s: Seconds after which no other property is begun.
        lanes: Note where the time of each call goes, and repeat the calls under the profiler for it.
    """

    target: TargetText
    inputs: dict[str, Any] | None = None
    calls: int = 1
    backend: str = "eager"
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    backward: bool = False
    train: bool | None = None
    no_grad: bool = False
    seed: int = 0
    device: str | None = None
    coverage: bool = True
    trial: Mapping[str, object] | None = None
    guard_cost: bool = False
    vary: bool = False
    vary_count: int = 60
    vary_s: float = 300.0
    lanes: bool = False

    def for_probe(self) -> dict[str, Any]:
        """The request file's content."""
        values: dict[str, Any] = asdict(self)
        target: dict[str, Any] = values.pop("target")
        target.pop("text")
        return {**values, **target}

    def described(self) -> dict[str, Any]:
        """What the recording remembers of the request: fields of ``TargetInfo``."""
        return {
            "text": self.target.text,
            "compile_arguments": {
                "backend": self.backend,
                "mode": self.mode,
                "dynamic": self.dynamic,
                "fullgraph": self.fullgraph,
                "options": dict(self.options),
            },
            "config": dict(self.config),
            "call_options": {
                "calls": self.calls,
                "backward": self.backward,
                "train": self.train,
                "no_grad": self.no_grad,
                "seed": self.seed,
                "device": self.device,
            },
        }


def parse_target(text: str) -> TargetText:
    """Read ``file.py``, ``file.py:name``, ``file.py:make()`` or ``package.module:name``.

    Raises:
        GraphDoctorError: The file does not exist, or the text is none of these.
    """
    if not _is_utf8(text) or "\0" in text:
        raise GraphDoctorError(f"{text!r} is no UTF-8 text.", hint="Rename the file.")
    if not text.strip():
        raise GraphDoctorError("The target is empty.", hint="Write file.py, file.py:name or package.module:name.")
    try:
        return _parse_target(text)
    except OSError as error:
        raise GraphDoctorError(f"{text} cannot be looked up: {error.strerror}.") from error


def _parse_target(text: str) -> TargetText:
    place, name = _split_name(text)
    is_call = name is not None and name.endswith("()")
    if name is not None:
        name = name.removesuffix("()")
        if not all(part.isidentifier() for part in name.split(".")):
            raise GraphDoctorError(
                f"{text}: {name!r} is no name.", hint="Write file.py:name, or file.py:make() for a factory."
            )
    path = Path(place)
    if path.is_dir():
        raise GraphDoctorError(f"{place} is a folder.", hint="Name a Python file, or package.module:name.")
    if path.is_file():
        if path.suffix == ".ipynb":
            raise GraphDoctorError(f"{place} is a notebook.", hint="Put the model into a Python file.")
        return TargetText(text, str(path.resolve()), None, name, is_call)
    if place.endswith(".py") or "/" in place or "\\" in place:
        raise GraphDoctorError(f"There is no file {place}.", hint=_near_files(path))
    if not place or not all(part.isidentifier() for part in place.split(".")):
        raise GraphDoctorError(f"{text!r} is no target.", hint="Write file.py, file.py:name or package.module:name.")
    return TargetText(text, None, place, name, is_call)


def _split_name(text: str) -> tuple[str, str | None]:
    # A Windows drive has a colon too, so only what stands behind the last one can be a name.
    place, colon, name = text.rpartition(":")
    if not colon or Path(text).is_file() or re.search(r"[/\\]", name):
        return text, None
    if not name:
        raise GraphDoctorError(f"{text}: the name behind the colon is missing.", hint="Write file.py:name.")
    return place, name


def _near_files(path: Path) -> str | None:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder} either."
    near = difflib.get_close_matches(path.name, [item.name for item in folder.glob("*.py")], n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(str(folder / name) for name in near)}?" if near else None


def parse_inputs(texts: Sequence[str]) -> dict[str, Any] | None:
    """Read the values of ``--input`` in order.

    Returns:
        ``{"args": […], "kwargs": {…}}`` for the probe; None when there are none.

    Raises:
        GraphDoctorError: One cannot be read.
    """
    if not texts:
        return None
    if not all(_is_utf8(text) for text in texts):
        raise GraphDoctorError("--input is no UTF-8 text.", hint=f"Write {_INPUT_FORMS}.")
    args: list[dict[str, Any]] = []
    kwargs: dict[str, dict[str, Any]] = {}
    for text in texts:
        named = _NAMED.match(text.strip())
        if named is None:
            if kwargs:
                raise _bad_input(text, "a positional input cannot follow a named one")
            args.append(_parse_value(text.strip(), text))
            continue
        if named[1] in kwargs:
            raise _bad_input(text, f"{named[1]} is given twice")
        kwargs[named[1]] = _parse_value(named[2].strip(), text)
    return {"args": args, "kwargs": kwargs}


def _parse_value(value: str, text: str) -> dict[str, Any]:
    tensor = _TENSOR.match(value)
    if tensor:
        return {"kind": "tensor", "dtype": _dtype(tensor[1], text), "shape": _shape(tensor[2], text)}
    if value.lower() == "none":
        return {"kind": "value", "value": None}
    kind, colon, rest = value.partition(":")
    if colon:
        try:
            match kind:
                case "int":
                    return {"kind": "value", "value": int(rest)}
                case "float":
                    return {"kind": "value", "value": float(rest)}
                case "str":
                    return {"kind": "value", "value": rest}
                case "bool" if rest.lower() in ("true", "false"):
                    return {"kind": "value", "value": rest.lower() == "true"}
        except ValueError:
            raise _bad_input(text, f"{rest!r} is no {kind}") from None
    raise _bad_input(text, "it is none of the known forms")


def _dtype(name: str, text: str) -> str:
    if name in DTYPES:
        return name
    near = difflib.get_close_matches(name, DTYPES, n=2, cutoff=0.5)
    did_you_mean = f", did you mean {' or '.join(near)}" if near else ""
    raise _bad_input(text, f"there is no dtype {name!r}{did_you_mean}")


def _shape(sizes: str, text: str) -> list[int]:
    if not sizes.strip():
        return []
    try:
        shape = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise _bad_input(text, f"[{sizes}] is no list of sizes") from None
    if any(size < 0 for size in shape):
        raise _bad_input(text, "a size is negative")
    if any(size > _MAX_SIZE for size in shape):
        raise _bad_input(text, "a size is larger than torch can count")
    return shape


def _bad_input(text: str, reason: str) -> GraphDoctorError:
    return GraphDoctorError(f"--input {text!r}: {reason}.", hint=f"Write {_INPUT_FORMS}.")


def parse_assignments(texts: Sequence[str], flag: str) -> dict[str, object]:
    """Read ``name=value`` pairs of ``--option`` and ``--config``; a value is a Python literal, else text.

    Raises:
        GraphDoctorError: There is no ``=``, or no name before it.
    """
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not _is_utf8(text):
            raise GraphDoctorError(f"{flag} {text!r} is no name=value.", hint=f"Write {flag} name=True.")
        values[name.strip()] = found = _literal(value.strip())
        if not _is_plain(found):
            raise GraphDoctorError(
                f"{flag} {text!r}: the value is no number, text, boolean, None, or list or dict of these."
            )
    return values


def _literal(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _is_plain(value: object) -> bool:
    """JSON can carry it to the probe."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_utf8(key) and _is_plain(item) for key, item in value.items())
    if isinstance(value, str):
        return _is_utf8(value)
    return value is None or isinstance(value, (bool, int, float))


def _is_utf8(text: str) -> bool:
    """A command line may hold bytes that are no text: Python keeps them as halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
