"""timm's and torchvision's catalogs, where these are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalog.written import families, written

pytest.importorskip("torch")

_FAMILIES = {
    "timm": {"resnet": "image", "vision_transformer": "image"},
    "torchvision": {
        "alexnet": "classification",
        "detection.retinanet": "detection",
        "video.resnet": "video",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "architecture"), [("timm", "tnt"), ("torchvision", "segmentation.lraspp")]
)
def test_the_smallest_model_of_a_module_is_written_without_weights(library, architecture, tmp_path):
    pytest.importorskip(library)
    family_of = families(library)
    assert family_of.items() >= _FAMILIES[library].items()
    assert not [name for name in family_of if name.startswith("quantization")]
    program, model, inputs = written(library, architecture, tmp_path)
    source = Path(program.path).read_text()
    assert "pretrained=False" in source or "weights=None" in source
    assert not model.training
    assert model(*inputs) is not None
