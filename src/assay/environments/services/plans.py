"""Plans for admission of a world: the reference plan, calls that change nothing, wrong plans, and shortcuts.

A plan is the reference solution of a task, as calls. Everything here plays on forks and leaves its world as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from assay.records import Observation, ToolCall, canonical_bytes

from .conversation import SEND, person_of
from .declaration import Action, Question
from .net_changes import RowChange
from .ticket import answer_question, decline_request

if TYPE_CHECKING:
    from .world import ServiceWorld

_MOST_PERTURBED: Final = 6
"""Calls of a plan that are varied."""
_MOST_WANDERINGS: Final = 6
ONE_CALL: Final = "one-call"
ALL_ACTS: Final = "all-acts"
"""First words of the names of shortcuts that are tried although they end in the wanted outcome."""
_ANY_TEXT: Final = "The request needs somebody else."
_CLAIMS: Final = (
    "Hello! What can I do for you, and which one do you mean? Please give me all details, your name and address.",
    "Everything has been done as you asked. Is there anything else?",
    "Please confirm that all of it was taken care of.",
)


class PlannedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of the agent."""

    action: str
    arguments: dict[str, Any] = {}


Plan = Sequence[PlannedCall]


def as_tool_calls(plan: Plan) -> tuple[ToolCall, ...]:
    """Returns the calls as a model writes them."""
    return tuple(
        ToolCall(f"c{number}", call.action, canonical_bytes(call.arguments).decode(), call.arguments)
        for number, call in enumerate(plan)
    )


def play(world: ServiceWorld, plan: Plan) -> ServiceWorld:
    """Returns a fork of the world in which the plan was called, whatever its calls returned."""
    fork = world.fork()
    for call in plan:
        fork.act(call.action, call.arguments)
    return fork


def play_recorded(world: ServiceWorld, plan: Plan) -> list[tuple[ToolCall, Observation]]:
    """Returns each call of the plan with what a fork of the world answered."""
    fork = world.fork()
    calls = as_tool_calls(plan)
    return [(call, fork.act(call.name, call.parsed or {})) for call in calls]


def outcome_key(world: ServiceWorld) -> bytes:
    """Returns bytes that are equal for outcomes that differ at most in generated identifiers; where the world reports
    views, for those whose reports are equal."""
    if report := world.report():
        return canonical_bytes(report)
    return outcome_key_of(world, world.database.changes(judged_only=True))


def outcome_key_of(world: ServiceWorld, changes: Sequence[RowChange]) -> bytes:
    """Returns the same of some changes of a world."""
    return canonical_bytes(_without_generated(world, changes))


def writes(world: ServiceWorld, plan: Plan) -> list[int]:
    """Returns the positions of calls that are not of views."""
    actions = world.composition.actions
    return [at for at, call in enumerate(plan) if call.action in actions and not actions[call.action].reads_only]


def null_calls(world: ServiceWorld, plan: Plan) -> dict[str, tuple[ToolCall, ...]]:
    """Returns calls that change nothing: an unknown tool, and the reads of the plan."""
    written = set(writes(world, plan))
    reads = [call for at, call in enumerate(plan) if at not in written]
    found = {"no-such-tool": as_tool_calls([PlannedCall("no_such_tool")])}
    if reads:
        found["reads"] = as_tool_calls(reads)
    return found


def wrong_plans(world: ServiceWorld, plan: Plan, seed: int) -> dict[str, tuple[ToolCall, ...]]:
    """Returns variants of the plan whose outcome is another: a write left out, repeated, with another argument, or
    everything after it missing."""
    draw = random.Random(seed)
    written = [at for at in writes(world, plan) if plan[at].action != SEND]  # what is said changes no outcome
    right = outcome_key(play(world, plan))
    variants: dict[str, list[PlannedCall]] = {}
    for at in sorted(draw.sample(written, min(_MOST_PERTURBED, len(written)))):
        variants[f"cut-before-{at}"] = list(plan[:at])
        variants[f"without-{at}"] = [*plan[:at], *plan[at + 1 :]]
        variants[f"twice-{at}"] = [*plan[: at + 1], *plan[at:]]
        before = play(world, plan[:at])
        for name, other in _other_arguments(before, plan[at], draw):
            variants[f"other-{name}-{at}"] = [*plan[:at], other, *plan[at + 1 :]]
    return {name: as_tool_calls(calls) for name, calls in variants.items() if outcome_key(play(world, calls)) != right}


