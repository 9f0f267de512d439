"""The planner over remembered pages, in a real Chromium: it uses its own site's memory, and no other harms it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.agents.memory import read_memory
from assay.agents.page_memory import page_moves
from assay.agents.page_planner import PagePlannerAgent
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.environments.browser.recorded.site import RecordedSite
from assay.errors import TaskError
from assay.learning.memory import add_to_memory
from assay.records import Trajectory
from assay.rollout.config import RunConfig
from assay.rollout.progress import Tally
from assay.rollout.runs import start_run
from assay.settings import Settings
from assay.store import RunStore
from tests.environments.recorded_pages import CALLS
from tests.optional import require_browser

SITE = "family:sites,site=bakery,n=2,least=4,most=5"


@pytest.mark.quick
async def test_other_environments_are_refused() -> None:
    with pytest.raises(TaskError, match="plans on sites in a browser alone"):
        await PagePlannerAgent().run(FakeAttempt(tools=FakeTools({})))


@pytest.mark.quick
async def test_it_acts_on_recorded_pages_and_learns_from_patches() -> None:
    site = RecordedSite({"calls": CALLS, "patches": 9}, 1)
    wish = "until its current screen is “Hall” and these values hold:\n- lamp: on"
    attempt = FakeAttempt(tools=site, task=fake_task(f"Use it {wish}\n\nBegin."), seed=1)
    await PagePlannerAgent(acts=4).run(attempt)
    assert site.facts()["outcomes"]
    assert attempt.ended is not None
    (told,) = [one.data for one in attempt.evidence if one.kind == "page_planner"]
    assert told["explored"] >= 1


async def run(folder: Path, name: str, agent: str, tasks: str = SITE, **options: Any) -> list[Trajectory]:
    settings = Settings(folder / "cache", folder / "store")
    await start_run(RunConfig(tasks=(tasks,), agent=agent, agent_options=options, run=name), settings, Tally())
    with RunStore.open(folder / "store", name) as store:
        return [store.trajectory(row.chain) for row in sorted(store.attempts(), key=lambda row: row.attempt)]


def evidence(trajectory: Trajectory, kind: str) -> dict[str, Any]:
    (found,) = [one.data for one in trajectory.evidence if one.kind == kind]
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_its_own_memory_is_used_and_that_of_another_site_refused(tmp_path: Path) -> None:
    require_browser()
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    experts = await run(tmp_path, "experts", "oracle")
    own, other = tmp_path / "own.jsonl", tmp_path / "other.jsonl"
    add_to_memory(own, ["experts"], settings)
    await run(tmp_path, "elsewhere", "oracle", SITE.replace("bakery", "gym"))
    add_to_memory(other, ["elsewhere"], settings)
    (first, _) = read_memory(own)
    assert next(move.before.heading for move in page_moves(first)) == "Start"
    pages = [item for item in first.items if item.kind == "page"]
    states = {step.index: step.state for step in experts[0].steps}
    assert [item.state for item in pages] == [states[item.step] for item in pages]
    assert not {code for step in experts[0].steps for one in step.tool_calls for code in (one.parsed or {}).values()
                if "-" in str(code)} & set(msgspec.json.encode(pages).decode().split('"'))  # fmt: skip

    for attempt in await run(tmp_path, "own", "page-planner", memory=str(own)):
        used = evidence(attempt, "memory_used")
        assert (len(used["records"]), used["refused"]) == (2, 0)
        assert evidence(attempt, "page_planner")["planned"] >= 3
        assert attempt.outcome == "pass"
    for attempt in await run(tmp_path, "other", "page-planner", memory=str(other), acts=3):
        used = evidence(attempt, "memory_used")
        assert (used["records"], used["refused"]) == ([], 2)
