"""Local nodes that die are started again a bounded number of times, with the reason; others are not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from assay.errors import EnvironmentFailure
from assay.rollout.cluster.local_nodes import COMMAND, LocalNodes, NodeOrders
from assay.rollout.cluster.node_config import NodeConfig

COUNT = 'import sys; sys.stdin.readline(); open("starts", "a").write("1")\n'
KILLED = COUNT + 'import os; print("out of memory", file=sys.stderr, flush=True); os.kill(os.getpid(), 9)'
LIVING = COUNT + "sys.stdin.read()"


def _nodes(folder: Path, program: str | None, warnings: list[str], count: int = 1) -> LocalNodes:
    orders = NodeOrders(
        NodeConfig(runs=("r",), place=f"file://{folder}/absent", wait_s=1.0),
        "a-token-of-some-length",
        str(folder),
        str(folder),
    )
    command = COMMAND if program is None else (sys.executable, "-c", program)
    return LocalNodes(count, orders, folder, warnings.append, command=command, restart_wait_s=0.01)


async def _wait_for_starts(folder: Path, starts: str) -> None:
    async with asyncio.timeout(120.0):
        while not (folder / "starts").exists() or (folder / "starts").read_text() != starts:
            await asyncio.sleep(0.01)


async def test_a_node_that_dies_is_started_again_three_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    warnings: list[str] = []
    async with _nodes(tmp_path, KILLED, warnings) as nodes:
        with pytest.raises(EnvironmentFailure, match=r"all local nodes have ended; their logs are in"):
            await nodes.watch()
    assert (tmp_path / "starts").read_text() == "1111"
    begin = "local node 0 ended (SIGKILL); "
    again = [f"{begin}it is started again ({number} of 3): out of memory" for number in (1, 2, 3)]
    assert warnings == [*again, f"{begin}its attempts are run elsewhere: out of memory"]


@pytest.mark.parametrize(("code", "starts"), [(0, "1"), (3, "1"), (1, "1111")])
async def test_a_node_that_leaves_or_says_why_it_fails_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, starts: str
) -> None:
    monkeypatch.chdir(tmp_path)
    async with _nodes(tmp_path, f"{COUNT}\nsys.exit({code})", []) as nodes:
        with pytest.raises(EnvironmentFailure):
            await nodes.watch()
    assert (tmp_path / "starts").read_text() == starts


async def test_a_restarted_node_ends_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    warnings: list[str] = []
    async with _nodes(tmp_path, LIVING, warnings, count=2) as nodes:
        watching = asyncio.create_task(nodes.watch())
        await _wait_for_starts(tmp_path, "11")
        os.kill(nodes.processes[1].pid, signal.SIGKILL)
        await _wait_for_starts(tmp_path, "111")
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        latest = list(nodes.processes.values())
    assert [process.returncode for process in latest] == [0, 0]
    assert warnings == ["local node 1 ended (SIGKILL); it is started again (1 of 3)"]


@pytest.mark.long
async def test_a_node_without_its_place_says_so_once(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    warnings: list[str] = []
    async with _nodes(tmp_path, None, warnings) as nodes:
        with pytest.raises(EnvironmentFailure):
            await nodes.watch()
    (warning,) = warnings
    assert "exit code 3" in warning
    assert "absent" in warning
