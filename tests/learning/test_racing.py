"""Racing: who is dropped, how often wrongly, and a race of real runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.learning.evolution.evolve import evolve
from assay.learning.evolution.racing import Race
from tests.learning.test_evolution import RECIPE, Interrupted, plain, recipe, settings_in

RACING = {**RECIPE["search"], "tasks": ["family:grid,n=32,size=4,seed=1"], "method": "racing", "rounds": 4}


def race_of(rates: list[float], draw: random.Random, *, tasks: int = 96, looks: int = 8) -> Race:
    race = Race([str(n) for n in range(len(rates))], attempts=1, looks=looks, level=0.05)
    for _ in range(looks):
        hard = [draw.random() for _ in range(tasks // looks)]  # the same tasks for all
        race.look({name: [int(draw.random() * h < rates[int(name)] / 2) for h in hard] for name in race.left})
    return race


@pytest.mark.quick
def test_by_hand_eight_wins_of_eight_are_enough_for_one_pair_and_one_look() -> None:
    race = Race(["a", "b"], attempts=1, looks=1, level=0.05)
    assert race.look({"a": [0] * 8, "b": [1] * 8}) == [("a", "b")]  # 2 ** -8 = 0.004
    more = Race(["a", "b", "c"], attempts=1, looks=8, level=0.05)
    assert more.look({"a": [0] * 8, "b": [1] * 8, "c": [1] * 8}) == []  # each has 0.05 / 16 = 0.003
    assert more.look({"a": [0], "b": [1], "c": [1]}) == [("a", "b")]
    assert (more.left, more.best()) == (["b", "c"], "b")


def test_the_best_of_equals_is_seldom_dropped_and_much_worse_ones_are() -> None:
    draw = random.Random(7)
    equal = [race_of([0.5] * 6, draw) for _ in range(80)]
    assert sum("0" not in one.left for one in equal) <= 80 * 0.05
    unequal = [race_of([0.9, 0.2, 0.2, 0.2], draw) for _ in range(20)]
    assert all(one.left == ["0"] for one in unequal)


async def test_a_race_finds_the_winner_drops_others_and_ends_alike_if_interrupted(tmp_path: Path) -> None:
    said, more = list[str](), list[str]()
    whole = await evolve(recipe(search=RACING), settings_in(tmp_path / "a"), said.append)
    assert (whole.winner["noise"], whole.accepted) == (0.0, True)
    dropped = [text for text in said if text.startswith("dropped")]
    assert any("noise=0.8" in text.split(";")[0] for text in dropped)
    assert not any("noise=0.0" in text.split(";")[0] for text in dropped)

    def stop(text: str) -> None:
        more.append(text)
        if len(more) == 9:
            raise Interrupted

    with pytest.raises(Interrupted):
        await evolve(recipe(search=RACING), settings_in(tmp_path / "b"), stop)
    assert plain(await evolve(recipe(search=RACING), settings_in(tmp_path / "b"))) == plain(whole)


@pytest.mark.quick
def test_a_race_of_too_many_combinations_is_refused() -> None:
    with pytest.raises(UserError, match="combinations"):
        recipe(search=RACING, space={"noise": list(range(30)), "steps": list(range(1, 31))})
