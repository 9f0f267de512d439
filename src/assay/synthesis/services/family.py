"""The task family `services`: tasks from walks over the actions of one or several applications.

A plan becomes a task if it keeps the policy; its outcome is not that of doing nothing or of its reads alone; the same
calls in a world of another seed do not lead to it, so that the agent has to read; no generated identifier is in the
text; and no other task has the same outcome. Where the outcome depends on the order of the writes, that of each order
that the world accepts is acceptable. The same `n`, `seed` and options give the same tasks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, permutations
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

from assay.environments.services.composition import compose
from assay.environments.services.conversation import conversation
from assay.environments.services.declaration import Service
from assay.environments.services.disturbances.changed import Changed
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, foreign_plan, outcome_key, play
from assay.environments.services.plans import writes as written_at
from assay.environments.services.ticket import ANSWERS, ticket
from assay.environments.services.world import ServiceWorld
from assay.environments.wrapping import WRAP
from assay.errors import UserError
from assay.plugins import load
from assay.records import Check, EnvironmentSpec, Task, canonical_bytes, digest_record

from .conduct import ask_for_consents, keep_policy
from .instruction import (
    LEVELS,
    USER_MODES,
    Descriptions,
    Level,
    Unspeakable,
    UserMode,
    Wording,
    wish_of,
    write_instruction,
)
from .requests import (
    KINDS,
    MOST_GUESSED,
    Draft,
    Kind,
    as_questions,
    draw_changed,
    draw_declined,
    draw_possible,
    draw_questions,
    forbidden_actions,
    generated_arguments,
    guess_probability,
    is_known_in,
    with_refusal,
)
from .walk import Walker

_TRIES: Final = 400
"""Walks drawn for one task before a world counts as exhausted."""
_BARREN_WORLDS: Final = 3
"""Exhausted worlds in a row after which no more tasks are sought."""
_TASKS_OF_A_WORLD: Final = 5
_MOST_WRITES: Final = 8
_PAGES: Final = (
    "The applications are web pages, and you use them by a browser. Begin with `read_page`: it shows the start page."
)
_MOST_PERMUTED: Final = 3
"""Writes of which each order is tried; of more, only the orders that exchange two of them."""


class _Planned(NamedTuple):
    """A sound plan and its wording."""

    seed: int
    number: int
    level: Level
    kind: Kind
    draft: Draft
    wording: Wording
    orders: Sequence[Sequence[PlannedCall]]
    """Plans of different outcomes that the person may as well mean, the draft's first."""