def shortcut_calls(world: ServiceWorld, plan: Plan, seed: int) -> dict[str, tuple[ToolCall, ...]]:
    """Returns calls that leave the task undone: each write of the plan alone, tools of other roles, claims that all is
    done, guessed answers, and random calls. Those that end in the wanted outcome are left out, except single calls
    whose arguments need no knowledge, and requests for everything that the person can do: if these suffice, neither a
    look at the problem nor the request is needed."""
    draw = random.Random(seed)
    actions = world.composition.actions
    right = outcome_key(play(world, plan))
    found: dict[str, list[PlannedCall]] = {f"only-{at}": [plan[at]] for at in writes(world, plan)}
    found["others-tools"] = [PlannedCall(name) for name, action in actions.items() if "agent" not in action.roles]
    if SEND in actions:
        found["talk"] = [PlannedCall(SEND, {"text": text}) for text in _CLAIMS]
    if answer_question.__name__ in actions:
        found["guesses"] = list(_guesses())
    for number in range(_MOST_WANDERINGS):
        wandered = world.fork()
        calls: list[PlannedCall] = []
        for _ in range(2 + number):
            call = random_call(wandered, draw)
            if call is not None:
                wandered.act(call.action, call.arguments)
                calls.append(call)
        found[f"wandering-{number}"] = calls
    undone = {name: calls for name, calls in found.items() if calls and outcome_key(play(world, calls)) != right}
    untouched = outcome_key(world)
    lone = {} if untouched == right else _calls_without_knowledge(world)
    enough = {name: calls for name, calls in lone.items() if outcome_key(play(world, calls)) == right}
    return {name: as_tool_calls(calls) for name, calls in (undone | enough | _blanket_requests(world)).items()}


def _calls_without_knowledge(world: ServiceWorld) -> dict[str, list[PlannedCall]]:
    """Returns a single call of each action of the agent whose required arguments are free texts, with any text.

    Left out are messages to the person and actions that take identifiers, numbers or choices.
    """
    found = {}
    for name, action in world.composition.actions.items():
        schemas = action.parameters.get("properties", {})
        required = action.parameters.get("required", ())
        is_free = all(_is_free_text(action, field, schemas[field]) for field in required)
        if is_for_agents(action) and name != SEND and is_free:
            found[f"{ONE_CALL}-{name}"] = [PlannedCall(name, dict.fromkeys(required, _ANY_TEXT))]
    return found


def _is_free_text(action: Action, name: str, schema: Mapping[str, Any]) -> bool:
    return name not in action.takes and schema.get("type") == "string" and not {"enum", "pattern"} & schema.keys()


def _blanket_requests(world: ServiceWorld) -> dict[str, list[PlannedCall]]:
    """Returns requests for all acts of the person that change something, in their order: at once, and one by one.

    Empty where the person does nothing.
    """
    person = person_of(world)
    actions = world.composition.actions
    acts = () if person is None else person[0].acts
    texts = [f"I need you to {act.cues[0]}." for act in acts if act.cues and not _is_view(actions.get(act.action))]
    if not texts:
        return {}
    return {
        f"{ALL_ACTS}-at-once": [PlannedCall(SEND, {"text": " ".join(texts)})],
        ALL_ACTS: [PlannedCall(SEND, {"text": text}) for text in texts],
    }


def _is_view(action: Action | None) -> bool:
    return action is not None and action.reads_only


def _guesses() -> Iterator[PlannedCall]:
    for request in (1, 2, 3):
        yield PlannedCall(answer_question.__name__, {"request": request, "rows": [["1"]]})
        arguments = {"request": request, "reason": "not_possible", "record_id": "unknown"}
        yield PlannedCall(decline_request.__name__, arguments)


def foreign_plan(world: ServiceWorld, elsewhere: ServiceWorld, plan: Plan) -> list[PlannedCall]:
    """Returns the plan with the identifiers of another world in place of those that are generated, and with what the
    same questions are answered there."""
    draw = random.Random(elsewhere.seed)
    drawn: dict[str, str] = {}
    for call in plan:
        for value in call.arguments.values():
            kind = world.composition.generated_kind(value)
            others = identifiers(elsewhere, kind) if kind else []
            if others:
                drawn.setdefault(value, draw.choice(others))
    foreign: list[PlannedCall] = []
    for at, call in enumerate(plan):
        arguments = {
            name: drawn.get(value, value) if isinstance(value, str) else value for name, value in call.arguments.items()
        }
        if call.action == answer_question.__name__:
            source = _source(world, plan[:at], call.arguments.get("rows"))
            if source is not None:
                question, read = source
                arguments["rows"] = answer_in(elsewhere, question, foreign[read])
        foreign.append(PlannedCall(call.action, arguments))
    return foreign


def _source(world: ServiceWorld, reads: Plan, rows: object) -> tuple[Question, int] | None:
    """Returns a question with this answer, and the number of the call whose result shows it; None without one."""
    for question in (question for service in world.composition.services for question in service.questions):
        for number, read in enumerate(reads):
            if read.action == question.view.name and answer_in(world, question, read) == rows:
                return question, number
    return None


def answer_in(world: ServiceWorld, question: Question, read: PlannedCall) -> list[list[str]]:
    """Returns the answer to a question; empty if the call is refused."""
    shown = world.peek(read.action, read.arguments)
    return [] if shown.error else question.answer(shown.content)


