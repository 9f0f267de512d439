"""The page of a run's nodes, in a real Chromium: while two real nodes do a run, and for a run without nodes."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay.rollout.cluster.live_status import LiveStatus
from assay.settings import Settings
from assay.viewer.server import open_viewer
from tests.optional import require_packages

if TYPE_CHECKING:
    from playwright.sync_api import Browser

require_packages("obstore", "playwright")
from playwright.sync_api import expect  # noqa: E402

from tests.metrics_text import parse_metrics  # noqa: E402
from tests.processes import assay_processes, wait_for  # noqa: E402
from tests.viewer.conftest import Opened  # noqa: E402

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 240.0
"""A busy machine takes minutes to start processes."""
AGENT = """
import asyncio
from pathlib import Path
from assay.agents.expert import ExpertAgent

class Held(ExpertAgent):
    name = "held"

    async def run(self, attempt):
        while attempt.task.id.endswith(("1", "3")) and not Path("go").exists():
            await asyncio.sleep(0.1)
        await super().run(attempt)
"""


class ServedNodes:
    """A viewer of a store that asks nodes, in a thread of its own."""

    def __init__(self, root: Path, *, asks: bool = True) -> None:
        self._root, self._asks = root, asks
        self._ready, self._url = threading.Event(), ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        read = LiveStatus(Settings(self._root, self._root)).read if self._asks else None
        async with open_viewer(self._root, read_nodes=read) as viewer:
            self._loop, self._stop, self._url = asyncio.get_running_loop(), asyncio.Event(), viewer.url
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> str:
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"
        return self._url

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "held.py").write_text(AGENT)
    words = ("run", "family:grid,n=4,size=3", "--agent", "held.py:Held", "--attempts", "2", "--run", "many")
    with assay_processes(tmp_path) as begin:
        yield begin("many", (*words, "--nodes", "2", "--concurrency", "4"))


@pytest.mark.long
def test_the_page_follows_a_run_of_two_nodes_to_its_end(
    running: subprocess.Popen[bytes], tmp_path: Path, chromium: Browser
) -> None:
    finals = tmp_path / ".assay/objects/runs/many/finals"
    wait_for(lambda: len(list(finals.glob("*/*"))) == 4, PATIENCE_S)
    _check_metrics(tmp_path)
    with ServedNodes(tmp_path / ".assay") as url, Opened(chromium, url) as look:
        page = look.go("#/run/many")
        look.follow(page.get_by_role("link", name="Nodes"))
        expect(page.get_by_role("heading", level=1)).to_have_text("Nodes of many")
        expect(page.get_by_text("4 of 8 attempts decided")).to_be_visible()
        nodes = page.get_by_role("region", name="Nodes, table").get_by_role("row")
        expect(nodes).to_have_count(3)
        expect(nodes.filter(has_text="answers")).to_have_count(2, timeout=1000 * PATIENCE_S)
        expect(page.get_by_text("4 running")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^Decided attempts over time. 4 in"))).to_be_visible()
        expect(page.get_by_role("region", name="Errors by boundary")).to_contain_text("None.")
        (tmp_path / "go").touch()
        expect(page.get_by_text("8 of 8 attempts decided")).to_be_visible(timeout=1000 * PATIENCE_S)
        expect(page.get_by_text("The run is complete, and its nodes have left.")).to_be_visible(
            timeout=1000 * PATIENCE_S
        )
    assert running.wait(PATIENCE_S) == 0


def _check_metrics(folder: Path) -> None:
    """Scrapes both nodes."""
    token = (folder / ".assay/nodes/many/token").read_text().strip()
    urls = [json.loads(p.read_text())["url"] for p in (folder / ".assay/objects/runs/many/agents").glob("*.json")]
    totals: dict[str, float] = {}
    for url in urls:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}/metrics", timeout=20)
        request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=20) as response:
            text = response.read().decode()
        assert token not in text
        for family in parse_metrics(text):
            for sample in family.samples:
                key = f"{sample.name} {' '.join(sample.labels.values())}".strip()
                totals[key] = totals.get(key, 0.0) + sample.value
    assert len(urls) == 2
    assert (totals["assay_slots"], totals["assay_attempts_total pass"]) == (8, 4)
    assert (totals["assay_attempts agent"], totals["assay_leases_ended_total final"]) == (4, 4)
    assert (totals["assay_commit_seconds_count place"], totals["assay_commit_seconds_count store"]) == (4, 4)


@pytest.mark.long
def test_a_run_without_nodes_and_a_viewer_that_asks_none_say_so(store: Path, chromium: Browser) -> None:
    with ServedNodes(store) as url, Opened(chromium, url) as look:
        page = look.go("#/run/demo")
        expect(
            page.get_by_role("navigation", name="Pages of this run").get_by_role("link", name="Nodes")
        ).to_have_count(0)
        page = look.go("#/run/demo/nodes")
        expect(page.get_by_text("This run was not done by nodes.")).to_be_visible()
    with ServedNodes(store, asks=False) as url, Opened(chromium, url) as look:
        expect(look.go("#/run/demo/nodes").get_by_text("This viewer does not ask nodes")).to_be_visible()