class ServiceTasks:
    """Tasks in worlds of services.

    Args:
        app: Applications, joined by `+`: `shop`, `airline+mail`, or `path/file.py:attribute`.
        level: `explicit`, `implicit`, `persona`, or `mixed` for all three in turn.
        kind: Kinds of requests, joined by `+`, in turn: `possible`; `impossible`, `forbidden` or `ambiguous`, in which
            one request must be declined; `question`; or `mixed` for all that the applications have.
        changed: Whether the person changes one request in the middle of the work: the first write is stopped with the
            message, and the changed request is what is judged. For kind=possible and the levels explicit and implicit.
        user: Person of the level `persona`: `rules` tells facts when asked, `oracle` tells everything in the first
            message, with `none` the instruction holds everything, and with `model` a model chooses the words
            (`--user-model`). The requests are the same in each.
        writes: Number of requests of a task; 0 draws one, two or three.
        interface: How the agent reaches the applications: `tools`, or `pages` in a browser. The tasks are the same.
        knobs: Options of the applications' generators, as a table by application (from Python only).
    """

    def __init__(
        self,
        *,
        app: str,
        level: str = "mixed",
        kind: str = "possible",
        user: str = "rules",
        writes: int = 0,
        changed: bool = False,
        interface: str = "tools",
        knobs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        _require_types(
            app=app, level=level, kind=kind, user=user, writes=writes, changed=changed, interface=interface, knobs=knobs
        )
        _require_interface(interface, user=user, changed=changed)
        if level not in (*LEVELS, "mixed"):
            raise UserError(f"level={level} of the family 'services': expected {', '.join(LEVELS)} or mixed")
        if not 0 <= writes <= _MOST_WRITES:
            raise UserError(f"writes={writes} of the family 'services': expected 0 to {_MOST_WRITES}")
        if kind != "mixed" and not set(kind.split("+")) <= set(KINDS):
            raise UserError(f"kind={kind} of the family 'services': expected {', '.join(KINDS)}, joined by +, or mixed")
        if user not in USER_MODES:
            raise UserError(f"user={user} of the family 'services': expected {', '.join(USER_MODES)}")
        if user != "rules" and level not in ("persona", "mixed"):
            raise UserError(f"user={user} of the family 'services': level={level} has no person; add level=persona")
        self._apps = tuple(name for name in app.split("+") if name)
        if not self._apps:
            raise UserError("app= of the family 'services': name an application, as app=shop or app=shop+mail")
        self._levels: tuple[Level, ...] = tuple(one for one in LEVELS if level in (one, "mixed"))
        if changed:
            if kind != "possible" or level == "persona":
                raise UserError("changed=true of the family 'services' needs kind=possible, level=explicit or implicit")
            self._levels = tuple(one for one in self._levels if one != "persona")
        self._changed = changed
        self._has_pages = interface == "pages"
        self._kind = kind
        self._user: UserMode = next(mode for mode in USER_MODES if mode == user)
        self._writes = writes
        self._held: tuple[int, Descriptions, Walker] | None = None
        self._knobs = {name: dict(table) for name, table in (knobs or {}).items()}

    @cached_property
    def _services(self) -> tuple[Service, ...]:
        services = tuple(load("services", name) for name in self._apps)
        try:
            found = compose(services).applications
        except ValueError as exc:
            raise UserError(f"{self._application}: {exc}") from exc
        if not any(service.questions or any(a.wish for a in service.actions.values()) for service in found):
            raise UserError(
                f"{self._application}: no action has a `wish`, so that tasks cannot ask for anything there; tasks of "
                "benchmarks have families of their own (`assay plugins`)"
            )
        return found

    @property
    def _application(self) -> str:
        """The option `app` for errors."""
        return f"app={'+'.join(self._apps)} of the family 'services'"

    @cached_property
    def _world_services(self) -> tuple[Service, ...]:
        """The applications, and the ticket if there is something to decline or to answer."""
        return self._services if self._kinds == ("possible",) else (*self._services, ticket)

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        """Kinds in the order in which they take turns. Raises `UserError` if the applications lack one."""
        contracts = [text for service in self._services for text in service.policy.contracts]
        wished = [a.name for service in self._services for a in service.actions.values() if a.wish]
        lacking: dict[Kind, str] = {}
        if not forbidden_actions(wished, contracts):
            lacking["forbidden"] = "have no rule that forbids a call by itself"
        if not any(service.questions for service in self._services):
            lacking["question"] = "declare no questions"
        if self._levels == ("persona",):
            lacking["ambiguous"] = "are served for a person who can be asked (level=persona)"
        if self._kind == "mixed":
            return tuple(kind for kind in KINDS if kind not in lacking)
        kinds = tuple(kind for kind in KINDS if kind in self._kind.split("+"))
        if wrong := [kind for kind in kinds if kind in lacking]:
            named = ", ".join(service.name for service in self._services)
            raise UserError(f"kind={wrong[0]} of the family 'services': the applications {named} {lacking[wrong[0]]}")
        return kinds

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        made: list[Task] = []
        outcomes: set[bytes] = set()
        missed = attempts = exhausted = barren = 0
        while len(made) < n and barren < _BARREN_WORLDS:
            number = len(made) // _TASKS_OF_A_WORLD + attempts // _TRIES + exhausted
            attempts += 1
            task = self._task(seed, len(made), self._world_seed(seed, number), attempts, outcomes)
            if task is not None:
                made.append(task)
                missed = barren = 0
                continue
            missed += 1
            if missed == _TRIES:
                missed = 0
                exhausted, barren = exhausted + 1, barren + 1
        return tuple(made)

    def _world_of(self, world_seed: int) -> tuple[Descriptions, Walker]:
        """Returns what draws and describes in a world; that of the last one is held, because it is asked often."""
        if self._held is None or self._held[0] != world_seed:
            try:
                world = ServiceWorld.of(self._world_services, world_seed, self._knobs)
            except ValueError as exc:
                raise UserError(f"{self._application}: {exc}") from exc
            self._held = world_seed, Descriptions(world), Walker(world)
        return self._held[1:]

    def _world_seed(self, seed: int, number: int) -> int:
        words = f"{'+'.join(service.name for service in self._services)}/{seed}/{number}"
        return int.from_bytes(blake3(words.encode()).digest()[:6], "big")

    def _task(self, seed: int, number: int, world_seed: int, attempt: int, outcomes: set[bytes]) -> Task | None:
        draw = random.Random(f"{world_seed}/{attempt}")
        descriptions, walker = self._world_of(world_seed)
        level = self._levels[number % len(self._levels)]
        kind = self._kinds[number // len(self._levels) % len(self._kinds)]
        if kind == "ambiguous" and level == "persona":
            level = "implicit"
        try:
            draft = self._draft(descriptions, walker, kind, draw)
        except Unspeakable:
            return None
        return None if draft is None else self._task_of(draft, (seed, number, level, kind), draw, outcomes)

    def _task_of(
        self, draft: Draft, named: tuple[int, int, Level, Kind], draw: random.Random, outcomes: set[bytes]
    ) -> Task | None:
        """Returns the task of a plan in the world that is held; None if it is not sound, or its outcome is known.

        Args:
            draft: The plan.
            named: Seed, number, level and kind of the task.
            draw: Source of randomness.
            outcomes: Keys of outcomes that other tasks have; those of this one are added.
        """
        assert self._held is not None, "a plan is drawn in a world"
        world = self._held[1].world
        seed, number, level, kind = named
        asked = draft.asked or draft.walk
        wording = write_instruction(draft.wishes, asked, level, draw.randrange(1_000), self._user)
        done = play(world, draft.walk.plan)
        if outcome_key(done) in outcomes or any(call.code is not None for call in done.calls):
            return None
        orders = {outcome_key(done): draft.walk.plan} if draft.answers else _accepted_orders(world, draft.walk.plan)
        if orders is None or not outcomes.isdisjoint(orders) or not self._is_sound(world, draft, wording, set(orders)):
            return None
        outcomes.update(orders)
        planned = _Planned(seed, number, level, kind, draft, wording, tuple(orders.values()))
        return self._build_task(planned, world, done)

    def _draft(self, descriptions: Descriptions, walker: Walker, kind: Kind, draw: random.Random) -> Draft | None:
        """Returns a plan of a kind that keeps the policy, and its wishes. Raises `Unspeakable`."""
        count = self._writes or draw.choice((1, 2, 3))
        if self._changed:
            draft = draw_changed(descriptions, walker, count, draw)
        elif kind == "possible":
            draft = draw_possible(walker, count, draw)
        elif kind == "question":
            draft = draw_questions(descriptions, walker, count, draw)
        else:
            draft = draw_declined(descriptions, walker, kind, count, draw)
        contracts = descriptions.world.policy.contracts
        if draft is not None and contracts:
            walk = keep_policy(descriptions.world, draft.walk, contracts)
            draft = None if walk is None else draft._replace(walk=walk)
        if draft is None or draft.wishes:
            return draft
        return draft._replace(wishes=tuple(wish_of(descriptions, call) for call in draft.walk.writes))

    def _is_sound(self, world: ServiceWorld, draft: Draft, wording: Wording, keys: set[bytes]) -> bool:
        """Returns whether reading, and the plan in another world, do not lead to one of the outcomes, and the text
        holds no generated identifier."""
        plan, actions = draft.walk.plan, world.composition.actions
        reads = [call for call in plan if actions[call.action].reads_only]
        if not keys.isdisjoint((outcome_key(world), outcome_key(play(world, reads)))):
            return False
        said = wording.text if wording.script is None else canonical_bytes(wording.script).decode()
        said += draft.change
        generated = {value for call in draft.walk.writes for _, value in generated_arguments(world, call)}
        generated.update(refusal.record_id for refusal in draft.refusals)
        if any(value in said for value in generated):
            return False
        elsewhere = ServiceWorld.of(self._world_services, world.seed + 1, self._knobs)
        if draft.refusals or draft.answers:
            is_guessed = guess_probability(world, elsewhere, draft) > MOST_GUESSED
            return not is_guessed and not is_known_in(elsewhere, world, draft)
        blind = play(world, foreign_plan(world, elsewhere, plan))  # the same plan, if the request names all of it
        return keys.isdisjoint((outcome_key(play(elsewhere, plan)), outcome_key(blind)))

    def _build_task(self, planned: _Planned, world: ServiceWorld, done: ServiceWorld) -> Task:
        """Builds the task of a plan, which was played from `world` to `done`."""
        seed, number, level, kind, draft, wording, orders = planned
        walk = draft.walk
        services, knobs = [*self._apps], dict(self._knobs)
        if self._world_services != self._services:
            services.append(ticket.name)
        if wording.script is not None:
            services.append(conversation.name)
            knobs[conversation.name] = {"script": msgspec.to_builtins(wording.script)}
            knobs[conversation.name] |= {"driver": "model"} if self._user == "model" else {}
        plan, consents = walk.plan, done.policy.consents
        if wording.script is not None and consents:
            plan = ask_for_consents(draft, wording.script, {consent.action for consent in consents})
        parameters: dict[str, Any] = {"services": services, "plan": msgspec.to_builtins(plan)}
        if knobs:
            parameters["knobs"] = knobs
        if draft.change:
            parameters[WRAP] = [{"kind": Changed.kind, "text": draft.change}]
        state: dict[str, Any] = {"outcomes": list(_outcomes(world, draft, orders))}
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
        environment = EnvironmentSpec("sites" if self._has_pages else "services", parameters, done.seed)
        opening = [_PAGES] if self._has_pages else []
        instruction = "\n\n".join([wording.text, *opening, *_rules(self._world_services)])
        names = [service.name for service in self._services]
        more: tuple[str, ...] = ("pages",) if self._has_pages else ()
        more += (Changed.kind,) if draft.change else () if kind == "possible" else (kind,)
        if level == "persona" and self._user != "rules":
            more += (f"user-{self._user}",)
        return Task(
            id="-".join(["services", *names, level, *more, f"w{len(walk.writes)}", str(seed), str(number)]),
            instruction=instruction,
            environment=environment,
            checks=tuple(checks),
            digest=digest_record([instruction, environment, checks]),
            tags=("services", level, *more, *names),
            source=f"family services, {'+'.join(names)}, seed {seed}",
            metadata={"given": round(wording.share_given, 3), "writes": len(walk.writes), "calls": len(plan)},
        )


def _require_interface(interface: str, *, user: str, changed: bool) -> None:
    """Raises `UserError` for an unknown interface, and for what pages do not offer."""
    if interface not in ("tools", "pages"):
        raise UserError(f"interface={interface} of the family 'services': expected tools or pages")
    if interface == "pages" and (changed or user == "model"):
        raise UserError(
            "interface=pages of the family 'services' goes with changed=false and user=rules, oracle or none"
        )


def _require_types(**options: Any) -> None:
    """Refuses options of another type than the family's, as a command line may give them. Raises `UserError`."""
    for name, value in options.items():
        expected = "a text"
        is_right = isinstance(value, str)
        if name == "writes":
            expected, is_right = "a whole number", type(value) is int
        elif name == "changed":
            expected, is_right = "true or false", isinstance(value, bool)
        elif name == "knobs":
            expected = "a table of tables, from Python"
            tables = value.values() if isinstance(value, Mapping) else [value] if value is not None else []
            is_right = all(isinstance(table, Mapping) for table in tables)
        if not is_right:
            raise UserError(f"{name}={value} of the family 'services': expected {expected}")


def _accepted_orders(world: ServiceWorld, plan: Sequence[PlannedCall]) -> dict[bytes, Sequence[PlannedCall]] | None:
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
