"""torch-geometric: its models, convolutions, poolings and aggregations, each on a small random graph.

Nothing lists what these classes take, so arguments come from signatures: a value for each name that the library uses,
tried until the model runs. The graph has 32 nodes, in 4 graphs of 8, and 4 edges from each.
"""

from __future__ import annotations

import inspect
import itertools
import re
import typing
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import torch
import torch_geometric.nn

from .library import InputsText, ModelText, choices, evaluated_body, known_values, parameters_of, slots

_ROOMS = {
    "models": "models",
    "kge": "models",
    "conv": "convolutions",
    "dense": "convolutions",
    "pool": "pooling",
    "aggr": "aggregation",
}

_BASES = ("MessagePassing", "Aggregation", "KGEModel")
"""What the others are made of; can't be called itself."""

_POOLING = re.compile(r"[Pp]ool(ing)?$")
_LAYERS = re.compile(r"Conv$|[Pp]ool(ing)?$")
"""What is listed of ``dense``, which has plain layers too."""

_MOST_MODELS = 24

_MOST_CALLS = 60

_MOST_CHANGES = 3

_LINEAR = "torch.nn.Linear(16, 16)"
_CONVOLUTION = "torch_geometric.nn.GCNConv(16, 16)"
_PAIRS = """lambda pos, _: (
    pairs := torch.triu_indices(len(pos), len(pos), 1),
    (pos[pairs[0]] - pos[pairs[1]]).norm(dim=-1),
)"""
_TYPES = '["author", "paper"]'
_WALKED = """{
    ("author", "writes", "paper"): torch.randint(32, (2, 128)),
    ("paper", "cites", "author"): torch.randint(32, (2, 128)),
}"""
_METADATA = f'({_TYPES}, [("author", "writes", "paper"), ("paper", "cites", "paper")])'

_MADE_WITH: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"in_channels|out_channels|hidden_channels|hidden_\w+_channels|channels|\w+_channels", ("16",)),
    (r"embedding_dim|memory_dim|time_dim|raw_msg_dim|dim_emb|dim_pe_in|dim_inner|\w+_emb_dim|\w+_emb_size", ("16",)),
    (r"num_filters|multi_head_dim_inner", ("16",)),
    (r"layers_mp|num_interactions", ("2",)),
    (r"dim_pe_out", ("8",)),
    (r"edge_dim|dim|space_dimensions", ("3",)),
    (r"num_nodes", ("32",)),
    (r"num_relations|num_rels|num_edge_types|num_groups", ("2",)),
    (r"num_node_types|num_types|num_layers|depth|K|\w*heads", ("2", "[16]")),
    (r"num_spherical|num_radial|seq_len|kernel_size|filter_size", ("3",)),
    (r"max_num_elements", ("8",)),
    (r"nn", (_LINEAR, "torch.nn.Linear(32, 16)", "torch.nn.Linear(3, 256)")),
    (r"local_nn|global_nn|pos_nn|attn_nn", (_LINEAR, "torch.nn.Linear(19, 16)", "torch.nn.Linear(20, 16)")),
    (r"gate_nn", ("torch.nn.Linear(16, 1)",)),
    (r"mlp_h", ("torch.nn.Linear(16, 3)",)),
    (r"mlp_f", ("torch.nn.Linear(19, 16)",)),
    (r"mlp_g|discriminator", (_LINEAR,)),
    (r"conv|encoder|phi", (_CONVOLUTION, "torch_geometric.nn.GCNConv(8, 8)")),
    (r"convs", ('{("author", "writes", "paper"): torch_geometric.nn.SAGEConv((16, 16), 16)}',)),
    (r"interaction_graph", (_PAIRS,)),
    (r"summary", ("lambda z, *_: z.mean(0).sigmoid()",)),
    (r"corruption", ("lambda x, edge_index: (x[torch.randperm(len(x))], edge_index)",)),
    (r"message_module", ("torch_geometric.nn.models.tgn.IdentityMessage(16, 16, 16)",)),
    (r"aggregator_module", ("torch_geometric.nn.models.tgn.LastAggregator()",)),
    (r"act", ("torch.nn.ReLU()",)),
    (r"mode", ('"cat"',)),
    (r"aggr", ('"mean"',)),
    (r"scaler", ('"identity"',)),
    (r"aggrs|aggregators", ('["mean", "max"]',)),
    (r"scalers", ('["identity", "amplification"]',)),
    (r"deg", ("torch.ones(8, dtype=torch.long)",)),
    (r"types", (_TYPES,)),
    (r"metadata", (_METADATA,)),
    (r"metapath", ('[("author", "writes", "paper"), ("paper", "cites", "author")]',)),
    (r"edge_index", ("torch.randint(32, (2, 128))",)),
    (r"edge_index_dict", (_WALKED,)),
)

