"""Best-first search over forks of a world: test-time search at a fixed number of acts.

A node is a state that some acts led to. The search takes the node of the highest value, tries one more of its possible
acts in a fork, and keeps the state that follows unless it was seen before. It stops where the world ends, or when
`acts` are used up, and hands in the best state. Every act is a step of the one attempt, so that its record holds the
whole tree; the adopted path alone is judged.

Values: `progress` is the share of the solution done, as the world knows it: **privileged**, so the record and the
agent's name say that it is an upper bound. `novelty` prefers observations that were seen rarely. Any other value is the
file of a value that `assay learn-value` learnt from verified attempts; it reads the texts alone.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec

from assay.errors import AgentError, TaskError
from assay.records import Evidence, ToolCall

from ._calls import instruction_of
from ._options import read_options
from .branches import Branch, Branches
from .frontier import Frontier
from .interface import Attempt
from .text_value import TextValue, read_text_value

PROGRESS, NOVELTY = "progress", "novelty"


@runtime_checkable
class OffersActs(Protocol):
    """World that lists possible acts."""

    def possible_acts(self) -> tuple[ToolCall, ...]:
        """Returns possible calls in the present state; empty where the world is over or lists none."""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: str = NOVELTY
    """Value by which states are tried first: `progress` (privileged: an upper bound), `novelty`, or the file of a
    learnt value."""
    acts: Annotated[int, msgspec.Meta(ge=1)] = 300
    """Maximum number of acts over all branches; the run's limits also apply."""
    open_nodes: Annotated[int, msgspec.Meta(ge=1)] = 500
    """Maximum number of states that are kept for further acts."""


class _Node(msgspec.Struct):
    """A state of the tree; `untried` are its acts that were not tried yet."""

    branch: Branch
    value: float
    untried: list[ToolCall]


class BestFirstAgent:
    """Searches a text world or a service over forks. Options: `value`, `acts`, `open_nodes`."""

    name: str
    needs_model = False
    uses_branches = True

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, "best-first")
        own = self._options.value
        self.upper_bound = own == PROGRESS
        self.name = f"best-first:{own if own in (PROGRESS, NOVELTY) else 'learnt'}"
        self._learnt = None if own in (PROGRESS, NOVELTY) else read_text_value(Path(own))

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` in an environment that lists no acts or cannot be forked."""
        if attempt.branches is None:
            raise AgentError(f"{self.name} opens branches of an attempt, and this one has none: use it by itself")
        searching = _Search(self._options, attempt, attempt.branches, self._learnt)
        try:
            await searching.run()
        finally:
            searching.record()


class _Search:
    """One search under way."""

    def __init__(self, options: _Options, attempt: Attempt, branches: Branches, learnt: TextValue | None) -> None:
        if not isinstance(attempt.tools, OffersActs):
            raise TaskError(
                f"best-first search needs a world that lists its possible acts, and task {attempt.task.id!r} is in an "
                f"environment {attempt.task.environment.kind!r}"
            )
        self._options, self._attempt, self._branches = options, attempt, branches
        self._learnt = learnt
        self._brief = instruction_of(attempt.task)
        self._draw = random.Random(attempt.seed)
        self._frontier = Frontier[_Node](options.acts, options.open_nodes)
        self._seen_texts = Counter[str]()
        self._best: tuple[float, int] = (-1.0, -1)
        """Value and branch number of the adopted state."""

    async def run(self) -> None:
        first = self._branches.first
        self._frontier.enter(await first.attempt.tools.digest())
        await self._add(first, self._brief)
        while self._frontier:
            node = self._frontier.pop()
            call = node.untried.pop()
            is_last = not node.untried
            branch = await self._branches.fork(node.branch)
            if is_last:
                await self._branches.close(node.branch)
            else:
                await self._push(node)
            self._frontier.count_act(call.name)
            (observation,) = await self._branches.act(branch, [call])
            if observation.error:
                self._frontier.count_failure()
            if branch.ending.ended is not None:
                self._adopt(branch, self._value(branch, observation.content))
                if self._is_done(branch):
                    return
                continue
            state = await branch.attempt.tools.digest()
            if branch.ending.stopped is not None or not self._frontier.enter(state):
                await self._branches.close(branch)
                continue
            await self._add(branch, observation.content)

    def _is_done(self, branch: Branch) -> bool:
        """Returns whether the search may stop where the world ended: with a privileged value only at the goal."""
        return self._options.value != PROGRESS or self._branches.progress(branch) >= 1.0

    async def _add(self, branch: Branch, text: str) -> None:
        tools = branch.attempt.tools
        untried = list(tools.possible_acts()) if isinstance(tools, OffersActs) else []
        value = self._value(branch, text)
        self._adopt(branch, value)
        if not untried:
            await self._branches.close(branch)
            return
        self._draw.shuffle(untried)
        await self._push(_Node(branch, value, untried))

    def _value(self, branch: Branch, text: str) -> float:
        self._seen_texts[text] += 1
        if self._options.value == PROGRESS:
            return self._branches.progress(branch)
        if self._learnt is not None:
            return self._learnt.score(self._brief, text, self._seen_texts[text])
        return 1.0 / self._seen_texts[text]

    async def _push(self, node: _Node) -> None:
        dropped = self._frontier.push(node, -node.value, self._draw.random())
        if dropped is not None:
            await self._branches.close(dropped.branch)

    def _adopt(self, branch: Branch, value: float) -> None:
        is_over = branch.ending.ended is not None
        if value > self._best[0] or is_over:
            self._best = (value, branch.number)
            self._branches.adopt(branch)

    def record(self) -> None:
        """Records what the search did."""
        data = {
            "value": self._options.value if self._learnt is None else self._learnt.digest,
            "privileged": self._options.value == PROGRESS,
            **self._frontier.statistics(),
            "adopted": self._best[1],
            "best_value": self._best[0],
        }
        self._attempt.note(Evidence("search", "audit", "search", data))
