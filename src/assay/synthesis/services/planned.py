"""Contents of the plan of a task of services: its world, its writes, and the words by which each was asked for.

Everything is read back from the task's record, so that it works on tasks of a run, of a file, and of a family alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from msgspec.structs import replace

from assay.environments.services.conversation import SEND, conversation
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, outcome_key, play
from assay.environments.services.plans import writes as written_at
from assay.environments.services.ticket import answer_question, decline_request
from assay.environments.services.world import ServiceWorld
from assay.environments.task_digest import digest_task
from assay.environments.worlds.opening import SANDBOX
from assay.environments.wrapping import WRAP
from assay.errors import PluginLoadError
from assay.records import Check, Task
from assay.verify.logged_calls import calls_of_plan
from assay.verify.service_checks import keeps_consents, rule_results

from .instruction import Descriptions, Unspeakable, Wish, wish_of

PLAN: Final = "plan"
_WORLDS: Final = ("services", "sites")


class UnsuitableError(Exception):
    """A task that cannot be varied or read back; the message says why."""


class PlannedTask:
    """A task with its plan in an undisturbed world.

    Raises:
        UnsuitableError: It is no task of services with a plan, or its world cannot be opened.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        parameters = task.environment.parameters
        if task.environment.kind not in _WORLDS or not parameters.get(PLAN):
            raise UnsuitableError("it is not a task of services with a plan")
        own = {name: value for name, value in parameters.items() if name not in (WRAP, SANDBOX)}
        try:
            self.world = ServiceWorld(own, task.environment.seed)
        except (ValueError, PluginLoadError) as exc:
            raise UnsuitableError(f"its world cannot be opened: {str(exc)[:200]}") from exc
        self.plan = self.world.plan
        if not isinstance(task.instruction, str):
            raise UnsuitableError("its instruction is not one text")
        self.instruction = task.instruction

    @cached_property
    def descriptions(self) -> Descriptions:
        """How people refer to the rows of the world."""
        return Descriptions(self.world)

    @cached_property
    def acts(self) -> tuple[PlannedCall, ...]:
        """The writes of the plan, without what is said to a person."""
        return tuple(self.plan[at] for at in written_at(self.world, self.plan) if self.plan[at].action != SEND)

    def wish(self, act: PlannedCall) -> Wish | None:
        """Returns the words that ask for a write; None where its action has none, or a row has no description."""
        action = self.world.composition.actions.get(act.action)
        if action is None or not action.wish:
            return None
        try:
            return wish_of(self.descriptions, act)
        except Unspeakable:
            return None

    @cached_property
    def wording(self) -> str:
        """The first paragraph of the instruction, which asks; policies follow it."""
        return self.instruction.partition("\n\n")[0]

    def with_wording(self, text: str) -> str:
        """Returns the instruction with another first paragraph."""
        _, mark, rest = self.instruction.partition("\n\n")
        return text + mark + rest

    def require_wishes(self) -> tuple[Wish, ...]:
        """Returns the wish of each write, all of which the wording holds as they are.

        Raises:
            UnsuitableError: Another kind of request, a person, a disturbance, or a wording of another author.
        """
        parameters = self.task.environment.parameters
        if WRAP in parameters:
            raise UnsuitableError("its world is disturbed")
        if any(service.name == conversation.name for service in self.world.composition.services):
            raise UnsuitableError("a person tells what is wanted, and not the instruction alone")
        if any(act.action in (decline_request.__name__, answer_question.__name__) for act in self.acts):
            raise UnsuitableError("a request of it is a question or must be declined, which no write shows")
        wishes = []
        for act in self.acts:
            wish = self.wish(act)
            if wish is None or _capital(wish.text) not in _capital_all(self.wording, wish.text):
                raise UnsuitableError(f"its wording does not hold the request for {act.action} as the plan has it")
            wishes.append(wish)
        return tuple(wishes)

    def leads_to(self, plan: Sequence[PlannedCall]) -> bool:
        """Returns whether other calls lead to the outcome of the plan, without a refusal."""
        done = play(self.world, plan)
        is_refused = any(call.code is not None for call in done.calls[len(self.world.calls) :])
        return not is_refused and outcome_key(done) == self._outcome

    @cached_property
    def _outcome(self) -> bytes:
        return outcome_key(play(self.world, self.plan))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _capital_all(wording: str, text: str) -> str:
    """Returns a wording in which a text begins with a capital wherever it occurs."""
    return wording.replace(text, _capital(text))


def derive_task(
    planned: PlannedTask,
    suffix: str,
    *,
    instruction: str | None = None,
    plan: Sequence[PlannedCall] | None = None,
    outcome_of: Sequence[PlannedCall] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Task:
    """Returns a task made of another, with the original's digest in its metadata.

    Args:
        planned: The original.
        suffix: End of the new id.
        instruction: Another instruction.
        plan: Another plan.
        outcome_of: A plan whose outcome takes the place of the acceptable ones.
        metadata: What its metadata says beside.
    """
    task = planned.task
    environment, checks = task.environment, task.checks
    if plan is not None:
        calls = [{"action": call.action, "arguments": call.arguments} for call in plan]
        environment = replace(environment, parameters={**environment.parameters, PLAN: calls})
    if outcome_of is not None:
        changes = play(planned.world, outcome_of).database.changes(judged_only=True)
        outcome = {"changes": as_json(expected_changes(planned.world.composition.tables, changes))}
        checks = tuple(
            Check(one.name, one.kind, {**one.parameters, "outcomes": [outcome]}) if one.kind == "state" else one
            for one in checks
        )
    text = task.instruction if instruction is None else instruction
    return replace(
        task,
        id=f"{task.id}-{suffix}",
        instruction=text,
        environment=environment,
        checks=checks,
        digest=digest_task(text, environment, checks),
        metadata={**task.metadata, "derived_from": task.digest, **(metadata or {})},
    )


def keeps_policy(world: ServiceWorld, plan: Sequence[PlannedCall]) -> bool:
    """Returns whether every rule of the world's policy holds over a plan, and its person agreed to what needs it."""
    policy = world.policy
    results = rule_results(policy.contracts, calls_of_plan(world, plan), "the policy") if policy.contracts else []
    if any(result.status != "pass" for result in results):
        return False
    has_person = any(service.name == conversation.name for service in world.composition.services)
    return not has_person or keeps_consents(policy.consents, play(world, plan).facts())
