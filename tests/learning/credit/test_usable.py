"""Every installed method of credit works on training rows, or is refused by name before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import plugins
from assay.errors import AssayError, UserError
from assay.learning.credit.batch import assign_credit
from assay.learning.credit.compose import CreditConfig, MaskStage, require_usable
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.trainer.options import ModelOptions
from assay.learning.trainer.recipe import EvaluationOptions, ImproveRecipe, RolloutOptions, TrainRecipe
from assay.settings import Settings
from tests.learning.credit.rows import row

pytestmark = pytest.mark.quick
MASKS = {"first-error": {}, "entropy": {}, "fresh": {"now": 12}}
UNRECORDED = {
    "gae": "a critic's values",
    "leave-one-out": "replays without each turn",
    "entropy": "the policy's entropy",
}
"""Parts of the messages: what is missing."""
WHOLE = [{"step": n, "state": f"s{n}", "weight_version": "step-12", "progress": n / 2, "reward": 0.0} for n in range(2)]


def using(name: str, **options: Any) -> CreditConfig:
    if name in MASKS:
        return CreditConfig(masks=(MaskStage(name, MASKS[name] | options),))
    return CreditConfig(method=name, options=options)


def improve(credit: CreditConfig) -> None:
    rollout, evaluation = RolloutOptions(tasks=("family:grid",)), EvaluationOptions(tasks=("family:grid",))
    ImproveRecipe(name="r", model=ModelOptions(path="m"), rollout=rollout, evaluate=evaluation, credit=credit)


def train(credit: CreditConfig) -> None:
    TrainRecipe(name="r", method="policy_gradient", runs=("r",), model=ModelOptions(path="m"), credit=credit)


@pytest.mark.parametrize("recipe", [improve, train])
@pytest.mark.parametrize("name", [n for n, e in plugins.names("advantages").items() if e.value.startswith("assay.")])
def test_a_method_works_on_rows_or_no_recipe_takes_it(name: str, recipe: Callable[[CreditConfig], None]) -> None:
    rows = [row(chain, spans=WHOLE, outcome="fail", final_state="s1") for chain in "bc"]
    rows.append(row("a", spans=WHOLE, final_state="s1"))
    if name not in UNRECORDED:
        recipe(using(name))
        assert all(made.advantages is not None for made in assign_credit(rows, using(name)).rows)
        return
    with pytest.raises(UserError, match=rf"credit by '{name}' needs .*{UNRECORDED[name]}.*: use "):
        recipe(using(name))
    with pytest.raises(UserError, match="needs"):  # or it would not have to be refused
        assign_credit(rows, using(name))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (CreditConfig(method="grpoo"), "did you mean"),
        (using("grpo", epsylon=1.0), "epsylon"),
        (CreditConfig(method="fresh"), "a mask, not an estimator"),
    ],
)
def test_a_recipe_with_a_method_that_cannot_be_called_is_refused(config: CreditConfig, problem: str) -> None:
    for use in (require_usable, improve, train):
        with pytest.raises(AssayError, match=problem):
            use(config)


@pytest.mark.parametrize("name", ["gae", "leave-one-out"])
def test_an_export_is_refused_before_it_reads(name: str, tmp_path: Path) -> None:
    config = WriteConfig(to="rows", out=str(tmp_path / "out"), credit=name)
    with pytest.raises(UserError, match=UNRECORDED[name]):
        export_for_training("no such run", config, Settings(cache=tmp_path, store=tmp_path))
