"""Judges a stored state again: rebuilds it, and compares the new verdicts of its checks with the recorded ones.

A verdict of re-verification does not replace the first one: its check is `reverify:NAME`, and its mark says `agree`,
`disagree`, `flaky` or `cannot`. Invariant: a state is judged only if its digest is the recorded one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.environments.interface import Backend, Change, Image, PacksStates, Snapshot
from assay.errors import AssayError, EnvironmentFailure, StoreError, VerifierError
from assay.records import Evidence, Trajectory, Verdict, VerdictStatus
from assay.store import BlobStore
from assay.verdicts import Reverification, reverification_check, weakest

from .interface import CheckResult


class CannotRebuildError(VerifierError):
    """The judged state cannot be rebuilt; the message gives the reason."""


class VerdictComparison(NamedTuple):
    """A repeated verdict with its comparison mark."""

    mark: Reverification
    verdict: Verdict
    evidence: tuple[Evidence, ...] = ()


def find_sealed_states(trajectory: Trajectory) -> tuple[Evidence, ...]:
    """Returns the states that were sealed for judging, one for each part of the task, in order."""
    return tuple(e for e in trajectory.evidence if e.kind == "snapshot" and "image" in e.data and not _beside(e))


def _beside(evidence: Evidence) -> bool:
    return bool(evidence.data.get("beside")) or "fork" in evidence.data


async def rebuild_state(state: Evidence, image: Image, backend: Backend, blobs: BlobStore) -> Snapshot:
    """Returns a state of `find_sealed_states` as a snapshot that can be opened; the caller releases it.

    Raises:
        CannotRebuildError: It was not stored, is missing or changed, or the image differs.
    """
    recorded, manifest = str(state.data.get("digest")), state.data.get("manifest")
    if not isinstance(manifest, str):
        raise CannotRebuildError("the state was not stored: its sandbox could not export it")
    if state.data["image"] != image.digest:
        raise CannotRebuildError(
            f"the image is another one now: {image.digest}, and the state stands on {state.data['image']}"
        )
    if not isinstance(backend, PacksStates):
        raise CannotRebuildError(f"the sandbox {backend.name!r} cannot take a stored state in")
    try:
        changes = msgspec.json.decode(blobs.get(manifest), type=tuple[Change, ...])
        snapshot = await backend.unpack(changes, blobs.get, image=image)
    except (StoreError, msgspec.DecodeError) as exc:
        raise CannotRebuildError(f"the stored state is missing or damaged: {exc}") from exc
    except (EnvironmentFailure, OSError, ValueError) as exc:
        raise CannotRebuildError(f"the stored state cannot be written out: {exc}") from exc
    if snapshot.digest != recorded:
        await backend.release(snapshot)
        raise CannotRebuildError(f"the rebuilt state has the digest {snapshot.digest}, and the record says {recorded}")
    return snapshot


def compare_verdicts(recorded: Verdict, rounds: Sequence[CheckResult]) -> VerdictComparison:
    """Compares the verdicts of one check over some rounds with the recorded one, by their status.

    The number of failing tests of a broken program may depend on the order of a set. Rounds that could not judge leave
    the question open, unless that was recorded too.
    """
    said: list[VerdictStatus] = [one.verdict.status for one in rounds]
    evidence = tuple(item for one in rounds for item in one.evidence)
    first = rounds[0].verdict
    scores = {one.verdict.score for one in rounds}
    count = f"{len(rounds)} of {len(rounds)} rounds" if len(rounds) > 1 else "one round"
    mark: Reverification
    if len(set(said)) > 1 and not ("error" in said and recorded.status != "error"):
        mark, reason = "flaky", f"was {recorded.status}, and {len(rounds)} rounds say {', '.join(said)}"
    elif "error" in said and recorded.status != "error":
        broken = next(one.verdict for one in rounds if one.verdict.status == "error")
        mark, reason = "cannot", f"the check could not judge: {broken.reason}"
    elif first.status == recorded.status:
        other = "" if scores == {recorded.score} else f"; the score was {recorded.score}, and is {_listed(scores)}"
        mark, reason = "agree", f"{first.status} again in {count}{other}"
    else:
        mark, reason = "disagree", f"was {recorded.status}, and {count} say {first.status}: {first.reason}"
    status: VerdictStatus = first.status if mark in ("agree", "disagree") else "unknown"
    verdict = Verdict(
        check=reverification_check(recorded.check),
        kind="outcome",
        status=status,
        score=first.score if mark in ("agree", "disagree") and len(scores) == 1 else None,
        reason=f"{mark}: {reason}"[:2000],
        evidence=tuple(item.id for item in evidence),
        verifier=first.verifier,
        duration_s=sum(one.verdict.duration_s or 0.0 for one in rounds),
        rewards=first.rewards if mark in ("agree", "disagree") else {},
        marks=(mark,),
        separation=weakest(one.verdict.separation for one in rounds),
    )
    return VerdictComparison(mark, verdict, evidence)


def _listed(scores: set[float | None]) -> str:
    return ", ".join(sorted(str(score) for score in scores))


def read_recorded_seeds(trajectory: Trajectory) -> dict[str, bytes]:
    """Returns the seed of each check's drawn inputs, by the check's name; malformed seeds are omitted."""
    found: dict[str, bytes] = {}
    for verdict in trajectory.verdicts:
        for evidence in trajectory.evidence:
            text = evidence.data.get("seed") if evidence.kind == "calls" and evidence.id in verdict.evidence else None
            with contextlib.suppress(ValueError):
                found |= {verdict.check: bytes.fromhex(text)} if isinstance(text, str) and text else {}
    return found


def make_cannot_result(check: str, why: AssayError | str) -> VerdictComparison:
    """Returns the result for a state that could not be judged again."""
    reason = f"cannot: {why}"[:2000]
    verdict = Verdict(reverification_check(check), "outcome", "unknown", None, reason, marks=("cannot",))
    return VerdictComparison("cannot", verdict)
