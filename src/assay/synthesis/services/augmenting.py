"""Other plans of the same tasks: with tools and parameters of other names, and with independent writes exchanged.

A variant is kept where it replays: no call is refused, the rules of the policy hold, and the world ends in the plan's
outcome (equal digests for other names; for another order equal up to generated identifiers). A kept variant is a task
whose reference plan it is: `assay run --agent oracle` makes it a verified attempt, of which training rows are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.environments.services.disturbances.world import DisturbedWorld
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.world import ServiceWorld
from assay.environments.task_digest import digest_task
from assay.environments.wrapping import WRAP
from assay.records import Task, canonical_bytes

from .planned import PlannedTask, UnsuitableError, derive_task, keeps_policy
from .variants_config import AugmentConfig

RENAMED: Final = "renamed"
COMMUTED: Final = "commuted"


class AugmentCount(msgspec.Struct, frozen=True):
    """Variants of one kind."""

    kind: str
    tried: int
    kept: int
    dropped: dict[str, int]
    """Dropped ones by reason."""


class _Variant(NamedTuple):
    kind: str
    task: Task | None
    reason: str
    key: bytes


def augment_tasks(tasks: Iterable[Task], config: AugmentConfig) -> tuple[tuple[Task, ...], tuple[AugmentCount, ...]]:
    """Returns the kept variants, and how many were tried and kept of each kind."""
    kept: list[Task] = []
    found: list[_Variant] = []
    for task in tasks:
        try:
            variants = list(_variants(PlannedTask(task), config))
        except UnsuitableError as exc:
            variants = [_Variant(kind, None, str(exc), b"") for kind in (RENAMED, COMMUTED)]
        seen: set[bytes] = set()
        for variant in variants:
            if variant.task is not None and variant.key in seen:
                found.append(variant._replace(task=None, reason="it is a variant that was kept before"))
                continue
            seen.add(variant.key)
            found.append(variant)
            kept += [] if variant.task is None else [variant.task]
    return tuple(kept), tuple(_count(kind, [one for one in found if one.kind == kind]) for kind in (RENAMED, COMMUTED))


def _count(kind: str, variants: list[_Variant]) -> AugmentCount:
    dropped: dict[str, int] = {}
    for one in variants:
        if one.task is None:
            dropped[one.reason] = dropped.get(one.reason, 0) + 1
    return AugmentCount(kind, len(variants), len(variants) - sum(dropped.values()), dropped)


def _variants(planned: PlannedTask, config: AugmentConfig) -> Iterator[_Variant]:
    if WRAP in planned.task.environment.parameters or planned.task.environment.kind != "services":
        raise UnsuitableError("its world is disturbed, or served as pages")
    for number in range(config.names):
        yield _renamed(planned, config.rate, config.seed + number)
    exchanged = list(_exchanges(planned))
    for number, (places, plan) in enumerate(exchanged[: config.orders] if config.orders else []):
        yield _commuted(planned, plan, f"{COMMUTED}-{number}", places)


def _renamed(planned: PlannedTask, rate: float, seed: int) -> _Variant:
    wrap = [{"kind": RENAMED, "rate": rate, "seed": seed}]
    own = {name: value for name, value in planned.task.environment.parameters.items() if name != WRAP}
    disturbed = DisturbedWorld(ServiceWorld(own, planned.task.environment.seed), wrap)
    calls = disturbed.oracle()
    key = canonical_bytes([(call.name, call.parsed) for call in calls])
    if key == canonical_bytes([(call.action, call.arguments) for call in planned.plan]):
        return _Variant(RENAMED, None, "no name of the plan is another one", key)
    refused = [call.name for call in calls if disturbed.act(call.name, call.parsed or {}).error]
    if refused:
        return _Variant(RENAMED, None, "a call is refused", key)
    if disturbed.service.database.digest() != play(planned.world, planned.plan).database.digest():
        return _Variant(RENAMED, None, "it ends in another state", key)
    made = derive_task(planned, f"{RENAMED}-{seed}", metadata=_augmented(RENAMED, seed))
    parameters: dict[str, Any] = {**made.environment.parameters, WRAP: wrap}
    environment = replace(made.environment, parameters=parameters)
    instruction = disturbed.rewrite(planned.instruction)
    digest = digest_task(instruction, environment, made.checks)
    return _Variant(RENAMED, replace(made, environment=environment, instruction=instruction, digest=digest), "", key)


def _exchanges(planned: PlannedTask) -> Iterator[tuple[list[int], list[PlannedCall]]]:
    """Yields the plan with two of its writes exchanged, and their places."""
    acts = {id(act) for act in planned.acts}
    places = [at for at, call in enumerate(planned.plan) if id(call) in acts]
    for one, two in combinations(places, 2):
        plan = list(planned.plan)
        plan[one], plan[two] = plan[two], plan[one]
        yield [one, two], plan


def _commuted(planned: PlannedTask, plan: list[PlannedCall], suffix: str, places: list[int]) -> _Variant:
    key = canonical_bytes([(call.action, call.arguments) for call in plan])
    if plan == list(planned.plan):
        return _Variant(COMMUTED, None, "both writes are the same", key)
    if not planned.leads_to(plan):
        return _Variant(COMMUTED, None, "a call is refused, or it ends in another state", key)
    if not keeps_policy(planned.world, plan):
        return _Variant(COMMUTED, None, "it breaks a rule of the policy", key)
    return _Variant(COMMUTED, derive_task(planned, suffix, plan=plan, metadata=_augmented(COMMUTED, places)), "", key)


def _augmented(kind: str, detail: Any) -> dict[str, Any]:
    return {"augmented": {"kind": kind, "of": detail}}
