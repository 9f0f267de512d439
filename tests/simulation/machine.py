"""A state machine over faults: hypothesis draws a schedule, and shrinks one that loses or repeats an attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .bucket import BucketFaults
from .cluster import SHARES, SimulatedCluster, SimulationConfig
from .nodes import Mistake, SimulatedNode
from .virtual_time import VirtualLoop, close_loop


class FaultMachine(RuleBasedStateMachine):
    """A small cluster whose only faults are the rules."""

    nodes = 2
    mistake: Mistake = "none"

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        config = SimulationConfig(
            slots=2 * self.nodes,
            slots_per_node=2,
            attempts=16,
            median_s=30.0,
            wall_s=60.0,
            retried=0.1,
            lost_messages=0.0,
            mistake=self.mistake,
        )
        self.cluster = SimulatedCluster(config, (SHARES[0]._replace(share=0.5), SHARES[1]._replace(options={})))
        self.cluster.bucket.faults = BucketFaults(0.0, 0.0)

    def run(self, program: Awaitable[object]) -> None:
        async def wait() -> None:
            await program

        self.loop.run_until_complete(wait())

    @initialize()
    def begin(self) -> None:
        async def start() -> None:
            self.cluster.start_nodes()
            self.cluster.start_coordinator()

        self.run(start())

    def _node(self, number: int) -> SimulatedNode:
        return list(self.cluster.nodes.values())[number % self.nodes]

    @rule(seconds=st.sampled_from([1.0, 5.0, 12.0, 35.0, 90.0]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule(number=st.integers(0, 1))
    def toggle_link(self, number: int) -> None:
        """Cuts a node off, or restores its link."""
        node = self._node(number)
        node.is_cut = not node.is_cut

    @rule(number=st.integers(0, 1))
    def toggle_node(self, number: int) -> None:
        """Kills a node, or starts it."""
        node = self._node(number)
        if node.agent is None:
            self._start(node)
        else:
            node.kill()

    @rule(number=st.integers(0, 1))
    def preempt_node(self, number: int) -> None:
        self.run(self._node(number).preempt())

    def _start(self, node: SimulatedNode) -> None:
        async def start() -> None:
            node.start()

        self.run(start())

    @rule()
    def start_coordinator(self) -> None:
        async def start() -> None:
            self.cluster.start_coordinator()

        if len(self.cluster.coordinators) < 3:
            self.run(start())

    @rule()
    def kill_coordinator(self) -> None:
        if self.cluster.coordinators:
            self.cluster.coordinators.pop(0).cancel()

    @rule(creates=st.integers(1, 3))
    def lose_answers(self, creates: int) -> None:
        self.cluster.bucket.lose_next = creates

    @rule()
    def interrupt_store(self) -> None:
        self.cluster.bucket.outage_until = self.loop.time() + 60.0

    @invariant()
    def nothing_counts_twice(self) -> None:
        twice = [attempt for attempt, wins in self.cluster.tally.wins.items() if wins > 1]
        assert not twice, f"counted twice: {twice}"

    def teardown(self) -> None:
        """Ends all faults; then each attempt must be decided once."""
        try:
            for node in self.cluster.nodes.values():
                node.is_cut = False
                if node.agent is None:
                    self._start(node)
            self.run(self._finish())
            found = self.cluster.result(0.0, self.loop.time())
            assert (found.missing, found.twice, found.not_stored) == (0, 0, 0)
        finally:
            close_loop(self.loop)

    async def _finish(self) -> None:
        assert await self.cluster.until_complete(24 * 3600.0), "the runs were not completed in a day"
        await self.cluster.until_idle()


class MistakenMachine(FaultMachine):
    """A protocol with a known mistake, which the machine must find."""

    mistake: Mistake = "refused create wins"
