"""Decides which attempts an agent gets. Pure: what agents report goes in, attempts come out.

An agent gets attempts that it can run (GPU, isolation), first those whose layers it has, and then as many as possible
of the same kind, so that a node fetches few layers. A kind that was passed over `PATIENCE` times goes first, so that
attempts whose layers no node has are not left to the end.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.run_budget import BudgetLimits, ModelUse

FIRST_ATTEMPTS = 16
"""Attempts of a run with a budget that are leased before the use of one is known."""
PATIENCE = 256
"""Attempts of other kinds that are handed out before a kind that waits."""
KINDS = 64
"""Kinds of attempts that are compared: those that wait longest."""


class NodeResources(msgspec.Struct, frozen=True):
    """The capabilities of a node, as its agent reports them."""

    isolation: tuple[str, ...] = ()
    """Names of the sandbox backends that work there."""
    gpus: int = 0
    layers: frozenset[str] = frozenset()
    """Names of the layers in its cache, as `Requirements` has them."""


class Requirements(NamedTuple):
    """The capabilities that an attempt needs of a node."""

    isolation: str | None = None
    """Name of a sandbox backend; None: any node."""
    gpus: int = 0
    layers: frozenset[str] = frozenset()
    """Digests of what the layers are made from (`attempt.preparation.layer_demands`)."""

    def fit(self, node: NodeResources) -> bool:
        """Returns whether a node can run the attempt. Missing layers are fetched, so they do not matter here."""
        return self.gpus <= node.gpus and (self.isolation is None or self.isolation in node.isolation)

    def __str__(self) -> str:
        needs = [] if self.isolation is None else [f"the sandbox {self.isolation!r}"]
        return " and ".join([*needs, *([f"{self.gpus} GPU(s)"] if self.gpus else [])])


class AttemptQueue:
    """Attempts that wait for an agent, by their requirements."""

    def __init__(self) -> None:
        self._queues: dict[Requirements, deque[str]] = {}
        self._pending: dict[str, int] = {}
        """Attempts that wait, with their places in the order in which they were added; 0 for one that was put back."""
        self._added = self._taken = 0
        self._waits_since: dict[Requirements, int] = {}
        """How many attempts had been handed out when a kind began to wait, or was served last."""

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, attempt: str, requirements: Requirements) -> None:
        """Adds an attempt at the end; does nothing if it waits already."""
        if attempt not in self._pending:
            self._added += 1
            self._pending[attempt] = self._added
            queue = self._queues.get(requirements)
            if queue is None:
                queue = self._queues[requirements] = deque()
            queue.append(attempt)

    def put_back(self, attempt: str, requirements: Requirements) -> None:
        """Adds an attempt at the front; does nothing if it waits already."""
        if attempt not in self._pending:
            self._pending[attempt] = 0
            self._queues.setdefault(requirements, deque()).appendleft(attempt)

    def discard(self, attempt: str) -> None:
        """Removes an attempt, if it waits."""
        self._pending.pop(attempt, None)

    def take(self, node: NodeResources, count: int) -> list[str]:
        """Removes and returns up to `count` attempts for a node."""
        chosen: list[str] = []
        layers = set(node.layers)
        while len(chosen) < count:
            kind = self._next_kind(node, layers)
            if kind is None:
                break
            queue = self._queues[kind]
            layers |= kind.layers
            before = len(chosen)
            while queue and len(chosen) < count:
                attempt = queue.popleft()
                if self._pending.pop(attempt, None) is not None:
                    chosen.append(attempt)
            self._taken += len(chosen) - before
            self._waits_since[kind] = self._taken
        return chosen

    def unplaceable(self, nodes: Sequence[NodeResources]) -> tuple[str, Requirements] | None:
        """Returns a waiting attempt that none of these nodes could ever run, and its requirements; None without one."""
        for kind, queue in self._queues.items():
            if not any(kind.fit(node) for node in nodes):
                attempt = next((one for one in queue if one in self._pending), None)
                if attempt is not None:
                    return attempt, kind
        return None

    def _next_kind(self, node: NodeResources, layers: set[str]) -> Requirements | None:
        """Returns the requirements that waited too long, else those with the fewest layers to fetch; of several, those
        that wait longest."""
        best, best_order, compared = None, (True, math.inf, math.inf), 0
        for kind, queue in list(self._queues.items()):
            while queue and queue[0] not in self._pending:
                queue.popleft()
            if not queue:
                del self._queues[kind]
                self._waits_since.pop(kind, None)
            elif kind.fit(node):
                waits_since = self._waits_since.setdefault(kind, self._taken)
                order = (self._taken - waits_since < PATIENCE, len(kind.layers - layers), self._pending[queue[0]])
                if order < best_order:
                    best, best_order = kind, order
                compared += 1
                if compared == KINDS:
                    break
        return best


class RunDemand(NamedTuple):
    """The demand of one run for the slots of an agent."""

    run: str
    weight: float
    leased: int
    """Attempts of the run that are leased, to any agent."""
    waiting: int


def divide_slots(slots: int, demands: Sequence[RunDemand]) -> dict[str, int]:
    """Divides the free slots of an agent between runs by weighted round robin: each slot goes to the run that has the
    fewest leases for its weight; of several, to the first."""
    shares = {demand.run: 0 for demand in demands}
    if len(demands) == 1:
        return {demands[0].run: min(slots, demands[0].waiting)}
    queue = [(one.leased / one.weight, place) for place, one in enumerate(demands) if one.waiting]
    heapq.heapify(queue)
    while slots and queue:
        _, place = heapq.heappop(queue)
        run, weight, leased, waiting = demands[place]
        shares[run] += 1
        slots -= 1
        if shares[run] < waiting:
            heapq.heappush(queue, ((leased + shares[run]) / weight, place))
    return shares


def affordable_attempts(limits: BudgetLimits, used: ModelUse, ended: int, leased: int) -> int | None:
    """Returns how many further attempts a run's budget allows, if each uses as much as those that ended.

    Args:
        limits: The budget.
        used: Use of all trials that ended, of which those under way are not part.
        ended: Number of those trials.
        leased: Attempts that are leased now.

    Returns:
        A number from 0; None without a budget. With a budget in money and an unknown cost it is 0.
    """
    if limits.is_unlimited:
        return None
    allowed = math.inf
    for limit, use in ((limits.calls, used.calls), (limits.cost_usd, used.cost_usd)):
        if limit is None:
            continue
        if use is None or use >= limit:
            return 0
        if use:
            allowed = min(allowed, math.ceil((limit - use) * ended / use))
    if not ended:
        allowed = FIRST_ATTEMPTS
    return max(0, int(min(allowed, 1 << 30)) - leased)


def use_of_result(result: TrialResult) -> ModelUse:
    """Returns the model use of one trial, with that of the simulated person; the cost is None where it is unknown."""
    calls, cost = 0, 0.0
    known = True
    for name, price in (("model_calls", "cost_usd"), ("user_calls", "user_cost_usd")):
        made = int(result.metrics.get(name, 0))
        calls += made
        if made:
            known = known and price in result.metrics
            cost += result.metrics.get(price, 0.0)
    return ModelUse(calls, cost if known else None)


def add_use(one: ModelUse, other: ModelUse) -> ModelUse:
    """Returns the sum of two uses; a cost is None if one of them is."""
    cost = None if one.cost_usd is None or other.cost_usd is None else one.cost_usd + other.cost_usd
    return ModelUse(one.calls + other.calls, cost)
