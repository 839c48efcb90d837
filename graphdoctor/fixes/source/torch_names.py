"""Names in torch that say what a value is: what returns one tensor, what takes a tensor, which
modules return one.

From the stubs and sources of 2.13: ``torch/_C/_VariableFunctions.pyi``, ``torch/_C/__init__.pyi``
(``TensorBase``), ``torch/nn/functional.py``. Lists only what returns one tensor under every
overload; anything else is unknown.
"""

from __future__ import annotations

import re

_BOOLEAN = """
    eq ge gt isclose isfinite isin isinf isnan isneginf isposinf isreal le less less_equal
    logical_and logical_not logical_or logical_xor lt ne not_equal greater greater_equal signbit
"""
_POINTWISE = """
    abs absolute acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and
    bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min clip copysign cos cosh deg2rad
    digamma div divide erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin
    fmod frac heaviside hypot lerp lgamma log log10 log1p log2 logaddexp logit maximum minimum mul
    multiply nan_to_num neg negative nextafter pow rad2deg reciprocal relu remainder round rsqrt sgn
    sigmoid sign sin sinc sinh softmax log_softmax sqrt square sub subtract tan tanh true_divide
    trunc xlogy
"""
_SHAPED = """
    addbmm addmm addmv addr all amax amin any argmax argmin argsort argwhere baddbmm bernoulli
    bincount bmm broadcast_to bucketize cdist clone conj count_nonzero cov cross cumprod cumsum det
    detach diag diag_embed diagonal diff dist dot flatten flip gather histc index_add index_copy
    index_fill index_select inner inverse isfinite kron logcumsumexp logdet logsumexp masked_fill
    masked_scatter masked_select matmul matrix_exp matrix_power mean mm movedim multinomial mv
    nanmean nansum narrow norm outer permute pinverse prod quantile ravel renorm repeat_interleave
    reshape roll rot90 scatter scatter_add select squeeze std sum swapaxes take take_along_dim tile
    trace transpose tril triu unflatten unsqueeze var vdot
"""
_FACTORIES = """
    arange as_tensor cat column_stack complex concat concatenate dstack empty empty_like eye
    from_numpy full full_like hstack linspace logspace normal ones ones_like outer rand rand_like
    randint randint_like randn randn_like randperm row_stack scalar_tensor stack tensor vstack zeros
    zeros_like einsum
"""
_FUNCTIONAL = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d alpha_dropout avg_pool1d avg_pool2d
    avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits celu conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity cross_entropy
    ctc_loss dropout dropout1d dropout2d dropout3d elu embedding fold gelu glu grid_sample
    group_norm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh huber_loss instance_norm
    interpolate kl_div l1_loss layer_norm leaky_relu linear log_softmax logsigmoid mish mse_loss
    nll_loss normalize one_hot pad pairwise_distance pixel_shuffle pixel_unshuffle prelu relu relu6
    rms_norm scaled_dot_product_attention selu sigmoid silu smooth_l1_loss softmax softmin softplus
    softshrink softsign tanh tanhshrink triplet_margin_loss unfold upsample
"""
_NUMBER_FIRST = """
    add sub subtract mul multiply div divide true_divide floor_divide pow float_power remainder fmod
    xlogy round bitwise_and bitwise_or bitwise_xor bitwise_not copysign
"""
_LINALG = (
    "det inv cond matrix_norm matrix_rank norm pinv solve vector_norm cholesky multi_dot eigvals"
    " eigvalsh svdvals"
)
_CASTS = """
    bfloat16 bool byte char contiguous cpu cuda double expand expand_as float half int long
    new_empty new_full new_ones new_tensor new_zeros repeat reshape_as requires_grad_ short to
    to_dense to_sparse type_as view view_as
"""
_IN_PLACE = """
    abs_ add_ clamp_ copy_ div_ exp_ fill_ masked_fill_ mul_ neg_ normal_ relu_ round_ scatter_
    sigmoid_ sqrt_ squeeze_ sub_ tanh_ uniform_ unsqueeze_ zero_ index_add_ index_copy_ index_fill_
"""
_ONLY_TENSORS = """
    unsqueeze abs detach sigmoid relu softmax log_softmax sin cos tanh exp sqrt rsqrt logsumexp
    masked_fill masked_fill_ contiguous bmm permute index_select index_add scatter_add type_as
    view_as expand_as new_zeros new_ones new_full new_tensor new_empty requires_grad_
    is_floating_point amax unsqueeze_ squeeze_ masked_select index_copy addmm baddbmm logical_not
    bernoulli detach_ zero_ copy_ clamp_min clamp_max narrow nan_to_num movedim
"""
_REDUCTIONS = (
    "sum mean std var max min amax amin any all argmax argmin cumsum cumprod norm softmax sort"
)
_REDUCED = "all amax amin any max mean median min norm prod std sum var"
_FRESH = """
    abs argmax argmin cat clamp clone cos count_nonzero cumsum dim div eq exp ge gelu gt isfinite
    isinf isnan item le log log_softmax lt masked_fill matmul mm mul ne neg numel ones ones_like pow
    relu rsqrt sigmoid sign sin size softmax sqrt square stack sub tanh tolist topk tril triu where
    zeros zeros_like
