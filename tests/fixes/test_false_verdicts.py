"""Programs on which a fix looks good and isn't: each gets the verdict that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command
from tests.each import at_night
from tests.factories import why
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

NOISE, SCALE, LOOP, HEAD, NET, TRAIN = texts_beside(__file__)
INPUTS = "\n\ndef example_inputs():\n    return torch.randn(4, 8)\n"


def in_class(forward: str) -> str:
    return f"{HEAD}\n\n{NET}\n{forward}{INPUTS}"


def treated(folder: Path, text: str, *arguments: str, target: str = "Net") -> dict[str, Any]:
    """The treatment of a program, and its findings."""
    (folder / "model.py").write_text(text)
    command = (
        "fix",
        f"model.py:{target}",
        "--unsafe-fixes",
        "--no-timing",
        "--budget",
        "600",
        *arguments,
    )
    done = run_command(*command, "--format", "json", cwd=folder, status=0)
    document: dict[str, Any] = json.loads(done.stdout)
    return {"findings": document["findings"], **document["recording"]["treatment"]}


def fixes_of(treatment: dict[str, Any], word: str) -> list[dict[str, Any]]:
    fixes = [case for case in treatment["tried"] if word in (case["snippet"] or "") + case["title"]]
    assert fixes
    return fixes


def test_torch_compiles_own_changes_are_not_blamed_on_fixes(tmp_path):
    tried = treated(tmp_path, in_class(NOISE))["tried"]
    assert {case["verdict"] for case in tried} == {"verified"}
    assert all(
        "torch.compile changes outputs and gradients even without the fix" in (why(case) or "")
        for case in tried
    )
    # What was drawn is a part of the state.
    kinds = ["gradients", "outputs", "state"]
    assert all(case["attacked"]["torch_kinds"] == kinds for case in tried)


ATTACKED = {
    "a fallback that nobody reaches while compiling": (
        """\
    def forward(self, x):
        h = self.fc(x)
        try:
            root = torch.linalg.cholesky(h.T @ h + torch.eye(8))
            print("ok")
        except torch.linalg.LinAlgError:
            root = torch.eye(8)
        return root.sum() + h.mean()
""",
        "the call raises _LinAlgError: linalg.cholesky: The factorization could not be completed",
        "x.data[2, 4] = float('nan')",
    )
}
"""Bodies, and what is said of the fixes that change results, with the input that shows it."""


@pytest.mark.parametrize("name", ATTACKED)
def test_fix_failing_on_extra_inputs_only_is_not_verified(tmp_path, name):
    body, reason, code = ATTACKED[name]
    tried = treated(tmp_path, in_class(body))["tried"]
    wrong = [case for case in tried if case["verdict"] == "changes results"]
    assert wrong
    assert all((why(case) or "").startswith(reason) for case in wrong)
    assert {case["attacked"]["failure"]["code"] for case in wrong} == {code}
    assert not any(case["is_applied"] for case in wrong)


def test_breaking_input_of_a_random_program_has_its_seed(tmp_path):
    body = """\
    def forward(self, x):
        y = self.fc(torch.nan_to_num(x))
        if self.training and torch.rand(1) < 0.5:
            y = y * x.sum()
        return y
"""
    [case] = fixes_of(treated(tmp_path, in_class(body)), "Choose `y`")
    seed, code = case["attacked"]["failure"]["code"].splitlines()
    assert (seed[:18], code) == ("torch.manual_seed(", "x.data[2, 4] = float('nan')")


@pytest.mark.parametrize(
    ("condition", "rest", "verdict", "reason"),
    [
        at_night("x == 0.0", "x * 2 - x", "verified", None),
        # An input that makes it true is searched.
        ("x == 0.123", "x * 2 - x", "verified", None),
        ("x == 0.123", "x * 2", "changes results", "when the condition at line 17 is true"),
        ("x.sin() > 2", "x * 2 - x", "unproven", "no input that was tried reaches line 18"),
    ],
)
def test_early_out_is_dropped_only_if_inputs_take_it(tmp_path, condition, rest, verdict, reason):
    body = f"""\
    def steps(self, x):
        for _ in range(3):
            if ({condition}).any():
                break
            x = {rest}
        return x

    def forward(self, x):
        return self.steps(x)
"""
    [case] = fixes_of(treated(tmp_path, in_class(body)), "Drop the early out")
    assert (case["verdict"], case["is_applied"]) == (verdict, verdict == "verified")
    assert (why(case) is None) if reason is None else (why(case) or "").endswith(reason)


SHORTCUTS = """\
    def forward(self, x):
        applies = {condition}
        if applies.all():
            x = {all}
        elif not applies.any():
            x = x - 1
        else:
            y = x * 2
            if self.training:
                y = y.clone()
            x = torch.where(applies[:, None], y, x - 1)
        return self.fc(x)
