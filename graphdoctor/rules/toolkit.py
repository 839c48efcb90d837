"""Toolkit of rules: their classes, what these are shown, and the words and suggestions of their
findings.

Settings go to the start of the program, arguments to the call of ``torch.compile``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import Any

from graphdoctor.facts.fixes import Fix, FixKind, SnippetPlace, Unguarded, because
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.base import grouped as grouped
from graphdoctor.facts.guards import distinct_values as distinct_values
from graphdoctor.wording import (
    bytes_text as bytes_text,
    counted as counted,
    factor_text as factor_text,
    names as names,
    percent as percent,
    quoted as quoted,
    ranks_text as ranks_text,
    times as times,
    without_middle as without_middle,
)
from graphdoctor.rules.diagnosis.recompiles import (
    RecompileEvent as RecompileEvent,
    RecompileGroup as RecompileGroup,
    can_be_dynamic as can_be_dynamic,
    dynamic_sizes as dynamic_sizes,
    fits_dynamic as fits_dynamic,
    hidden_change_count as hidden_change_count,
    is_specialized as is_specialized,
)
from graphdoctor.rules.diagnosis.rule import (
    CUDA_GRAPHS as CUDA_GRAPHS,
    WITHIN_CALL as WITHIN_CALL,
    BreakRule as BreakRule,
    Fixes as Fixes,
    GapPage as GapPage,
    Findings as Findings,
    RecompileRule as RecompileRule,
    RecordingRule as RecordingRule,
)
from graphdoctor.rules.diagnosis.sites import (
    BreakSite as BreakSite,
    RecordingView as RecordingView,
    shortened as shortened,
)


def _fix(kind: FixKind, title: str, source: str | None = None, **more: Any) -> Fix:  # noqa: ANN401 - fields of a fix
    """Return a fix; without a ``source``, the rule's guide recommends it."""
    return Fix(kind=kind, title=title, source=source, **more)


code_fix = partial(_fix, "code")
"""A change of source."""
call_fix = partial(_fix, "call")
"""A change of how the target is compiled and called."""
config_fix = partial(_fix, "config")
"""A change of torch's configuration."""


def by_hand(title: str, why: str) -> Fix:
    """Return a change of source that nothing but a person can write, and why."""
    return code_fix(title, reasons=(because("declined", why),))


# Changes of a line.


def guard_while_compiling(site: BreakSite) -> tuple[Fix, ...]:
    """Return the statement under ``if not torch.compiler.is_compiling()``; nothing if the program
    needs its value.
    """
    call, pointed = site.bare_call, site.node
    if not site.is_own_code or call is None:
        return ()
    # The break can be in an argument, such as a hook that is being registered: then the call itself
    # is needed.
    if pointed is not None and ast.dump(pointed) != ast.dump(call):
        return ()
    title = f"Skip `{shortened(site.statement)}` while compiling"
    return (code_fix(f"{title}: put it under `if not torch.compiler.is_compiling()`"),)


def call_before(site: BreakSite, name: str) -> Fix:
    """Return a call, or a read of an attribute, that the caller makes, unless it needs what the
    function computes.
    """
    moved = f"Move `{shortened(site.statement)}` out of the compiled function"
    match site.statement_node:
        case ast.ClassDef(name=made) | ast.FunctionDef(name=made):
            return code_fix(f"Move `{made}` out of the compiled function, with its decorators")
        # To set an item is a call, too.
        case (
            ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_])
            | ast.AugAssign(target=ast.Attribute() | ast.Subscript())
            | ast.Delete(targets=[ast.Attribute() | ast.Subscript(), *_])
        ) if site.called is None:
            return code_fix(moved)
    keywords = (keyword.value for keyword in getattr(site.node, "keywords", ()))
    arguments = (*getattr(site.node, "args", ()), *keywords)
    is_constant = all(isinstance(argument, ast.Constant) for argument in arguments)
    condition = None if is_constant else "if its arguments are known there"
    verb = "Read" if isinstance(site.node, ast.Attribute) else "Call"
    title = f"{verb} `{name}` before the compiled function and pass its result in"
    return code_fix(title, condition=condition)


NO_VALUE_NEEDED = "if no branch, dict or list needs its value"
"""When torch can capture a number that a program reads from a tensor."""
OWN_FUNCTION = code_fix(
    "If the call must stay, move it into a small function under `@torch.compiler.disable`, called"
    " outside loops, `try` and `with`: that call breaks the graph, too, but torch resumes after it",
    is_safe=True,
)
"""The official way to live with a break."""
OUTSIDE = call_fix("Call this part of the package outside the compiled function")
_KEEP_OUT = code_fix(
    "Keep the line out of the compiled function, in a function under `torch.compiler.disable`,"
    " whose call breaks the graph",
    "torch/_dynamo/convert_frame.py, 2.11 to 2.15",
)


def keep_out(entry: StackEntry) -> Fix:
    """Return what keeps a line out of what is compiled; a package's lines aren't for its user to
    edit.
    """
    return OUTSIDE if entry.origin == "third_party" else _KEEP_OUT


