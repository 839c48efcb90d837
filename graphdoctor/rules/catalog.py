"""All rules, in the order in which they are tried, and the page of every code."""

from __future__ import annotations

from graphdoctor.rules.diagnosis.rule import BreakRule, GapPage, Page, RecompileRule, RecordingRule, Rule, RuleBook
from graphdoctor.rules.gaps import (
    ForeignLog,
    IncompleteLog,
    NothingCompiled,
    NotMeasured,
    PrefixedCompileIds,
    RankUnread,
)
from graphdoctor.rules.gd100_graph_break import GraphBreak
from graphdoctor.rules.gd101_print_or_log import PrintOrLog
from graphdoctor.rules.gd102_data_dependent_branch import DataDependentBranch
from graphdoctor.rules.gd103_scalar_read import ScalarRead
from graphdoctor.rules.gd104_dynamic_shape_operator import DynamicShapeOperator
from graphdoctor.rules.gd105_skipped_function import SkippedFunction
from graphdoctor.rules.gd106_disabled_function import DisabledFunction
from graphdoctor.rules.gd107_explicit_graph_break import ExplicitGraphBreak
from graphdoctor.rules.gd108_deepcopy import Deepcopy
from graphdoctor.rules.gd109_unsupported_call import UnsupportedCall
from graphdoctor.rules.gd110_unsupported_context_manager import UnsupportedContextManager
from graphdoctor.rules.gd111_skipped_frame import SkippedFrame
from graphdoctor.rules.gd112_backward_or_optimizer import BackwardOrOptimizer
from graphdoctor.rules.gd113_raised_exception import RaisedException
from graphdoctor.rules.gd114_requires_grad import RequiresGradChange
from graphdoctor.rules.gd115_parameter_constructor import ParameterConstructor
from graphdoctor.rules.gd116_recurrent_module import RecurrentModule
from graphdoctor.rules.gd117_sparse_tensor import SparseTensor
from graphdoctor.rules.gd118_inference_mode_check import InferenceModeCheck
from graphdoctor.rules.gd119_dynamic_value_guard import DynamicValueGuard
from graphdoctor.rules.gd120_gradient_hook import GradientHook
from graphdoctor.rules.gd121_iterator_from_outside import IteratorFromOutside
from graphdoctor.rules.gd122_set_of_tensors import SetOfTensors
from graphdoctor.rules.gd123_sort_by_tensor import SortByTensor
from graphdoctor.rules.gd124_value_not_rebuilt import ValueNotRebuilt
from graphdoctor.rules.gd125_ddp_forward import DdpForward
from graphdoctor.rules.gd126_fsdp_hook import FsdpHook
from graphdoctor.rules.gd127_module_hook import ModuleHook
from graphdoctor.rules.gd128_checkpoint import Checkpoint
from graphdoctor.rules.gd129_skipped_container import SkippedContainer
from graphdoctor.rules.gd130_ddp_split import DdpSplitGraph
from graphdoctor.rules.gd200_recompile import Recompile
from graphdoctor.rules.gd201_recompile_limit import RecompileLimit
from graphdoctor.rules.gd202_size_change import SizeChange
from graphdoctor.rules.gd203_number_argument import NumberArgument
from graphdoctor.rules.gd204_learning_rate import LearningRate
from graphdoctor.rules.gd205_module_number import ModuleNumber
from graphdoctor.rules.gd206_parameter_shape import ParameterShape
from graphdoctor.rules.gd207_specialized_dim import SpecializedDim
from graphdoctor.rules.gd208_small_part import SmallPart
from graphdoctor.rules.gd209_ranks_disagree import RanksDisagree
from graphdoctor.rules.gd210_cold_start import ColdStart
from graphdoctor.rules.gd211_per_instance import PerInstance
from graphdoctor.rules.gd212_mode_flip import ModeFlip
from graphdoctor.rules.gd213_stride_change import StrideChange
from graphdoctor.rules.gd214_object_identity import ObjectIdentity
from graphdoctor.rules.gd215_structure_change import StructureChange
from graphdoctor.rules.gd216_constant_argument import ConstantArgument
from graphdoctor.rules.gd217_never_settles import NeverSettles
from graphdoctor.rules.gd218_growing_container import GrowingContainer
from graphdoctor.rules.gd301_guard_overhead import GuardOverhead
from graphdoctor.rules.gd302_guards_on_modules import GuardsOnModules
from graphdoctor.rules.gd303_guard_on_changing_value import GuardOnChangingValue
from graphdoctor.rules.gd401_repeated_blocks import RepeatedBlocksInGraph
from graphdoctor.rules.gd402_tiny_graphs import TinyGraphs
from graphdoctor.rules.gd403_cache_bypassed import CacheBypassed
from graphdoctor.rules.gd501_backend_exception import BackendException
from graphdoctor.rules.gd502_compiler_error import CompilerError
from graphdoctor.rules.gd503_library_calls import LibraryCalls
from graphdoctor.rules.gd504_cuda_graphs_skipped import CudaGraphsSkipped
from graphdoctor.rules.gd505_cuda_graph_inputs import CudaGraphInputs
from graphdoctor.rules.gd506_slower_kernels import SlowerKernels
from graphdoctor.rules.gd508_layout_copies import LayoutCopies
from graphdoctor.rules.gd509_dtype_casts import DtypeCasts
from graphdoctor.rules.gd510_tf32_off import Tf32Off
from graphdoctor.rules.gd511_cuda_graph_recordings import CudaGraphRecordings
from graphdoctor.rules.gd512_saved_activation import SavedActivation
from graphdoctor.rules.gd600_export_error import ExportError
from graphdoctor.rules.gd601_export_type import ExportType
from graphdoctor.rules.gd901_user_error import UserError

