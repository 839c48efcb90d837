"""The registry of formats: every format of every document renders, and nothing is imported before
it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from rich.console import Console

from graphdoctor.facts.diagnosis import EditRequest, Result
from graphdoctor.facts.profile import ProfileResult
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.fixes.lint import lint_files
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.studies import documents
from graphdoctor.trace.reader import read_recording
from graphdoctor.views import formats
from graphdoctor.views.formats import Document, Format, RenderOptions
from graphdoctor.views.json import DOCUMENTS as KINDS
from graphdoctor.views.json import schema_text
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import diagnosed
from tests.studies.accuracy.reports import wrong
from tests.studies.bench.cure_reports import cured
from tests.studies.bench.reports import attention, mobilenet, troubled
from tests.studies.export.reports import blocked
from tests.studies.profile.reports import profiled
from tests.studies.ranks.reports import compiled, job, rank
from tests.studies.survey.comparisons import changed
from tests.studies.survey.reports import report as survey_report
from tests.views.check_reports import failed_report, report, worse_report

RECORDING = RECORDED_LOGS / "2.13.0" / "break_in_try"
OPTIONS = RenderOptions(root=Path("/project"), is_verbose=True)
DOCUMENTS: dict[str, Document[Any]] = {
    name: found
    for room in (formats, documents)
    for name, found in vars(room).items()
    if type(found) is Document
}
EVERY_FORMAT = [
    (document, each)
    for document in DOCUMENTS.values()
    for each in document.formats
    if not each.is_binary
]
"""Those whose document is text."""
MORE: dict[str, tuple[Any, ...]] = {
    "BENCH": (mobilenet(), troubled()),
    "CHECK": (worse_report(), report()),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An example of each document, by the name of its constant."""
    recording = read_recording(RECORDING, guards=True, picture=True)
    diagnosis = diagnosed(recording)
    result = Result(diagnosis, recording.picture)
    folder = tmp_path_factory.mktemp("linted")
    program = folder / "model.py"
    program.write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    print(x)\n    return x + 1\n"
    )
    return {
        **dict.fromkeys(("DIAGNOSIS", "RECOMPILES", "VARIATIONS", "GUARDS", "FIXES"), result),
        "COMPARISON": compare(diagnosis, diagnosis, names=("before", "after")),
        "CHECK": failed_report(),
        "JOB": job(rank(0, compiled()), rank(1, compiled(), compiled("0/1", causes=("x: 1 → 2",)))),
        "BENCH": attention(),
        "ACCURACY": wrong(),
        "CURE": cured(),
        "EXPORT": blocked(),
        "SURVEY": survey_report(),
        "SURVEY_COMPARISON": changed(),
        "PROFILE": ProfileResult(profiled(), recording.picture),
        "LINT": lint_files([program], root=folder, version="0"),
        "RULES": list(ALL_RULES.values())[:2],
    }


def rendered(
    content: object, each: Format[Any], *, is_verbose: bool = True, width: int = 100
) -> str:
    """What a format makes of its document."""
    console = Console(file=StringIO(), width=width, color_system=None)
    return str(each.render(content, replace(OPTIONS, is_verbose=is_verbose, console=console)))


@for_each("document, each", EVERY_FORMAT)
def test_every_format_of_every_document_renders(
    document: Document[Any], each: Any, contents: dict[str, Any]
) -> None:
    (name,) = (name for name, found in DOCUMENTS.items() if found is document)
    text = rendered(contents[name], each)
    match each.name:
        case "json" | "sarif":
            assert json.loads(text)
        case "html":
            assert text.startswith("<!doctype html>")
        case "junit":
            assert ElementTree.fromstring(text).tag == "testsuites"
        case "github":
            assert text.startswith("::")
        case "markdown":
            assert text.startswith("## ")
        case "svg":
            drawn = ElementTree.fromstring(text)
            assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
            # What the terminal shows, and nothing that a viewer would have to load.
            shown = "".join(rendered(contents[name], document.named("text")).split())
            assert shown in "".join("".join(drawn.itertext()).split())
            assert "url(http" not in text
        case "csv":
            assert text.startswith("name,target,variant,status,")
        case "text":
            assert text.strip()
            assert "\x1b" not in text
        case unknown:
            pytest.fail(f"say here what {unknown} looks like")


def test_a_survey_is_rendered_as_bytes_of_its_table(contents: dict[str, Any]) -> None:
    each = documents.SURVEY.of_path(Path("survey.parquet"))
    assert each.is_binary
    content = each.render(contents["SURVEY"], OPTIONS)
    assert content.startswith(b"PAR1")
    assert content.endswith(b"PAR1")
    assert {
        each.name for document in DOCUMENTS.values() for each in document.formats if each.is_binary
    } == {"parquet"}


@pytest.mark.slow
def test_documents_match_their_schema_and_are_read_back(contents: dict[str, Any]) -> None:
    for kind, model in KINDS.items() - {("proposal", EditRequest)}:
        schema = json.loads(schema_text(kind))
        jsonschema.Draft202012Validator.check_schema(schema)
        validate = jsonschema.Draft202012Validator(schema).validate
        name = kind.replace("-", "_").upper()
        for content in (contents[name], *MORE.get(name, ())):
            document = json.loads(rendered(content, DOCUMENTS[name].named("json")))
            validate(document)
            assert plain(read_fact(model, document)) == document
        with pytest.raises(jsonschema.ValidationError):
            validate({**document, "schema_version": None})


@for_each("document", DOCUMENTS.values())
def test_names_and_endings_choose_one_format_each(document: Document[Any]) -> None:
    assert len(set(document.names)) == len(document.names)
    assert len(set(document.endings)) == len(document.endings)
    assert document.names[0] == "text"
    for each in document.formats:
        assert document.named(each.name) is each
        for ending in each.endings:
            assert document.of_path(Path(f"out{ending.upper()}")) is each


def test_the_registry_loads_no_renderer() -> None:
    code = (
        "import sys, graphdoctor.views.formats\n"
        "late = {'rich', 'jinja2', 'pydantic', 'pygments', 'orjson', 'difflib'}\n"
        "print(*late & {name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
