"""Guard trees of a log and measured costs of the probe, as ``Guards``: in the user's words, with whole paths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from graphdoctor.model.expressions import expression
from graphdoctor.model.guards import GuardNode, Guards, GuardSet, SubtreeCost
from graphdoctor.model.recording import Recording
from graphdoctor.model.stack import StackEntry
from graphdoctor.trace.guard_text import GuardText
from graphdoctor.trace.guard_tree import GuardTree, TreeGuard
from graphdoctor.trace.origin import Origins

_VALUE = re.compile(r"[LG]\['\w+'\](?:\._modules\['[^']+'\])*")
_ROOT = re.compile(r"[LG]\['(\w+)'\]")
_MODULE_FOLDERS = re.compile(r"\._(?:modules|parameters|buffers|non_persistent_buffers_set|\w*hooks\w*)\b")
_INTERNAL_TAIL = re.compile(
    r"^\)*(?:\[\d+\])?$|^\.__(?:dict|class)__|^\._(?:modules|parameters|buffers|non_persistent_buffers_set|\w*hooks\w*)\b"
)
_IMPORTED = re.compile(r"\b__import_(\w+)")
_BUILTIN = re.compile(r"\b__builtins_dict___\d+\['(\w+)'\]")
_SHAPE = re.compile(r"\.size\(\)\[")
_STRIDE = re.compile(r"\.stride\(\)\[(\d+)\]")
_CLASS_ATTRIBUTE = re.compile(r"dict\((type\([^()]*\))(?:\.__mro__\[\d+\])?\.__dict__\)\['(\w+)'\]")
_KEY = re.compile(r"^list\(dict\.keys\((.*)\)\)\[(\d+)\]$")
_STATE = "process-wide state"
_MAX_UNREAD = 20
_TORCH_PARTS = frozenset(
    {
        "_dynamo",
        "_functorch",
        "_higher_order_ops",
        "_inductor",
        "_ops.py",
        "_tensor.py",
        "autograd",
        "cuda",
        "distributed",
    }
    | {"distributions", "export", "functional.py", "fx", "nn", "optim", "utils", "_refs", "_prims", "amp", "compiler"}
)


def guards_of(
    recording: Recording,
    trees: Mapping[str, GuardTree],
    *,
    files: Iterable[str],
    origins: Origins,
    cost: dict[str, Any] | None,
) -> Guards:
    """Put a recording's guards into words.

    Args:
        recording: The rest of what is known; compiles that are not in it are left out.
        trees: The printed tree of each compile.
        files: Every file that the log names.
        origins: Who owns a file.
        cost: What the probe measured, or None.
    """
    places = _Places(files, origins)
    entries = {entry["compile_id"]: entry for entry in (cost or {}).get("entries", ())}
    call_us = (cost or {}).get("call_us")
    sets = []
    for compile_ in recording.compiles:
        tree = trees.get(compile_.compile_id)
        if tree is not None:
            resumes_at = next((f.resumes_at for f in recording.frames if f.frame_id == compile_.frame_id), None)
            sets.append(
                _guard_set(compile_.compile_id, tree, places, resumes_at, entries.get(compile_.compile_id), call_us)
            )
    checks_us = _total(sets) if call_us and cost and cost.get("is_complete") else None
    return Guards(
        sets=tuple(sets),
        call_us=call_us,
        call_low_us=(cost or {}).get("call_low_us"),
        call_high_us=(cost or {}).get("call_high_us"),
        call_count=(cost or {}).get("call_count"),
        checks_us=checks_us,
        share=checks_us / call_us if checks_us is not None and call_us else None,
    )


def _total(sets: Iterable[GuardSet]) -> float | None:
    """All checks of one call together; None when one that runs was not measured."""
    total = 0.0
    for found in sets:
        if found.runs_per_call and found.check_us is None:
            return None
        total += (found.runs_per_call or 0) * (found.check_us or 0.0)
    return total


def _guard_set(
    compile_id: str,
    tree: GuardTree,
    places: _Places,
    resumes_at: int | None,
    entry: dict[str, Any] | None,
    call_us: float | None,
) -> GuardSet:
    nodes = tuple(_node(guard, places, resumes_at) for guard in tree.guards)
    measured = entry or {}
    check_us, runs = measured.get("check_us"), measured.get("runs")
    return GuardSet(
        compile_id=compile_id,
        guard_count=len(nodes),
        kinds=dict(Counter(node.kind or "other" for node in nodes).most_common()),
        nodes=nodes,
        unread_lines=tree.unread[:_MAX_UNREAD],
        latency_us=tree.latency_us,
        runs_per_call=runs,
        check_us=check_us,
        check_low_us=measured.get("check_low_us"),
        check_high_us=measured.get("check_high_us"),
        share=check_us * runs / call_us if check_us is not None and runs is not None and call_us else None,
        bill=tuple(_subtree_cost(part, tree, resumes_at) for part in measured.get("bill", ())),
        unbilled_count=measured.get("unbilled_count", 0),
    )


def _subtree_cost(part: dict[str, Any], tree: GuardTree, resumes_at: int | None) -> SubtreeCost:
    source = part["source"]
    count = sum(_lies_in(guard, source) for guard in tree.guards)
    path = "globals" if source == "G" else value_words(source, resumes_at)
    return SubtreeCost(path=path, guard_count=count, check_us=part.get("check_us"))


def _lies_in(guard: TreeGuard, source: str) -> bool:
    manager = guard.manager_source
    if manager is None:
        return False
    return "G[" in manager if source == "G" else source in manager


def _node(guard: TreeGuard, places: _Places, resumes_at: int | None) -> GuardNode:
    text = guard.text
    source = text.source or guard.manager_source
    owner = _VALUE.search(guard.manager_source or source or "")
    return GuardNode(
        kind=text.kind,
        source=source,
        expression=_STATE if source is None else value_words(source, resumes_at),
        expected=None if text.expected is None else _in_words(text.expected, resumes_at),
        path=None if owner is None else _path(owner[0], resumes_at),
        is_module_internal=source is not None and _is_module_internal(source),
        depth=guard.depth,
        location=places.entry(text),
        hint=text.hint,
        guard=text.guard,
    )


def _path(owner: str, resumes_at: int | None) -> str:
    """The argument or module; all global names but modules of the user's are one part."""
    return "globals" if owner.startswith("G[") and "._modules[" not in owner else value_words(owner, resumes_at)


