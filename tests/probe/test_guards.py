"""What recompiles and graphs take for the user's code."""

from __future__ import annotations

from pathlib import Path

import torch

from graphdoctor.probe import guards
from graphdoctor.probe.guards import user_file_test


def test_a_package_whose_name_begins_with_torch_is_no_part_of_torch() -> None:
    is_user_file = user_file_test()
    beside = Path(torch.__file__).resolve().parent.parent

    assert is_user_file(str(beside / "torchvision" / "models" / "resnet.py"))
    assert not is_user_file(str(beside / "torch" / "nn" / "modules" / "linear.py"))
    assert not is_user_file(guards.__file__)
    assert not is_user_file("<eval_with_key>.3")
