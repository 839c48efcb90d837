"""The parts of a graph that torch split at DDP's buckets, from what it printed."""

from graphdoctor.trace.intake import SeenSplit
from graphdoctor.trace.printed_graph import split_of

WHOLE = """class GraphModule(torch.nn.Module):
    def forward(self, L_self_modules_first_parameters_weight_: "f32[8, 4]", L_x_: "f32[s0, 4]", L_self_b_: "f32[8]"):
        l_x_ = L_x_

        # No stacktrace found for following nodes
        submod_0 = self.submod_0(l_x_, l_self_modules_first_parameters_weight_)
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return (submod_1,)
"""
FIRST = """class GraphModule(torch.nn.Module):
    def forward(self, l_x_: "f32[s0, 4]", l_self_modules_first_parameters_weight_: "f32[8, 4]"):
        # File: /project/train.py:9 in forward, code: return self.last(self.first(x).relu())
        linear: "f32[s0, 8]" = torch._C._nn.linear(l_x_, l_self_modules_first_parameters_weight_);  l_x_ = None
        relu: "f32[s0, 8]" = linear.relu();  linear = None
        return relu
"""
SECOND = """class GraphModule(torch.nn.Module):
    def forward(self, relu: "f32[s0, 8]"):
        getitem: "f32[8]" = relu[0];  relu = None
        return getitem
"""


def seen(*parts):
    return SeenSplit(
        "4/0", WHOLE, [(f"submod_{number}", part) for number, part in enumerate(parts)]
    )


def test_inputs_from_outside_are_parameters_or_not_and_others_cross():
    names = {"l_self_modules_first_parameters_weight_": "self.first.weight"}
    split = split_of(seen(FIRST, SECOND), names)
    assert [bucket.parameters for bucket in split.buckets] == [("self.first.weight",), ()]
    assert [bucket.parameter_bytes for bucket in split.buckets] == [128, 0]
    assert [bucket.op_count for bucket in split.buckets] == [2, 1]
    assert split.parameter_bytes == 128


def test_checkpoint_body_is_no_part_but_one_operation():
    body = "\n    class wrap_body_0(torch.nn.Module):\n" + FIRST.partition("\n")[2].replace(
        "\n", "\n    "
    )
    split = split_of(
        SeenSplit("4/0", WHOLE, [("wrap_body_0", FIRST), ("submod_0", SECOND + body)]), {}
    )
    assert [(bucket.name, bucket.op_count) for bucket in split.buckets] == [("submod_0", 1)]


def test_a_dynamic_size_leaves_the_bytes_unknown():
    split = split_of(seen(FIRST, SECOND), {})
    assert (split.crossing_count, split.crossing_bytes) == (1, None)
