"""A state machine with data: screens, variables, and transitions that ask, set, count and demand.

A machine is data of a task, not code: its names become columns and tools, so they are checked, and everything in it is
bounded. The rule of one step is a pure function, which the service and the search share, so that what the search finds
is what the site does.

A *code* is a text that one screen shows and a transition elsewhere asks for. Its value is drawn by the seed of the
world, so that a plan of another world does not fit: it has to be read.

A machine that was recovered from records knows less than the site that they are of. Steps whose results no record shows
lead to its screen `unrecorded`, which nothing leaves; an attempt that ends there is neither a pass nor a fail.
"""

from __future__ import annotations

import keyword
import math
import re
import sqlite3
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from assay.records import canonical_bytes

Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}\Z")]
Text = Annotated[str, Meta(min_length=1, max_length=500)]
Content = Annotated[str, Meta(min_length=1, max_length=20_000)]
Value = str | int

_TAKEN: Final = frozenset({"id", "screen", "tx", "code"})
"""Names that a variable cannot have, because columns and arguments of each machine have them."""


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that the site keeps: one of some texts, or a whole number from 0."""

    name: Name
    choices: Annotated[tuple[Text, ...], Meta(max_length=40)] = ()
    """Texts that it may have; empty for a number."""
    most: Annotated[int, Meta(ge=1, le=100)] = 1
    """Largest number."""
    begins: Value = 0
    """Value at the start; of texts, default: the first."""
    beyond: Literal["refused", "unrecorded"] = "refused"
    """Acts of a step that would give it another value than those: it is refused, or nothing is recorded of it."""

    @property
    def first(self) -> Value:
        """Value at the start."""
        return self.choices[0] if self.choices and self.begins == 0 else self.begins

    @property
    def domain(self) -> tuple[Value, ...]:
        """All values."""
        return self.choices or tuple(range(self.most + 1))


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A demand on a variable."""

    variable: Name
    equals: Value | None = None
    least: Annotated[int, Meta(ge=0, le=100)] | None = None
    """Smallest number that will do. A condition has either this or `equals`."""

    def holds(self, value: Value) -> bool:
        """Returns whether a value meets it."""
        if self.least is not None:
            return isinstance(value, int) and value >= self.least
        return value == self.equals


class Transition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step from one screen to another."""

    name: Name
    """Name of the action."""
    at: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=100)]
    """Screens on which it is offered."""
    to: Name
    about: Text
    """Description, which agents read."""
    skill: Name = "follow"
    """Kind of ability that it takes, by which losses are broken down."""
    asks: Annotated[tuple[Name, ...], Meta(max_length=4)] = ()
    """Variables that its arguments set."""
    sets: dict[Name, Value] = {}
    adds: dict[Name, Annotated[int, Meta(ge=-100, le=100)]] = {}
    needs: Annotated[tuple[Condition, ...], Meta(max_length=10)] = ()
    code: str = ""
    """Name of the code that must be given; empty without one."""
    title: Annotated[str, Meta(max_length=200)] = ""
    """Words of its form and button; default: those of its name."""
    leads: dict[Name, Name] = {}
    """Screens that it leads to from some of its screens, in place of `to`."""


class ScreenPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A screen."""

    name: Name
    title: Text
    text: Content
    """Each line is a paragraph."""
    shows: Annotated[tuple[Name, ...], Meta(max_length=40)] = ()
    """Variables and codes that it shows."""


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State in which a world begins: any state of the machine."""

    screen: str = ""
    """Default: the machine's first."""
    values: dict[str, Value] = {}
    """Values that differ from those of the machine."""


