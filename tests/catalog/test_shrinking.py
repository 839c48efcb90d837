"""Rules make hand-built configurations small without breaking what holds between their values."""

from __future__ import annotations

from typing import Any

import pytest

from graphdoctor.catalog.transformers_settings import (
    LARGEST_VOCABULARY,
    STRENGTHS,
    Settings,
    configured,
    shrunk,
)
from tests.each import for_each

SMALLEST = STRENGTHS[0]

DECODER = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 8192,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128009],
    "pad_token_id": None,
    "rms_norm_eps": 1e-5,
    "attention_bias": False,
    "hidden_act": "silu",
}


def small(values: dict[str, Any], **parts: Settings) -> dict[str, Any]:
    """A configuration after the strongest shrinking."""
    return {**values, **shrunk(Settings(values, parts), SMALLEST)}


def test_heads_still_fill_the_hidden_size_and_share_keys():
    new = small(DECODER)
    assert new["num_attention_heads"] * new["head_dim"] == new["hidden_size"] < 256
    assert new["num_attention_heads"] % new["num_key_value_heads"] == 0
    assert new["num_attention_heads"] // new["num_key_value_heads"] == 4
    assert new["num_hidden_layers"] == 2


def test_a_width_that_two_configurations_share_stays_shared():
    vision = {
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "out_hidden_size": 4096,
        "image_size": 336,
        "patch_size": 14,
    }
    parts = {"vision_config": Settings(vision), "text_config": Settings(DECODER)}
    changes = shrunk(Settings({"image_token_id": 128010}, parts), SMALLEST)
    assert changes["vision_config"]["out_hidden_size"] == changes["text_config"]["hidden_size"]
    assert changes["vision_config"]["image_size"] == 4 * vision["patch_size"]
    assert changes["image_token_id"] < LARGEST_VOCABULARY


def test_special_tokens_stay_apart_and_inside_the_vocabulary():
    new = small(DECODER)
    tokens = [new["bos_token_id"], *new["eos_token_id"]]
    assert new["vocab_size"] == LARGEST_VOCABULARY
    assert len(set(tokens)) == 3
    assert all(0 <= token < LARGEST_VOCABULARY for token in tokens)
    assert new["pad_token_id"] is None


UNCHANGED: dict[str, dict[str, Any]] = {
    "a small vocabulary": {"vocab_size": 33, "mask_token_id": 32, "type_vocab_size": 2},
    "names that only sound like widths": {
        **{
            "patch_size": 16,
            "kernel_size": 31,
            "num_mel_bins": 128,
            "num_channels": 3,
            "window_size": 14,
        },
        **{"hidden_dropout": 0.1, "use_cache": True},
    },
    "a small model": {
        **{
            "hidden_size": 16,
            "num_attention_heads": 2,
            "num_hidden_layers": 2,
            "intermediate_size": 8,
        },
        **{"vocab_size": 99},
    },
}
CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one layer of each kind stays": (
        {
            "num_hidden_layers": 48,
            "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12,
            "mlp_layer_types": ["dense"] + ["sparse"] * 47,
        },
        {
            "num_hidden_layers": 3,
            "layer_types": ["linear_attention", "linear_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
        },
    ),
    "stages stay and become shallow": (
        {
            "depths": [3, 4, 18, 3],
            "hidden_sizes": [256, 512, 1024, 2048],
            "num_layers": 4,
            "strides": [4, 2, 2, 2],
        },
        {
            "depths": [2, 2, 2, 2],
            "hidden_sizes": [16, 32, 64, 128],
            "num_layers": 4,
            "strides": [4, 2, 2, 2],
        },
    ),
    "experts are few and their groups one": (
        {
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "n_group": 8,
            "topk_group": 4,
            "n_shared_experts": 1,
        },
        {
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "n_shared_experts": 1,
        },
    ),
}


def test_only_what_is_large_becomes_small():
    assert {case: small(values) for case, values in UNCHANGED.items()} == UNCHANGED
    assert {case: small(values) for case, (values, _) in CHANGED.items()} == {
        case: expected for case, (_, expected) in CHANGED.items()
    }


@for_each(
    "indices, expected",
    [
        ([6, 12, 18, 24], [1, 2, 3, 4]),
        ([5, 11, 17, 23], [0, 1, 2, 3]),
        ([24], [2]),
        ([7, 7, 23], [0, 1]),
    ],
)
def test_layers_that_others_refer_to_are_there(indices, expected):
    new = small({"num_hidden_layers": 24, "out_indices": indices})
    assert new["out_indices"] == expected
    assert new["num_hidden_layers"] == max(2, len(set(indices)))


def test_sections_of_a_rotary_embedding_follow_the_heads():
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    new = small(
        {
            "hidden_size": 8192,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "rope_parameters": rope,
        }
    )
    head = new["hidden_size"] // new["num_attention_heads"]
    assert 2 * sum(new["rope_parameters"]["mrope_section"]) == head
    assert new["rope_parameters"]["rope_theta"] == 1e6


def test_what_is_computed_from_others_is_left_to_be_computed():
    settings = Settings({**DECODER, "head_dim": 128}, computed=frozenset({"head_dim"}))
    assert "head_dim" not in shrunk(settings, SMALLEST)


def test_part_of_any_class_says_which_it_is():
    parts = {
        "text_config": Settings({"num_hidden_layers": 12}, model_type="bert"),
        "vision_config": Settings({}),
    }
    assert shrunk(Settings({}, parts), SMALLEST) == {
        "text_config": {"model_type": "bert", "num_hidden_layers": 2}
    }


def test_the_weakest_takes_layers_alone():
    assert shrunk(Settings(DECODER), STRENGTHS[-1]) == {"num_hidden_layers": 2}


@for_each("strength", STRENGTHS)
def test_every_strength_takes_any_settings(strength):
    assert shrunk(Settings({}), strength) == {}
    assert (
        shrunk(
            Settings(
                {"num_hidden_layers": None, "depths": [], "num_heads": [], "hidden_size": "auto"}
            ),
            strength,
        )
        == {}
    )


def test_heads_can_keep_their_channels():
    strength = next(strength for strength in STRENGTHS if strength.heads)
    values = {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
    }
    new = {**values, **shrunk(Settings(values), strength)}
    assert new == {
        "hidden_size": 256,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 128,
    }


def test_configuration_of_any_parts_gets_some():
    transformers = pytest.importorskip("transformers")
    whole = configured(transformers.SpeechEncoderDecoderConfig)
    made = eval(whole.source(shrunk(whole, STRENGTHS[0])), vars(transformers))
    assert (made.encoder.model_type, made.decoder.model_type) == ("wav2vec2", "bert")
    assert made.decoder.add_cross_attention
    assert made.encoder.hidden_size == made.decoder.hidden_size < 64
