"""Compiles classes of installed packages and calls each once, for ``graphdoctor run``, which sees
where torch breaks.

python compiled_classes.py PACKAGE RESULT: RESULT gets, for each class in ``CALLS`` of the package,
why it couldn't be called, or null.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

Call = Callable[[Any], object]
"""Takes the class, its ``forward`` compiled, and makes one call."""

_EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
_BATCH = torch.zeros(6, dtype=torch.long)


def _re_net(cls: Any) -> object:
    data: dict[str, torch.Tensor] = {name: torch.tensor([0, 1]) for name in ("sub", "rel", "obj")}
    for name in ("sub", "obj"):
        data |= {f"h_{name}": torch.tensor([0, 1, 2]), f"h_{name}_t": torch.tensor([0, 1, 0])}
        data[f"h_{name}_batch"] = torch.tensor([0, 0, 1])
    from torch_geometric.data import Data

    return cls(4, 3, 8, 2)(Data(**data))


TORCH_GEOMETRIC: dict[str, Call] = {
    "nn.aggr.equilibrium:EquilibriumAggregation": lambda cls: cls(8, 4, [8], grad_iter=1)(
        torch.randn(6, 8), _BATCH
    ),
    "nn.aggr.equilibrium:MomentumOptimizer": lambda cls: cls()(
        torch.randn(2),
        torch.randn(2, requires_grad=True),
        None,
        None,
        lambda x, y, _i, _n: (x * y).sum(),
        1,
    ),
    "nn.aggr.gru:GRUAggregation": lambda cls: cls(8, 8)(torch.randn(6, 8), _BATCH),
    "nn.aggr.lstm:LSTMAggregation": lambda cls: cls(8, 8)(torch.randn(6, 8), _BATCH),
    "nn.aggr.quantile:QuantileAggregation": lambda cls: cls(0.5)(torch.randn(6, 8), _BATCH),
    "nn.aggr.set2set:Set2Set": lambda cls: cls(8, 2)(torch.randn(6, 8), _BATCH),
    "nn.conv.wl_conv:WLConv": lambda cls: cls()(torch.tensor([0, 0, 1, 1, 0, 1]), _EDGES),
    "nn.models.graph_mixer:NodeEncoder": lambda cls: cls(5)(
        torch.randn(6, 8), _EDGES, torch.arange(8), torch.full((6,), 6)
    ),
    "nn.models.graph_mixer:LinkEncoder": lambda cls: cls(3, 4, 8, 8, 8)(
        _EDGES, torch.randn(8, 4), torch.arange(8.0), torch.full((6,), 6.0)
    ),
    "nn.models.re_net:RENet": _re_net,
    "nn.models.visnet:NeighborEmbedding": lambda cls: cls(8, 4, 5.0)(
        torch.arange(6), torch.randn(6, 8), _EDGES, torch.rand(8), torch.randn(8, 4)
    ),
    "nn.pool.asap:ASAPooling": lambda cls: cls(8)(torch.randn(6, 8), _EDGES),
    "nn.pool.cluster_pool:ClusterPooling": lambda cls: cls(8)(torch.randn(6, 8), _EDGES, _BATCH),
    "nn.pool.edge_pool:EdgePooling": lambda cls: cls(8)(torch.randn(6, 8), _EDGES, _BATCH),
}

_ROUTED = torch.tensor([[0, 1], [1, 0], [0, 1], [1, 1]])
_WEIGHTS = torch.full((4, 2), 0.5)


def _experts(cls: Any, **config: Any) -> object:
    """Calls a mixture of two experts of width 8 with four tokens."""
    experts = cls(SimpleNamespace(hidden_size=8, **config))
    torch.nn.init.ones_(next(experts.parameters()))
    return experts(torch.randn(4, 8), _ROUTED, _WEIGHTS)


def _masked_embedder(cls: Any) -> object:
    text = SimpleNamespace(hidden_size=8, vocab_size=16)
    config = SimpleNamespace(
        get_text_config=lambda: text,
        text_config=text,
        num_centroids=4,
        centroid_intermediate_top_k=2,
    )
    embedder = cls(config)
    embedder.token_ordering.copy_(torch.arange(16))
    return embedder(torch.randn(1, 3, 8), torch.randn(16, 8))


def _siglip(cls: Any) -> object:
    from transformers import Siglip2VisionConfig

    config = Siglip2VisionConfig(hidden_size=8, num_patches=16, patch_size=2, num_channels=3)
    return cls(config)(torch.randn(1, 16, 12), torch.tensor([[4, 4]]))


def _super_point(cls: Any) -> object:
    from transformers import SuperPointConfig

    config = SuperPointConfig(encoder_hidden_sizes=[8, 8], decoder_hidden_size=8)
    return cls(config)(torch.randn(1, 8, 4, 4))


def _nllb(cls: Any) -> object:
    from transformers import NllbMoeConfig

    experts = cls(NllbMoeConfig(d_model=8, num_experts=2), 8)
    return experts(torch.randn(4, 8), _ROUTED, _WEIGHTS)


def _switch(cls: Any) -> object:
    from transformers import SwitchTransformersConfig

    experts = cls(SwitchTransformersConfig(d_model=8, d_ff=8, num_experts=2))
    chosen = torch.nn.functional.one_hot(_ROUTED[:, :1], 2)
    return experts(torch.randn(4, 8), chosen, _WEIGHTS[:, :1])


def _one_former(cls: Any) -> object:
    from transformers import OneFormerConfig

    config = OneFormerConfig(hidden_dim=8, num_attention_heads=2, dim_feedforward=8)
    layer = cls(config)
    features = [torch.randn(5, 1, 8)] * 3
    return layer(
        0,
        torch.randn(3, 1, 8),
        features,
        features,
        torch.zeros(2, 3, 5, dtype=torch.bool),
        torch.randn(3, 1, 8),
    )


TRANSFORMERS: dict[str, Call] = {
    "models.cosmos3_edge.modeling_cosmos3_edge:Cosmos3EdgeVisionEmbeddings": lambda cls: cls(
        SimpleNamespace(
            hidden_size=8, num_channels=3, patch_size=2, num_patches=16, spatial_merge_size=2
        )
    )(torch.randn(16, 12), torch.tensor([[1, 4, 4]])),
    "models.dbrx.modeling_dbrx:DbrxExperts": lambda cls: _experts(
        cls, ffn_hidden_size=8, moe_num_experts=2, ffn_act_fn={"name": "silu"}
    ),
    "models.encodec.modeling_encodec:EncodecLSTM": lambda cls: cls(
        SimpleNamespace(num_lstm_layers=1), 8
    )(torch.randn(1, 8, 5)),
    "models.gemma4_assistant.modeling_gemma4_assistant:Gemma4AssistantMaskedEmbedder": (
        _masked_embedder
    ),
    "models.gemma4_unified_assistant.modeling_gemma4_unified_assistant:Gemma4UnifiedAssistantMaskedEmbedder": (  # noqa: E501
        _masked_embedder
    ),
    "models.nllb_moe.modeling_nllb_moe:NllbMoeExperts": _nllb,
    "models.oneformer.modeling_oneformer:OneFormerTransformerDecoderLayer": _one_former,
    "models.paddleocr_vl.modeling_paddleocr_vl:PaddleOCRProjector": lambda cls: cls(
        SimpleNamespace(
            vision_config=SimpleNamespace(spatial_merge_size=2, hidden_size=8),
            text_config=SimpleNamespace(hidden_size=8),
        )
    )(torch.randn(16, 8), torch.tensor([[1, 4, 4]])),
    "models.siglip2.modeling_siglip2:Siglip2VisionEmbeddings": _siglip,
    "models.speecht5.modeling_speecht5:SpeechT5GuidedMultiheadAttentionLoss": lambda cls: cls(
        SimpleNamespace(guided_attention_loss_sigma=0.4, guided_attention_loss_scale=10.0)
    )(
        torch.rand(2, 2, 4, 3),
        torch.ones(2, 3, dtype=torch.bool),
        torch.ones(2, 4, dtype=torch.bool),
    ),
    "models.speecht5.modeling_speecht5:SpeechT5SpectrogramLoss": lambda cls: cls(
        SimpleNamespace(
            use_guided_attention_loss=False, guided_attention_loss_num_heads=2, reduction_factor=1
        )
    )(None, *torch.randn(2, 2, 4, 5), torch.randn(2, 4), torch.randn(2, 4, 5)),
    "models.step3p7.modeling_step3p7:Step3p7Experts": lambda cls: _experts(
        cls, num_local_experts=2, moe_intermediate_size=8, hidden_act="silu"
    ),
    "models.superpoint.modeling_superpoint:SuperPointInterestPointDecoder": _super_point,
    "models.switch_transformers.modeling_switch_transformers:SwitchTransformersExperts": _switch,
}

CALLS = {"torch_geometric": TORCH_GEOMETRIC, "transformers": TRANSFORMERS}


def compiled_and_called(package: str, name: str, call: Call) -> str | None:
    """Why a class couldn't be called; None if it could."""
    module, _, class_name = name.partition(":")
    torch._dynamo.reset()
    try:
        cls = getattr(importlib.import_module(f"{package}.{module}"), class_name)
        cls.forward = torch.compile(cls.forward, backend="eager")
        call(cls)
    except Exception as error:  # noqa: BLE001 - whatever a package raises is none of the others' business
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None


if __name__ == "__main__":
    package = sys.argv[1]
    results = {
        name: compiled_and_called(package, name, call) for name, call in CALLS[package].items()
    }
    Path(sys.argv[2]).write_text(json.dumps(results, indent=1))
