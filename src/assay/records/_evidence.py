"""Evidence, and the verdicts that cite it.

Three channels are separate: the model's output (`gateway`), executed commands (`audit`), and the state of the world
(`state`). Anything unobserved is `unknown`, never a pass.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Channel = Literal["gateway", "audit", "state"]
VerdictKind = Literal["outcome", "process", "safety", "integrity"]
VerdictStatus = Literal["pass", "fail", "unknown", "error"]
Separation = Literal["no-agent-code", "separate", "same-user", "same-process", "unknown"]
"""Separation between the deciding process and the agent's code, strongest first (see `Verdict.separation`)."""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One observed fact. `data` is plain JSON whose shape `kind` names; large content is in `blobs` by digest.

    Kinds written by Assay itself: `execution` (argv, cwd, exit_code, duration_s, stdout, stderr, timed_out),
    `snapshot` (digest, manifest), `difference` (changes), `test_report` (counts, tests), `reward` (values),
    `processes` (list), `file` (path, digest), `limit` (what a watchdog or the kernel ended),
    `contract` (a safety contract that holds), `guard` (what was decided about a call: decision, rule, step, call),
    `guard_summary` (counts), `guard_turns` (what a model was told between), `model_judge` (asked, answered),
    `user_deviations` (where a simulated person left the script),
    `separation` (a `SeparationFacts`: what was observed of the judge's sandbox and of those that ran judged code).
    """

    id: str
    channel: Channel
    kind: str
    data: dict[str, Any]
    blobs: tuple[str, ...] = ()
    at: float | None = None


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """A judgement by one check. An exception or missing evidence is `error` or `unknown`, never `pass` or `fail`."""

    check: str
    kind: VerdictKind
    status: VerdictStatus
    score: float | None
    """In [0, 1]; None without a score."""
    reason: str
    evidence: tuple[str, ...] = ()
    """Ids of the cited evidence."""
    verifier: str | None = None
    """Content address of the check: its code, its parameters and the files that it ran."""
    duration_s: float | None = None
    rewards: dict[str, float] = {}
    """Named rewards that the task's own verifier wrote."""
    marks: tuple[str, ...] = ()
    """Short stable names of what judging neutralised or found suspicious."""
    separation: Separation = "unknown"
    """Separation between the deciding process and the agent's output: `no-agent-code` (none of it was executed),
    `separate` (it ran in a sandbox of its own), `same-user`, `same-process`, or `unknown` (not observed)."""
    separations: dict[Separation, int] = {}
    """Number of deciding tests by grade, where a check decides by several; `separation` is the weakest of them."""
