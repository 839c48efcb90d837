"""Finds a program of an architecture: the smallest model that builds, with the first inputs that it
runs with.

It tries the program's own text, so that what works is what is written.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from ..facts.catalog import RefusalKind
from ..probe.record.errors import message_of, traceback_text, type_name
from .library import (
    InputsText,
    Library,
    ModelText,
    UnknownParameterError,
    parameter_count,
    program_text,
    source,
)

_BYTES_FOR_EACH_PARAMETER = 16
"""float32, and as much again for what initializing, a call and its results need."""

_RANKS: tuple[RefusalKind, ...] = (
    "load_failed",
    "too_large",
    "no_inputs",
    "out_of_memory",
    "eager_failed",
)


class RefusedError(Exception):
    """No program was found."""

    def __init__(self, kind: RefusalKind, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.traceback = kind, message, traceback


def find_program(
    library: Library, name: str, header: str, *, memory_bytes: int | None
) -> tuple[str, int]:
    """Find an architecture's program; returns its text and the model's number of parameters.

    Raises:
        RefusedError: The refusal of the attempt that got furthest.
    """
    most = library.most_parameters
    if memory_bytes is not None:
        most = min(most, memory_bytes // _BYTES_FOR_EACH_PARAMETER)
    refusals = []
    failures: set[str] = set()
    try:
        for text in library.models(name):
            try:
                return _program(library, text, header, most, failures)
            except RefusedError as refusal:
                refusals.append(refusal)
    except Exception as error:  # noqa: BLE001 - whatever the library raises is reported
        refusals.append(_refused("load_failed", "Its classes can't be used", error))
    if not refusals:
        raise RefusedError("load_failed", "There is no way to build it.")
    # The first of these: that of the smallest model.
    raise max(refusals, key=lambda refusal: _RANKS.index(refusal.kind))


def _program(
    library: Library, text: ModelText, header: str, most: int, failures: set[str]
) -> tuple[str, int]:
    # Some compute while they are built; their size shows once they are.
    for device in ("meta", None):
        try:
            with nullcontext() if device is None else torch.device(device):
                model = _executed(source(text), text)["build"]()
        except Exception as error:  # noqa: BLE001
            if device is None or repr(error) in failures:
                failures.add(repr(error))
                raise _refused("load_failed", "It can't be built", error) from None
        else:
            count = parameter_count(model)
            if device is not None and count > most:
                message = f"It has {count:,} parameters; {most:,} is the limit."
                raise RefusedError("too_large", message)
    first: RefusedError | None = None
    candidates = library.inputs(text, model)
    failure: Any = None
    while True:
        try:
            inputs = candidates.send(failure)
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001
            first = first or _refused("no_inputs", "Its inputs can't be made", error)
            break
        try:
            _call(model, _executed(source(inputs), text, inputs)["example_inputs"]())
        except Exception as error:  # noqa: BLE001
            failure = error
            first = first or _refused("eager_failed", "It fails in eager mode", error)
            continue
        parameters = parameter_count(model)
        program = program_text(header, text, inputs, parameters=parameters)
        try:
            names = _executed(program)
            _call(names["build"](), names["example_inputs"]())
        except Exception as error:  # noqa: BLE001
            what = "It works once, and fails when it is run again"
            raise _refused("eager_failed", what, error) from None
        return program, parameters
    raise first or RefusedError("no_inputs", "Nothing says which inputs it takes.")


def _executed(program: str, *texts: ModelText | InputsText) -> dict[str, Any]:
    imports = ["import torch", *(line for text in texts for line in text.imports)]
    names = {"__name__": "program"}
    lines = [*imports, program] if texts else [program]
    exec(compile("\n".join(lines), "<program>", "exec"), names)
    return names


def _call(model: Any, inputs: Any) -> object:
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def _refused(kind: RefusalKind, what: str, error: BaseException) -> RefusedError:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        kind = "out_of_memory"
    if isinstance(error, UnknownParameterError):
        return RefusedError("no_inputs", str(error))
    if isinstance(error, ImportError):
        what = "It needs what can't be imported"
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
    message = f"{what}: {type_name(error)}: {' '.join(lines[:2])}"
    return RefusedError(kind, message, traceback_text(error))
