"""The check `economy`: what an attempt read and asked beyond what its task needs.

A process verdict: whether the task was done is decided by others. The world's own log is counted: views of its
applications by the agent, each call once more if it was repeated, and messages to the person.

Covered: refused calls are not counted. Not covered: a task may be done with fewer reads than the plan needed, so the
excess may be below zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.clock import clock
from assay.environments.services.conversation import SEND, conversation
from assay.environments.services.options import read_options
from assay.environments.services.ticket import ticket
from assay.errors import TaskError
from assay.verify._ruling import Ruling
from assay.verify._world_check import make_result, read_parameters, refuse_workspace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput

ECONOMY: Final = "economy"
"""Kind of the check, and of its evidence."""
_NOT_READS: Final = frozenset({clock.name, conversation.name, ticket.name})


class EconomyParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `economy`."""

    reads: int
    """Reads without which the arguments of the writes are not known."""
    questions: int
    """Messages without which the request is not known."""


class Economy(NamedTuple):
    """Reads and questions that an attempt used, and those that its task needs."""

    reads: int
    needed_reads: int
    questions: int
    needed_questions: int


class EconomyCheck:
    """Counts the reads and messages of an attempt."""

    kind = ECONOMY

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: a workspace has no log of calls."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        needed = read_parameters(given, EconomyParameters)
        calls = given.facts.get("calls")
        if isinstance(calls, list | tuple):
            used = count_use(calls, _views(given.task.environment.parameters), needed)
            cited.add("audit", ECONOMY, used._asdict())
            ruling = _rule(used)
        else:
            ruling = Ruling("unknown", None, "the world does not report its calls")
        return make_result(given, ruling, cited, kind="process")


def _views(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Returns the names of the views of a world's applications. Raises `TaskError`."""
    try:
        _, composition = read_options(parameters)
    except ValueError as exc:
        raise TaskError(f"the check {ECONOMY!r}: {exc}") from exc
    actions = composition.actions.values()
    return frozenset(one.name for one in actions if one.reads_only and one.service not in _NOT_READS)


def count_use(calls: Iterable[Any], views: frozenset[str], needed: EconomyParameters) -> Economy:
    """Returns what the calls of a world's log used."""
    reads = questions = 0
    for call in calls:
        if isinstance(call, Mapping) and call.get("role") == "agent" and call.get("code") is None:
            reads += call.get("action") in views
            questions += call.get("action") == SEND
    return Economy(reads, needed.reads, questions, needed.questions)


def _rule(used: Economy) -> Ruling:
    spent, least = used.reads + used.questions, used.needed_reads + used.needed_questions
    text = (
        f"{used.reads} reads, {used.needed_reads} needed; {used.questions} messages to the person, "
        f"{used.needed_questions} needed"
    )
    score = 1.0 if spent <= least else least / spent
    return Ruling("pass" if spent <= least else "fail", score, text)
