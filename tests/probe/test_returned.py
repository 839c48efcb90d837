"""What is noted of the values that functions return."""

import numpy as np

from graphdoctor.probe.replay.returned import Returns


def of_program() -> np.dtype:
    return np.result_type(np.float32, 1.0)


def test_only_the_programs_functions_are_noted() -> None:
    returns = Returns()
    with returns.noted():
        of_program()
    assert [name.rpartition(":")[2] for name in returns.relied_on()] == ["of_program"]
