"""Attempts in uvloop, the event loop of many model servers, and of Ray's actors where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from tests.admission.folders import CAREFUL, write_task
from tests.cli.conftest import Say


@pytest.fixture(autouse=True)
def policy() -> Iterator[None]:
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    yield
    asyncio.set_event_loop_policy(before)


@pytest.mark.long
def test_a_task_in_a_sandbox_is_run(say: Say, tmp_path: Path) -> None:
    write_task(tmp_path / "task", CAREFUL)
    code, _, err = say("run", "task", "--agent", "oracle", "--attempts", "2")
    assert (code, "2/2 done: 2 pass" in err) == (0, True), err
