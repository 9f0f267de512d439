"""What became of the attempts of a battery, read from the store: all that reports and certificates rest on."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from assay.records import AttemptEnded, Evidence, EvidenceAdded, Separation, Verdict, VerdictGiven, VerdictStatus
from assay.rollout.plan import Verification
from assay.store import AttemptRow, RunStore
from assay.verdicts import REWARD_OVERRULED

from .knowledge import changes_in
from .probes import Group, Probe
from .separation import read_reasons

__all__ = ["Observed", "observe"]


class Observed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One probe and how it went."""

    probe: str
    group: Group
    wanted: str | None
    verification: Verification
    about: str
    attempt: str
    chain: str
    outcome: VerdictStatus | None
    """The verifier's; None where the attempt broke before it could be judged."""
    reason: str = ""
    marks: tuple[str, ...] = ()
    broke: str | None = None
    error: str | None = None
    ended: str | None = None
    stopped: str | None = None
    judged_s: float = 0.0
    """Seconds that judging took."""
    attempt_s: float = 0.0
    """Seconds of the whole attempt."""
    cpu_s: float | None = None
    """Processor seconds of the commands that the agent and the verifier ran, where the sandbox says."""
    peak_bytes: int | None = None
    """The most memory that the verifier was seen to use, where it was measured."""
    holds: bool | None = None
    """Of a circumstance: whether it was seen to hold; None where nothing shows it."""
    members: tuple[str, ...] = ()
    """Names of the probes that share this attempt."""
    covers: tuple[str, ...] = ()
    """Those of them that this attempt made unnecessary: it stands for them."""
    separation: Separation = "unknown"
    """How far the deciding process was kept from the agent's code, by the deciding verdict."""
    output: str = ""
    """Of an attempt that should have passed: the last line that the verifier printed."""
    told: dict[str, str] = {}
    """Of a world: where it ended. Of a review: what was said."""
    lowered: tuple[str, ...] = ()
    """Why the text of judged programs keeps the grade below `separate`; empty where it does not."""

    @property
    def passed(self) -> bool:
        """Returns whether the verifier paid."""
        return self.outcome == "pass"


def observe(store: RunStore, task: str, probes: Iterable[Probe]) -> dict[str, Observed]:
    """Probe id to what became of it; an attempt that has not ended is absent.

    Raises:
        StoreError: The run cannot be read.
    """
    rows = {row.attempt: row for row in store.attempts() if row.final and row.task == task}
    found = {}
    for probe in probes:
        row = rows.get(f"{task}@{probe.id}")
        if row is not None:
            found[probe.id] = _observed(store, row, probe)
    return found


def _observed(store: RunStore, row: AttemptRow, probe: Probe) -> Observed:
    verdicts: list[Verdict] = []
    facts: list[Evidence] = []
    kept = {
        "circumstance", "test_report", "verification_cost", "attempt_cost", "world_ended", "review", "snapshot",
        "execution", "separation",
    }  # fmt: skip
    ended = None
    for event in store.events(row.chain):
        match event.body:
            case VerdictGiven(verdict) if verdict.kind == "outcome":
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
    observed = Observed(
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
        told=_told(facts),
        lowered=read_reasons(f for f in facts if f.kind == "separation"),
    )
    members = tuple(member.name for member in probe.members)
    return msgspec.structs.replace(observed, members=members, covers=_covers(store, probe, observed, facts))


def _covers(store: RunStore, probe: Probe, observed: Observed, facts: list[Evidence]) -> tuple[str, ...]:
    """Returns the names of the members that need no attempt of their own; empty where all of them do."""
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
    """Returns the last line that the verifier's last command printed, to stderr before stdout."""
    ran = next((f.data for f in reversed(facts) if f.kind == "execution" and "stderr" in f.data), {})
    texts = (str(ran.get(name) or "") for name in ("stderr", "stdout"))
    return next((text.strip().splitlines()[-1][:300] for text in texts if text.strip()), "")


def _holds(probe: Probe, facts: list[Evidence]) -> bool | None:
    """Returns whether a circumstance was in force, as far as the record shows."""
    if probe.circumstance is None:
        return None
    if probe.circumstance == "test-order":
        return True if any(f.data.get("order") == "reversed" for f in facts if f.kind == "test_report") else None
    return all(bool(f.data.get("holds")) for f in facts if f.kind == "circumstance")


def _told(facts: list[Evidence]) -> dict[str, str]:
    told = {}
    for fact in facts:
        if fact.kind == "world_ended" and isinstance(fact.data.get("digest"), str):
            told["ended"] = fact.data["digest"]
        if fact.kind == "review":
            told["review"] = str(fact.data.get("text", ""))
    return told
