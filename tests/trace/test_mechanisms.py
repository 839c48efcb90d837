"""Which code of torch's own a break is in: DDP, FSDP, hooks of modules, checkpointing."""

from __future__ import annotations

from graphdoctor.facts.recording import BreakReason, BreakRecord, TorchMechanism
from graphdoctor.facts.stack import Origin, StackEntry
from graphdoctor.trace.breaks import break_record, mechanism_of
from tests.each import for_each

TORCH = "/lib/python3.11/site-packages/torch"


def line(file: str, text: str = "", origin: Origin = "torch") -> StackEntry:
    return StackEntry(file=file, line=1, function="f", text=text, origin=origin)


def words(gb_type: str = "any", *, context: str | None = None, operator: str | None = None) -> BreakRecord:
    reason = BreakReason(gb_type=gb_type, context=context)
    return break_record(gb_type, (reason,), "resumed", higher_order_operator=operator)


USER = line("/project/train.py", "y = block(x)", origin="user")
DDP = line(f"{TORCH}/nn/parallel/distributed.py", "with self._inside_ddp_forward():")
MODULE = line(f"{TORCH}/nn/modules/module.py", "return self._call_impl(*args, **kwargs)")
HOOK = line(f"{TORCH}/nn/modules/module.py", "hook_result = hook(self, args, result)")
FSDP = line(f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_common.py", "return torch._dynamo.disable(")
POLYFILL = line(f"{TORCH}/_dynamo/polyfills/__init__.py")
CONTEXTLIB = line("/lib/python3.11/contextlib.py", "self.gen = func(*args, **kwds)", origin="stdlib")


@for_each(
    "path, mechanism",
    [
        ((USER, MODULE, DDP), "ddp_forward"),
        ((USER, DDP, CONTEXTLIB, POLYFILL, CONTEXTLIB), "ddp_forward"),
        ((USER, MODULE, HOOK, FSDP), "fsdp_hook"),
        ((USER, MODULE, HOOK), "module_hook"),
        ((USER, DDP, USER), None),
        ((USER, MODULE), None),
        ((USER, CONTEXTLIB), None),
        ((USER,), None),
        ((), None),
    ],
)
def test_the_innermost_code_of_torch_below_the_program_decides(
    path: tuple[StackEntry, ...], mechanism: TorchMechanism | None
) -> None:
    assert mechanism_of(path, words()) == mechanism


def test_windows_paths_are_known_too() -> None:
    windows = line(r"C:\env\Lib\site-packages\torch\nn\parallel\distributed.py")
    assert mechanism_of((USER, windows), words()) == "ddp_forward"


def test_a_side_effect_belongs_to_checkpointing_only_inside_it() -> None:
    operator = "torch.utils.checkpoint.checkpoint"
    assert mechanism_of((USER,), words("HOP: Unsafe side effect", operator=operator)) == "checkpoint"
    assert mechanism_of((USER, MODULE), words("HOP: Unsafe side effect", operator=operator)) == "checkpoint"
    assert mechanism_of((USER,), words("HOP: Unsafe side effect", operator="torch.cond")) is None
    assert mechanism_of((USER,), words("Failed to trace builtin operator", operator=operator)) is None


def test_a_function_of_checkpointing_that_torch_skips_is_named_by_its_module() -> None:
    context = "module: torch.utils.checkpoint, qualname: checkpoint_sequential, skip reason: file matches MOD_SKIPLIST"
    assert mechanism_of((USER,), words(context=context)) == "checkpoint"