def _is_module_internal(source: str) -> bool:
    """What stands behind the innermost module is part of how ``nn.Module`` works, not an attribute of the user's."""
    owner = _VALUE.search(source)
    return (
        owner is not None
        and _MODULE_FOLDERS.search(source) is not None
        and bool(_INTERNAL_TAIL.match(source[owner.end() :]))
    )


def value_words(source: str, resumes_at: int | None = None) -> str:
    """A guard's source in the user's words: ``key 0 of d``, ``x.shape[0]``, ``torch.nn.functional.relu``.

    Args:
        source: torch's source.
        resumes_at: For a resume function, the line it goes on after.
    """
    if key := _KEY.match(source):
        return f"key {key[2]} of {value_words(key[1], resumes_at)}"
    return _in_words(source, resumes_at)


def _in_words(source: str, resumes_at: int | None) -> str:
    text = expression(source, resumes_at)
    text = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), text)
    text = _CLASS_ATTRIBUTE.sub(r"\1.\2", text)
    text = _BUILTIN.sub(r"\1", text)
    return _STRIDE.sub(r".stride(\1)", _SHAPE.sub(".shape[", text))


class _Places:
    """Whole paths of files that torch printed in short.

    torch cuts what a path has in common with its own folder and one character more (``shorten_filename``,
    ``torch/utils/_traceback.py``, 2.13), so that ``/tmp/net.py`` becomes ``mp/net.py``.
    """

    def __init__(self, files: Iterable[str], origins: Origins) -> None:
        self._origins = origins
        self._known = sorted(set(files), key=len)
        self._found: dict[str, str] = {}

    def entry(self, text: GuardText) -> StackEntry | None:
        """The line that a guard names."""
        if text.file is None or text.line is None:
            return None
        file = self._resolve(text.file)
        origin, package = self._origins.of(file)
        if file == text.file and file.partition("/")[0] in _TORCH_PARTS:
            origin, package = "torch", "torch"
        return StackEntry(
            file=file,
            line=text.line,
            function=text.function or "<unknown>",
            text=text.code,
            origin=origin,
            package=package,
        )

    def _resolve(self, short: str) -> str:
        if short not in self._found:
            self._found[short] = self._search(short)
        return self._found[short]

    def _search(self, short: str) -> str:
        """The one known file that ends so; between several the one that torch would shorten to this text."""
        root = self._origins.torch_root
        ending = [file for file in self._known if file.endswith(short)]
        exact = [file for file in ending if root is not None and shortened(file, root) == short]
        if exact:
            return exact[0]
        if root is None:
            return ending[0] if ending else short
        first = short.partition("/")[0]
        if first in _TORCH_PARTS:
            return f"{root}/{short}"
        site = root.rpartition("/")[0]
        if any(file.startswith(f"{site}/{first}/") for file in self._known):
            return f"{site}/{short}"
        return ending[0] if ending else short


def shortened(file: str, torch_root: str) -> str:
    """A path as torch prints it in guards."""
    if not file.startswith("/"):
        return file
    parts, base = file.split("/"), torch_root.split("/")
    common = 0
    while common < min(len(parts), len(base)) and parts[common] == base[common]:
        common += 1
    prefix = "/".join(parts[:common]) or "/"
    return file[len(prefix) + 1 :]
