"""Verdict card: outcome, process, integrity and safety of an attempt, and of a task over its attempts.

Invariant: a pass that lacks integrity, or whose re-verification failed, is never called a plain pass.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from assay.records import Separation, Trajectory, Verdict, VerdictStatus
from assay.verdicts import (
    OutcomeClass,
    current_verdicts_of,
    is_imported,
    is_own_praise,
    outcome_verdicts,
    trust_of,
    worst_finding,
)

from .interface import Finding
from .judge import decides

CITED = 20


class Mark(msgspec.Struct, frozen=True):
    """One of an attempt's verdicts, as its card shows it."""

    status: VerdictStatus
    score: float | None
    reason: str
    check: str


class Card(msgspec.Struct, frozen=True):
    """Card of one attempt."""

    run: str
    attempt: str
    chain: str
    task: str
    agent: str
    model: str | None
    headline: str
    """Outcome in words, with doubts: `pass (integrity failed)`."""
    trusted_pass: bool
    outcome: VerdictStatus | None
    score: float | None
    imported: bool
    """True if the outcome is another system's claim."""
    reverified: str | None
    integrity: Mark | None
    process: Mark | None
    safety: tuple[Mark, ...]
    findings: tuple[Finding, ...]
    """Findings, the deciding ones first."""
    outcome_class: OutcomeClass = "unknown"
    """Class under which every screen counts the attempt."""
    separation: Separation = "unknown"
    """Grade of the outcome: separation of the deciding process from the agent's files."""


class TaskCard(msgspec.Struct, frozen=True):
    """All attempts at one task by one agent with one model."""

    task: str
    agent: str
    model: str | None
    attempts: int
    passed: int
    doubtful: int
    """Passes with something against them: integrity, safety, re-verification, or grade of separation."""
    failed: int
    unknown: int
    """Attempts without evidence or verdict."""
    errors: int
    integrity_failed: int
    safety_failed: int
    process: float | None
    """Mean label-free quality, if any."""
    rules: dict[str, int]
    """Number of attempts with a finding, by rule."""


def card_of(trajectory: Trajectory, verdicts: Iterable[Verdict], findings: Sequence[Finding]) -> Card:
    """Returns the card of a trajectory with all its verdicts, where those of a new audit replace the same checks' older
    ones.
    """
    learnt = list(verdicts)
    every = {(v.kind, v.check): v for v in (*trajectory.verdicts, *learnt) if not is_own_praise(v)}
    newest = list(every.values())
    current, trust = current_verdicts_of(trajectory, learnt), trust_of(trajectory, learnt)
    return Card(
        run=trajectory.run,
        attempt=trajectory.attempt,
        chain=trajectory.chain,
        task=trajectory.task,
        agent=trajectory.agent,
        model=trajectory.model,
        headline=trust.headline,
        trusted_pass=trust.trusted,
        outcome=trajectory.outcome,
        score=current.score,
        imported=any(is_imported(verdict.marks) for verdict in outcome_verdicts(trajectory.verdicts)),
        reverified=current.reverified,
        integrity=_mark(newest, "integrity"),
        process=_mark(newest, "process"),
        safety=tuple(_as_mark(v) for v in newest if v.kind == "safety"),
        findings=tuple(sorted(findings, key=lambda finding: (not decides(finding), _ORDER[finding.severity])))[:CITED],
        outcome_class=trust.outcome_class,
        separation=trust.separation,
    )


_ORDER = {"critical": 0, "major": 1, "minor": 2, "note": 3}


def task_cards(cards: Iterable[Card]) -> tuple[TaskCard, ...]:
    """Returns the cards by task, agent and model, sorted."""
    groups: defaultdict[tuple[str, str, str], list[Card]] = defaultdict(list)
    for card in cards:
        groups[card.task, card.agent, card.model or ""].append(card)
    return tuple(_task_card(groups[key]) for key in sorted(groups))


def _task_card(cards: Sequence[Card]) -> TaskCard:
    rules = Counter(rule for card in cards for rule in {f.rule for f in card.findings if f.family != "attribution"})
    scores = [card.process.score for card in cards if card.process is not None and card.process.score is not None]
    classes = Counter(card.outcome_class for card in cards)
    return TaskCard(
        task=cards[0].task,
        agent=cards[0].agent,
        model=cards[0].model,
        attempts=len(cards),
        passed=classes["pass"],
        doubtful=classes["doubt"],
        failed=classes["fail"],
        unknown=classes["unknown"] + classes["open"],
        errors=classes["error"],
        integrity_failed=sum(card.integrity is not None and card.integrity.status == "fail" for card in cards),
        safety_failed=sum(any(mark.status == "fail" for mark in card.safety) for card in cards),
        process=round(sum(scores) / len(scores), 4) if scores else None,
        rules=dict(rules.most_common()),
    )


def _mark(verdicts: Sequence[Verdict], kind: str) -> Mark | None:
    found = [verdict for verdict in verdicts if verdict.kind == kind]
    worst = worst_finding(verdict.status for verdict in found)
    return next((_as_mark(verdict) for verdict in found if verdict.status == worst), None)


def _as_mark(verdict: Verdict) -> Mark:
    return Mark(verdict.status, verdict.score, verdict.reason, verdict.check)
