"""The grid: what it shows, where its ways lead, and what its shortcut pays."""

from __future__ import annotations

import pytest

from assay.environments.worlds.families import GridTasks
from assay.environments.worlds.grid import Grid

pytestmark = pytest.mark.quick


def test_the_oracle_takes_exactly_the_shortest_way() -> None:
    for seed in range(30):
        grid = Grid({"walls": 4}, seed)
        shortest, turn = grid.facts()["shortest"], None
        for _ in range(shortest):
            act = grid.oracle()
            assert act is not None
            turn = grid.act(*act)
        assert turn is not None
        assert turn[1:] == (1.0, True, False, False)
        assert grid.facts()["solved"]


def test_a_claim_is_paid_and_is_not_the_truth() -> None:
    grid = Grid({"shortcut": True}, 1)
    turn = grid.act("claim", {})
    assert (turn.reward, turn.terminated) == (1.0, True)
    assert (grid.facts()["claimed"], grid.facts()["at_goal"], grid.facts()["solved"]) == (True, False, False)


def test_a_twin_looks_the_same_and_cannot_be_solved() -> None:
    one, other = Grid({}, 4), Grid({"solvable": False}, 4)
    assert one.render() == other.render()
    assert other.oracle() is None
    assert one.state() != other.state()


def test_parts_share_no_world() -> None:
    parts = [{t.instruction for t in GridTasks(part=part).tasks(300, 1)} for part in ("train", "test")]
    assert all(parts)
    assert not parts[0] & parts[1]
