"""Metrics of the standalone gateway: for the holder of a session's key, without text, and of no run's gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from assay.agents.interface import Endpoint
from assay.gateway.server import Gateway
from assay.rollout.exchange.config import ServeConfig
from assay.rollout.exchange.standalone_gateway import serve_gateway
from assay.settings import Settings
from tests.metrics_text import parse_metrics

pytestmark = pytest.mark.quick
SCRIPT = """{"rules": [{"match": "fail", "reply": {"error": {"message": "down", "retryable": false}}}],
"default": "hello"}"""
SECRET = "sk-said-in-a-prompt-0123456789"


async def _ask(client: aiohttp.ClientSession, one: Endpoint, key: str, text: str = SECRET) -> int:
    body = {"model": SECRET, "messages": [{"role": "user", "content": text}]}
    headers = {"Authorization": f"Bearer {key}"}
    async with client.post(f"{one.url}/v1/chat/completions", json=body, headers=headers) as response:
        return response.status


async def _scrape(client: aiohttp.ClientSession, one: Endpoint, key: str) -> tuple[int, str]:
    url = f"{one.url.partition('/s/')[0]}/metrics"
    async with client.get(url, headers={"Authorization": f"Bearer {key}"}) as response:
        return response.status, await response.text()


async def test_calls_tokens_and_rejections_are_counted(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(SCRIPT)
    config = ServeConfig(model=f"scripted:{tmp_path / 'script.json'}", sessions=2)
    opened: asyncio.Future[tuple[Endpoint, ...]] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()
    serving = asyncio.create_task(
        serve_gateway(config, Settings(tmp_path, tmp_path), lambda _, found: opened.set_result(found), done.wait())
    )
    first, second = await opened
    async with aiohttp.ClientSession() as client:
        assert [await _ask(client, first, first.key, text) for text in (SECRET, SECRET, "fail")] == [200, 200, 502]
        assert await _ask(client, second, "wrong") == 401
        assert (await _scrape(client, first, "wrong"))[0] == 401
        status, text = await _scrape(client, first, second.key)
    done.set()
    await serving
    found = {(s.name, *s.labels.values()): s.value for f in parse_metrics(text) for s in f.samples}
    assert (status, SECRET in text) == (200, False)
    assert found["assay_model_calls_total", "agent", "ok"] == 2
    assert found["assay_model_calls_total", "agent", "error"] == 1
    assert found["assay_model_call_seconds_count", "agent"] == 3
    assert found["assay_model_tokens_total", "output"] > 0
    assert (found["assay_gateway_sessions",], found["assay_gateway_calls",]) == (2, 0)
    assert found["assay_gateway_rejections_total", "unauthorized"] == 1
    assert found["assay_gateway_rejections_total", "upstream"] == 1


async def test_the_gateway_of_a_run_serves_none() -> None:
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with Gateway() as gateway, aiohttp.ClientSession() as client:
        await gateway.listen(listener)
        async with client.get(f"http://127.0.0.1:{port}/metrics") as response:
            assert response.status == 404
