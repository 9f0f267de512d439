"""A reader who knows only the instruction and the tools can do the service tasks, and the instructions read well."""

from __future__ import annotations

import asyncio
import re
from functools import cache

import pytest

from assay.environments.services.world import ServiceWorld
from assay.records import Task
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.instruction import write_instruction
from assay.synthesis.services.walk import PersonFact, Walk
from assay.verify.answer_check import AnswerCheck
from assay.verify.interface import WorldInput
from assay.verify.service_checks import PolicyCheck
from assay.verify.state_check import StateCheck
from tests.synthesis.services.solver import DESKS, Desk, solve

LEAST = 5
"""Tasks of each application's five that the solver must pass; of 90 that it had not met (seed 113) it passed 90."""


def passes(task: Task, desk: Desk) -> bool:
    """Returns whether the final state, the answers and the kept rules are those that the task wants."""
    facts = desk.world.facts()
    for check in task.checks:
        judge = {"state": StateCheck, "answer": AnswerCheck, "policy": PolicyCheck}[check.kind]()
        if asyncio.run(judge.judge_world(WorldInput(task, check, facts, None))).verdict.status != "pass":
            return False
    return True


@cache
def mixed(app: str) -> tuple[Task, ...]:
    return ServiceTasks(app=app, kind="mixed").tasks(5, seed=59)


@pytest.mark.long
@pytest.mark.parametrize("app", DESKS)
def test_the_solver_passes_tasks(app: str) -> None:
    done = [(task, solve(task)) for task in mixed(app)]
    failed = {task.id: desk.problems for task, desk in done if not passes(task, desk)}
    assert len(done) - len(failed) >= LEAST, failed


def test_who_asks_nothing_passes_no_conversation() -> None:
    for task in mixed("airline"):
        assert not passes(task, DESKS["airline"](task))


class SilentDesk(DESKS["bank"]):  # type: ignore[misc]
    """Reads what the policy wants read, and moves money without a word about it."""

    def prepare(self, action: str, arguments: dict[str, object]) -> None:
        if action in self.before:
            self._seen.clear()
            self.before[action](self, arguments)


def test_who_does_not_ask_for_consent_moves_no_money() -> None:
    tasks = [
        task
        for task in ServiceTasks(app="bank", level="persona", kind="possible").tasks(12, seed=7)
        if any(call["action"] == "send_message" for call in task.environment.parameters["plan"])
    ]
    assert len(tasks) >= 3
    for task in tasks:
        assert passes(task, solve(task)), task.id
        silent = SilentDesk(task)
        silent.solve()
        assert not silent.problems
        assert not passes(task, silent), task.id


@pytest.mark.parametrize("app", DESKS)
def test_instructions_say_nothing_twice(app: str) -> None:
    for task in mixed(app):
        text = str(task.instruction).split("\n\nPolicy of ")[0]
        assert "The date is" not in text
        days = re.findall(r"it is about (\d+ \w+ \d+)", text, re.IGNORECASE)
        assert all(text.count(day) == 1 for day in days)


def test_whoever_has_an_ambiguous_record_can_be_found() -> None:
    for task in ServiceTasks(app="bank", kind="ambiguous").tasks(2, 1):
        assert "The email address is" in task.instruction
        assert passes(task, solve(task)), task.id


def test_whoever_leads_to_an_ambiguous_record_is_named() -> None:
    for task in ServiceTasks(app="airline", kind="ambiguous", level="explicit").tasks(4, 3):
        for call in task.environment.parameters["plan"]:
            if call["action"] == "search_passengers":
                assert call["arguments"]["text"] in task.instruction, task.id


def test_facts_of_one_record_stand_in_one_sentence() -> None:
    known = (
        PersonFact("email address", "a@b.example"),
        PersonFact("date of birth", "1951-04-25"),
        PersonFact("email address", "c@d.example"),
        PersonFact("date of birth", "1988-08-08"),
        PersonFact("date", "2026-03-05"),
    )
    text = write_instruction((), Walk((), (), known), "explicit", 0).text
    assert text.split("\n")[-3:] == [
        "The email address is a@b.example and the date of birth is 1951-04-25.",
        "The email address is c@d.example and the date of birth is 1988-08-08.",
        "It is about 5 March 2026.",
    ]


def test_people_and_tools_may_use_different_nouns() -> None:
    world = ServiceWorld({"services": ["airline", "mail"]}, 3)
    nouns = {row.__name__: noun for service in world.composition.services for row, noun in service.nouns.items()}
    assert nouns["Segment"] == "trip"
    assert nouns["CalendarEvent"] == "event"


def test_a_fork_keeps_rows_that_swapped_a_unique_value() -> None:
    world = ServiceWorld({"services": ["airline"]}, 3)
    connection = world.database.connection
    query = "SELECT id, segment_id FROM airline_seats WHERE segment_id IS NOT NULL ORDER BY id LIMIT 2"
    (one, first), (other, second) = connection.execute(query).fetchall()
    with world.database.transaction():
        for seat, segment in ((one, None), (other, first), (one, second)):
            connection.execute("UPDATE airline_seats SET segment_id = ? WHERE id = ?", (segment, seat))
    assert world.fork().database.digest() == world.database.digest()
