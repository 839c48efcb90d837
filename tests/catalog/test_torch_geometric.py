"""torch-geometric's catalog: what is listed, and programs of it."""

from __future__ import annotations

import importlib.util

import pytest

from tests.catalog.written import families, written

# Not imported here: that takes seconds, in each process that has tests to choose from.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None, reason="needs torch_geometric"
)


@pytest.mark.slow
def test_models_with_relations_and_pooling_are_written_and_run(tmp_path):
    family_of = families("torch-geometric")
    assert family_of["GCN"] == "models"
    assert family_of["RGCNConv"] == family_of["DenseGCNConv"] == "convolutions"
    assert family_of["TopKPooling"] == family_of["global_add_pool"] == "pooling"
    assert family_of["SumAggregation"] == "aggregation"
    assert not {"MessagePassing", "Aggregation", "to_captum_model", "L2KNNIndex"} & family_of.keys()
    for name in ("RGCNConv", "global_add_pool"):
        program, model, inputs = written("torch-geometric", name, tmp_path)
        assert (program.parameters == 0) is (name == "global_add_pool")
        assert model(**inputs) is not None
        if name == "RGCNConv":
            assert {"x", "edge_index", "edge_type"} == set(inputs)
            assert not model.training


@pytest.mark.slow
def test_what_an_error_asks_for_is_given():
    from graphdoctor.catalog import torch_geometric as catalog

    class Needs:
        def __init__(self, channels: int, **more):
            if "num_layers" not in more:
                raise ValueError("Argument `num_layers` must be given")
            if more.get("cached", True):
                raise ValueError("Can't be cached. Set `cached=False` to proceed")
            if "deg" not in more:
                raise TypeError("Inner.__init__() missing 1 required positional argument: 'deg'")

        def forward(self, x): ...

    first = next(catalog._models(Needs, "import needs"))
    assert "num_layers=2, cached=False, deg=torch.ones(8, dtype=torch.long)" in " ".join(
        first.body.split()
    )


@pytest.mark.slow
def test_inputs_fit_what_a_forward_gathers():
    from graphdoctor.catalog import torch_geometric as catalog

    def atoms(z, pos, batch=None): ...
    def dense(x, adj): ...
    def gathered(y_soft, *args): ...

    assert "z = torch.randint(1, 10, (32,))" in next(catalog._calls(atoms)).body
    assert "x = torch.randn(4, 8, 16)" in next(catalog._calls(dense)).body
    assert next(catalog._calls(gathered)).body.endswith("return (y_soft, x, edge_index)")