_SMALL = re.compile(r"hidden_channels|dim_inner|num_filters|multi_head_dim_inner|layers_mp|num_interactions")
"""Parameters whose default makes a model larger than it need be."""

_NOTES = {
    "interaction_graph": "Every two atoms interact, however far apart: what finds the near ones is an optional library."
}

_EDGES = "torch.stack([torch.arange(32).repeat_interleave(4), torch.randint(32, (128,))])"
_GRAPHS = "torch.arange(4).repeat_interleave(8)"
_NODES_BY_TYPE = """{
    "author": torch.randn(32, 16),
    "paper": torch.randn(32, 16),
}"""
_EDGES_BY_TYPE = """{
    ("author", "writes", "paper"): torch.randint(32, (2, 128)),
    ("paper", "cites", "paper"): torch.randint(32, (2, 128)),
}"""
_DATA = """torch_geometric.data.Data(
    x=torch.randn(32, 16),
    edge_index=torch.randint(32, (2, 128)),
    pos=torch.randn(32, 3),
    batch=torch.arange(4).repeat_interleave(8),
)"""
_EVENTS = """torch_geometric.data.Data(
    sub=torch.randint(32, (8,)),
    rel=torch.randint(2, (8,)),
    obj=torch.randint(32, (8,)),
    h_sub=torch.randint(32, (16,)),
    h_sub_t=torch.randint(3, (16,)),
    h_sub_batch=torch.arange(8).repeat_interleave(2),
    h_obj=torch.randint(32, (16,)),
    h_obj_t=torch.randint(3, (16,)),
    h_obj_batch=torch.arange(8).repeat_interleave(2),
)"""
_BATCH = """torch_geometric.data.Batch(
    x=torch.randn(32, 20),
    edge_index=torch.randint(32, (2, 128)),
    batch=torch.arange(4).repeat_interleave(8),
    ptr=torch.arange(0, 40, 8),
    y=torch.randn(32, 51),
    y_graph=torch.randn(4, 11),
)"""
_LISTS_BY_TYPE = """{
    "author": [torch.randn(32, 16), torch.randn(32, 16)],
    "paper": [torch.randn(32, 16), torch.randn(32, 16)],
}"""

