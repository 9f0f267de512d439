"""Forks that an agent makes: named in the evidence, gone when it has acted, and no part of what is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.agents.testing import FakeWorkspace
from assay.environments.interface import Workspace, WorkspaceSpec
from assay.records import Limits
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.recording.recorded_workspace import RecordedWorkspace
from assay.rollout.recording.recorder import Recorder
from assay.settings import Settings
from assay.store import RunStore

TASK = Path(__file__).parents[2] / "tasks" / "harbor" / "three-steps"
FORKS = """
class Forker:
    name = "forker"
    needs_model = False

    async def run(self, attempt):
        fork = await attempt.workspace.fork()
        await attempt.shell("touch tried; sleep 60 &", message="try", fork=fork)
        deeper = await fork.fork()
        await deeper.exec("true")
        await attempt.shell("ls", message="look")
        attempt.finish("left two forks open")
"""


async def test_forks_are_named_and_no_part_of_the_state(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(FORKS)
    config = RunConfig(tasks=(str(TASK),), agent=str(tmp_path / "agent.py"), run="r", limits=Limits(wall_s=60))
    await start_run(config, Settings(Settings.from_environment().cache, tmp_path), Tally())
    with RunStore.open(tmp_path, "r") as store:
        found = store.trajectory(store.attempts()[0].chain)
    runs = [e.data.get("fork") for e in found.evidence if e.kind == "execution"]
    assert runs[:3] == ["1", "1.1", None]
    first, second = found.steps[:2]
    assert (first.tool_calls[0].name, second.tool_calls[0].name) == ("shell in a fork", "shell")
    assert "tried" not in second.observations[0].content


class Counted(FakeWorkspace):
    """Counts which of its forks were closed."""

    closed = 0

    async def close(self) -> None:
        Counted.closed += 1

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        return Counted()


@pytest.mark.quick
async def test_forks_end_with_what_they_were_made_from(tmp_path: Path) -> None:
    Counted.closed = 0
    with RunStore.create(tmp_path, "r", {}) as store:
        workspace = RecordedWorkspace(Counted(), Recorder(store, "a@0.0"), store.blobs)
        await (await workspace.fork()).fork()
        await workspace.close_forks()
        assert Counted.closed == 2
        await workspace.close_forks()
        assert Counted.closed == 2


class Broken(FakeWorkspace):
    """Its commands never end well."""

    async def exec(self, command: object, **more: object) -> None:  # type: ignore[override]
        raise ConnectionError


@pytest.mark.quick
async def test_a_command_that_was_cut_is_in_the_evidence(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        recorder = Recorder(store, "a@0.0")
        with pytest.raises(ConnectionError):
            await RecordedWorkspace(Broken(), recorder, store.blobs).exec(["make", "all"])
        recorder.flush()
        (event,) = store.events("a@0.0")
    evidence = event.body.evidence  # type: ignore[union-attr]
    assert (evidence.kind, evidence.data["argv"], evidence.data["cause"]) == (
        "execution_cut",
        ["make", "all"],
        "ConnectionError",
    )


async def test_variables_of_a_solution_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_FIXTURE_UNIT", "a-secret")
    folder = str(TASK.with_name("json-rewards"))
    config = RunConfig(tasks=(folder,), agent="oracle", run="r", pass_env=("ASSAY_FIXTURE_UNIT",))
    await start_run(config, Settings(Settings.from_environment().cache, tmp_path), Tally())
    with RunStore.open(tmp_path, "r") as store:
        found = store.trajectory(store.attempts()[0].chain)
    ran = next(e.data for e in found.evidence if e.kind == "execution")
    assert ran["env"] == ["UNIT_TO_WRITE"]
    assert "a-secret" not in f"{found.steps[0].tool_calls} {ran['argv']}"
