"""Answers that an agent submits in a world of services: compared as data, never as text."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.services.world import ServiceWorld
from assay.errors import TaskError
from assay.records import Check, EnvironmentSpec, Task, Verdict, canonical_bytes
from assay.verify.answer_check import AnswerCheck
from assay.verify.interface import WorldInput

BARE = {"services": ["ticket"]}


def judged(facts: dict[str, Any], *questions: dict[str, Any]) -> Verdict:
    check = Check("answer", "answer", {"questions": list(questions)})
    task = Task("t", "ask", EnvironmentSpec("services", BARE, 0), (check,), "d")
    result = asyncio.run(AnswerCheck().judge_world(WorldInput(task, check, facts, None)))
    assert all(canonical_bytes(item.data) for item in result.evidence)
    return result.verdict


def answered(*rows: list[str], request: int = 1) -> dict[str, Any]:
    world = ServiceWorld(BARE, 0)
    assert not world.act("answer_question", {"request": request, "rows": list(rows)}).error
    return world.facts()


def asked(*rows: list[str], kinds: list[str], **more: Any) -> dict[str, Any]:
    return {"request": 1, "rows": list(rows), "kinds": kinds, **more}


@pytest.mark.parametrize(
    ("given_cell", "right", "kind", "status"),
    [
        ("1,204.50", "1204.5", "number", "pass"),
        ("1204.51", "1204.5", "number", "fail"),
        ("1204", "1204.5", "number", "fail"),
        ("NaN", "1204.5", "number", "fail"),
        ("1e9999999", "1204.5", "number", "fail"),
        ("-1e999999999999999999", "1204.5", "number", "fail"),
        ("1e-9999999", "0", "number", "fail"),
        ("9" * 500, "1204.5", "number", "fail"),
        ("1.2045e3", "1204.5", "number", "pass"),
        ("about 12", "12", "number", "fail"),
        ("  anna   BERG ", "Anna Berg", "text", "pass"),
        ("Anna", "Anna Berg", "text", "fail"),
        ("2026-03-05", "2026-03-05", "date", "pass"),
        ("2026-03-06", "2026-03-05", "date", "fail"),
        ("5 March 2026", "2026-03-05", "date", "fail"),
        ("2026-03-05T14:30:00", "2026-03-05T14:30", "time", "pass"),
        ("2026-03-05T14:31", "2026-03-05T14:30", "time", "fail"),
    ],
)
def test_cells_are_compared_by_their_kinds(given_cell: str, right: str, kind: str, status: str) -> None:
    verdict = judged(answered([given_cell]), asked([right], kinds=[kind]))
    assert verdict.status == status
    assert verdict.separation == "no-agent-code"


def test_rows_have_no_order_but_a_number_of_each() -> None:
    wanted = asked(["a", "1"], ["b", "2"], ["b", "2"], kinds=["text", "number"])
    assert judged(answered(["b", "2.0"], ["a", "1"], ["b", "2"]), wanted).status == "pass"
    assert judged(answered(["b", "2"], ["a", "1"], ["a", "1"]), wanted).status == "fail"
    assert judged(answered(["b", "2"], ["a", "1"]), wanted).status == "fail"
    assert judged(answered(["b", "2"], ["a"], ["b", "2"]), wanted).status == "fail"


def test_order_counts_where_it_was_asked_for() -> None:
    wanted = asked(["a"], ["b"], kinds=["text"], is_ordered=True)
    assert judged(answered(["a"], ["b"]), wanted).status == "pass"
    assert judged(answered(["b"], ["a"]), wanted).status == "fail"


def test_a_tolerance_is_for_numbers_of_one_row_or_of_ordered_rows() -> None:
    near = answered(["10.04"])
    assert judged(near, asked(["10"], kinds=["number"], tolerance="0.05")).status == "pass"
    assert judged(near, asked(["10"], kinds=["number"], tolerance="0.03")).status == "fail"
    with pytest.raises(TaskError, match="tolerance of question 1"):
        judged(answered(["1"], ["2"]), asked(["1"], ["2"], kinds=["number"], tolerance="0.1"))


def test_the_last_answer_counts_and_all_questions_must_be_right() -> None:
    world = ServiceWorld(BARE, 0)
    for request, cell in ((1, "wrong"), (2, "two"), (1, "one")):
        world.act("answer_question", {"request": request, "rows": [[cell]]})
    first = asked(["one"], kinds=["text"])
    second = asked(["two"], kinds=["text"]) | {"request": 2}
    third = asked(["three"], kinds=["text"]) | {"request": 3}
    assert judged(world.facts(), first, second).status == "pass"
    verdict = judged(world.facts(), first, second, third)
    assert verdict.status == "fail"
    assert verdict.score == pytest.approx(2 / 3)
    assert "question 3: it was not answered" in verdict.reason


def test_nothing_observed_is_unknown_and_wrong_parameters_are_named() -> None:
    assert judged({}, asked(["1"], kinds=["number"])).status == "unknown"
    assert judged({"calls": [], "changes": "none"}, asked(["1"], kinds=["number"])).status == "unknown"
    with pytest.raises(TaskError, match="asks no question"):
        judged(answered(["1"]))
    with pytest.raises(TaskError, match="does not fit its kinds"):
        judged(answered(["1"]), asked(["one"], kinds=["number"]))


def test_deep_arguments_of_a_call_are_searched_without_an_error() -> None:
    deep: list[Any] = ["R-1"]
    for _ in range(5000):
        deep = [deep]
    facts = {"changes": [], "calls": [{"role": "agent", "code": None, "arguments": {"query": deep}}]}
    assert judged(facts, asked(["1"], kinds=["number"], path=["R-1"])).score == pytest.approx(0.4)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(st.lists(st.lists(cells, min_size=1, max_size=3), min_size=1, max_size=5))
def test_any_answer_is_judged_without_an_error(rows: list[list[str]]) -> None:
    question = asked(["10", "2026-03-05"], ["11", "2026-03-06"], kinds=["number", "date"])
    assert judged(answered(*rows), question).status in ("pass", "fail")


@given(st.lists(st.tuples(cells, st.integers()), min_size=1, max_size=8), st.randoms())
def test_an_answer_in_any_order_agrees_with_itself(rows: list[tuple[str, int]], draw: Any) -> None:
    wanted = [[text, str(number)] for text, number in rows]
    shuffled = draw.sample(wanted, len(wanted))
    assert judged(answered(*shuffled), asked(*wanted, kinds=["text", "number"])).status == "pass"
