"""Errors, getting over them, going in circles, and how far an attempt gets."""

from __future__ import annotations

import time

import pytest

from assay.analysis.actions import actions_of
from assay.analysis.interface import Action
from assay.analysis.outcomes import outcome_of
from assay.analysis.quality import process_quality
from assay.analysis.recovery import recovery_of
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


HOSTILE = ["\n", "1 passed, ", "Error: ", "Traceback (most recent call last)\n", "1 failed ", "Tests: "]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_output_takes_linear_time(piece: str) -> None:
    actions = ran(*[("pytest -q", "Traceback (most recent call last)" + piece * (200_000 // len(piece)))] * 2)
    started = time.process_time()
    for action in actions:
        outcome_of(action)
    assert time.process_time() - started < 10


@pytest.mark.long
def test_long_hostile_attempts_take_no_quadratic_time() -> None:
    actions = ran(*((f"make t{n}", "!no" if n % 2 else "ok") for n in range(1500)))
    started = time.process_time()
    recovery_of(actions)
    process_quality(actions, [actions])
    assert time.process_time() - started < 7.5
