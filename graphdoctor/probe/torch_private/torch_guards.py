"""The private names of torch that guards need, those of an exported program too, 2.11 to 2.15.

Nothing here changes a guard, or checks one that keeps state (the relational ones, which aren't
callable).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from importlib import import_module
from traceback import walk_tb
from types import CodeType, NoneType, TracebackType
from typing import Any

import torch

from .torch_api import Function, Undo, look_on, put_in_place, wrap

_MODULE = "torch._dynamo.convert_frame"
"""Looks up what is hooked here at each compile (2.13, ``GraphCaptureOutput.build_guards`` and
``_compile``; 2.11 likewise)."""

_MODULE_SOURCE = re.compile(r"(?P<root>[LG]\['\w+'\])(?P<modules>(?:\._modules\['[^']+'\])*)")


def watch_guards(
    *, on_built: Callable[[Any, Any], None], on_recompile: Callable[[list[Any], Any], None]
) -> Undo:
    """Call back for every set of guards that torch builds, and for every recompile before it
    begins.

    ``on_built`` gets a guard manager and its output graph. ``on_recompile`` gets the cache entries
    that the call could have used, the last used first, and the frame, after torch has written its
    own ``recompile_reasons``.

    Raises:
        ImportError, AttributeError, KeyError: This torch lacks what is hooked.
    """
    module = import_module(_MODULE)

    def compared(
        compare: Function, entries: Any, frame: Any, backend: Any, *args: Any, **kw: Any
    ) -> Any:
        try:
            return compare(entries, frame, backend, *args, **kw)
        finally:
            # A list since 2.12, the first of a chain up to 2.11; the last used one is first
            # (``move_to_front``, ``torch/csrc/dynamo/extra_state.cpp``, 2.11 to 2.15).
            candidates = list(entries) if isinstance(entries, list | tuple) else []
            while not isinstance(entries, list | tuple | NoneType):
                candidates.append(entries)
                entries = entries.next
            # Those of this backend, which alone can be used with it; all, if there are none.
            usable = [it for it in candidates if it.backend == backend]
            on_recompile(usable or candidates, frame)

    ends = ExitStack()
    built = look_on(
        module,
        "CheckFunctionManager",
        after=lambda made, _code, graph, *_: on_built(made.guard_manager, graph),
    )
    ends.callback(built)
    ends.callback(wrap(module, "get_and_maybe_log_recompilation_reasons", compared))
    return ends.close


def leave_guards_untimed() -> None:
    """Have torch time no guards for its metrics: to do so it flushes the processor's caches, 5 ms
    for each compile.

    ``CheckFunctionManager`` looks ``profile_guard_manager`` up in ``torch/_dynamo/guards.py`` (2.11
    to 2.15).
    """
    put_in_place(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)


def guard_scope(guard_manager: Any, f_locals: Any) -> dict[str, Any]:
    """Return what torch evaluates a guard's text in (``get_guard_fail_reason_helper``,
    ``torch/_dynamo/guards.py``, 2.13).
    """
    return {**guard_manager.closure_vars, "L": f_locals, "G": guard_manager.global_scope["G"]}


def guard_root(guard_manager: Any) -> Any:
    """Return the tree of a cache entry's guards, or None when torch dropped it."""
    is_gone = type(guard_manager).__name__ == "DeletedGuardManagerWrapper"
    return None if is_gone else guard_manager.root


def is_dict_manager(manager: Any) -> bool:
    """Return whether it compares a dict's type, length and keys itself, without a checkable
    guard.
    """
    return hasattr(manager, "get_key_value_managers")


def guard_children(manager: Any) -> list[Any]:
    """List the guard managers below one, those of a dict's keys and values included."""
    if not is_dict_manager(manager):
        return list(manager.get_child_managers())
    pairs = manager.get_key_value_managers().values()
    return [item for pair in pairs for item in pair if item is not None]


def global_state() -> dict[str, Any]:
    """Return the process-wide state that torch guards on, as it is now
    (``torch/csrc/dynamo/guards.cpp``, 2.13).
    """
    return json.loads(str(torch._C._dynamo.guards.GlobalStateGuard().__getstate__()))


def dispatch_keys(tensor: torch.Tensor) -> str | None:
    """Print a tensor's dispatch keys, as torch's guards do."""
    with suppress(RuntimeError):
        return str(torch._C._dispatch_keys(tensor))
    return None


def on_compiled_code(take: Callable[[CodeType, CodeType], None]) -> Undo:
    """Call ``take`` with the code of each function that Dynamo compiles and the code that it
    generated.
    """
    return import_module(_MODULE).register_bytecode_hook(take).remove


def cache_entry(original: CodeType, made: CodeType) -> tuple[str, Any] | None:
    """Find compile id and guard tree of the cache entry that runs ``made``; None when torch has
    dropped it.
    """
    for entry in torch._dynamo.eval_frame._debug_get_cache_entry_list(original):
        if entry.code is made and (root := guard_root(entry.guard_manager)) is not None:
            return str(entry.compile_id), root
    return None


def _guarded_sources(tree: Any) -> Iterator[str]:
    """Yield the source of every value that a tree guards or passes through; keys of dicts are left
    out.
    """
    pairs = tree.get_key_value_managers().values() if is_dict_manager(tree) else ()
    for child in (*(value for _, value in pairs if value is not None), *tree.get_child_managers()):
        yield child.get_source()
        yield from _guarded_sources(child)


def guard_parts(tree: Any) -> list[tuple[str, frozenset[str]]]:
    """List the parts of a guard tree: arguments, global modules, all other globals as one (``G``),
    and modules inside these.

    With each, the sources to leave out for a tree without it; outer parts first.
    """
    matches = map(_MODULE_SOURCE.fullmatch, _guarded_sources(tree))
    parts = {match[0]: match for match in matches if match}
    modules = {match["root"] for match in parts.values() if match["modules"]}
    roots = {match["root"] for match in parts.values()}
    others = frozenset(root for root in roots if root[:2] == "G[" and root not in modules)
    inner = [source for source in parts if source not in others]
    inner.sort(key=lambda source: source.count("._modules["))
    whole = [("G", others)] if others else []
    return [*whole, *((source, frozenset({source})) for source in inner)]


def exported_guards(program: Any) -> list[str]:
    """List conditions on sizes that an exported program checks, in Python (``_guards_code``, 2.11
    to
    2.15).
    """
    return [str(guard) for guard in program._guards_code]


def asks_for_truth(raised: TracebackType, is_user_file: Callable[[str], bool]) -> bool:
    """Return whether an exception was raised because the program asked whether a tensor is true.

    Non-strict export sees ``if tensor:`` as ``Tensor.__bool__``
    (``torch/_export/non_strict_utils.py``, 2.13).
    """
    after = None
    is_user = False
    for frame, _ in walk_tb(raised):
        was_user = is_user
        is_user = is_user_file(frame.f_code.co_filename)
        after = None if is_user else frame if was_user else after
    return after is not None and after.f_locals.get("func") is torch.Tensor.__bool__
