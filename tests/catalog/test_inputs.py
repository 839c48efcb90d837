"""Inputs come from a model's arguments and settings, and from what it says is wrong with them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from graphdoctor.catalog.transformers_inputs import candidates


class Config(SimpleNamespace):
    model_type = "made-up"

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


class TextAndImages:
    main_input_name = "input_ids"
    config = Config(
        image_token_id=255,
        text_config=Config(vocab_size=256, hidden_size=64, eos_token_id=2, pad_token_id=0),
        vision_config=Config(image_size=56, patch_size=14, num_channels=3),
    )

    def forward(
        self,
        input_ids=None,
        pixel_values=None,
        attention_mask=None,
        inputs_embeds=None,
        extra_mask=None,
    ):
        """What it takes."""


def test_images_come_with_as_many_tokens_as_the_model_says():
    trying = candidates(TextAndImages())
    first = next(trying)
    assert "torch.randn(2, 3, 56, 56)" in first.body
    assert "input_ids[placeholders] = 255" in first.body
    # Ordinary ids are no special tokens.
    low, high = map(int, re.search(r"randint\((\d+), (\d+),", first.body).groups())
    assert 2 < low < high <= 255
    second = trying.send(
        ValueError("Image features and image tokens do not match, tokens: 8, features: 32")
    )
    assert "placeholders[:, 1:17] = True" in second.body
    assert second.notes == ("It is called with text and images.",)


def test_an_error_names_a_size_or_an_argument_that_is_missing():
    def fails(extra_mask=None):
        extra_mask.sum()

    sizes = "expected input[2, 3, 56, 56] to have 1 channels, but got 3 channels instead"
    with pytest.raises(AttributeError) as caught:
        fails()
    for error, expected in (
        (caught.value, '"extra_mask"'),
        (RuntimeError(sizes), "torch.randn(2, 1, 56, 56)"),
    ):
        trying = candidates(TextAndImages())
        next(trying)
        assert expected in trying.send(error).body


def test_the_last_resort_is_what_the_model_requires():
    class Sparse:
        main_input_name = "states"
        config = Config(hidden_size=32)

        def forward(self, states, option=None):
            """What it takes."""

    trying = candidates(Sparse())
    attempts = [next(trying)]
    with pytest.raises(StopIteration):
        while True:
            attempts.append(trying.send(RuntimeError("no")))
    assert all('"states"' in inputs.body for inputs in attempts)
    assert len({inputs.body for inputs in attempts}) == len(attempts)
