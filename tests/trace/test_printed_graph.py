"""A printed graph to its nodes: torch's own forms, text of any kind, and graphs that torch prints
on the spot."""

from __future__ import annotations

import math
import operator
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.facts.picture import StageNode
from graphdoctor.trace.printed_graph import PrintedGraph, parse_graph, short_target
from tests.each import for_each
from tests.sections import texts_beside

HEAD = 'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[8, 8][8, 1]cpu", y):\n'
(JOINT,) = texts_beside(__file__)


def parse(*lines: str) -> PrintedGraph:
    """A graph of two arguments, ``x`` and ``y``, with these lines as its body."""
    return parse_graph(HEAD + "".join(f"        {line}\n" for line in lines))


def only(*lines: str) -> StageNode:
    parsed = parse(*lines)
    assert parsed.unread_lines == 0
    (node,) = parsed.nodes[2:]
    return node


@for_each(
    "statement, opcode, target, inputs",
    [
        ("a = torch.relu(x);  x = None", "call_function", "torch.relu", ("x",)),
        (
            "a = torch.ops.aten.addmm.default(y, x, x)",
            "call_function",
            "aten.addmm.default",
            ("y", "x"),
        ),
        ("a = torch.ops.higher_order.cond(x, y)", "call_function", "higher_order.cond", ("x", "y")),
        ("a = torch.cat([y, (x, 1)], dim = y)", "call_function", "torch.cat", ("y", "x")),
        ("a = torch.einsum('x,y', x, y = 'y')", "call_function", "torch.einsum", ("x",)),
        ("a = torch.f(x, device = device(type='cpu'))", "call_function", "torch.f", ("x",)),
        ("a = x.view(y, -1)", "call_method", "view", ("x", "y")),
        ("a = x.y", "call_function", "builtins.getattr", ("x",)),
        ("a = getattr(x, 'a b')", "call_function", "builtins.getattr", ("x",)),
        ("a = getattr(x, 'T', None)", "call_function", "builtins.getattr", ("x",)),
        ("a = self.x", "get_attr", "x", ()),
        ('a = getattr(self.x, "0").y', "get_attr", "x.0.y", ()),
        ('a = getattr(self.layers, "0")(x, y = y)', "call_module", "layers.0", ("x", "y")),
        ("a = x[(Ellipsis, slice(None, y, 2))]", "call_function", "operator.getitem", ("x", "y")),
        ("a = 2 * x", "call_function", "operator.mul", ("x",)),
        ("a = x @ y", "call_function", "operator.matmul", ("x", "y")),
        ("a = -x", "call_function", "operator.neg", ("x",)),
        ("a = -1 ** x", "call_function", "operator.pow", ("x",)),
        ("a = x >= y", "call_function", "operator.ge", ("x", "y")),
        ("x += y;  a = x;  x = y = None", "call_function", "operator.iadd", ("x", "y")),
        ("x |= y;  a = x", "call_function", "operator.ior", ("x", "y")),
        ("x[y] = 1;  a = x;  a = None", "call_function", "operator.setitem", ("x", "y")),
        ("a = len(x)", "call_function", "builtins.len", ("x",)),
        ("a = math_sqrt(x)", "call_function", "math_sqrt", ("x",)),
        ("a = _operator_index(x)", "call_function", "operator.index", ("x",)),
        ("a = torch.f(<function g at 0x7f>, x)", "call_function", "torch.f", ("x",)),
        ("a = torch.f(Thing(\n  1,\n  2,\n), x);  x = None", "call_function", "torch.f", ("x",)),
    ],
)
def test_each_form_of_a_node(
    statement: str, opcode: str, target: str, inputs: tuple[str, ...]
) -> None:
    node = only(*statement.split("\n"))

    assert (node.name, node.opcode, node.target, node.inputs) == ("a", opcode, target, inputs)


@for_each(
    "printed, value",
    [
        ("f32[8, 8][8, 1]cpu", "f32[8, 8]"),
        ("i64[][]cpu", "i64[]"),
        ("f16[s77, ((s27 + 1)//2)][s27, 1]cuda:1", "f16[s77, ((s27 + 1)//2)] cuda:1"),
        ("f32[8, 8]", "f32[8, 8]"),
        ("DTensor(f32[8][1]cpu, S(0))", "f32[8]"),
        ("Sym(s77)", "s77"),
        ("Sym(Eq(s77, 3))", "Eq(s77, 3)"),
    ],
)
def test_a_value_is_spelled_as_in_a_recorded_node(printed: str, value: str) -> None:
    assert only(f'a: "{printed}" = torch.relu(x)').value == value


