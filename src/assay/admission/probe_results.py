"""Reads the results of a battery's attempts from the store; reports and certificates depend on them alone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from assay.records import AttemptEnded, Evidence, EvidenceAdded, Separation, Verdict, VerdictAdded, VerdictStatus
from assay.rollout.plan import Verification
from assay.store import AttemptRow, RunStore
from assay.verdicts import REWARD_OVERRULED

from .knowledge import changes_in
from .probe import Group, Probe
from .separation import read_reasons


class ProbeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of one probe."""

    probe: str
    group: Group
    wanted: str | None
    verification: Verification
    about: str
    attempt: str
    chain: str
    outcome: VerdictStatus | None
    """Status by the verifier; None where the attempt broke earlier."""
    reason: str = ""
    marks: tuple[str, ...] = ()
    broke: str | None = None
    error: str | None = None
    ended: str | None = None
    stopped: str | None = None
    judged_s: float = 0.0
    """Seconds of verification."""
    attempt_s: float = 0.0
    """Seconds of the whole attempt."""
    cpu_s: float | None = None
    """CPU seconds of the agent's and the verifier's commands, if the sandbox reports them."""
    peak_bytes: int | None = None
    """Peak memory of the verifier, if measured."""
    holds: bool | None = None
    """For a circumstance: whether it was in force; None where nothing shows it."""
    members: tuple[str, ...] = ()
    """Names of the probes that share this attempt."""
    covers: tuple[str, ...] = ()
    """Members that this attempt replaces."""
    separation: Separation = "unknown"
    """Separation between the judge and the agent's code, from the deciding verdict."""
    output: str = ""
    """For an attempt that should have passed: the last line of the verifier's output."""
    told: dict[str, str] = {}
    """For a world: its final state. For a review: its text."""
    lowered: tuple[str, ...] = ()
    """Reasons for which the text of judged programs keeps the grade below `separate`; empty if it does not."""

    @property
    def passed(self) -> bool:
        """True where the verifier returned `pass`."""
        return self.outcome == "pass"


def collect_probe_results(store: RunStore, task: str, probes: Iterable[Probe]) -> dict[str, ProbeResult]:
    """Returns results by probe id, without unfinished attempts. Raises `StoreError` if the run cannot be read."""
    rows = {row.attempt: row for row in store.attempts() if row.final and row.task == task}
    found = {}
    for probe in probes:
        row = rows.get(f"{task}@{probe.id}")
        if row is not None:
            found[probe.id] = _read_probe_result(store, row, probe)
    return found


def _read_probe_result(store: RunStore, row: AttemptRow, probe: Probe) -> ProbeResult:
    verdicts: list[Verdict] = []
    facts: list[Evidence] = []
    kept = {
        "circumstance", "test_report", "verification_cost", "attempt_cost", "world_ended", "review", "snapshot",
        "execution", "separation",
    }  # fmt: skip
    ended = None
    for event in store.events(row.chain):
        match event.body:
            case VerdictAdded(verdict) if verdict.kind == "outcome":
                verdicts.append(verdict)
            case EvidenceAdded(evidence) if evidence.kind in kept:
                facts.append(evidence)
            case AttemptEnded(said):
                ended = said
            case _:
                pass
    deciding = next((v for v in verdicts if v.status == row.outcome), None)
    cost = next((f.data for f in facts if f.kind == "verification_cost"), {})
    used = next((f.data for f in reversed(facts) if f.kind == "attempt_cost"), {})
    observed = ProbeResult(
        probe=probe.name,
        group=probe.group,
        wanted=probe.wanted,
        verification=probe.verification,
        about=probe.about,
        attempt=row.attempt,
        chain=row.chain,
        outcome=row.outcome,
        reason=deciding.reason[:1000] if deciding is not None else "",
        marks=tuple(sorted({mark for verdict in verdicts for mark in verdict.marks})),
        broke=row.broke,
        error=None if row.error is None else row.error[:1000],
        ended=ended,
        stopped=row.stopped,
        judged_s=round(sum(v.duration_s or 0.0 for v in verdicts), 6),
        attempt_s=round((row.finished or 0.0) - (row.started or 0.0), 6),
        cpu_s=used.get("cpu_s"),
        peak_bytes=cost.get("peak_bytes"),
        holds=_holds(probe, facts),
        separation=deciding.separation if deciding is not None else "unknown",
        output=_last_line(facts) if probe.group in ("completeness", "strictness") and row.outcome != "pass" else "",
        told=_read_details(facts),
        lowered=read_reasons(f for f in facts if f.kind == "separation"),
    )
    members = tuple(member.name for member in probe.members)
    return msgspec.structs.replace(observed, members=members, covers=_covers(store, probe, observed, facts))


def _covers(store: RunStore, probe: Probe, observed: ProbeResult, facts: list[Evidence]) -> tuple[str, ...]:
    """Returns the names of members that need no attempt of their own."""
    names = tuple(member.name for member in probe.members)
    if probe.group == "completeness":
        reversed_tests = any(f.data.get("order") == "reversed" for f in facts if f.kind == "test_report")
        shown = tuple(name for name in names if name != "oracle.test-order" or reversed_tests)
        return shown if observed.passed and observed.holds else ()
    if observed.outcome != "fail" or REWARD_OVERRULED in observed.marks:
        return ()  # a reward that was written and not believed: by which member, only its own attempt shows
    snapshot = next((f for f in reversed(facts) if f.kind == "snapshot"), None)
    if probe.cleared_by == "no change" and (snapshot is None or changes_in(snapshot, store.blobs) != ()):
        return ()
    return names


def _last_line(facts: list[Evidence]) -> str:
    ran = next((f.data for f in reversed(facts) if f.kind == "execution" and "stderr" in f.data), {})
    texts = (str(ran.get(name) or "") for name in ("stderr", "stdout"))
    return next((text.strip().splitlines()[-1][:300] for text in texts if text.strip()), "")


def _holds(probe: Probe, facts: list[Evidence]) -> bool | None:
    """Returns whether the record shows that a circumstance was in force; None where it shows nothing."""
    if probe.circumstance is None:
        return None
    if probe.circumstance == "test-order":
        return True if any(f.data.get("order") == "reversed" for f in facts if f.kind == "test_report") else None
    return all(bool(f.data.get("holds")) for f in facts if f.kind == "circumstance")


def _read_details(facts: list[Evidence]) -> dict[str, str]:
    told = {}
    for fact in facts:
        if fact.kind == "world_ended" and isinstance(fact.data.get("digest"), str):
            told["ended"] = fact.data["digest"]
        if fact.kind == "review":
            told["review"] = str(fact.data.get("text", ""))
    return told
