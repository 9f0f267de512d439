"""Trees and graphs of many attempts, by hand and by property."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.actions import actions_of
from assay.analysis.interface import Action
from assay.analysis.prefix_tree import ROOT, PrefixTree, divergence, information_gain, prefix_tree
from assay.analysis.quotient import (
    bifurcations,
    quotient_graph,
    semantic_efficiency,
)
from assay.analysis.states import State
from assay.records import Observation
from tests.analysis.made import call, step, trajectory

attempts = st.lists(st.text(alphabet="abc", max_size=6), min_size=1, max_size=8)


def states(letters: str) -> list[State]:
    return [State("orchestrate", "tool", letter) for letter in letters]


def actions(letters: str) -> tuple[Action, ...]:
    """An act for each letter; that of a capital one comes to an error."""
    seen = {True: Observation("bad", error=True), False: Observation("fine")}
    return actions_of(trajectory(*(step(call(x.lower(), {}), seen=[seen[x.isupper()]]) for x in letters)))


def path_letters(tree: PrefixTree, number: int) -> str:
    letters = []
    while number != ROOT:
        letters.append(tree.nodes[number].state.tool)  # type: ignore[union-attr]
        number = tree.nodes[number].parent
    return "".join(reversed(letters))


def test_a_tree_by_hand() -> None:
    tree = prefix_tree([states("abc"), states("abd"), states("ab"), states("x")], [True, False, None, False])
    assert [(node.depth, node.attempts, node.passed, node.failed, node.ended) for node in tree.nodes] == [
        (0, 4, 1, 2, 0),
        (1, 3, 1, 1, 0),
        (2, 3, 1, 1, 1),
        (3, 1, 1, 0, 1),
        (3, 1, 0, 1, 1),
        (1, 1, 0, 1, 1),
    ]
    assert tree.walks == ((1, 2, 3), (1, 2, 4), (1, 2), (5,))
    assert (tree.nodes[1].rate, tree.nodes[5].rate) == (0.5, 0.0)


def test_divergence_is_from_the_ways_of_others_that_passed() -> None:
    tree = prefix_tree([states("abc"), states("abd"), states("x"), states("ab")], [True, False, False, True])
    assert [divergence(tree, attempt) for attempt in range(4)] == [2, 2, 0, None]


@given(attempts)
def test_a_tree_holds_every_attempt_and_no_other(given_attempts: list[str]) -> None:
    tree = prefix_tree([states(each) for each in given_attempts], [None] * len(given_attempts))
    assert {path_letters(tree, number) for number, node in enumerate(tree.nodes) if node.ended} == set(given_attempts)
    assert sum(node.ended for node in tree.nodes) == len(given_attempts)
    for node in tree.nodes[1:]:
        assert tree.nodes[node.parent].attempts >= node.attempts
    for letters, walk in zip(given_attempts, tree.walks, strict=True):
        assert "".join(tree.nodes[n].state.tool for n in walk) == letters  # type: ignore[union-attr]


@given(attempts)
def test_attempts_share_nodes_exactly_while_they_do_the_same(given_attempts: list[str]) -> None:
    tree = prefix_tree([states(each) for each in given_attempts], [None] * len(given_attempts))
    prefixes = {each[:length] for each in given_attempts for length in range(1, len(each) + 1)}
    assert len(tree.nodes) == 1 + len(prefixes)


def test_information_is_corrected_for_chance() -> None:
    assert information_gain([(20, 0), (0, 20)]) == pytest.approx(1.0, abs=0.03)
    assert information_gain([(50, 50), (50, 50)]) == 0.0
    assert information_gain([(1, 0), (0, 1)]) < 0.7
    assert information_gain([]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_information_is_at_most_a_bit(branches: list[tuple[int, int]]) -> None:
    assert 0.0 <= information_gain(branches) <= 1.0


def test_a_graph_merges_what_is_the_same_wherever_it_stands() -> None:
    graph = quotient_graph([actions("abA"), actions("baa")], [True, False])
    assert graph.walks == ((1, 2, 3), (2, 1, 1))
    assert [(node.visits, node.attempts, node.outcome) for node in graph.nodes[1:]] == [
        (3, 2, "ok"),
        (2, 2, "ok"),
        (1, 1, "error"),
    ]
    assert semantic_efficiency(graph, 1) == pytest.approx(2 / 3)


def test_a_bifurcation_is_where_the_next_act_tells_the_outcome() -> None:
    graph = quotient_graph([actions("xab")] * 10 + [actions("xac")] * 10, [True] * 10 + [False] * 10)
    found = bifurcations(graph)
    assert len(found) == 1
    assert graph.nodes[found[0].node].state == State("orchestrate", "tool", "a", "", "{}")
    assert sorted(found[0].branches.values()) == [(0, 10), (10, 0)]


@given(attempts, st.randoms(use_true_random=False))
def test_a_graph_keeps_every_walk(given_attempts: list[str], draw: object) -> None:
    outcomes = [draw.choice([True, False, None]) for _ in given_attempts]  # type: ignore[attr-defined]
    graph = quotient_graph([actions(each) for each in given_attempts], outcomes)
    assert [len(walk) for walk in graph.walks] == [len(each) for each in given_attempts]
    assert sum(edge.times for edge in graph.edges) == sum(map(len, given_attempts))


@pytest.mark.long
def test_many_attempts_that_share_nothing_take_no_quadratic_time() -> None:
    started = time.perf_counter()
    crowd = [[State("explore", "shell", "bash", "", f"run{n} {k}") for k in range(20)] for n in range(1000)]
    tree = prefix_tree(crowd, [None] * 1000)
    assert len(tree.nodes) == 20_001
    assert time.perf_counter() - started < 20
