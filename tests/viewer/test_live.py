"""A page that looks at a live run is told what changes, and no more than a page can take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assay.records import AttemptEnded, Noted
from assay.store import RunStore, seal
from assay.viewer import live
from assay.viewer.live import watch
from tests.viewer.made_runs import given, small_run, started

pytestmark = pytest.mark.quick


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.02)


async def told(messages: AsyncIterator[bytes], name: str) -> dict[str, Any]:
    """The next message of that name."""
    async with asyncio.timeout(10):
        async for message in messages:
            kind, _, data = message.decode().partition("\ndata: ")
            if kind == f"event: {name}":
                found: dict[str, Any] = json.loads(data)
                return found
    raise AssertionError


async def test_rows_that_change_are_told(tmp_path: Path, quickly: None) -> None:
    small_run(tmp_path)
    with ThreadPoolExecutor(1) as makers, RunStore.open(tmp_path, "r", write=True) as store:
        messages = watch(tmp_path, "r", store.live.last_seq(), makers)
        assert (await told(messages, "state"))["state"] == "running"
        store.append("pkg/t@4.0", [given("outcome", "pass", "tests"), AttemptEnded("done", at=9.0)])
        rows = await told(messages, "rows")
        assert rows["columns"]["chain"] == ["pkg/t@4.0"]
        assert rows["names"]["outcome"] == ["pass"]
        await messages.aclose()  # type: ignore[attr-defined]


async def test_many_changes_ask_for_a_reload(tmp_path: Path, quickly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_ROWS", 3)
    small_run(tmp_path)
    with ThreadPoolExecutor(1) as makers:
        assert (await told(watch(tmp_path, "r", 0, makers), "rows"))["reload"] is True


async def test_sealing_ends_it(tmp_path: Path, quickly: None) -> None:
    small_run(tmp_path)
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.append("pkg/t@4.0", [Noted("interrupted")])
    seal(tmp_path, "r")
    with ThreadPoolExecutor(1) as makers:
        messages = watch(tmp_path, "r", 0, makers)
        assert (await told(messages, "ended"))["why"] == "sealed"
        assert [message async for message in messages] == []


async def test_a_new_run_is_told(tmp_path: Path, quickly: None) -> None:
    small_run(tmp_path)
    with ThreadPoolExecutor(1) as makers:
        messages = watch(tmp_path, "", 0, makers)
        assert (await told(messages, "state"))["runs"] == 1
        with RunStore.create(tmp_path, "second", {}) as store:
            store.append("pkg/t@0.0", [started("second", 0)])
        assert (await told(messages, "state"))["newest"] == ["r", "second"]


async def test_no_recorded_text_ends_a_message(tmp_path: Path, quickly: None) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append("x\n\nevent: rows\ndata: {}\n\n.0", [started("r", 0, task="\n\nevent: ended\ndata: {}\n\n")])
    with ThreadPoolExecutor(1) as makers:
        messages = watch(tmp_path, "r", 0, makers)
        both = [await anext(messages), await anext(messages)]
    assert [message.count(b"\n") for message in both] == [3, 3]
