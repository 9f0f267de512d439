"""The view of a training's curves: every number that `assay train` or `assay improve` recorded, by stage and step.

The numbers are untrusted records: texts and numbers that are not finite are left out, and long curves are thinned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from assay.store import RunStore

from .interface import Fields, View, json_bytes
from .runs import current_state

MOST_ENTRIES: Final = 50_000
MOST_POINTS: Final = 600
MOST_CURVES: Final = 60
_MARK: Final = b'"kind":"training"'
EVALUATION: Final = "evaluation"
_BOUNDS: Final = ("success_low", "success_high")
_STALE: Final = ("stale", "unknown version")
"""The trainer's reasons for attempts that were dropped for their weights."""


class _Evidence(msgspec.Struct):
    id: str = ""
    kind: str = ""
    data: dict[str, Any] = {}


class _Body(msgspec.Struct):
    type: str = ""
    evidence: _Evidence | None = None


_BODY = msgspec.json.Decoder(_Body)


def training_curves(root: Path, run: str) -> dict[str, Any]:
    """Returns a training's curves.

    Returns:
        `run`, `state`, `stages` (each with `name`, `steps` and `curves`: metric to `[[step, value], ...]`, of `success`
        `[step, value, low, high]` where the interval is recorded),
        `evaluations` (`step`, `success`, `low`, `high`, `attempts`, `run`), and `left_out` (entries). All are empty for
        a run without training metrics.

    Raises:
        StoreError: The run is missing or damaged.
    """
    stages: dict[str, dict[str, list[list[float]]]] = {}
    evaluations: list[dict[str, Any]] = []
    entries = 0
    with RunStore.open(root, run) as store, store.snapshot():
        is_training = isinstance(store.manifest().get("training"), dict)
        for link in store.links(f"{run}@trainer") if is_training else ():
            entry = _entry(link.body)
            if entry is None:
                continue
            entries += 1
            if entries <= MOST_ENTRIES:
                _add_entry(entry, stages, evaluations)
    return {
        "run": run,
        "state": current_state(root, run),
        "stages": [_stage(name, curves) for name, curves in list(stages.items())[:12]],
        "evaluations": evaluations[:MOST_POINTS],
        "left_out": max(entries - MOST_ENTRIES, 0),
    }


def _entry(body: bytes) -> _Evidence | None:
    if _MARK not in body:
        return None
    try:
        found = _BODY.decode(body).evidence
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if found is not None and found.kind == "training" else None


def _add_entry(
    entry: _Evidence, stages: dict[str, dict[str, list[list[float]]]], evaluations: list[dict[str, Any]]
) -> None:
    stage, _, number = entry.id.rpartition(" ")
    if not (stage and number.isascii() and number.isdecimal() and len(number) < 10):
        return
    if stage == EVALUATION:
        known = {name: _finite(entry.data.get(name)) for name in ("success", "low", "high", "attempts")}
        held_out = entry.data.get("run")
        evaluations.append({"step": int(number), **known, "run": held_out if isinstance(held_out, str) else None})
        return
    curves = stages.setdefault(stage[:60], {})
    bounds = [_finite(entry.data.get(name)) for name in _BOUNDS]
    interval = [bound for bound in bounds if bound is not None] if None not in bounds else []
    for name, value in (entry.data | _count_dropped(entry.data.get("dropped"))).items():
        measured = _finite(value)
        is_bound = bool(interval) and name in _BOUNDS
        if measured is not None and not is_bound and (name in curves or len(curves) < MOST_CURVES):
            point = [int(number), measured, *(interval if name == "success" else ())]
            curves.setdefault(name[:60], []).append(point)


def _count_dropped(reasons: object) -> dict[str, float]:
    """Returns how many attempts a step dropped, and how many of them because their weights were old or unknown."""
    if not isinstance(reasons, dict):
        return {}
    counts = {name: number for name, value in reasons.items() if (number := _finite(value)) is not None}
    return {"dropped": sum(counts.values()), "stale": sum(counts.get(name, 0.0) for name in _STALE)}


def _stage(name: str, curves: dict[str, list[list[float]]]) -> dict[str, Any]:
    steps = max((len(points) for points in curves.values()), default=0)
    return {"name": name, "steps": steps, "curves": {key: _thin(points) for key, points in curves.items()}}


def _thin(points: Sequence[list[float]]) -> list[list[float]]:
    """Returns at most `MOST_POINTS` points, with the first and the last."""
    if len(points) <= MOST_POINTS:
        return list(points)
    stride = (len(points) - 1) / (MOST_POINTS - 1)
    return [points[round(at * stride)] for at in range(MOST_POINTS)]


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return None
    return float(value) if math.isfinite(value) else None


def _make(root: Path, fields: Fields) -> bytes:
    return json_bytes(training_curves(root, fields["run"]))


def _names(root: Path, run: str) -> tuple[str, ...]:
    with RunStore.open(root, run) as store:
        return (f"run/{run}/training",) if isinstance(store.manifest().get("training"), dict) else ()


VIEWS = (View("run/{run}/training", _make, _names),)