_CALLED_WITH: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"x|x_0|y_soft|pos_enc", ("torch.randn(32, 16)", "torch.randint(4, (32,))", "torch.randn(32, 2, 16)")),
    (r"edge_index|hyperedge_index|pos_edge_index|neg_edge_index", (_EDGES,)),
    (r"edge_weight|weight", ("torch.rand(128)",)),
    (r"edge_attr", ("torch.rand(128, 3)", "torch.rand(128, 16)")),
    (r"edge_type", ("torch.randint(2, (128,))",)),
    (r"node_type|type_vec", ("torch.randint(2, (32,))", '"author"')),
    (r"pos", ("torch.randn(32, 3)",)),
    (r"normal", ("torch.nn.functional.normalize(torch.randn(32, 3), dim=-1)",)),
    (r"batch|index|batch_x|batch_y", (_GRAPHS, "torch.randint(32, (2, 8))", _BATCH)),
    (r"y", ("torch.randint(4, (32,))", "torch.randn(32, 16)", "torch.randint(4, (16,))")),
    (r"mask", ("torch.arange(32) < 16", "torch.ones(4, 8, dtype=torch.bool)")),
    (r"n_id", ("torch.arange(32)",)),
    (r"head_index|tail_index", ("torch.randint(32, (16,))",)),
    (r"rel_type", ("torch.randint(2, (16,))",)),
    (r"cluster", ("torch.randint(8, (32,))",)),
    (r"ppr_matrix", ("torch.rand(32, 32).to_sparse()",)),
    (r"xs", ("[torch.randn(32, 16), torch.randn(32, 16)]",)),
    (r"xs_dict", (_LISTS_BY_TYPE,)),
    (r"x_dict", (_NODES_BY_TYPE,)),
    (r"edge_index_dict", (_EDGES_BY_TYPE,)),
    (r"adj", ("torch.rand(4, 8, 8).round()",)),
    (r"s", ("torch.randn(4, 8, 4)",)),
    (r"data", (_DATA, _EVENTS)),
    (r"M", ("torch_geometric.typing.SparseTensor.from_dense(torch.rand(32, 32))",)),
    (r"r", ("1.0",)),
    (r"size", ("0.5",)),
)

_ATOMS = ("torch.randint(1, 10, (32,))",)
_ENCODED = ("torch.randn(32, 16)",)
_DENSE = ("torch.randn(4, 8, 16)",)

_GATHERED: dict[str, tuple[tuple[str, ...], ...]] = {
    "args": (("x", "edge_index"), ("y", "mask", "edge_index")),
    "args_dict": (("x_dict", "edge_index_dict"),),
}
"""What stands for the positional arguments that a ``forward`` gathers, by what it calls them."""

_NAMES = {"torch": torch, "torch_geometric": torch_geometric}
_BY_TYPE = {int: ("4",), float: ("0.5",), bool: ("True",)}
_MISSING = re.compile(r"missing \d+ required .*arguments?: (.+)|[Aa]rgument `(\w+)` must be given")
_ASKED = re.compile(r"[Ss]et `(\w+)=(\w+)`")


class _TorchGeometric:
    most_parameters = 10_000_000

    def families(self) -> dict[str, str]:
        return {name: "pooling" if _POOLING.search(name) else _ROOMS[room] for name, room in _rooms().items()}

    def models(self, name: str) -> Iterator[ModelText]:
        room = _rooms()[name]
        made: Any = getattr(getattr(torch_geometric.nn, room), name)
        home = f"from torch_geometric.nn.{room} import {name}"
        if not inspect.isclass(made):
            yield ModelText((home,), f"return {name}", subject=made)
            return
        return (yield from itertools.islice(_models(made, home), _MOST_MODELS))

    def inputs(self, text: ModelText, _model: Any) -> Generator[InputsText, BaseException, None]:  # noqa: ANN401
        for inputs in _calls(text.subject):
            failure = yield inputs
            if isinstance(failure, ImportError):  # of an optional library: no other inputs help
                return


LIBRARY = _TorchGeometric()


def _rooms() -> dict[str, str]:
    found: dict[str, str] = {}
    for room in _ROOMS:
        module = getattr(torch_geometric.nn, room)
        for name in module.__all__:
            if _is_listed(room, name, getattr(module, name)):
                found.setdefault(name, room)
    return found


def _is_listed(room: str, name: str, found: object) -> bool:
    if name in _BASES or (room == "dense" and not _LAYERS.search(name)):
        return False
    if inspect.isclass(found):
        return issubclass(found, torch.nn.Module)
    return room in ("pool", "dense") and inspect.isfunction(found)


