"""Events of a real watch arrive where programs send their metrics, under the names of the guide."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import graphdoctor
from graphdoctor import GraphDoctorError
from graphdoctor.api.watching.metrics import METRICS, samples
from graphdoctor.api.watching.scalars import ScalarSink
from graphdoctor.api.watching.sinks import open_sink
from graphdoctor.facts.watch import WatchEvent

pytestmark = pytest.mark.slow


def scaled(x, by):
    return x.sin() * by


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def recompile_until_the_limit() -> None:
    """One compile, two recompiles and a limit hit."""
    with torch._dynamo.config.patch(recompile_limit=3):
        compiled = torch.compile(scaled, backend="eager", dynamic=False)
        for size in (2, 3, 4, 5):
            compiled(torch.ones(size), 2)


def event(**fields) -> WatchEvent:
    return WatchEvent(**{"kind": "compile", "time_s": 1.0, **fields})


def added(**fields) -> dict[str, tuple[float, dict[str, str]]]:
    return {
        name.removeprefix("torch.compile."): (value, labels)
        for name, value, labels in samples(event(**fields))
    }


def test_an_event_adds_what_torch_says_and_nothing_for_what_it_does_not():
    assert added() == {"count": (1, {"trigger": "dynamo", "kind": "compile", "outcome": "ok"})}
    assert added(kind="recompile", seconds=2.0, graph_breaks=3, cache={"fx_graph": "miss"}) == {
        "count": (1, {"trigger": "dynamo", "kind": "recompile", "outcome": "ok"}),
        "duration": (2.0, {}),
        "recompiles": (1, {}),
        "graph_breaks": (3, {}),
        "cache": (1, {"layer": "fx_graph", "result": "miss"}),
    }
    assert "recompiles" not in added(kind="recompile", is_ok=False, is_blocked=True)
    assert added(kind="limit") == {"limit_hits": (1, {})}


@pytest.mark.parametrize(
    "fields, labels",
    [
        ({"is_ok": False}, ("dynamo", "compile", "failed")),
        ({"is_ok": False, "is_blocked": True}, ("dynamo", "compile", "blocked")),
        ({"kind": "backward"}, ("lazy_backward", "backward", "ok")),
        ({"kind": "cuda_graph"}, ("cudagraph_recording", "cuda_graph", "ok")),
        ({"kind": "cuda_graph_skipped"}, ("cudagraph_recording", "cuda_graph", "skipped")),
    ],
)
def test_outcomes_are_told_apart_by_labels(fields, labels):
    assert tuple(added(**fields)["count"][1].values()) == labels


def test_labels_are_bounded():
    assert {label for metric in METRICS.values() for label in metric.labels} == {
        *("trigger", "kind", "outcome", "layer", "result")
    }


# Prometheus


def scrape(port: int) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = [*text_string_to_metric_families(answer.read().decode())]
    return {
        " ".join(
            [sample.name, *(sample.labels[label] for label in sorted(sample.labels))]
        ): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("torch_compile_") and not sample.name.endswith("_created")
    }


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_prometheus_scrapes_what_happened():
    pytest.importorskip("prometheus_client", reason="needs prometheus-client")
    port = free_port()
    with graphdoctor.watch(to=[f"prometheus:{port}"]) as seen:
        before = scrape(port)
        recompile_until_the_limit()
        # The limit is the last event.
        hits = "torch_compile_limit_hits_total"
        for _ in range(1000):
            if (after := scrape(port))[hits] > before[hits]:
                break

    def gained(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert gained("torch_compile_count_total compile ok dynamo") == 1
    assert gained("torch_compile_count_total recompile ok dynamo") == 2
    assert gained("torch_compile_recompiles_total") == 2
    assert gained("torch_compile_limit_hits_total") == 1
    assert gained("torch_compile_duration_seconds_count") == 4
    assert gained("torch_compile_duration_seconds_sum") == pytest.approx(seen.compile_seconds)
    with pytest.raises(OSError):
        scrape(port)  # closed with the watch


def test_a_second_watch_counts_on():
    prometheus_client = pytest.importorskip("prometheus_client", reason="needs prometheus-client")

    def count() -> float:
        return prometheus_client.REGISTRY.get_sample_value("torch_compile_recompiles_total")

    first = open_sink("prometheus")
    before = count()
    for sink in (first, open_sink("prometheus")):
        sink.export(event(kind="recompile"))
        sink.close()
    assert count() == before + 2


def test_prometheus_serves_each_local_rank_at_a_port_of_its_own(monkeypatch):
    pytest.importorskip("prometheus_client", reason="needs prometheus-client")
    monkeypatch.setenv("LOCAL_RANK", "1")
    port = free_port()
    sink = open_sink(f"prometheus:127.0.0.1:{port - 1}")
    assert "torch_compile_recompiles_total" in scrape(port)
    with pytest.raises(GraphDoctorError, match="can't serve"):
        open_sink(f"prometheus:{port - 1}")
    sink.close()
    with pytest.raises(GraphDoctorError, match="can't serve"):
        open_sink("prometheus:here")


# OpenTelemetry


@pytest.fixture(scope="module")
def telemetry():
    """The SDK's exporters in memory: a process has one provider of each kind."""
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    metrics.set_meter_provider(MeterProvider([reader]))
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    return reader, spans


