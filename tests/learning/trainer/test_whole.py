"""Real but tiny: a recipe from nothing to its report, killed on the way, and checkpoints that hold everything."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
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
from assay.store import RunStore, final_rows, list_runs
from assay.tasks import find_tasks

pytest.importorskip("torch")
pytest.importorskip("renderers")

RECIPE = """
name = "tiny"
steps = 3
[model]
thinking = false
vocabulary = 400
hidden = 32
layers = 1
heads = 2
feed_forward = 32
threads = 1
device = "cpu"
[teach]
tasks = ["family:grid,size=3,part=train,n=24,seed=1"]
agent_options = { noise = 0.3 }
[teach.sft]
steps = 45
batch = 8
[teach.sft.optimise]
learning_rate = 4e-3
[rollout]
tasks = ["family:grid,size=3,part=train"]
agent_options = { system = "", nudges = 0, max_tokens = 16, seeded = true }
groups = 3
attempts = 4
[evaluate]
tasks = ["family:grid,size=3,part=test,n=6,seed=2"]
"""


def settings(folder: Path) -> Settings:
    return Settings(cache=folder / "cache", store=folder / "store")


def improve(folder: Path, *more: str, **how: Any) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.toml").write_text(RECIPE)
    command = [
        str(Path(sys.executable).with_name("assay")),
        "improve",
        "recipe.toml",
        "--store",
        "store",
        "--json",
        *more,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


@pytest.fixture(scope="module")
def improved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("improved")
    out, err = improve(folder).communicate(timeout=150)
    assert out, err.decode()
    return folder, json.loads(out)


@pytest.mark.slow
def test_a_recipe_makes_a_model_tries_trains_and_says_how_it_went(improved: Any) -> None:
    folder, report = improved
    assert [point["step"] for point in report["curve"]] == [0, 3]
    assert all(point["attempts"] == 6 for point in report["curve"])
    with Metrics(folder / "store", "tiny-0-training", json.loads(_recipe(folder)), seed=0) as metrics:
        steps = [metrics.get(f"policy_gradient {step}") or {} for step in (1, 2, 3)]
    assert all(0 <= step["gap_most"] < 1e-4 for step in steps)
    assert len({step["version"] for step in steps}) >= 2
    assert steps[-1]["version"] == report["version"]
    assert Path(folder / report["model"] / "model.safetensors").is_file()


def ended(store: Path, run: str) -> int:
    """Attempts of a run that may not have begun."""
    if run not in list_runs(store):
        return 0
    with RunStore.open(store, run) as opened:
        return len(final_rows(opened.attempts()))


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_weights(improved: Any, tmp_path: Path) -> None:
    _, report = improved
    store = tmp_path / "x" / "store"
    for until in ("evaluation-0000", "step-0002"):
        process = improve(tmp_path / "x")
        deadline = time.monotonic() + 100
        while not ended(store, f"tiny-0-{until}") and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    out, err = improve(tmp_path / "x").communicate(timeout=150)
    again = json.loads(out)
    assert (again["version"], again["curve"]) == (report["version"], report["curve"]), err.decode()


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


def _recipe(folder: Path) -> bytes:
    import msgspec

    from assay.learning.trainer.recipe import ImproveRecipe

    return msgspec.json.encode(msgspec.toml.decode((folder / "recipe.toml").read_bytes(), type=ImproveRecipe))