def _models(made: type[Any], home: str) -> Iterator[ModelText]:
    """Ways to build it that work; the likeliest one's error where none does."""
    parameters = parameters_of(made)
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    tried = slots(parameters, _made_with, owner=made.__name__, is_given=_is_large)
    more: dict[str, str] = {}
    first: Exception | None = None
    is_made = False
    for likely in choices(tried, most_changes=_MOST_CHANGES):
        while True:
            arguments = {**likely, **more}
            try:
                made(**{name: eval(value, _NAMES) for name, value in arguments.items()})
            except ImportError:  # an optional library
                raise
            except Exception as error:  # noqa: BLE001
                # What was missing was then given, if a rule knows it.
                first = error if first is None or _wanted(first) else first
                wanted = {name: value for name, value in _wanted(error).items() if takes_more and name not in more}
                if not wanted:
                    break
                more.update(wanted)
                continue
            is_made = True
            notes = tuple(_NOTES[name] for name in arguments if name in _NOTES)
            imports = (home, *_imports(arguments.values()))
            yield ModelText(imports, evaluated_body(made.__name__, arguments), notes, made.forward)
            break
    if first is not None and not is_made:
        raise first


def _wanted(failure: Exception) -> dict[str, str]:
    """The arguments that a constructor behind ``**kwargs`` asks for, as far as there are values for them."""
    message = str(failure)
    if asked := _ASKED.search(message):
        return {asked[1]: asked[2]}
    missing = _MISSING.search(message)
    names = re.findall(r"\w+", missing[1] or missing[2]) if missing else []
    known = {name: known_values(name, _MADE_WITH) for name in names if name != "and"}
    return {name: values[0] for name, values in known.items()} if all(known.values()) else {}


def _calls(called: Callable[..., Any]) -> Iterator[InputsText]:
    parameters = [parameter for parameter in parameters_of(called) if parameter.name != "self"]
    gathers = next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL), None)
    wholes = [parameters]
    if gathers is not None:
        before = list(itertools.takewhile(lambda each: each.kind is not each.VAR_POSITIONAL, parameters))
        known = [parameter.name for parameter in before]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        wholes = [
            [*before, *(inspect.Parameter(name, kind) for name in names if name not in known)]
            for names in _GATHERED.get(gathers, ())
        ]
    for whole in wholes:
        tried = slots(whole, _called_with(whole), owner=called.__qualname__)
        for values in itertools.islice(choices(tried, most_changes=_MOST_CHANGES), _MOST_CALLS):
            assigned = "".join(f"{name} = {value}\n" for name, value in values.items())
            by_name = ", ".join(f'"{name}": {name}' for name in values)
            by_position = ", ".join(values) + "," * (len(values) == 1)
            returned = f"{{{by_name}}}" if gathers is None else f"({by_position})"
            yield InputsText(f"{assigned}return {returned}", imports=_imports(values.values()))


def _imports(values: Iterable[str]) -> tuple[str, ...]:
    return ("import torch_geometric",) if any("torch_geometric." in value for value in values) else ()


def _made_with(parameter: inspect.Parameter) -> tuple[str, ...]:
    known = known_values(parameter.name, _MADE_WITH)
    if parameter.default is parameter.empty:
        return known or _by_type(parameter.annotation)
    return known if parameter.default is None or _is_large(parameter) else ()


def _is_large(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.default, int) and _SMALL.fullmatch(parameter.name) is not None


def _called_with(parameters: Iterable[inspect.Parameter]) -> Callable[[inspect.Parameter], tuple[str, ...]]:
    names = {parameter.name for parameter in parameters}

    def values(parameter: inspect.Parameter) -> tuple[str, ...]:
        if parameter.name == "x" and "adj" in names:
            return _DENSE
        if parameter.name == "z":
            return _ATOMS if "pos" in names else _ENCODED
        known = known_values(parameter.name, _CALLED_WITH)
        if parameter.default is parameter.empty:
            return known or _by_type(parameter.annotation)
        return known if parameter.default is None else ()

    return values


def _by_type(annotation: object) -> tuple[str, ...]:
    """What fits a type that is a number, or can be one."""
    for kind in (annotation, *typing.get_args(annotation)):
        if kind in _BY_TYPE:
            return _BY_TYPE[kind]
    return ()
