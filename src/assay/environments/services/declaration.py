"""Declaration of a service: tables, actions, views, events, generator and policy, in one Python file.

    shop = Service("shop", "An online shop.", knobs=ShopKnobs, policy=Policy(TEXT, CONTRACTS))

    OrderId = Annotated[str, identifier("order", "ORD-")]

    @shop.table()
    class Order(msgspec.Struct, frozen=True):
        id: OrderId
        status: Literal["pending", "cancelled"]

    @shop.action()
    def cancel_order(tx: Transaction, order_id: OrderId) -> Order:
        \"\"\"Cancels a pending order.\"\"\"
        order = tx.get(Order, order_id)
        tx.require(order.status == "pending", f"Order {order_id} is {order.status}.")
        return tx.update(order, status="cancelled")

Types and docstring give the schema of the tool, the page's form and the command's help. A declaration is checked when
it is made; what is wrong raises `TypeError` with the name of the function.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from string import Formatter
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.schemas import flat_schema
from assay.errors import EnvironmentFailure, boundary

from .schema import IDENTIFIER, UNIT, Table, alternatives, format_cents, metadata, read_table
from .transaction import Generator, Transaction

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

Role = Literal["agent", "user", "system"]
"""Who may call an action: the agent under test, the person it serves, or the world itself."""

Caller = Literal["agent", "user", "system", "other"]
"""Who called, in the log: a role, or another user of the application, who may do what the agent may."""

AGENT: tuple[Role, ...] = ("agent",)


class Consent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An action that needs the person's yes before, where the agent is in a conversation with them."""

    action: str
    amounts: tuple[str, ...] = ()
    """Arguments in cents that the agent must have said before the yes: 39.90."""
    words: tuple[str, ...] = ()
    """Words of which the agent must have said one before the yes; empty for none."""


class Policy(msgspec.Struct, frozen=True):
    """Rules that the agent is given as text."""

    text: str = ""
    contracts: tuple[str, ...] = ()
    """The rules that can be checked over the log of calls, each a contract in TOML (see `assay.analysis.contracts`)."""
    consents: tuple[Consent, ...] = ()


class Scene(msgspec.Struct, frozen=True):
    """The screen of a service that has one at a time: its page shows it, and offers what is possible there."""

    title: str
    text: str
    shows: dict[str, str]
    """Values by what they are called."""
    offers: tuple[str, ...]
    """Names of the actions that are possible."""


class NoKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Knobs of a service that has none."""


class Action(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A typed function on the state of a service."""

    service: str
    name: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    description: str
    roles: tuple[Role, ...] = AGENT
    reads_only: bool = False
    wish: str = ""
    """Request for it in a person's words, with `{argument}` for each argument; empty if people do not ask for it."""
    title: str = ""
    """Words of its page and button; empty for those of its name."""

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return flat_schema(self.arguments)

    @cached_property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)

    @cached_property
    def takes(self) -> dict[str, str]:
        """Kind of identifier that each argument takes; arguments of other kinds are absent."""
        return self._facts(IDENTIFIER)

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each argument that has one: `cents`, `time` or `date`."""
        return self._facts(UNIT)

    def _facts(self, name: str) -> dict[str, str]:
        hints = typing.get_type_hints(self.arguments, include_extras=True)
        facts = {field: metadata(hint).get(name) for field, hint in hints.items()}
        return {field: fact for field, fact in facts.items() if fact}

    @cached_property
    def returns_text(self) -> bool:
        """True if its result is a text, which agents read as it is; other results are JSON."""
        return typing.get_type_hints(self.function).get("return") is str

    @cached_property
    def gives(self) -> frozenset[str]:
        """Kinds of identifiers that its result holds."""
        found: set[str] = set()
        _collect_kinds(typing.get_type_hints(self.function, include_extras=True).get("return"), found, set())
        return frozenset(found)


class Question(msgspec.Struct, frozen=True, eq=False):
    """Something that people ask, whose answer is computed from what a view returns."""

    name: str
    view: Action
    wish: str
    """Request in the imperative, with `{argument}` for each argument of the view."""
    function: Callable[[Any], Any]
    """Returns the answer from the view's result; None or an empty list without one."""
    cells: tuple[str, ...]
    """Unit of each cell of a row of the answer: `number`, `cents`, `text`, `date` or `time`."""
    is_list: bool
    """True for a list, whose order is not asked for."""

    def answer(self, shown: str) -> list[list[str]]:
        """Returns the rows of the answer, as people write them, from the view's result as JSON; empty without one."""
        result = typing.get_type_hints(self.view.function, include_extras=True)["return"]
        found = self.function(msgspec.json.decode(shown, type=result))
        rows = [] if found is None else found if self.is_list else [found]
        if len(self.cells) == 1:
            rows = [(row,) for row in rows]
        return [[_write_cell(unit, cell) for unit, cell in zip(self.cells, row, strict=True)] for row in rows]


