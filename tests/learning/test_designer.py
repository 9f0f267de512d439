"""A designer's credit, and what it learns from nested rollouts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from assay.learning.evolution.designer import Designer, design_credit
from assay.learning.evolution.evolve import EvolutionEntry, evolve
from assay.store.chained_file import ChainedFile
from tests.learning.test_evolution import RECIPE, plain, recipe, settings_in

SPACE = {"a": [0, 1, 2], "b": [0, 1]}


def test_credit_is_relative_to_the_round() -> None:
    found = design_credit([1.0, 0.5, 0.0])
    assert found == pytest.approx([0.5 / (np.sqrt(1 / 6) + 0.05), 0.0, -0.5 / (np.sqrt(1 / 6) + 0.05)])
    assert design_credit([0.5, 0.5]) == [0.0, 0.0]


def test_preferences_move_by_hand_computed_steps() -> None:
    designer = Designer({"a": [0, 1]}, seed=0)
    designer.learn([{"a": 0}, {"a": 1}], [1.0, -1.0])  # 0.8 * (1 * 0.5 - 1 * -0.5) / 2 = 0.4 for the first value
    first, second = designer.chances("a")
    assert first / second == pytest.approx(np.exp(0.8))
    assert designer.best() == {"a": 0}


def test_it_finds_better_designs_than_a_grid_with_as_many_executions() -> None:
    def play(seed: int) -> tuple[float, float]:
        draw = np.random.default_rng(seed)
        worth = {"a": draw.permutation([0, 0.2, 0.4]), "b": draw.permutation([0, 0.2])}
        rates = [[0.2 + a + b for b in worth["b"]] for a in worth["a"]]
        designer = Designer(SPACE, seed)
        for _ in range(6):
            drawn = designer.draw(4)
            scores = [draw.binomial(4, rates[one["a"]][one["b"]]) / 4 for one in drawn]
            designer.learn(drawn, design_credit(scores))
        best, grid = designer.best(), draw.binomial(16, np.array(rates)).argmax()
        return rates[best["a"]][best["b"]], float(np.array(rates).ravel()[grid])

    designed, gridded = np.mean([play(seed) for seed in range(60)], axis=0)
    assert designed > 0.7 > 0.5  # a random design is worth 0.5, the best 0.8
    assert designed > gridded - 0.05


async def test_a_search_by_designs_records_credit_and_ends_alike_when_it_is_continued(tmp_path: Path) -> None:
    search = {**RECIPE["search"], "method": "designs", "rounds": 4, "batch": 6}
    settings = settings_in(tmp_path)
    found = await evolve(recipe(search=search), settings)
    assert (found.winner["noise"], found.accepted) == (0.0, True)
    entries = ChainedFile(Path(found.ledger), EvolutionEntry).read()
    designs = [one for one in entries if isinstance(one.credit, float)]
    assert len(designs) >= 4
    best = max(designs, key=lambda one: float(str(one.credit)))
    assert best.options["noise"] < 0.8
    assert plain(await evolve(recipe(search=search), settings)) == plain(found)
    assert len(ChainedFile(Path(found.ledger), EvolutionEntry).read()) == len(entries)


def test_a_round_needs_two_designs() -> None:
    with pytest.raises(msgspec.ValidationError, match="designs"):
        recipe(search={**RECIPE["search"], "method": "designs", "designs": 1})
