"""The state of a run on nodes over time, and the metrics of an agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assay.http.metrics import MetricsRegistry
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.agent import AgentConfig, NodeAgent, TrialOutcome
from assay.rollout.cluster.agent_metrics import declare_agent_metrics
from assay.rollout.cluster.commits import commit_final, keep_cut, new_token, pack_trial
from assay.rollout.cluster.local_nodes import LocalNodes, NodeOrders
from assay.rollout.cluster.node_config import NodeConfig
from assay.rollout.cluster.place_records import PublishedRun, new_run_id, publish_run, read_published
from assay.rollout.cluster.run_status import MOST_BUCKETS, StatusReader, count_throughput
from assay.rollout.cluster.transport import GrantRequest, Lease, PollRequest
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.store.objects import open_place
from tests.metrics_text import parse_metrics
from tests.optional import require_packages

require_packages("obstore")
pytestmark = pytest.mark.quick


def _result(outcome: str | None = "pass", broke: str | None = None) -> TrialResult:
    return TrialResult(outcome, None, "done", None, broke, None, {})  # type: ignore[arg-type]


def _body(number: int, result: TrialResult | None) -> object:
    return pack_trial(f"t@{number}.0", 0, "blake3:" + "0" * 64, [], result)


async def test_a_reader_reads_each_trial_once(tmp_path: Path) -> None:
    place = open_place(f"file://{tmp_path}/objects", create=True)
    config = {"tasks": ["family:grid,n=4"], "agent": "expert"}
    manifest = {"config": config, "tasks": {f"t{n}": "blake3:0" for n in range(4)}, "agent": "expert"}
    await publish_run(place, PublishedRun(1, "r", new_run_id(), str(tmp_path), manifest))
    reader = StatusReader(place, "r")
    assert (await reader.read()).throughput is None
    await commit_final(place, "r", "t@0", new_token(), _body(0, _result()))  # type: ignore[arg-type]
    await commit_final(place, "r", "t@1", new_token(), _body(1, _result(None, "provider")))  # type: ignore[arg-type]
    await keep_cut(place, "r", "t@2", new_token(), _body(2, _result(None, "environment")), "retried")  # type: ignore[arg-type]
    status = await reader.read()
    assert (status.finals, status.outcomes, status.retried) == (2, {"broke": 1, "pass": 1}, 1)
    assert status.errors == {"environment": 1, "provider": 1}
    assert status.throughput is not None
    assert sum(status.throughput.counts) == 2
    assert status.last_final is not None
    for path in (tmp_path / "objects" / "runs" / "r").glob("*/*/*"):
        path.chmod(0o644)
        path.write_bytes(b"")  # a second reading of these would be a problem
    assert (await reader.read()).problems == ()
    assert len((await StatusReader(place, "r").read()).problems) == 3


async def test_finals_that_come_while_a_status_is_read_are_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_place(f"file://{tmp_path}/objects", create=True)
    manifest = {"config": {"tasks": ["family:grid,n=4"], "agent": "expert"}, "tasks": {"t": "blake3:0"}, "agent": "e"}
    await publish_run(place, PublishedRun(1, "r", new_run_id(), str(tmp_path), manifest))

    async def commit_one_more(*_: object) -> PublishedRun | None:
        await commit_final(place, "r", "t@0", new_token(), _body(0, _result()))  # type: ignore[arg-type]
        return await read_published(place, "r")

    monkeypatch.setattr("assay.rollout.cluster.run_status.read_published", commit_one_more)
    status = await StatusReader(place, "r").read()
    assert (status.finals, status.outcomes) == (0, {})


@pytest.mark.parametrize("seconds", [0, 0.5, 59, 3600, 90_000, 1e8])
def test_throughput_keeps_all_and_stays_short(seconds: float) -> None:
    times = [1e9 + seconds * number / 100 for number in range(101)]
    found = count_throughput(times)
    assert found is not None
    assert sum(found.counts) == 101
    assert 1 <= len(found.counts) == len(found.starts) <= MOST_BUCKETS + 1
    assert found.starts[0] <= times[0]
    assert times[-1] < found.starts[-1] + found.interval_s


async def test_an_agent_tells_slots_leases_spool_and_endings(tmp_path: Path) -> None:
    place = open_place(f"file://{tmp_path}/objects", create=True)
    going = asyncio.Event()

    async def run_trial(lease: Lease, starting: asyncio.Semaphore) -> TrialOutcome:
        await going.wait()
        return TrialOutcome("final", _body(lease.number, _result()))  # type: ignore[arg-type]

    metrics = RunMetrics(MetricsRegistry())
    agent = NodeAgent(AgentConfig("a", slots=2), place, run_trial, observers=lambda _: metrics)
    declare_agent_metrics(metrics.registry, agent)
    serving = asyncio.create_task(agent.serve())
    await asyncio.sleep(0)
    leases = [
        Lease("r", 1, f"t@{n}", "t", n, 7, 0, 0, may_retry=True, start_within_s=99.0, lifetime_s=99.0) for n in range(3)
    ]
    assert (await agent.grant(GrantRequest(tuple(leases)))).refused == ()
    await asyncio.sleep(0.05)
    before = _values(metrics.registry)
    assert (before["assay_slots",], before["assay_queue",]) == (2, 1)
    assert (before["assay_leases", "running"], before["assay_leases", "waiting"]) == (2, 1)
    assert ("assay_coordinator_poll_age_seconds",) not in before
    report = await agent.poll(PollRequest({}))
    assert report.load is not None
    assert (report.load.running, report.load.waiting, report.load.polled_s) == (2, 1, None)
    assert (await agent.poll(PollRequest({"r": 1}))).load is None
    going.set()
    while agent.leases:
        await asyncio.sleep(0.01)
    after = _values(metrics.registry)
    assert after["assay_leases_ended_total", "final"] == 3
    assert after["assay_commit_seconds_count", "place"] == 3
    assert (after["assay_queue",], after["assay_spool_bytes",]) == (0, 0)
    assert after["assay_coordinator_poll_age_seconds",] >= 0
    await agent.drain()
    await serving


def _values(registry: MetricsRegistry) -> dict[tuple[str, ...], float]:
    families = parse_metrics(registry.response().body.decode())
    return {
        (s.name, *s.labels.values()): s.value for family in families for s in family.samples if "le" not in s.labels
    }


async def test_what_local_nodes_could_not_send_is_said_by_the_command(tmp_path: Path) -> None:
    orders = NodeOrders(NodeConfig(runs=("r",), place="memory:"), "a-token-of-some-length", "s", "c")
    (tmp_path / "node-0.log").write_text("otel: 9 of 9 spans of an earlier command\n")
    warned: list[str] = []
    nodes = LocalNodes(1, orders, tmp_path, warned.append)
    nodes._start = lambda number: _write_log(nodes, number)  # type: ignore[method-assign]
    async with nodes:
        pass
    assert warned == ["local node 0: otel: 3 of 18 spans did not reach the collector"]


async def _write_log(nodes: LocalNodes, number: int) -> None:
    with nodes._log(number).open("ab") as log:
        nodes._log_starts[number] = log.tell()
        log.write(b"agent local-0: drained\notel: 3 of 18 spans did not reach the collector\n")
    nodes.processes[number] = await asyncio.create_subprocess_exec("true", stdin=asyncio.subprocess.PIPE)