SORT_IN_GRAPH = code_fix(
    "Sort in the graph: `torch.stack` the keys, then `sort`, or `argsort` or `argmax` with"
    " `torch.index_select`",
    "torch's hint for GB0207",
)
INSIDE_DDP = call_fix(
    "Compile the module, and wrap that: `DistributedDataParallel(torch.compile(module))`",
    "torch/nn/parallel/distributed.py, 2.11 to 2.15: `_inside_ddp_forward`",
    is_safe=True,
)
BEFORE_SHARDING = call_fix(
    "Compile each block before it is sharded, and nothing that calls it: `block.compile()`, then"
    " `fully_shard(block)`; for a block of torch's own class, `fully_shard(torch.compile(block))`",
    "torch/distributed/fsdp/_fully_shard/_fsdp_common.py, 2.13 to 2.15: `_dynamo_disable`",
    is_safe=True,
)
REGIONAL = code_fix(
    "Compile each repeated layer by itself, with `layer.compile()`, in place of the whole model",
    "PyTorch user guide: regional compilation",
    is_safe=True,
)


# Settings, arguments of torch.compile, and changes of the call.


def setting(
    name: str,
    title: str,
    source: str | None = None,
    *,
    value: bool | int = True,
    **more: Any,  # noqa: ANN401 - fields of a fix
) -> Fix:
    """Return a torch setting as a fix; the name alone is of ``torch._dynamo.config``."""
    full = name if "." in name else f"torch._dynamo.config.{name}"
    return from_setting(Setting(name=full, value=value), title, source, **more)


def from_setting(chosen: Setting, title: str, source: str | None = None, **more: Any) -> Fix:  # noqa: ANN401 - fields of a fix
    """Return a torch setting as a fix; without a ``source``, where the setting is declared."""
    declared = f"{chosen.name.rpartition('.config.')[0].replace('.', '/')}/config.py, 2.11 to 2.15"
    place = SnippetPlace(where="start")
    return config_fix(
        title, source or declared, snippet=chosen.code, place=place, setting=chosen, **more
    )


def made_dynamic(group: RecompileGroup) -> Iterator[Fix]:
    """Yield what the program sets without which torch makes a size or a number dynamic at its
    second value (``torch/_dynamo/variables/builder.py``, 2.13).
    """
    is_size = group.first.kind == "size"
    values = [{change.old, change.new} for change in group.changes]
    # torch compiles a number of 0 or 1 for it.
    if group.is_static and (is_size or not all(both & {"0", "1"} for both in values)):
        what = "a size" if is_size else "a number"
        title = f"Compile without dynamic=False: torch makes {what} dynamic at its second value"
        yield call_fix(title, is_safe=True)
    is_float = not is_size and "." in (group.first.old or "")
    usual = {"specialize_float": False} if is_float else {"automatic_dynamic_shapes": True}
    if not is_float and not is_size:
        usual["specialize_int"] = False
    for name, value in usual.items():
        if group.config.get(f"torch._dynamo.config.{name}") == repr(not value):
            title = f"Leave `{name}` at {value}: torch then makes it dynamic at its second value"
            yield setting(name, title, value=value, is_safe=True)


def sources_setting(name: str, sources: list[str], title: str) -> Fix:
    """Set one of ``torch.compiler.config``'s lists of torch's sources, such as ``L['x']``, as a
    line that isn't tried.
    """
    chosen = Setting(name=f"torch.compiler.config.{name}", value=",".join(sources))
    return from_setting(chosen, title, is_safe=True).replace(snippet=chosen.line, setting=None)


def compile_argument(argument: str, title: str, source: str | None = None, **more: Any) -> Fix:  # noqa: ANN401 - fields of a fix
    """Return an argument of ``torch.compile`` as a fix, such as ``mode="reduce-overhead"``."""
    return call_fix(title, source, snippet=argument, place=SnippetPlace(where="compile"), **more)


def max_autotune(recording: Recording, why: str) -> Iterator[Fix]:
    """Yield the mode in which Inductor tries more, unless the recording has it already; ``why``
    follows a colon.

    On a CPU, it writes the same C++ in that mode, and tries only products of batches and those with
    frozen weights (``use_cpp_gemm_template``, ``torch/_inductor/utils.py``, 2.13).
    """
    is_on_cpu = recording.kernels is None or recording.kernels.device == "cpu"
    if not is_on_cpu and not str(recording.target.compile_arguments.get("mode")).startswith(
        "max-autotune"
    ):
        argument = 'mode="max-autotune"'
        yield compile_argument(argument, f"Compile with {argument}: {why}")


def in_bfloat16(device: str | None) -> str:
    """Return how to compute in bfloat16. oneDNN takes longer for it than for float32 on a CPU
    without instructions for it.
    """
    condition = (
        "" if device == "cuda" else ", if the CPU has instructions for it (AMX or AVX512-BF16)"
    )
    return f"torch.autocast with bfloat16{condition}"


def guard_filter(name: str, unguarded: Unguarded, changes: str) -> Fix:
    """Return one of ``torch.compiler``'s guard filters as a fix, marked unsafe.

    Args:
        name: The filter, such as ``skip_guard_on_inbuilt_nn_modules_unsafe``.
        unguarded: What it drops the guards of.
        changes: What torch no longer notices.
    """
    return compile_argument(
        f'options={{"guard_filter_fn": torch.compiler.{name}}}',
        f"Unsafe: drop guards with torch.compiler.{name}; after {changes}, calls silently give"
        " wrong results",
        "torch/compiler/__init__.py, 2.11 to 2.15",
        unguarded=unguarded,
    )


FEWER_MODULES = code_fix("Use fewer, larger modules: torch checks each of them in each run")
MODULE_FILTERS = (
    guard_filter(
        "skip_guard_on_inbuilt_nn_modules_unsafe", "modules", "a change of one of torch's modules"
    ),
    guard_filter("skip_guard_on_all_nn_modules_unsafe", "modules", "a change of any module"),
)
