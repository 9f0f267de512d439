"""Findings of an admission: one record for each observed problem of a task."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["hole", "weak", "broken", "note"]

SEVERITIES: tuple[Severity, ...] = ("hole", "broken", "weak", "note")
"""From the gravest down."""

KINDS: dict[str, str] = {
    "cheat-passed": "a known cheat passes",
    "null-passed": "an answer without work passes",
    "no-oracle": "the task has no reference solution",
    "not-set-up": "the task cannot be set up here",
    "oracle-not-judged": "the reference solution's attempts broke before a verdict",
    "oracle-fails": "the reference solution does not pass",
    "oracle-flaky": "the reference solution passes sometimes",
    "oracle-breaks-under": "the reference solution fails under another, ordinary circumstance",
    "mutant-survived": "a mutant that behaves differently passes",
    "mutants-undecided": "mutants pass whose behaviour could not be compared",
    "low-sensitivity": "too few mutants are rejected",
    "separation-lowered": "right solutions do not reach the separation that judging programs apart allows",
    "variant-failed": "an equivalent solution is rejected",
    "untold-path": "the verifier names a path missing from the instruction and the image",
    "untold-name": "the verifier uses a name missing from the instruction and the image",
    "untold-key": "the verifier reads a key missing from the instruction and the image",
    "untold-format": "the verifier reads a format missing from the instruction and the image",
    "untold-literal": "the verifier looks for a text missing from the instruction and the image",
    "answer-in-instruction": "the instruction holds the answer",
    "answer-in-image": "the image holds the answer",
    "solution-in-image": "the image holds the solution, or what is called like one",
    "tests-in-image": "the image holds files of the verifier",
    "too-easy": "every agent passes",
    "impossible": "no agent passes",
    "model-review": "a model that read the task doubts something",
    "not-judged": "attempts of the battery broke before a verdict",
    "not-compared": "mutants that passed could not be compared with the solution",
}
"""Kind of finding to a one-clause description; each has a section in the documentation."""


class AdmissionFinding(msgspec.Struct, frozen=True):
    """A problem of a task, or an observation worth noting."""

    kind: str
    """Key of `KINDS`."""
    task: str
    probe: str | None
    """Probe that showed it; None where no attempt did."""
    severity: Severity
    """`hole`: the verifier passes wrong work in an attempt. `broken`: honest work fails, at least sometimes. `weak`: a
    sample suggests that wrong work passes or right work fails. `note`: information."""
    text: str
    """Description for the task's author, in a sentence or two."""
    closed_by: tuple[str, ...] = ()
    """Settings that close it, the safest first."""
    heuristic: bool = False
    """Inferred from text; no attempt showed it."""
    verification: str | None = None
    """`default` or `as_asked`."""
    evidence: tuple[str, ...] = ()
    """Ids of attempts, paths or lines."""
