"""Errors, getting over them, going in circles, and how far an attempt gets."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.actions import actions_of
from assay.analysis.interface import Action
from assay.analysis.loops import loops_of
from assay.analysis.outcomes import outcome_of
from assay.analysis.progress import observed_progress
from assay.analysis.quality import process_quality
from assay.analysis.reach import landmarks, reach_of
from assay.analysis.recovery import recovery_of
from assay.analysis.states import states_of
from assay.records import Observation
from tests.analysis.made import call, step, trajectory


def ran(*pairs: tuple[str, str | None]) -> tuple[Action, ...]:
    """Commands and what came back, `!` at the beginning for an exit code of 1."""
    steps = []
    for command, text in pairs:
        code = 1 if text is not None and text.startswith("!") else 0
        seen = [] if text is None else [Observation(text, exit_code=code)]
        steps.append(step(call("bash", {"command": command}), seen=seen))
    return actions_of(trajectory(*steps))


def tool(name: str, text: str, **more: bool) -> Action:
    (action,) = actions_of(trajectory(step(call(name, {}), seen=[Observation(text, **more)])))
    return action


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (ran(("ls", None))[0], "none"),
        (ran(("ls", "a b"))[0], "ok"),
        (ran(("ls", "!no"))[0], "error:exit 1"),
        (ran(("python a.py", 'Traceback (most recent call last):\n  File "a"\nKeyError: 1'))[0], "error:KeyError"),
        (ran(("x", 'Traceback (most recent call last):\n  File "a"\na.b.MyError: 1\nmore'))[0], "error:MyError"),
        (ran(("pytest -q | tail -1", "1 failed, 2 passed in 0.1s"))[0], "error:tests"),
        (ran(("pytest -q | tail -1", "2 passed in 0.1s"))[0], "ok"),
        (ran(("cat log", "1 failed, 2 passed in 0.1s"))[0], "ok"),
        (tool("read", "ERROR: no such file"), "error:tool"),
        (tool("read", "def error(): pass"), "ok"),
        (tool("book", "no seat", error=True), "error"),
        (tool("bash", "sh: 1: foo: command not found"), "error:shell"),
    ],
)
def test_what_an_act_came_to(action: Action, outcome: str) -> None:
    assert outcome_of(action) == outcome


def test_getting_over_an_error_by_another_way_is_told_from_trying_again() -> None:
    found = recovery_of(
        ran(("pytest a b", "!"), ("pytest a b c", "ok"), ("make x", "!"), ("make x", "ok"), ("cc", "!"))
    )
    assert found.errors == (0, 2, 4)
    assert [(each.failed, each.mended, each.repeated) for each in found.recovered] == [(0, 1, False), (2, 3, True)]
    assert (found.share, found.reflective) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert recovery_of(ran(("ls", "a"))).share is None


def test_a_loop_is_stuck_where_every_round_comes_to_the_same() -> None:
    (stuck,) = loops_of(ran(("a", "at 1"), ("b", "x"), ("a", "at 2"), ("b", "x")))
    assert (stuck.start, stuck.length, stuck.rounds, stuck.stuck) == (0, 2, 2, True)
    (moving,) = loops_of(ran(("c", "z"), ("a", "red"), ("a", "green"), ("a", "blue")))
    assert (moving.start, moving.length, moving.rounds, moving.stuck) == (1, 1, 3, False)
    assert loops_of(ran(("a", "x"), ("a", "x"), ("b", "x"))) == ()


@given(st.text(alphabet="ab", max_size=30))
def test_loops_stand_where_they_are_said_to(letters: str) -> None:
    end = 0
    for loop in loops_of(ran(*((letter, "x") for letter in letters))):
        assert loop.start >= end
        unit = letters[loop.start : loop.start + loop.length]
        end = loop.start + loop.length * loop.rounds
        assert letters[loop.start : end] == unit * loop.rounds


def test_reach_and_accuracy_part() -> None:
    passing = [ran(("grep x a", "1"), ("ls", ""), ("make it", "ok")), ran(("grep x a", "1"), ("make it", "ok"))]
    marks = landmarks([states_of(each) for each in passing])
    assert [mark.what for mark in marks] == ["grep x a", "make it"]
    far = reach_of(ran(("grep x a", "1"), ("make it", "!")), marks)
    assert (far.reach, far.accuracy, far.positions) == (1.0, 0.5, (0, 1))
    near = reach_of(ran(("grep x a", "1"), ("pwd", "/")), marks)
    assert (near.reach, near.accuracy, near.positions) == (0.5, 1.0, (0, None))
    assert reach_of((), marks).accuracy is None


def test_there_are_no_landmarks_of_nobody() -> None:
    with pytest.raises(ValueError, match="at least one passing attempt"):
        landmarks([])


HOSTILE = ["\n", "1 passed, ", "Error: ", "Traceback (most recent call last)\n", "1 failed ", "Tests: "]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_output_takes_linear_time(piece: str) -> None:
    actions = ran(*[("pytest -q", "Traceback (most recent call last)" + piece * (200_000 // len(piece)))] * 2)
    started = time.perf_counter()
    for action in actions:
        outcome_of(action)
    observed_progress(actions)
    loops_of(actions)
    assert time.perf_counter() - started < 10


def test_long_hostile_attempts_take_no_quadratic_time() -> None:
    actions = ran(*((f"make t{n}", "!no" if n % 2 else "ok") for n in range(3000)))
    started = time.perf_counter()
    recovery_of(actions)
    loops_of(actions)
    process_quality(actions, [actions])
    assert time.perf_counter() - started < 30