class Service:
    """A stateful application.

    Args:
        name: Prefix of its tables; lower-case letters.
        summary: One sentence for people and agents.
        knobs: Struct of the generator's options; each has a default.
        policy: Rules for the agent.
        needs: Names of services whose tables it uses, which stand before it in a world.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        knobs: type[msgspec.Struct] = NoKnobs,
        policy: Policy | None = None,
        needs: Sequence[str] = (),
    ) -> None:
        if not name.isidentifier() or name != name.lower() or "_" in name:
            raise TypeError(f"Service {name!r}: a name is one lower-case word")
        self.name = name
        self.summary = summary
        self.knobs = knobs
        self.policy = Policy() if policy is None else policy
        self.needs = tuple(needs)
        self.tables: dict[type[msgspec.Struct], Table] = {}
        self.actions: dict[str, Action] = {}
        self.events: dict[str, Action] = {}
        self.subscriptions: dict[str, list[Action]] = {}
        self.generators: list[Callable[[Generator, Any], None]] = []
        self.descriptions: dict[type[msgspec.Struct], Callable[[Transaction, Any], str]] = {}
        self.nouns: dict[type[msgspec.Struct], str] = {}
        self.questions: list[Question] = []
        self.summarize: Callable[[Transaction], Any] | None = None
        """Returns what the facts of the final state say of this service beside its changes."""
        self.scene: Callable[[Transaction], Scene] | None = None
        """Returns the screen of a service that has one at a time; None for others."""

    def table(
        self,
        name: str = "",
        *,
        key: Sequence[str] = (),
        unique: Sequence[Sequence[str]] = (),
        indexes: Sequence[Sequence[str]] = (),
        judged: bool = True,
    ) -> Callable[[type[R]], type[R]]:
        """Declares a table: the decorated Struct is a row.

        Args:
            name: Plural noun; default: the class's name in snake case with an s.
            key: Fields of the primary key; default: the first field.
            unique: Further sets of fields that identify a row.
            indexes: Sets of fields that are searched often.
            judged: Whether changes of its rows are part of the outcome.
        """

        def declare(row: type[R]) -> type[R]:
            table = read_table(
                row,
                self.name,
                name or _snake_case(row.__name__) + "s",
                tuple(key),
                tuple(tuple(fields) for fields in unique),
                tuple(tuple(fields) for fields in indexes),
                judged=judged,
            )
            if any(other.name == table.name for other in self.tables.values()):
                raise TypeError(f"Service {self.name}: two tables are called {table.name}")
            self.tables[row] = table
            return row

        return declare

    def action(
        self, *, roles: Sequence[Role] = AGENT, wish: str = "", title: str = ""
    ) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
        """Declares an action, which may change the state; where it raises nothing has changed.

        Args:
            roles: Who may call it.
            wish: What a person who wants it says, in the imperative and without a full stop, with `{argument}` for
                each argument: `cancel {order_id} because it is {reason}`. Tasks are written from it.
            title: Words of its page and button; default: those of its name.
        """
        return self._declare(tuple(roles), reads_only=False, wish=wish, title=title)

    def view(
        self, *, roles: Sequence[Role] = AGENT
    ) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
        """Declares a view: an action that reads."""
        return self._declare(tuple(roles), reads_only=True)

    def _declare(
        self, roles: tuple[Role, ...], *, reads_only: bool, wish: str = "", title: str = ""
    ) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
        def declare(function: Callable[Concatenate[Transaction, P], T]) -> Callable[Concatenate[Transaction, P], T]:
            action = _read_action(self.name, function, roles, reads_only=reads_only, wish=wish)
            if title:
                action = msgspec.structs.replace(action, title=title)
            if action.name in self.actions:
                raise TypeError(f"Service {self.name}: two actions are called {action.name}")
            self.actions[action.name] = action
            return function

        return declare

    def event(
        self,
    ) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
        """Declares an event: an action of the world that `Transaction.schedule` names and the clock runs."""

        def declare(function: Callable[Concatenate[Transaction, P], T]) -> Callable[Concatenate[Transaction, P], T]:
            action = _read_action(self.name, function, ("system",), reads_only=False)
            self.events[action.name] = action
            return function

        return declare

    def subscribe(
        self, topic: str
    ) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
        """Declares a handler of what any service of the world publishes under a topic."""

        def declare(function: Callable[Concatenate[Transaction, P], T]) -> Callable[Concatenate[Transaction, P], T]:
            action = _read_action(self.name, function, ("system",), reads_only=False)
            self.subscriptions.setdefault(topic, []).append(action)
            return function

        return declare

    def describe(
        self, row: type[R], noun: str = ""
    ) -> Callable[[Callable[[Transaction, R], str]], Callable[[Transaction, R], str]]:
        """Declares how a person refers to a row without its identifier: `the order of 3 March with the blue kettle`.

        Args:
            row: Class of the row.
            noun: What a person calls such a row, where it is not the label of its table: `trip` for a segment.
        """

        def declare(function: Callable[[Transaction, R], str]) -> Callable[[Transaction, R], str]:
            self.descriptions[row] = function
            if noun:
                self.nouns[row] = noun
            return function

        return declare

    def question(self, view: Callable[..., T], wish: str) -> Callable[[Callable[[T], Any]], Callable[[T], Any]]:
        """Declares a question, from which tasks are made: the decorated function computes its answer.

        The function gets the view's result and nothing else, so that whoever calls the view can answer. It returns a
        number, an amount, a text, a date or a time, or a list of them or of tuples of them.

        Args:
            view: View of this service that shows the answer.
            wish: Request in the imperative, without a full stop, with `{argument}` for arguments of the view.
        """

        def declare(function: Callable[[T], Any]) -> Callable[[T], Any]:
            self.questions.append(_read_question(self, view.__name__, wish, function))
            return function

        return declare

    def summary_of_state(self, function: Callable[[Transaction], Any]) -> Callable[[Transaction], Any]:
        """Declares a function that only reads, whose result is among the facts of the final state and is not judged."""
        if self.summarize is not None:
            raise TypeError(f"Service {self.name}: it has a summary of its state already")
        self.summarize = function
        return function

    def generator(self, function: Callable[[Generator, Any], None]) -> Callable[[Generator, Any], None]:
        """Declares a function that fills the tables from a seed and the knobs."""
        self.generators.append(function)
        return function

    def read_knobs(self, given: Mapping[str, Any]) -> msgspec.Struct:
        """Returns the knobs with their defaults. Raises `ValueError` that lists the allowed ones."""
        try:
            return msgspec.convert(dict(given), self.knobs)
        except msgspec.ValidationError as exc:
            allowed = ", ".join(self.knobs.__struct_fields__) or "none"
            raise ValueError(f"Knobs of the service {self.name!r}: {exc}; it has {allowed}") from exc


@cache
def boundary_of(service: str) -> boundary:
    """Returns what attributes exceptions of a service's code to the service: one object, as each call enters it."""
    return boundary(EnvironmentFailure, f"the service {service}")


