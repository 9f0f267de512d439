"""Real trials on agents of one process: the same finals as a run on one machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from assay.agents.building import build_agent
from assay.agents.interface import Attempt
from assay.gateway.interface import ModelRequest
from assay.records import Body
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.cluster.agent import AgentConfig, NodeAgent
from assay.rollout.cluster.commits import TrialRecord, read_cuts, read_finals, unpack_events
from assay.rollout.cluster.coordinator import Coordinator, CoordinatorConfig
from assay.rollout.cluster.recorded_trial import LocalTrials, attempt_planner, cluster_run
from assay.rollout.cluster.transport import PollRequest
from assay.rollout.runs import make_services, open_resources
from assay.settings import Settings
from assay.store import RunStore, decode_body
from assay.store.chain import Link
from assay.tasks import LoadedTask, find_tasks
from tests.simulation.bucket import Bucket, BucketFaults, BucketView
from tests.simulation.cluster import InProcessAgents

TASKS = "family:grid,n=6,size=3"


def _config(**options: object) -> RunConfig:
    return RunConfig(tasks=(TASKS,), agent="expert", agent_options={"noise": 0.5}, run="whole", **options)  # type: ignore[arg-type]


async def _start_agent(
    stack: AsyncExitStack, root: Path, name: str, config: RunConfig, tasks: Sequence[LoadedTask], view: BucketView
) -> tuple[NodeAgent, asyncio.Task[None]]:
    agent = build_agent(config.agent, config.agent_options, model=config.model)
    settings = Settings(cache=root, store=root / name)
    resources = await stack.enter_async_context(open_resources(config, settings, tasks, agent))
    store = stack.enter_context(RunStore.create(settings.store, "whole", {}))
    trials = LocalTrials(make_services(store, resources, None), tasks, attempt_planner(config, agent.name))
    node = NodeAgent(AgentConfig(name, slots=2, starting=1), view, trials)
    return node, asyncio.create_task(node.serve())


def _facts(events: Sequence[bytes]) -> list[tuple[str, object]]:
    """Returns what a chain says, without times."""
    bodies: list[Body] = [decode_body(Link("c", index, "", event, "")) for index, event in enumerate(events)]
    found: list[tuple[str, object]] = []
    for body in bodies:
        kind = str(body.__struct_config__.tag)
        step = getattr(body, "step", None)
        acts = None if step is None else (step.message, [call.arguments for call in step.tool_calls], step.state)
        found.append((kind, acts))
    return found


@pytest.mark.long
@pytest.mark.parametrize("allocate", ["uniform", "halving"])
async def test_two_agents_commit_what_one_machine_records(tmp_path: Path, allocate: str) -> None:
    options = {} if allocate == "uniform" else {"first": 1}
    config = _config(attempts=4, allocate=allocate, allocate_options=options)
    tasks = find_tasks(config.tasks)
    await start_run(config, Settings(cache=tmp_path, store=tmp_path / "one"), Tally())
    view = BucketView(Bucket(BucketFaults(0.1, 0.1, delay_s=0.0), random.Random(1)))
    agent = build_agent(config.agent, config.agent_options)
    async with AsyncExitStack() as stack:
        started = [await _start_agent(stack, tmp_path, name, config, tasks, view) for name in ("a", "b")]
        directory = InProcessAgents({node.config.name: node for node, _ in started})
        times = CoordinatorConfig(poll_s=0.05, answer_s=0.04)
        run = cluster_run("whole", config, tasks, agent.name)
        assert await Coordinator(view, [run], directory, times).serve() == {"whole": "complete"}
        for node, serving in started:
            await node.drain()
            await serving
    with RunStore.open(tmp_path / "one", "whole") as store:
        rows = {row.attempt: row for row in store.attempts() if row.final}
        embedded = {name: _facts([link.body for link in store.links(row.chain)]) for name, row in rows.items()}
    finals = await read_finals(view, "whole", rows)
    assert {name: _facts(unpack_events(record.body)) for name, record in finals.items()} == embedded
    assert [_outcome(finals[name]) for name in rows] == [row.outcome for row in rows.values()]


def _outcome(record: TrialRecord) -> str | None:
    assert record.body.result is not None
    return record.body.result.outcome


async def test_draining_gives_back_leases_and_uploads_cut_chains(tmp_path: Path) -> None:
    config = _config(attempts=3)
    tasks = find_tasks(config.tasks)
    view = BucketView(Bucket(BucketFaults(0.0, 0.0, delay_s=0.0), random.Random(1)))

    async def act_for_ever(attempt: LiveAttempt) -> None:
        await asyncio.sleep(3600.0)

    async with AsyncExitStack() as stack:
        node, serving = await _start_agent(stack, tmp_path, "a", config, tasks, view)
        runner = node._run_trial._runner  # type: ignore[attr-defined]
        runner._services = runner._services._replace(agent=build_agent(act_for_ever))
        run = cluster_run("whole", config, tasks, "act_for_ever")
        directory = InProcessAgents({"a": node})
        coordinator = asyncio.create_task(
            Coordinator(view, [run], directory, CoordinatorConfig(poll_s=0.05, answer_s=0.04)).serve()
        )
        await asyncio.sleep(1.0)
        coordinator.cancel()
        await node.drain(10.0)
        await serving
        report = await node.poll(PollRequest({"whole": 1}, all_leases=True))
    assert sorted(end.ending for end in report.ends) == ["interrupted", "interrupted", "returned"]
    assert (report.capacity, report.leases) == (0, ())
    cuts = await read_cuts(view, "whole")
    assert [cut.kind for cut in cuts] == ["interrupted"] * 2
    assert all(_facts(unpack_events(cut.body))[0][0] == "attempt_started" for cut in cuts)


class AskForEver:
    """Asks the model twice, and then waits."""

    name = "ask-for-ever"
    needs_model = True

    async def run(self, attempt: Attempt) -> None:
        for turn in range(2):
            await attempt.ask(ModelRequest([{"role": "user", "content": f"turn {turn}"}]))
        await asyncio.sleep(3600.0)


async def test_the_calls_of_interrupted_trials_count_for_the_budget_of_a_resumed_run(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('["yes", "yes"]')
    given = {"agent": f"{__file__}:AskForEver", "model": f"scripted:{tmp_path / 'model.json'}", "budget_calls": 4}
    config = RunConfig(tasks=(TASKS,), run="whole", attempts=1, **given)  # type: ignore[arg-type]
    tasks = find_tasks(config.tasks)
    view = BucketView(Bucket(BucketFaults(0.0, 0.0, delay_s=0.0), random.Random(1)))
    run, times = cluster_run("whole", config, tasks, "ask-for-ever"), CoordinatorConfig(poll_s=0.05, answer_s=0.04)
    async with AsyncExitStack() as stack:
        node, serving = await _start_agent(stack, tmp_path, "a", config, tasks, view)
        coordinator = asyncio.create_task(Coordinator(view, [run], InProcessAgents({"a": node}), times).serve())
        await asyncio.sleep(1.0)
        coordinator.cancel()
        await node.drain(10.0)
        await serving
        report = await node.poll(PollRequest({"whole": 1}))
    assert [end.use.calls for end in report.ends if end.ending == "interrupted"] == [2, 2]
    async with asyncio.timeout(5.0):
        assert await Coordinator(view, [run], InProcessAgents({}), times).serve() == {"whole": "out of budget"}
