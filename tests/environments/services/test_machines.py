"""State machines as services: the rule of a step, the search, and the site that is compiled from both."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from assay.environments.services.machines.compile import CODE, compile_machine
from assay.environments.services.machines.machine import Machine, Start, State, read_machine
from assay.environments.services.machines.search import Reach, TooLarge, explore
from assay.environments.services.pages.site import Site
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.world import MOST_LOGGED, ServiceWorld
from assay.http.messages import RequestHead
from assay.records import canonical_bytes

DOOR: dict[str, Any] = {
    "name": "door",
    "summary": "A door with a lock.",
    "screens": [
        {"name": "hall", "title": "Hall", "text": "You stand before a door.", "shows": ["lamp", "coins"]},
        {"name": "porter", "title": "Porter", "text": "The porter knows the code.", "shows": ["pin"]},
        {"name": "inside", "title": "Inside", "text": "You are inside."},
    ],
    "transitions": [
        {"name": "visit_porter", "at": ["hall"], "to": "porter", "about": "Goes to the porter."},
        {"name": "back", "at": ["porter"], "to": "hall", "about": "Goes back."},
        {"name": "set_lamp", "at": ["hall"], "to": "hall", "about": "Sets the lamp.", "asks": ["lamp"]},
        {"name": "take_coin", "at": ["porter"], "to": "porter", "about": "Takes a coin.", "adds": {"coins": 1}},
        {
            "name": "enter", "at": ["hall"], "to": "inside", "about": "Enters.", "code": "pin", "skill": "look_up",
            "needs": [{"variable": "lamp", "equals": "on"}, {"variable": "coins", "least": 1}],
        },
    ],
    "variables": [{"name": "lamp", "choices": ["off", "on", "dim"]}, {"name": "coins", "most": 2}],
    "codes": ["pin"],
}  # fmt: skip


def changed(**parts: Any) -> dict[str, Any]:
    return {**DOOR, **parts}


def step(**parts: Any) -> dict[str, Any]:
    return dict(transitions=[{"name": "go", "at": ["hall"], "to": "hall", "about": "Goes.", **parts}])


def make_world(start: dict[str, Any] | None = None, seed: int = 5) -> ServiceWorld:
    knobs = {} if start is None else {"door": {"start": start}}
    return ServiceWorld({"machines": [DOOR], "knobs": knobs}, seed)


def code_of(world: ServiceWorld) -> str:
    return str(world.database.connection.execute("SELECT pin FROM door_codes").fetchone()[0])


def test_the_search_finds_a_shortest_way_and_counts_what_can_be_reached() -> None:
    reach = Reach(read_machine(DOOR))
    goal = State("inside", ("on", 1))
    way = reach.way_to(goal)
    assert way is not None
    assert [step.transition.name for step in way] == ["visit_porter", "take_coin", "back", "set_lamp", "enter"]
    # hall and porter with each of three lamps and three counts; inside with the lamp on and one coin or two
    assert len(reach.states) == 2 * 9 + 2
    assert reach.way_to(State("inside", ("off", 0))) is None
    assert reach.ways_back(goal)[reach.start][0] == 5


def test_each_state_that_can_be_reached_is_a_start_from_which_the_service_behaves_as_the_search_says() -> None:
    machine = read_machine(DOOR)
    for state in Reach(machine).states:
        start = Start(state.screen, machine.difference(machine.begin(), state))
        world = make_world(msgspec.to_builtins(start))
        code = code_of(world)
        known = {step.name for step in machine.leaving[state.screen]}
        for transition in machine.transitions:
            given = {name: machine.by_variable[name].domain[1] for name in transition.asks}
            expected = machine.step(state, transition, given)
            fork = world.fork()
            arguments = {**given, **({CODE: code} if transition.code else {})}
            refused = fork.act(transition.name, arguments).error
            assert refused is isinstance(expected, str)
            assert refused or transition.name in known
            row = fork.database.connection.execute("SELECT screen, lamp, coins FROM door_progress").fetchone()
            assert State(row[0], row[1:]) == (state if isinstance(expected, str) else expected)


def test_a_code_is_another_in_each_world_and_is_demanded() -> None:
    world, other = (
        make_world({"values": {"lamp": "on", "coins": 1}}),
        make_world({"values": {"lamp": "on", "coins": 1}}, 6),
    )
    code, foreign = code_of(world), code_of(other)
    assert code != foreign
    assert code not in world.act("look_at_door", {}).content
    assert "not the right pin" in world.act("enter", {CODE: foreign}).content
    world.act("visit_porter", {})
    assert code in world.act("look_at_door", {}).content
    world.act("back", {})
    assert not world.act("enter", {CODE: code}).error


def test_a_world_logs_too_few_calls_to_find_a_code_by_trying() -> None:
    code = code_of(make_world({}))
    most = MOST_LOGGED // len(canonical_bytes({CODE: code}))
    assert 9 * 10 ** (len(code.removeprefix("PIN-")) - 1) > 1_000 * most


def test_a_state_goes_into_no_world_of_another_machine() -> None:
    other = ServiceWorld({"machines": [changed(summary="Another door.")]}, 5)
    with pytest.raises(ValueError, match="and this world is"):
        other.restore(make_world().snapshot())


async def test_pages_are_the_screens_and_offer_what_is_possible_there() -> None:
    world = make_world({"screen": "hall"})
    site = Site(world, ServedTools(world))

    async def get(path: str) -> str:
        return (await site.answer(RequestHead("GET", path, {}))).body.decode()

    hall = await get("/door")
    assert "<h1>Hall</h1>" in hall
    assert hall.count("<form") == 3
    assert "Take coin" not in hall
    head = RequestHead("POST", "/door/visit_porter", {"content-type": "application/x-www-form-urlencoded"})
    site.theme = site.theme._replace(confirmation="none")
    moved = await site.answer(head, b"_form=1")
    assert (moved.status, moved.headers["Location"]) == (303, "/door")
    assert code_of(world) in await get("/door")
    assert [call.action for call in world.calls] == ["visit_porter"]  # to look at a page is no call
    ids = [part.split('"')[0] for part in (await get("/door")).split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_random_calls_keep_the_service_on_the_machine() -> None:
    machine, draw = read_machine(DOOR), random.Random(3)
    states = set(Reach(machine).states)
    world = make_world()
    for _ in range(200):
        step = draw.choice(machine.transitions)
        world.act(step.name, {name: draw.choice(machine.by_variable[name].domain) for name in step.asks})
        row = world.database.connection.execute("SELECT screen, lamp, coins FROM door_progress").fetchone()
        assert State(row[0], row[1:]) in states


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"name": "Door one"}, "name"),
        ({"variables": [{"name": "order"}]}, "which SQL uses"),
        ({"variables": [{"name": "class"}]}, "can be called 'class'"),
        ({"variables": [{"name": "id"}]}, "can be called 'id'"),
        ({"variables": [{"name": "x); DROP TABLE t; --"}]}, "name"),
        ({"variables": [{"name": "lamp", "choices": ["on"]}, {"name": "lamp"}]}, "twice"),
        ({"variables": [{"name": "lamp", "choices": ["off"], "begins": "on"}]}, "cannot be 'on'"),
        ({"codes": []}, "which it does not have"),
        (step(to="roof"), "'roof'"),
        (step(adds={"lamp": 1}), "not a number"),
        (step(sets={"coins": 9}), "cannot be 9"),
        (step(adds={"coins": 10**30}), "<= 100"),
        (step(name="look_at_door"), "can be called 'look_at_door'"),
        (step(asks=["lamp", "lamp"]), "twice among its arguments"),
        (step(needs=[{"variable": "lamp"}]), "needs lamp to equal a value"),
        (step(needs=[{"variable": "lamp", "least": 1}]), "needs lamp to equal a value"),
        (step(needs=[{"variable": "lamp", "equals": "of"}]), "cannot be 'of'"),
        (step(needs=[{"variable": "coins", "least": 3}]), "cannot be 3"),
        ({"variables": [{"name": "lamp", "choices": ["on", "off\n"]}]}, "no form can send"),
        ({"name": "sqlite"}, "SQL keeps this name"),
        ({"transitions": []}, "length"),
        ({"skin": 1}, "skin"),
    ],
)  # fmt: skip
def test_wrong_machines_are_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServiceWorld({"machines": [changed(**parts)]}, 0)


def test_wrong_starts_are_refused() -> None:
    for start, message in (
        ({"screen": "roof"}, "roof"),
        ({"values": {"x": 1}}, "'x'"),
        ({"values": {"coins": 5}}, "5"),
    ):
        with pytest.raises(ValueError, match=message):
            make_world(start)


def test_a_machine_that_is_too_large_to_search_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.environments.services.machines.search.MOST_NODES", 10)
    with pytest.raises(TooLarge, match="more than 10 nodes"):
        Reach(read_machine(DOOR))


def test_a_machine_of_few_nodes_with_too_many_steps_is_refused_before_they_are_tried() -> None:
    names = ["one", "two", "three", "four"]
    wide = changed(variables=[*DOOR["variables"], *({"name": name, "most": 100} for name in names)], **step(asks=names))
    with pytest.raises(TooLarge, match="steps to try"):
        Reach(read_machine(wide))


def test_the_states_that_no_code_leads_to_are_known() -> None:
    reach = Reach(read_machine(DOOR))
    assert reach.states.keys() - reach.unread_states == {State("inside", ("on", count)) for count in (1, 2)}
    assert not reach.unread_states - reach.states.keys()


def test_the_machine_of_a_world_cannot_be_called_another() -> None:
    with pytest.raises(ValueError, match="machine"):
        ServiceWorld({"machines": [DOOR], "knobs": {"door": {"machine": "blake3:0"}}}, 5)


def test_equal_machines_are_compiled_and_searched_once() -> None:
    assert compile_machine(DOOR) is compile_machine(msgspec.convert(DOOR, Machine))
    assert explore(read_machine(DOOR), Start()) is explore(read_machine(dict(DOOR)), Start())
