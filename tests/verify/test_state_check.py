"""The check `state`: which final states are the wanted ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.world import ServiceWorld
from assay.errors import TaskError
from assay.records import Check, EnvironmentSpec, Task, Verdict
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from tests.environments.services.lending import Loan
from tests.environments.services.test_world import books, member, opened, result


def outcome_of(world: ServiceWorld, *free: str) -> dict[str, Any]:
    changes = world.database.changes(judged_only=True)
    return {"changes": as_json(expected_changes(world.composition.tables, changes, free))}


def judge(world: ServiceWorld, *outcomes: dict[str, Any], **more: Any) -> Verdict:
    return judge_facts(world.facts(), {"outcomes": list(outcomes), **more})


def judge_facts(facts: dict[str, Any], parameters: dict[str, Any]) -> Verdict:
    check = Check("state", "state", parameters)
    task = Task("t", "do it", EnvironmentSpec("services"), (check,), "blake3:0")
    return asyncio.run(StateCheck().judge_world(WorldInput(task, check, facts, None))).verdict


def lend(world: ServiceWorld, *numbers: int, fine: int | None = None) -> ServiceWorld:
    for number in numbers:
        loan = result(world, "lend_book", book_id=books(world)[number], member_id=member(world))
        if fine is not None:
            result(world, "charge_fine", loan_id=loan["id"], amount=fine, remark=f"because of {number}")
    return world


def test_the_plan_itself_passes_and_doing_nothing_fails() -> None:
    wanted = outcome_of(lend(opened(), 0))
    verdict = judge(lend(opened(), 0), wanted)
    assert (verdict.status, verdict.score, verdict.separation) == ("pass", 1.0, "no-agent-code")
    assert verdict.reason == "all 3 requirements hold (1 of them by doing nothing)"
    nothing = judge(opened(), wanted)
    assert (nothing.status, round(nothing.score or 0, 3)) == ("fail", 0.333)
    assert "lending_loans loan 1 is added" in nothing.reason


def test_another_order_of_added_rows_passes() -> None:
    """Loans and fines change their identifiers with the order; the fines must still be of the right loans."""
    wanted = outcome_of(lend(opened(), 0, 1, 2, fine=7))
    assert judge(lend(opened(), 2, 0, 1, fine=7), wanted).status == "pass"


def test_references_between_added_rows_must_fit() -> None:
    wanted = outcome_of(lend(opened(), 0, 1))
    right, wrong = lend(opened(), 0, 1), lend(opened(), 0, 1)
    one, two = (row[0] for row in right.database.rows(right.tables[Loan]))
    for world, fines in ((right, {one: 1, two: 2}), (wrong, {one: 2, two: 1})):
        for loan, amount in fines.items():
            result(world, "charge_fine", loan_id=loan, amount=amount)
    wanted = outcome_of(right)
    assert judge(right, wanted).status == "pass"
    assert judge(wrong, wanted).status == "fail"


def test_collateral_change_fails_and_is_named() -> None:
    wanted = outcome_of(lend(opened(), 0))
    verdict = judge(lend(opened(), 0, 1), wanted)
    assert verdict.status == "fail"
    assert "nothing else changes (but lending_books" in verdict.reason
    assert judge(lend(opened(), 0, 1), wanted, ignored=["lending_books", "lending_loans"]).status == "fail"


def test_free_columns() -> None:
    wanted = outcome_of(lend(opened(), 0, fine=5), "lending_fines.amount")
    assert judge(lend(opened(), 0, fine=99), wanted).status == "pass"
    assert judge(lend(opened(), 0, fine=99), outcome_of(lend(opened(), 0, fine=5))).status == "fail"


def test_wording_is_free() -> None:
    world = lend(opened(), 0, fine=5)
    other = lend(opened(), 0)
    result(other, "charge_fine", loan_id="LOAN-100000", amount=5, remark="in other words")
    assert judge(other, outcome_of(world)).status == "pass"


def test_several_outcomes_and_the_empty_one() -> None:
    nothing: dict[str, Any] = {"name": "refuses"}
    assert judge(opened(), nothing).status == "pass"
    assert judge(lend(opened(), 0), nothing).status == "fail"
    verdict = judge(lend(opened(), 0), nothing, outcome_of(lend(opened(), 0)) | {"name": "lends"})
    assert verdict.reason.endswith(": lends")


def test_optional_changes() -> None:
    wanted = outcome_of(lend(opened(), 0, 1))
    for change in wanted["changes"]:
        change["optional"] = True
    assert judge(opened(), wanted).status == "pass"
    assert judge(lend(opened(), 1), wanted).status == "pass"
    assert judge(lend(opened(), 2), wanted).status == "fail"


def changed(row: str, *columns: str, optional: bool = False) -> dict[str, Any]:
    return {"table": "t", "kind": "changed", "key": [row], "values": dict.fromkeys(columns, 1), "optional": optional}


def added(name: str, *, optional: bool = False, **values: Any) -> dict[str, Any]:
    return {"table": "t", "kind": "added", "key": [{"$new": name}], "values": values, "optional": optional}


def observe_added(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"table": "t", "key": [f"k{n}"], "before": None, "after": {"k": f"k{n}", **r}} for n, r in enumerate(rows)]


def test_an_optional_change_leaves_a_row_to_a_required_one() -> None:
    observed = {"table": "t", "key": ["a"], "before": {"n": 0, "m": 0}, "after": {"n": 1, "m": 0}}
    wanted = [{**changed("a", optional=True), "free": ["n"]}, changed("a", "n")]
    assert judge_facts({"changes": [observed]}, {"outcomes": [{"changes": wanted}]}).status == "pass"


def test_required_rows_are_found_even_if_an_optional_one_has_to_give_way() -> None:
    """The first wanted row fits both observed ones, the second fits only the first."""
    observed = observe_added({"n": 1, "m": 1}, {"n": 1, "m": 2})
    wanted = [added("any", n=1), added("one", n=1, m=1), added("either", optional=True, n=1)]
    assert judge_facts({"changes": observed}, {"outcomes": [{"changes": wanted}]}).status == "pass"


def test_many_optional_rows_that_are_alike() -> None:
    observed = observe_added(*({"n": 1} for _ in range(8)))
    wanted = [added("first", n=1), *(added(f"more {n}", optional=True, n=1) for n in range(12))]
    assert judge_facts({"changes": observed}, {"outcomes": [{"changes": wanted}]}).status == "pass"


def test_removed_rows() -> None:
    def without(number: int) -> ServiceWorld:
        world = opened()
        book = books(world)[number]
        with world.database.transaction():
            world.database.connection.execute("DELETE FROM lending_books WHERE id = ?", (book,))
        return world

    wanted = outcome_of(without(0))
    assert judge(without(0), wanted).status == "pass"
    assert judge(without(1), wanted).status == "fail"


@pytest.mark.parametrize("facts", [{}, {"changes": 5}, {"changes": [{"table": "x"}]}])
def test_what_is_not_reported_is_unknown(facts: dict[str, Any]) -> None:
    assert judge_facts(facts, {"outcomes": [{}]}).status == "unknown"


@pytest.mark.parametrize("parameters", [{}, {"outcomes": []}, {"outcome": [{}]}, {"outcomes": [{"changes": [{}]}]}])
def test_wrong_parameters_are_the_tasks_error(parameters: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="check 'state'"):
        judge_facts({"changes": []}, parameters)


def test_numbers_and_texts_are_not_the_same() -> None:
    change = {"table": "t", "kind": "changed", "key": ["a"], "values": {"n": 1}}
    observed = {"table": "t", "key": ["a"], "before": {"n": 0}, "after": {"n": "1"}}
    assert judge_facts({"changes": [observed]}, {"outcomes": [{"changes": [change]}]}).status == "fail"


def test_more_rows_than_an_outcome_has_fail_at_once() -> None:
    """The agent adds hundreds of equal rows: its failed attempt must not become the task's error."""
    wanted = [added("one", n=1, m={"$new": "two"}), added("two", n=1, m={"$new": "three"}), added("three", n=1, m=5)]
    parameters = {"outcomes": [{"changes": [*wanted, changed("a", "n"), added("more", optional=True, n=1)]}]}
    verdict = judge_facts({"changes": observe_added(*({"n": 1, "m": n % 2} for n in range(460)))}, parameters)
    assert verdict.status == "fail"
    assert verdict.score is not None
    assert verdict.score < 0.5


