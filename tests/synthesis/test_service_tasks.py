"""Tasks from walks over the actions of services: what makes them sound, and that they can be done."""

from __future__ import annotations

import asyncio
import random
import re
from functools import cache
from itertools import permutations
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from assay.environments.services.declaration import Service
from assay.environments.services.plans import PlannedCall, play, play_recorded, random_call
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.users import UserScript, as_ticket, begin, reply
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task, VerdictStatus
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.instruction import USER_MODES
from assay.synthesis.services.policy_compliance import keep_policy
from assay.synthesis.services.walk import Walker
from assay.verify.interface import WorldInput
from assay.verify.logged_calls import trace_of_calls
from assay.verify.service_checks import rule_results
from assay.verify.state_check import StateCheck
from scripts.make_reference import ROOT

APP = "tracker"
clubs = Service("clubs", "Clubs of a town.")


@clubs.table()
class Club(msgspec.Struct, frozen=True):
    id: Annotated[str, identifier("club", "CLUB-")]
    name: str


@clubs.action(wish="found a club called {name}")
def found_club(tx: Transaction, name: Annotated[str, Meta(examples=["Chess"])]) -> Club:
    """Founds a club."""
    return tx.insert(Club(tx.new_id(Club), name))


lamps = Service("lamps", "Lamps.")


@lamps.table()
class Lamp(msgspec.Struct, frozen=True):
    id: Annotated[str, identifier("lamp", "LMP-")]
    place: str
    is_on: bool


@lamps.view()
def look(tx: Transaction) -> list[Lamp]:
    """Returns the lamps."""
    return tx.find(Lamp)


@lamps.action(wish="switch {lamp_id} on")
def switch_on(tx: Transaction, lamp_id: Annotated[str, identifier("lamp", "LMP-")]) -> Lamp:
    """Switches a lamp on."""
    lamp = tx.get(Lamp, lamp_id)
    tx.require(not lamp.is_on, "It is on.", "conflict")
    return tx.update(lamp, is_on=True)


@lamps.describe(Lamp)
def describe_lamp(_tx: Transaction, lamp: Lamp) -> str:
    return f"the lamp in the {lamp.place}"


@lamps.generator
def fill_lamps(make: Generator, _knobs: object) -> None:
    places = ("hall", "attic")
    dark = make.draw.choice((places[0], None))
    make.insert_all([Lamp(make.new_id(Lamp), place, place != dark) for place in places])


tanks = Service("tanks", "Tanks.")
TankId = Annotated[str, identifier("tank", "TNK-")]


@tanks.table()
class Tank(msgspec.Struct, frozen=True):
    id: TankId
    place: str
    litres: int
    inspections: int = 0
    coats: int = 0


@tanks.view()
def list_tanks(tx: Transaction) -> list[Tank]:
    """Returns the tanks."""
    return tx.find(Tank)


@tanks.action(wish="pour ten litres into {tank_id}")
def pour(tx: Transaction, tank_id: TankId) -> Tank:
    """Pours ten litres into a tank."""
    tank = tx.get(Tank, tank_id)
    return tx.update(tank, litres=tank.litres + 10)


@tanks.action(wish="double what is in {tank_id}")
def double(tx: Transaction, tank_id: TankId) -> Tank:
    """Doubles what is in a tank."""
    tank = tx.get(Tank, tank_id)
    return tx.update(tank, litres=tank.litres * 2)


@tanks.action(wish="inspect {tank_id}")
def inspect_tank(tx: Transaction, tank_id: TankId) -> Tank:
    """Inspects a tank."""
    tank = tx.get(Tank, tank_id)
    return tx.update(tank, inspections=tank.inspections + 1)


@tanks.action(wish="paint {tank_id}")
def paint(tx: Transaction, tank_id: TankId) -> Tank:
    """Paints a tank."""
    tank = tx.get(Tank, tank_id)
    return tx.update(tank, coats=tank.coats + 1)


@tanks.describe(Tank)
def describe_tank(_tx: Transaction, tank: Tank) -> str:
    return f"the tank in the {tank.place}"


@tanks.generator
def fill_tanks(make: Generator, _knobs: object) -> None:
    make.insert_all(
        [Tank(make.new_id(Tank), place, make.draw.randint(1, 9)) for place in ("hall", "attic", "barn", "yard")]
    )


TANKS = f"{__name__}:tanks"


@cache
def made() -> tuple[Task, ...]:
    return ServiceTasks(app=APP).tasks(9, 3)


def opened(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def plan_of(task: Task) -> tuple[PlannedCall, ...]:
    return msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])


def status(task: Task, world: ServiceWorld) -> VerdictStatus:
    given = WorldInput(task, task.checks[0], world.facts(), None)
    return asyncio.run(StateCheck().judge_world(given)).verdict.status


@pytest.mark.long
def test_same_seed_same_tasks_and_the_first_do_not_depend_on_the_number() -> None:
    assert ServiceTasks(app=APP).tasks(4, 3) == made()[:4]
    assert ServiceTasks(app=APP).tasks(2, 4) != made()[:2]