def _read_action(
    service: str, function: Callable[..., Any], roles: tuple[Role, ...], *, reads_only: bool, wish: str = ""
) -> Action:
    where = f"{service}.{function.__name__}"
    text = inspect.getdoc(function)
    if not text:
        raise TypeError(f"{where}: an action needs a docstring: it is the description that agents read")
    summary, described = _split_docstring(text)
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise TypeError(f"{where}: its first parameter is the transaction")
    if unknown := described.keys() - {parameter.name for parameter in parameters}:
        raise TypeError(f"{where}: its docstring describes {sorted(unknown)[0]!r}, which is not a parameter")
    fields: list[Any] = []
    for parameter in parameters[1:]:
        if parameter.name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{where}: the parameter {parameter.name!r} needs a type")
        hint = hints[parameter.name]
        if parameter.name in described:
            hint = Annotated[hint, Meta(description=described[parameter.name])]
        default = [] if parameter.default is parameter.empty else [parameter.default]
        fields.append((parameter.name, hint, *default))
    arguments = msgspec.defstruct(
        "".join(word.capitalize() for word in function.__name__.split("_")),
        fields,
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
        module=function.__module__,
    )
    named = {name for _, name, _, _ in Formatter().parse(wish) if name is not None}
    if unknown := named - {parameter.name for parameter in parameters[1:]}:
        raise TypeError(f"{where}: its wish names {sorted(unknown)[0]!r}, which is not a parameter")
    return Action(service, function.__name__, function, arguments, summary, roles, reads_only, wish)


