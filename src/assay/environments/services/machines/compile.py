"""Compiles a state machine to a service: a table of one row, an action a transition, and a view of the screen.

The pages of the service are the screens: what a screen shows, and the forms of the transitions that leave it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from assay.environments.services.database import Database
from assay.environments.services.declaration import Scene, Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.records import canonical_bytes, digest_record

from .machine import Machine, Start, State, Transition, Value, Variable, read_machine

CODE: Final = "code"
"""Argument in which a code is given."""
_CODES: Final = range(10**8, 10**9)
"""Numbers of codes: a thousand times as many as an agent can try, because a world logs only so many calls."""
_ROW: Final = 1
"""Key of the one row of each table."""
UNRECORDED: Final = "unrecorded"
"""Name of the fact, in the summary of a machine's state, that its last step led to its screen `unrecorded`."""


def compile_machine(given: Any) -> Service:
    """Returns the service of a machine, given as such or as data; equal machines have the same service.

    Raises:
        ValueError: It is no machine.
    """
    return _compiled(canonical_bytes(read_machine(given)))


@lru_cache(maxsize=256)
def _compiled(data: bytes) -> Service:
    machine = read_machine(msgspec.json.decode(data, type=Machine))
    digest = digest_record(machine)
    only: Any = Literal[digest]
    knobs = msgspec.defstruct(
        "MachineKnobs",
        [("start", Start, Start()), ("machine", only, digest)],  # so that a state names the machine it is of
        frozen=True,
        forbid_unknown_fields=True,
    )
    service = Service(machine.name, machine.summary, knobs=knobs)
    rows = _Rows(service, machine)
    for transition in machine.transitions:
        service.action(title=transition.title)(_action(rows, transition))
    _add_view(service, rows)
    if machine.unrecorded:
        service.summary_of_state(rows.summarize)

    def fill(new: Generator, knobs: Any) -> None:
        rows.fill(new, machine.begin(knobs.start))

    service.generator(fill)
    return service


def read_codes(database: Database, machine: Machine) -> dict[str, str]:
    """Returns the codes of a machine in a world, by name."""
    if not machine.codes:
        return {}
    row = database.connection.execute(f"SELECT {', '.join(machine.codes)} FROM {machine.name}_codes").fetchone()
    return dict(zip(machine.codes, row, strict=True))


class _Rows:
    """The tables of a machine: where it is, and its codes."""

    def __init__(self, service: Service, machine: Machine) -> None:
        self.machine = machine
        screens: Any = Literal[tuple(one.name for one in machine.screens)]
        fields: list[Any] = [("id", int), ("screen", screens), *((one.name, _type(one)) for one in machine.variables)]
        self.progress: type[msgspec.Struct] = msgspec.defstruct("Progress", fields, frozen=True)
        service.table("progress")(self.progress)
        self.codes: type[msgspec.Struct] | None = None
        if machine.codes:
            own = [(name, Annotated[str, identifier(_kind(machine, name), _prefix(name))]) for name in machine.codes]
            self.codes = msgspec.defstruct("Codes", [("id", int), *own], frozen=True)
            service.table("codes")(self.codes)

    def fill(self, new: Generator, state: State) -> None:
        """Fills the tables of a new world."""
        new.insert(self.progress(_ROW, state.screen, *state.values))
        if self.codes is not None:
            numbers = new.draw.sample(_CODES, len(self.machine.codes))
            given = (f"{_prefix(name)}{number}" for name, number in zip(self.machine.codes, numbers, strict=True))
            new.insert(self.codes(_ROW, *given))

    def state(self, tx: Transaction) -> State:
        """Returns the state of the machine."""
        row = tx.get(self.progress, _ROW)
        values = (getattr(row, one.name) for one in self.machine.variables)
        return State(row.screen, tuple(values))  # type: ignore[attr-defined]  # a field of each such row

    def code(self, tx: Transaction, name: str) -> str:
        """Returns the value of a code."""
        assert self.codes is not None, "a machine that asks for a code declares it"
        return str(getattr(tx.get(self.codes, _ROW), name))

    def move(self, tx: Transaction, transition: Transition, given: dict[str, Any]) -> None:
        """Makes a step. Raises `ActionError` where it is refused."""
        state = self.state(tx)
        code = given.pop(CODE, "")
        found = self.machine.step(state, transition, given)
        if isinstance(found, str):
            tx.refuse(found, "conflict")
        right = not transition.code or code.strip() == self.code(tx, transition.code)
        tx.require(right, f"This is not the right {_words(transition.code)}.", "invalid")
        changes: dict[str, Value] = self.machine.difference(state, found)
        if found.screen != state.screen:
            changes["screen"] = found.screen
        if changes:
            tx.update(tx.get(self.progress, _ROW), **changes)

    def summarize(self, tx: Transaction) -> dict[str, bool]:
        """Returns whether the last step is one whose result is not known."""
        return {UNRECORDED: self.state(tx).screen == self.machine.unrecorded}

    def scene(self, tx: Transaction) -> Scene:
        """Returns what the screen shows and offers."""
        state = self.state(tx)
        screen = self.machine.by_screen[state.screen]
        values = dict(zip(self.machine.by_variable, state.values, strict=True))
        shown = {
            _words(name).capitalize(): str(values[name]) if name in values else self.code(tx, name)
            for name in screen.shows
        }
        return Scene(screen.title, screen.text, shown, tuple(one.name for one in self.machine.leaving[screen.name]))


def _add_view(service: Service, rows: _Rows) -> None:
    def look(tx: Transaction) -> Scene:
        return rows.scene(tx)

    look.__name__ = rows.machine.view
    look.__doc__ = f"Shows the current screen of {rows.machine.name} and the actions that are possible there."
    look.__annotations__ = {"tx": Transaction, "return": Scene}
    service.view()(look)
    service.scene = rows.scene


def _action(rows: _Rows, transition: Transition) -> Callable[..., Scene]:
    """Returns the function of a transition, whose parameters are what it asks for."""

    def move(tx: Transaction, **given: Any) -> Scene:
        rows.move(tx, transition, given)
        return rows.scene(tx)

    types = dict(_parameters(rows.machine, transition))
    parameters = [inspect.Parameter("tx", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in types]
    move.__name__ = transition.name
    move.__doc__ = transition.about
    move.__annotations__ = {"tx": Transaction, **types, "return": Scene}
    move.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by `inspect.signature`
    return move


def _parameters(machine: Machine, transition: Transition) -> Iterator[tuple[str, Any]]:
    for name in transition.asks:
        yield name, _type(machine.by_variable[name])
    if transition.code:
        about = f"The {_words(transition.code)}, as another screen shows it"
        yield CODE, Annotated[str, Meta(description=about, min_length=1, max_length=40)]


def _type(variable: Variable) -> Any:
    if variable.choices:
        return Literal[variable.choices]
    return Annotated[int, Meta(ge=0, le=variable.most)]


def _kind(machine: Machine, code: str) -> str:
    return f"{_words(code)} of {machine.name}"


def _prefix(code: str) -> str:
    return f"{code.upper().replace('_', '-')}-"


def _words(name: str) -> str:
    return name.replace("_", " ")
