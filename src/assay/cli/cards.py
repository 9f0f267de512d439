"""Verdict cards as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.records import Noted

from .output import console, plain
from .tables import print_rows

if TYPE_CHECKING:
    from assay.analysis.card import Card, Mark, TaskCard
    from assay.records import Trajectory
    from assay.verdicts import Trust

QUOTED = 160


def print_cards(cards: Sequence[Card]) -> None:
    """Prints one row for each attempt."""
    print_rows(_rows(cards), empty="no attempt has ended: there is nothing to judge")


def _rows(cards: Sequence[Card]) -> list[dict[str, str]]:
    """Returns one row for each attempt, with the task unless every attempt's name contains it."""
    named = all(card.attempt.startswith(card.task) for card in cards)
    return [_row(card, named=named) for card in cards]


def _row(card: Card, *, named: bool) -> dict[str, str]:
    score = card.process.score if card.process is not None else None
    return {
        "attempt": card.attempt,
        **({} if named else {"task": card.task}),
        "agent": card.agent,
        "model": card.model or "-",
        "outcome": card.headline + (" (imported)" if card.imported else ""),
        "separation": card.separation if card.outcome == "pass" else "-",
        "integrity": _status(card.integrity),
        "process": "-" if score is None else f"{score:.2f}",
        "safety": ", ".join(sorted({mark.status for mark in card.safety})) or "-",
        "again": card.reverified or "-",
        "found": ", ".join(dict.fromkeys(f.rule for f in card.findings if f.family != "attribution")) or "-",
    }


def _status(mark: Mark | None) -> str:
    return "-" if mark is None else mark.status


def print_tasks(tasks: Sequence[TaskCard]) -> None:
    """Prints one row for each task."""
    print_rows([_task_row(card) for card in tasks])


def _task_row(card: TaskCard) -> dict[str, str]:
    return {
        "task": card.task,
        "agent": card.agent,
        "model": card.model or "-",
        "attempts": str(card.attempts),
        "pass": str(card.passed),
        "pass (doubtful)": str(card.doubtful),
        "fail": str(card.failed),
        "unknown": str(card.unknown),
        "error": str(card.errors),
        "integrity failed": str(card.integrity_failed),
        "safety failed": str(card.safety_failed),
        "process": "-" if card.process is None else f"{card.process:.2f}",
    }


def card_lines(card: Card) -> Iterator[str]:
    """Yields the full card of one attempt, with record text indented so that it cannot imitate other lines."""
    claimed = "; claimed by the system that recorded it" if card.imported else ""
    yield f"attempt {card.attempt}  run {card.run}  agent {card.agent}"
    again = f"; judged again: {card.reverified}" if card.reverified else ""
    yield f"outcome    {card.headline}{_with_separation(card.outcome, card.separation)}{claimed}{again}"
    for name, mark in (("integrity", card.integrity), ("process", card.process)):
        if mark is not None:
            yield f"{name:10} {mark.status} - {mark.reason}"
    for mark in card.safety:
        yield f"safety     {mark.status} - {mark.check}: {mark.reason}"
    for finding in card.findings:
        yield from _finding_lines(
            finding.severity, finding.rule, finding.summary, (finding.reach or "", finding.evidence)
        )
        for quote in finding.quotes[:3]:
            where = f"step {quote.step} " if quote.step >= 0 else ""
            yield f"      {where}{quote.field}: {quote.text[:QUOTED]}"


def _finding_lines(severity: str, rule: str, summary: str, more: tuple[str, Sequence[str]]) -> Iterator[str]:
    reach, evidence = more
    cited = f"  evidence {', '.join(evidence)}" if evidence else ""
    yield f"  [{severity}{', ' + reach if reach else ''}] {rule}: {summary}{cited}"


def _with_separation(outcome: str | None, separation: str) -> str:
    return f"; separation {separation}" if outcome == "pass" else ""


def print_audit_findings(root: Path, trajectory: Trajectory, trust: Trust) -> None:
    """Prints an attempt's current trust and the findings of its newest audit."""
    from assay.store import AUDITED, later_events

    every = (*trajectory.notes, *later_events(root, trajectory.run).get(trajectory.chain, ()))
    notes = [body for body in every if isinstance(body, Noted) and body.name == AUDITED]
    found: Any = notes[-1].data.get("findings", []) if notes else []
    lines = [f"outcome: {trust.headline}{_with_separation(trajectory.outcome, trust.separation)}"]
    for finding in found:
        more = (str(finding.get("reach", "")), tuple(map(str, finding.get("evidence", ()))))
        lines += _finding_lines(str(finding["severity"]), str(finding["rule"]), str(finding["summary"]), more)
    for line in lines:
        console().print(_block(line))


def _block(text: str) -> str:
    return plain(text).replace("\n", "\n        ")


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines with control characters escaped."""
    for line in lines:
        console().print(_block(line))


def markdown(tasks: Sequence[TaskCard], cards: Sequence[Card]) -> str:
    """Renders both tables as Markdown."""
    parts = [_table([_task_row(card) for card in tasks]), _table(_rows(cards))]
    return "\n".join(parts)


def _table(rows: Sequence[dict[str, str]]) -> str:
    if not rows:
        return ""
    cells = [[plain(value).replace("|", "\\|").replace("\n", " ") for value in row.values()] for row in rows]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *cells]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
