"""Model servers in virtual time, and policies of speculative decoding: when to draft, and how many tokens.

A pass of the model over n tokens takes `max(weights_s, n * token_s)`: up to `weights_s / token_s` tokens the time goes
into reading weights. A step drafts k tokens for each of b sequences, k passes of a drafter that costs the share `draft`
of the model, and verifies them in one pass over b * (k + 1) tokens. With a rate of acceptance a it yields
`(1 - a ** (k + 1)) / (1 - a)` tokens a sequence in the mean (Leviathan, Kalman and Matias 2023, equation 1).

Not covered: prefill, memory of caches, and acceptance that depends on the place in a text.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from typing import Literal, NamedTuple, Protocol

Decoding = Literal["plain", "drafts of 4", "adaptive"]
"""No drafts; always four tokens; a length by load and measured acceptance, none where arithmetic is the bound."""
LONGEST = 8
FORGET = 0.98
"""Weight of what was observed before, a decision."""
FIRST_S = 1.0
"""After a change of load a policy that learns decides again after this time, then each time after twice as long."""


class Costs(NamedTuple):
    """Of a model server. Times are in seconds."""

    weights_s: float = 0.02
    token_s: float = 0.0001
    draft: float = 0.15

    def step_s(self, batch: int, drafted: int) -> float:
        return self._pass_s(batch * (drafted + 1)) + drafted * self.draft * self._pass_s(batch)

    def _pass_s(self, tokens: int) -> float:
        return max(self.weights_s, tokens * self.token_s)


def tokens_a_step(acceptance: float, drafted: int) -> float:
    """Returns the mean number of tokens that a step yields for a sequence."""
    return sum(acceptance**n for n in range(drafted + 1))


class Speculation(Protocol):
    """A policy."""

    learns: bool

    def drafted(self, batch: int) -> int:
        """Returns how many tokens to draft."""
        ...

    def observe(self, tried: float, accepted: float) -> None:
        """Takes how many drafted tokens were compared with the model's, and how many were equal."""
        ...


class Fixed:
    """The same length at any load."""

    learns = False

    def __init__(self, length: int) -> None:
        self._length = length

    def drafted(self, batch: int) -> int:
        return self._length

    def observe(self, tried: float, accepted: float) -> None:
        pass


class Adaptive:
    """The length with the most tokens a second at the batch, by the acceptance that was measured."""

    learns = True

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._tried, self._accepted = 2.0, 1.0

    def drafted(self, batch: int) -> int:
        acceptance = self._accepted / self._tried
        return max(range(LONGEST + 1), key=lambda k: (tokens_a_step(acceptance, k) / self._costs.step_s(batch, k), -k))

    def observe(self, tried: float, accepted: float) -> None:
        self._tried = FORGET * self._tried + tried
        self._accepted = FORGET * self._accepted + accepted


def speculation_named(name: Decoding, costs: Costs) -> Speculation:
    return Adaptive(costs) if name == "adaptive" else Fixed(4 if name == "drafts of 4" else 0)


class ModelServer:
    """Sequences that are decoded together, each at the same rate, which changes when one begins or ends."""

    def __init__(self, costs: Costs, speculation: Speculation, acceptance: float, rng: random.Random) -> None:
        self._costs, self._speculation, self._acceptance, self._rng = costs, speculation, acceptance, rng
        self._running: list[tuple[float, int, asyncio.Future[None]]] = []
        """Each with the tokens that the server will have given to every sequence when it ends."""
        self._given = self._rate = self._since = 0.0
        self._drafted = self._begun = 0
        self._timer: asyncio.TimerHandle | None = None

    async def generate(self, alone_s: float) -> None:
        """Returns when a sequence is decoded that would take so long alone and without drafts."""
        tokens = alone_s / self._costs.step_s(1, 0)
        self._go_on()
        done = asyncio.get_running_loop().create_future()
        self._begun += 1
        heapq.heappush(self._running, (self._given + tokens, self._begun, done))
        self._set_rate()
        try:
            await done
        finally:
            if not done.done() or done.cancelled():
                self._go_on()
                self._running = [one for one in self._running if one[2] is not done]
                heapq.heapify(self._running)
                self._set_rate()

    def _go_on(self) -> None:
        """Accounts for the time since the last change."""
        now = asyncio.get_running_loop().time()
        passed_s, self._since = now - self._since, now
        self._given += passed_s * self._rate
        if self._running and self._drafted and passed_s > 0.0:
            self._observe(passed_s / self._costs.step_s(len(self._running), self._drafted) * len(self._running))

    def _observe(self, drafts: float) -> None:
        """Draws how many of the drafted tokens were accepted; those behind the first that is not are never compared."""
        tried = drafts * tokens_a_step(self._acceptance, self._drafted - 1)
        deviation = (tried * self._acceptance * (1.0 - self._acceptance)) ** 0.5
        accepted = min(max(self._rng.gauss(tried * self._acceptance, deviation), 0.0), tried)
        self._speculation.observe(tried, accepted)

    def _set_rate(self, again_s: float = FIRST_S) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = len(self._running)
        if not batch:
            self._rate = 0.0
            return
        self._drafted = self._speculation.drafted(batch)
        yielded = tokens_a_step(self._acceptance, self._drafted)
        self._rate = yielded / self._costs.step_s(batch, self._drafted)
        wait_s = max(0.0, self._running[0][0] - self._given) / self._rate
        loop = asyncio.get_running_loop()
        if self._speculation.learns and again_s < wait_s:
            self._timer = loop.call_later(again_s, self._decide_again, 2.0 * again_s)
        else:
            self._timer = loop.call_later(wait_s, self._end_first)

    def _decide_again(self, again_s: float) -> None:
        self._timer = None
        self._go_on()
        self._set_rate(again_s)

    def _end_first(self) -> None:
        self._timer = None
        self._go_on()
        self._given = max(self._given, self._running[0][0])
        _, _, done = heapq.heappop(self._running)
        if not done.done():
            done.set_result(None)
        self._set_rate()