_BACKEND = BackendException()

# The first that matches names a site, so rules that look at where a break happened come before rules that look only at
# torch's id: to torch, an optimizer's method is a skipped function and an explicit graph break.
BREAK_RULES: tuple[BreakRule, ...] = (
    DdpForward(),
    FsdpHook(),
    ModuleHook(),
    Checkpoint(),
    PrintOrLog(),
    BackwardOrOptimizer(),
    Deepcopy(),
    UnsupportedContextManager(),
    SparseTensor(),
    RecurrentModule(),
    IteratorFromOutside(),
    DynamicValueGuard(),
    DataDependentBranch(),
    ScalarRead(),
    DynamicShapeOperator(),
    SkippedFunction(),
    DisabledFunction(),
    ExplicitGraphBreak(),
    UnsupportedCall(),
    RaisedException(),
    RequiresGradChange(),
    ParameterConstructor(),
    InferenceModeCheck(),
    GradientHook(),
    SetOfTensors(),
    SortByTensor(),
    ValueNotRebuilt(),
    ExportType(),
    ExportError(),
    _BACKEND,
    GraphBreak(),
)

RECORDING_RULES: tuple[RecordingRule, ...] = (
    SkippedContainer(),
    DdpSplitGraph(),
    SkippedFrame(),
    RecompileLimit(),
    NeverSettles(),
    SmallPart(),
    RanksDisagree(),
    ColdStart(),
    PerInstance(),
    GuardOverhead(),
    GuardsOnModules(),
    GuardOnChangingValue(),
    RepeatedBlocksInGraph(),
    TinyGraphs(),
    CacheBypassed(),
    LibraryCalls(),
    CudaGraphsSkipped(),
    CudaGraphInputs(),
    CudaGraphRecordings(),
    SlowerKernels(),
    LayoutCopies(),
    DtypeCasts(),
    Tf32Off(),
    SavedActivation(),
    _BACKEND,
    CompilerError(),
    UserError(),
)

# The first that matches a change names it. The last one matches every change.
RECOMPILE_RULES: tuple[RecompileRule, ...] = (
    # These two come first because a number of an optimizer is also a number, and a parameter's size is also a size.
    LearningRate(),
    ParameterShape(),
    SizeChange(),
    NumberArgument(),
    ModuleNumber(),
    SpecializedDim(),
    ModeFlip(),
    StrideChange(),
    ObjectIdentity(),
    GrowingContainer(),
    StructureChange(),
    ConstantArgument(),
    Recompile(),
)

RULES = RuleBook(breaks=BREAK_RULES, recompiles=RECOMPILE_RULES, recordings=RECORDING_RULES)
"""The rules to diagnose a recording by."""

ALL_RULES: dict[str, Rule] = dict(
    sorted((rule.code, rule) for rule in (*BREAK_RULES, *RECORDING_RULES, *RECOMPILE_RULES))
)
"""Every rule by its code, in order: the codes that findings have."""

GAP_PAGES: tuple[GapPage, ...] = (
    NotMeasured(),
    IncompleteLog(),
    PrefixedCompileIds(),
    ForeignLog(),
    NothingCompiled(),
    RankUnread(),
)

PAGES: dict[str, Page] = dict(sorted((page.code, page) for page in (*ALL_RULES.values(), *GAP_PAGES)))
"""The page of every code that a report can have, in order."""
