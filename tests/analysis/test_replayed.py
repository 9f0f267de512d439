"""A replay beside its record, and why it differs."""

from __future__ import annotations

from typing import Any

import pytest

from assay.analysis.causes import Cause, DivergenceFacts, cause_of, signature
from assay.analysis.replayed import Comparison, Difference, compare
from assay.records import AttemptStarted, Observation, Step, ToolCall, Trajectory

pytestmark = pytest.mark.quick
CALL = (ToolCall("t", "shell", "{}", {"command": "x"}),)


def seen(content: str, state: str | None = None, **fields: Any) -> Step:
    return Step(0, "agent", tool_calls=CALL, observations=(Observation(content, **fields),), state=state)


def trajectory(*steps: Step, outcome: str | None = "pass") -> Trajectory:
    started = AttemptStarted("r", "t@0", "t", "d", "a", None, 0, 0)
    fields: dict[str, Any] = dict.fromkeys(Trajectory.__struct_fields__, ())
    fields |= {"started": started, "finished": None, "outcome": outcome, "steps": steps, "agent": "a"}
    return Trajectory(**fields)


def compared(one: Step, other: Step, **given: Any) -> Comparison:
    return compare(trajectory(one), trajectory(other), **given)


def test_the_same_is_the_same() -> None:
    found = compared(seen("a", "s"), seen("a", "s"))
    assert (found.agrees, found.exact, found.same_states, found.states) == (True, 1, 1, 1)


def test_what_means_nothing_is_counted_apart() -> None:
    found = compared(seen("in 0.1s"), seen("in 0.2s"))
    assert (found.agrees, found.exact, found.normalised, found.volatile) == (True, 0, 1, ("pytest-time",))


@pytest.mark.parametrize(
    ("other", "field"),
    [
        (seen("b"), "content"),
        (seen("a", stderr="oh"), "stderr"),
        (seen("a", exit_code=1), "exit_code"),
        (seen("a", timed_out=True), "timed_out"),
        (Step(0, "agent", tool_calls=CALL), "missing"),
        (seen("a", "s2"), "state"),
    ],
)
def test_the_first_difference_is_named(other: Step, field: str) -> None:
    found = compared(seen("a", "s1"), other)
    assert found.first is not None
    assert (found.agrees, found.first.field, found.first.step) == (False, field, 0)


def test_a_step_that_is_missing_is_a_difference() -> None:
    found = compare(trajectory(seen("a"), seen("b")), trajectory(seen("a")))
    assert found.first == Difference(1, "missing", "shell", "no step")


def test_another_outcome_alone_is_no_agreement() -> None:
    found = compare(trajectory(seen("a")), trajectory(seen("a"), outcome="fail"))
    assert (found.first, found.same_outcome, found.agrees) == (None, False, False)


def test_states_that_differ_where_it_means_nothing_agree() -> None:
    before, now = {"/w/__pycache__/a.pyc": "1", "/w/a": "x"}, {"/w/__pycache__/a.pyc": "2", "/w/a": "x"}
    found = compared(seen("a", "s1"), seen("a", "s2"), finals=(before, now))
    assert (found.agrees, found.same_states, [p.volatile for p in found.paths]) == (True, 1, [True])
    assert not compared(seen("a", "s1"), seen("a", "s2"), finals=(before, {**now, "/w/a": "y"})).agrees


def test_final_states_that_differ_are_seen_where_no_step_shows_it() -> None:
    found = compare(trajectory(), trajectory(), finals=({"/w/a": "x"}, {}))
    assert found.first == Difference(0, "state", "x", "/w/a is as in the image")


def test_what_was_tried_in_a_fork_is_not_compared() -> None:
    found = compared(seen("a"), Step(0, "agent", message="try"))
    assert (found.agrees, found.forks, found.observations) == (True, 1, 0)


FIRST = Difference(0, "content", "a", "b", 0)


def why(first: Difference = FIRST, tried: dict[str, str] | None = None, **given: Any) -> Cause:
    known = DivergenceFacts(first=first, recorded=("a",), replayed=("b",), **given)
    return cause_of(known, {name: (value,) for name, value in (tried or {}).items()})


CLOCK = {"clock-control": "d", "clock-1": "c", "clock-2": "c"}


@pytest.mark.parametrize(
    ("tried", "given", "kind", "by"),
    [
        ({"again": "x", "hash-seed-1": "y", "hash-seed-2": "y"}, {}, "ordering", "experiment"),
        ({"again": "x", "hash-seed-1": "y", "hash-seed-2": "z", **CLOCK}, {}, "time", "experiment"),
        ({"again": "x", "hash-seed-1": "y", "hash-seed-2": "z"}, {}, "randomness", "experiment"),
        ({"again": "x", "hash-seed-1": "x", "hash-seed-2": "z", **CLOCK, "clock-control": "b"}, {}, "time", "guess"),
        ({"again": "x"}, {"network": True}, "network", "guess"),
        ({"again": "b", **CLOCK, "clock-1": "a"}, {}, "time", "experiment"),
        ({"again": "b", **CLOCK}, {}, "time", "experiment"),
        ({"again": "b", "hash-seed-1": "c"}, {}, "ordering", "experiment"),
        ({"again": "b"}, {"missing": ("an upload",)}, "missing", "comparison"),
        ({"again": "b"}, {"changed": ("tools was x, is y",)}, "environment", "comparison"),
        ({"again": "b"}, {"network": True}, "network", "guess"),
        ({"again": "b"}, {}, "unknown", "guess"),
    ],
)
def test_the_cause_follows_from_the_experiments(
    tried: dict[str, str], given: dict[str, Any], kind: str, by: str
) -> None:
    found = why(FIRST, tried, **given)
    assert (found.kind, found.by) == (kind, by)


def test_the_same_lines_in_another_order_are_an_ordering() -> None:
    found = compared(seen("a\nb"), seen("b\na")).first
    assert found is not None
    assert (found.reordered, why(found).kind) == (True, "ordering")


def test_a_signature_is_what_the_step_showed_without_what_means_nothing() -> None:
    one, other = trajectory(seen("in 1.5s", "s")), trajectory(seen("in 2.5s", "t"))
    assert signature(one, FIRST) == signature(other, FIRST)
    state = Difference(0, "state", "s", "t")
    assert (signature(one, state), signature(other, state)) == (("s",), ("t",))
    assert signature(one, Difference(4, "content", "", ""))[0] == "no step"
