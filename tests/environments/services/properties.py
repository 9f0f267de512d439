"""Properties that hold for every application, and calls that say what they expect."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence, Set
from typing import Any, get_args

import msgspec

from assay.analysis.contracts import findings_of_contract, read_contract
from assay.environments.services.declaration import Action, Service
from assay.environments.services.transaction import Code, Transaction
from assay.environments.services.world import ServiceWorld
from assay.records import canonical_bytes
from tests.analysis.trajectories import acted, subject

postbox = Service("postbox", "Keeps what would be sent by mail.")


@postbox.table("letters")
class Letter(msgspec.Struct, frozen=True):
    """Mail that an application would send."""

    number: int
    sender: str
    recipient: str
    subject: str
    text: str


@postbox.subscribe("mail.deliver")
def keep_letter(tx: Transaction, sender: str, recipient: str, subject: str, text: str) -> None:
    """Keeps mail."""
    tx.insert(Letter(tx.count(Letter), sender, recipient, subject, text))


_IDENTIFIER = re.compile(r"[A-Z]{2,4}-\d{6}")
Calls = Sequence[tuple[str, dict[str, Any]]]


def call(world: ServiceWorld, name: str, /, **arguments: Any) -> Any:
    """Returns the result of a call that succeeds."""
    observation = world.act(name, arguments)
    assert not observation.error, observation.content
    return json.loads(observation.content) if name not in ("wait", "current_time") else observation.content


def refuse(world: ServiceWorld, name: str, /, **arguments: Any) -> str:
    """Returns the message of a call that is refused and changes nothing."""
    before = world.database.digest()
    observation = world.act(name, arguments)
    assert observation.error, observation.content
    assert world.database.digest() == before
    return observation.content


def changed_tables(world: ServiceWorld) -> set[str]:
    """Returns the judged tables whose rows differ from the initial ones."""
    return {change.table.partition("_")[2] for change in world.database.changes(judged_only=True)}


def rows(world: ServiceWorld, row: type[msgspec.Struct], **equal: Any) -> list[Any]:
    """Returns the rows of a class, read past the application."""
    table = world.composition.by_row[row]
    return Transaction(world, world.database.connection, table.service, "system", "").find(row, **equal)


def walk(world: ServiceWorld, seed: int, calls: int) -> dict[str, int]:
    """Calls actions with arguments from earlier results or from nowhere; returns how often each succeeded."""
    draw, known, succeeded = random.Random(seed), dict[str, list[str]](), dict[str, int]()
    actions = [a for a in world.composition.actions.values() if a.roles != ("system",)]
    for _ in range(calls):
        action = draw.choice(actions)
        arguments = {
            name: _argument(draw, schema, action.takes.get(name), known)
            for name, schema in action.parameters["properties"].items()
            if name in action.parameters["required"] or draw.random() < 0.3
        }
        if action.name == "wait":
            arguments = {"hours": draw.choice((1, 2, 8, 30))}
        observation = world.act(action.name, arguments, role=draw.choice(action.roles))
        if observation.error:
            assert re.match(rf"Error \(({'|'.join(get_args(Code))})\): .", observation.content), observation.content
            continue
        succeeded[action.name] = succeeded.get(action.name, 0) + 1
        for found in _IDENTIFIER.findall(observation.content):
            pool = known.setdefault(found[:-7], [])
            if found not in pool:
                pool.append(found)
    return succeeded


def accepted_actions(
    world: ServiceWorld,
    likely_call: Callable[[ServiceWorld, random.Random], tuple[str, dict[str, Any]]],
    seed: int,
    calls: int,
) -> set[str]:
    """Makes calls whose arguments belong together; returns the names of the actions that succeeded."""
    draw, accepted = random.Random(seed), set[str]()
    for _ in range(calls):
        name, arguments = likely_call(world, draw)
        if not world.act(name, arguments).error:
            accepted.add(name)
    return accepted


def _argument(draw: random.Random, schema: dict[str, Any], kind: str | None, known: dict[str, list[str]]) -> Any:
    if "anyOf" in schema:
        return _argument(draw, draw.choice(schema["anyOf"]), kind, known)
    if schema.get("type") == "null":
        return None
    if "enum" in schema:
        return draw.choice([*schema["enum"], "garbage"] if draw.random() < 0.05 else schema["enum"])
    if schema["type"] == "boolean":
        return draw.random() < 0.5
    if schema["type"] == "integer":
        low = schema.get("minimum", -5)
        return draw.randint(low, max(low, min(schema.get("maximum", 50), draw.choice((3, 50, 10**7)))))
    if kind is not None:
        prefix = re.search(r"such as ([A-Z]+)-", schema.get("description", ""))
        pool = known.get(prefix[1], []) if prefix else [v for values in known.values() for v in values]
        return draw.choice(pool) if pool and draw.random() < 0.95 else draw.choice(("", "XXX-1", "a' OR 1=1", "ü" * 9))
    if "d{4}" in schema.get("pattern", ""):
        day = f"2026-0{draw.randint(1, 4)}-{draw.randint(1, 31):02}"
        return f"{day}T{draw.randint(0, 25):02}:00" if "T" in schema["pattern"] else day
    return draw.choice(("", " ", "a", "e", "text in words", "12", "x" * 130))


def assert_goes_on_equally(world: ServiceWorld, seed: int, calls: int) -> None:
    """A fork and a restored world have the same digest, now and after equal calls."""
    fork, restored = world.fork(), world.fork()
    restored.restore(world.snapshot())
    assert fork.database.digest() == restored.database.digest() == world.database.digest()
    for other in (world, fork, restored):
        walk(other, seed, calls)
    assert fork.database.digest() == restored.database.digest() == world.database.digest()
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []


def initial_rows(world: ServiceWorld) -> bytes:
    """Returns all rows of a world as bytes."""
    return canonical_bytes([world.database.rows(table) for table in world.database.tables])


def untakeable_kinds(service: Service, known: Set[str] = frozenset()) -> set[str]:
    """Returns the kinds of identifiers that agent actions take although no chain of views gives them.

    Args:
        service: The application.
        known: Kinds of which people tell their own.
    """
    agent = [action for action in service.actions.values() if "agent" in action.roles]
    reached, pending = set(known), [action for action in agent if action.reads_only]
    while usable := [view for view in pending if _required_kinds(view) <= reached]:
        pending = [view for view in pending if view not in usable]
        reached |= {kind for view in usable for kind in view.gives}
    return {kind for action in agent for kind in action.takes.values()} - reached


def _required_kinds(action: Action) -> set[str]:
    return {action.takes[name] for name in action.parameters["required"] if name in action.takes}


def assert_descriptions(world: ServiceWorld, service: Service, most: int = 30) -> None:
    """Every kind of row that a wish names has a description, which is not empty and holds no identifier."""
    keyed = [table for table in service.tables.values() if len(table.key) == 1]
    tables = {table.columns[0].identifier: table for table in reversed(keyed)}
    wished = [action for action in service.actions.values() if action.wish]
    kinds = {kind for action in wished for name, kind in action.takes.items() if f"{{{name}}}" in action.wish}
    assert len(wished) >= 8
    for row in (tables[kind].row for kind in sorted(kinds & tables.keys())):
        transaction = Transaction(world, world.database.connection, service.name, "system", "")
        for found in transaction.find(row, limit=most):
            text = service.descriptions[row](transaction, found)
            assert text.strip()
            assert not _IDENTIFIER.search(text), text


def broken_rules(service: Service, calls: Calls) -> set[str]:
    """Returns the rules that the contracts of a service find broken in a log of successful calls."""
    steps = [acted(at, name, "{}", **arguments) for at, (name, arguments) in enumerate(calls)]
    contracts = [read_contract(text, "contract") for text in service.policy.contracts]
    return {found.rule.partition(".")[2] for c in contracts for found in findings_of_contract(c, subject(steps))}


def rules(service: Service) -> set[str]:
    """Returns the names of all rules in the contracts of a service."""
    return {clause.table.name for text in service.policy.contracts for clause in read_contract(text, "contract").rules}
