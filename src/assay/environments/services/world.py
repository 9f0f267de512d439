"""A world of one or several services on one clock, as agents, users and the recorder see it.

Invariant: nothing outside an action changes the state, and an action that raises changes nothing. Every call is logged
with the state's digest after it; the log is the world's own account and does not depend on what a client reports.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from assay.environments.interface import ToolSpec
from assay.records import Observation, ToolCall, canonical_bytes

from .arguments import find_false_times, readable_arguments
from .composition import Composition, add_event, compose
from .conversation import SEND
from .database import Database
from .declaration import Action, Caller, Policy, Role, Scene, Service, boundary_of
from .net_changes import RowChange
from .options import read_options
from .outcome import describe_changes
from .plans import (
    PlannedCall,
    as_tool_calls,
    foreign_plan,
    null_calls,
    other_plans,
    outcome_key,
    outcome_key_of,
    shortcut_calls,
    wrong_plans,
)
from .record_names import names_of_records
from .transaction import ActionError, Code, Transaction, shift_time

MOST_LOGGED: Final = 16 << 20
"""Encoded size of all logged arguments, in bytes, beyond which calls are refused."""
MOST_EVENTS: Final = 10_000
"""Events that one wait may run."""
MOST_CHANGES: Final = 60_000  # of rows, with the journal's, in one wait: below 2 s of a CPU


class LoggedCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call, in the order in which the world served them."""

    role: Caller
    action: str
    arguments: dict[str, Any]
    code: Code | None
    """Kind of refusal; None if it succeeded."""
    now: str
    """Time of the world's clock before the call."""
    digest: str
    """Digest of the state after the call."""
    names: dict[str, tuple[str, ...]] = {}
    """Of a call of the agent that needs consent: groups of names of the records that it identifies (`record_names`)."""


class _State(msgspec.Struct, frozen=True):
    """A stored state: which world it is of, its net changes, and the log."""

    world: str
    changes: tuple[RowChange, ...]
    calls: tuple[LoggedCall, ...]


