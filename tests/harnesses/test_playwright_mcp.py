"""Real harnesses use the real Playwright MCP in their sandbox, on the site of the attempt and on no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.learning.conversation import stored_pictures
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore, audit
from tests.optional import require_browser

from .playwright_model import SITE

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
MODEL = "scripted:tests.harnesses.playwright_model:answer"
TASK = "family:sites,site=museum,n=1,least=3,most=7"


@pytest.fixture
def need_browser(need_installed: Callable[[str], None]) -> None:
    """Skips where Playwright MCP (by npm) or Chromium is absent."""
    need_installed("playwright-mcp")
    require_browser()


async def run(tmp_path: Path, harness: str, task: str = TASK) -> tuple[Trajectory, RunStore]:
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    options = {"browser": "playwright-mcp"}
    config = RunConfig(tasks=(task,), agent=harness, model=MODEL, agent_options=options, run="r")
    await start_run(config, settings, Tally())
    assert audit(settings.store, "r") == ()
    store = RunStore.open(settings.store, "r")
    return store.trajectory(store.attempts()[0].chain), store


@pytest.mark.usefixtures("need_browser")
@pytest.mark.parametrize("harness", ["claude-code", "codex", "pi"])
async def test_a_harness_does_a_task_by_its_own_browser(
    harness: str, tmp_path: Path, need_installed: Callable[[str], None]
) -> None:
    need_installed(harness)
    found, store = await run(tmp_path, harness)
    with store:
        assert found.outcome == "pass", (found.finished, found.steps[-1:])
        (used,) = [one.data for one in found.evidence if one.kind == "harness"]
        assert (used["servers"], used["browser"]["name"]) == (["playwright"], "playwright-mcp")
        # Home, exhibitions, tours, and exhibitions with the discount, as the steps of the harness's model found them.
        assert len({step.state for step in found.steps}) == 4
        outputs = [seen.content for step in found.steps for seen in step.observations]
        assert any(SITE in text for text in outputs)
        assert any("ERR_NAME_NOT_RESOLVED" in text for text in outputs)
        shown = {name for call in found.calls for name in stored_pictures(call.request.get("messages") or ())}
        (picture,) = shown
        assert store.blobs.get(picture).startswith((b"\x89PNG", b"\xff\xd8\xff"))
        if harness != "pi":  # which shows pictures in a message after the result
            assert any(f"[picture {picture}]" in text for text in outputs)
        assert b"base64" not in msgspec.json.encode([[call.request for call in found.calls], found.steps])


@pytest.mark.usefixtures("need_browser")
async def test_a_task_without_pages_is_refused(tmp_path: Path, need_installed: Callable[[str], None]) -> None:
    need_installed("pi")
    found, store = await run(tmp_path, "pi", f"{TASK},interface=tools")
    store.close()
    assert found.finished is not None
    assert "needs a task with pages" in str(found.finished)
