"""The private names of torch that guards need, those of an exported program too, 2.11 to 2.15.

Nothing here changes a guard, or checks one that keeps state (the relational ones, which aren't
callable).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from importlib import import_module
from traceback import walk_tb
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch

from .torch_api import Undo, look_on, put_in_place, wrap

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
    module = import_module(_MODULE)

    def compared(
        compare: Callable[..., Any], entries: Any, frame: Any, backend: Any, *args: Any, **kw: Any
    ) -> Any:
        try:
            return compare(entries, frame, backend, *args, **kw)
        finally:
            candidates = _entries(entries)
            # Those of this backend, which alone can be used with it; all, if there are none.
            usable = [it for it in candidates if getattr(it, "backend", backend) == backend]
            on_recompile(usable or candidates, frame)

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
    with suppress(ImportError, KeyError):
        guards = import_module("torch._dynamo.guards")
        put_in_place(guards, "profile_guard_manager", lambda *_: 0.0)


def _entries(value: Any) -> list[Any]:
    """Cache entries: a list since 2.12, the first of a chain up to 2.11.

    The last used one is first (``move_to_front``, ``torch/csrc/dynamo/extra_state.cpp``, 2.11 to
    2.15).
    """
    if isinstance(value, (list, tuple)):
        return list(value)
    entries = []
    while value is not None:
        entries.append(value)
        value = getattr(value, "next", None)
    return entries


def guard_kinds(guard: Any) -> set[str]:
    """Return what a ``Guard`` checks: the kinds that it became, and the one that Dynamo asked
    for.
    """
    return {*(guard.guard_types or ()), str(guard.create_fn_name())}


def guard_scope(guard_manager: Any, f_locals: Any) -> dict[str, Any]:
    """Return what torch evaluates a guard's text in (``get_guard_fail_reason_helper``,
    ``torch/_dynamo/guards.py``, 2.13).
    """
    return {**guard_manager.closure_vars, "L": f_locals, "G": guard_manager.global_scope["G"]}


def guard_root(guard_manager: Any) -> Any:
    """Return the tree of a cache entry's guards, or None when torch dropped it."""
    is_gone = type(guard_manager).__name__ == "DeletedGuardManagerWrapper"
    return None if is_gone else getattr(guard_manager, "root", None)


def failed_root_guards(root: Any, f_locals: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the guards on process-wide state that fail, as class name and text."""
    for leaf in root.get_leaf_guards():
        kind = type(leaf).__name__
        if callable(leaf) and leaf(f_locals) is False:
            yield (kind if kind in _STATELESS else "AMBIENT"), leaf.verbose_code_parts()


def relation_guards(root: Any) -> list[str]:
    """List conditions on several values at once, mostly dynamic sizes; one expression for each."""
    guards = root.get_epilogue_lambda_guards()
    return [part for leaf in guards for part in leaf.verbose_code_parts()]


def is_dict_manager(manager: Any) -> bool:
    """Return whether it compares a dict's type, length and keys itself, without a checkable guard."""
    return hasattr(manager, "get_key_value_managers")


def guard_children(manager: Any) -> list[Any]:
    """List the guard managers below one, those of a dict's keys and values included."""
    if not is_dict_manager(manager):
        return list(manager.get_child_managers())
    pairs = manager.get_key_value_managers().values()
    return [item for pair in pairs for item in pair if item is not None]


def sources_in(text: str) -> list[str]:
    """List the sources in a guard's text, without its comment, each once."""
    return list(dict.fromkeys(_SOURCE.findall(re.split(r"\s+# ", text, maxsplit=1)[0])))


def global_state() -> dict[str, Any] | None:
    """Return the process-wide state that torch guards on, as it is now
    (``torch/csrc/dynamo/guards.cpp``, 2.13), or None.
    """
    with suppress(AttributeError, ImportError, TypeError, ValueError):
        state = json.loads(str(torch._C._dynamo.guards.GlobalStateGuard().__getstate__()))
        return state if isinstance(state, dict) else None
    return None


def dispatch_keys(tensor: torch.Tensor) -> str | None:
    """Print a tensor's dispatch keys, as torch's guards do."""
    with suppress(AttributeError, RuntimeError):
        return str(torch._C._dispatch_keys(tensor))
    return None


def on_compiled_code(take: Callable[[CodeType, CodeType], None]) -> Undo:
    """Call ``take`` with the code of each function that Dynamo compiles and the code that it
    generated.
    """
    register = getattr(import_module(_MODULE), "register_bytecode_hook", None)
    undo: Undo = (lambda: None) if register is None else register(take).remove
    return undo


def cache_entry(original: CodeType, made: CodeType) -> tuple[str, Any] | None:
    """Find compile id and guard tree of the cache entry that runs ``made``; None when torch has
    dropped it.
    """
    frames = import_module("torch._dynamo.eval_frame")
    for entry in frames._debug_get_cache_entry_list(original):
        if entry.code is made and (root := guard_root(entry.guard_manager)) is not None:
            return str(entry.compile_id), root
    return None


def empty_guard_tree() -> Any:
    """Make a tree without guards: what a check costs by itself."""
    return torch._C._dynamo.guards.RootGuardManager()


def clone_guard_tree(tree: Any, left_out: Collection[str] = ()) -> Any:
    """Copy a guard tree without some sources, and without all below them."""
    return tree.clone_manager(lambda manager: manager.get_source() not in left_out)


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
    """List conditions on sizes that an exported program checks, in Python (``_guards_code``, 2.13);
    else none.
    """
    return [str(guard) for guard in getattr(program, "_guards_code", None) or ()]


def asks_for_truth(raised: TracebackType, is_user_file: Callable[[str], bool]) -> bool:
    """Return whether an exception was raised because the program asked whether a tensor is true.

    Non-strict export sees ``if tensor:`` as ``Tensor.__bool__``
    (``torch/_export/non_strict_utils.py``, 2.13).
    """
    after: FrameType | None = None
    is_user = False
    for frame, _ in walk_tb(raised):
        was_user, is_user = is_user, is_user_file(frame.f_code.co_filename)
        after = None if is_user else frame if was_user else after
    return after is not None and after.f_locals.get("func") is torch.Tensor.__bool__
