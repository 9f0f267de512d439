"""A coordinator says when no node answers, once for each time."""

from __future__ import annotations

import asyncio

from assay.rollout.cluster.coordinator import Coordinator
from assay.rollout.progress import Tally
from tests.simulation.bucket import BucketView
from tests.simulation.cluster import SHARES, InProcessAgents, SimulatedCluster, SimulationConfig
from tests.simulation.virtual_time import run_virtual


class Warnings(Tally):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


def test_silence_is_said_once_each_time() -> None:
    config = SimulationConfig(
        slots=8, slots_per_node=4, attempts=40, failed=0.0, lost=0.0, lost_messages=0.0, median_s=30.0, retried=0.0
    )
    cluster, warnings = SimulatedCluster(config, (SHARES[0],)), Warnings()

    async def program() -> None:
        nodes = InProcessAgents(cluster.nodes)
        running = asyncio.create_task(
            Coordinator(BucketView(cluster.bucket), cluster.runs, nodes, progress=warnings).serve()
        )
        await asyncio.sleep(50.0)
        assert warnings.texts == []
        await asyncio.sleep(1_000.0)
        assert len(warnings.texts) == 1
        cluster.start_nodes()
        await asyncio.sleep(30.0)
        for node in cluster.nodes.values():
            node.kill()
        await asyncio.sleep(1_000.0)
        cluster.start_nodes()
        assert await asyncio.wait_for(running, 3_600.0) == {cluster.runs[0].name: "complete"}

    run_virtual(program())
    assert [text[:38] for text in warnings.texts] == ["no node has answered for 60 s, and not"] * 2
    assert f"`assay status {cluster.runs[0].name}`" in warnings.texts[0]
