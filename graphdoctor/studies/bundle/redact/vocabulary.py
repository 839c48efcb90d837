"""Public words: Python's, torch's, and graphdoctor's own."""

from __future__ import annotations

import builtins
import keyword
import re

from graphdoctor.facts.record_kinds import TORCH_KINDS
from graphdoctor.trace.guards.state import STATE_NAMES

LEFT_OUT = "…"
"""Stands for anything that is left out."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


PACKAGES = words(
    "accelerate deepspeed diffusers einops flash_attn functorch jaxtyping lightning lightning_fabric numpy optree "
    "peft pytorch_lightning safetensors scipy sympy timm tokenizers torch torch_geometric torchao torchaudio "
    "torchgen torchrec torchvision transformers triton vllm xformers"
)
"""Well-known public packages. Any other installed package may be private."""

_SOURCE_WORDS = words(
    "L G self cls args kwargs forward backward training weight bias example_inputs get_inputs example_input_array "
    "dummy_inputs no needed arguments input inner _modules _parameters _buffers requires_grad shape size stride ndim "
    "dtype device is_contiguous keys the of grad mode train eval process-wide process wide state inference autocast "
    "default threads determinism function modes a variable that captured by value from an earlier line at data_ptr "
    "grad_fn torch utils_device CURRENT_DEVICE module code"
)
_STATE_WORDS = frozenset(re.findall(r"[^\W\d]\w*", " ".join(STATE_NAMES)))
NAMES = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | _SOURCE_WORDS | _STATE_WORDS
"""Names in guards' sources, and in our words for them, that say nothing about a program."""

METHODS = words(
    "abs add add_ addmm all amax amin any argmax argmin argsort baddbmm backward bmm bool chunk clamp clone "
    "contiguous copy_ cos cpu cuda cumsum detach dim div double eq exp expand expand_as fill_ flatten flip float "
    "floor gather ge gelu get_device gt half index_add index_copy index_select int isinf isnan item le log "
    "log_softmax long lt masked_fill masked_fill_ masked_select matmul max mean min mm movedim mul mul_ narrow ne neg "
    "new_empty new_full new_ones new_tensor new_zeros norm numel permute pow prod reciprocal relu repeat "
    "repeat_interleave reshape roll round rsqrt scatter scatter_ scatter_add select sigmoid sign sin size softmax "
    "sort split sqrt square squeeze stack std stride sub sub_ sum t tanh tile to topk transpose tril triu type "
    "type_as unbind unflatten unfold unsqueeze var view view_as zero_ requires_grad_ __getitem__ __setitem__"
)

DUNDERS = frozenset(
    name
    for kind in (object, type, int, float, str, list, dict, set, type(lambda: None))
    for name in dir(kind)
    if name.startswith("__")
) | frozenset({"__enter__", "__exit__", "__next__", "__module__"})

GUARD_KINDS = words(
    "AUTOGRAD_SAVED_TENSORS_HOOKS BOOL_MATCH BUILTIN_MATCH CLASS_MATCH CLOSURE_MATCH CONSTANT_MATCH DATA_PTR_MATCH "
    "DEFAULT_DEVICE DETERMINISTIC_ALGORITHMS DICT_CONTAINS DICT_KEYS DICT_KEYS_MATCH DICT_NOT_CONTAINS DICT_VERSION "
    "DIMENSION_DYNAMIC_MARKING_GUARD DISPATCH_KEY_SET_MATCH DUAL_LEVEL DYNAMIC_INDICES EQUALS_MATCH FALSE_MATCH "
    "FLOAT_IS_NAN FUNCTION_MATCH FUNCTORCH_STACK_MATCH GLOBAL_STATE GRAD_MODE HASATTR ID_MATCH LAMBDA_GUARD "
    "LENGTH_CHECK MAPPING_KEYS_CHECK MODULE_MATCH NONE_MATCH NOT_NONE NOT_NONE_MATCH NOT_PRESENT_IN_GENERIC_DICT "
    "NO_HASATTR NO_TENSOR_ALIASING OBJECT_ALIASING RANGE_ITERATOR_MATCH RELATIONAL_GUARD SEQUENCE_LENGTH SET_CONTAINS "
    "SET_NOT_CONTAINS SHAPE_ENV STORAGE_OVERLAPPING SYMBOLIC_SHAPE_GUARD TENSOR_MATCH TENSOR_SUBCLASS_METADATA_MATCH "
    "TORCH_FUNCTION_MODE_STACK TORCH_FUNCTION_STATE TRUE_MATCH TUPLE_ITERATOR_LEN TYPE_MATCH WEAKREF_ALIVE"
)
"""Kinds of guards (``torch/_dynamo/guards.py``, 2.13)."""

BACKENDS = words(
    "aot_eager aot_eager_decomp_partition aot_eager_default_partitioner aot_ts cudagraphs eager inductor "
    "invoke_subgraph onnxrt openxla openxla_eval pre_dispatch_eager tensorrt ts tvm"
)

RECORD_KINDS = TORCH_KINDS | words(
    "graphdoctor_call graphdoctor_called graphdoctor_caller graphdoctor_compile_call "
    "graphdoctor_file graphdoctor_graph graphdoctor_recompile graphdoctor_root graphdoctor_sources "
    "graphdoctor_stack graphdoctor_watched_call"
)
"""Kinds of records in torch's log that keep their names."""

PHASE_WORDS = words(
    "CacheBase GraphLowering PyCodeCache PythonWrapperCodegen Scheduler TritonBundler additional aot apply artifact "
    "async attempt attrs auto autograd automatic backend backward base bn build bundle bw bytecode cache call code "
    "codecache codegen collect compile compiled compiler constant constructors conv cpp create cuda cut decompose "
    "deferred dispatcher dtype dynamic dynamo efficient entire eval event fake file fix fn fold forward frame "
    "function functional functionalized fused fusion fw fx gc generate get graph group guards hit hooks inductor "
    "inplaceable init insert joint key kernel load loop lowering map meta metadata min miss move noop nodes ops "
    "optimize partition pass passes path pattern pgo post pre precompile process prop pool py recursive reinplace "
    "rematerialization remove run runtime scan scheduler shape sort stable step system tensor to torch trace tracing "
    "triton value views wait while wrapper asserts bypass grad locals warm subprocess batch"
)
"""Words in the names of torch's compile phases (``dynamo_timed``, 2.13)."""

EXCEPTIONS = frozenset(
    name
    for name in dir(builtins)
    if isinstance(value := getattr(builtins, name), type) and issubclass(value, BaseException)
) | words(
    "ArgsMismatchError BackendCompilerFailed CompilationError FailOnRecompileLimitHit GuardOnDataDependentSymNode "
    "InductorError InternalTorchDynamoError InvalidBackend LoweringException Observed RecompileLimitExceeded "
    "RestartAnalysis SkipFrame TensorifyScalarRestartAnalysis TorchDynamoException TorchRuntimeError Unsupported "
    "UncapturedHigherOrderOpError UserError"
)

OPCODES = words("placeholder call_function call_method call_module get_attr output")

SWITCHES = words(
    "TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE torch._dynamo.config.disable force_eager eager_on_recompile "
    "fail_on_recompile eager_then_compile aot_eager_then_compile"
)
