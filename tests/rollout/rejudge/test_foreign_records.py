"""Records of somebody else's: what they name does not run here, and they do not choose how they are judged again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.environments.worlds.opening import open_world
from assay.errors import UserError
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Check,
    EnvironmentSpec,
    Evidence,
    EvidenceAdded,
    Step,
    StepAdded,
    Task,
    Verdict,
    VerdictAdded,
    canonical_bytes,
)
from assay.rollout import ReverifyConfig, RunConfig, Tally, reverify, start_run
from assay.rollout.rejudge import judging
from assay.rollout.rejudge.config import ReplayConfig, SandboxOptions
from assay.rollout.rejudge.recorded_task import recorded_config
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import find_tasks
from assay.verify import JudgeRequest
from assay.verify.interface import CheckResult

SUM_COLUMNS = Path(__file__).parents[2] / "tasks" / "harbor" / "sum-columns"
BASE = {"python:3.12-slim": "scratch"}
MARK = {"format": "x"}
MAIL = "family:services,app=mail,n=1,seed=3"


def settings(store: Path) -> Settings:
    return Settings(Settings.from_environment().cache, store)


def wrote(
    store: Path,
    task: str,
    evidence: list[Evidence],
    *,
    manifest: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> None:
    """Writes a run of one passed attempt, as a stranger can."""
    with RunStore.create(store, "theirs", manifest or {}) as run:
        started = AttemptStarted("theirs", "t@0", task, "blake3:0", "them", None, 0, 0, config=config or {}, at=1.0)
        acted = StepAdded(Step(0, "agent", "I am done."))
        passed = Verdict("ten", "outcome", "pass", 1.0, "", tuple(one.id for one in evidence))
        ended = AttemptEnded("submitted", at=2.0)
        run.append("t@0.0", [started, acted, *map(EvidenceAdded, evidence), VerdictAdded(passed), ended])


def kept_task(store: Path, task: Task) -> Evidence:
    """Returns the evidence that embeds a task."""
    with RunStore.create(store, "blobs", {}) as run:
        record = run.blobs.put(canonical_bytes(task))
    return Evidence("t1", "state", "task", {"digest": task.digest, "record": record}, (record,))


def touching(marker: Path) -> Task:
    """A task whose world is a program: opening it would run `touch`."""
    world = EnvironmentSpec("subprocess:Popen", {"/bin/touch": 1, str(marker): 1}, -1)
    return Task("touch", "Touch.", world, (Check("ten", "facts", {}),), "blake3:0")


@pytest.mark.newest
@pytest.mark.parametrize("given", [{"manifest": {"kind": "import"}}, {"config": {"imported": MARK}}, {}])
async def test_a_record_runs_no_code_that_it_names(tmp_path: Path, given: dict[str, Any]) -> None:
    marker = tmp_path / "marker"
    facts = Evidence("f1", "state", "facts", {"digest": "blake3:1"})
    wrote(tmp_path, "touch", [kept_task(tmp_path, touching(marker)), facts], **given)
    (judged,) = (await reverify("theirs", ReverifyConfig(again=1), settings(tmp_path))).results
    replayed = await replay("theirs", ReplayConfig(all=True), settings(tmp_path), Tally())
    with RunReader.open(settings(tmp_path), "theirs", RowsConfig()) as reader:
        (trajectory,) = reader.trajectories()
        with pytest.raises(UserError, match="not available"):
            reader.opening(trajectory)
    assert (judged.mark, replayed.counts["cannot"], marker.exists()) == ("cannot", 1, False)
    assert given or "--allow-task-code" in judged.reason


@pytest.mark.newest
async def test_a_manifest_runs_no_family_that_is_code(tmp_path: Path) -> None:
    family = tmp_path / "family.py"
    family.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'marker')!r}).touch()\n")
    wrote(tmp_path, "t", [], manifest={"config": {"tasks": [f"family:{family}"]}})
    (judged,) = (await reverify("theirs", ReverifyConfig(again=1, check_version="today"), settings(tmp_path))).results
    assert (judged.mark, "--allow-task-code" in judged.reason) == ("cannot", True)
    assert not (tmp_path / "marker").exists()


@pytest.mark.newest
def test_a_manifest_grants_no_permission(tmp_path: Path) -> None:
    granted = {"allow_unsafe": True, "allow_network": True, "allow_task_code": True, "pass_env": ["HOME"]}
    RunStore.create(tmp_path, "host", {"config": {"backend": "process", **granted}}).close()
    RunStore.create(tmp_path, "apart", {"config": {"backend": "namespaces", **granted}}).close()
    with RunStore.open(tmp_path, "host") as host, pytest.raises(UserError, match="--allow-unsafe"):
        recorded_config(host, SandboxOptions())
    with RunStore.open(tmp_path, "apart") as apart:
        config, told = recorded_config(apart, SandboxOptions()), recorded_config(apart, SandboxOptions(pass_env=("A",)))
    assert (config.allow_unsafe, config.allow_network, config.allow_task_code) == (False, False, False)
    assert (config.backend, config.pass_env, told.pass_env) == ("namespaces", (), ("A",))


async def test_an_imported_record_chooses_neither_inputs_nor_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[JudgeRequest] = []

    async def judge(request: JudgeRequest) -> list[CheckResult]:
        asked.append(request)
        return [CheckResult(Verdict("ten", "outcome", "pass", 1.0, ""), ())]

    monkeypatch.setattr(judging, "verify_outcome", judge)
    patch = Evidence("p1", "state", "patch", {"text": ""})
    seed = Evidence("c1", "audit", "calls", {"seed": "00" * 32})
    place = Evidence("l1", "state", "place", {"tmpfs": ["/tests"]})
    wrote(tmp_path, "sum-columns", [patch, seed, place], config={"imported": MARK})
    config = ReverifyConfig(again=1, base=BASE, check_version="today", tasks=(str(SUM_COLUMNS),))
    await reverify("theirs", config, settings(tmp_path))
    (request,) = asked
    assert request.seeds == {}
    assert "/tests" not in request.spec.tmpfs


@pytest.mark.newest
async def test_an_imported_record_begins_where_its_task_begins(tmp_path: Path) -> None:
    task = find_tasks([MAIL])[0].task
    world: Any = open_world(task.environment)
    for call in world.oracle():
        await world.call(call.name, call.parsed)
    goal, digest = world.snapshot(), await world.digest()
    await world.close()
    with RunStore.create(tmp_path, "blobs", {}) as run:
        blob = run.blobs.put(goal)
    reached = Evidence("f1", "state", "facts", {"digest": digest})
    began = Evidence("b1", "state", "began", {}, (blob,))
    wrote(tmp_path, task.id, [began, reached], config={"imported": MARK})
    config = ReverifyConfig(again=1, check_version="today", tasks=(MAIL,))
    (judged, *_) = (await reverify("theirs", config, settings(tmp_path))).results
    assert (judged.mark, "lead to another state" in judged.reason) == ("cannot", True)


@pytest.mark.newest
async def test_a_task_folder_names_code_only_by_permission(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (tmp_path / "check.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'marker')!r}).touch()\n")
    (folder / "instruction.md").write_text("Do nothing.\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    check = f'[[metadata.assay.checks]]\nname = "mine"\nkind = "{tmp_path / "check.py"}"\n'
    (folder / "task.toml").write_text(f'[task]\nname = "a/task"\n{check}')
    config = RunConfig(tasks=(str(folder),), agent="null", run="r")
    with pytest.raises(UserError, match=r"names Python code.*--allow-task-code"):
        await start_run(config, settings(tmp_path / "store"), Tally())
    assert not (tmp_path / "marker").exists()
