import orjson

from graphdoctor.trace.grammar import Record
from graphdoctor.trace.marks import Marks, clock_seconds, operations_of, plain_graph, plain_guards
from tests.sections import texts_beside

GRAPH, GUARDS = texts_beside(__file__)


def record(
    kind, payload="", *, compile_id=(0, 0), stamp="V1122 21:40:57.925000 77", attempt=0, **value
):
    frame, count = compile_id
    metadata = {kind: value, "frame_id": frame, "frame_compile_id": count, "attempt": attempt}
    return Record(
        kind,
        value,
        metadata,
        payload if isinstance(payload, str) else orjson.dumps(payload).decode(),
        stamp,
    )


def marked(*records, texts_of=frozenset()):
    marks = Marks(texts_of)
    for record_ in records:
        marks.add(record_)
    return marks.finish()


def test_graphs_of_two_devices_are_the_same():
    one, other = (GRAPH.format(device=device) for device in (0, 3))
    assert plain_graph(one) == plain_graph(other)
    assert "net.py" not in plain_graph(one)
    assert "f32[8, 16]" in plain_graph(one)


def test_operations_are_the_same_under_other_sizes():
    one = plain_graph(GRAPH)
    other = plain_graph(GRAPH.replace("8, 16", "9, 16").replace("view(2", "view(3"))
    assert one != other
    assert operations_of(one) == operations_of(other)
    assert operations_of(one) != operations_of(one.replace("view", "reshape"))


def test_guards_of_two_processes_are_the_same():
    one = GUARDS.format(address=947102341120001, device=0, latency=12.5)
    other = GUARDS.format(address=140213445566778, device=7, latency=80)
    assert plain_guards(one) == plain_guards(other)
    assert plain_guards(one) != plain_guards(one.replace("size=[8", "size=[9"))


def test_what_a_compile_made():
    begin = "V1122 21:40:57.925000 77"
    schedule = ["torch.ops._c10d_functional.all_reduce_.default"]
    (mark,) = marked(
        record("dynamo_start", stamp=begin),
        record("dynamo_output_graph", GRAPH),
        record("inductor_collective_schedule", schedule),
        record("fx_graph_cache_hit", "{}"),
        record("aotautograd_cache_miss", "{}"),
        record("dynamo_cpp_guards_str", GUARDS),
    ).marks
    assert mark.collectives == tuple(schedule)
    assert mark.cache == "miss"
    assert mark.began_s == clock_seconds(begin)
    assert None not in (mark.graph, mark.operations, mark.guards)
    assert mark.graph_text is mark.guards_text is None


def test_the_graph_of_a_restarted_analysis_counts_once():
    first = record("dynamo_output_graph", GRAPH.replace("view", "reshape"))
    again = marked(first, record("dynamo_output_graph", GRAPH, attempt=1)).marks[0]
    assert again.graph == marked(record("dynamo_output_graph", GRAPH)).marks[0].graph


def test_texts_are_kept_where_they_are_asked_for():
    records = [record("dynamo_output_graph", GRAPH, compile_id=(0, number)) for number in (0, 1)]
    one, other = marked(*records, texts_of=frozenset({"0/1"})).marks
    assert one.graph_text is None
    assert other.graph_text == plain_graph(GRAPH)
