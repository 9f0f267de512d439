"""The reads without which the arguments of a plan's writes are not known.

Reads are taken out of the reference plan one by one, from the last, as long as every generated identifier in what is
left is shown by a read before it, the policy is kept, and the outcome is the same. What is left cannot be made shorter
by leaving a read out; a plan with other reads may be shorter still.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.environments.services.clock import clock
from assay.environments.services.conversation import conversation
from assay.environments.services.plans import PlannedCall, outcome_key, play, play_recorded
from assay.environments.services.ticket import ticket
from assay.environments.services.world import ServiceWorld

from .policy_compliance import broken_rules
from .requests import Draft

HELPERS: Final = frozenset({clock.name, conversation.name, ticket.name})
"""Services beside the applications of a task; none of their actions is a read."""


def is_read(world: ServiceWorld, action: str) -> bool:
    """Returns whether an action is a view of an application."""
    declared = world.composition.actions.get(action)
    return declared is not None and declared.reads_only and declared.service not in HELPERS


def needed_reads(world: ServiceWorld, draft: Draft) -> int:
    """Returns the number of reads that a draft needs; of questions, those of its plan."""
    plan = list(draft.walk.plan)
    reads = sum(is_read(world, call.action) for call in plan)
    if draft.answers:
        return reads
    contracts = world.policy.contracts
    right = outcome_key(play(world, plan))
    at = len(plan)
    while at:
        at -= 1
        if not is_read(world, plan[at].action):
            continue
        shorter = [*plan[:at], *plan[at + 1 :]]
        if not _is_known(world, shorter) or outcome_key(play(world, shorter)) != right:
            continue
        if contracts and broken_rules(world, shorter, contracts):
            continue
        plan = shorter
        reads -= 1
    return reads


def _is_known(world: ServiceWorld, plan: Sequence[PlannedCall]) -> bool:
    """Returns whether each generated identifier in a plan is in the result of a call before it."""
    shown = ""
    for call, (_, answer) in zip(plan, play_recorded(world, plan), strict=True):
        for value in call.arguments.values():
            if world.composition.generated_kind(value) is not None and f'"{value}"' not in shown:
                return False
        shown += answer.content
    return True
