"""Options that make tasks in services harder: what each adds, and that the tasks can be done all the same."""

from __future__ import annotations

import asyncio
import random
from functools import cache
from typing import Annotated, Any

import msgspec
import pytest

from assay.environments.services.declaration import Service
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.users import UserScript, begin, reply
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task
from assay.synthesis.services import similarity
from assay.synthesis.services.days import draw_waits, event_matters
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.person import questions_needed
from assay.synthesis.services.requests import Draft
from assay.synthesis.services.required_reads import needed_reads
from assay.synthesis.services.walk import Walk
from assay.tasks.sources import find_tasks
from assay.verify.economy_check import EconomyCheck
from assay.verify.interface import WorldInput
from assay.verify.service_checks import CommunicatedCheck, PolicyCheck
from assay.verify.state_check import StateCheck

OvenId = Annotated[str, identifier("oven", "OVN-")]
ovens = Service("ovens", "Ovens of a bakery.")


@ovens.table()
class Oven(msgspec.Struct, frozen=True):
    id: OvenId
    place: str
    is_done: bool = False
    is_empty: bool = False


@ovens.view()
def list_ovens(tx: Transaction) -> list[Oven]:
    """Returns the ovens."""
    return tx.find(Oven)


@ovens.action(wish="take the bread out of {oven_id}")
def take_out(tx: Transaction, oven_id: OvenId) -> Oven:
    """Takes the bread out."""
    oven = tx.get(Oven, oven_id)
    tx.require(oven.is_done and not oven.is_empty, "There is no bread to take out.", "conflict")
    return tx.update(oven, is_empty=True)


@ovens.event()
def finish_baking(tx: Transaction, oven_id: str) -> None:
    """The bread is done."""
    tx.update(tx.get(Oven, oven_id), is_done=True)


@ovens.describe(Oven)
def describe_oven(_tx: Transaction, oven: Oven) -> str:
    return f"the oven in the {oven.place}"


@ovens.generator
def fill_ovens(make: Generator, _knobs: object) -> None:
    for place in ("cellar", "yard", "hall"):
        oven = Oven(make.new_id(Oven), place)
        make.insert_all([oven])
        make.schedule("2026-03-02T20:00", finish_baking, oven_id=oven.id)


OVENS = f"{__name__}:ovens"
PERSON = {"level": "persona"}
SETS: dict[str, dict[str, Any]] = {
    "days": {"app": "shop", "days": 3},
    "distractors": {"app": "airline", "distractors": 2},
    "reads": {"app": "tracker", "reads": 3},
    "person": {"app": "mail", **PERSON, "mood": "mixed", "patience": 6, "disclosure": "mixed", "wrong": 1},
    "changed": {"app": "bank", **PERSON, "changed": True},
    "tell": {"app": "shop", **PERSON, "tell": True},
    "ambiguous": {"app": "mail", **PERSON, "kind": "ambiguous", "twins": True},
    "impossible": {"app": "shop", "kind": "impossible", "twins": True},
    "forbidden": {"app": "bank", "kind": "forbidden", "twins": True},
    "all": {"app": "bank+mail", **PERSON, "days": 2, "reads": 2, "mood": "hurried", "disclosure": "precise", "wrong": 1,
            "tell": True, "distinct": True},
}  # fmt: skip
CHECKS = {"state": StateCheck, "policy": PolicyCheck, "communicated": CommunicatedCheck, "economy": EconomyCheck}


@cache
def made(name: str) -> tuple[Task, ...]:
    return ServiceTasks(**SETS[name], needs=True).tasks(4, 3)


def opened(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def plan_of(task: Task) -> tuple[PlannedCall, ...]:
    return msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])


def script_of(task: Task) -> UserScript:
    return msgspec.convert(task.environment.parameters["knobs"]["conversation"]["script"], UserScript)


def statuses(task: Task, facts: dict[str, Any]) -> dict[str, str]:
    """Returns the status of each check, without `economy`."""
    found = {}
    for check in task.checks:
        if check.kind not in ("economy", "answer"):
            given = WorldInput(task, check, facts, None)
            found[check.name] = asyncio.run(CHECKS[check.kind]().judge_world(given)).verdict.status
    return found


@pytest.mark.parametrize("name", SETS)
def test_the_reference_solution_passes_and_nothing_fails(name: str) -> None:
    assert len(made(name)) == 4
    for task in made(name):
        done = statuses(task, play(opened(task), plan_of(task)).facts())
        assert set(done.values()) == {"pass"}, (task.id, done)
        assert "fail" in statuses(task, opened(task).facts()).values()
    assert ServiceTasks(**SETS[name], needs=True).tasks(4, 3) == made(name)


