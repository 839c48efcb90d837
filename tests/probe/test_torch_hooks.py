"""What hooks the recorder into a program: imports that call back, and logs that a fork inherits."""

import importlib
import importlib.util
import logging
import sys
import traceback

import pytest

from graphdoctor.probe.torch_private import torch_api, torch_trace
from graphdoctor.probe.torch_private.imports import AfterImport


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported, and the names that called back."""
    (tmp_path / "watched_module.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    called = []
    finder = AfterImport({"watched_module": lambda loaded: called.append(loaded.VALUE)})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield tmp_path / "watched_module.py", called
    sys.modules.pop("watched_module", None)


def test_the_callback_comes_once_when_the_module_has_run(module):
    _, called = module
    loaded = importlib.import_module("watched_module")
    assert called == [1]
    assert vars(loaded.__loader__).keys() == {"name", "path"}
    importlib.reload(loaded)
    assert called == [1]


def test_asking_for_a_module_is_no_import_of_it(module):
    _, called = module
    assert importlib.util.find_spec("watched_module") is not None
    assert called == []
    importlib.import_module("watched_module")
    assert called == [1]


def test_failed_import_hides_our_lines_and_can_repeat(module):
    path, called = module
    path.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        importlib.import_module("watched_module")
    assert not any(
        entry.filename.endswith("imports.py")
        for entry in traceback.extract_tb(caught.value.__traceback__)
    )
    path.write_text("VALUE = 22\n")
    importlib.import_module("watched_module")
    assert called == [22]


def test_a_fork_lets_go_of_torchs_log(monkeypatch):
    strings = importlib.import_module("torch._logging.structured")
    monkeypatch.setattr(strings, "INTERN_TABLE", {"/a.py": 0})
    handler = logging.NullHandler()
    handler.root_dir = "folder"
    handler.stream = "the parent's"
    monkeypatch.setattr(torch_api.trace_logger(), "handlers", [handler])

    torch_trace.begin_log_anew()

    assert handler.stream is None
    assert strings.INTERN_TABLE == {}