"""


@pytest.mark.parametrize(
    ("condition", "all_rows", "verdict", "reason"),
    [
        ("x[:, 0] > 0", "x * 2", "verified", None),
        ("x[:, 0] > 0", "x * 2 + 0.5", "changes results", "output differs"),
        # No input takes it until the condition itself is set.
        ("x[:, 0] == 0.123", "x * 2 + 0.5", "changes results", "`applies` in `forward` is all 1"),
        # An empty batch takes it, and shows nothing.
        (
            "(x[:, 0] > 0) & (torch.arange(len(x)) > 0)",
            "x * 2 + 0.5",
            "unproven",
            "no input that was tried reaches line",
        ),
    ],
)
def test_shortcuts_are_only_dropped_if_inputs_take_each_of_them(
    tmp_path, condition, all_rows, verdict, reason
):
    body = SHORTCUTS.format(condition=condition, all=all_rows)
    treatment = treated(tmp_path, in_class(body))
    [case] = fixes_of(treatment, "Keep only the `else` of `if applies.all()")
    assert case["verdict"] == verdict
    assert (why(case) is None) if reason is None else (reason in (why(case) or ""))


CHECKED = "Check the value in the graph"
RAISES = """\
    def forward(self, x):
        return self.scaled(x) + self.scaled(-x)

    def scaled(self, x):
        y = self.fc(x)
        if {condition}: raise {exception}
        return y * 2
"""


@pytest.mark.parametrize(
    ("condition", "exception", "verdict", "reason"),
    [
        (
            "x.sum() > 1000",
            'AssertionError("large")',
            "verified with loss",
            "changes the exception: AssertionError → RuntimeError",
        ),
        at_night(
            "x.sum() > 1000",
            'ValueError("large")',
            "verified with loss",
            "changes the exception: ValueError → RuntimeError",
        ),
        (
            "x.sum() > 1000",
            'ValueError(f"{x.sum()}")',
            "verified with loss",
            "changes the exception: ValueError → RuntimeError",
        ),
        ("(y == 0.123).any()", 'RuntimeError("large")', "unproven", None),
    ],
)
def test_another_exception_is_named_where_an_input_shows_it(
    tmp_path, condition, exception, verdict, reason
):
    treatment = treated(tmp_path, in_class(RAISES.format(condition=condition, exception=exception)))
    [case] = fixes_of(treatment, CHECKED)
    assert (case["verdict"], case["is_applied"]) == (verdict, verdict != "unproven")
    assert (why(case) or "").startswith(reason or "no input that was tried raises at line")
    exceptions = case["attacked"]["exceptions"]
    assert bool(exceptions) is (verdict == "verified with loss")
    # Eager mode raises what it did.
    assert all(found["is_compiled"] for found in exceptions)


def test_a_check_in_the_graph_raises_in_eager_mode_what_it_did(tmp_path):
    body = "        if x.sum() > 1000: raise ValueError(x)\n        return self.fc(x).relu()\n"
    treatment = treated(tmp_path, in_class(f"    def forward(self, x):\n{body}"))
    [case] = [case for case in treatment["tried"] if case["is_applied"]]
    assert (case["title"][: len(CHECKED)], case["verdict"]) == (CHECKED, "verified with loss")
    reason = "changes the exception: ValueError → RuntimeError"
    assert (why(case) or "").startswith(reason)
    assert all(found["is_compiled"] for found in case["attacked"]["exceptions"])
    assert "raise ValueError(x) from None" in case["diff"]


def test_break_returning_on_the_next_line_has_moved(tmp_path):
    treatment = treated(tmp_path, in_class(SCALE.replace("y = y * scale", "return y[:1]")))
    [kept] = fixes_of(treatment, "Keep a detached tensor")
    [captured] = fixes_of(treatment, "capture_scalar_outputs")
    for case in (kept, captured):
        assert (case["verdict"], case["is_applied"]) == ("moved", False)
        assert "(GB0170) instead" in (why(case) or "")
    [finding] = [item for item in treatment["findings"] if item["code"] == "GD103"]
    is_gone = any(fix["verdict"] == "verified" for fix in finding["fixes"])
    assert finding["is_mended"] is is_gone


def test_break_returning_on_the_next_line_is_gone_with_the_fix_of_that_line(tmp_path):
    treatment = treated(tmp_path, in_class(SCALE))
    read, chosen = treatment["tried"]
    assert (read["verdict"], chosen["verdict"]) == ("verified", "verified")
    assert read["is_applied"] and chosen["is_applied"]
    assert "(GB0170) instead, until other fixes are applied too" in (why(read) or "")
    assert (treatment["after"]["break_sites"], treatment["left"]) == (0, [])


@pytest.mark.parametrize(
    "printed",
    [
        '"y", y.mean().item(), y.shape',
        at_night("[y.mean()]"),
        at_night("torch.Size(y.shape), self"),
    ],
)
def test_unprintable_value_is_not_left_for_torch_to_print(tmp_path, printed):
    forward = f"    def forward(self, x):\n        y = self.fc(x).sin()\n        print({printed})\n        return y.cos()\n"
    treatment = treated(tmp_path, in_class(forward))
    later = [
        fix
        for fix in treatment["tried"]
        if "reorderable_logging_functions" in (fix["snippet"] or "")
    ]
    assert "verified" not in [fix["verdict"] for fix in later]
    assert treatment["after"]["break_sites"] == 0


def test_failing_fix_beside_another_on_its_line_is_reverted(tmp_path):
    forward = """\
    def forward(self, x):
        x = x.sin()
        if x.sum() > 0:
            return x
        x = x.cos()
        y = x[0].clone()
        y.unsqueeze_(0)
        x.unsqueeze_(0)
        print("sum", x.sum().item())
        return x + y
