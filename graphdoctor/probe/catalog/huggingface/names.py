"""Which model types transformers has, with the class and the family of each, from its own tables of names."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

configuration_auto: Any = importlib.import_module("transformers.models.auto.configuration_auto")
modeling_auto: Any = importlib.import_module("transformers.models.auto.modeling_auto")

_BASE = "MODEL_MAPPING_NAMES"
_MOST_CLASSES = 3

_HEADS = ("MODEL_FOR_", "_MAPPING_NAMES")


def model_types() -> list[str]:
    """All that have a model class."""
    tables = _tables()
    return [name for name in configuration_auto.CONFIG_MAPPING_NAMES if any(name in table for table in tables.values())]


def classes(name: str) -> Iterator[tuple[Any, Any]]:
    """The classes of a model type, each with its configuration's: the base model, then the most usual heads."""
    import transformers

    mapped = configuration_auto.CONFIG_MAPPING[name]
    found: dict[str, Any] = {}
    for table in _tables().values():
        # Two are given where which one fits depends on the checkpoint.
        listed = table.get(name, ())
        for class_name in [listed] if isinstance(listed, str) else listed[:1]:
            found.setdefault(class_name, getattr(transformers, class_name, None))
    usable = [item for item in found.values() if item is not None and _can_be_called(item)]
    if not usable:
        raise TypeError(f"no forward() in {', '.join(found)}")
    for model_class in usable[:_MOST_CLASSES]:
        yield model_class, mapped
        # Some base models are made of a part of the configuration.
        own = getattr(model_class, "config_class", None)
        if own is not None and own is not mapped:
            yield model_class, own


def _can_be_called(model_class: Any) -> bool:  # noqa: ANN401
    """Whether it has a ``forward`` of its own; some can only generate."""
    return bool(model_class.forward.__name__ != "_forward_unimplemented")


def _tables() -> dict[str, dict[str, Any]]:
    """The table of base models, then those of the heads, the largest first: a head that many have is a usual one."""
    heads = {
        name: table
        for name, table in vars(modeling_auto).items()
        if name.startswith(_HEADS[0]) and name.endswith(_HEADS[1])
    }
    by_size = sorted(heads.items(), key=lambda item: -len(item[1]))
    return {_BASE: getattr(modeling_auto, _BASE), **dict(by_size)}


def family(name: str) -> str:
    """What a model type is about: by the tasks that it has heads for, its processors, or what it is part of."""
    kinds = _kinds_by_task(name) or _kinds_by_processor(name) or _kinds_by_place(name)
    if len(kinds) > 1:
        # A video is images: what takes both and nothing else is for video.
        return "video" if kinds == {"vision", "video"} else "multimodal"
    return next(iter(kinds), "other")


_TASKS = {
    "text": ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SEQUENCE_CLASSIFICATION", "TEXT_ENCODING"),
    "vision": (
        "IMAGE_CLASSIFICATION",
        "OBJECT_DETECTION",
        "SEMANTIC_SEGMENTATION",
        "UNIVERSAL_SEGMENTATION",
        "INSTANCE_SEGMENTATION",
        "DEPTH_ESTIMATION",
        "IMAGE_MATTING",
        "KEYPOINT_DETECTION",
        "KEYPOINT_MATCHING",
        "POSE_ESTIMATION",
        "BACKBONE",
        "MASK_GENERATION",
        "IMAGE_TO_IMAGE",
        "IMAGE",
        "TEXT_RECOGNITION",
        "TABLE_RECOGNITION",
    ),
    "audio": (
        "AUDIO_CLASSIFICATION",
        "CTC",
        "RNNT",
        "TDT",
        "SPEECH_SEQ_2_SEQ",
        "TEXT_TO_WAVEFORM",
        "TEXT_TO_SPECTROGRAM",
    ),
    "video": ("VIDEO_CLASSIFICATION",),
    "multimodal": ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "VISUAL_QUESTION_ANSWERING", "DOCUMENT_QUESTION_ANSWERING"),
}


_PROCESSORS = {
    "text": "tokenization_auto.TOKENIZER_MAPPING_NAMES",
    "vision": "image_processing_auto.IMAGE_PROCESSOR_MAPPING_NAMES",
    "audio": "feature_extraction_auto.FEATURE_EXTRACTOR_MAPPING_NAMES",
    "video": "video_processing_auto.VIDEO_PROCESSOR_MAPPING_NAMES",
    "multimodal": "processing_auto.PROCESSOR_MAPPING_NAMES",
}

_PLACES = {
    "text": ("text", "decoder"),
    "vision": ("vision", "image"),
    "audio": ("audio", "speech"),
    "video": ("video",),
}
"""What the settings of composite configurations are called that hold a part."""


def _kinds_by_task(name: str) -> set[str]:
    tables = _tables()
    return {
        kind
        for kind, tasks in _TASKS.items()
        if any(name in tables.get(f"MODEL_FOR_{task}_MAPPING_NAMES", {}) for task in tasks)
    }


def _kinds_by_processor(name: str) -> set[str]:
    found = set()
    for kind, place in _PROCESSORS.items():
        module, _, table = place.partition(".")
        with contextlib.suppress(ImportError):  # not every version has all of them
            if name in getattr(importlib.import_module(f"transformers.models.auto.{module}"), table, {}):
                found.add(kind)
    return {"multimodal"} if "multimodal" in found else found


def _kinds_by_place(name: str) -> set[str]:
    try:
        place = str(configuration_auto.CONFIG_MAPPING[name].base_config_key)
    except Exception:  # noqa: BLE001 - transformers can't import it, which is for its program to say
        return set()
    return {kind for kind, words in _PLACES.items() if any(word in place for word in words)}
