"""`train` on what is recorded: each method learns, goes on after a cut, and refuses what is not its model's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import RunNotFoundError, UserError
from assay.learning.train import train
from assay.learning.trainer.options import DpoOptions, ModelOptions, OptimiserOptions, PolicyGradientOptions, SftOptions
from assay.learning.trainer.policy import TrainedPolicy, make_model
from assay.learning.trainer.recipe import TrainRecipe
from assay.learning.trainer.rollouts import complete_run, read_training_rows
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.store import list_runs
from tests.optional import require_packages

require_packages("torch", "renderers")


def settings(folder: Path) -> Settings:
    return Settings(cache=folder / "cache", store=folder / "store")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, `expert` with passes and failures of no model, and `own` that the model sampled."""
    folder = tmp_path_factory.mktemp("recorded")
    options = ModelOptions(hidden=32, layers=1, heads=2, feed_forward=32, device="cpu", thinking=False, context=4096)
    make_model(folder / "model", ["goal 1 down 1 left " * 4], options, seed=0)
    policy = TrainedPolicy.open(folder / "model", options)
    tasks = ("family:grid,size=3,turns=3,n=3,seed=5",)
    expert = RunConfig(tasks=tasks, agent="expert", agent_options={"noise": 0.6}, attempts=4, run="expert")
    loop = RunConfig(tasks=tasks, agent="loop", agent_options={"max_tokens": 5, "seeded": True}, model="local:m",
                     attempts=2, run="own")  # fmt: skip

    async def record() -> None:
        await complete_run(expert, settings(folder))
        backend = policy.backend("local:m")
        await complete_run(loop, settings(folder), backend)
        await backend.close()

    asyncio.run(record())
    return folder


@pytest.fixture
def recipe(recorded: Path, tmp_path: Path) -> Any:
    def make(method: str, **how: Any) -> TrainRecipe:
        model = ModelOptions(path=str(recorded / "model"), thinking=False, device="cpu")
        few = OptimiserOptions(learning_rate=5e-3)
        given: dict[str, Any] = {
            "name": f"{tmp_path.name[:40]}", "runs": ("expert",), "folder": str(tmp_path), "checkpoint_every": 2,
            "sft": SftOptions(steps=6, batch=4, optimise=few), "dpo": DpoOptions(steps=6, batch=4, optimise=few),
        }  # fmt: skip
        return TrainRecipe(method=method, model=model, **(given | how))  # type: ignore[arg-type]

    return make


@pytest.mark.long
@pytest.mark.parametrize("method", ["sft", "dpo"])
def test_recorded_attempts_are_learned_from(recorded: Path, recipe: Any, method: str) -> None:
    runs = {"sft": "expert", "dpo": "expert"}
    report = train(recipe(method, runs=(runs[method],), system=""), settings(recorded))
    assert (report.steps, report.attempts) == (6, 12)
    assert report.last["loss"] < report.first["loss"]
    assert TrainedPolicy.open(Path(report.model), ModelOptions(device="cpu")).version == report.version
    again = train(recipe(method, runs=(runs[method],), system=""), settings(recorded))
    assert (again.version, again.first) == (report.version, {})


def test_a_policy_gradient_takes_what_the_model_itself_sampled(recorded: Path, recipe: Any) -> None:
    options = PolicyGradientOptions(optimise=OptimiserOptions(learning_rate=1e-3))
    given = recipe("policy_gradient", runs=("own",), policy_gradient=options)
    report = train(given, settings(recorded))
    assert report.steps == 1
    assert report.last["gap_tokens"] > 0
    assert report.last["gap_most"] < 1e-4
    with pytest.raises(UserError, match="nothing to learn"):
        train(recipe("policy_gradient", name="other", runs=("expert",)), settings(recorded))


def test_every_attempt_has_as_many_rows_as_the_recipe_says(recorded: Path, recipe: Any) -> None:
    options = PolicyGradientOptions(optimise=OptimiserOptions(learning_rate=1e-3))
    plain = train(recipe("policy_gradient", runs=("own",), policy_gradient=options), settings(recorded))
    aligned = train(
        recipe("policy_gradient", name="even", runs=("own",), align=3, policy_gradient=options), settings(recorded)
    )
    assert (aligned.rows, plain.rows) == (3 * aligned.attempts, plain.attempts)
    assert aligned.last["gap_tokens"] == plain.last["gap_tokens"]  # a copy trains nothing


def test_a_refused_recipe_leaves_no_run(recorded: Path, recipe: Any) -> None:
    before = list_runs(recorded / "store")
    with pytest.raises(RunNotFoundError, match="runs of the recipe: no run is called 'nix'"):
        train(recipe("sft", runs=("nix",)), settings(recorded))
    with pytest.raises(UserError, match="would be trained on"):
        train(recipe("sft", held_out=("family:grid,size=3,turns=3,n=3,seed=5",)), settings(recorded))
    with pytest.raises(UserError, match="no preference pair"):
        train(recipe("dpo", runs=("own",)), settings(recorded))
    assert list_runs(recorded / "store") == before


def test_a_policy_gradient_on_steered_tokens_is_warned_of(recorded: Path, recipe: Any) -> None:
    config = RunConfig(tasks=("family:grid,size=3,turns=3,n=1",), agent="loop", model="local:m?steer=s.json",
                       agent_options={"max_tokens": 5, "seeded": True}, run="steered")  # fmt: skip
    policy = TrainedPolicy.open(recorded / "model", ModelOptions(device="cpu", thinking=False))
    asyncio.run(complete_run(config, settings(recorded), policy.backend("local:m")))
    said: list[str] = []
    train(recipe("policy_gradient", runs=("steered",)), settings(recorded), said.append)
    assert said[0].startswith("warning: steered: a script chose the tokens of this run (steer=)")


@pytest.mark.long
def test_rows_of_another_tokenizer_are_refused(recorded: Path, recipe: Any, tmp_path: Path) -> None:
    from assay.learning.row_files import write_rows

    policy = TrainedPolicy.open(recorded / "model", ModelOptions(thinking=False, device="cpu"))
    rows = read_training_rows(settings(recorded), "expert", policy, rendered=True, system="")
    write_rows([msgspec.structs.replace(row, tokenizer="blake3:other") for row in rows], tmp_path / "rows.parquet")
    with pytest.raises(UserError, match="another tokenizer"):
        train(recipe("sft", runs=(), rows=(str(tmp_path / "rows.parquet"),)), settings(recorded))


def test_a_damaged_run_teaches_nobody(recorded: Path, recipe: Any, tmp_path: Path) -> None:
    import shutil
    import sqlite3
    from contextlib import closing

    from assay.errors import StoreError

    shutil.copytree(recorded / "store", tmp_path / "store")
    with (
        closing(sqlite3.connect(next((tmp_path / "store" / "runs" / "own").glob("*.sqlite")))) as connection,
        connection,
    ):
        connection.execute("UPDATE events SET body = replace(body, 'move', 'mole') WHERE type = 'model_call'")
    with pytest.raises(StoreError, match="not what was recorded"):
        train(recipe("policy_gradient", runs=("own",)), Settings(cache=tmp_path, store=tmp_path / "store"))