def _read_question(service: Service, view: str, wish: str, function: Callable[[Any], Any]) -> Question:
    where = f"{service.name}.{function.__name__}"
    action = service.actions.get(view)
    if action is None or not action.reads_only or "agent" not in action.roles:
        raise TypeError(f"{where}: {view!r} is not a view of this service for agents")
    named = {name for _, name, _, _ in Formatter().parse(wish) if name is not None}
    if unknown := named - set(action.parameters.get("properties", {})):
        raise TypeError(f"{where}: its wish names {sorted(unknown)[0]!r}, which {view} does not take")
    returned = typing.get_type_hints(function, include_extras=True).get("return")
    of_list = next((part for part in alternatives(returned) if typing.get_origin(part) is list), None)
    item = alternatives(returned)[0] if of_list is None else typing.get_args(of_list)[0]
    parts = typing.get_args(item) if typing.get_origin(item) is tuple else (item,)
    cells = tuple(_cell_unit(part) for part in parts)
    if not cells or None in cells:
        raise TypeError(f"{where}: an answer is str, int, Cents, Date or Timestamp, or a list of them or of tuples")
    return Question(
        function.__name__, action, wish, function, tuple(c for c in cells if c is not None), of_list is not None
    )


def _cell_unit(annotation: Any) -> str | None:
    unit = metadata(annotation).get(UNIT)
    if unit in ("cents", "date", "time"):
        return str(unit)
    bare = typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation
    return "number" if bare is int else "text" if bare is str or typing.get_origin(bare) is Literal else None


def _write_cell(unit: str, cell: Any) -> str:
    return format_cents(cell) if unit == "cents" else str(cell)


def _split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Splits a docstring of Google style into its description and those of its arguments."""
    summary: list[str] = []
    arguments: dict[str, str] = {}
    inside, name = False, ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped == "Args:":
            inside = True
        elif not inside:
            summary.append(stripped)
        elif line.startswith("        ") and name:
            arguments[name] += f" {stripped}"
        elif stripped:
            name, _, rest = stripped.partition(":")
            arguments[name] = rest.strip()
    return " ".join(" ".join(summary).split()), arguments


def _collect_kinds(annotation: Any, found: set[str], seen: set[Any]) -> None:
    if annotation is None or isinstance(annotation, (str, int)):
        return
    kind = metadata(annotation).get(IDENTIFIER)
    if kind:
        found.add(kind)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) and annotation not in seen:
        seen.add(annotation)
        for hint in typing.get_type_hints(annotation, include_extras=True).values():
            _collect_kinds(hint, found, seen)
    for part in typing.get_args(annotation):
        _collect_kinds(part, found, seen)


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