def other_plans(world: ServiceWorld, plan: Plan, seed: int) -> dict[str, tuple[ToolCall, ...]]:
    """Returns other plans with the same outcome: with mistakes at first, with reads made twice, and with two writes in
    the other order where no rule of a policy names them."""
    first = next(iter(writes(world, plan)), 0)
    reads = [call for call in plan[:first] for _ in range(2)]
    mistakes = [PlannedCall("no_such_tool"), PlannedCall(plan[-1].action, {"no_such_argument": 1})] if plan else []
    found = {"reads-twice": [*reads, *plan[first:]], "after-mistakes": [*mistakes, *plan]}
    draw = random.Random(seed)
    rules = "\n".join(world.policy.contracts)
    free = {at for at in writes(world, plan) if f'"{plan[at].action}"' not in rules}
    pairs = [at for at in sorted(free) if at + 1 in free]
    for at in sorted(draw.sample(pairs, min(2, len(pairs)))):
        found[f"exchanged-{at}"] = [*plan[:at], plan[at + 1], plan[at], *plan[at + 2 :]]
    right = outcome_key(play(world, plan))
    return {
        name: as_tool_calls(calls)
        for name, calls in found.items()
        if calls != list(plan) and outcome_key(play(world, calls)) == right
    }


def is_for_agents(action: Action) -> bool:
    """Returns whether the agent may call an action."""
    return "agent" in action.roles


def random_call(
    world: ServiceWorld, draw: random.Random, may_call: Callable[[Action], bool] = is_for_agents
) -> PlannedCall | None:
    """Returns a call of an action that `may_call` permits, by default any of the agent's, with identifiers that exist.

    None without such an action, or if an argument cannot be drawn.
    """
    known = world.composition.actions.values()
    actions = [action for action in known if may_call(action)]
    if not actions:
        return None
    action = draw.choice(actions)
    arguments = {}
    for name, schema in action.parameters.get("properties", {}).items():
        if name not in action.parameters.get("required", ()):
            continue
        value = _drawn(world, action, name, schema, draw)
        if value is None:
            return None
        arguments[name] = value
    return PlannedCall(action.name, arguments)


def identifiers(world: ServiceWorld, kind: str) -> list[str]:
    """Returns the identifiers of a kind that are keys; where none is a key, those in any column. Sorted."""
    execute = world.database.connection.execute
    keys: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for table in world.composition.tables:
        for column in table.columns:
            if column.identifier == kind:
                (keys if table.key == (column.name,) else others).append((table.sql_name, column.name))
    found: set[str] = set()
    for table_name, column_name in keys or others:
        query = f"SELECT DISTINCT {column_name} FROM {table_name} WHERE {column_name} IS NOT NULL"
        found.update(row[0] for row in execute(query))
    return sorted(found)


def _other_arguments(world: ServiceWorld, call: PlannedCall, draw: random.Random) -> Iterable[tuple[str, PlannedCall]]:
    """Yields the call with one argument replaced, by the argument's name."""
    action = world.composition.actions[call.action]
    schemas = action.parameters.get("properties", {})
    for name, value in sorted(call.arguments.items()):
        other: Any = None
        if name in action.takes:
            others = [found for found in identifiers(world, action.takes[name]) if found != value]
            other = draw.choice(others) if others else None
        elif "enum" in schemas.get(name, {}):
            others = [choice for choice in schemas[name]["enum"] if choice != value]
            other = draw.choice(others) if others else None
        elif isinstance(value, bool):
            other = not value
        elif isinstance(value, int):
            other = value + 1
        if other is not None:
            yield name, PlannedCall(call.action, call.arguments | {name: other})


def _drawn(world: ServiceWorld, action: Action, name: str, schema: Mapping[str, Any], draw: random.Random) -> Any:
    if name in action.takes:
        known = identifiers(world, action.takes[name])
        return draw.choice(known) if known else None
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "integer":
        low = schema.get("minimum", 1)
        return draw.randint(low, max(low, min(schema.get("maximum", low + 20), low + 20)))
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "string" and "pattern" not in schema:
        return draw.choice(("please", "report", "later", "Anna", "the blue one"))
    return None


def _without_generated(world: ServiceWorld, changes: Iterable[RowChange]) -> list[Any]:
    """Returns the changes with the identifiers of added rows replaced by their kinds, sorted."""
    by_name = {table.sql_name: table for table in world.composition.tables}
    listed = list(changes)
    made: dict[tuple[str, str], str] = {}
    for change in listed:
        column = by_name[change.table].columns[by_name[change.table].key_positions[0]]
        if change.before is None and column.prefix and column.identifier:
            made[column.identifier, str(change.key[0])] = f"new {column.identifier}"
    blank = []
    for change in listed:
        table = by_name[change.table]
        after = None
        if change.after is not None:
            after = [
                "text" if column.unit == "text" else made.get((column.identifier or "", str(value)), value)
                for column, value in zip(table.columns, change.after.values(), strict=True)
            ]
        key = [
            made.get((table.column(name).identifier or "", str(v)), v)
            for name, v in zip(table.key, change.key, strict=True)
        ]
        blank.append([change.table, key, change.before is None, after])
    return sorted(blank, key=canonical_bytes)
