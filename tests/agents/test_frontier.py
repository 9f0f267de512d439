"""The frontier that best-first searches share."""

from __future__ import annotations

import heapq
import random

import pytest

from assay.agents.frontier import Frontier, is_irreversible

pytestmark = pytest.mark.quick


def test_nodes_come_by_cost_then_tie_then_order() -> None:
    frontier = Frontier[str](acts=9)
    for node, cost, tie in (("late", 1.0, 0.0), ("first", 0.5, 0.0), ("tied", 1.0, -1.0), ("last", 1.0, 0.0)):
        assert frontier.push(node, cost, tie) is None
    assert [frontier.pop() for _ in range(4)] == ["first", "tied", "late", "last"]
    with pytest.raises(IndexError):
        frontier.pop()


def test_the_search_ends_with_its_nodes_or_its_budget() -> None:
    frontier = Frontier[int](acts=2)
    assert not frontier
    frontier.push(1, 0.0)
    assert frontier
    frontier.count_act("read")
    frontier.count_act("send_key")
    assert (bool(frontier), frontier.has_budget) == (False, False)
    assert (frontier.statistics()["acts"], frontier.statistics()["irreversible"]) == (2, 1)


def test_a_full_frontier_drops_the_node_of_the_highest_cost() -> None:
    draw, frontier = random.Random(3), Frontier[float](acts=1, open_nodes=5)
    costs = [draw.random() for _ in range(40)]
    dropped = [one for cost in costs if (one := frontier.push(cost, cost)) is not None]
    assert [frontier.pop() for _ in range(5)] == heapq.nsmallest(5, costs)
    assert sorted(dropped) == sorted(costs)[5:]
    assert frontier.statistics()["dropped"] == 35


def test_a_known_state_is_merged() -> None:
    frontier = Frontier[int](acts=1)
    assert [frontier.enter(state) for state in ("a", ("b", 1), "a", None, None)] == [True, True, False, True, False]
    assert (frontier.statistics()["states"], frontier.statistics()["merged"]) == (3, 2)


@pytest.mark.parametrize(
    ("words", "is_final"),
    [("Send", True), ("cancel_order", True), ("Begin anew", True), ("sender", False), ("list_orders", False)],
)
def test_words_tell_what_cannot_be_taken_back(words: str, is_final: bool) -> None:
    assert is_irreversible(words) is is_final
