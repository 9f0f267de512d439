"""What is put around worlds: it composes, is the same again, and keeps the truth."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.environments.worlds.opening import text_world, world_kind
from assay.environments.worlds.played import solution
from assay.environments.worlds.wrappers import DECLARE, WRAPPERS
from assay.environments.wrapping import parse_wrappers
from assay.errors import UserError
from tests.environments.worlds.every import NAMES, WORLDS, seen, wander

pytestmark = pytest.mark.quick
SPECS = st.lists(st.sampled_from(list(WRAPPERS)).map(lambda kind: {"kind": kind}), max_size=4)
SEEDS = st.integers(0, 2**32)
TWINNED = [(kind, config) for kind, config in WORLDS if kind != "tables"]


def made(which: tuple[str, dict[str, Any]], seed: int, wrap: Any, **config: Any) -> Any:
    return text_world(world_kind(which[0]), {**which[1], **config, "wrap": wrap}, seed)


@pytest.mark.parametrize("which", WORLDS, ids=NAMES)
@settings(max_examples=12, deadline=None)
@given(specs=SPECS, seed=SEEDS)
@example(specs=[], seed=46745)
def test_wrapped_worlds_keep_the_promises(which: tuple[str, dict[str, Any]], specs: Any, seed: int) -> None:
    world, other = made(which, seed, specs), made(which, seed + 1, specs)
    wander(world, random.Random(seed), most=5)
    kept, before, fork = world.snapshot(), seen(world), world.fork()
    assert wander(world, random.Random(1)) == wander(fork, random.Random(1))
    other.restore(kept)
    assert seen(other) == before


@pytest.mark.parametrize("which", TWINNED, ids=[kind for kind, _ in TWINNED])
def test_of_twins_one_is_solved_and_one_is_declared(which: tuple[str, dict[str, Any]]) -> None:
    for seed in range(5):
        one, other = (made(which, seed, [{"kind": "twin"}], solvable=solvable) for solvable in (True, False))
        assert (len(solution(one)), solution(other)) == (one.facts()["shortest"], [(DECLARE, {})])
        turn = one.fork().act(DECLARE, {})
        assert (turn.reward, turn.terminated) == (0.0, True)
        assert other.act(DECLARE, {}).reward == 1.0
        assert other.facts()["solved"]


def test_failures_are_errors_that_change_nothing_and_end() -> None:
    world = made(("grid", {}), 2, parse_wrappers("failures:rate=1.0:in_row=3"))
    before = world.state()
    turns = [world.act("move", {"direction": "up"}) for _ in range(4)]
    assert [turn.error for turn in turns] == [True, True, True, False]
    assert all("nothing was done" in turn.observation for turn in turns[:3])
    assert world.fork().state() in {before, world.state()}
    assert solution(world)


def test_noise_and_words_leave_the_names_of_states() -> None:
    plain, other = (
        made(("grid", {}), 2, []),
        made(("grid", {}), 2, parse_wrappers("noise:rate=1.0:how=chatter+paraphrase")),
    )
    assert plain.reset() in other.reset() or "goal" not in other.reset()
    assert plain.reset() != other.reset()
    assert plain.state() == other.state()


@pytest.mark.parametrize(
    "wrap", ["failures", [{"kind": "fog"}], [{"kind": "noise", "rate": 2}], [{"rate": 1}], [7], 20 * [{"kind": "twin"}]]
)
def test_a_wrong_wrapper_is_named(wrap: Any) -> None:
    with pytest.raises(ValueError, match="wrap"):
        made(("grid", {}), 1, wrap)


def test_a_wrong_form_is_told() -> None:
    with pytest.raises(UserError, match="key=value; write failures"):
        parse_wrappers("failures:0.1")