def test_a_joint_graph_has_the_arguments_that_its_own_are_taken_apart_to() -> None:
    parsed = parse_graph(JOINT)

    assert parsed.unread_lines == 0
    assert [(node.name, node.opcode, node.value) for node in parsed.nodes[:3]] == [
        ("primals_1", "placeholder", "f32[3, 3]"),
        ("primals_2", "placeholder", "s77"),
        ("tangents_1", "placeholder", "f32[s77, ((s27 + 1)//2)] cuda:0"),
    ]
    assert [(node.name, node.inputs) for node in parsed.nodes[3:]] == [
        ("mm", ("primals_1", "tangents_1")),
        ("true_graph_0", ()),
        ("cond", ("primals_2", "true_graph_0", "mm")),
        ("getitem", ("cond",)),
        ("output", ("getitem", "primals_1")),
    ]
    assert [(node.file, node.line) for node in parsed.nodes[3:5]] == [
        ("/p/m: n.py", 35),
        (None, None),
    ]


def test_a_placeholder_is_called_what_its_argument_is_renamed_to() -> None:
    parsed = parse_graph(
        HEAD.replace("x:", "L_x_:")
        + "        l_x_ = L_x_\n\n        a = l_x_ + L_x_\n        return (a,)\n"
    )

    assert [(node.name, node.target, node.inputs) for node in parsed.nodes] == [
        ("l_x_", "L_x_", ()),
        ("y", "y", ()),
        ("a", "operator.add", ("l_x_",)),
        ("output", "", ("a",)),
    ]


def test_a_line_holds_until_the_next_comment_and_for_files_that_are_named() -> None:
    text = HEAD + (
        "        # File: /torch/optim/sgd.py:3 in step, code: a\n        a = x + 1\n\n"
        "        # File: /home/m.py:4 in <lambda>, code: b\n        b = a + 1\n        c = b + 1\n        return (c,)\n"
    )

    nodes = parse_graph(text, lambda file: "/torch/" not in file).nodes

    assert [(node.file, node.line) for node in nodes[2:]] == [
        (None, None),
        ("/home/m.py", 4),
        ("/home/m.py", 4),
        (None, None),
    ]


def test_an_output_gets_a_name_of_its_own() -> None:
    assert [node.name for node in parse("output = x + 1", "return (output,)").nodes[2:]] == [
        "output",
        "output_1",
    ]


def test_a_list_that_the_operator_empties_is_looked_through() -> None:
    boxed = (
        "f_boxed_arg_0 = [x, y];  x = y = None",
        "f = torch.f(f_boxed_arg_0, 1);  f_boxed_arg_0 = None",
    )

    assert only(*boxed).inputs == ("x", "y")


@for_each(
    "line",
    [
        "a = b",
        "a = b.view(1)",
        "a = x + 1; b = x + 2",
        "a = [x for x in y]",
        "a = x if y else x",
        "a = -(x + y)",
        "a = not x",
        "a = ???",
        "print(x)",
        "# something else",
    ],
)
def test_what_is_not_known_is_counted_and_the_rest_is_read(line: str) -> None:
    parsed = parse("c = x + 1", line, "d = y + 1")

    assert parsed.unread_lines == 1
    assert [node.name for node in parsed.nodes[2:]] == ["c", "d"]


@given(
    st.text()
    | st.text(alphabet="xy= +()[]{}'\":;,.#\n    def class return self torch.").map(
        lambda text: HEAD + text
    )
)
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_graph(text)


@given(st.data())
def test_a_graph_that_lost_or_doubled_some_text_is_read_without_an_error(
    data: st.DataObject,
) -> None:
    start = data.draw(st.integers(0, len(JOINT)))
    end = data.draw(st.integers(start, len(JOINT)))
    again = data.draw(st.integers(0, 2))

    parse_graph(JOINT[:start] + JOINT[start:end] * again + JOINT[end:])


def test_deep_nesting_is_no_error() -> None:
    assert parse("a = " + "(" * 100_000).unread_lines == 1


# Graphs that torch prints.


BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
)
BINARY += ("eq", "ne", "lt", "le", "gt", "ge", "iadd", "ior")


