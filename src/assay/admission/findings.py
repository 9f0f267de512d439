"""What admission found wrong with a task, one record a thing. It states what was observed; it repairs nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["KINDS", "SEVERITIES", "Finding", "Severity"]

Severity = Literal["hole", "weak", "broken", "note"]

SEVERITIES: tuple[Severity, ...] = ("hole", "broken", "weak", "note")
"""Gravest first."""

KINDS: dict[str, str] = {
    "cheat-passed": "a known way to be paid for no work is paid",
    "null-passed": "an answer without work is paid",
    "no-oracle": "there is no reference solution",
    "not-set-up": "the task cannot be set up here",
    "oracle-not-judged": "the reference solution's attempts broke before a verdict",
    "oracle-fails": "the reference solution does not pass",
    "oracle-flaky": "the reference solution passes sometimes",
    "oracle-breaks-under": "the reference solution fails under another, ordinary circumstance",
    "mutant-survived": "a changed solution that behaves differently is paid",
    "mutants-undecided": "changed solutions are paid, and nothing showed whether they behave differently",
    "low-sensitivity": "too few of the changed solutions are rejected",
    "separation-lowered": "right solutions do not reach the separation that judging programs apart allows",
    "variant-failed": "a solution that means the same is refused",
    "untold-path": "the verifier names a path that nobody mentions",
    "untold-name": "the verifier uses a name that nobody mentions",
    "untold-key": "the verifier reads a key that nobody mentions",
    "untold-format": "the verifier reads a format that nobody mentions",
    "untold-literal": "the verifier looks for a text that nobody mentions",
    "answer-in-instruction": "the instruction holds the answer",
    "answer-in-image": "the image holds the answer",
    "solution-in-image": "the image holds the solution, or what is called like one",
    "tests-in-image": "the image holds files of the verifier",
    "too-easy": "every agent passes",
    "impossible": "no agent passes",
    "model-review": "a model that read the task doubts something",
    "not-judged": "attempts of the battery broke before a verdict",
    "not-compared": "changed solutions that were paid could not be compared with the right one",
}
"""Every kind of finding, in one clause; the documentation has a section on each."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong, or worth a look."""

    kind: str
    """What it is: a key of `KINDS`."""
    task: str
    probe: str | None
    """The probe that showed it; None where no attempt did."""
    severity: Severity
    """`hole`: something is paid that should not be. `broken`: honest work is not paid, or not always. `weak`: wrong
    work may be paid, or right work refused, as far as a sample shows. `note`: to be known."""
    text: str
    """What was seen, in a sentence or two for the task's author."""
    closed_by: tuple[str, ...] = ()
    """Settings that close it, the safest first."""
    heuristic: bool = False
    """Guessed from text; no attempt showed it."""
    verification: str | None = None
    """Under which verification it was seen: `default` or `as_asked`."""
    evidence: tuple[str, ...] = ()
    """Where it can be looked up: ids of attempts, paths, lines."""
