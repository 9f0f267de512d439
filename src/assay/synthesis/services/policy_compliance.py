"""Makes a plan keep the policy: reads that a rule demands are put before the write that needs them, and so is the
person's consent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from assay.environments.services.conversation import SEND
from assay.environments.services.declaration import Action
from assay.environments.services.plans import PlannedCall, outcome_key, play
from assay.environments.services.users import UserScript, begin, reply
from assay.environments.services.world import ServiceWorld
from assay.verify.logged_calls import calls_of_plan
from assay.verify.service_checks import RuleResult, rule_results

from .requests import Draft
from .walk import Walk

_MOST_ASKED: Final = 8
"""Times that the consent to one write is asked for."""
_MOST_ADDED: Final = 6
"""Reads that are added to one plan."""


def keep_policy(world: ServiceWorld, walk: Walk, contracts: Sequence[str]) -> Walk | None:
    """Returns the walk with the reads that its policy demands; None if no read makes the plan keep it."""
    plan = list(walk.plan)
    for _ in range(_MOST_ADDED + 1):
        broken = broken_rules(world, plan, contracts)
        if not broken:
            return walk._replace(plan=tuple(plan))
        if any(result.status == "unknown" or not result.broken for result in broken):
            return None
        better = _with_read(world, plan, broken, contracts)
        if better is None:
            return None
        plan = better
    return None


def ask_for_consents(draft: Draft, script: UserScript, actions: Collection[str]) -> tuple[PlannedCall, ...] | None:
    """Returns the plan of a draft with a question for the person's consent right before each of these actions; None if
    they agree to none of many."""
    state, _ = begin(script)
    plan: list[PlannedCall] = []
    for call in draft.walk.plan:
        if call.action in actions and call in draft.walk.writes:
            wish = draft.final_wishes[draft.walk.writes.index(call)]
            text = f"I am going to {wish.text}. Do you agree?"
            for _ in range(_MOST_ASKED):  # who hears of something that they have not told says that first
                agreed = state.agreed
                state, _, _ = reply(script, state, text)
                plan.append(PlannedCall(SEND, {"text": text}))
                if state.agreed != agreed:
                    break
            else:
                return None
        plan.append(call)
    return tuple(plan)


def broken_rules(world: ServiceWorld, plan: Sequence[PlannedCall], contracts: Sequence[str]) -> list[RuleResult]:
    """Returns the rules that a plan does not keep."""
    calls = calls_of_plan(world, plan)
    return [result for result in rule_results(contracts, calls, "the policy") if result.status != "pass"]


def _with_read(
    world: ServiceWorld, plan: list[PlannedCall], broken: Sequence[RuleResult], contracts: Sequence[str]
) -> list[PlannedCall] | None:
    """Returns the plan with one read more, which breaks fewer rules or breaks them at fewer calls."""
    at = broken[0].broken[0]
    now = sum(len(result.broken) for result in broken)
    right = outcome_key(play(world, plan))
    before = play(world, plan[:at])
    for view in world.composition.actions.values():
        if not view.reads_only or "agent" not in view.roles:
            continue
        for arguments in _arguments(view, plan, at):
            call = PlannedCall(view.name, arguments)
            if before.peek(call.action, call.arguments).error:
                continue
            candidate = [*plan[:at], call, *plan[at:]]
            found = broken_rules(world, candidate, contracts)
            if sum(len(result.broken) or 1 for result in found) < now and outcome_key(play(world, candidate)) == right:
                return candidate
    return None


def _arguments(view: Action, plan: Sequence[PlannedCall], at: int) -> Iterator[dict[str, Any]]:
    """Yields arguments for a view from those of the call at `at`, or of an earlier call of the same view."""
    required = view.parameters.get("required", ())
    properties = view.parameters.get("properties", {})
    given = plan[at].arguments
    shared = {name: given[name] for name in properties if name in given}
    if all(name in shared for name in required):
        yield {name: shared[name] for name in required}
        if len(shared) > len(required):
            yield shared
    yield from (call.arguments for call in plan[:at] if call.action == view.name)
    texts = [name for name in required if name not in shared and properties[name].get("type") == "string"]
    words = [value for value in given.values() if isinstance(value, str)]
    if len(texts) == 1 and words and all(name in shared or name in texts for name in required):
        yield {name: shared.get(name, words[0][:100]) for name in required}
