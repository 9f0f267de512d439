"""Runs of a training on nodes: the records that name weights, and runs that this machine has begun."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.learning.trainer.attempts_on_nodes import PlacedAttempts, PublishedPart, decode_part
from assay.learning.trainer.options import ModelOptions
from assay.learning.trainer.recipe import EvaluationOptions, ImproveRecipe, RolloutOptions
from assay.learning.trainer.rollouts import TaskSelection
from assay.learning.trainer.step_node import require_same_engine
from assay.rollout.cluster.node_session import PlacedRunOptions
from assay.rollout.cluster.work_parts import part_key
from assay.rollout.config import RunConfig
from assay.rollout.progress import Tally
from assay.rollout.runs import prepare_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import find_tasks
from benchmarks.store import attempt_bodies
from tests.store.objects.simulated import SimulatedStore

WORK = "grid-0-attempts"
KEY = part_key(WORK, "grid-0-step-0001")
DIGEST = f"blake3:{'a' * 64}"
PART = PublishedPart(1, "grid-0-step-0001", {}, "v1", {"model.safetensors": DIGEST})
SOURCE = "family:grid,size=3,n=2"


def test_a_part_is_read_as_it_was_written() -> None:
    assert decode_part(msgspec.json.encode(PART), KEY) == PART


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"files": {"../up": DIGEST}}, "damaged"),
        ({"files": {"..": DIGEST}}, "damaged"),
        ({"files": {"model.safetensors": "blake3:short"}}, "damaged"),
        ({"run": "grid-0-step-0002"}, "moved"),
        ({"more": 1}, "damaged"),
    ],
)
def test_a_part_that_was_changed_is_refused_with_its_key(changed: dict[str, Any], reason: str) -> None:
    data = msgspec.json.encode(msgspec.to_builtins(PART) | changed)
    with pytest.raises(StoreError, match=reason) as refused:
        decode_part(data, KEY)
    assert KEY in str(refused.value)


class _Policy:
    """Weights of one file."""

    def __init__(self, version: str) -> None:
        self.version = version

    def save(self, folder: Path) -> None:
        (folder / "model.safetensors").write_text(self.version)


def _placed(tmp_path: Path, place: Any) -> tuple[PlacedAttempts, Tally]:
    recipe = ImproveRecipe(
        name="grid",
        model=ModelOptions(path="model"),
        rollout=RolloutOptions(tasks=(SOURCE,)),
        evaluate=EvaluationOptions(tasks=("family:grid,size=3,n=1,seed=5",)),
    )
    settings, progress = Settings(store=tmp_path / "store", cache=tmp_path / "cache"), Tally()
    options = PlacedRunOptions("memory://", 1)
    stack = contextlib.AsyncExitStack()
    return PlacedAttempts(recipe, settings, options, place, progress, stack), progress


def _begin(tmp_path: Path, config: RunConfig) -> RunStore:
    settings = Settings(store=tmp_path / "store", cache=tmp_path / "cache")
    return RunStore.create(settings.store, str(config.run), prepare_run(config, settings, Tally()).manifest)


CONFIG = RunConfig(tasks=(SOURCE,), agent="loop", model="local:grid", attempts=2, run="grid-0-step-0001")


async def test_a_run_that_was_begun_on_this_machine_is_left_to_it(tmp_path: Path) -> None:
    with _begin(tmp_path, CONFIG) as store:
        started, *_ = attempt_bodies(0)
        store.append("t@0.0", [msgspec.structs.replace(started, run=store.run)])
    place = SimulatedStore()
    placed, progress = _placed(tmp_path, place)
    notes: list[str] = []
    progress.inform = notes.append  # type: ignore[assignment, method-assign]
    await placed.complete(CONFIG, TaskSelection((SOURCE,), find_tasks((SOURCE,))), _Policy("v1"))  # type: ignore[arg-type]
    assert notes == ["run grid-0-step-0001 was started on this machine, and is finished here"]
    assert not place.objects


async def test_other_weights_for_a_run_that_was_published_are_refused(tmp_path: Path) -> None:
    place = SimulatedStore()
    with _begin(tmp_path, CONFIG) as store:
        placed, _ = _placed(tmp_path, place)
        await placed._publish_part(store, _Policy("v1"))  # type: ignore[arg-type]
        await placed._publish_part(store, _Policy("v1"))  # type: ignore[arg-type]
        with pytest.raises(UserError, match="is of other weights"):
            await placed._publish_part(store, SimpleNamespace(version="v2", save=_Policy("v2").save))  # type: ignore[arg-type]
    assert decode_part(place.objects[KEY], KEY).version == "v1"
    blobs = [data for key, data in place.objects.items() if key.startswith("blobs/")]
    assert sorted(blobs) == [b"v1", b"v2"]


@pytest.mark.parametrize("changed", [{"files": {"model.safetensors": DIGEST}}, {"manifest": {"agent": "other"}}])
async def test_a_published_run_whose_weights_have_the_version_but_other_files_is_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    place = SimulatedStore()
    with _begin(tmp_path, CONFIG) as store:
        placed, _ = _placed(tmp_path, place)
        await placed._publish_part(store, _Policy("v1"))  # type: ignore[arg-type]
        part = decode_part(place.objects[KEY], KEY)
        place.objects[KEY] = msgspec.json.encode(msgspec.structs.replace(part, **changed))
        with pytest.raises(UserError, match="or of another configuration"):
            await placed._publish_part(store, _Policy("v1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"files": {"tokenizer.json": f"blake3:{'b' * 64}"}},
        {"files": {}},
        {"manifest": {"agent": "other"}},
        {"manifest": {"config": msgspec.to_builtins(msgspec.structs.replace(CONFIG, agent="null"))}},
    ],
)
def test_a_node_refuses_a_run_that_differs_by_more_than_weights_from_the_one_it_opened(changed: dict[str, Any]) -> None:
    manifest = {"config": msgspec.to_builtins(CONFIG), "tasks": {}, "agent": "loop"}
    one = msgspec.structs.replace(
        PART, manifest=manifest, files={"tokenizer.json": DIGEST, "model.safetensors": DIGEST}
    )
    two = msgspec.structs.replace(one, run="grid-0-step-0002", version="v2")
    require_same_engine(msgspec.structs.replace(two, files={**one.files, "model.safetensors": "blake3:c"}), one)
    changed = {name: {**getattr(two, name), **value} if value else value for name, value in changed.items()}
    with pytest.raises(StoreError, match="another agent, tokenizer or model configuration"):
        require_same_engine(msgspec.structs.replace(two, **changed), one)
