"""Split constraints: parts are disjoint and each is needed; acts reveal no constraint."""

from __future__ import annotations

import itertools

import pytest

from assay.agents.clue_solver import Knowledge, read_clues
from assay.environments.worlds.constraints import Constraints
from assay.environments.worlds.interface import SplitsKnowledge
from assay.environments.worlds.split_constraints import SplitConstraints
from assay.environments.worlds.wrappers import wrap_world

pytestmark = pytest.mark.quick
CASES = [
    ({"parts": parts, "variables": variables}, seed) for parts, variables, seed in [(2, 4, 1), (3, 5, 2), (4, 5, 3)]
]


def fitting(world: SplitConstraints, clues: list[str]) -> int:
    known = Knowledge("ABCDEFGH"[: world.config.variables], world.config.values)
    assert known.add(clues) == 0
    return len(known.fitting)


@pytest.mark.parametrize(("parameters", "seed"), CASES)
def test_parts_are_disjoint_complete_and_each_leaves_a_choice(parameters: dict[str, int], seed: int) -> None:
    world = SplitConstraints(parameters, seed)
    parts = [read_clues(world.view(part)) for part in range(1, world.parts + 1)]
    assert all(not set(one) & set(other) for one, other in itertools.combinations(parts, 2))
    assert sorted(itertools.chain(*parts)) == sorted(read_clues(world.render()))
    assert fitting(world, [clue for part in parts for clue in part]) == 1
    assert all(part and fitting(world, part) > 1 for part in parts)
    assert read_clues(world.view(0)) == []


def test_an_act_shows_the_assignment_and_no_constraint() -> None:
    world = SplitConstraints({"variables": 3, "values": 3}, 5)
    for name, value in zip("ABC", (1, 1, 1), strict=True):
        turn = world.act("assign", {"variable": name, "value": value})
        assert turn.terminated or read_clues(turn.observation) == []
    assert "A=1 B=1 C=1; a constraint is broken" in turn.observation or turn.terminated


def test_the_oracle_solves_it_and_a_wrapper_hands_the_parts_on() -> None:
    world = SplitConstraints({}, 7)
    wrapped = wrap_world(SplitConstraints({}, 7), [{"kind": "paraphrase"}], 0)
    assert isinstance(wrapped, SplitsKnowledge)
    assert (wrapped.parts, bool(wrapped.view(1))) == (2, True)
    plain = wrap_world(Constraints({}, 7), [{"kind": "paraphrase"}], 0)
    assert isinstance(plain, SplitsKnowledge)
    assert plain.parts == 0
    while (act := world.oracle()) is not None:
        turn = world.act(*act)
    assert turn.terminated
    assert world.facts()["solved"]


def test_clues_of_every_kind_are_read_and_contradictions_ignored() -> None:
    known = Knowledge("ABC", 3)
    assert known.add(["A < B", "B + C = 4", "A is odd", "B != C", "C != 2"]) == 0
    assert known.fitting == [(1, 3, 1)]
    assert known.add(["A = B", "A < Z", "B < A", "not a clue"]) == 4
    assert known.certain() == {"A": 1, "B": 3, "C": 1}