def test_levels_take_turns_and_ids_are_distinct() -> None:
    assert [task.tags[1] for task in made()[:4]] == ["explicit", "implicit", "persona", "explicit"]
    assert len({task.id for task in made()}) == len(made()) == 9


def test_the_plan_passes_and_nothing_and_the_reads_alone_fail() -> None:
    for task in made():
        world, plan = opened(task), plan_of(task)
        assert status(task, play(world, plan)) == "pass", task.id
        assert status(task, world) == "fail"
        actions = world.composition.actions
        reads = [call for call in plan if actions[call.action].reads_only]
        assert status(task, play(world, reads)) == "fail"


def test_the_plan_keeps_the_policy() -> None:
    for task in made():
        trace = trace_of_calls(play_recorded(opened(task), plan_of(task)))
        results = rule_results(task.checks[1].parameters["contracts"], trace, "the policy")
        assert [result.name for result in results if result.status != "pass"] == []


def test_reads_that_the_policy_demands_are_added() -> None:
    """Some plans break a contract as they are drawn, and keep it with a read more."""
    world = ServiceWorld({"services": [APP]}, 5)
    walker = Walker(world)
    walks = (walker.walk(2, random.Random(seed)) for seed in range(200))
    drawn = next(walk for walk in walks if walk and any(call.action == "close_sprint" for call in walk.writes))
    kept = keep_policy(world, drawn, world.policy.contracts)
    assert kept is not None
    assert kept.writes == drawn.writes
    assert [call.action for call in kept.plan if call not in drawn.plan] == ["get_sprint_report"]


def test_the_same_calls_in_another_world_do_not_pass() -> None:
    for task in made():
        elsewhere = ServiceWorld(task.environment.parameters, task.environment.seed + 1)
        assert status(task, play(elsewhere, plan_of(task))) == "fail"


def written(task: Task) -> list[PlannedCall]:
    actions = opened(task).composition.actions
    return [call for call in plan_of(task) if not actions[call.action].reads_only]


def is_ordered(task: Task) -> bool:
    """Returns whether a tank is filled and doubled, so that the order of the two matters."""
    tank = {call.action: call.arguments["tank_id"] for call in written(task)}
    return "pour" in tank and tank["pour"] == tank.get("double")


def test_each_order_of_the_writes_that_the_world_accepts_passes() -> None:
    tasks = ServiceTasks(app=TANKS, writes=3, level="explicit").tasks(12, 1)
    assert any(map(is_ordered, tasks))
    assert not all(map(is_ordered, tasks))
    for task in tasks:
        world = opened(task)
        assert {status(task, play(world, order)) for order in permutations(written(task))} == {"pass"}, task.id
        assert len(task.checks[0].parameters["outcomes"]) == 1 + is_ordered(task)


def test_more_writes_whose_order_matters_are_no_task() -> None:
    tasks = ServiceTasks(app=TANKS, writes=4, level="explicit").tasks(6, 1)
    assert len(tasks) == 6
    assert not any(map(is_ordered, tasks))


@pytest.mark.long
def test_requests_that_name_all_that_is_needed_are_no_tasks() -> None:
    """`Create a group called "Applications"` needs no look at the world: every seed has the same solution."""
    for task in ServiceTasks(app="mail").tasks(24, 0):
        world = ServiceWorld(task.environment.parameters, task.environment.seed)
        foreign = [PlannedCall(call.name, call.parsed or {}) for call in world.elsewhere()]
        assert foreign != list(plan_of(task))
        assert status(task, play(world, foreign)) == "fail"


def test_wrong_plans_and_shortcuts_fail() -> None:
    tried = 0
    for task in made()[:4]:
        world = opened(task)
        for calls in (*world.perturb(1).values(), *world.shortcuts(1).values(), *world.null().values()):
            plan = [PlannedCall(call.name, call.parsed or {}) for call in calls]
            assert status(task, play(world, plan)) == "fail", plan
            tried += 1
    assert tried > 25


def test_no_generated_identifier_is_in_the_text() -> None:
    for task in made():
        script = task.environment.parameters.get("knobs", {}).get("conversation", {})
        assert not re.search(r"\b[A-Z]{2,}-\d{6}\b", f"{task.instruction} {script}")


def test_texts_of_a_parameter_are_its_examples() -> None:
    walk = Walker(ServiceWorld.of([clubs])).walk(1, random.Random(0))
    assert walk is not None
    assert walk.writes == (PlannedCall("found_club", {"name": "Chess"}),)


def personas() -> list[tuple[Task, UserScript]]:
    return [
        (task, msgspec.convert(task.environment.parameters["knobs"]["conversation"]["script"], UserScript))
        for task in made()
        if task.tags[1] == "persona"
    ]


