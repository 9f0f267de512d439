"""Views that a world reports among its facts, and the outcome of worlds that report."""

from __future__ import annotations

import pathlib

import pytest

from assay.environments.services.declaration import Service
from assay.environments.services.plans import outcome_key
from assay.environments.services.world import ServiceWorld
from assay.plugins import load

PROGRAM = '''
import msgspec
from assay.environments.services.declaration import Service
from assay.environments.services.transaction import Generator, Transaction

lamp = Service("lamp", "A lamp.")


@lamp.table()
class Lamp(msgspec.Struct, frozen=True):
    name: str
    is_on: bool
    turned: int


@lamp.generator
def fill(make: Generator, knobs: object) -> None:
    make.insert_all([Lamp("a", False, 0)])


@lamp.action()
def turn(tx: Transaction) -> str:
    """Turns the lamp on or off."""
    one = tx.get(Lamp, "a")
    tx.update(one, is_on=not one.is_on, turned=one.turned + 1)
    return "done"


@lamp.view(roles=("system",))
def is_on(tx: Transaction, name: str) -> bool:
    """Returns whether a lamp is on."""
    return tx.get(Lamp, name).is_on


@lamp.view(roles=("system",))
def state(tx: Transaction) -> str:
    """Returns a word."""
    return "on" if tx.get(Lamp, "a").is_on else "off"
'''


@pytest.fixture
def lamp(tmp_path: object) -> str:
    path = f"{tmp_path}/lamp.py"
    with pathlib.Path(path).open("w", encoding="utf-8") as stream:
        stream.write(PROGRAM)
    return f"{path}:lamp"


def test_reported_views_are_facts_of_the_final_state(lamp: str) -> None:
    reported = [
        {"action": "is_on", "arguments": {"name": "a"}},
        {"action": "is_on", "arguments": {"name": "b"}},
        {"action": "state"},
    ]
    world = ServiceWorld({"services": [lamp], "reported": reported}, 0)
    missing = {"error": "Error (not_found): There is no lamp 'b'."}
    assert world.facts()["reported"] == {'is_on {"name":"a"}': False, 'is_on {"name":"b"}': missing, "state {}": "off"}
    other = world.fork()
    other.act("turn", {})
    assert (other.facts()["reported"]["state {}"], world.facts()["reported"]["state {}"]) == ("on", "off")
    assert world.calls == []


def test_equal_reports_are_equal_outcomes(lamp: str) -> None:
    world = ServiceWorld({"services": [lamp], "reported": [{"action": "state"}]}, 0)
    thrice, once = world.fork(), world.fork()
    once.act("turn", {})
    for _ in range(3):
        thrice.act("turn", {})
    assert outcome_key(thrice) == outcome_key(once) != outcome_key(world)


@pytest.mark.parametrize("name", ["turn", "nothing", "current_time"])
def test_what_is_no_view_of_the_world_is_not_reported(lamp: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot report '{name}'"):
        ServiceWorld({"services": [lamp], "reported": [{"action": name}]}, 0)


def test_a_world_without_reports_has_no_such_fact(lamp: str) -> None:
    service: Service = load("services", lamp)
    assert "reported" not in ServiceWorld.of([service]).facts()
