"""States that forks begin in, rebuilt from the record."""

from __future__ import annotations

from pathlib import Path

from assay.agents.null import NullAgent
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.runs import open_resources
from assay.rollout.schedule.allocation import Anchor
from assay.rollout.schedule.fork_states import fork_states, path_of
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import find_tasks
from tests.rollout.acting import write_task

ACTING = Path(__file__).parents[1] / "acting.py"


async def test_a_sandbox_is_rebuilt_to_the_very_state_or_not_at_all(tmp_path: Path) -> None:
    settings = Settings(Settings.from_environment().cache, tmp_path)
    config = RunConfig(
        tasks=(str(write_task(tmp_path / "task")),),
        agent=f"{ACTING}:Typist",
        agent_options={"commands": "echo one > kept\ndate +%N > kept\necho done > answer"},
        run="typed",
    )
    await start_run(config, settings, Tally())
    (loaded,) = tasks = find_tasks(config.tasks)
    with RunStore.open(tmp_path, "typed") as store:
        (trajectory,) = store.trajectories()
        states = path_of(trajectory, 1.0).states
        anchors = [Anchor(trajectory.chain, n, states[n - 1] or "") for n in (1, 2)]
        async with (
            open_resources(config, settings, tasks, NullAgent()) as resources,
            fork_states(store, [(loaded, one) for one in anchors], resources.preparer) as found,
        ):
            begin, other = found[anchors[0]], found[anchors[1]]
            assert begin is not None
            assert begin.snapshot is not None
            assert begin.snapshot.digest == anchors[0].state
            assert other is None  # the clock went on
