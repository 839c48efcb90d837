"""Questions whether torch.compile is at work, answered in eager mode as compiled code has them."""

import pytest

torch = pytest.importorskip("torch")

from torch.compiler import is_compiling

from graphdoctor.probe.torch_private.torch_questions import answered_as_compiled

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated")


def answers():
    return {
        "is_compiling": torch.compiler.is_compiling(),
        "early bound": is_compiling(),
        "is_dynamo_compiling": torch.compiler.is_dynamo_compiling(),
        "is_exporting": torch.compiler.is_exporting(),
        "torch._dynamo": torch._dynamo.is_compiling(),
        "torch._utils": torch._utils.is_compiling(),
        "is_tracing": torch.jit.is_tracing(),
        "is_scripting": torch.jit.is_scripting(),
    }


def test_answers_are_those_of_compiled_code_and_then_eager_modes_again():
    before = answers()

    def asking(x):
        return x + 1, answers()

    _, compiled = torch.compile(asking, backend="eager")(torch.ones(2))
    with answered_as_compiled():
        assert answers() == compiled
    assert compiled != before
    assert answers() == before


def test_torch_itself_goes_on_as_it_is():
    own = {"__name__": "torch.nn.some", "is_compiling": is_compiling}
    exec("def ask():\n    return is_compiling()", own)
    with answered_as_compiled():
        assert not own["ask"]()
        assert is_compiling()


def test_answers_are_put_back_after_an_error():
    with pytest.raises(ValueError, match="of the program"), answered_as_compiled():
        raise ValueError("of the program")
    assert not is_compiling()
