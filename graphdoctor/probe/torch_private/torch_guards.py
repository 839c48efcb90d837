"""The private names of torch that guards need, 2.11 to 2.15.

Nothing here changes a guard, or checks one that keeps state (the relational ones, which aren't
callable).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from collections.abc import Callable, Collection, Iterator
from types import CodeType
from typing import Any

import torch

from .replacing import Undo, look_on, put_in_place, wrap

_MODULE = "torch._dynamo.convert_frame"
BUILT = "CheckFunctionManager"
COMPARED = "get_and_maybe_log_recompilation_reasons"
"""Both are looked up in ``torch/_dynamo/convert_frame.py`` at each compile (2.13,
``GraphCaptureOutput.build_guards`` and ``_compile``; 2.11 likewise)."""

_SOURCE = re.compile(r"[LG]\['\w+'\](?:\.\w+(?:\(\))?|\[[^\[\]]+\])*")
_MODULE_SOURCE = re.compile(r"(?P<root>[LG]\['\w+'\])(?P<modules>(?:\._modules\['[^']+'\])*)")
_STATELESS = frozenset(
    {"GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE", "DUAL_LEVEL_MATCH"}
)


def watch_guards(
    *, on_built: Callable[[Any, Any], None], on_recompile: Callable[[list[Any], Any], None]
) -> tuple[Undo, Undo]:
    """Call back for every set of guards that torch builds, and for every recompile before it
    begins.

    ``on_built`` gets a guard manager and its output graph. ``on_recompile`` gets the cache entries
    that the call could have used, the last used first, and the frame, after torch has written its
    own ``recompile_reasons``.

    Raises:
        ImportError, AttributeError, KeyError: This torch lacks what is hooked.
    """
    module = importlib.import_module(_MODULE)

    def compared(
        compare: Callable[..., Any],
        entries: Any,
        frame: Any,
        backend: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        try:
            return compare(entries, frame, backend, *args, **kwargs)
        finally:
            on_recompile(_of_backend(_entries(entries), backend), frame)

    built = look_on(
        module, BUILT, after=lambda made, _code, graph, *_: on_built(made.guard_manager, graph)
    )
    return built, wrap(module, COMPARED, compared)


def leave_guards_untimed() -> None:
    """Have torch time no guards for its metrics: to do so it flushes the processor's caches, 5 ms
    for each compile.

    ``CheckFunctionManager`` looks ``profile_guard_manager`` up in ``torch/_dynamo/guards.py`` (2.11
    to 2.15).
    """
    with contextlib.suppress(ImportError, KeyError):
        put_in_place(
            importlib.import_module("torch._dynamo.guards"), "profile_guard_manager", lambda *_: 0.0
        )


def _entries(value: Any) -> list[Any]:
    """Cache entries: a list since 2.12, the first of a chain up to 2.11.

    The last used one is first (``move_to_front``, ``torch/csrc/dynamo/extra_state.cpp``, 2.11 to
    2.15).
    """
    if isinstance(value, (list, tuple)):
        return list(value)
    found = []
    while value is not None:
        found.append(value)
        value = getattr(value, "next", None)
    return found


def _of_backend(entries: list[Any], backend: Any) -> list[Any]:
    """The entries that were compiled by this backend, which alone can be used with it; all, if
    there are none.
    """
    return [entry for entry in entries if getattr(entry, "backend", backend) == backend] or entries


def guard_kinds(guard: Any) -> set[str]:
    """What a ``Guard`` checks: the kinds that it became, and the one that Dynamo asked for."""
    return {*(guard.guard_types or ()), str(guard.create_fn_name())}


def guard_scope(guard_manager: Any, f_locals: Any) -> dict[str, Any]:
    """What torch evaluates a guard's text in (``get_guard_fail_reason_helper``,
    ``torch/_dynamo/guards.py``, 2.13).
    """
    return {**guard_manager.closure_vars, "L": f_locals, "G": guard_manager.global_scope["G"]}


def guard_root(guard_manager: Any) -> Any:
    """The tree of a cache entry's guards, or None when torch dropped it."""
    is_gone = type(guard_manager).__name__ == "DeletedGuardManagerWrapper"
    return None if is_gone else getattr(guard_manager, "root", None)


