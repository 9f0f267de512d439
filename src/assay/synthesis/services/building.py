"""Builds the record of a task from a plan that was found sound: world, checks, instruction and metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.conversation import conversation
from assay.environments.services.declaration import Service
from assay.environments.services.disturbances.changed import Changed
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, outcome_key, play
from assay.environments.services.plans import writes as written_at
from assay.environments.services.ticket import ANSWERS, ticket
from assay.environments.services.world import ServiceWorld
from assay.environments.task_digest import digest_task
from assay.environments.wrapping import WRAP
from assay.records import Check, EnvironmentSpec, Task

from .days import WAIT
from .instruction import Level, UserMode, Wording
from .requests import Draft, Kind, as_questions, with_refusal
from .value_requests import TellingRequest

_PAGES: Final = (
    "The applications are web pages, and you use them by a browser. Begin with `read_page`: it shows the start page."
)
_MOST_PERMUTED: Final = 3
"""Writes of which each order is tried; of more, only the orders that exchange two of them."""


class TaskSet(NamedTuple):
    """Options that the tasks of a set share."""

    apps: Sequence[str]
    """Applications as they were named."""
    services: Sequence[Service]
    """The applications."""
    world_services: Sequence[Service]
    """Those of the world."""
    knobs: Mapping[str, Mapping[str, Any]]
    user: UserMode
    has_pages: bool


class Planned(NamedTuple):
    """A sound plan and its wording."""

    seed: int
    number: int
    level: Level
    kind: Kind
    draft: Draft
    wording: Wording
    plan: tuple[PlannedCall, ...]
    """Calls of the reference solution, with what it says."""
    orders: Sequence[Sequence[PlannedCall]]
    """Plans of different outcomes that the person may as well mean, the draft's first."""
    telling: TellingRequest | None = None
    checks: tuple[Check, ...] = ()
    """Checks beside those of every task."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


def build_task(shared: TaskSet, planned: Planned, world: ServiceWorld, done: ServiceWorld) -> Task:
    """Builds the task of a plan, which was played from `world` to `done`."""
    draft, wording, level = planned.draft, planned.wording, planned.level
    walk = draft.walk
    consents = done.policy.consents
    environment = EnvironmentSpec("sites" if shared.has_pages else "services", _parameters(shared, planned), done.seed)
    checks = (*_checks(planned, world, done, consents), *planned.checks)
    opening = [_PAGES] if shared.has_pages else []
    instruction = "\n\n".join([wording.text, *opening, *_rules(shared.world_services)])
    names = [service.name for service in shared.services]
    more: tuple[str, ...] = ("pages",) if shared.has_pages else ()
    more += (Changed.kind,) if draft.change else () if planned.kind == "possible" else (planned.kind,)
    if level == "persona" and shared.user != "rules":
        more += (f"user-{shared.user}",)
    more += planned.tags
    waits = sum(call.action == WAIT for call in walk.plan)
    return Task(
        id="-".join(["services", *names, level, *more, f"w{len(walk.writes)}", str(planned.seed), str(planned.number)]),
        instruction=instruction,
        environment=environment,
        checks=checks,
        digest=digest_task(instruction, environment, checks),
        tags=("services", level, *more, *names),
        source=f"family services, {'+'.join(names)}, seed {planned.seed}",
        metadata={
            "given": round(wording.share_given, 3),
            "writes": len(walk.writes),
            "calls": len(planned.plan),
            **({"waits": waits} if waits else {}),
            **planned.metadata,
        },
    )


def _parameters(shared: TaskSet, planned: Planned) -> dict[str, Any]:
    draft, wording = planned.draft, planned.wording
    services, knobs = [*shared.apps], {name: dict(table) for name, table in shared.knobs.items()}
    if len(shared.world_services) > len(shared.services):
        services.append(ticket.name)
    if wording.script is not None:
        services.append(conversation.name)
        knobs[conversation.name] = {"script": msgspec.to_builtins(wording.script)}
        knobs[conversation.name] |= {"driver": "model"} if shared.user == "model" else {}
    parameters: dict[str, Any] = {"services": services, "plan": msgspec.to_builtins(planned.plan)}
    if knobs:
        parameters["knobs"] = knobs
    if draft.change and planned.level != "persona":  # a person in a conversation says it themselves
        parameters[WRAP] = [{"kind": Changed.kind, "text": draft.change}]
    return parameters


def _checks(planned: Planned, world: ServiceWorld, done: ServiceWorld, consents: Sequence[Any]) -> list[Check]:
    draft, wording = planned.draft, planned.wording
    state: dict[str, Any] = {"outcomes": list(_outcomes(world, draft, planned.orders))}
    if draft.answers:
        state["ignored"] = [ANSWERS]
    checks = [Check("state", "state", state)]
    if done.policy.contracts:
        rules: dict[str, Any] = {"contracts": list(done.policy.contracts)}
        if wording.script is not None and consents:
            rules["consents"] = msgspec.to_builtins(consents)
        checks.append(Check("policy", "policy", rules))
    if draft.answers:
        checks.append(Check("answer", "answer", {"questions": as_questions(draft.answers)}))
    if planned.telling is not None:
        checks.append(Check("communicated", "communicated", planned.telling.parameters))
    return checks


def accepted_orders(world: ServiceWorld, plan: Sequence[PlannedCall]) -> dict[bytes, Sequence[PlannedCall]] | None:
    """Returns a plan, and the orders of its writes that the world accepts and that lead to other outcomes, by outcome.

    None if there are too many orders to try all, and exchanging two writes leads to another outcome.
    """
    positions = written_at(world, plan)
    reads = [call for at, call in enumerate(plan) if at not in positions]
    found: dict[bytes, Sequence[PlannedCall]] = {outcome_key(play(world, plan)): plan}
    for order in _orders(positions):
        writes = [plan[at] for at in order]
        done = play(world, writes)
        if all(call.code is None for call in done.calls):
            found.setdefault(outcome_key(done), (*reads, *writes))
    return None if len(found) > 1 and len(positions) > _MOST_PERMUTED else found


def _orders(positions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yields other orders: all, or those that exchange two of many."""
    if len(positions) <= _MOST_PERMUTED:
        yield from list(permutations(positions))[1:]
        return
    for one, two in combinations(range(len(positions)), 2):
        exchanged = list(positions)
        exchanged[one], exchanged[two] = exchanged[two], exchanged[one]
        yield exchanged


def _outcomes(world: ServiceWorld, draft: Draft, orders: Sequence[Sequence[PlannedCall]]) -> Iterator[dict[str, Any]]:
    """Yields the acceptable outcomes, as parameters of the check `state`, first that of the draft's plan."""
    if draft.answers:
        yield {"changes": []}
        return
    for plan in orders:
        for refusal in draft.refusals or (None,):
            calls = plan if refusal is None else [with_refusal(call, refusal) for call in plan]
            changes = play(world, calls).database.changes(judged_only=True)
            yield {"changes": as_json(expected_changes(world.composition.tables, changes))}


def _rules(services: Sequence[Service]) -> list[str]:
    """Returns the policies as the agent reads them."""
    return [
        f"Policy of {service.name} ({service.summary})\n{service.policy.text.strip()}"
        for service in services
        if service.policy.text.strip()
    ]