def test_without_the_options_the_tasks_are_what_they_were() -> None:
    plain = ServiceTasks(app="shop").tasks(3, 3)
    given = ServiceTasks(
        app="shop", days=0, distractors=0, reads=0, mood="calm", patience=12, disclosure="asked", wrong=0, tell=False,
        twins=False, distinct=False, needs=False,
    ).tasks(3, 3)  # fmt: skip
    assert given == plain
    assert [set(task.metadata) for task in plain] == [{"given", "writes", "calls"}] * 3
    assert [check.kind for check in plain[0].checks] == ["state", "policy"]


def test_a_request_that_only_an_event_makes_possible_needs_days() -> None:
    assert ServiceTasks(app=OVENS, writes=1).tasks(1, 0) == ()
    (task,) = ServiceTasks(app=OVENS, writes=1, days=1).tasks(1, 0)
    plan = plan_of(task)
    assert [call.action for call in plan] == ["list_ovens", "wait", "take_out"]
    assert task.metadata["event"] is True
    assert "Wait exactly 24 hours, and after that take" in str(task.instruction)
    assert statuses(task, play(opened(task), [plan[0], plan[2], plan[1]]).facts())["state"] == "fail"


def test_an_event_matters_where_the_wait_changes_what_a_later_request_names() -> None:
    world = ServiceWorld.of([ovens], 1)
    first, *_ = (str(row[0]) for row in world.database.rows(world.tables[Oven]))
    wait, take = PlannedCall("wait", {"hours": 24}), PlannedCall("take_out", {"oven_id": first})
    short = PlannedCall("wait", {"hours": 1})
    assert event_matters(world, Walk((wait, take), (take,), ()))
    assert not event_matters(world, Walk((take, wait), (take,), ()))
    late = world.fork()
    late.act("wait", {"hours": 24})
    assert not event_matters(late, Walk((short, take), (take,), ()))


def test_waits_have_the_days_that_were_asked_for() -> None:
    for writes in (1, 2, 3):
        waits = draw_waits(5, writes, random.Random(1))
        assert (sum(waits), len(waits)) == (5, writes)
        assert (waits[0] > 0) is (writes == 1)
    assert [bool(task.metadata["event"]) for task in made("days")][::2] == [True, True]


def test_distractors_are_in_the_world_and_counted() -> None:
    for task in made("distractors"):
        assert task.environment.parameters["knobs"]["airline"]["lookalikes"] == 60
        assert int(str(task.metadata["distractors"])) >= 2


def test_reads_that_are_needed_are_counted_without_those_that_can_be_left_out() -> None:
    assert all(task.metadata["needs"]["reads"] >= 3 for task in made("reads"))
    world = ServiceWorld.of([ovens], 1)
    world.act("wait", {"hours": 24})
    oven = str(next(iter(world.database.rows(world.tables[Oven])))[0])
    take = PlannedCall("take_out", {"oven_id": oven})
    twice = Draft(Walk((PlannedCall("list_ovens"), PlannedCall("list_ovens"), take), (take,), ()))
    assert needed_reads(world, twice) == 1


def test_what_was_read_and_asked_beyond_the_need_is_a_process_metric() -> None:
    task = made("reads")[0]
    (check,) = (check for check in task.checks if check.kind == "economy")
    plan = plan_of(task)
    wasted = [*plan, *([plan[0]] * 5)]

    def judged(calls: Any) -> Any:
        facts = play(opened(task), calls).facts()
        return asyncio.run(EconomyCheck().judge_world(WorldInput(task, check, facts, None))).verdict

    assert judged(wasted).kind == "process"
    assert judged(wasted).score < judged(plan).score
    assert statuses(task, play(opened(task), wasted).facts())["state"] == "pass"


def test_a_difficult_person_is_wrong_at_first_and_corrects_themselves() -> None:
    for task in made("person"):
        script = script_of(task)
        (wrong,) = (fact for fact in script.facts if fact.wrong)
        assert script.patience == 6
        state, first = begin(script)
        assert "Before you change anything" in first
        heard = ""
        for _ in range(30):
            state, said, _ = reply(script, state, f"Which {wrong.cues[0]} do you mean?")
            heard += said
            if wrong.name in state.told:
                break
        assert wrong.wrong in heard
        assert heard.index(wrong.wrong) < heard.index(wrong.text)


def test_who_makes_a_mistake_late_notices_it_at_the_next_message() -> None:
    script = script_of(made("person")[0])
    (wrong,) = (fact for fact in script.facts if fact.wrong)
    alone = msgspec.structs.replace(
        script, facts=(msgspec.structs.replace(wrong, disclosure="asked"),), mood="calm", patience=12
    )
    state, said = begin(alone)
    for message in ("Hello?", "Are you there?", f"Which {wrong.cues[0]} do you mean?"):
        state, said, _ = reply(alone, state, message)
    assert wrong.wrong in said
    assert wrong.text not in said
    state, said, _ = reply(alone, state, "I am at work.")
    assert f"Sorry, I got that wrong. {wrong.text}" in said


