"""diffusers' catalog, where it is installed: smaller configurations, and inputs after what a model
says."""

from __future__ import annotations

import importlib.util

import pytest

from tests.catalog.written import families, loaded, written

# Not imported here: that takes seconds, in each process that has tests to choose from.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("diffusers") is None, reason="needs diffusers"
)


@pytest.mark.slow
def test_autoencoder_and_packed_image_transformer_are_written(tmp_path):
    family_of = families("diffusers")
    assert family_of["UNet2DConditionModel"] == "unets"
    assert family_of["FluxTransformer2DModel"] == "transformers"
    assert family_of["AutoencoderKL"] == "autoencoders"
    assert family_of["ControlNetModel"] == "controlnets"
    assert "ModelMixin" not in family_of
    for name in ("AutoencoderKL", "FluxTransformer2DModel"):
        _, model, inputs = written("diffusers", name, tmp_path)
        assert model(**inputs) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ZImageTransformer2DModel", "x = [torch.randn("),
        ("WanVACETransformer3DModel", "vace_layers=[0]"),
        ("Kandinsky5Transformer3DModel", "hidden_states = torch.randn(1, 5, 16, 16, "),
        ("TransformerTemporalModel", "norm_num_groups=2"),
    ],
    ids=["list of samples", "fewer chosen layers", "channels last", "smaller groups"],
)
def test_model_with_special_inputs_is_written(name, said):
    from graphdoctor.catalog import diffusers as catalog
    from graphdoctor.catalog.search import find_program

    program, _ = find_program(catalog.LIBRARY, name, '"""A program.', memory_bytes=None)
    assert said in program
    model, inputs = loaded(program)
    assert model(**inputs) is not None


@pytest.mark.slow
def test_configuration_has_few_layers_and_widths_that_fit_heads():
    from graphdoctor.catalog import diffusers as catalog

    class Net:
        def __init__(
            self,
            num_layers: int = 24,
            num_attention_heads: int = 16,
            attention_head_dim: int = 72,
            cross_attention_dim: int = 1152,
            block_out_channels: tuple[int, ...] = (128, 512),
            use_bias: bool = True,
            class_count: int | None = None,
        ):
            pass

    assert next(catalog._configurations(Net)) == {
        "num_layers": 1,
        "num_attention_heads": 2,
        "cross_attention_dim": 144,
        "block_out_channels": (32, 32),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "right"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (8x37 and 64x128)", ("text", 64)),
        (
            "Given groups=1, expected input[1, 4, 8, 8] to have 3 channels, but got 4 channels instead",
            ("image", 3),
        ),
        (
            "Given normalized_shape=[64], expected input with shape [*, 64], but got input of size[1, 8, 37]",
            ("text", 64),
        ),
        ("mat1 and mat2 shapes cannot be multiplied (1280x100 and 20x32)", None),
        ("mat1 and mat2 shapes cannot be multiplied (1280x16 and 64x32)", ("image", 16)),
        ("The size of tensor a (8) must match the size of tensor b (77)", None),
        (
            "The size of tensor a (37) must match the size of tensor b (32) at non-singleton dimension 1",
            ("text", 32),
        ),
    ],
)
def test_what_a_model_says_of_a_width_corrects_it(message, right):
    from graphdoctor.catalog import diffusers as catalog

    assert catalog._right_width(message, {"image": 4, "text": 37, "tokens": 8}) == right
