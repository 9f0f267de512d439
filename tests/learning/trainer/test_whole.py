"""Real but tiny: policies, rows of recorded runs, and checkpoints that hold everything."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from assay.errors import StoreError, UserError
from assay.learning.trainer.checkpoint import Checkpoints, TrainingProgress
from assay.learning.trainer.metrics import Metrics
from assay.learning.trainer.options import ModelOptions, OptimiserOptions, SftOptions
from assay.learning.trainer.policy import TrainedPolicy, make_model
from assay.learning.trainer.rollouts import complete_run, read_training_rows, tasks_of_step
from assay.learning.trainer.sft import train_sft
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.tasks import find_tasks
from tests.optional import require_packages

require_packages("torch", "renderers")


def settings(folder: Path) -> Settings:
    return Settings(cache=folder / "cache", store=folder / "store")


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedPolicy, list[Any]]:
    """A tiny model and rows to teach it."""
    import asyncio

    folder = tmp_path_factory.mktemp("taught")
    config = RunConfig(tasks=("family:grid,size=3,n=8",), agent="expert", run="demonstrations")
    asyncio.run(complete_run(config, settings(folder)))
    options = ModelOptions(hidden=32, layers=1, heads=2, feed_forward=32, device="cpu", thinking=False)
    make_model(folder / "made", ["goal 1 down 1 left " * 4], options, seed=0)
    policy = TrainedPolicy.open(folder / "made", options)
    return policy, read_training_rows(settings(folder), "demonstrations", policy, rendered=True, system="")


def test_a_policy_samples_in_double_precision_and_turns_positions_as_the_trainer_does(taught: Any) -> None:
    policy, _ = taught

    def sampler(dtype: str, sampler_dtype: str) -> Any:
        options = structs.replace(policy.options, dtype=dtype, sampler_dtype=sampler_dtype)
        model = copy.deepcopy(policy.model)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(getattr(torch, dtype))
        return TrainedPolicy(model, policy.folder, options).backend("local:x").tokens._model

    torch = pytest.importorskip("torch")
    found = {(a, b): sampler(a, b) for a in ("float32", "bfloat16") for b in ("auto", "same", "float64")}
    own = policy.model.model.rotary_emb.inv_freq
    assert all(torch.equal(model.model.rotary_emb.inv_freq, own) for model in found.values())
    assert {key: str(model.dtype) for key, model in found.items()} == {
        ("float32", "auto"): "torch.float64",
        ("float32", "same"): "torch.float32",
        ("float32", "float64"): "torch.float64",
        ("bfloat16", "auto"): "torch.bfloat16",
        ("bfloat16", "same"): "torch.bfloat16",
        ("bfloat16", "float64"): "torch.float64",
    }


def test_a_model_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ModelOptions(hidden=32, layers=1, heads=2, feed_forward=32, device="cpu", thinking=False)

    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("json.dumps", cut)
        with pytest.raises(KeyboardInterrupt):
            make_model(tmp_path / "made", ["goal 1 down"], options, seed=0)
    assert not (tmp_path / "made").exists()
    make_model(tmp_path / "made", ["goal 1 down"], options, seed=0)
    assert TrainedPolicy.open(tmp_path / "made", options).parameters > 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_rows_do_not_depend_on_the_order_in_which_attempts_were_made(taught: Any, tmp_path: Path) -> None:
    import asyncio

    policy, rows = taught
    tasks = find_tasks(("family:grid,size=3,n=8",))
    config = RunConfig(tasks=("family:grid,size=3,n=8",), agent="expert", run="backwards", concurrency=1)
    asyncio.run(complete_run(config, settings(tmp_path), tasks=tasks[::-1]))
    again = read_training_rows(settings(tmp_path), "backwards", policy, rendered=True, system="")
    assert [row.attempt for row in again] == [row.attempt for row in rows]
    assert [row.token_ids.tolist() for row in again] == [row.token_ids.tolist() for row in rows]


@pytest.mark.long
def test_training_goes_on_from_a_checkpoint_to_the_same_bits(taught: Any, tmp_path: Path) -> None:
    from assay.learning.trainer.optimise import Optimiser

    policy, rows = taught
    kept, checkpoints = policy.weights(), Checkpoints(tmp_path)
    options = SftOptions(steps=4, batch=3, optimise=OptimiserOptions(warmup=3, schedule="linear", weight_decay=0.1))
    first = Optimiser(policy.model, options.optimise, 4)

    def done(step: int, _: Any) -> None:
        if step == 2:
            checkpoints.write(policy, first, TrainingProgress(stage="sft", step=2, version=policy.version))

    train_sft(policy, rows, options, seed=3, optimiser=first, done=done)
    whole = policy.version
    policy.model.load_state_dict(kept)
    second = Optimiser(policy.model, options.optimise, 4)
    found = checkpoints.newest("sft")
    assert found is not None
    checkpoints.load(policy, second, found)
    train_sft(policy, rows, options, seed=3, optimiser=second)
    policy.model.load_state_dict(policy.weights())
    assert policy.version == whole
    policy.model.load_state_dict(kept)


def test_a_checkpoint_is_whole_or_not_looked_at(taught: Any, tmp_path: Path) -> None:
    policy, _ = taught
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    for step in (1, 2, 3):
        checkpoints.write(policy, None, TrainingProgress(stage="sft", step=step, version=policy.version))
    (tmp_path / "sft-000009.partial").mkdir()
    assert checkpoints.steps("sft") == [2, 3]
    wrong = TrainingProgress(stage="sft", step=3, version="blake3:0")
    with pytest.raises(StoreError, match="other weights"):
        checkpoints.load(policy, None, wrong)
    (tmp_path / "sft-000003" / "progress.json").write_text("{")
    with pytest.raises(StoreError, match="reading the checkpoint"):
        checkpoints.newest("sft")


def test_a_trainings_numbers_are_kept_once_and_not_for_another_recipe(tmp_path: Path) -> None:
    with Metrics(tmp_path, "t", {"a": 3}, seed=0) as metrics:
        assert metrics.get("sft 1") is None  # nothing is recorded, so that another recipe may have the name
    with Metrics(tmp_path, "t", {"a": 1}, seed=0) as metrics:
        metrics.add("sft 1", {"loss": 2.0})
    with Metrics(tmp_path, "t", {"a": 1}, seed=0) as metrics:
        metrics.add("sft 1", {"loss": 9.0})
        metrics.add("sft 2", {"loss": 1.0})
        assert [(key, data["loss"]) for key, data in metrics.entries()] == [("sft 1", 2.0), ("sft 2", 1.0)]
    with pytest.raises(UserError, match="another recipe"):
        Metrics(tmp_path, "t", {"a": 2}, seed=0)


def test_each_step_has_tasks_of_its_own_and_always_the_same() -> None:
    first, again, next_one = (tasks_of_step(["family:grid"], 3, step, 7) for step in (1, 1, 2))
    assert [t.task.digest for t in first.loaded] == [t.task.digest for t in again.loaded]
    assert not {t.task.digest for t in first.loaded} & {t.task.digest for t in next_one.loaded}
    fixed = tasks_of_step(["family:grid,n=5,seed=1"], 2, 0, 7)
    assert len(fixed.loaded) == 2