class ServiceWorld:
    """Implements `World` and `KeepsStates`.

    Args:
        parameters: Fields of `WorldOptions`.
        seed: Seed of the generators.

    Raises:
        ValueError: A parameter is invalid; the message lists what is allowed.
        PluginLoadError: A service does not exist.
    """

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        options, composition = read_options(parameters)
        self._set_up(composition, seed, options.knobs, options.actor, options.plan, options.reported)

    @classmethod
    def of(
        cls, services: Sequence[Service], seed: int = 0, knobs: Mapping[str, Any] | None = None, actor: str = ""
    ) -> ServiceWorld:
        """Returns a world of services that are given as objects."""
        world = cls.__new__(cls)
        world._set_up(compose(services), seed, knobs or {}, actor)
        return world

    def _set_up(
        self,
        composition: Composition,
        seed: int,
        knobs: Mapping[str, Mapping[str, Any]],
        actor: str,
        plan: tuple[PlannedCall, ...] = (),
        reported: tuple[PlannedCall, ...] = (),
    ) -> None:
        self.composition = composition
        self.seed = seed
        self.actor = actor
        self.sink: Callable[[LoggedCall], None] | None = None
        """Called with each call after it was logged."""
        self.plan = tuple(plan)
        """Reference solution; empty without one."""
        self._knobs, self._reported = knobs, reported
        self.before_message: Callable[[dict[str, Any]], Awaitable[None]] | None = None
        """Awaited with the arguments of each message of the agent, before it is sent: it may act as the person."""
        self._identity, image = composition.image(seed, knobs)
        self._attach(Database(image))
        self.calls: list[LoggedCall] = []
        self._logged_bytes = 0

    def _attach(self, database: Database) -> None:
        self.tables = self.composition.by_row
        self.database = database
        self._now: str | None = None

    # `World`: what the agent has.

    def specs(self) -> tuple[ToolSpec, ...]:
        return self.specs_for("agent")

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        if name == SEND and self.before_message is not None:
            await self.before_message(arguments)
        return self.act(name, arguments)

    async def digest(self) -> str | None:
        return self.database.digest()

    def facts(self) -> dict[str, Any]:
        """Returns the net changes of the judged tables, as data and in words, the calls, the time, the services' own
        summaries, and the reports."""
        changes = self.database.changes(judged_only=True)
        facts: dict[str, Any] = msgspec.to_builtins(
            {
                "services": [service.name for service in self.composition.services],
                "initial": self.database.image.digest,
                "changes": changes,
                "difference": describe_changes(self.composition.tables, changes),
                "calls": self.calls,
                "now": self.now,
            }
        )
        summaries = self._summaries()
        facts |= {"summaries": summaries} if summaries else {}
        return facts | ({"reported": self.report()} if self._reported else {})

    def _summaries(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for service in self.composition.services:
            if service.summarize is not None:
                transaction = Transaction(self, self.database.connection, service.name, "system", "")
                with boundary_of(service.name), self.database.reading():
                    found[service.name] = msgspec.to_builtins(service.summarize(transaction))
        return found

    def report(self) -> dict[str, Any]:
        """Returns the results of the reported views by call; a refused one has its message as `error`."""
        found: dict[str, Any] = {}
        for call in self._reported:
            observation = self.peek(call.action, call.arguments, "system")
            name = f"{call.action} {canonical_bytes(call.arguments).decode()}"
            found[name] = {"error": observation.content} if observation.error else _parse_result(observation.content)
        return found

    async def close(self) -> None:
        self.database.close()

    # `KeepsStates`.

    def snapshot(self) -> bytes:
        return msgspec.json.encode(_State(self._identity, self.database.changes(), tuple(self.calls)))

    def restore(self, state: bytes) -> None:
        try:
            stored = msgspec.json.decode(state, type=_State)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise ValueError(f"These bytes are not a state of a world of services: {exc}") from exc
        if stored.world != self._identity:
            raise ValueError(f"The state is of {stored.world[:200]}, and this world is {self._identity[:200]}")
        fresh = Database(self.database.image)
        try:
            fresh.apply(stored.changes)
        except ValueError:
            fresh.close()
            raise
        self.database.close()
        self._attach(fresh)
        self.calls = list(stored.calls)
        self._logged_bytes = sum(len(canonical_bytes(call.arguments)) for call in self.calls)

    def fork(self) -> ServiceWorld:
        """Returns an independent world in the same state, without a sink and without `before_message`."""
        other = ServiceWorld.__new__(ServiceWorld)
        other.composition, other.seed, other.actor, other.sink = self.composition, self.seed, self.actor, None
        other.before_message = None
        other._identity, other.plan, other._knobs = self._identity, self.plan, self._knobs
        other._reported = self._reported
        other._attach(self.database.fork())
        other.calls, other._logged_bytes = list(self.calls), self._logged_bytes
        return other

    # Hooks of admission, answered on forks.

    def oracle(self) -> tuple[ToolCall, ...]:
        """Returns the plan; empty without one."""
        return as_tool_calls(self.plan)

    def null(self) -> Mapping[str, tuple[ToolCall, ...]]:
        return null_calls(self, self.plan)

    def perturb(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        return wrong_plans(self, self.plan, seed)

    def shortcuts(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        return shortcut_calls(self, self.plan, seed)

    def elsewhere(self) -> tuple[ToolCall, ...]:
        other = ServiceWorld.__new__(ServiceWorld)
        other._set_up(self.composition, self.seed + 1, self._knobs, self.actor)
        try:
            return as_tool_calls(foreign_plan(self, other, self.plan))
        finally:
            other.database.close()

    def variants(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        return other_plans(self, self.plan, seed)

    def collect(self) -> dict[str, Any]:
        """Returns what differs from the initial state, apart from generated identifiers and the wording of texts."""
        return {"outcome": outcome_key(self).decode()}

    def outcome_of(self, changes: Sequence[RowChange]) -> str:
        """Returns what changes amount to, apart from generated identifiers and the wording of texts."""
        return outcome_key_of(self, changes).decode()

    # What transports need.

    @property
    def actions(self) -> Mapping[str, Action]:
        """Declarations of the tools."""
        return self.composition.actions

    @property
    def summaries(self) -> Mapping[str, str]:
        """Sentence about each application."""
        return {one.name: one.summary for one in (*self.composition.applications, self.composition.services[0])}

    @property
    def label(self) -> str:
        """Names of the applications, joined by `+`."""
        return "+".join(service.name for service in self.composition.applications)

    @property
    def read_only(self) -> frozenset[str]:
        """Names of the tools that only read."""
        return frozenset(name for name, action in self.composition.actions.items() if action.reads_only)

    @property
    def text_results(self) -> frozenset[str]:
        """Names of the tools whose results are plain text; those of others are JSON."""
        return frozenset(name for name, action in self.composition.actions.items() if action.returns_text)

    @property
    def answered(self) -> int:
        """Number of calls that were answered."""
        return len(self.calls)

    @property
    def last_code(self) -> Code | None:
        """Kind of refusal of the last call; None if it succeeded, or without calls."""
        return self.calls[-1].code if self.calls else None

    def scene(self, application: str) -> Scene | None:
        """Returns the screen of an application that shows one at a time; None for others."""
        service = next((one for one in self.composition.services if one.name == application), None)
        if service is None or service.scene is None:
            return None
        transaction = Transaction(self, self.database.connection, service.name, "agent", self.actor)
        with boundary_of(service.name), self.database.reading():
            return service.scene(transaction)

    # All roles.

    @property
    def policy(self) -> Policy:
        """The policies of its services, one after the other."""
        policies = [service.policy for service in self.composition.services]
        texts = [policy.text.strip() for policy in policies if policy.text.strip()]
        contracts = tuple(text for policy in policies for text in policy.contracts)
        return Policy("\n\n".join(texts), contracts, tuple(one for policy in policies for one in policy.consents))

    def specs_for(self, role: Role) -> tuple[ToolSpec, ...]:
        """Returns the tools of a role, in a stable order."""
        return tuple(action.spec for action in self.composition.actions.values() if role in action.roles)

    def act(
        self, name: str, arguments: Mapping[str, Any], role: Role = "agent", actor: str | None = None
    ) -> Observation:
        """Calls an action; the observation is its result as JSON, or an error that says why it was refused.

        Args:
            name: Name of the action.
            arguments: Its arguments as JSON data.
            role: Who calls.
            actor: Identifier of the person signed in; default: the world's.

        Raises:
            EnvironmentFailure: The service itself is broken. Nothing has changed.
        """
        return self._log_call(name, arguments, role, self.actor if actor is None else actor, role)

    def act_as_other(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Calls an action of agents for another user of the application, whom the log names `other`."""
        return self._log_call(name, arguments, "agent", "", "other")

    def _log_call(self, name: str, arguments: Mapping[str, Any], role: Role, actor: str, caller: Caller) -> Observation:
        now = self.now
        logged, size, problem = readable_arguments(dict(arguments))
        if not problem and self._logged_bytes + size > MOST_LOGGED:
            logged, size, problem = {}, 0, "Too much was sent to this world; no further call is possible."
        names = {}
        if caller == "agent" and name in self.composition.consented:
            names = names_of_records(self, self.composition.actions[name], logged)
        text, code = self._answer(name, logged, role, actor, problem)
        self._logged_bytes += size
        call = LoggedCall(caller, name[:200], logged, code, now, self.database.digest(), names)
        self.calls.append(call)
        if self.sink is not None:
            self.sink(call)
        return Observation(text, error=code is not None)

    def peek(self, name: str, arguments: Mapping[str, Any], role: Role = "agent") -> Observation:
        """Calls a view without logging it, for those who make and examine tasks. Raises `ValueError` for an action."""
        text, code = self.peek_coded(name, arguments, role)
        return Observation(text, error=code is not None)

    def peek_coded(self, name: str, arguments: Mapping[str, Any], role: Role = "agent") -> tuple[str, Code | None]:
        """Returns the result of a view and the kind of its refusal, as `peek`."""
        action = self.composition.actions.get(name)
        if action is None or not action.reads_only:
            raise ValueError(f"{name!r} is not a view")
        logged, _, problem = readable_arguments(dict(arguments))
        return self._answer(name, logged, role, self.actor, problem)

    def pass_time(self, minutes: int) -> None:
        """Advances the clock; events that are due happen. Raises `ActionError` if they are too many."""
        try:
            with self.database.transaction():
                self.advance(shift_time(self.now, minutes=minutes))
        except BaseException:
            self._now = None
            raise

    def _answer(
        self, name: str, arguments: dict[str, Any], role: Role, actor: str, problem: str
    ) -> tuple[str, Code | None]:
        """Returns what the caller reads, and the kind of refusal."""
        try:
            return self._run(name, arguments, role, actor, problem), None
        except ActionError as exc:
            return f"Error ({exc.code}): {exc}", exc.code

    def _run(self, name: str, arguments: dict[str, Any], role: Role, actor: str, problem: str) -> str:
        """Runs an action and returns its result as text; `problem` is what is wrong with its arguments.

        Raises:
            ActionError: The action was refused.
        """
        if problem:
            raise ActionError(problem)
        action, values = self._resolve(name, arguments, role)
        with boundary_of(action.service):
            return self._execute(action, values, role, actor)

    def _resolve(self, name: str, arguments: dict[str, Any], role: Role) -> tuple[Action, dict[str, Any]]:
        """Returns the action and its parsed arguments. Raises `ActionError`."""
        action = self.composition.actions.get(name)
        if action is None or role not in action.roles:
            known = ", ".join(spec.name for spec in self.specs_for(role))
            raise ActionError(f"There is no tool {name[:80]!r}; there are: {known}.", "not_found")
        try:
            parsed = msgspec.convert(arguments, action.arguments)
        except (msgspec.ValidationError, RecursionError) as exc:
            raise ActionError(f"Wrong arguments for {name}: {exc}.") from exc
        values = msgspec.structs.asdict(parsed)
        for field, text in find_false_times(parsed):
            raise ActionError(f"Wrong arguments for {name}: `{field}` is {text!r}, which does not exist.")
        return action, values

    def _execute(self, action: Action, values: dict[str, Any], role: Role, actor: str) -> str:
        database = self.database
        transaction = Transaction(self, database.connection, action.service, role, actor)
        try:
            with database.reading() if action.reads_only else database.transaction():
                result = action.function(transaction, **values)
                is_text = action.returns_text and isinstance(result, str)
                return result if is_text else msgspec.json.encode(result).decode()
        except sqlite3.IntegrityError as exc:  # of a deferred foreign key
            self._now = None
            raise ActionError(f"The change cannot be stored: {exc}.", "conflict") from exc
        except OverflowError as exc:
            self._now = None
            raise ActionError(f"A number is too large: {exc}.") from exc
        except BaseException:
            self._now = None
            raise

    # `WorldAccess`: what a transaction asks.

    @property
    def now(self) -> str:
        """Time of the clock."""
        if self._now is None:
            self._now = str(self.database.connection.execute("SELECT now FROM clock_time").fetchone()[0])
        return self._now

    def schedule(self, at: str, service: str, name: str, payload: dict[str, Any]) -> None:
        add_event(self.database.connection, at, service, name, payload)

    def publish(self, topic: str, payload: dict[str, Any]) -> None:
        for action in self.composition.subscribers(topic):
            self._run_system(action, payload)

    def advance(self, until: str) -> None:
        execute = self.database.connection.execute
        query = "SELECT id, at, service, name, payload FROM clock_scheduled WHERE at <= ? ORDER BY at, id LIMIT 1"
        most = self.database.connection.total_changes + MOST_CHANGES
        for _ in range(MOST_EVENTS):
            if (due := execute(query, (until,)).fetchone()) is None:
                break
            if self.database.connection.total_changes > most:
                raise ActionError("Too much would happen; wait for a shorter time.", "unavailable")
            number, at, service, name, payload = due
            execute("DELETE FROM clock_scheduled WHERE id = ?", (number,))
            self._set_clock(max(at, self.now))
            self._run_system(self.composition.event(service, name), msgspec.json.decode(payload))
        else:
            raise ActionError(f"More than {MOST_EVENTS} events would happen; wait for a shorter time.")
        self._set_clock(max(until, self.now))

    def call_as_user(self, name: str, arguments: dict[str, Any]) -> Any:
        action, values = self._resolve(name, arguments, "user")
        with self._savepoint():
            return action.function(
                Transaction(self, self.database.connection, action.service, "user", self.actor), **values
            )

    def _set_clock(self, now: str) -> None:
        self.database.connection.execute("UPDATE clock_time SET now = ? WHERE now != ?", (now, now))
        self._now = now

    def _run_system(self, action: Action, payload: Mapping[str, Any]) -> None:
        """Runs an event or handler; one that is refused changes nothing and does not undo the action that caused it."""
        transaction = Transaction(self, self.database.connection, action.service, "system", "")
        with suppress(ActionError), self._savepoint():
            action.function(transaction, **payload)

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        """Runs its body as a part of a transaction that an `ActionError` undoes."""
        execute = self.database.connection.execute
        execute("SAVEPOINT part")
        try:
            yield
        except ActionError:
            execute("ROLLBACK TO part")
            self._now = None
            raise
        finally:
            execute("RELEASE part")


def _parse_result(text: str) -> Any:
    """Returns a view's result as data; a text that is not JSON as it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
