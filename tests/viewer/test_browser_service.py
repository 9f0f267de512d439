"""The page of the rollout service, in a real Chromium: a real service, and a trainer that falls behind its weights."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.learning.service.serve import ServiceAddress, serve_rollouts
from assay.learning.service.service_config import RolloutServiceConfig
from assay.learning.service.service_state import ServiceReader
from assay.records import Limits
from assay.settings import Settings
from assay.viewer.server import open_viewer
from tests.learning.service.client import ask
from tests.optional import require_packages

if TYPE_CHECKING:
    from playwright.sync_api import Browser

require_packages("playwright", "torch", "transformers")
from playwright.sync_api import expect  # noqa: E402

from tests.processes import wait_for  # noqa: E402
from tests.viewer.conftest import Opened  # noqa: E402

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 240.0
NONE = "\u2013"


class Served:
    """A service and a viewer of its store, in a thread of their own."""

    def __init__(self, root: Path, config: RolloutServiceConfig | None) -> None:
        self._root, self._config = root, config
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        opened: asyncio.Future[ServiceAddress] = self._loop.create_future()
        async with (
            asyncio.TaskGroup() as group,
            open_viewer(self._root, read_service=ServiceReader(self._root).read) as viewer,
        ):
            if self._config is not None:
                settings = Settings(self._root, self._root)
                group.create_task(serve_rollouts(self._config, settings, opened.set_result, self._stop.wait()))
                self.url, token_file = await opened
                self.token = token_file.read_text(encoding="utf-8").strip()
            self.page = viewer.url
            self._ready.set()
            await self._stop.wait()

    def ask(self, path: str, body: bytes | None = None) -> Any:
        return ask(f"{self.url}/v1/{path}", self.token, "GET" if body is None else "POST", body)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(60), "the servers did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    from scripts.tiny_model import write_tiny_model

    write_tiny_model(tmp_path / "v0", context=2048)
    for step in (2, 3):
        shutil.copytree(tmp_path / "v0", tmp_path / f"v{step}")
    policies = {"actor": f"local:{tmp_path}/{{version}}?device=cpu"}
    config = RolloutServiceConfig(policies=policies, families=("grid",), concurrency=2, limits=Limits(turns=1))
    with Served(tmp_path / "store", config) as both:
        yield both


def _submit(served: Served, name: str, step: int) -> None:
    fields = {"policy": {"name": "actor"}, "tasks": ["family:grid,n=2,size=3"], "agent_options": {"max_tokens": 16}}
    served.ask("batches", json.dumps({"id": name, **fields, "step": step, "most_lag": 1}).encode())


def _post(served: Served, step: int) -> None:
    served.ask("policies/actor/versions", f'{{"version": "v{step}", "step": {step}}}'.encode())


@pytest.mark.long
def test_the_page_shows_versions_queue_and_lag(served: Served, chromium: Browser) -> None:
    _post(served, 0)
    _submit(served, "one", 0)
    _submit(served, "four", 4)
    wait_for(lambda: served.ask("batches/one")["state"] == "done", PATIENCE_S)
    with Opened(chromium, served.page) as look:
        page = look.go("#/")
        look.follow(page.get_by_role("link", name="Rollout service"))
        expect(page.get_by_role("heading", level=1)).to_have_text("Rollout service")
        expect(page.get_by_text("1 waiting, 0 running")).to_be_visible()
        batches = page.get_by_role("region", name="Batches, table").get_by_role("row")
        expect(batches).to_have_count(3)
        waiting, done = batches.filter(has_text="four"), batches.filter(has_text="one")
        expect(waiting.get_by_role("cell")).to_contain_text(["actor", "waiting", "4", "1", "3", "0"])
        expect(done.get_by_role("cell")).to_contain_text(["actor", "done", "0", "1", NONE, "2"])

        _post(served, 2)  # the trainer moved on by two steps before it takes what the old weights made
        cursor = served.ask("batches/one/groups")["next"]
        served.ask("batches/one/acknowledge", f'{{"cursor": {cursor}}}'.encode())
        policies = page.get_by_role("region", name="Policies, table").get_by_role("row")
        expect(policies.filter(has_text="actor").get_by_role("cell")).to_contain_text(["2", "v2", "1", "0", "2"])
        expect(done.get_by_role("cell")).to_contain_text(["actor", "done", "0", "1", NONE, "0"])
        _post(served, 3)
        expect(batches.filter(has_text="done")).to_have_count(2, timeout=1000 * PATIENCE_S)
        look.follow(batches.get_by_role("link", name="four"))
        look.follow(page.get_by_role("navigation", name="Pages of this run").get_by_role("link", name="Service"))
        expect(page.get_by_text("0 waiting, 0 running")).to_be_visible()


@pytest.mark.long
def test_a_store_without_a_service_says_so(store: Path, chromium: Browser) -> None:
    with Served(store, None) as served, Opened(chromium, served.page) as look:
        page = look.go("#/")
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        expect(page.get_by_role("link", name="Rollout service")).to_have_count(0)
        page = look.go("#/service")
        expect(page.get_by_text("This store has no rollout service.")).to_be_visible()
