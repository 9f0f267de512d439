"""The task family `services`: tasks from walks over the actions of one or several applications.

A plan becomes a task if it keeps the policy; its outcome is not that of doing nothing or of its reads alone; the same
calls in a world of another seed do not lead to it, so that the agent has to read; no generated identifier is in the
text; and no other task has the same outcome. The same `n`, `seed` and options give the same tasks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

from assay.environments.services.composition import compose
from assay.environments.services.conversation import conversation
from assay.environments.services.declaration import Service
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import outcome_key, play
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.plugins import load
from assay.records import Check, EnvironmentSpec, Task, canonical_bytes, digest_record

from .conduct import keep_policy
from .instruction import LEVELS, Descriptions, Level, Unspeakable, Wording, write_instruction
from .walk import Walk, Walker

_TRIES: Final = 400
"""Walks drawn for one task before the applications count as exhausted."""
_TASKS_OF_A_WORLD: Final = 5
_MOST_WRITES: Final = 8


class _Draft(NamedTuple):
    """A sound plan and its wording."""

    seed: int
    number: int
    level: Level
    walk: Walk
    wording: Wording


class ServiceTasks:
    """Tasks in worlds of services.

    Args:
        app: Applications, joined by `+`: `shop`, `airline+mail`, or `path/file.py:attribute`.
        level: `explicit`, `implicit`, `persona`, or `mixed` for all three in turn.
        writes: Number of writes of a task; 0 draws one, two or three.
        knobs: Options of the applications' generators, as a table by application (from Python only).
    """

    def __init__(
        self,
        *,
        app: str,
        level: str = "mixed",
        writes: int = 0,
        knobs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        if level not in (*LEVELS, "mixed"):
            raise UserError(f"level={level} of the family 'services': expected {', '.join(LEVELS)} or mixed")
        if not 0 <= writes <= _MOST_WRITES:
            raise UserError(f"writes={writes} of the family 'services': expected 0 to {_MOST_WRITES}")
        self._apps = tuple(name for name in app.split("+") if name)
        if not self._apps:
            raise UserError("app= of the family 'services': name an application, as app=shop or app=shop+mail")
        self._levels: tuple[Level, ...] = tuple(one for one in LEVELS if level in (one, "mixed"))
        self._writes = writes
        self._held: tuple[int, Descriptions, Walker] | None = None
        self._knobs = {name: dict(table) for name, table in (knobs or {}).items()}

    @cached_property
    def _services(self) -> tuple[Service, ...]:
        services = tuple(load("services", name) for name in self._apps)
        try:
            return compose(services).applications
        except ValueError as exc:
            raise UserError(f"app={'+'.join(self._apps)} of the family 'services': {exc}") from exc

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        made: list[Task] = []
        outcomes: set[bytes] = set()
        missed = attempts = 0
        while len(made) < n and missed < _TRIES:
            # A world that gives no more tasks is left after as many attempts as may fail in a row.
            world_seed = self._world_seed(seed, len(made) // _TASKS_OF_A_WORLD + attempts // _TRIES)
            attempts += 1
            task = self._task(seed, len(made), world_seed, attempts, outcomes)
            if task is None:
                missed += 1
            else:
                made.append(task)
                missed = 0
        return tuple(made)

    def _world_of(self, world_seed: int) -> tuple[Descriptions, Walker]:
        """Returns what draws and describes in a world; that of the last one is held, because it is asked often."""
        if self._held is None or self._held[0] != world_seed:
            world = ServiceWorld.of(self._services, world_seed, self._knobs)
            self._held = world_seed, Descriptions(world), Walker(world)
        return self._held[1:]

    def _world_seed(self, seed: int, number: int) -> int:
        words = f"{'+'.join(service.name for service in self._services)}/{seed}/{number}"
        return int.from_bytes(blake3(words.encode()).digest()[:6], "big")

    def _task(self, seed: int, number: int, world_seed: int, attempt: int, outcomes: set[bytes]) -> Task | None:
        draw = random.Random(f"{world_seed}/{attempt}")
        descriptions, walker = self._world_of(world_seed)
        world = descriptions.world
        walk = walker.walk(self._writes or draw.choice((1, 2, 3)), draw)
        contracts = world.policy.contracts
        if walk is not None and contracts:
            walk = keep_policy(world, walk, contracts)
        if walk is None:
            return None
        level = self._levels[number % len(self._levels)]
        try:
            wording = write_instruction(descriptions, walk, level, draw.randrange(1_000))
        except Unspeakable:
            return None
        done = play(world, walk.plan)
        key = outcome_key(done)
        if key in outcomes or any(call.code is not None for call in done.calls):
            return None
        if not self._is_sound(world, walk, wording, key):
            return None
        outcomes.add(key)
        return self._build_task(_Draft(seed, number, level, walk, wording), done)

    def _is_sound(self, world: ServiceWorld, walk: Walk, wording: Wording, key: bytes) -> bool:
        """Returns whether reading, and the plan in another world, do not lead to the outcome, and the text holds no
        generated identifier."""
        reads = [call for call in walk.plan if call not in walk.writes]
        if key in (outcome_key(world), outcome_key(play(world, reads))):
            return False
        said = wording.text if wording.script is None else canonical_bytes(wording.script).decode()
        if any(value in said for value in _generated(world, walk)):
            return False
        elsewhere = ServiceWorld.of(self._services, world.seed + 1, self._knobs)
        return outcome_key(play(elsewhere, walk.plan)) != key

    def _build_task(self, draft: _Draft, done: ServiceWorld) -> Task:
        """Builds the task of a draft, whose plan was played in `done`."""
        seed, number, level, walk, wording = draft
        services, knobs = list(self._apps), dict(self._knobs)
        if wording.script is not None:
            services.append(conversation.name)
            knobs[conversation.name] = {"script": msgspec.to_builtins(wording.script)}
        parameters: dict[str, Any] = {"services": services, "plan": msgspec.to_builtins(walk.plan)}
        if knobs:
            parameters["knobs"] = knobs
        changes = done.database.changes(judged_only=True)
        outcome = {"changes": as_json(expected_changes(done.composition.tables, changes))}
        checks = [Check("state", "state", {"outcomes": [outcome]})]
        if done.policy.contracts:
            checks.append(Check("policy", "policy", {"contracts": list(done.policy.contracts)}))
        environment = EnvironmentSpec("services", parameters, done.seed)
        instruction = "\n\n".join([wording.text, *_rules(self._services)])
        names = [service.name for service in self._services]
        return Task(
            id=f"services-{'-'.join(names)}-{level}-w{len(walk.writes)}-{seed}-{number}",
            instruction=instruction,
            environment=environment,
            checks=tuple(checks),
            digest=digest_record([instruction, environment, checks]),
            tags=("services", level, *names),
            source=f"family services, {'+'.join(names)}, seed {seed}",
            metadata={"given": round(wording.share_given, 3), "writes": len(walk.writes), "calls": len(walk.plan)},
        )


def _generated(world: ServiceWorld, walk: Walk) -> Iterator[str]:
    """Yields the generated identifiers among the arguments of the writes."""
    prefixes = [column.prefix for table in world.composition.tables for column in table.columns if column.prefix]
    for call in walk.writes:
        takes = world.composition.actions[call.action].takes
        for name in takes:
            value = str(call.arguments.get(name, ""))
            if any(value.startswith(prefix) for prefix in prefixes):
                yield value


def _rules(services: Sequence[Service]) -> list[str]:
    """Returns the policies as the agent reads them."""
    return [
        f"Policy of {service.name} ({service.summary})\n{service.policy.text.strip()}"
        for service in services
        if service.policy.text.strip()
    ]