def points(reader) -> Iterator[tuple[str, object]]:
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.scope.name == "graphdoctor"
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    yield " ".join([metric.name, *point.attributes.values()]), point


def test_opentelemetry_gets_metrics_and_an_event_on_the_current_span(telemetry):
    from opentelemetry import trace

    reader, spans = telemetry
    with graphdoctor.watch(to=["opentelemetry"]) as seen:
        seen.step = 7
        with trace.get_tracer("test").start_as_current_span("request") as span:
            recompile_until_the_limit()

    found = dict(points(reader))
    assert found["torch.compile.count dynamo compile ok"].value == 1
    assert found["torch.compile.recompiles"].value == 2
    assert found["torch.compile.limit_hits"].value == 1
    duration = found["torch.compile.duration"]
    assert (duration.count, duration.sum) == (4, pytest.approx(seen.compile_seconds))

    (request,) = spans.get_finished_spans()
    assert [made.name for made in request.events] == ["torch.compile"] * 4
    recompile, limit = request.events[1], request.events[3]
    assert recompile.attributes["torch.compile.kind"] == "recompile"
    assert recompile.attributes["code.function.name"] == "scaled"
    assert recompile.attributes["code.file.path"] == __file__
    assert recompile.attributes["torch.compile.step"] == 7
    assert recompile.attributes["torch.compile.causes"] == ("x.shape[0]: 2 → 3",)
    assert limit.attributes["torch.compile.kind"] == "limit"
    assert request.start_time <= recompile.timestamp <= request.end_time
    traced = {made.trace_id for made in seen.events}
    assert traced == {f"{span.get_span_context().trace_id:032x}"}


def test_outside_of_a_span_there_are_metrics_alone(telemetry):
    _reader, spans = telemetry
    spans.clear()
    with graphdoctor.watch(to=["opentelemetry"]):
        recompile_until_the_limit()
    assert spans.get_finished_spans() == ()


# Writers of scalars


def test_tensorboard_gets_totals_at_the_steps_of_the_events(tmp_path):
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer, graphdoctor.watch(to=[writer]) as seen:
        compiled = torch.compile(scaled, backend="eager", dynamic=False)
        for step, size in enumerate((2, 2, 3, 3, 4)):
            seen.step = step
            compiled(torch.ones(size), 2)

    read = EventAccumulator(str(tmp_path)).Reload()
    scalars = [(scalar.step, scalar.value) for scalar in read.Scalars("compile/recompiles")]
    assert scalars == [(0, 0), (2, 1), (4, 2)]
    assert read.Scalars("compile/seconds")[-1].value == pytest.approx(seen.compile_seconds)
    assert {scalar.value for scalar in read.Scalars("compile/limit_hits")} == {0}


class Run:
    """A run as that of Weights & Biases."""

    def __init__(self):
        self.rows = []

    def log(self, data, step=None, commit=None):
        self.rows.append((data, step, commit))


class Logger:
    def __init__(self):
        self.rows = []

    def log(self, values, step=None):
        self.rows.append((values, step))


TOTALS = {"compile/recompiles": 1, "compile/seconds": 2.0, "compile/limit_hits": 0}


def test_a_run_gets_totals_in_the_row_that_it_logs_next():
    run = Run()
    open_sink(run).export(event(kind="recompile", seconds=2.0, step=3))
    assert run.rows == [(TOTALS, None, False)]


def test_anything_else_with_log_gets_totals_with_the_step():
    logger = Logger()
    open_sink(logger).export(event(kind="recompile", seconds=2.0, step=3))
    assert logger.rows == [(TOTALS, 3)]

    rows = []
    writer = type("Writer", (), {"log": staticmethod(rows.append)})
    ScalarSink(writer).export(event(kind="recompile", seconds=2.0, step=3))
    assert rows == [TOTALS]


def test_a_run_of_weights_and_biases_keeps_its_steps(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="needs wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(mode="offline", dir=tmp_path, project="test") as run:
        sink = open_sink(run)
        for step in range(3):
            sink.export(event(kind="recompile", seconds=1.0, step=step))
            run.log({"loss": 1.0})
        assert run.step == 3
        assert run.summary["compile/recompiles"] == 3


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "graphdoctor.api.watching.prometheus", raising=False)
    with pytest.raises(GraphDoctorError, match="prometheus_client") as caught:
        open_sink("prometheus")
    assert caught.value.hint == "pip install 'graphdoctor[prometheus]'"
