"""Programs that take torch's trace logger apart while they are recorded."""

import json

import pytest

from graphdoctor.trace.reader import read_recording
from tests.conftest import clean_environment
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

MODEL, BACKEND = texts_beside(__file__)
SCRIPT = f"""{MODEL}
net = torch.compile(Net(), backend="eager")
for inputs in example_inputs():
    net(*inputs)
"""
WAYS = {
    "clear": "trace.handlers.clear()",
    "assign": "trace.handlers = []",
    "remove": "[trace.removeHandler(handler) for handler in list(trace.handlers)]",
    "level": "trace.setLevel(logging.CRITICAL)",
    "handler-level": "[handler.setLevel(logging.CRITICAL) for handler in trace.handlers]",
    "dictConfig": "logging.config.dictConfig({'version': 1, 'loggers': {'torch.__trace': {'level': 'ERROR'}}})",
    "disable": "logging.disable(logging.CRITICAL); trace.disabled = True",
    "set_logs": "torch._logging.set_logs(dynamo=logging.ERROR)",
    "shutdown": "logging.shutdown()",
}


def test_target_resetting_the_logger_between_calls_loses_nothing(tmp_path, explain_json):
    runs = {}
    for name, way in WAYS.items():
        (tmp_path / "model.py").write_text(MODEL.format(taken_apart=way))
        document = explain_json("model.py", "--no-coverage")
        codes = {finding["code"] for finding in document["findings"]}
        runs[name] = (*seen(document), len(document["recording"]["calls"]), "GD101" in codes)
    assert runs == dict.fromkeys(WAYS, (2, 1, False, 2, True))


def test_script_resetting_the_logger_between_calls_loses_nothing(tmp_path, run_cli):
    runs = {}
    for name in ("clear", "dictConfig", "set_logs"):
        (tmp_path / "train.py").write_text(SCRIPT.format(taken_apart=WAYS[name]))
        assert run_cli("run", "train.py").returncode == 0
        runs[name] = seen(json.loads(run_cli("report", "--format", "json").stdout))
    assert runs == dict.fromkeys(runs, (2, 1, False))


def seen(document):
    """Graphs, recompiles, and whether a part of the log is missing."""
    summary = document["summary"]
    gaps = document["recording"]["gaps"]
    return (
        summary["graphs"],
        summary["recompiles"],
        any(gap["kind"] == "log_removed" for gap in gaps),
    )


def test_a_model_file_that_clears_the_handlers_loses_nothing(tmp_path, explain_json):
    (tmp_path / "model.py").write_text(
        MODEL.format(taken_apart="pass") + "\ntrace.handlers.clear()\n"
    )
    runs = explain_json("model.py", "--no-coverage")
    assert (runs["summary"]["graphs"], len(runs["recording"]["calls"])) == (2, 2)


def test_records_lost_while_compiling_exit_with_code_2(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(BACKEND)
    process = run_cli("explain", "model.py:Net", "--backend", "careless", "--no-coverage", "-q")
    assert process.returncode == 2
    assert "error: The program changed torch's trace logger" in process.stderr
    assert "records of 1 compile are missing" in process.stderr
    gap = next(gap for gap in read_last(tmp_path).gaps if gap.kind == "log_removed")
    assert gap.code == "GD902"


def test_a_log_that_the_program_deletes_is_missed(tmp_path, run_cli):
    way = "import glob, os; [os.remove(log) for log in glob.glob('.graphdoctor/*/trace/*')]"
    (tmp_path / "model.py").write_text(MODEL.format(taken_apart=way))
    process = run_cli("explain", "model.py", "--no-coverage", env=clean_environment())
    assert process.returncode == 2
    assert "The trace log has none of the calls that were made" in process.stderr


def read_last(folder):
    return read_recording(next((folder / ".graphdoctor").glob("2*")))
