"""Tasks whose code is in a file: the same in every folder, while runs that recorded its path are completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.environments.browser.picture_options import FamilyPictures
from assay.environments.task_digest import digest_task, name_by_content
from assay.records import Check, EnvironmentSpec, Task, digest_record
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.grid import GridCell, run_grid
from assay.rollout.plan import attempt_seed
from assay.rollout.rejudge.config import Version
from assay.rollout.rejudge.recorded_task import RecordedTasks
from assay.rollout.run_manifest import match_tasks
from assay.rollout.runs import RunParts, prepare_run, resume_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask, find_tasks
from assay.verify import WorldRequest, judge_facts, verify_world
from assay.verify.reverification import CannotRebuildError
from assay.verify.unjudgeable import unjudgeable_state

pytestmark = pytest.mark.quick
JUGS = Path(__file__).parents[2] / "docs_src" / "jugs_world.py"


def copy_world(folder: Path, comment: str = "") -> Path:
    folder.mkdir()
    path = folder / "jugs_copy.py"
    path.write_text(JUGS.read_text() + comment)
    return path


def name_tasks(path: Path) -> tuple[str, ...]:
    return (f"family:{path}:JugsTasks,n=2,seed=1",)


def name_by_path(loaded: LoadedTask) -> LoadedTask:
    """Returns a task as versions had it that digested the path."""
    task = loaded.task
    return loaded._replace(task=replace(task, digest=digest_record([task.instruction, task.environment, task.checks])))


def read_attempts(root: Path, run: str) -> set[tuple[str, str, int]]:
    with RunStore.open(root, run) as store:
        assert all(row.final for row in store.attempts())
        return {(row.task, row.task_digest, row.seed) for row in store.attempts()}


async def test_attempts_in_a_world_of_a_file_have_the_same_seeds_in_every_folder(tmp_path: Path) -> None:
    settings, made = Settings(tmp_path / "cache", tmp_path), []
    for name in ("one", "two"):
        path = copy_world(tmp_path / name)
        tasks = name_tasks(path)
        await start_run(RunConfig(tasks=tasks, agent="random-world", run=f"run-{name}"), settings, Tally())
        made.append(read_attempts(tmp_path, f"run-{name}"))
        assert {one.task.environment.kind for one in find_tasks(tasks)} == {f"{path}:Jugs"}
    assert made[0] == made[1]
    changed = find_tasks(name_tasks(copy_world(tmp_path / "three", "# changed\n")))
    assert not {one.task.digest for one in changed} & {digest for _, digest, _ in made[0]}


def test_files_of_services_and_checks_count_by_their_content_too(tmp_path: Path) -> None:
    one, two = copy_world(tmp_path / "one"), copy_world(tmp_path / "two")
    three = copy_world(tmp_path / "three", "#")

    def digest(path: Path) -> str:
        environment = EnvironmentSpec("services", {"services": ["mail", f"{path}:app"]})
        return digest_task("Do it.", environment, (Check("c", f"{path}:Right"),))

    assert digest(one) == digest(two) != digest(three)
    plain = EnvironmentSpec("services", {"services": ["mail"]}), (Check("c", "module:Right"),)
    assert digest_task("Do it.", *plain) == digest_record(["Do it.", *plain])
    missing = Check("c", str(tmp_path / "missing.py"))
    assert name_by_content(missing) == missing


def test_options_of_pictures_keep_the_digest_of_a_check_of_a_file_the_same(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        check = Check("c", f"{copy_world(tmp_path / name)}:Right")
        task = Task("t", "Do it.", EnvironmentSpec("sites", {"services": ["mail"]}), (check,), "blake3:0")
        made += FamilyPictures("sites", True, "webp", False).apply([task])
    assert made[0].environment.parameters["site"] == {"marks": True}
    assert made[0].digest == made[1].digest != "blake3:0"


async def test_verdicts_name_a_check_of_a_file_by_its_content(tmp_path: Path) -> None:
    verifiers = set()
    for name in ("one", "two"):
        check = Check("c", f"{copy_world(tmp_path / name)}:Missing")
        task = Task("t", "Do it.", EnvironmentSpec("jugs"), (check,), "blake3:0")
        (cannot_judge,) = judge_facts(task, {})
        (cannot_load,) = await verify_world(WorldRequest(task, {}, None))
        verifiers |= {cannot_judge.verdict.verifier, cannot_load.verdict.verifier}
        verifiers.add(unjudgeable_state(check, "a file of it is a device").verifier)
    assert len(verifiers) == 1


@pytest.mark.parametrize("disturb", [None, "failures:rate=0.5"])
@pytest.mark.parametrize("by_grid", [False, True])
async def test_a_run_that_recorded_paths_is_completed_with_its_seeds(
    tmp_path: Path, disturb: str | None, *, by_grid: bool
) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    tasks = name_tasks(copy_world(tmp_path / "one"))
    older = [*map(name_by_path, find_tasks(tasks))]
    config = RunConfig(tasks=tasks, agent="random-world", run="r", seed=3, disturb=disturb)
    prepared = prepare_run(config, settings, Tally(), tasks=older)
    with RunStore.create(settings.store, "r", prepared.manifest):
        pass
    if by_grid:
        await run_grid([GridCell(prepared.config, RunParts())], settings, Tally(), resume=True)
    else:
        await resume_run("r", settings, Tally())
    seeds = {one.task.id: attempt_seed(3, one.task.digest, "random-world", 0) for one in older}
    digests = prepared.manifest["tasks"]
    assert digests != {one.task.id: one.task.digest for one in match_tasks({}, find_tasks(tasks), disturb)}
    assert read_attempts(settings.store, "r") == {(name, digests[name], seed) for name, seed in seeds.items()}
    with RunStore.open(settings.store, "r") as store, RecordedTasks(store, "recorded", allow_task_code=True) as found:
        without_copy = [replace(store.trajectory(row.chain), evidence=()) for row in store.attempts()]
        assert {found.of(one).task.id for one in without_copy} == set(digests)


async def test_an_archived_task_is_not_executed_with_other_code(tmp_path: Path) -> None:
    settings, path = Settings(tmp_path / "cache", tmp_path / "store"), copy_world(tmp_path / "one")
    await start_run(RunConfig(tasks=name_tasks(path), agent="random-world", run="r"), settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        made = store.trajectory(store.attempts()[0].chain)

        def find(version: Version = "recorded", *, by_chain: bool = False) -> LoadedTask:
            with RecordedTasks(store, version, allow_task_code=True) as tasks:
                return tasks.of_chain(made.chain) if by_chain else tasks.of(made)

        assert find().task.digest == find(by_chain=True).task.digest == made.task_digest
        path.write_text(JUGS.read_text() + "# changed\n")
        for by_chain in (False, True):
            with pytest.raises(CannotRebuildError, match="the task's code changed"):
                find(by_chain=by_chain)
        assert find("today").task.digest != made.task_digest
        path.unlink()
        with pytest.raises(CannotRebuildError, match="the task's code is missing"):
            find()