def test_a_precise_question_is_needed() -> None:
    options: dict[str, Any] = {"app": "bank", **PERSON, "writes": 2}
    (plain,), (precise,) = (ServiceTasks(**options, disclosure=how).tasks(1, 3) for how in ("asked", "precise"))
    vague = "Which details do you want to give me to identify and verify you?"
    told = [reply(script_of(task), begin(script_of(task))[0], vague)[0].told for task in (plain, precise)]
    assert told[0]
    assert not told[1]
    assert questions_needed(script_of(precise)) >= 1


def test_a_person_changes_their_mind_before_everything_was_asked() -> None:
    for task in made("changed"):
        script = script_of(task)
        (change,) = script.changes
        assert 1 <= change.turn <= max(1, questions_needed(script))
        assert change.text.startswith("Please do not")
        assert "wrap" not in task.environment.parameters
        assert change.text.split("Instead, ")[1].split(".")[0].lower() not in script.goal.lower()


def test_twins_share_their_requests_but_for_one() -> None:
    for name in ("ambiguous", "impossible", "forbidden"):
        pairs = [made(name)[:2], made(name)[2:]]
        assert [[task.metadata["twin"] for task in pair] for pair in pairs] == [[name, "plain"]] * 2
        assert len({task.metadata["twins"] for task in made(name)}) == 2
        for one, two in pairs:
            assert one.metadata["twins"] == two.metadata["twins"]
            assert one.environment.seed == two.environment.seed
            declines = [any(call.action == "decline_request" for call in plan_of(task)) for task in (one, two)]
            assert declines == [name != "ambiguous", False]


def test_an_ambiguous_twin_needs_a_question_and_the_plain_one_does_not() -> None:
    one, two = made("ambiguous")[:2]
    assert plan_of(one) == plan_of(two)
    assert one.checks[0] == two.checks[0]
    which = script_of(one).facts[0]
    assert which.text.startswith("I mean ")
    meant = which.text.removeprefix("I mean ").rstrip(".")
    assert meant not in begin(script_of(one))[1]
    assert meant in begin(script_of(two))[1]
    assert [task.metadata["needs"]["questions"] for task in (one, two)] == [1, 0]
    assert which.text in reply(script_of(one), begin(script_of(one))[0], f"Which {which.cues[0]} do you mean?")[1]


def test_the_person_must_hear_the_value_that_the_final_state_holds() -> None:
    for task in made("tell"):
        assert "tell me the" in script_of(task).goal
        silent = [call for call in plan_of(task) if not str(call.arguments.get("text", "")).startswith("It is done")]
        assert statuses(task, play(opened(task), silent).facts()) | {"communicated": "fail"} == statuses(
            task, play(opened(task), silent).facts()
        )
        (fact,) = next(check for check in task.checks if check.kind == "communicated").parameters["facts"]
        assert set(fact) == {"kind", "cell"}
        facts = play(opened(task), plan_of(task)).facts()
        (row,) = (row for row in facts["changes"] if row["table"] == fact["cell"]["table"])
        row["after"][fact["cell"]["column"]] = 987_654 if fact["kind"] == "number" else "2031-01-01"
        assert statuses(task, facts)["communicated"] == "fail"


def test_near_duplicates_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "NEAR", 0.3)
    family = ServiceTasks(app="shop", level="explicit", writes=1, distinct=True)
    found = family.make_set(10, 3)
    said = [similarity.word_triples(task) for task in found.tasks]
    assert found.dropped["near-duplicate"] > 0
    assert not any(similarity.is_near(one, said[:at]) for at, one in enumerate(said))
    all_of_them = ServiceTasks(app="shop", level="explicit", writes=1).tasks(12, 3)
    said = [similarity.word_triples(task) for task in all_of_them]
    assert any(similarity.is_near(one, said[:at]) for at, one in enumerate(said))


def test_options_of_generators_of_two_applications_are_given_on_the_command_line() -> None:
    tables = '{"console":{"bad_releases":2,"decoys":90},"mail":{"messages":12}}'
    for loaded in find_tasks([f"family:services,app=console+mail,knobs={tables},n=2"]):
        knobs = loaded.task.environment.parameters["knobs"]
        assert knobs["console"] == {"bad_releases": 2, "decoys": 90}
        assert knobs["mail"] == {"messages": 12}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moods": "calm"}, "did you mean mood"),
        ({"mood": "glad"}, "Invalid enum value 'glad'"),
        ({"mood": "upset", "level": "explicit"}, "need a person who can be asked"),
        ({"tell": True, "level": "persona", "user": "none"}, "need a person who can be asked"),
        ({"days": 2, "kind": "mixed"}, "days of the family 'services' needs kind=possible"),
        ({"days": 51}, "expected 0 to 50"),
        ({"twins": True}, "needs kind=ambiguous, impossible or forbidden"),
        ({"twins": True, "kind": "ambiguous"}, "needs level=persona"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ServiceTasks(app="shop", **options)
