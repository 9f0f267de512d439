"""Demands of tasks on a machine: layers, whose names are the same on each, a sandbox, and GPUs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assay.environments.workspace.process import ProcessBackend
from assay.errors import UserError
from assay.records import EnvironmentSpec
from assay.rollout import RunConfig
from assay.rollout.attempt.preparation import MachineNeeds, Preparer, layer_demands, machine_needs
from assay.settings import Settings
from assay.tasks import LoadedTask, find_tasks, load_task
from tests.admission.folders import CAREFUL, CARELESS, write_task


def _with(loaded: LoadedTask, **parameters: object) -> LoadedTask:
    spec = loaded.task.environment
    changed = EnvironmentSpec(spec.kind, {**spec.parameters, **parameters})
    return loaded._replace(task=msgspec.structs.replace(loaded.task, environment=changed))


def test_tasks_with_one_dockerfile_and_the_same_requirements_demand_the_same(tmp_path: Path) -> None:
    one, other = (load_task(write_task(tmp_path / name, text)) for name, text in (("a", CAREFUL), ("b", CARELESS)))
    assert one.task.digest != other.task.digest
    assert layer_demands(one) == layer_demands(other)
    assert len(layer_demands(one)) == 2
    assert len(layer_demands(one) & layer_demands(_with(other, requirements=["attrs==25.4.0"]))) == 1
    (tmp_path / "b" / "environment" / "Dockerfile").write_text("FROM scratch\nRUN true\n", encoding="utf-8")
    assert len(layer_demands(one) & layer_demands(load_task(tmp_path / "b"))) == 1


@pytest.mark.parametrize("folder", ["../other", "link", "/etc", "a\0b", "circle"])
def test_a_dockerfile_outside_of_the_task_is_not_read(tmp_path: Path, folder: str) -> None:
    one = load_task(write_task(tmp_path / "a", CAREFUL))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    (tmp_path / "a" / "link").symlink_to("../other")
    (tmp_path / "a" / "circle").symlink_to("circle")
    assert len(layer_demands(_with(one, folder=folder))) == 1


def test_a_task_without_a_sandbox_demands_no_layer() -> None:
    (loaded,) = find_tasks(("family:grid,n=1,size=3",))
    assert layer_demands(loaded) == frozenset()
    assert machine_needs(_with(loaded, backend="podman", gpus=1)) == MachineNeeds(None, 0)


def test_a_task_asks_for_a_sandbox_and_for_gpus(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "a", CAREFUL)
    text = (folder / "task.toml").read_text().replace("memory_mb = 512", "memory_mb = 512\ngpus = 2")
    (folder / "task.toml").write_text(f'{text}\n[metadata.assay.environment]\nbackend = "process"\n')
    assert machine_needs(load_task(folder)) == MachineNeeds("process", 2)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"backend": "podman"}, "asks for the sandbox 'podman', and this is 'process': add --backend podman"),
        ({"backend": ["process"]}, "asks for the sandbox"),
        ({"gpus": 1}, "an accelerator"),
        ({"gpus": "1"}, "an accelerator"),
        ({"tpu": {"topology": "2x2"}}, "an accelerator"),
    ],
)
async def test_what_a_sandbox_does_not_give_is_refused(
    tmp_path: Path, parameters: dict[str, object], problem: str
) -> None:
    preparer = Preparer(ProcessBackend(), RunConfig(tasks=("-",)), Settings(cache=tmp_path, store=tmp_path))
    with pytest.raises(UserError, match=problem):
        await preparer.spec(_with(load_task(write_task(tmp_path / "a", CAREFUL)), **parameters))
