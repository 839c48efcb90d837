"""A printed graph to its nodes: torch's own forms, and lines that aren't any."""

import re
from ast import parse as parsed

from graphdoctor.trace import printed_graph
from graphdoctor.trace.printed_graph import parse_graph
from tests.each import for_each
from tests.sections import texts_beside

HEAD = 'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[8, 8][8, 1]cpu", y):\n'
(JOINT,) = texts_beside(__file__)


def parse(*lines):
    """A graph of two arguments, ``x`` and ``y``, with these lines as its body."""
    return parse_graph(HEAD + "".join(f"        {line}\n" for line in lines))


def only(*lines):
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
def test_each_form_of_a_node(statement, opcode, target, inputs):
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
def test_a_value_is_spelled_as_in_a_recorded_node(printed, value):
    assert only(f'a: "{printed}" = torch.relu(x)').value == value


def test_joint_graph_has_the_arguments_of_its_parts():
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


def test_a_placeholder_is_called_what_its_argument_is_renamed_to():
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


def test_line_holds_until_the_next_comment_of_named_files():
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


def test_an_output_gets_a_name_of_its_own():
    assert [node.name for node in parse("output = x + 1", "return (output,)").nodes[2:]] == [
        "output",
        "output_1",
    ]


def test_a_list_that_the_operator_empties_is_looked_through():
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
def test_unknown_records_are_counted_and_the_rest_read(line):
    parsed = parse("c = x + 1", line, "d = y + 1")

    assert parsed.unread_lines == 1
    assert [node.name for node in parsed.nodes[2:]] == ["c", "d"]


def test_calls_of_torch_are_read_as_python_reads_them(monkeypatch):
    lines = (
        'a: "f32[8, 8][8, 1]cpu" = torch.ops.aten.sum.dim_IntList(x, [-1, y], True, dtype = None)',
        "# File: /home/m.py:4 in forward, code: b",
        "b = torch.cat([a, x], dim = y);  x = None",
        "c = torch.relu(b)",
    )
    read = []
    monkeypatch.setattr(printed_graph.ast, "parse", lambda text: read.append(text) or parsed(text))
    quick = parse(*lines)
    monkeypatch.setattr(printed_graph, "_CALL", re.compile("(?!)"))

    assert quick == parse(*lines)
    assert ["torch.cat" in text for text in read] == [False, True]
