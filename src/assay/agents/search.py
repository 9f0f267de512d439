"""Best-first search over forks of a world: test-time search at a fixed number of acts.

A node is a state that some acts led to. The search takes the node of the highest value, tries one more of its possible
acts in a fork, and keeps the state that follows unless it was seen before. It stops where the world ends, or when
`acts` are used up, and hands in the best state. Every act is a step of the one attempt, so that its record holds the
whole tree; the adopted path alone is judged.

Values: `progress` is the share of the solution done, as the world knows it: **privileged**, so the record and the
agent's name say that it is an upper bound. `novelty` prefers observations that were seen rarely. Any other value is the
file of a value that `assay learn-value` learnt from verified attempts; it reads the texts alone.

With a policy the search branches by entropy: of each state it tries as many acts as the entropy of the policy's
chances warrants, drawn by these chances; the others wait until nothing else is open. A branch is given up after
`patience` doubtful acts in a row. The value `confidence` prefers the path whose acts were likeliest.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec

from assay.errors import AgentError, OptionError, TaskError
from assay.records import Evidence, ToolCall

from ._act_policy import ActPolicy, WeighedAct, count_warranted, draw_order, open_policy
from ._calls import instruction_of
from ._options import read_options
from .branches import Branch, Branches
from .frontier import Frontier
from .interface import Attempt
from .text_value import TextValue, read_text_value

PROGRESS, NOVELTY, CONFIDENCE = "progress", "novelty", "confidence"
_WAITING = 2.0
"""Cost that sets states whose warranted acts were tried behind all others; values are at most 1."""


@runtime_checkable
class OffersActs(Protocol):
    """World that lists possible acts."""

    def possible_acts(self) -> tuple[ToolCall, ...]:
        """Returns possible calls in the present state; empty where the world is over or lists none."""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: str = NOVELTY
    """Value by which states are tried first: `progress` (privileged: an upper bound), `novelty`, `confidence` (of the
    policy in the acts that led there), or the file of a learnt value."""
    acts: Annotated[int, msgspec.Meta(ge=1)] = 300
    """Maximum number of acts over all branches; the run's limits also apply."""
    open_nodes: Annotated[int, msgspec.Meta(ge=1)] = 500
    """Maximum number of states that are kept for further acts."""
    policy: str = ""
    """Policy by whose entropy the acts of a state are bounded: the file of a learnt one, or `model`, the run's model by
    the log-probabilities of its replies; empty tries all acts in random order."""
    width: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Maximum number of acts that the policy's entropy can warrant in a state."""
    patience: Annotated[int, msgspec.Meta(ge=0)] = 3
    """Doubtful acts in a row after which a branch is given up; 0: never."""
    doubt: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    """Share of an equal chance below which the policy's chance of an act makes it doubtful."""
    samples: Annotated[int, msgspec.Meta(ge=1, le=32)] = 1
    """Replies of the model in a state, with `policy=model`."""


class _Node(msgspec.Struct):
    """A state of the tree; `untried` are its acts that were not tried yet, the next one last."""

    branch: Branch
    value: float
    untried: list[WeighedAct]
    warranted: int
    """Acts that may still be tried before the others wait."""
    likelihood: float = 0.0
    """Sum of the logarithms of the chances of the acts that led here."""
    depth: int = 0
    doubtful: int = 0
    """Doubtful acts in a row that led here."""