"""
_LAYERS = """
    Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyLinear
    LazyConv1d LazyConv2d LazyConv3d BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LayerNorm
    RMSNorm GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LocalResponseNorm Embedding
    EmbeddingBag ReLU ReLU6 LeakyReLU PReLU ELU CELU SELU GELU SiLU Mish Sigmoid Tanh Softmax
    LogSoftmax Softmin Softplus Softsign Hardswish Hardsigmoid Hardtanh Dropout Dropout1d Dropout2d
    Dropout3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d
    AdaptiveAvgPool3d Flatten Unflatten Upsample PixelShuffle CrossEntropyLoss MSELoss L1Loss
    NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss SmoothL1Loss HuberLoss
"""


def words(text: str, before: str = "") -> frozenset[str]:
    """Split a text into its words, with another text before each."""
    return frozenset(f"{before}{word}" for word in text.split())


_OF_FUNCTIONAL = words(_FUNCTIONAL, "torch.nn.functional.")

BOOLEAN_FUNCTIONS = words(_BOOLEAN, "torch.")
"""Functions that return a boolean tensor."""

TENSOR_FUNCTIONS = (
    words(_BOOLEAN + _POINTWISE + _SHAPED + _FACTORIES, "torch.")
    | words("dropout embedding layer_norm conv1d conv2d conv3d", "torch.")
    | words(_LINALG, "torch.linalg.")
    | _OF_FUNCTIONAL
)
"""Functions that return one tensor."""

TENSOR_TAKERS = (
    words(_POINTWISE, "torch.") - words(_NUMBER_FIRST, "torch.")
    | words(_SHAPED + "isnan isinf isfinite logical_not", "torch.")
    | _OF_FUNCTIONAL
)
"""Functions that fail unless their first argument is a tensor."""

BOOLEAN_METHODS = words(_BOOLEAN + "bool")
"""Tensor methods that return a boolean tensor. ``all`` and ``any`` return a scalar one, which isn't
a mask."""

ELEMENTWISE = words(_BOOLEAN + _POINTWISE + "gelu silu softplus leaky_relu elu mish") - words(
    "softmax log_softmax isin"
)
"""Functions and methods that compute each value by itself, and broadcast."""

ROWWISE_LAYERS = words(
    """
    Linear Bilinear LayerNorm RMSNorm Embedding Identity ReLU ReLU6 LeakyReLU PReLU ELU CELU SELU
    GELU SiLU Mish Sigmoid Tanh Softplus Softsign Hardswish Hardsigmoid Hardtanh GLU Sequential
    ModuleList ModuleDict Parameter
    """,
    "torch.nn.",
)
"""Modules that compute each row by itself: the last dim of what they are given."""

INTEGER_METHODS = words("long int short argmax argmin argsort count_nonzero")
"""Tensor methods that return integers."""

TENSOR_METHODS = words(_BOOLEAN + _POINTWISE + _SHAPED + _CASTS + _IN_PLACE)
"""Tensor methods that return one tensor."""

ONLY_TENSOR_METHODS = words(_ONLY_TENSORS)
"""Methods of tensors that NumPy, pandas and Python don't have: whatever has them is a tensor."""

TUPLE_METHODS = words("chunk split unbind sort topk tensor_split")
"""Methods and functions that return several tensors."""

REDUCTIONS = words(_REDUCTIONS)
"""Methods of tensors that take ``dim``, where NumPy's arrays take ``axis``."""

TENSOR_RESULTS = frozenset(("torch.nn.utils.clip_grad_norm_",))
"""Functions of other modules that return one tensor."""

LAYERS = words(_LAYERS, "torch.nn.")
"""Modules that take a tensor and return one."""

RECURRENT = words("RNN GRU LSTM", "torch.nn.")
"""Modules that torch doesn't trace; it does trace their cells."""

TENSOR_TYPES = words("Tensor FloatTensor LongTensor nn.Parameter", "torch.")
"""Annotations for a tensor."""

LOCKS = words("Lock RLock Condition Semaphore BoundedSemaphore", "threading.")
"""Locks in the standard library."""

REDUCED = words(_REDUCED)
"""Methods of tensors that return one zero-dim tensor if they are called without arguments."""

FRESH = REDUCED | words(_FRESH)
"""Functions and methods whose results share no memory with what they are given."""


_DRAWS = re.compile(
    r"(rand(n|int|perm|om)?(_like)?|bernoulli|multinomial|(log_)?normal|poisson|uniform|beta|choices?"
    r"|shuffle|r?sample|gumbel_softmax|exponential|geometric|cauchy|(manual_)?seed|.*drop.*)_?",
    re.IGNORECASE,
)


def draws_random(name: str) -> bool:
    """Tell by a function's, method's or layer's name if a call draws random numbers."""
    return _DRAWS.fullmatch(name) is not None
