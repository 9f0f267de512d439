"""Properties of every application: its generator, random walks, identifiers, descriptions, and contracts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

import pytest

from assay.environments.services.apps.airline import airline
from assay.environments.services.apps.bank import bank
from assay.environments.services.apps.console import console
from assay.environments.services.apps.mail import mail
from assay.environments.services.apps.shop import shop
from assay.environments.services.apps.tracker import tracker
from assay.environments.services.arguments import MOST_ARGUMENTS
from assay.environments.services.declaration import Service
from assay.environments.services.plans import random_call
from assay.environments.services.world import ServiceWorld
from tests.environments.services import test_airline, test_bank, test_console, test_mail, test_shop, test_tracker
from tests.environments.services.properties import (
    Calls,
    assert_descriptions,
    assert_goes_on_equally,
    broken_rules,
    initial_rows,
    rules,
    untakeable_kinds,
    walk,
)

Knobs = Mapping[str, int]


class Application(NamedTuple):
    """An application, and what its tests need to know of it."""

    service: Service
    digest: str
    """Digest of the initial rows of seed 7."""
    assert_invariants: Callable[[ServiceWorld], None]
    contracts: Sequence[tuple[str, Calls, Calls]]
    """Of every rule: its name, calls that keep it, and calls that break it and no other."""
    sizes: Sequence[Knobs]
    walked: Knobs = MappingProxyType({})
    """Knobs of the world that a random walk takes."""
    varied: Knobs = MappingProxyType({})
    """Knobs of a world with rows of every kind in every state."""
    told: Set[str] = frozenset()
    """Kinds of identifiers that people tell of themselves."""

    def open(self, seed: int, knobs: Knobs) -> ServiceWorld:
        return ServiceWorld.of([self.service], seed, {self.service.name: dict(knobs)})


APPLICATIONS = {
    application.service.name: application
    for application in [
        Application(
            airline,
            "blake3:025224d994d9f3e09ffb4abb0f4590b0817818d8a3e86563bd3c4df3e16c2dc1",
            test_airline.assert_invariants,
            test_airline.CONTRACTS,
            test_airline.SIZES,
            varied={"crowded": 100, "bookings": 150},
        ),
        Application(
            bank,
            "blake3:7e93a9d46d210c0ae1c5e8fb91cc4eb6009a1deb26b4935263793ce979f8eedd",
            test_bank.assert_invariants,
            test_bank.CONTRACTS,
            test_bank.SIZES,
            varied={"customers": 40, "lookalikes": 60},
            told={"email address", "date of birth"},
        ),
        Application(
            console,
            "blake3:6b244ba4a62a119f7379361528b54ffab1ecf87b4005be735e70bb169021f871",
            test_console.assert_invariants,
            test_console.CONTRACTS,
            test_console.SIZES,
            walked={"services": 6},
        ),
        Application(
            mail,
            "blake3:bf0c5c352dbabc197c8f0b2ea397fa951319d24e32434c43b0f0e4a9ff14d083",
            test_mail.assert_invariants,
            test_mail.CONTRACTS,
            test_mail.SIZES,
        ),
        Application(
            shop,
            "blake3:0f68717ace0ebccd6f88247af6b9931251c87f783a56b9f43c7558080fba3fe4",
            test_shop.assert_invariants,
            test_shop.CONTRACTS,
            test_shop.SIZES,
            varied={"orders": 150},
        ),
        Application(
            tracker,
            "blake3:93e3d294e44b33f0d3ae19b8c9c0e844380636761d9257bfcccf4e15865e58c5",
            test_tracker.assert_invariants,
            test_tracker.CONTRACTS,
            test_tracker.SIZES,
        ),
    ]
}
every_application = pytest.mark.parametrize("application", APPLICATIONS.values(), ids=APPLICATIONS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("application", "size"),
    [
        pytest.param(application, size, id=f"{name}-{at}")
        for name, application in APPLICATIONS.items()
        for at, size in enumerate(application.sizes)
    ],
)
def test_a_seed_decides_the_rows(application: Application, size: Knobs) -> None:
    world = application.open(5, size)
    application.assert_invariants(world)
    assert initial_rows(world) == initial_rows(application.open(5, size)) != initial_rows(application.open(6, size))


@every_application
def test_the_rows_of_a_seed_are_the_same_on_every_machine(application: Application) -> None:
    assert application.open(7, {}).database.image.digest == application.digest


@pytest.mark.parametrize("seed", range(3))
@every_application
def test_random_walk(application: Application, seed: int) -> None:
    world = application.open(seed, application.walked)
    assert len(walk(world, seed, 300)) > 20
    application.assert_invariants(world)
    assert_goes_on_equally(world, seed + 100, 30)
    application.assert_invariants(world)


@every_application
def test_views_give_every_kind_of_identifier_that_actions_take(application: Application) -> None:
    assert untakeable_kinds(application.service, application.told) == set()


@every_application
def test_descriptions(application: Application) -> None:
    assert_descriptions(application.open(3, application.varied), application.service)


@pytest.mark.parametrize(
    ("application", "rule", "good", "bad"),
    [
        pytest.param(application, rule, good, bad, id=f"{name}-{rule}")
        for name, application in APPLICATIONS.items()
        for rule, good, bad in application.contracts
    ],
)
def test_contracts(application: Application, rule: str, good: Calls, bad: Calls) -> None:
    assert broken_rules(application.service, good) == set()
    assert broken_rules(application.service, bad) == {rule}


@every_application
def test_contracts_name_actions_that_exist(application: Application) -> None:
    texts = application.service.policy.contracts
    quoted = {word for text in texts for word in text.split('"')[1::2] if "_" in word}
    assert quoted
    others = {"read_messages", "send_message", "wont_fix", "unaccompanied_minor"}  # of the conversation, and values
    assert quoted - others <= application.service.actions.keys()


@every_application
def test_every_rule_of_the_contracts_is_tested(application: Application) -> None:
    assert rules(application.service) == {rule for rule, _, _ in application.contracts}


HOSTILE: tuple[object, ...] = (
    "x'; DROP TABLE clock_time; --",
    '" OR 1=1; DELETE FROM clock_scheduled; --',
    "%' UNION SELECT sql FROM sqlite_master --",
    "\0",
    "\ud800",
    "x" * (MOST_ARGUMENTS + 1),
    -(2**63),
    2**70,
    float("nan"),
    [[[[["deep"]]]]],
    {"$new": "order"},
    None,
)


@every_application
def test_hostile_arguments_are_refused_or_stored_as_data(application: Application) -> None:
    """Each argument of each action takes hostile values; a refusal changes nothing, and no statement is injected."""
    world, draw = application.open(4, application.walked), random.Random(0)
    schema = world.database.connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    tried = refused = 0
    for action in application.service.actions.values():
        for number, name in enumerate(action.parameters["properties"]):
            for value in HOSTILE[number % 2 :: 2]:
                call = random_call(world, draw, lambda one, action=action: one is action)
                arguments = {**({} if call is None else call.arguments), name: value}
                before = world.database.digest()
                observation = world.act(action.name, arguments)
                tried += 1
                refused += observation.error
                assert not observation.error or world.database.digest() == before
    assert refused > tried // 3
    execute = world.database.connection.execute
    assert execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall() == schema
    assert execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert execute("PRAGMA foreign_key_check").fetchall() == []