class BestFirstAgent:
    """Searches a text world or a service over forks. Options: `value`, `acts`, `open_nodes`; with a `policy` also
    `width`, `patience`, `doubt` and `samples`."""

    name: str
    uses_branches = True

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, "best-first")
        own = self._options.value
        is_named = own in (PROGRESS, NOVELTY, CONFIDENCE)
        if own == CONFIDENCE and not self._options.policy:
            raise OptionError(
                "value=confidence is a policy's: name one with --agent-option policy=FILE or policy=model"
            )
        self.upper_bound = own == PROGRESS
        self.name = f"best-first:{own if is_named else 'learnt'}{'+entropy' if self._options.policy else ''}"
        self._learnt = None if is_named else read_text_value(Path(own))
        self._policy = open_policy(self._options.policy, self._options.samples) if self._options.policy else None
        self.needs_model = self._policy is not None and self._policy.needs_model

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` in an environment that lists no acts or cannot be forked."""
        if attempt.branches is None:
            raise AgentError(f"{self.name} opens branches of an attempt, and this one has none: use it by itself")
        searching = _Search(self._options, attempt, attempt.branches, self._learnt, self._policy)
        try:
            await searching.run()
        finally:
            searching.record()


class _Search:
    """One search under way."""

    def __init__(
        self,
        options: _Options,
        attempt: Attempt,
        branches: Branches,
        learnt: TextValue | None,
        policy: ActPolicy | None,
    ) -> None:
        if not isinstance(attempt.tools, OffersActs):
            raise TaskError(
                f"best-first search needs a world that lists its possible acts, and task {attempt.task.id!r} is in an "
                f"environment {attempt.task.environment.kind!r}"
            )
        self._options, self._attempt, self._branches = options, attempt, branches
        self._learnt, self._policy = learnt, policy
        self._given_up = self._narrowed = 0
        self._brief = instruction_of(attempt.task)
        self._draw = random.Random(attempt.seed)
        self._frontier = Frontier[_Node](options.acts, options.open_nodes)
        self._seen_texts = Counter[str]()
        self._best: tuple[float, int] = (-1.0, -1)
        """Value and branch number of the adopted state."""

    async def run(self) -> None:
        first = self._branches.first
        self._frontier.enter(await first.attempt.tools.digest())
        await self._add(_Node(first, 0.0, [], 0), self._brief)
        while self._frontier:
            node = self._frontier.pop()
            act = node.untried.pop()
            node.warranted -= 1
            is_last = not node.untried
            branch = await self._branches.fork(node.branch)
            if is_last:
                await self._branches.close(node.branch)
            else:
                await self._push(node)
            self._frontier.count_act(act.call.name)
            (observation,) = await self._branches.act(branch, [act.call])
            if observation.error:
                self._frontier.count_failure()
            reached = _reach(node, act, branch)
            if branch.ending.ended is not None:
                self._adopt(branch, self._value(reached, observation.content))
                if self._is_done(branch):
                    return
                continue
            state = await branch.attempt.tools.digest()
            if branch.ending.stopped is not None or not self._frontier.enter(state) or self._gives_up(reached):
                await self._branches.close(branch)
                continue
            await self._add(reached, observation.content)

    def _gives_up(self, node: _Node) -> bool:
        """Returns whether the policy doubted every one of the latest acts that led to a state."""
        given_up = 0 < self._options.patience <= node.doubtful
        self._given_up += given_up
        return given_up

    def _is_done(self, branch: Branch) -> bool:
        """Returns whether the search may stop where the world ended: with a privileged value only at the goal."""
        return self._options.value != PROGRESS or self._branches.progress(branch) >= 1.0

    async def _add(self, node: _Node, text: str) -> None:
        tools = node.branch.attempt.tools
        acts = list(tools.possible_acts()) if isinstance(tools, OffersActs) else []
        node.value = self._value(node, text)
        self._adopt(node.branch, node.value)
        if not acts:
            await self._branches.close(node.branch)
            return
        await self._weigh(node, text, acts)
        await self._push(node)

    async def _weigh(self, node: _Node, text: str, acts: list[ToolCall]) -> None:
        """Sets the order of a state's acts, and how many of them are warranted."""
        if self._policy is None:
            self._draw.shuffle(acts)
            node.untried, node.warranted = [WeighedAct(act, 1.0, False) for act in acts], len(acts)
            return
        chances = await self._policy.chances(node.branch, text, acts)
        node.untried = draw_order(acts, chances, self._options.doubt, self._draw)[::-1]
        node.warranted = count_warranted(chances, self._options.width)
        self._narrowed += len(acts) - node.warranted

    def _value(self, node: _Node, text: str) -> float:
        self._seen_texts[text] += 1
        if self._options.value == PROGRESS:
            return self._branches.progress(node.branch)
        if self._options.value == CONFIDENCE:
            return math.exp(node.likelihood / max(1, node.depth))
        if self._learnt is not None:
            return self._learnt.score(self._brief, text, self._seen_texts[text])
        return 1.0 / self._seen_texts[text]

    async def _push(self, node: _Node) -> None:
        waiting = _WAITING if node.warranted <= 0 else 0.0
        dropped = self._frontier.push(node, waiting - node.value, self._draw.random())
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
        if self._policy is not None:
            data |= {"policy": self._policy.name, "given_up": self._given_up, "narrowed": self._narrowed}
        self._attempt.note(Evidence("search", "audit", "search", data))


def _reach(node: _Node, act: WeighedAct, branch: Branch) -> _Node:
    """Returns the state that an act leads to."""
    doubtful = node.doubtful + 1 if act.is_doubtful else 0
    return _Node(branch, 0.0, [], 0, node.likelihood + math.log(act.chance), node.depth + 1, doubtful)
