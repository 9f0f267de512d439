"""Coordinators and agents under virtual time: epochs, rounds, times of the protocol, budgets."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.rollout.cluster.agent import AgentConfig, NodeAgent, TrialOutcome
from assay.rollout.cluster.coordinator import Coordinator, CoordinatorConfig
from assay.rollout.cluster.epochs import RoundRecord, publish_round, read_rounds, take_epoch
from assay.rollout.cluster.objects import numbered_key
from assay.rollout.cluster.placement import NodeResources, Requirements
from assay.rollout.cluster.run_state import LeaseTimes, RunState
from assay.rollout.cluster.transport import GrantRequest, Lease, PollRequest
from assay.rollout.limits.run_budget import BudgetLimits
from assay.rollout.schedule.allocation import Grant
from assay.rollout.schedule.policies import policy_named
from tests.simulation.bucket import Bucket, BucketFaults, BucketView
from tests.simulation.cluster import SHARES, InProcessAgents, SimulatedCluster, SimulationConfig, make_runs
from tests.simulation.virtual_time import run_virtual

NODE = NodeResources(("namespaces",), 0, frozenset())
TOKENS = "a" * 32, "b" * 32


def _cluster(**options: Any) -> SimulatedCluster:
    given = {"slots": 8, "slots_per_node": 4, "attempts": 40, "failed": 0.0, "lost": 0.0, "lost_messages": 0.0}
    config = msgspec.convert({**given, "median_s": 30.0, "wall_s": 60.0, "retried": 0.0, **options}, SimulationConfig)
    return SimulatedCluster(config, (SHARES[0],))


def _lease(**changes: Any) -> Lease:
    fields: dict[str, Any] = {
        "run": "fixed",
        "epoch": 1,
        "attempt": "t@0",
        "task": "fixed/task-0",
        "number": 0,
        "seed": 0,
    }
    fields |= {"round": 0, "retry": 0, "may_retry": False, "start_within_s": 120.0, "lifetime_s": 600.0}
    return Lease(**(fields | changes))


def test_epochs_go_up_and_a_lost_answer_takes_one_epoch_only() -> None:
    bucket = _cluster().bucket
    view = BucketView(bucket)

    async def program() -> list[int]:
        first = await take_epoch(view, "r", TOKENS[0])
        bucket.lose_next = 1
        return [first, await take_epoch(view, "r", TOKENS[1]), await take_epoch(view, "r", TOKENS[0])]

    assert run_virtual(program()) == [1, 2, 3]


def test_two_coordinators_that_decide_one_round_go_on_with_the_first() -> None:
    view = BucketView(_cluster().bucket)
    mine = RoundRecord(1, "r", 0, 1, (Grant(0, 2),), ())
    theirs = RoundRecord(1, "r", 0, 2, (Grant(1, 2),), ())

    async def program() -> None:
        assert await publish_round(view, mine) == mine
        assert await publish_round(view, theirs) == mine
        assert list(await read_rounds(view, "r")) == [mine]

    run_virtual(program())


@pytest.mark.parametrize("data", [b"", b"{}", b'{"schema":1,"run":"x","round":0,"epoch":1,"grants":[],"scores":[]}'])
def test_a_damaged_round_is_refused(data: bytes) -> None:
    bucket = _cluster().bucket
    bucket.create(numbered_key("r", "rounds", 0), data)
    with pytest.raises(StoreError):
        run_virtual(read_rounds(BucketView(bucket), "r"))


@pytest.mark.parametrize(
    "record",
    [
        RoundRecord(1, "fixed", 1, 1, (Grant(0, 1),), ()),
        RoundRecord(1, "fixed", 0, 1, (Grant(0, 41),), ()),
        RoundRecord(1, "fixed", 0, 1, (Grant(9, 1),), ()),
        RoundRecord(1, "fixed", 0, 1, (Grant(0, 1),), (0.5,)),
        RoundRecord(1, "fixed", 0, 1, (), ()),
    ],
)
def test_a_round_that_does_not_follow_is_refused(record: RoundRecord) -> None:
    (run,) = make_runs(40, 0, 60.0, (SHARES[0],))
    with pytest.raises(StoreError, match="does not follow"):
        RunState(run, 1, LeaseTimes()).restore([record], set())


def test_an_allocation_that_forks_is_refused() -> None:
    (run,) = make_runs(40, 0, 60.0, (SHARES[0],))
    with pytest.raises(UserError, match="one machine only"):
        RunState(run._replace(policy=policy_named("forks", {})), 1, LeaseTimes())


def test_agents_refuse_a_lower_epoch_and_tell_of_the_higher() -> None:
    cluster = _cluster()

    async def program() -> None:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        await asyncio.sleep(0)
        await agent.poll(PollRequest({"fixed": 2}))
        low = _lease(epoch=1)
        assert (await agent.grant(GrantRequest((low,)))).refused == (low.ref,)
        assert (await agent.poll(PollRequest({"fixed": 1}))).stale == {"fixed": 2}
        assert (await agent.grant(GrantRequest((_lease(epoch=2),)))).refused == ()
        assert (await agent.poll(PollRequest({"fixed": 3}, all_leases=True))).leases == (low.ref,)

    run_virtual(program())


@pytest.mark.parametrize(("gpus", "needs"), [(1, r"'docker' and 1 GPU\(s\)"), (0, "'docker'")], ids=["none", "lost"])
def test_a_run_that_no_node_can_run_ends_with_an_error(gpus: int, needs: str) -> None:
    cluster = _cluster()
    cluster.runs = [cluster.runs[0]._replace(require=lambda _: Requirements("docker", gpus))]

    async def program() -> None:
        cluster.nodes["node-1"].isolation = ("namespaces",) if gpus else ("docker",)
        cluster.start_nodes()
        running = cluster.start_coordinator()
        await asyncio.sleep(60.0)
        cluster.nodes["node-1"].kill()
        await asyncio.wait_for(running, 3_600.0)

    with pytest.raises(UserError, match=rf"{needs}, which no node has \(node-0: namespaces, 0 GPU"):
        run_virtual(program())


def test_an_agent_takes_five_leases_for_four_slots_and_returns_late_ones() -> None:
    cluster = _cluster(median_s=500.0, spread=0.0, wall_s=600.0)

    async def program() -> None:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        await asyncio.sleep(0)
        leases = tuple(_lease(attempt=f"t@{number}") for number in range(7))
        reply = await agent.grant(GrantRequest(leases))
        assert reply.refused == (leases[5].ref, leases[6].ref)
        await asyncio.sleep(130.0)
        report = await agent.poll(PollRequest({"fixed": 1}))
        assert (report.running, report.waiting, report.capacity) == (4, 0, 1)
        assert [(end.attempt, end.ending) for end in report.ends] == [("t@4", "returned")]
        tokens = tuple(end.token for end in report.ends)
        assert (await agent.poll(PollRequest({"fixed": 1}, tokens))).ends == ()

    run_virtual(program())


def test_a_trial_that_outlives_its_lease_is_cut() -> None:
    cluster = _cluster(median_s=500.0, spread=0.0, wall_s=600.0)

    async def program() -> None:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        await asyncio.sleep(0)
        await agent.grant(GrantRequest((_lease(lifetime_s=100.0),)))
        await asyncio.sleep(120.0)
        await agent.poll(PollRequest({}))
        await asyncio.sleep(5.0)
        report = await agent.poll(PollRequest({"fixed": 1}))
        assert [end.ending for end in report.ends] == ["crashed"]
        assert any("/cut/" in key for key in cluster.bucket.objects)

    run_virtual(program())


def test_leases_of_a_hung_node_are_granted_again_within_35_seconds() -> None:
    cluster = _cluster(attempts=5, median_s=50.0, spread=0.0)

    async def program() -> float:
        cluster.start_nodes()
        cluster.start_coordinator()
        await asyncio.sleep(12.0)
        hung = next(node for node in cluster.nodes.values() if node.agent is not None and node.agent._running)
        hung.is_cut, cut = True, asyncio.get_running_loop().time()
        before = cluster.tally.trials
        while cluster.tally.trials == before:
            await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - cut

    assert run_virtual(program()) <= 35.0


def test_idle_agents_are_polled_less_often_and_at_once_for_new_work() -> None:
    cluster = _cluster(slots=40, attempts=4, median_s=50.0, spread=0.0)
    polls: list[float] = []

    async def program() -> float:
        cluster.start_nodes()
        for node in cluster.nodes.values():
            poll = node.poll

            async def count(request: PollRequest, poll: Any = poll) -> Any:
                polls.append(asyncio.get_running_loop().time())
                return await poll(request)

            node.poll = count  # type: ignore[method-assign]
        cluster.start_coordinator()
        await asyncio.sleep(29.0)
        idle_polls = len(polls)
        busy = next(node for node in cluster.nodes.values() if node.agent is not None and node.agent._running)
        busy.kill()
        busy.start()  # another session: its leases are free at its next poll
        before, restarted = cluster.tally.trials, asyncio.get_running_loop().time()
        while cluster.tally.trials == before:
            await asyncio.sleep(0.1)
        assert idle_polls < 25, "ten agents, one of them busy, in 29 s"
        return asyncio.get_running_loop().time() - restarted

    assert run_virtual(program()) <= 12.0


def test_a_new_coordinator_grants_within_10_seconds() -> None:
    cluster = _cluster(attempts=200)

    async def program() -> float:
        cluster.start_nodes()
        first = cluster.start_coordinator()
        await asyncio.sleep(100.0)
        first.cancel()
        await asyncio.sleep(200.0)
        before, began = cluster.tally.trials, asyncio.get_running_loop().time()
        cluster.start_coordinator()
        while cluster.tally.trials == before:
            await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - began

    assert run_virtual(program()) <= 10.0


def test_the_older_of_two_coordinators_gives_the_runs_up() -> None:
    cluster = _cluster(attempts=200)

    async def program() -> list[dict[str, str]]:
        cluster.start_nodes()
        first = cluster.start_coordinator()
        await asyncio.sleep(50.0)
        second = cluster.start_coordinator()
        return [dict(await first), dict(await second)]

    assert run_virtual(program()) == [{"fixed": "taken over"}, {"fixed": "complete"}]
    assert cluster.result(0.0, 0.0).problems == 0


def test_a_run_ends_when_its_budget_is_used_up_also_over_a_new_coordinator() -> None:
    cluster = _cluster(attempts=400)
    cluster.runs = [run._replace(budget=BudgetLimits(calls=300)) for run in cluster.runs]

    async def program() -> dict[str, str]:
        cluster.start_nodes()
        first = cluster.start_coordinator()
        await asyncio.sleep(150.0)
        first.cancel()
        return dict(await cluster.start_coordinator())

    assert run_virtual(program()) == {"fixed": "out of budget"}
    finals = sum("/finals/" in key for key in cluster.bucket.objects)
    assert 100 <= finals <= 100 + 10  # three calls each; two nodes hold five leases each


def test_runs_of_one_name_and_impossible_times_are_refused() -> None:
    cluster = _cluster()
    with pytest.raises(UserError, match="one name"):
        Coordinator(BucketView(cluster.bucket), cluster.runs * 2, InProcessAgents({}))
    with pytest.raises(UserError, match="answer_s"):
        CoordinatorConfig(poll_s=5.0, answer_s=5.0)


def test_messages_are_plain_data() -> None:
    cluster = _cluster()

    async def program() -> None:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        await asyncio.sleep(0)
        grant = GrantRequest((_lease(),))
        await agent.grant(_copied(grant))
        await asyncio.sleep(100.0)
        report = await agent.poll(_copied(PollRequest({"fixed": 1}, all_leases=True)))
        assert _copied(report) == report
        assert report.ends[0].ending == "final"

    run_virtual(program())


def _copied(message: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))


def test_a_bucket_keeps_the_first_object() -> None:
    bucket = Bucket(BucketFaults(), _cluster().rng)
    assert [bucket.create("k", b"1"), bucket.create("k", b"2")] == [True, False]
    assert bucket.objects == {"k": b"1"}


def test_a_full_spool_stops_an_agent_until_the_store_answers() -> None:
    cluster = _cluster(median_s=50.0, spread=0.0)

    async def program() -> list[int]:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        agent.config = AgentConfig("node-0", slots=4, spool_bytes=0)
        cluster.bucket.outage_until = 100.0
        await asyncio.sleep(0)
        capacities = []
        await agent.grant(GrantRequest((_lease(),)))
        for at in (10.0, 70.0, 130.0):
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            capacities.append((await agent.poll(PollRequest({}))).capacity)
        return capacities

    assert run_virtual(program()) == [4, 0, 2]  # the outage cut the slots to one, which is recovering


def test_few_sandboxes_start_at_once() -> None:
    highest = 0

    async def program() -> None:
        starting = 0

        async def run_trial(lease: Lease, semaphore: asyncio.Semaphore) -> TrialOutcome:
            nonlocal highest, starting
            async with semaphore:
                starting += 1
                highest = max(highest, starting)
                await asyncio.sleep(1.0)
                starting -= 1
            raise RuntimeError("the sandbox did not start")

        agent = NodeAgent(AgentConfig("a", slots=8, starting=3), BucketView(_cluster().bucket), run_trial)
        serving = asyncio.create_task(agent.serve())
        await asyncio.sleep(0)
        await agent.grant(GrantRequest(tuple(_lease(attempt=f"t@{number}") for number in range(8))))
        await asyncio.sleep(5.0)
        report = await agent.poll(PollRequest({"fixed": 1}))
        assert [end.ending for end in report.ends] == ["crashed"] * 8
        await agent.drain()
        await serving

    run_virtual(program())
    assert highest == 3


def test_an_attempt_whose_trials_leave_no_record_ends_the_run() -> None:
    cluster = _cluster()

    async def fail(lease: Lease, semaphore: asyncio.Semaphore) -> TrialOutcome:
        raise RuntimeError("no sandbox")

    async def program() -> None:
        view = BucketView(cluster.bucket)
        agent = NodeAgent(AgentConfig("a", slots=8), view, fail, lambda: NODE)
        serving = asyncio.create_task(agent.serve())
        with pytest.raises(StoreError, match="left no record"):
            await Coordinator(view, cluster.runs, InProcessAgents({"a": agent})).serve()
        await agent.drain()
        await serving

    run_virtual(program())


def test_a_node_with_a_full_disk_does_not_use_up_the_trials_of_others() -> None:
    cluster = _cluster(slots=4, attempts=60)
    crashes = 0

    async def fail(lease: Lease, semaphore: asyncio.Semaphore) -> TrialOutcome:
        nonlocal crashes
        crashes += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def program() -> dict[str, str]:
        cluster.start_nodes()
        view = BucketView(cluster.bucket)
        broken = NodeAgent(AgentConfig("broken", slots=64), view, fail, lambda: NODE)
        serving = asyncio.create_task(broken.serve())
        ends = await Coordinator(view, cluster.runs, InProcessAgents({"broken": broken, **cluster.nodes})).serve()
        await broken.drain()
        await serving
        return dict(ends)

    assert run_virtual(program()) == {"fixed": "complete"}
    assert cluster.result(0.0, 0.0).problems == 0
    assert 3 <= crashes <= 100, "64 slots at once, then one trial at a time"


def test_a_node_whose_disk_has_space_again_works_again() -> None:
    cluster, is_full = _cluster(), True

    async def program() -> list[int]:
        nonlocal is_full
        node = cluster.nodes["node-0"]

        async def run_trial(lease: Lease, semaphore: asyncio.Semaphore) -> TrialOutcome:
            if is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return await node._run_trial(node._view, None, lease, semaphore)

        agent = NodeAgent(AgentConfig("a", slots=4), BucketView(cluster.bucket), run_trial, lambda: NODE)
        serving = asyncio.create_task(agent.serve())
        await asyncio.sleep(0)
        await agent.grant(GrantRequest(tuple(_lease(attempt=f"t@{number}") for number in range(4))))
        await asyncio.sleep(1.0)
        report = await agent.poll(PollRequest({"fixed": 1}))
        capacities = [report.capacity]
        assert [end.ending for end in report.ends] == ["crashed"] * 4
        is_full = False
        await asyncio.sleep(30.0)
        capacities.append((await agent.poll(PollRequest({"fixed": 1}))).capacity)
        await agent.grant(GrantRequest((_lease(attempt="t@5"),)))
        await asyncio.sleep(300.0)
        capacities.append((await agent.poll(PollRequest({"fixed": 1}))).capacity)
        await agent.drain()
        await serving
        return capacities

    assert run_virtual(program()) == [0, 1, 6]  # 4 slots, and twice the one that ended since the poll before


def test_a_bucket_that_answers_503_for_a_minute_delays_a_run_and_a_new_coordinator() -> None:
    cluster = _cluster(attempts=60)

    async def program() -> dict[str, str]:
        cluster.start_nodes()
        first = cluster.start_coordinator()
        await asyncio.sleep(40.0)
        cluster.bucket.outage_until = asyncio.get_running_loop().time() + 60.0
        first.cancel()
        await asyncio.sleep(5.0)
        return dict(await cluster.start_coordinator())

    assert run_virtual(program()) == {"fixed": "complete"}
    result = cluster.result(0.0, 0.0)
    assert (result.missing, result.twice, result.not_stored, result.superseded) == (0, 0, 0, 0)
    assert result.failed_creates > 0


def test_clocks_ten_minutes_apart_change_nothing() -> None:
    def run(offsets_s: tuple[float, float]) -> tuple[set[str], int]:
        cluster = _cluster(attempts=60)
        for node, offset_s in zip(cluster.nodes.values(), offsets_s, strict=True):
            node._clock_offset = offset_s

        async def program() -> None:
            cluster.start_nodes()
            assert dict(await cluster.start_coordinator()) == {"fixed": "complete"}

        run_virtual(program())
        assert cluster.result(0.0, 0.0).problems == 0
        return set(cluster.bucket.objects), cluster.tally.trials

    assert run((-300.0, 300.0)) == run((0.0, 0.0))


def test_an_agent_that_drains_at_once_gives_everything_back() -> None:
    cluster = _cluster()

    async def program() -> list[str]:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        await asyncio.sleep(0)
        await agent.grant(GrantRequest(tuple(_lease(attempt=f"t@{number}") for number in range(5))))
        await agent.drain()
        assert asyncio.get_running_loop().time() < 1.0
        return [end.ending for end in (await agent.poll(PollRequest({"fixed": 1}))).ends]

    assert run_virtual(program()) == ["returned"] * 5


def test_a_drain_ends_in_time_while_the_store_does_not_answer() -> None:
    cluster = _cluster()
    cluster.bucket.outage_until = 1e9

    async def program() -> float:
        cluster.start_nodes()
        agent = cluster.nodes["node-0"].agent
        assert agent is not None
        await asyncio.sleep(0)
        await agent.grant(GrantRequest((_lease(),)))
        await asyncio.sleep(1.0)
        await agent.drain(within_s=20.0)
        return asyncio.get_running_loop().time()

    assert 20.0 <= run_virtual(program()) <= 22.0
