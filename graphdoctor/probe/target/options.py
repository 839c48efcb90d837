"""What the request asks for by name (device, backend, mode, options, config, inputs), checked and
made.

Raises ``RequestError`` with the nearest names where torch would print a long list, or accept what
it later ignores.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import torch

from ...facts.run import HintValue
from ...wording import near_names
from ..record.describe import DTYPES
from ..record.errors import RequestError, first_line
from ..torch_private import torch_api, torch_config

_DTYPES = {"bool": torch.bool, **{name: dtype for dtype, name in DTYPES.items()}}


def device_named(name: str | None) -> torch.device | None:
    """The device that was asked for, tried; None when none was. ``RequestError`` if it can't be
    used here.
    """
    if name is None:
        return None
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise RequestError("unusable_device", device=name, error=first_line(error)) from None
    return torch.device(name)


def dtype_named(name: str | None, device: torch.device | None) -> torch.dtype | None:
    """The dtype that was asked for, tried; None when none was. ``RequestError`` if the device can't
    compute in it.
    """
    if name is None:
        return None
    dtype: torch.dtype = getattr(torch, name)
    try:
        one = torch.ones(1, dtype=dtype, device=device)
        one + one
    except (RuntimeError, TypeError, NotImplementedError) as error:
        where = None if device is None else str(device)
        raise RequestError(
            "unusable_dtype", dtype=name, device=where, error=first_line(error)
        ) from None
    return dtype


def check_compile_arguments(backend: str, mode: str | None, options: dict[str, Any]) -> None:
    """Refuse unknown names with the nearest ones: torch would print a long list, or accept what it
    later ignores.
    """
    _refuse_unknown("backend", backend)
    if mode is not None:
        _refuse_unknown("mode", mode)
        if options:
            raise RequestError("mode_and_options")
    for name in options if backend == "inductor" else ():
        _refuse_unknown("option", name, name.replace("-", "_"))


def _refuse_unknown(
    argument: Literal["backend", "mode", "option"], name: str, as_known: str | None = None
) -> None:
    known = sorted(torch_api.names_of(argument))
    if (as_known or name) not in known:
        near = near_names(name, known)
        # Hundreds of options are no help.
        shown = [] if argument == "option" else known
        raise RequestError("unknown_argument", argument=argument, name=name, near=near, known=shown)


def set_config(name: str, value: Any) -> None:
    """Set one of torch's config values; ``RequestError`` if torch has no such, or it takes another
    type.

    A name alone is one of ``torch._dynamo.config``.
    """
    dotted = name if "." in name else f"torch._dynamo.config.{name}"
    try:
        before = torch_config.config_value(dotted if dotted.startswith("torch.") else "")
    except (AttributeError, ImportError, TypeError, ValueError):
        names = torch_config.config_names()
        setting = name.rpartition(".")[2]
        # Also by the last part alone: people leave the module out.
        near = [known for known in names if setting and known.rpartition(".")[2] == setting]
        near = near or near_names(dotted, names)
        raise RequestError("unknown_config", name=name, near=near) from None
    declared = torch_config.config_type(dotted)
    accepted = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}
    if declared is not None and (type(value) not in accepted[declared]) and value != before:
        raise RequestError(
            "config_type",
            name=name,
            value=value,
            type=declared.__name__,
            default=cast("HintValue", before),
        )
    torch_config.set_config(dotted, value)


def make_input(spec: dict[str, Any]) -> Any:
    """A value as the request describes it: floats are drawn from a normal distribution, integers
    from {0, 1}.

    0 and 1 are valid as class, index and token alike. ``RequestError`` if torch can't make it.
    """
    if spec["kind"] == "value":
        return spec["value"]
    dtype, shape = _DTYPES[spec["dtype"]], spec["shape"]
    try:
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, dtype=dtype)
        return torch.randint(0, 2, shape).to(dtype)
    except (RuntimeError, TypeError) as error:
        text = f"{spec['dtype']}[{','.join(map(str, shape))}]"
        raise RequestError("unusable_input", input=text, error=first_line(error)) from None
