from __future__ import annotations

import pytest

from assay.analysis.attribution import (
    MODES,
    Label,
    attribute,
    attribute_by_alignment,
    attribute_by_replay,
)
from assay.analysis.attribution.signs import SIGNS
from assay.records import Step, ToolCall
from tests.analysis.attribution.accuracy import LabelledPrediction, accuracy, random_expectation
from tests.analysis.trajectories import acted, ran, said, subject, trajectory


def test_the_step_with_the_most_signs_is_named_with_its_actor_and_label() -> None:
    steps = [said(0, "Task: do it", name="boss"), said(1, "Let me look.", name="a"),
             said(2, "Let's assume that the file is there.", name="b"), said(3, "Done.", name="a")]  # fmt: skip
    found = attribute(trajectory(steps))
    assert found is not None
    assert (found.step, found.who, found.label) == (2, "b", Label("memory", "hallucination"))
    assert [c.step for c in found.candidates] == [2, 0, 1, 3]


def test_a_failed_execution_speaks_of_whoever_wrote_the_code() -> None:
    steps = [said(0, "Task", name="boss"), said(1, "```python\nx\n```", name="coder"),
             said(2, "exitcode: 1 (execution failed)", "environment", "shell"), said(3, "ok", name="a")]  # fmt: skip
    found = attribute(trajectory(steps))
    assert found is not None
    assert (found.step, found.who) == (1, "coder")


def test_calls_are_looked_at_too() -> None:
    bad = Step(1, "agent", tool_calls=(ToolCall("c", "book", "{", None, "no JSON"),))
    found = attribute(trajectory([acted(0, "look"), bad, acted(2, "look")]))
    assert found is not None
    assert (found.step, found.label) == (1, Label("action", "format_error"))


def test_alignment_names_the_first_act_after_the_last_that_a_winning_attempt_shares() -> None:
    passed = subject([ran(0, "ls"), ran(1, "cat a"), ran(2, "make"), ran(3, "make test")])
    failed = subject([ran(0, "ls"), ran(1, "cat b"), ran(2, "make"), ran(3, "rm -r src"), ran(4, "echo done")])
    found = attribute_by_alignment(failed.trajectory, failed.actions, [passed.actions])
    assert found is not None
    assert (found.step, found.method) == (3, "alignment")
    assert attribute_by_alignment(failed.trajectory, failed.actions, []) is None


def test_what_replay_showed_is_an_attribution() -> None:
    made = trajectory([said(0, "go", "user"), ran(1, "ls"), ran(2, "rm x", code=1)])
    found = attribute_by_replay(made, 1)
    assert found is not None
    assert (found.step, found.method) == (2, "counterfactual")
    assert attribute_by_replay(made, None) is None


def test_labels_are_those_of_the_published_taxonomy() -> None:
    assert all(kind.label.mode in MODES[kind.label.module] for kind in SIGNS.values())
    with pytest.raises(ValueError, match="memory has no mode"):
        Label("memory", "step_limit")


def test_accuracy_counts_what_was_not_attributed_as_wrong() -> None:
    found = accuracy([LabelledPrediction(1, "a", 1, "a"), LabelledPrediction(1, "a", None, None)])
    assert (found.step, found.agent) == (0.5, 0.5)
    assert random_expectation([(1, "a", [(0, "b"), (1, "a")]), (0, "a", [(0, "a")])]) == (0.75, 0.75)
