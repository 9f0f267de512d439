"""What the experiments rest on: cells that are kept whole, the announced analysis, the coin of lost verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.learning.credit.interface import FAIL, PASS, make_batch
from experiments import _cells as cells
from experiments import credit, verification
from experiments.lost_verdicts import lost, which_are_lost

pytestmark = pytest.mark.newest
SEEDS = (1, 2, 3, 4, 5)


def made(arm: str, lift: float) -> dict[tuple[str, int], cells.Cell]:
    draw = np.random.default_rng(3)
    return {
        (arm, seed): cells.Cell(arm, seed, tuple(np.clip(draw.random(40) * 0.5 + lift, 0, 1).tolist()), 1.0)
        for seed in SEEDS
    }


@pytest.mark.long
def test_the_test_is_the_paired_t_test_over_seeds() -> None:
    from scipy.stats import ttest_rel

    known = made("card", 0.2) | {
        (arm, seed): cells.Cell(arm, seed, tuple(np.random.default_rng(seed).random(40).tolist()), 1.0)
        for arm in ("outcome",)
        for seed in SEEDS
    }
    found = cells.compared(known, "card", "outcome")
    first, second = ([known[arm, seed].success for seed in SEEDS] for arm in ("card", "outcome"))
    theirs = ttest_rel(first, second)
    assert found.p == pytest.approx(theirs.pvalue)
    low, high = theirs.confidence_interval(0.95)
    assert (found.mean.low, found.mean.high) == pytest.approx((low, high))


def test_cells_are_kept_whole_and_results_go_to_their_marks(tmp_path: Path) -> None:
    place = cells.Place.at(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- results: x -->\nold\n<!-- end of results: x -->\nb\n")
    cell = cells.Cell("card", 1, (0.5, 1.0), 2.0, {"claims": 0.1})
    place.keep(cell)
    assert place.cell("card", 1) == cell
    assert place.cell("card", 2) is None
    cells.write_results(place, "x", "new\n", [cell], page)
    assert page.read_text() == "a\n<!-- results: x -->\nnew\n<!-- end of results: x -->\nb\n"
    with pytest.raises(SystemExit, match="no place"):
        cells.write_results(place, "y", "new\n", [cell], page)


@pytest.mark.parametrize("module", [verification, credit])
def test_nothing_is_analysed_before_all_cells_are_there(module: object, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not run yet"):
        module.report(cells.Place.at(tmp_path), SEEDS, None)  # type: ignore[attr-defined]


def test_all_cells_give_the_announced_tables(tmp_path: Path) -> None:
    place = cells.Place.at(tmp_path)
    for number, arm in enumerate((verification.BASE, *verification.ARMS)):
        for cell in made(arm, number / 10).values():
            more = {"claims": 0.1} | {f"{name}_{n}": 1.0 for name in ("kept", "false", "tokens") for n in (1, 2)}
            place.keep(cells.Cell(arm, cell.seed, cell.passed, 1.0, more))
    verification.report(place, SEEDS, None)
    text = (tmp_path / "results.md").read_text()
    assert "`card` - `outcome`" in text
    assert "`admitted` - `outcome`" in text


def attempts(number: int) -> object:
    draw = np.random.default_rng(1)
    outcome = np.where(draw.random(number) < 0.5, PASS, FAIL)
    turns = np.repeat(np.arange(number), 2)
    return make_batch(
        group=np.arange(number) // 8,
        reward=(outcome == PASS).astype(float),
        attempt=turns,
        outcome=outcome,
        logprob=-draw.random(len(turns)),
    )


def test_a_fifth_of_verdicts_is_lost_and_the_same_ones_again() -> None:
    given = attempts(4000)
    gone = which_are_lost(given, 0.2)  # type: ignore[arg-type]
    assert 0.17 < gone.mean() < 0.23
    assert (gone == which_are_lost(given, 0.2)).all()  # type: ignore[arg-type]


def test_lost_verdicts_are_failures_or_masked() -> None:
    given = attempts(80)
    gone = np.repeat(which_are_lost(given, 0.2), 2)  # type: ignore[arg-type]
    failed, masked = lost(given, treat="fail"), lost(given, treat="mask")  # type: ignore[arg-type]
    assert (failed.advantage[gone] <= 0).all()
    assert failed.mask.all()
    assert (masked.advantage[gone] == 0).all()
    assert not masked.mask[gone].any()
    assert masked.mask[~gone].any()