class State(NamedTuple):
    """Screen and values of a machine, in the order of its variables."""

    screen: str
    values: tuple[Value, ...]


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A state machine. `check` must have accepted it."""

    name: Annotated[str, Meta(pattern=r"^[a-z]{2,30}\Z")]
    summary: Text
    screens: Annotated[tuple[ScreenPlan, ...], Meta(min_length=1, max_length=100)]
    """The first one is the start."""
    transitions: Annotated[tuple[Transition, ...], Meta(min_length=1, max_length=500)]
    variables: Annotated[tuple[Variable, ...], Meta(max_length=20)] = ()
    codes: Annotated[tuple[Name, ...], Meta(max_length=5)] = ()
    unrecorded: str = ""
    """Screen of steps whose results are not known; empty for a machine that knows all of them."""

    @cached_property
    def by_variable(self) -> Mapping[str, Variable]:
        """The variables by name."""
        return {one.name: one for one in self.variables}

    @cached_property
    def by_screen(self) -> Mapping[str, ScreenPlan]:
        """The screens by name."""
        return {one.name: one for one in self.screens}

    @cached_property
    def by_transition(self) -> Mapping[str, Transition]:
        """The transitions by name."""
        return {one.name: one for one in self.transitions}

    @cached_property
    def leaving(self) -> Mapping[str, tuple[Transition, ...]]:
        """The transitions of each screen."""
        return {name: tuple(one for one in self.transitions if name in one.at) for name in self.by_screen}

    @cached_property
    def codes_on(self) -> Mapping[str, tuple[str, ...]]:
        """The codes that each screen shows."""
        return {one.name: tuple(name for name in one.shows if name in self.codes) for one in self.screens}

    @cached_property
    def tries(self) -> Mapping[str, int]:
        """Number of steps that are tried on each screen: a transition counts once for all values that it asks for."""
        return {name: sum(self._count_arguments(one) for one in steps) for name, steps in self.leaving.items()}

    @property
    def view(self) -> str:
        """Name of the view that shows the screen."""
        return f"look_at_{self.name}"

    def _count_arguments(self, transition: Transition) -> int:
        return math.prod(len(self.by_variable[name].domain) for name in transition.asks)

    @cached_property
    def known_steps(self) -> dict[State, Any]:
        """Steps by state, as the search found them."""
        return {}

    def begin(self, start: Start | None = None) -> State:
        """Returns the state in which a world begins. Raises `ValueError` for none of the machine."""
        start = Start() if start is None else start
        screen = start.screen or self.screens[0].name
        if screen not in self.by_screen:
            raise ValueError(f"the machine {self.name} has no screen {screen[:80]!r}")
        if unknown := sorted(start.values.keys() - self.by_variable.keys()):
            raise ValueError(f"the machine {self.name} has no variable {unknown[0][:80]!r}")
        values = tuple(start.values.get(one.name, one.first) for one in self.variables)
        for variable, value in zip(self.variables, values, strict=True):
            _require_value(variable, value, f"the machine {self.name}")
        return State(screen, values)

    def difference(self, before: State, after: State) -> dict[str, Value]:
        """Returns the values that another state has by variable, without those that are equal."""
        named = zip(self.variables, before.values, after.values, strict=True)
        return {variable.name: new for variable, old, new in named if old != new}

    def step(self, state: State, transition: Transition, given: Mapping[str, Value]) -> State | str:
        """Returns the state after a step, or why it is refused. The code is not looked at.

        Args:
            state: State before it.
            transition: The step.
            given: Values of the variables that it asks for.
        """
        if state.screen not in transition.at:
            titles = ", ".join(f"“{self.by_screen[name].title}”" for name in transition.at)
            return f"This is possible on other screens only: {titles}."
        to = transition.leads.get(state.screen, transition.to)
        if to == self.unrecorded:
            return State(to, state.values)
        values = dict(zip(self.by_variable, state.values, strict=True))
        for need in transition.needs:
            if not need.holds(values[need.variable]):
                wanted = f"at least {need.least}" if need.least is not None else f"“{need.equals}”"
                return f"This needs {need.variable.replace('_', ' ')} to be {wanted}."
        for name in transition.asks:
            values[name] = given[name]
        values |= transition.sets
        for name, amount in transition.adds.items():
            number = values[name]
            values[name] = number + amount if isinstance(number, int) else number
        for name, value in values.items():
            if value not in self.by_variable[name].domain:
                if self.by_variable[name].beyond == "unrecorded":
                    return State(self.unrecorded, state.values)
                return f"{name.replace('_', ' ').capitalize()} cannot be {value}."
        return State(to, tuple(values.values()))


def read_machine(given: Any) -> Machine:
    """Returns a machine from data; equal data give the same one. Raises `ValueError` that says what is wrong."""
    try:
        machine = given if isinstance(given, Machine) else msgspec.convert(given, Machine)
    except msgspec.ValidationError as exc:
        raise ValueError(f"a state machine: {exc}") from exc
    return _read(canonical_bytes(machine))


@lru_cache(maxsize=256)
def _read(data: bytes) -> Machine:
    machine = msgspec.json.decode(data, type=Machine)
    check(machine)
    return machine


def check(machine: Machine) -> None:
    """Checks that the parts of a machine fit together. Raises `ValueError`."""
    where = f"the machine {machine.name}"
    _require_once(where, "screens", (one.name for one in machine.screens))
    _require_once(where, "transitions", (one.name for one in machine.transitions))
    _require_once(where, "variables and codes", (*(one.name for one in machine.variables), *machine.codes))
    for name in (*machine.by_variable, *machine.codes):
        _require_column(where, name)
    if machine.name == "sqlite":
        raise ValueError(f"{where}: SQL keeps this name for itself")
    for variable in machine.variables:
        _require_once(where, f"choices of {variable.name}", variable.choices)
        _require_value(variable, variable.first, where)
        if unsendable := [one for one in variable.choices if not one.isprintable() or one != one.strip()]:
            raise ValueError(f"{where}: no form can send {unsendable[0]!r}, a choice of {variable.name}")
    shown = {*machine.by_variable, *machine.codes}
    for screen in machine.screens:
        _require_known(where, f"the screen {screen.name} shows", screen.shows, shown)
        _require_once(where, f"parts of the screen {screen.name}", screen.shows)
    _check_unrecorded(machine, where)
    for one in machine.transitions:
        _check_transition(machine, one, where)


def _check_unrecorded(machine: Machine, where: str) -> None:
    """Raises `ValueError` if a step leaves the screen of unknown results, or leads there and it is not named."""
    if not machine.unrecorded:
        if unbounded := [one.name for one in machine.variables if one.beyond == "unrecorded"]:
            raise ValueError(f"{where}: {unbounded[0]} may leave its values, and no screen is named `unrecorded`")
        return
    _require_known(where, "its `unrecorded` is", (machine.unrecorded,), machine.by_screen)
    if machine.leaving[machine.unrecorded]:
        raise ValueError(f"{where}: nothing may leave the screen {machine.unrecorded}, whose steps are not known")


def _check_transition(machine: Machine, one: Transition, where: str) -> None:
    about = f"the transition {one.name} names"
    if keyword.iskeyword(one.name) or one.name == machine.view:
        raise ValueError(f"{where}: no transition can be called {one.name!r}")
    _require_once(where, f"screens of {one.name}", one.at)
    _require_once(where, f"arguments of {one.name}", one.asks)
    _require_known(where, about, (*one.at, one.to, *one.leads.values()), machine.by_screen)
    _require_known(where, f"{about} among `leads`", one.leads, one.at)
    variables = (*one.asks, *one.sets, *one.adds, *(need.variable for need in one.needs))
    _require_known(where, about, variables, machine.by_variable)
    _require_known(where, about, (one.code,) if one.code else (), machine.codes)
    if one.code and not any(one.code in screen.shows for screen in machine.screens):
        raise ValueError(f"{where}: no screen shows the code {one.code}")
    for name, value in one.sets.items():
        _require_value(machine.by_variable[name], value, where)
    for name in one.adds:
        if machine.by_variable[name].choices:
            raise ValueError(f"{where}: {one.name} adds to {name}, which is not a number")
    for need in one.needs:
        variable = machine.by_variable[need.variable]
        if (need.equals is None) is (need.least is None) or (need.least is not None and variable.choices):
            raise ValueError(f"{where}: {one.name} needs {need.variable} to equal a value, or to be at least a number")
        _require_value(variable, need.least if need.equals is None else need.equals, where)


def _require_once(where: str, what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{where}: {name!r} is twice among its {what}")
        seen.add(name)


def _require_known(where: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in set(known)]:
        raise ValueError(f"{where}: {what} {unknown[0]!r}, which it does not have")


def _require_value(variable: Variable, value: Value | None, where: str) -> None:
    if isinstance(value, bool) or value not in variable.domain:
        raise ValueError(f"{where}: {variable.name} cannot be {value!r}")


def _require_column(where: str, name: str) -> None:
    """Raises `ValueError` for a name that cannot be a column and an argument; it consists of letters already."""
    connection = sqlite3.connect(":memory:")
    try:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in _TAKEN or keyword.iskeyword(name):
            raise ValueError(f"{where}: nothing in it can be called {name!r}")
        connection.execute(f"CREATE TABLE t ({name} TEXT)")
    except sqlite3.Error as exc:
        raise ValueError(f"{where}: nothing in it can be called {name!r}, which SQL uses") from exc
    finally:
        connection.close()
