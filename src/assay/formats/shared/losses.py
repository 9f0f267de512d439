"""Reports what a format could not hold, by reading back what was written.

Every field that does not come back the same is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from assay.formats.interface import Addition, ExportContext, ImportContext, ImportedTrajectory, Loss
from assay.formats.shared.round_trip_builder import is_imported_from
from assay.formats.shared.usage import total_usage
from assay.records import (
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Step,
    StepAdded,
    Trajectory,
    Usage,
    VerdictAdded,
    canonical_bytes,
    digest_bytes,
)
from assay.verdicts import current_verdicts_of, is_imported

THROWAWAY = ImportContext(digest_bytes, lambda _: None)
"""For reading back."""
Facts = dict[str, Counter[bytes]]


def report_additions(trajectory: Trajectory, writing: ExportContext, added: Mapping[str, str]) -> None:
    """Reports fields that are written beyond the records, by their places, each with its reason."""
    for field, why in added.items():
        writing.report_addition(Addition(trajectory.attempt, field, why))


def report_losses(
    trajectory: Trajectory,
    read_back: ImportedTrajectory | None,
    writing: ExportContext,
    name: str,
    *,
    added: Mapping[str, str] | None = None,
) -> None:
    """Reports which fields of a trajectory the format `name` did not hold, by reading it back; and the `added` ones.

    Without `read_back` the trajectory came from this format, which then lacks later verdicts only and adds nothing.
    """
    if read_back is not None:
        report_additions(trajectory, writing, added or {})

    def lost(field: str, why: str, count: int) -> None:
        if count:
            writing.report_loss(Loss(trajectory.attempt, field, why, count))

    integrity = current_verdicts_of(trajectory).integrity
    if trajectory.outcome == "pass" and integrity in {"fail", "unknown", "error"}:
        lost("integrity", f"the pass is written without its integrity, which is {integrity}", 1)
    if read_back is None or is_imported_from(trajectory, name):
        learnt = sum(not is_imported(verdict.marks) for verdict in trajectory.verdicts)
        lost("verdicts", f"{name} cannot store later verdicts", learnt)
        return
    was = _facts(trajectory.steps, trajectory.calls)
    now = _facts(
        [body.step for body in read_back.bodies if isinstance(body, StepAdded)],
        [body.call for body in read_back.bodies if isinstance(body, ModelCalled)],
    )
    _add_results(was, trajectory.verdicts, trajectory.evidence, trajectory.finished)
    verdicts = [body.verdict for body in read_back.bodies if isinstance(body, VerdictAdded)]
    evidence = [body.evidence for body in read_back.bodies if isinstance(body, EvidenceAdded)]
    _add_results(now, verdicts, evidence, read_back.bodies[-1] if read_back.bodies else None)
    totals = total_usage(read_back.bodies)  # which an import adds
    now["finished.metrics"] |= Counter(map(canonical_bytes, totals.items()))
    for field in ("agent", "model", "task", "seed", "number"):
        was[field], now[field] = _single(getattr(trajectory, field)), _single(getattr(read_back.started, field))
    for field, values in was.items():
        missing = sum((values - now.get(field, Counter())).values())
        lost(field, f"{name} changed or dropped it", missing)
    cut = sum(bool(seen.truncated or seen.stderr_truncated) for step in trajectory.steps for seen in step.observations)
    lost("steps.observations", "truncated texts are written whole where the whole is stored", cut)
    lost("notes", f"{name} cannot store it", len(trajectory.notes))


def _single(value: Any) -> Counter[bytes]:
    return Counter() if value is None else Counter([canonical_bytes(value)])


def _facts(steps: Iterable[Step], calls: Iterable[ModelCall]) -> Facts:
    found: Facts = {}
    pairs = chain(chain.from_iterable(map(_step, steps)), chain.from_iterable(map(_call, calls)))
    for field, value in pairs:
        if value not in (None, "", (), {}, False):
            found.setdefault(field, Counter())[canonical_bytes(value)] += 1
    return found


def _step(step: Step) -> Iterator[tuple[str, Any]]:
    yield "steps.message", step.message
    yield "steps.actor", (step.actor, step.message) if step.message else None
    fields = ("reasoning", "state", "started", "ended", "extra", "actor_name")
    yield from ((f"steps.{name}", getattr(step, name)) for name in fields)
    for call in step.tool_calls:
        yield from ((f"steps.tool_calls.{name}", (getattr(call, name),)) for name in ("id", "name", "arguments"))
        yield "steps.tool_calls.parsed", (call.parsed,)
        yield "steps.tool_calls.error", call.error
    for seen in step.observations:
        yield "steps.observations", (seen.content, seen.call_id)
        yield "steps.observations.exit_code", None if seen.exit_code is None else (seen.exit_code,)
        for name in ("error", "stderr", "timed_out", "duration_s"):
            yield f"steps.observations.{name}", getattr(seen, name)


def _call(call: ModelCall) -> Iterator[tuple[str, Any]]:
    yield "calls", (call.id,)
    yield "calls.usage", None if call.usage == Usage() else call.usage
    names = ("cost_usd", "completion_token_ids", "prompt_token_ids", "logprobs", "sampling", "error", "actor_name")
    yield from ((f"calls.{name}", getattr(call, name)) for name in names)
    yield "calls.request", call.request or call.response


def _add_results(facts: Facts, verdicts: Iterable[Any], evidence: Iterable[Any], ended: Any) -> None:
    """Adds the data after the turns; a verdict comes back as a claim of another check."""
    facts["verdicts"] = Counter(canonical_bytes((v.check, v.kind, v.status)) for v in verdicts)
    facts["evidence"] = Counter(canonical_bytes((e.id, e.kind)) for e in evidence)
    said = [(name, getattr(ended, name, None)) for name in ("ended", "stopped", "broke")]
    facts["finished"] = Counter(canonical_bytes(pair) for pair in said if pair[1])
    metrics: dict[str, float] = getattr(ended, "metrics", {})
    facts["finished.metrics"] = Counter(canonical_bytes(pair) for pair in metrics.items())