def random_graph(torch: Any, seed: int) -> Any:
    """A graph of random nodes with values, lines and names that could be taken for something
    else."""
    pick = random.Random(seed)
    root = torch.nn.Module()
    root.weight = torch.nn.Parameter(torch.ones(2))
    root.layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.ReLU()))
    root.layers.add_module("0.odd".replace(".", "_"), torch.nn.ReLU())
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in ("L_x_", "dim", "s77")[: pick.randint(1, 3)]]
    functions = [
        torch.relu,
        torch.ops.aten.mm.default,
        torch.nn.functional.layer_norm,
        math.sqrt,
        len,
        operator.index,
    ]
    binary = [getattr(operator, name) for name in BINARY]
    unary = [operator.neg, operator.pos, operator.invert]
    names = ["output", "dim", "view", "a_1", "torch", "self_1", "none", "x", None, None]
    constants: list[Any] = [
        1,
        -1,
        2.5,
        1e-05,
        float("inf"),
        True,
        None,
        "x",
        "it's",
        'a "b"',
        1j,
        torch.float16,
    ]
    constants.append(torch.device("cpu"))

    def some(depth: int = 0) -> Any:
        kind = pick.random()
        if kind < 0.5:
            return pick.choice(nodes)
        if kind < 0.8 or depth > 1:
            return pick.choice(constants)
        items = [some(depth + 1) for _ in range(pick.randint(0, 3))]
        return (
            pick.choice([list, tuple])(items)
            if pick.random() < 0.7
            else slice(some(2), some(2), None)
        )

    def call() -> Any:
        kind = pick.choice(
            [
                "function",
                "binary",
                "unary",
                "method",
                "module",
                "attr",
                "item",
                "setitem",
                "getattr",
            ]
        )
        if kind == "function":
            kwargs = {key: some() for key in pick.sample(["dim", "x", "out"], pick.randint(0, 2))}
            return graph.call_function(
                pick.choice(functions), tuple(some() for _ in range(pick.randint(0, 3))), kwargs
            )
        if kind == "binary":
            target, both = (
                pick.choice(binary),
                [pick.choice(nodes), pick.choice([pick.choice(nodes), 3, -1, 0.5])],
            )
            is_first = target in (operator.iadd, operator.ior) or pick.random() < 0.6
            return graph.call_function(target, tuple(both if is_first else reversed(both)))
        if kind == "unary":
            return graph.call_function(pick.choice(unary), (pick.choice(nodes),))
        if kind == "method":
            return graph.call_method(
                pick.choice(["view", "sum", "add_"]), (pick.choice(nodes), some()), {"dim": some()}
            )
        if kind == "module":
            return graph.call_module(pick.choice(["layers.0", "layers.1.0", "layers"]), (some(),))
        if kind == "attr":
            return graph.get_attr("weight")
        if kind == "item":
            return graph.call_function(operator.getitem, (pick.choice(nodes), some()))
        if kind == "setitem":
            return graph.call_function(operator.setitem, (pick.choice(nodes), some(), some()))
        return graph.call_function(getattr, (pick.choice(nodes), pick.choice(["T", "a b"])))

    for _ in range(pick.randint(0, 25)):
        node = call()
        if (name := pick.choice(names)) is not None:
            node.name = graph._graph_namespace.create_name(name, None)
        if pick.random() < 0.5:
            node.meta["example_value"] = torch.empty(
                pick.choice([(), (2, 3)]), dtype=torch.float16, device="meta"
            )
        if pick.random() < 0.5:
            node.stack_trace = (
                f'  File "/p/a b.py", line {pick.randint(1, 3)}, in <lambda>\n    x = [File: 1]\n'
            )
        nodes.append(node)
    graph.output(some() if pick.random() < 0.5 else tuple(pick.choices(nodes, k=3)))
    return torch.fx.GraphModule(root, graph)


@pytest.mark.slow
def test_a_graph_that_torch_prints_is_read_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    seen = set()
    for seed in range(120):
        module = random_graph(torch, seed)
        text = module.print_readable(
            print_output=False,
            include_stride=seed % 2 > 0,
            include_device=seed % 4 > 1,
            expanded_def=seed % 3 > 0,
        )

        parsed = parse_graph(text)

        assert parsed.unread_lines == 0, text
        assert len(parsed.nodes) == len(module.graph.nodes), text
        for read, node in zip(parsed.nodes, module.graph.nodes, strict=True):
            target = short_target(node._pretty_print_target(node.target))
            is_math = target == "math.sqrt"
            assert read.opcode == node.op, text
            assert read.target == (
                "" if node.op == "output" else "math_sqrt" if is_math else target
            ), text
            assert read.inputs == tuple(taken.name for taken in node.all_input_nodes), text
            if node.op != "output":
                assert read.name == node.name, text
            if "example_value" in node.meta:
                shape = list(node.meta["example_value"].shape)
                assert read.value == f"f16{shape}" + (" meta" if seed % 4 > 1 else ""), text
            if node.op not in ("placeholder", "output"):
                line = (
                    int(node.stack_trace.split("line ")[1].split(",")[0])
                    if node.stack_trace
                    else None
                )
                assert (read.file, read.line) == ("/p/a b.py" if line else None, line), text
            seen.add((read.opcode, read.target))
    assert len(seen) > 40
