"""Evidence graph of a team, against one worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.evidence_graph import (
    ActorFinds,
    Find,
    build_evidence_graph,
    coverage_gains,
    find_facts,
)
from assay.records import HAND_OFF, TEAM, TEAM_MESSAGE, Evidence, HandOff, Step, TeamMessage, Trajectory
from tests.analysis.trajectories import acted, trajectory

pytestmark = pytest.mark.quick
FACTS = ("A + B = 5", "B < C", "C is even")


def by(actor: str, step: Step) -> Step:
    return msgspec.structs.replace(step, actor_name=actor)


def sent(step: int, sender: str, text: str, *receivers: str) -> Evidence:
    message = TeamMessage(id=f"m{step}", channel="c", sender=sender, receivers=receivers, text=text, step=step)
    return Evidence(TEAM_MESSAGE, "audit", TEAM_MESSAGE, msgspec.to_builtins(message))


def made() -> Trajectory:
    steps = [
        by("one", acted(0, "read", seen="it says A + B = 5; no more", letter=1)),
        by("two", acted(1, "team_send", text="B < C")),
        by("one", acted(2, "team_send", text="A + B = 5")),
        by("two", acted(3, "team_read", seen="A + B = 5")),  # hearing is no find
        by("two", acted(4, "team_send", text="A + B = 5, as I heard")),  # nor is passing it on
        by("two", acted(5, "read", seen="A + B = 5 and B < C", letter=2)),
        by("one", acted(6, "read", seen="A + B = 55", letter=3)),  # another number
        by("one", acted(7, "read", seen="C is even", error=True, letter=4)),  # a failed call shows nothing
    ]
    messages = [sent(1, "two", "B < C", "one"), sent(2, "one", "A + B = 5", "two"), sent(4, "two", "A + B = 5", "one")]
    return trajectory(steps, evidence=messages)


def test_finds_by_hand() -> None:
    assert find_facts(made(), FACTS) == [
        Find(0, "one", 0, told=False),
        Find(1, "two", 1, told=True),
        Find(0, "two", 5, told=False),
        Find(1, "two", 5, told=False),
    ]


def test_coverage_and_duplication_by_hand() -> None:
    found = build_evidence_graph(made(), FACTS)
    assert (found.needed, found.found, found.shared, found.finds) == (3, 2, 2, 4)
    assert (found.searchers, found.repeated) == (2, 2)
    assert found.actors == (
        ActorFinds(actor="one", first=1, again=0, acts=3),
        ActorFinds(actor="two", first=1, again=2, acts=1),
    )
    assert coverage_gains(made(), FACTS) == {0: 1 / 3, 1: 1 / 3}


def test_a_hand_off_shares_and_a_message_that_reaches_no_one_does_not() -> None:
    handed = HandOff(id="h1", sender="one", receiver="two", text="C is even", step=0)
    evidence = [Evidence(HAND_OFF, "audit", HAND_OFF, msgspec.to_builtins(handed)), sent(1, "one", "B < C")]
    steps = [by("one", acted(0, "team_hand_off")), by("one", acted(1, "team_send"))]
    found = build_evidence_graph(trajectory(steps, evidence=evidence), FACTS)
    assert (found.found, found.shared) == (1, 1)


def test_a_guess_is_no_find_and_takes_none_of_another() -> None:
    views = Evidence(TEAM, "audit", TEAM, {"team": {}, "views": {"liar": 0, "reader": 1, "whole": "all"}})
    all_facts = "; ".join(FACTS)
    guessed = [sent(0, "liar", all_facts, "reader"), sent(1, "reader", "B < C", "liar"), sent(2, "liar", "B < C", "x")]
    steps = [by(one, acted(at, "team_send")) for at, one in enumerate(("liar", "reader", "liar", "whole"))]
    one = trajectory(steps, evidence=[views, *guessed, sent(3, "whole", all_facts, "liar")])
    starts = {0: "nothing", 1: "B < C is true", "all": all_facts}
    assert find_facts(one, FACTS, starts) == [
        Find(1, "reader", 1, told=True),
        *(Find(fact, "whole", 3, told=True) for fact in (0, 1, 2)),
    ]
    assert coverage_gains(one, FACTS, starts) == {1: 1 / 3, 3: 2 / 3}
    assert coverage_gains(one, FACTS) == {0: 1.0}  # a record alone cannot tell


def test_a_single_agent_finds_by_its_own_observations() -> None:
    found = build_evidence_graph(trajectory([acted(0, "read", seen="B < C")]), FACTS)
    assert found.actors == (ActorFinds(actor="agent", first=1, again=0, acts=1),)
    assert build_evidence_graph(trajectory([]), FACTS).finds == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.integers(0, 2))), max_size=12))
def test_parts_of_actors_sum_to_the_whole(reads: list[tuple[str, set[int]]]) -> None:
    steps = [
        by(actor, acted(number, "read", seen="; ".join(FACTS[one] for one in facts)))
        for number, (actor, facts) in enumerate(reads)
    ]
    one = trajectory(steps)
    found = build_evidence_graph(one, FACTS)
    assert sum(part.first for part in found.actors) == found.found == len(set().union(*(facts for _, facts in reads)))
    assert sum(part.first + part.again for part in found.actors) == found.finds
    assert sum(coverage_gains(one, FACTS).values()) == pytest.approx(found.found / 3)


@pytest.mark.parametrize("data", [{}, {"step": "1", "sender": 2}, {"step": 0, "sender": "a", "text": None}])
def test_evidence_of_another_form_is_left_out(data: dict[str, Any]) -> None:
    odd = [Evidence(TEAM_MESSAGE, "audit", TEAM_MESSAGE, data), Evidence(HAND_OFF, "audit", HAND_OFF, data)]
    assert build_evidence_graph(trajectory([by("a", acted(0, "x"))], evidence=odd), FACTS).finds == 0
