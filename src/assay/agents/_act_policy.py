"""Policies of a search: how likely each possible act of a state is, and how many of them its entropy warrants.

A learnt policy reads texts (`text_policy`). A model is asked for its next call in the branch's conversation: an act
that it calls has the chance that the log-probabilities of its reply's tokens give, and all others share the rest.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from assay.environments.schemas import tool_definitions
from assay.errors import AgentError
from assay.gateway.interface import ModelRequest
from assay.records import ToolCall, canonical_bytes

from ._calls import assistant_message, instruction_of, parse_calls, render_observation
from .branches import Branch
from .text_policy import TextPolicy, read_text_policy

MODEL = "model"
_SHOWN_CHARS = 16_000
_LEAST = 1e-9


class WeighedAct(NamedTuple):
    """One possible act."""

    call: ToolCall
    chance: float
    is_doubtful: bool
    """True if its chance is low beside an equal share."""


class ActPolicy(Protocol):
    """Gives the chances of the possible acts in a state."""

    name: str
    needs_model: bool

    async def chances(self, branch: Branch, text: str, acts: Sequence[ToolCall]) -> list[float]:
        """Returns the chance of each act after the text that was seen last; they sum to 1."""


def open_policy(spelling: str, samples: int) -> ActPolicy:
    """Returns the policy of a spelling. Raises `UserError` for a file that holds none."""
    return ModelPolicy(samples) if spelling == MODEL else FilePolicy(read_text_policy(Path(spelling)))


class FilePolicy:
    """The policy of a file."""

    needs_model = False

    def __init__(self, policy: TextPolicy) -> None:
        self.name = policy.digest
        self._policy = policy

    async def chances(self, branch: Branch, text: str, acts: Sequence[ToolCall]) -> list[float]:
        before = branch.steps[-1].tool_calls[-1] if branch.steps and branch.steps[-1].tool_calls else None
        return self._policy.probabilities(instruction_of(branch.attempt.task), text, before, acts)


class ModelPolicy:
    """The run's model.

    Args:
        samples: Replies that are asked for in a state; each act that one of them calls has a known chance.
    """

    name = MODEL
    needs_model = True

    def __init__(self, samples: int) -> None:
        self._samples = samples

    async def chances(self, branch: Branch, text: str, acts: Sequence[ToolCall]) -> list[float]:
        """Raises `AgentError` if the model gives no log-probabilities."""
        tools = {spec.name: spec for spec in branch.attempt.tools.specs()}
        request = ModelRequest(_conversation(branch), tool_definitions(tuple(tools.values())))
        found: dict[bytes, float] = {}
        for number in range(self._samples):
            seed = random.Random(f"{branch.attempt.seed}/{branch.number}/{number}").getrandbits(31)
            sampling = {"temperature": 1.0, "logprobs": True, "seed": seed, "tool_choice": "required"}
            _, reply = await branch.attempt.ask(ModelRequest(request.messages, request.tools, sampling))
            if reply.logprobs is None:
                raise AgentError(
                    f"policy=model needs log-probabilities, and {reply.model} returns none: choose a model that does, "
                    "or a learned policy"
                )
            for call in parse_calls(reply.message.get("tool_calls") or [], tools, len(branch.steps))[:1]:
                found[_identity(call)] = math.exp(math.fsum(reply.logprobs))
        return share_rest([found.get(_identity(act)) for act in acts])


def share_rest(chances: Sequence[float | None]) -> list[float]:
    """Returns chances that sum to 1: what the known ones leave is shared equally among the unknown ones."""
    known = math.fsum(one for one in chances if one is not None)
    unknown = sum(one is None for one in chances)
    if not unknown or known >= 1.0:
        total = max(known, _LEAST)
        return [(one or 0.0) / total if known else 1.0 / len(chances) for one in chances]
    return [(1.0 - known) / unknown if one is None else one for one in chances]


def count_warranted(chances: Sequence[float], most: int) -> int:
    """Returns how many acts the entropy of their chances warrants, 1 to `most`: its exponential, the effective number
    of acts, rounded."""
    entropy = -math.fsum(one * math.log(one) for one in chances if one > 0)
    return max(1, min(most, len(chances), round(math.exp(entropy))))


def draw_order(
    acts: Sequence[ToolCall], chances: Sequence[float], confidence: float, draw: random.Random
) -> list[WeighedAct]:
    """Returns the acts in an order that is drawn without replacement by their chances."""
    least = confidence / len(acts)
    keyed = [
        (math.log(max(chance, _LEAST)) - math.log(-math.log(draw.uniform(_LEAST, 1.0 - _LEAST))), number)
        for number, chance in enumerate(chances)
    ]  # adding Gumbel noise to log chances and sorting draws without replacement
    order = [number for _, number in sorted(keyed, reverse=True)]
    return [WeighedAct(acts[at], max(chances[at], _LEAST), chances[at] < least) for at in order]


def _identity(call: ToolCall) -> bytes:
    return canonical_bytes([call.name, call.parsed])


def _conversation(branch: Branch) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "user", "content": instruction_of(branch.attempt.task)}]
    for step in branch.steps:
        calls = list(step.tool_calls)
        messages.append(assistant_message(step.message, calls))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": render_observation(observation, _SHOWN_CHARS)}
            for call, observation in zip(calls, step.observations, strict=False)
        ]
    return messages
