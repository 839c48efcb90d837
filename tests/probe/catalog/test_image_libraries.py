"""timm's and torchvision's catalogs, where these are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphdoctor.trials.launch.child import Setup

pytest.importorskip("torch")

_FAMILIES = {
    "timm": {"resnet": "image", "vision_transformer": "image"},
    "torchvision": {"alexnet": "classification", "detection.retinanet": "detection", "video.resnet": "video"},
}


@pytest.mark.slow
@pytest.mark.parametrize(("library", "architecture"), [("timm", "tnt"), ("torchvision", "segmentation.lraspp")])
def test_the_smallest_model_of_a_module_is_written_without_weights(
    library: str, architecture: str, tmp_path: Path
) -> None:
    pytest.importorskip(library)
    from graphdoctor.facts.catalog import Program
    from graphdoctor.trials.launch.catalog import architectures, write_program

    catalog = architectures(library, Setup(python=sys.executable, timeout_s=120))
    found = {each.name: each.family for each in catalog.architectures}
    assert found.items() >= _FAMILIES[library].items()
    assert not [name for name in found if name.startswith("quantization")]
    written = write_program(library, architecture, tmp_path, Setup(python=sys.executable, timeout_s=300))
    assert isinstance(written, Program)
    names: dict[str, object] = {"__name__": "program"}
    source = Path(written.path).read_text()
    exec(compile(source, written.path, "exec"), names)
    assert "pretrained=False" in source or "weights=None" in source
    model, inputs = names["build"](), names["example_inputs"]()  # type: ignore[operator]
    assert not model.training
    assert model(*inputs) is not None
