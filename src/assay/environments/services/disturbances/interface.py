"""Base of disturbances: a layer between the agent and a world of services.

A layer sees each call on its way in and each answer on its way out. Everything random is drawn from the seeds and the
number of the call, so that the same calls meet the same disturbances. A larger rate disturbs at least the calls that a
smaller one does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from assay.environments.interface import ToolSpec
from assay.environments.services.plans import PlannedCall
from assay.environments.services.transaction import Code
from assay.environments.services.world import ServiceWorld


class Answer(NamedTuple):
    """Answer to a caller."""

    text: str
    code: Code | None = None
    """Kind of refusal; None if the call succeeded."""
    cause: str = ""
    """Kind of the disturbance that withheld the result; empty if none did."""
    cursor: str = ""
    """Cursor of the next page; empty without one."""


class Call(NamedTuple):
    """A call on its way to the service."""

    number: int
    """From 1, counted where the agent calls."""
    name: str
    arguments: dict[str, Any]


Inner = Callable[[Call], Answer]
"""The layers further inside, and the service."""


Path = tuple[str | int, ...]
"""Names and numbers that lead to a value in a result."""


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields path and value of the numbers, truth values and texts of a result."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from leaves(inner, (*path, at))
    elif value is not None:
        yield path, value


class DisturbanceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of every disturbance."""

    rate: float = 0.1
    """Dose, from 0 for never to 1 for always; what it is the share of depends on the kind."""
    seed: int = 0
    """Draws other disturbances for the same world and calls."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a rate that is not a share."""
        if not 0 <= self.rate <= 1:
            raise ValueError(f"rate is {self.rate}: expected a share from 0 to 1")


class Disturbance:
    """A layer that changes nothing.

    Attributes:
        kind: Name in specifications.
        options: Its options.
        world: The service; it is in the state of now.
        state: The layer's own state as JSON data; each subclass says what it holds.
    """

    kind: ClassVar[str]
    Options: ClassVar[type[DisturbanceOptions]] = DisturbanceOptions

    def __init__(self, options: Any, world: ServiceWorld) -> None:
        self.options = options
        self.world = world
        self.state: dict[str, Any] = {}

    def prepare(self) -> None:
        """Computes what depends on the plan and on the initial state, in which the world is now; forks share it."""

    def bind(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """Takes the tools further inside and returns those that are offered outside."""
        return specs

    def address(self, outward: Callable[[PlannedCall], PlannedCall]) -> None:
        """Takes what turns a call of the service's into one by the names that the agent sees at first."""

    def call(self, call: Call, inner: Inner) -> Answer:
        """Answers a call."""
        return inner(call)

    def outward(self, call: PlannedCall, number: int) -> PlannedCall:
        """Returns a call as a caller outside has to make it as the call of this number."""
        return call

    def outward_text(self, text: str) -> str:
        """Returns a text of the service's, such as its policy, with the names of tools that a caller outside sees."""
        return text

    def rewrite(self, text: str) -> str:
        """Returns a text of a person's, such as a request, as the agent reads it."""
        return text

    def facts(self) -> dict[str, Any]:
        """Returns what it did, as plain JSON data."""
        return {}

    def rebind(self, world: ServiceWorld) -> None:
        """Goes on with a fork of the service."""
        self.world = world

    def dump(self) -> dict[str, Any]:
        """Returns its state as JSON data."""
        return self.state

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes a dumped state. Raises `ValueError` for anything else."""
        self.state = dict(state)

    def draw(self, number: int) -> random.Random:
        """Returns the source of randomness of a call."""
        return self.draw_for(str(number))

    def draw_for(self, word: str) -> random.Random:
        """Returns a source of randomness that depends on a word alone."""
        return random.Random(f"{self.kind}/{self.options.seed}/{self.world.seed}/{word}")

    def is_write(self, name: str) -> bool:
        """Returns whether a name is that of an action that may write."""
        action = self.world.composition.actions.get(name)
        return action is not None and not action.reads_only
