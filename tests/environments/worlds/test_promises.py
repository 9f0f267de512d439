"""What `TextWorld` promises, of every family, wherever random acts have led it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.environments.worlds.played import solution
from tests.environments.worlds.every import NAMES, WORLDS, made, seen, wander

pytestmark = pytest.mark.newest
World = tuple[str, dict[str, Any]]
every = pytest.mark.parametrize("which", WORLDS, ids=NAMES)
SEEDS = st.integers(0, 2**48)
quickly = settings(max_examples=15, deadline=None)


@every
@quickly
@given(seed=SEEDS, walk=SEEDS)
def test_a_restored_world_is_the_one_that_was_kept(which: World, seed: int, walk: int) -> None:
    world, draw = made(which, seed), random.Random(walk)
    wander(world, draw)
    kept, before = world.snapshot(), seen(world)
    wander(world, draw)
    world.restore(kept)
    assert seen(world) == before
    other = made(which, seed + 1)
    other.restore(kept)
    assert seen(other) == before
    assert wander(other, random.Random(walk)) == wander(world, random.Random(walk))


@every
@quickly
@given(seed=SEEDS, walk=SEEDS)
def test_a_fork_is_the_same_and_lives_alone(which: World, seed: int, walk: int) -> None:
    world, draw = made(which, seed), random.Random(walk)
    wander(world, draw)
    fork, before = world.fork(), seen(world)
    assert seen(fork) == before
    wander(fork, draw)
    assert seen(world) == before


@every
@quickly
@given(seed=SEEDS)
def test_the_oracle_solves_in_exactly_the_shortest_number_of_acts(which: World, seed: int) -> None:
    world = made(which, seed)
    acts = solution(world)
    assert len(acts) == world.facts()["shortest"]
    turns = [world.act(*act) for act in acts]
    assert all(not turn.error and not turn.terminated for turn in turns[:-1])
    assert (turns[-1].terminated, turns[-1].reward, world.facts()["solved"], world.progress()) == (True, 1.0, True, 1.0)
    assert world.oracle() is None


@every
@quickly
@given(seed=SEEDS, walk=SEEDS)
def test_the_oracle_knows_the_way_from_wherever_there_is_one(which: World, seed: int, walk: int) -> None:
    world = made(which, seed)
    wander(world, random.Random(walk), most=5)
    if world.oracle() is not None:
        world.limit = 10_000
        assert solution(world)


@every
@quickly
@given(seed=SEEDS, walk=SEEDS)
def test_the_same_acts_lead_to_the_same_places(which: World, seed: int, walk: int) -> None:
    one, other = made(which, seed), made(which, seed)
    assert one.render() == other.render()
    assert wander(one, random.Random(walk)) == wander(other, random.Random(walk))
    assert seen(one) == seen(other)


@every
@quickly
@given(seed=SEEDS, walks=st.lists(SEEDS, min_size=6, max_size=6))
def test_states_have_one_name_exactly_if_they_are_one(which: World, seed: int, walks: list[int]) -> None:
    world, known = made(which, seed), dict[str, Any]()
    for walk in walks:
        fork = world.fork()
        wander(fork, random.Random(walk), most=6)
        known.setdefault(fork.state(), (fork.now, fork.ended))
        assert known[fork.state()] == (fork.now, fork.ended)
    assert len({repr(place) for place in known.values()}) == len(known)


@every
@quickly
@given(
    seed=SEEDS,
    name=st.text(max_size=20),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_whatever_is_done_is_answered_and_a_wrong_act_changes_nothing(
    which: World, seed: int, name: str, value: Any
) -> None:
    world = made(which, seed)
    tools = [tool.name for tool in world.tools()]
    for tool in (name, *tools):
        before = world.state()
        for arguments in (value, {name: value}, {key: value for key in _keys(world, tool)}):
            turn = world.act(tool, arguments)
            assert isinstance(turn.observation, str)
            if turn.error:
                assert (world.state(), turn.reward) == (before, 0.0)
            before = world.state()


def _keys(world: Any, tool: str) -> list[str]:
    return [key for spec in world.tools() if spec.name == tool for key in spec.parameters["properties"]]


@every
def test_a_world_of_another_seed_is_another(which: World) -> None:
    states = {made(which, seed).state() for seed in range(12)}
    assert len(states) > 6
    world = made(which, 0)
    assert world.reset(5) == made(which, 5).render()
    assert world.state() == made(which, 5).state()


@every
def test_the_budget_cuts_and_decides_nothing(which: World) -> None:
    world = made(which, 3)
    turns = [world.act("nonsense", {}) for _ in range(world.limit + 1)]
    assert not turns[-3].truncated
    assert (turns[-2].truncated, turns[-2].terminated) == (True, False)
    assert "over" in turns[-1].observation
    assert (world.oracle(), world.choices()) == (None, [])


@every
@pytest.mark.parametrize("bad", [b"", b"{}", b"[1]", b"\xff", b'{"made":"grid {}","seed":1}'])
def test_bytes_of_no_snapshot_are_refused(which: World, bad: bytes) -> None:
    world = made(which, 1)
    before = seen(world)
    with pytest.raises(ValueError, match="snapshot"):
        world.restore(bad)
    assert seen(world) == before


@pytest.mark.parametrize("knob", [{"colour": 1}, {"turns": "many"}, {"turns": -1}, {"size": 99}, {"rows": 10**9}])
@every
def test_a_wrong_knob_is_named(which: World, knob: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(knob))):
        made(which, 1, **knob)
