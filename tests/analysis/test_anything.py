"""Whatever a trajectory holds, the process measures answer, and keep to their ranges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.actions import actions_of, is_test_run, read_paths, removed_paths, written_paths
from assay.analysis.outcomes import outcome_of
from assay.analysis.prefix_tree import divergence, prefix_tree
from assay.analysis.quality import process_quality
from assay.analysis.quotient import bifurcations, quotient_graph
from assay.analysis.recovery import recovery_of
from assay.analysis.states import states_of
from assay.records import Observation, Step, ToolCall, Trajectory
from tests.analysis.made import trajectory
from tests.formats.generated import trajectories

NAMES = ["bash", "shell", "str_replace_editor", "apply_patch", "read_file", "Edit", "open", "edit", "submit", "python",
         "grep", "think", "", "mcp__a__bash", "unknown"]  # fmt: skip
FIELDS = ["command", "cmd", "path", "file_path", "paths", "content", "edits", "view_range", "code", "action", "patch"]
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 99), st.text(max_size=12), st.floats(allow_nan=False))
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(st.sampled_from(FIELDS), scalars, max_size=2),
    st.lists(st.dictionaries(st.sampled_from(FIELDS), scalars, max_size=2), max_size=2),
)
arguments = st.one_of(st.none(), st.dictionaries(st.sampled_from(FIELDS), values, max_size=4))
calls = st.builds(ToolCall, st.sampled_from(["", "1", "2"]), st.sampled_from(NAMES), st.text(max_size=20), arguments)
seen = st.builds(
    Observation,
    st.text(max_size=30),
    st.sampled_from([None, "1", "9"]),
    st.sampled_from([None, 0, 1]),
    st.booleans(),
)
steps = st.builds(
    Step,
    st.just(0),
    st.sampled_from(["agent", "other_agent", "user", "environment"]),
    st.one_of(st.none(), st.text(max_size=9)),
    st.none(),
    st.lists(calls, max_size=3).map(tuple),
    st.lists(seen, max_size=4).map(tuple),
)
odd = st.lists(steps, max_size=6).map(lambda held: trajectory(*held))


def measured(held: Trajectory) -> None:
    actions = actions_of(held)
    assert [action.index for action in actions] == list(range(len(actions)))
    for action in actions:
        assert outcome_of(action)
        assert isinstance(is_test_run(action), bool)
        assert all(isinstance(path, str) for of in (written_paths, read_paths, removed_paths) for path in of(action))
    for quality in (process_quality(actions), process_quality(actions, [actions, ()])):
        assert quality is None or 0.0 <= quality.score <= 1.0
    assert len(recovery_of(actions).recovered) <= len(recovery_of(actions).errors)


@pytest.mark.long
@settings(max_examples=60)
@given(odd)
def test_odd_calls_and_observations_are_measured(held: Trajectory) -> None:
    measured(held)


@settings(max_examples=30)
@given(trajectories())
def test_generated_trajectories_are_measured(held: Trajectory) -> None:
    measured(held)


@pytest.mark.long
@settings(max_examples=30)
@given(st.lists(st.tuples(odd, st.sampled_from([True, False, None])), max_size=5))
def test_many_odd_attempts_make_a_tree_and_a_graph(held: list[tuple[Trajectory, Any]]) -> None:
    actions = [actions_of(each) for each, _ in held]
    outcomes = [outcome for _, outcome in held]
    tree = prefix_tree([states_of(each) for each in actions], outcomes)
    graph = quotient_graph(actions, outcomes)
    assert [len(walk) for walk in tree.walks] == [len(walk) for walk in graph.walks] == [len(each) for each in actions]
    assert all(0.0 <= found.gain <= 1.0 for found in bifurcations(graph))
    for attempt in range(len(held)):
        divergence(tree, attempt)