"""
    program = in_class(forward).replace("torch.randn(4, 8)", "-torch.ones(4, 4)")
    treatment = treated(tmp_path, program)
    [dropped] = fixes_of(treatment, "Drop the early out")
    assert (dropped["verdict"], dropped["is_applied"]) == ("changes results", False)
    # The read and the print on one line go by one edit, and the text stays.
    printed = fixes_of(treatment, "Print it from inside the graph")
    assert {fix["code"] for fix in printed} == {"GD101", "GD103"}
    assert {(fix["verdict"], fix["is_applied"]) for fix in printed} == {("verified", True)}
    later = [
        fix
        for fix in treatment["tried"]
        if "reorderable_logging_functions" in (fix["snippet"] or "")
    ]
    assert "verified" not in [fix["verdict"] for fix in later]
    # What returns early has another shape, so that the break stays, and its verdict with it.
    assert treatment["after"]["break_sites"] == 1
    assert [(left["code"], left["verdict"]) for left in treatment["left"]] == [
        ("GD102", "changes results")
    ]


def test_a_log_of_plain_values_is_kept_in_the_graph(tmp_path):
    [case] = treated(tmp_path, in_class(LOOP))["tried"]
    assert (case["verdict"], case["grade"], why(case)) == ("verified", "merged", None)
    assert case["compared"]["differences"] == []


def test_a_fix_that_silences_a_log_says_so(tmp_path):
    # No operator can be given the object.
    loop = LOOP.replace('"layer %d", layer', '"layer %d of %s", layer, self')
    treatment = treated(tmp_path, in_class(loop))
    verified = [case for case in treatment["tried"] if case["verdict"].startswith("verified")]
    assert {case["verdict"] for case in verified} == {"verified with loss"}
    for case in verified:
        kinds = {difference["kind"] for difference in case["compared"]["differences"]}
        assert kinds in (set(), {"logs", "stderr"})
        reason = "drops 9 log lines ('WARNING net: layer 0 of Net(') while compiling"
        has_loss = case["verdict"] == "verified with loss"
        assert (reason in (why(case) or "")) is has_loss is bool(kinds)


@pytest.mark.nightly
def test_edit_leaving_the_optimizer_step_eager_is_not_written(tmp_path):
    treatment = treated(tmp_path, f"{HEAD}\n\n{TRAIN}", "--apply", target="train_step")
    before, after = treatment["before"], treatment["after"]
    applied = [case for case in treatment["tried"] if case["is_applied"]]
    assert all(case["after"]["coverage"] > case["before"]["coverage"] - 0.01 for case in applied)
    assert after is None or after["coverage"] > before["coverage"] - 0.01
    for case in treatment["tried"]:
        if case["after"] and case["after"]["coverage"] < 0.5 < before["coverage"]:
            assert (case["verdict"], case["is_applied"]) == ("makes it worse", False)
    if not applied:
        assert (tmp_path / "model.py").read_text() == f"{HEAD}\n\n{TRAIN}"


DRAWN = """\
    def forward(self, x):
        if random.random() < 0.5:
            scale = np.random.beta(0.4, 0.4)
            x = x * scale
        return self.fc(x)
"""


def test_random_choices_are_left_where_nobody_times_what_contains_them(tmp_path):
    calls = "\n\ndef example_inputs():\n    return [(torch.randn(4, 8),) for _ in range(3)]\n"
    treatment = treated(tmp_path, f"import random\n{HEAD}\n\n{NET}\n{DRAWN}{calls}")
    assert {"GD109"} <= {finding["code"] for finding in treatment["left"]}
    assert "contained" not in {case["grade"] for case in treatment["tried"]}