def failed_root_guards(root: Any, f_locals: Any) -> Iterator[tuple[str, list[str]]]:
    """The guards on process-wide state that fail, as class name and text."""
    for leaf in root.get_leaf_guards():
        kind = type(leaf).__name__
        if callable(leaf) and leaf(f_locals) is False:
            yield (kind if kind in _STATELESS else "AMBIENT"), leaf.verbose_code_parts()


def relation_guards(root: Any) -> list[str]:
    """Conditions on several values at once, mostly dynamic sizes; one expression for each."""
    return [
        part for leaf in root.get_epilogue_lambda_guards() for part in leaf.verbose_code_parts()
    ]


def is_dict_manager(manager: Any) -> bool:
    """It compares a dict's type, length and keys itself, without a guard that could be checked."""
    return hasattr(manager, "get_key_value_managers")


def guard_children(manager: Any) -> list[Any]:
    """The guard managers below one, those of a dict's keys and values included."""
    if not is_dict_manager(manager):
        return list(manager.get_child_managers())
    return [
        item
        for pair in manager.get_key_value_managers().values()
        for item in pair
        if item is not None
    ]


def sources_in(text: str) -> list[str]:
    """The sources in a guard's text, without its comment, each once."""
    return list(dict.fromkeys(_SOURCE.findall(re.split(r"\s+# ", text, maxsplit=1)[0])))


def global_state() -> dict[str, Any] | None:
    """The process-wide state that torch guards on, as it is now (``torch/csrc/dynamo/guards.cpp``,
    2.13), or None.
    """
    with contextlib.suppress(AttributeError, ImportError, TypeError, ValueError):
        state = json.loads(str(torch._C._dynamo.guards.GlobalStateGuard().__getstate__()))
        return state if isinstance(state, dict) else None
    return None


def dispatch_keys(tensor: torch.Tensor) -> str | None:
    """A tensor's dispatch keys, as torch's guards print them."""
    with contextlib.suppress(AttributeError, RuntimeError):
        return str(torch._C._dispatch_keys(tensor))
    return None


def on_compiled_code(take: Callable[[CodeType, CodeType], None]) -> Undo:
    """Call ``take`` with the code of each function that Dynamo compiles and the code that it
    generated.
    """
    register = getattr(importlib.import_module(_MODULE), "register_bytecode_hook", None)
    undo: Undo = (lambda: None) if register is None else register(take).remove
    return undo


def cache_entry(original: CodeType, made: CodeType) -> tuple[str, Any] | None:
    """Compile id and guard tree of the cache entry that runs ``made``; None when torch has dropped
    it.
    """
    entries = importlib.import_module("torch._dynamo.eval_frame")._debug_get_cache_entry_list(
        original
    )
    living = ((entry, guard_root(entry.guard_manager)) for entry in entries if entry.code is made)
    return next(((str(entry.compile_id), root) for entry, root in living if root is not None), None)


def empty_guard_tree() -> Any:
    """A tree without guards: what a check costs by itself."""
    return torch._C._dynamo.guards.RootGuardManager()


def clone_guard_tree(tree: Any, left_out: Collection[str] = ()) -> Any:
    """A copy of a guard tree without some sources, and without all below them."""
    return tree.clone_manager(lambda manager: manager.get_source() not in left_out)


def guarded_sources(tree: Any) -> Iterator[str]:
    """The source of every value that a tree guards or passes through; keys of dicts are left
    out.
    """
    pairs = tree.get_key_value_managers().values() if is_dict_manager(tree) else ()
    for child in (*(value for _, value in pairs if value is not None), *tree.get_child_managers()):
        yield child.get_source()
        yield from guarded_sources(child)


def guard_parts(tree: Any) -> list[tuple[str, frozenset[str]]]:
    """The parts of a guard tree: arguments, global modules, all other globals as one (``G``), and
    modules inside these.

    With each, the sources to leave out for a tree without it; outer parts first.
    """
    found = {
        match[0]: match
        for source in guarded_sources(tree)
        if (match := _MODULE_SOURCE.fullmatch(source))
    }
    modules = {match["root"] for match in found.values() if match["modules"]}
    other_globals = frozenset(
        match["root"]
        for match in found.values()
        if match["root"].startswith("G[") and match["root"] not in modules
    )
    inner = [source for source in found if source not in other_globals]
    inner.sort(key=lambda source: source.count("._modules["))
    return [
        *([("G", other_globals)] if other_globals else []),
        *((source, frozenset({source})) for source in inner),
    ]
