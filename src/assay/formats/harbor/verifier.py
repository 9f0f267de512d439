"""Reads a Harbor trial's verifier output and artifacts, as evidence and a claimed verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.errors import UserError
from assay.formats.interface import ImportContext
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import LARGEST, WarnFunction, load_document
from assay.formats.shared.round_trip_builder import objects_in
from assay.records import VerdictStatus

REASON = "as recorded by Harbor"
_STATUSES = {"passed": "passed", "failed": "failed", "skipped": "skipped", "pending": "pending", "other": "other"}
_FILES = 10_000


def read_verifier(
    folder: Path, result: dict[str, Any], builder: TrajectoryBuilder, reading: ImportContext, bad: WarnFunction
) -> list[str]:
    """Adds evidence and the claimed verdict; returns the ids of that evidence."""
    told = result.get("verifier_result")
    recorded = told.get("rewards") if isinstance(told, dict) else None
    read = {str(k): builder.read_reward(v) for k, v in recorded.items()} if isinstance(recorded, dict) else {}
    rewards = {name: value for name, value in read.items() if value is not None}
    ids: list[str] = []
    for where in ("verifier", *_step_folders(folder)):
        ids += _read_folder(folder / where, where, builder, reading, bad)
    if rewards:
        ids.append(builder.add_evidence("reward", {"values": rewards, "source": "result.json"}))
    raised = result.get("exception_info")
    if rewards:
        status, score = score_rewards(rewards)
        builder.add_verdict(status, score, REASON, tuple(ids), rewards)
    else:
        kind = str(raised.get("exception_type", "")) if isinstance(raised, dict) else ""
        builder.add_verdict("unknown", None, f"{REASON}: no reward{f' ({kind})' if kind else ''}", tuple(ids))
    return ids


def score_rewards(rewards: dict[str, float]) -> tuple[VerdictStatus, float | None]:
    """Returns status and score of Harbor's rewards: `reward` if present, else the lowest; 1 is a pass.

    In rewards that Assay wrote, `integrity` below 1 marks a doubted pass.
    """
    named = {k: v for k, v in rewards.items() if k != "integrity"} or rewards
    score = named.get("reward", min(named.values()))
    if score >= 1 and rewards.get("integrity", 1.0) < 1:
        return "unknown", None
    return ("pass" if score >= 1 else "fail"), score


def _step_folders(folder: Path) -> list[str]:
    steps = folder / "steps"
    if not steps.is_dir() or steps.is_symlink():
        return []
    return [f"steps/{p.name}/verifier" for p in sorted(steps.iterdir()) if p.is_dir() and not p.is_symlink()]


def _read_folder(
    folder: Path, where: str, builder: TrajectoryBuilder, reading: ImportContext, bad: WarnFunction
) -> list[str]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    ids = []
    for name in ("reward.json", "reward.txt"):
        values = _read_reward(folder / name, f"{where}/{name}", bad)
        if values:
            ids.append(builder.add_evidence("reward", {"values": values, "source": f"{where}/{name}"}))
    raw = _read_bytes(folder / "ctrf.json", f"{where}/ctrf.json", bad)
    if raw is not None:
        report = ctrf_report(folder / "ctrf.json", f"{where}/ctrf.json", bad)
        if report is not None:
            data = {**report, "path": f"{where}/ctrf.json"}
            ids.append(builder.add_evidence("test_report", data, blobs=(reading.store_blob(raw),)))
    text = _read_bytes(folder / "test-stdout.txt", f"{where}/test-stdout.txt", bad)
    if text is not None:
        path = f"{where}/test-stdout.txt"
        ids.append(builder.add_text_evidence("test_output", text.decode("utf-8", "replace"), path=path))
    return ids


def _read_reward(path: Path, where: str, bad: WarnFunction) -> dict[str, float]:
    raw = _read_bytes(path, where, bad)
    if raw is None:
        return {}
    if path.suffix == ".json":
        try:
            found = load_document(path, bad, where)
        except UserError as exc:
            bad(where, str(exc))
            return {}
        if not isinstance(found, dict) or not _numeric_values(found):
            bad(where, "expected an object of finite numbers")
            return {}
        return _numeric_values(found)
    try:
        value = float(raw.decode("utf-8", "replace").strip())
    except ValueError:
        bad(where, f"expected one number, not {raw[:40]!r}")
        return {}
    if not abs(value) < float("inf"):
        bad(where, f"expected a finite number, not {value}")
        return {}
    return {"reward": value}


def ctrf_report(path: Path, where: str, bad: WarnFunction) -> dict[str, Any] | None:
    """Returns a CTRF report as evidence of kind `test_report`; None, with a warning, where it is invalid."""
    try:
        found = load_document(path, bad, where)
    except UserError as exc:
        bad(where, str(exc))
        return None
    results = found.get("results") if isinstance(found, dict) else None
    summary = results.get("summary") if isinstance(results, dict) else None
    tests = results.get("tests") if isinstance(results, dict) else None
    if not isinstance(summary, dict) and not isinstance(tests, list):
        bad(where, "not a CTRF report: it has neither results.summary nor results.tests")
        return None
    summary = summary if isinstance(summary, dict) else {}
    counts = {ours: summary[theirs] for theirs, ours in _STATUSES.items() if _is_count(summary.get(theirs))}
    report: dict[str, Any] = {"source": "ctrf", "counts": counts}
    if _is_count(summary.get("tests")):
        report["total"] = summary["tests"]
    if isinstance(tests, list):
        named = objects_in(tests)
        report["tests"] = [{"id": str(t.get("name", "")), "status": str(t.get("status", ""))} for t in named]
    return report


def read_artifacts(
    folder: Path, builder: TrajectoryBuilder, reading: ImportContext, bad: WarnFunction
) -> dict[str, str]:
    """Stores the files of the final state; returns sandbox path to digest."""
    root = folder / "artifacts"
    if not root.is_dir() or root.is_symlink():
        return {}
    manifest = root / "manifest.json"
    if manifest.is_file() and not manifest.is_symlink():
        try:
            found = load_document(manifest)
            builder.fields.setdefault("harbor", {})["manifest"] = found
        except UserError as exc:
            bad("artifacts/manifest.json", str(exc))
    digests: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name == "manifest.json" or path.is_dir():
            continue
        if len(digests) >= _FILES:
            bad("artifacts", f"more than {_FILES:,} files: the rest is left out")
            break
        raw = _read_bytes(path, f"artifacts/{name}", bad, inside=root)
        if raw is not None:
            digests[f"/{name}"] = reading.store_blob(raw)
    return digests


def _read_bytes(path: Path, where: str, bad: WarnFunction, inside: Path | None = None) -> bytes | None:
    """Returns the bytes of a regular file, or None. Warns of links and does not follow them."""
    through = [path, *(p for p in path.parents if inside is not None and inside in p.parents)]
    if any(p.is_symlink() for p in through):
        bad(where, "symbolic links are not followed")
        return None
    if not path.is_file():
        return None
    if path.stat().st_size > LARGEST:
        bad(where, f"it has {path.stat().st_size:,} bytes, {LARGEST:,} are read at most")
        return None
    return path.read_bytes()


def _numeric_values(values: Any) -> dict[str, float]:
    if not isinstance(values, dict):
        return {}
    known = {str(k): v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return {k: float(v) for k, v in known.items() if abs(v) < 1e300}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
