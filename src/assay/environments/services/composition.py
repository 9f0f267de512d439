"""Services that share a database and a clock, and the initial states that their generators make."""

from __future__ import annotations

import random
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from string import digits
from typing import Any, Final

import msgspec
from blake3 import blake3

from assay.records import canonical_bytes

from .clock import START, clock
from .database import Image, NewImage
from .declaration import Action, Service
from .files import FILE, files
from .schema import Table
from .transaction import Generator

_MOST_IMAGES: Final = 256 << 20
"""Bytes of images held for other worlds of this process."""


class Composition:
    """Services that share a database and a clock; `compose` makes it.

    Attributes:
        applications: The services without the clock.
        services: The clock, and the applications.
    """

    def __init__(self, applications: Sequence[Service]) -> None:
        self.applications = tuple(applications)
        services = self.services = (clock, *applications)
        self.tables: tuple[Table, ...] = tuple(table for service in services for table in service.tables.values())
        self.by_row: dict[type[msgspec.Struct], Table] = {table.row: table for table in self.tables}
        self.actions: dict[str, Action] = {}
        self._events = {service.name: service.events for service in services}
        for service in services:
            for name, action in service.actions.items():
                other = self.actions.setdefault(name, action)
                if other is not action:
                    raise ValueError(
                        f"The services {other.service!r} and {service.name!r} both have an action {name!r}: "
                        "actions of one world have different names"
                    )

    @cached_property
    def consented(self) -> frozenset[str]:
        """Names of the actions that need the consent of a person who can be asked."""
        found = (one.action for service in self.services for one in service.policy.consents)
        return frozenset(found) & self.actions.keys()

    @cached_property
    def prefixes(self) -> Mapping[str, str]:
        """Prefix of each kind of identifier that the world generates; kinds that people know by heart are absent."""
        columns = (column for table in self.tables for column in table.columns)
        return {column.identifier: column.prefix for column in columns if column.prefix and column.identifier}

    def generated_kind(self, value: object) -> str | None:
        """Returns the kind of a generated identifier; None for any other value."""
        start = value.rstrip(digits) if isinstance(value, str) else ""
        return next((kind for kind, prefix in self.prefixes.items() if prefix == start), None)

    def subscribers(self, topic: str) -> Iterable[Action]:
        """Returns the handlers of a topic."""
        return [action for service in self.services for action in service.subscriptions.get(topic, ())]

    def event(self, service: str, name: str) -> Action:
        """Returns an event. Raises `KeyError`."""
        return self._events[service][name]

    def image(self, seed: int, knobs: Mapping[str, Mapping[str, Any]]) -> tuple[str, Image]:
        """Returns the world's identity and its initial state, which is held for the next world.

        Raises:
            ValueError: A knob is invalid, or the generator made rows that break a constraint.
        """
        known = {service.name for service in self.services}
        if unknown := sorted(set(knobs) - known):
            raise ValueError(f"Knobs for {unknown[0]!r}, not a service of this world; it has {', '.join(known)}")
        read = {service.name: service.read_knobs(knobs.get(service.name, {})) for service in self.services}
        identity = canonical_bytes([[service.name for service in self.services], read, seed]).decode()
        held = _IMAGES.get((self.services, identity))
        if held is None:
            held = self._generate(seed, read)
            _IMAGES.put((self.services, identity), held)
        return identity, held

    def _generate(self, seed: int, knobs: Mapping[str, msgspec.Struct]) -> Image:
        new = NewImage(self.tables)
        access = _NewWorld(self, new.connection)
        new.connection.execute("INSERT INTO clock_time VALUES (1, ?)", (START,))
        try:
            for service in self.services:
                words = blake3(f"{service.name}/{seed}".encode()).digest()
                draw = random.Random(int.from_bytes(words, "big"))
                for fill in service.generators:
                    fill(Generator(access, new.connection, service.name, draw), knobs[service.name])
            return new.finish()
        except sqlite3.IntegrityError as exc:
            raise ValueError(f"The generated rows break a constraint: {exc}") from exc
        finally:
            new.close()


class _NewWorld:
    """`WorldAccess` of generators."""

    def __init__(self, composition: Composition, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.tables = composition.by_row
        self.now = START

    def schedule(self, at: str, service: str, name: str, payload: dict[str, Any]) -> None:
        add_event(self._connection, at, service, name, payload)

    def publish(self, topic: str, payload: dict[str, Any]) -> None:
        raise TypeError("A generator publishes nothing: insert the rows")

    def advance(self, until: str) -> None:
        raise TypeError("A generator cannot advance the clock: schedule events")

    def call_as_user(self, name: str, arguments: dict[str, Any]) -> Any:
        raise TypeError("A generator calls no action: insert the rows")


class _ImageCache:
    """The images used last, bounded in bytes."""

    def __init__(self) -> None:
        self._images: OrderedDict[Any, Image] = OrderedDict()
        self._bytes = 0

    def get(self, key: Any) -> Image | None:
        found = self._images.get(key)
        if found is not None:
            self._images.move_to_end(key)
        return found

    def put(self, key: Any, image: Image) -> None:
        self._images[key] = image
        self._bytes += len(image.data)
        while self._bytes > _MOST_IMAGES and len(self._images) > 1:
            self._bytes -= len(self._images.popitem(last=False)[1].data)


_IMAGES: Final = _ImageCache()


def compose(services: Sequence[Service]) -> Composition:
    """Puts services together over the clock. Raises `ValueError` for names that occur twice, and other objects."""
    if not services:
        raise ValueError("A world needs a service")
    loaded: Sequence[object] = services  # what a name led to can be anything
    if others := [service for service in loaded if not isinstance(service, Service)]:
        raise ValueError(f"A {type(others[0]).__name__} is not a service: name a `Service`, as in path/file.py:shop")
    names = [service.name for service in services]
    if twice := [name for name in names if names.count(name) > 1 or name == clock.name]:
        raise ValueError(f"The service {twice[0]!r} is in the world twice")
    key = tuple(services)
    found = _COMPOSITIONS.get(key)
    if found is None:
        found = _COMPOSITIONS[key] = Composition(_with_files(services))
        if len(_COMPOSITIONS) > _MOST_COMPOSITIONS:  # of state machines there are as many as tasks
            del _COMPOSITIONS[next(iter(_COMPOSITIONS))]
    return found


def _with_files(services: Sequence[Service]) -> Sequence[Service]:
    """Returns the services with that of files behind the last one whose actions take files. Raises `ValueError` for a
    service that stands before another one which it needs, or without it."""
    for at, service in enumerate(services):
        before = {other.name for other in services[:at]}
        if missing := [name for name in service.needs if name not in before]:
            raise ValueError(f"The service {service.name!r} needs {missing[0]!r} before it in the list of services")
    takers = [at for at, one in enumerate(services) if any(FILE in a.takes.values() for a in one.actions.values())]
    if not takers or files in services:
        return services
    return [*services[: takers[-1] + 1], files, *services[takers[-1] + 1 :]]


_COMPOSITIONS: Final[dict[tuple[Service, ...], Composition]] = {}
_MOST_COMPOSITIONS: Final = 256


def add_event(connection: sqlite3.Connection, at: str, service: str, name: str, payload: Mapping[str, Any]) -> None:
    """Adds an event to the clock."""
    number = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM clock_scheduled").fetchone()[0]
    values = (number, at, service, name, canonical_bytes(dict(payload)).decode())
    connection.execute("INSERT INTO clock_scheduled VALUES (?, ?, ?, ?, ?)", values)
