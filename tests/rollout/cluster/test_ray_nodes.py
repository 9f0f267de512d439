"""Nodes on a cluster of Ray: addresses, links and the actor, without a cluster."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from assay.errors import EnvironmentFailure, MissingLibraryError, UserError
from assay.rollout.cluster.local_nodes import COMMAND, FAILED, NodeEnd, NodeOrders, Restarts
from assay.rollout.cluster.node_config import NodeConfig
from assay.rollout.cluster.place_records import AgentAnnouncement, connect_http
from assay.rollout.cluster.ray_actor import UNREACHABLE, NodeActor
from assay.rollout.cluster.ray_nodes import RayAgentLink, RayConnection, connect_ray, require_address


class _Actor(NodeActor):
    """An actor outside Ray, which never exits."""

    def _exit_later(self) -> None:
        self.has_ended = True


def _orders(folder: Path, wait_s: float) -> bytes:
    (folder / "objects").mkdir(exist_ok=True)
    config = NodeConfig(runs=("r",), place=f"file://{folder}/objects", wait_s=wait_s)
    return msgspec.json.encode(NodeOrders(config, "", str(folder), str(folder), "ray://actor"))


@pytest.mark.quick
@pytest.mark.parametrize("nodes", ["ray:local", "ray:auto", "ray:10.0.0.1:6379", "ray://head:10001", "ray:[::1]:6379"])
def test_addresses_of_ray(nodes: str) -> None:
    require_address(nodes)


@pytest.mark.quick
@pytest.mark.parametrize("nodes", ["ray:", "ray:head", "ray://head", "ray:a b:1", "ray:head:6379/x", "ray:head:port"])
def test_a_text_that_is_no_address_is_refused(nodes: str) -> None:
    with pytest.raises(UserError, match="ray:local"):
        RayConnection(nodes)


@pytest.mark.quick
async def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingLibraryError, match=r"assay\[ray\]"):
        await RayConnection("ray:local").open()


@pytest.mark.quick
def test_ray_is_not_imported_before_it_is_used() -> None:
    program = "import sys, assay.cli.run, assay.rollout.cluster.placed_run; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.quick
def test_links_go_by_the_address() -> None:
    in_ray = AgentAnnouncement(1, "r", "a", "ray://actor", 1)
    by_http = AgentAnnouncement(1, "r", "b", "http://127.0.0.1:1", 1)
    token = "a-token-of-some-length"
    assert connect_http(token)(in_ray) is None
    assert connect_http(None)(by_http) is None
    assert isinstance(connect_ray()(in_ray), RayAgentLink)
    assert connect_ray()(by_http) is None
    assert connect_ray(token)(by_http) is not None


@pytest.mark.quick
def test_restarts_are_bounded_and_begin_anew_after_a_long_life() -> None:
    restarts = Restarts(1.0)
    assert [restarts.next_wait(None, 1.0) for _ in range(4)] == [1.0, 2.0, 4.0, None]
    assert restarts.next_wait(-9, 700.0) == 1.0
    assert restarts.next_wait(FAILED, 700.0) is None
    assert restarts.next_wait(0, 1.0) is None


@pytest.mark.long
async def test_an_actor_tells_why_its_node_failed(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    actor = _Actor()
    end = msgspec.json.decode(await actor.run(_orders(tmp_path, 0.1)), type=NodeEnd)
    assert (end.code, actor.has_ended) == (FAILED, True)
    assert "holds no run 'r'" in end.error
    assert await actor.call("poll", b"{}") == (UNREACHABLE, b"the node has not started, or has left")


@pytest.mark.long
async def test_a_node_leaves_when_its_actor_says_so_or_is_gone(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    actor = _Actor()
    running = asyncio.create_task(actor.run(_orders(tmp_path, 600.0)))
    async with asyncio.timeout(60.0):
        while actor._process is None or actor._process.returncode is None:  # the parent that the node left
            await asyncio.sleep(0.05)
        await actor.leave()
        assert msgspec.json.decode(await running, type=NodeEnd) == NodeEnd(0)
    other = _Actor()
    await other.leave()
    assert msgspec.json.decode(await other.run(b""), type=NodeEnd) == NodeEnd(0)


def test_a_node_keeps_nothing_of_its_actor_open() -> None:
    """In uvloop an actor passes on what Ray has left inheritable, and copies of the node's pipes."""
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    words = [*COMMAND, "--detach"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as parent:
        os.close(theirs)
        parent.wait(60.0)
        ended, _, _ = select.select([ours], [], [], 60.0)
        os.close(ours)
        assert ended  # while the node waits for its orders
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.close()
        assert parent.stdout.read() == b""


@pytest.mark.long
async def test_a_cluster_that_does_not_answer_is_named_with_how_to_show_its_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("ray.init", _refuse)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    named = r"no connection to ray:127\.0\.0\.1:1: nothing listens"
    with pytest.raises(EnvironmentFailure, match=f"{named}; .* set RAY_AUTH_MODE=token here"):
        await RayConnection("ray:127.0.0.1:1").open()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(EnvironmentFailure, match=f"{named}$"):
        await RayConnection("ray:127.0.0.1:1").open()


def _refuse(**_: object) -> None:
    raise ConnectionError("nothing listens")


@pytest.mark.quick
def test_an_actor_in_ray_imports_no_libraries_of_arrays() -> None:
    program = """
import sys
from assay.rollout.cluster.ray_actor import RayNodeActor
RayNodeActor()
import assay.rollout.cluster.transport  # as it does when no command has called it for long
try:
    import pyarrow
except ModuleNotFoundError:  # what Ray expects where it is not installed
    sys.exit("numpy" in sys.modules)
sys.exit(2)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
