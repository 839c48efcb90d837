"""What people read of a profile: the answer first, the
rows add up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.profile import MemoryUse, ProfileReport
from graphdoctor.views.profile import profile_view
from graphdoctor.views.profile_words import Files
from tests.studies.profile.reports import PACKAGE_FILE, profiled, trained
from tests.views.outputs import on_terminal

ROOT = Path("/project")
REPORTS = {"inference": profiled, "training": trained}


def rendered(shown: ProfileReport, *, width: int = 80, is_verbose: bool = False) -> str:
    return on_terminal(profile_view(shown, None, root=ROOT), width=width, is_verbose=is_verbose)


@pytest.mark.parametrize("name", REPORTS)
def test_a_profile(snapshot: SnapshotAssertion, name: str) -> None:
    assert rendered(REPORTS[name](), width=140) == snapshot


def test_verbose_shows_all_rows() -> None:
    whole = rendered(trained(), width=140, is_verbose=True)
    assert "modeling_gpt2.py:252" in whole
    assert "more line" not in whole


def test_the_rows_of_a_table_add_up_to_the_call() -> None:
    table = (
        rendered(trained(), width=140, is_verbose=True)
        .partition("By line")[2]
        .partition("By module")[0]
    )
    *rows, whole = [float(found) for found in re.findall(r"(?m)^ *([\d.]+)% ", table)]
    assert whole == 100
    assert sum(rows) == pytest.approx(100, abs=1.5)


def keeping(**facts: Any) -> ProfileReport:
    """A profile of a graph that keeps nothing, but for what is said."""
    nothing = {
        "saved": (),
        "recomputed": {},
        "recomputed_count": 0,
        "peak_bytes": None,
        "saved_bytes": None,
    }
    return profiled(memory=MemoryUse(**nothing | facts))


def cheap(**facts: Any) -> ProfileReport:
    """A profile of a graph that keeps what is cheap to compute again."""
    memory = profiled().memory
    return profiled(memory=memory.replace(saved=(memory.saved[0].replace(is_cheap=True),), **facts))


NO_KERNELS: dict[str, Any] = {"regime": None, "kernels": (), "lines": ()}
FORMS = {
    "no steady call": profiled(call_us=None, regime=None),
    "kernels that weren't measured": profiled(kernels_us=None, **NO_KERNELS),
    "no kernel": profiled(kernels_us=0.0, rest_us=1000.0, **NO_KERNELS),
    "no regime": profiled(regime=None),
    "kernels that take longer than the call": profiled(kernels_us=1200.0, rest_us=0.0, regime=None),
    "nothing saved": keeping(saved_bytes=0, eager_saved_bytes=0),
    "nothing saved, and something in eager mode": keeping(saved_bytes=0, eager_saved_bytes=4096),
    "saved by no known graph": keeping(saved_bytes=4096, unlisted_bytes=4096),
    "cheap to compute again": cheap(has_backward=True),
    "cheap to compute again, without a backward": cheap(has_backward=False),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_not_known_or_unusual_is_said_plainly(
    snapshot: SnapshotAssertion, name: str
) -> None:
    assert rendered(FORMS[name], width=120) == snapshot


def test_no_share_is_above_the_whole() -> None:
    first, *others = profiled().kernels
    text = rendered(profiled(kernels=(first.replace(share=9.02), *others)))
    assert "20%" in text
    assert "902" not in text


def test_files_are_shown_from_their_package_or_the_folder_on() -> None:
    files = Files(trained(), ROOT)
    assert files.place(PACKAGE_FILE, 5) == "transformers/models/gpt2/modeling_gpt2.py:5"
    assert files.place("/project/net/model.py", 5) == "net/model.py:5"
    assert files.shown("/elsewhere/site-packages/timm/layers.py") == "timm/layers.py"
    assert files.place("/elsewhere/model.py", None) == "/elsewhere/model.py"