def test_a_person_tells_all_that_is_needed_when_asked_and_little_before() -> None:
    assert len(personas()) == 3
    for _, script in personas():
        state, first = begin(script)
        assert script.facts
        assert not any(fact.text in first for fact in script.facts)
        for fact in script.facts:
            state, _, _ = reply(script, state, f"Which {fact.cues[0]} do you mean?")
        assert set(state.told) == {fact.name for fact in script.facts}
        assert not state.left


def test_random_calls_never_break_a_world() -> None:
    world, draw = ServiceWorld({"services": [APP]}, 2), random.Random(0)
    for _ in range(200):
        call = random_call(world, draw)
        if call is not None:
            world.act(call.action, call.arguments)
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert any(call.code is None for call in world.calls)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"app": ""}, "name an application"),
        ({"app": APP, "level": "easy"}, "expected explicit, implicit, persona or mixed"),
        ({"app": APP, "writes": 99}, "expected 0 to 8"),
        ({"app": APP, "user": "robot"}, "expected rules, none, oracle"),
        ({"app": APP, "level": "explicit", "user": "oracle"}, "has no person; add level=persona"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], part: str) -> None:
    with pytest.raises(UserError, match=part):
        ServiceTasks(**options)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("changed", "no", "true or false"),
        ("changed", 1, "true or false"),
        ("writes", "x", "a whole number"),
        ("writes", True, "a whole number"),
        ("knobs", "x", "a table of tables"),
        ("knobs", {"tracker": 1}, "a table of tables"),
        ("kind", 5, "a text"),
    ],
)
def test_options_of_a_wrong_type_are_named(name: str, value: object, expected: str) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(UserError, match=f"{name}=.* of the family 'services': expected {expected}"):
        ServiceTasks(app=APP, **options)


@pytest.mark.parametrize(
    ("app", "part"),
    [
        ("json:loads", "is not a service"),
        ("tracker+tracker", "in the world twice"),
        ("workbench-email", "app=workbench-email of the family 'services': no action has a `wish`"),
        ("tau2-airline", "app=tau2-airline of the family 'services': no action has a `wish`"),
        ("tracker+tau2-airline", "app=tracker\\+tau2-airline of the family 'services': .*needs the knob `data`"),
        ("ticket", "no action has a `wish`"),
    ],
)
def test_wrong_applications_are_named(app: str, part: str) -> None:
    with pytest.raises(UserError, match=part):
        ServiceTasks(app=app).tasks(1, 0)


def modes(user: str) -> tuple[Task, ...]:
    return ServiceTasks(app=APP, level="persona", user=user).tasks(3, 3)


@pytest.mark.long
def test_the_person_does_not_change_what_is_wanted() -> None:
    plans = [[(task.environment.seed, plan_of(task), task.checks) for task in modes(user)] for user in USER_MODES]
    assert all(other == plans[0] for other in plans[1:])
    assert len({task.id for user in USER_MODES for task in modes(user)}) == 12


def test_an_oracle_tells_everything_in_the_first_message() -> None:
    for rules, oracle in zip(modes("rules"), modes("oracle"), strict=True):
        script, told = (task.environment.parameters["knobs"]["conversation"]["script"] for task in (rules, oracle))
        first = begin(msgspec.convert(told, UserScript))[1]
        assert first.startswith(script["goal"])
        assert script["facts"]
        assert all(fact["text"] in first for fact in script["facts"])


def test_without_a_person_the_instruction_holds_everything() -> None:
    for rules, ticket_only in zip(modes("rules"), modes("none"), strict=True):
        script = msgspec.convert(rules.environment.parameters["knobs"]["conversation"]["script"], UserScript)
        assert "conversation" not in ticket_only.environment.parameters["services"]
        assert as_ticket(script) in ticket_only.instruction
        assert all(fact.text in ticket_only.instruction for fact in script.facts)


@pytest.mark.long
def test_worlds_that_give_few_tasks_follow_each_other() -> None:
    """Half of the worlds have one lamp to be switched on, the others none."""
    tasks = ServiceTasks(app=f"{__name__}:lamps", level="explicit", writes=1).tasks(3, 3)
    assert len({task.environment.seed for task in tasks}) == len(tasks) == 3


@pytest.mark.parametrize("app", ["library", "garage", "clinic"])
def test_applications_of_the_recipe_give_sound_tasks(app: str) -> None:
    name = f"{ROOT / 'recipes' / 'small_services.py'}:{app}"
    tasks = ServiceTasks(app=name, level="explicit", writes=1).tasks(20, 3)
    assert len(tasks) == 20
    for task in tasks:
        assert status(task, play(opened(task), plan_of(task))) == "pass"
        assert status(task, opened(task)) == "fail"


def test_consent_is_judged_whoever_drives_the_person() -> None:
    rules, model = (ServiceTasks(app="bank", level="persona", user=user).tasks(4, 0) for user in ("rules", "model"))
    found = [[check.parameters.get("consents") for check in task.checks] for task in (*rules, *model)]
    assert found[:4] == found[4:]
    assert any(any(consents) for consents in found)
    assert [task.environment.parameters["plan"] for task in rules] == [
        task.environment.parameters["plan"] for task in model
    ]
