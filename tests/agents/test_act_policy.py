"""Policies of a search: chances from texts and from a model's log-probabilities, and what their entropy warrants."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assay.agents._act_policy import ModelPolicy, count_warranted, draw_order, share_rest
from assay.agents.branches import Branch
from assay.agents.search import BestFirstAgent
from assay.agents.text_policy import TextPolicy, act_kinds, policy_features, read_text_policy
from assay.environments.interface import ToolSpec
from assay.errors import AgentError, OptionError, UserError
from assay.gateway.interface import ModelReply, ModelRequest
from assay.learning.policies import PolicyExample, fit_policy
from assay.records import ToolCall, Usage, canonical_bytes

pytestmark = pytest.mark.quick
BRIEF = "Find the crown, bring it to the cellar."


def act(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, canonical_bytes(arguments).decode(), arguments)


def test_kinds_and_features_name_words_by_their_place_in_the_instruction() -> None:
    assert act_kinds(BRIEF, act("do", command="take crown")) == ("do take @2", "do take *")
    assert act_kinds(BRIEF, act("move", direction="left")) == ("move left", "move left *")
    found = policy_features(BRIEF, "You carry: crown. Ways: west.", act("do", command="go west"))
    assert found == {"after do go west", "you: carry", "you: @2", "ways: west"}


def test_chances_are_the_softmax_of_bias_and_weights() -> None:
    policy = TextPolicy(("do go *", "do take @2"), (0.0, 1.0), {"here: @2": (0.0, 2.0)}, -1.0)
    acts = [act("do", command="go west"), act("do", command="take crown"), act("do", command="sing loudly")]
    chances = policy.probabilities(BRIEF, "Here: crown.", None, acts)
    odds = [1.0, math.exp(3.0), math.exp(-1.0)]
    assert chances == pytest.approx([one / sum(odds) for one in odds])


def test_the_entropy_warrants_the_effective_number_of_acts() -> None:
    assert count_warranted([0.25] * 4, 9) == 4
    assert count_warranted([1.0, 0.0, 0.0], 9) == 1
    assert count_warranted([0.5, 0.5, 0.0], 9) == 2
    assert count_warranted([0.9, 0.05, 0.05], 9) == round(math.exp(-0.9 * math.log(0.9) - 0.1 * math.log(0.05)))
    assert count_warranted([0.1] * 10, 4) == 4


def test_the_order_is_drawn_by_the_chances_and_doubtful_acts_are_marked() -> None:
    acts, chances, draw = [act("a"), act("b"), act("c")], [0.7, 0.25, 0.05], random.Random(1)
    orders = [draw_order(acts, chances, 0.5, draw) for _ in range(4_000)]
    first = Counter(order[0].call.name for order in orders)
    assert first["a"] / 4_000 == pytest.approx(0.7, abs=0.03)
    assert first["c"] / 4_000 == pytest.approx(0.05, abs=0.02)
    assert all({one.call.name for one in order if one.is_doubtful} == {"c"} for order in orders)  # 0.05 < 0.5 / 3


def test_what_known_chances_leave_is_shared() -> None:
    assert share_rest([0.6, None, None]) == pytest.approx([0.6, 0.2, 0.2])
    assert share_rest([None, None]) == [0.5, 0.5]
    assert share_rest([0.8, 0.8, None]) == [0.5, 0.5, 0.0]
    assert share_rest([0.2, 0.2]) == [0.5, 0.5]


def test_the_fit_without_features_is_the_share_of_each_act() -> None:
    kinds = [("do a", "do a *")] * 60 + [("do b", "do b *")] * 30 + [("do c", "do *")] * 2
    policy = fit_policy([PolicyExample(one, frozenset()) for one in kinds])
    assert policy.kinds == ("do a", "do b")
    assert policy.bias[0] - policy.bias[1] == pytest.approx(math.log(2), abs=0.01)
    with pytest.raises(UserError, match="5 times"):
        fit_policy([PolicyExample(("do a", "do *"), frozenset())])


def test_the_fit_follows_a_feature() -> None:
    left = [PolicyExample(("do a", "do a *"), frozenset({"x"}))] * 40
    right = [PolicyExample(("do b", "do b *"), frozenset())] * 40
    policy = fit_policy([*left, *right])
    assert policy.weights["x"][0] > policy.weights["x"][1]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "[" * 100_000, '{"kinds": ["a"], "bias": [], "weights": {}, "unknown": 0}',
        '{"kinds": ["a"], "bias": [1e999], "weights": {}, "unknown": 0}',
        '{"kinds": ["a"], "bias": [0], "weights": {"x: y": [1e308], "x: z": [1e308]}, "unknown": 0}',
        '{"kinds": ["a"], "bias": [0], "weights": {"x": [1, 2]}, "unknown": 0}',
    ],
)  # fmt: skip
def test_a_file_without_a_policy_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(UserError):
        read_text_policy(tmp_path / "policy.json")


def test_options_that_need_a_policy_say_so(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="policy=FILE"):
        BestFirstAgent(value="confidence")
    with pytest.raises(UserError, match="learn-policy"):
        BestFirstAgent(policy=str(tmp_path / "missing.json"))
    agent = BestFirstAgent(policy="model", value="confidence")
    assert (agent.name, agent.needs_model, BestFirstAgent().needs_model) == (
        "best-first:confidence+entropy",
        True,
        False,
    )


class FakeAttempt:
    """Attempt whose model calls one tool with given log-probabilities."""

    seed = 3
    task = SimpleNamespace(instruction="Go to the goal.")
    tools = SimpleNamespace(specs=lambda: (ToolSpec("move", "Moves.", {"type": "object"}),))

    def __init__(self, logprobs: tuple[float, ...] | None) -> None:
        self.logprobs, self.asked = logprobs, list[ModelRequest]()

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        self.asked.append(request)
        function = {"name": "move", "arguments": '{"direction":"left"}'}
        message = {"role": "assistant", "tool_calls": [{"id": "x", "type": "function", "function": function}]}
        return "call", ModelReply(message, "tool_calls", Usage(), {}, {}, "fake", logprobs=self.logprobs)


async def test_a_model_gives_its_act_the_chance_of_its_tokens_and_the_others_the_rest() -> None:
    attempt = FakeAttempt((math.log(0.8), math.log(0.5)))
    branch = cast(Branch, SimpleNamespace(attempt=attempt, number=0, steps=()))
    acts = [act("move", direction=name) for name in ("left", "right", "up")]
    assert await ModelPolicy(2).chances(branch, "", acts) == pytest.approx([0.4, 0.3, 0.3])
    assert len(attempt.asked) == 2
    assert attempt.asked[0].sampling["logprobs"] is True
    assert attempt.asked[0].sampling["seed"] != attempt.asked[1].sampling["seed"]


async def test_a_model_without_log_probabilities_is_refused() -> None:
    branch = cast(Branch, SimpleNamespace(attempt=FakeAttempt(None), number=0, steps=()))
    with pytest.raises(AgentError, match="needs log-probabilities"):
        await ModelPolicy(1).chances(branch, "", [act("move", direction="left")])
