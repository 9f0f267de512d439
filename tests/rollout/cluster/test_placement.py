"""Placement, fairness and budgets: pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.placement import (
    FIRST_ATTEMPTS,
    KINDS,
    PATIENCE,
    AttemptQueue,
    NodeResources,
    Requirements,
    RunDemand,
    add_use,
    affordable_attempts,
    divide_slots,
    use_of_result,
)
from assay.rollout.limits.run_budget import BudgetLimits, ModelUse

pytestmark = pytest.mark.quick


def _layers(*names: str) -> Requirements:
    return Requirements(layers=frozenset(names))


def test_an_agent_gets_what_it_can_run() -> None:
    queue = AttemptQueue()
    queue.add("gpu", Requirements(gpus=1))
    queue.add("docker", Requirements(isolation="docker"))
    queue.add("any", Requirements())
    assert queue.take(NodeResources(("namespaces",)), 3) == ["any"]
    assert queue.take(NodeResources(("namespaces", "docker"), gpus=8), 3) == ["gpu", "docker"]
    assert len(queue) == 0


def test_an_attempt_that_no_node_could_run_is_named() -> None:
    queue = AttemptQueue()
    queue.add("any", Requirements())
    for name in ("done", "waits"):
        queue.add(name, Requirements("docker", gpus=1))
    queue.discard("done")
    nodes = [NodeResources(("docker",)), NodeResources(("podman",), gpus=1)]
    assert queue.unplaceable(nodes) == ("waits", Requirements("docker", gpus=1))
    assert str(Requirements("docker", gpus=1)) == "the sandbox 'docker' and 1 GPU(s)"
    assert queue.unplaceable([*nodes, NodeResources(("docker",), gpus=1)]) is None


def test_cached_layers_go_first_and_one_kind_stays_together() -> None:
    queue = AttemptQueue()
    for number in range(2):
        for layer in "abc":
            queue.add(f"{layer}{number}", _layers(layer))
    assert queue.take(NodeResources(layers=frozenset("c")), 3) == ["c0", "c1", "a0"]
    assert queue.take(NodeResources(), 3) == ["b0", "b1", "a1"]


def test_attempts_whose_layers_no_node_has_are_not_left_to_the_end() -> None:
    queue, node = AttemptQueue(), NodeResources(layers=frozenset("a"))
    queue.add("b", _layers("b"))
    for number in range(2 * PATIENCE):
        queue.add(f"a{number}", _layers("a"))
    handed_out = [name for _ in range(2 * PATIENCE) for name in queue.take(node, 1)]
    assert handed_out.index("b") == PATIENCE
    assert handed_out[:2] == ["a0", "a1"]


def test_of_many_kinds_those_that_wait_longest_are_compared() -> None:
    queue = AttemptQueue()
    for number in range(2000):
        queue.add(f"{number}", _layers(f"layer-{number}"))
    node = NodeResources(layers=frozenset((f"layer-{KINDS - 1}", "layer-1999")))
    assert queue.take(node, 3) == [f"{KINDS - 1}", "0", "1"]
    assert len(queue.take(node, 2000)) == 1997


def test_an_attempt_put_back_is_next_and_a_discarded_one_is_not_taken() -> None:
    queue = AttemptQueue()
    for name in ("one", "two", "three"):
        queue.add(name, Requirements())
    queue.add("one", Requirements())
    (first,) = queue.take(NodeResources(), 1)
    queue.put_back(first, Requirements())
    queue.discard("two")
    assert queue.take(NodeResources(), 9) == ["one", "three"]


def test_slots_are_divided_by_weight_over_what_is_leased() -> None:
    demands = [RunDemand("a", 1.0, 0, 100), RunDemand("b", 3.0, 0, 100)]
    assert divide_slots(8, demands) == {"a": 2, "b": 6}
    assert divide_slots(8, [demands[0]._replace(leased=40), demands[1]]) == {"a": 0, "b": 8}
    assert divide_slots(8, [demands[0], demands[1]._replace(waiting=1)]) == {"a": 7, "b": 1}
    assert divide_slots(8, demands[:1]) == {"a": 8}


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.floats(0.1, 9), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5),
)
def test_every_slot_is_used_as_long_as_attempts_wait(slots: int, runs: list[tuple[float, int, int]]) -> None:
    demands = [RunDemand(str(place), *one) for place, one in enumerate(runs)]
    shares = divide_slots(slots, demands)
    assert sum(shares.values()) == min(slots, sum(demand.waiting for demand in demands))
    assert all(0 <= shares[demand.run] <= demand.waiting for demand in demands)


def test_a_budget_allows_as_many_attempts_as_the_mean_use_suggests() -> None:
    calls = BudgetLimits(calls=100)
    assert affordable_attempts(BudgetLimits(), ModelUse(), 0, 0) is None
    assert affordable_attempts(calls, ModelUse(), 0, 6) == FIRST_ATTEMPTS - 6
    assert affordable_attempts(calls, ModelUse(calls=20), 10, 0) == 40
    assert affordable_attempts(calls, ModelUse(calls=20), 10, 39) == 1
    assert affordable_attempts(calls, ModelUse(calls=100), 10, 0) == 0
    money = BudgetLimits(cost_usd=1.0)
    assert affordable_attempts(money, ModelUse(5, None), 5, 0) == 0
    assert affordable_attempts(money, ModelUse(5, 0.5), 5, 2) == 3


def test_the_use_of_a_trial_includes_the_simulated_person() -> None:
    metrics = {"model_calls": 3.0, "cost_usd": 0.5, "user_calls": 2.0, "user_cost_usd": 0.25}
    result = TrialResult("pass", 1.0, "agent", None, None, None, metrics)
    assert use_of_result(result) == ModelUse(5, 0.75)
    unpriced = use_of_result(result._replace(metrics={"model_calls": 3.0}))
    assert unpriced == ModelUse(3, None)
    assert add_use(unpriced, ModelUse(1, 0.1)) == ModelUse(4, None)