def references(*circles: int) -> list[tuple[str, str]]:
    """Returns names with the name that each refers to, in circles of these lengths."""
    return [(f"{at}.{n}", f"{at}.{(n + 1) % length}") for at, length in enumerate(circles) for n in range(length)]


def test_references_that_fit_no_assignment_fail_however_long_the_search() -> None:
    wanted = [added(name, o={"$new": other}) for name, other in references(*[3] * 8)]

    def judge_circles(*circles: int) -> Verdict:
        rows = [
            {"table": "t", "key": [name], "before": None, "after": {"k": name, "o": other}}
            for name, other in reversed(references(*circles))
        ]
        return judge_facts({"changes": rows}, {"outcomes": [{"changes": wanted}]})

    assert judge_circles(*[3] * 8).status == "pass"
    wrong = judge_circles(*[3] * 6, 6)
    assert wrong.status == "fail"
    assert wrong.score is not None
    assert wrong.score > 0.5


def test_an_outcome_that_a_right_attempt_cannot_be_found_for_is_the_tasks_error() -> None:
    """Rows of one sort fit those of the other too, and nothing tells which of them a reference is of."""
    lax = [added(f"lax {n}") for n in range(12)]
    strict = [added(f"strict {n}", o={"$new": f"other {n}"}) for n in range(12)]
    right = observe_added(*({"o": f"x{n}"} for n in range(12)), *({} for _ in range(12)))
    with pytest.raises(TaskError, match="too similar"):
        judge_facts({"changes": right}, {"outcomes": [{"changes": [*lax, *strict]}]})


def test_columns_without_regard_to_case_are_compared_so() -> None:
    def changed(before: str, after: str) -> dict[str, Any]:
        row = {"table": "a_things", "key": ["1"], "before": {"id": "1", "name": before}}
        return {"changes": [row | {"after": {"id": "1", "name": after}}]}

    wanted = {"table": "a_things", "kind": "changed", "key": ["1"], "values": {"name": "New"}}
    parameters = {"outcomes": [{"changes": [wanted]}], "caseless": ["a_things.name"]}
    assert judge_facts(changed("old", "NEW"), parameters).status == "pass"
    assert judge_facts(changed("old", "NEW"), parameters | {"caseless": ["b_things.name"]}).status == "fail"
    assert judge_facts(changed("old", "newer"), parameters).status == "fail"
    nothing: dict[str, Any] = {"outcomes": [{"changes": []}]}
    assert judge_facts(changed("old", "OLD"), nothing).status == "fail"
    assert judge_facts(changed("old", "OLD"), nothing | {"caseless": ["a_things.name"]}).status == "pass"
