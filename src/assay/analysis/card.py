"""The verdict card: outcome, process, integrity and safety of an attempt side by side, and of a task over its attempts.

Invariant: a pass that lacks integrity, or whose state was judged again and did not pass, is never called a plain pass.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from assay.records import Trajectory, Verdict, VerdictStatus

from .interface import Finding
from .judge import decides

__all__ = ["Card", "Mark", "TaskCard", "card_of", "is_doubtful", "outcome_words", "task_cards"]

CITED = 20
_LACKING = {"fail": "integrity failed", "error": "integrity not judged", "unknown": "integrity unknown"}


class Mark(msgspec.Struct, frozen=True):
    """One of an attempt's verdicts, as its card shows it."""

    status: VerdictStatus
    score: float | None
    reason: str
    check: str


class Card(msgspec.Struct, frozen=True):
    """One attempt."""

    run: str
    attempt: str
    chain: str
    task: str
    agent: str
    model: str | None
    headline: str
    """The outcome in words, with what speaks against it: `pass (integrity failed)`."""
    trusted_pass: bool
    outcome: VerdictStatus | None
    score: float | None
    imported: bool
    """The outcome is what another system claimed."""
    reverified: str | None
    integrity: Mark | None
    process: Mark | None
    safety: tuple[Mark, ...]
    findings: tuple[Finding, ...]
    """Those that decide first."""


class TaskCard(msgspec.Struct, frozen=True):
    """All attempts at one task by one agent with one model."""

    task: str
    agent: str
    model: str | None
    attempts: int
    passed: int
    """Passes that nothing speaks against."""
    doubtful: int
    """Passes that lack integrity, or did not hold when they were judged again."""
    failed: int
    unknown: int
    """No evidence, or no verdict yet."""
    errors: int
    """Something around the attempt broke."""
    integrity_failed: int
    safety_failed: int
    process: float | None
    """Mean of the label-free quality, where there is one."""
    rules: dict[str, int]
    """In how many attempts each rule found something."""


def is_doubtful(outcome: VerdictStatus | None, integrity: VerdictStatus | None, reverified: str | None = None) -> bool:
    """Whether it is a pass that is not to be taken for one: an integrity that nothing shows is no integrity."""
    return outcome == "pass" and (integrity not in (None, "pass") or reverified in ("disagree", "flaky"))


def outcome_words(
    outcome: VerdictStatus | None,
    integrity: VerdictStatus | None = None,
    reverified: str | None = None,
    safety: VerdictStatus | None = None,
) -> str:
    """The outcome as it may be shown to somebody who reads nothing else."""
    against = []
    if integrity in _LACKING:
        against.append(_LACKING[integrity])
    if reverified in ("disagree", "flaky"):
        against.append("does not hold when judged again" if reverified == "disagree" else "flaky when judged again")
    if safety == "fail":
        against.append("safety failed")
    said = outcome or "-"
    return f"{said} ({', '.join(against)})" if against and outcome == "pass" else said


def card_of(
    trajectory: Trajectory, verdicts: Iterable[Verdict], findings: Sequence[Finding], reverified: str | None = None
) -> Card:
    """The card of an attempt.

    Args:
        trajectory: As it was recorded.
        verdicts: What was learnt since: of integrity, process and safety, the newest of each.
        findings: That they rest on.
        reverified: `agree`, `disagree`, `flaky` or `cannot`; None where nobody judged the state again.
    """
    learnt = list(verdicts)
    integrity = _mark(learnt, "integrity")
    safety = tuple(_as_mark(v) for v in learnt if v.kind == "safety")
    outcomes = [v for v in trajectory.verdicts if v.kind == "outcome" and not v.check.startswith("reverify:")]
    scores = [v.score for v in outcomes if v.score is not None]
    worst: VerdictStatus | None = "fail" if any(mark.status == "fail" for mark in safety) else None
    status = integrity.status if integrity is not None else None
    doubtful = is_doubtful(trajectory.outcome, status, reverified)
    return Card(
        run=trajectory.run,
        attempt=trajectory.attempt,
        chain=trajectory.chain,
        task=trajectory.task,
        agent=trajectory.agent,
        model=trajectory.model,
        headline=outcome_words(trajectory.outcome, status, reverified, worst),
        trusted_pass=trajectory.outcome == "pass" and not doubtful,
        outcome=trajectory.outcome,
        score=min(scores) if scores else None,
        imported=any("imported" in verdict.marks for verdict in outcomes),
        reverified=reverified,
        integrity=integrity,
        process=_mark(learnt, "process"),
        safety=safety,
        findings=tuple(sorted(findings, key=lambda finding: (not decides(finding), _ORDER[finding.severity])))[:CITED],
    )


_ORDER = {"critical": 0, "major": 1, "minor": 2, "note": 3}


def task_cards(cards: Iterable[Card]) -> tuple[TaskCard, ...]:
    """The cards by task, agent and model, sorted."""
    groups: defaultdict[tuple[str, str, str], list[Card]] = defaultdict(list)
    for card in cards:
        groups[card.task, card.agent, card.model or ""].append(card)
    return tuple(_task_card(groups[key]) for key in sorted(groups))


def _task_card(cards: Sequence[Card]) -> TaskCard:
    rules = Counter(rule for card in cards for rule in {f.rule for f in card.findings if f.family != "attribution"})
    scores = [card.process.score for card in cards if card.process is not None and card.process.score is not None]
    doubtful = sum(card.outcome == "pass" and not card.trusted_pass for card in cards)
    return TaskCard(
        task=cards[0].task,
        agent=cards[0].agent,
        model=cards[0].model,
        attempts=len(cards),
        passed=sum(card.trusted_pass for card in cards),
        doubtful=doubtful,
        failed=sum(card.outcome == "fail" for card in cards),
        unknown=sum(card.outcome not in ("pass", "fail", "error") for card in cards),
        errors=sum(card.outcome == "error" for card in cards),
        integrity_failed=sum(card.integrity is not None and card.integrity.status == "fail" for card in cards),
        safety_failed=sum(any(mark.status == "fail" for mark in card.safety) for card in cards),
        process=round(sum(scores) / len(scores), 4) if scores else None,
        rules=dict(rules.most_common()),
    )


def _mark(verdicts: Sequence[Verdict], kind: str) -> Mark | None:
    found = [verdict for verdict in verdicts if verdict.kind == kind]
    return _as_mark(min(found, key=lambda v: _WORST.index(v.status))) if found else None


_WORST = ("fail", "error", "unknown", "pass")


def _as_mark(verdict: Verdict) -> Mark:
    return Mark(verdict.status, verdict.score, verdict.reason, verdict.check)
