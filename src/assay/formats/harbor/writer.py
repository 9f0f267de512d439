"""Writes job folders that Harbor's own models and viewer take, and that read back as the same trajectories.

Data without a file of its own is embedded in `agent/trajectory.json` (see `embedded_records`). A doubted pass gets the
reward `integrity` = 0 beside its own, so that a sum of rewards does not count it as a plain pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from assay.errors import StoreError
from assay.formats.harbor.atif_writer import iso_or_none, render_document
from assay.formats.harbor.verifier import REASON
from assay.formats.interface import ExportContext, Loss
from assay.formats.shared.losses import report_additions
from assay.formats.shared.output_files import FileNames, new_folder, outcome_verdict
from assay.records import Evidence, Trajectory
from assay.verdicts import IMPORTED, trust_of

_STOPS = {"wall_s": "AgentTimeoutError", "cancelled": "CancelledError", "tokens": "OutputLengthExceededError"}
_BREAKS = {"verifier": "VerifierError", "provider": "ApiError", "agent": "AgentError"}


def write_job(trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
    """Writes a job folder. Raises `UserError` where `target` exists."""
    new_folder(target)
    names, results = FileNames(), list[dict[str, Any]]()
    for trajectory in trajectories:
        results.append(_write_trial(trajectory, target, names, writing))
    job = {"job_name": target.name, "jobs_dir": ".", "agents": [], "datasets": []}
    _write(target / "config.json", job)
    _write(target / "result.json", _job_result(target.name, results))


def _job_result(name: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    times = [t for r in results for t in (r.get("started_at"), r.get("finished_at")) if t]
    began, ended = min(times, default=iso_or_none(0.0)), max(times, default=None)
    errors = sum(r.get("exception_info") is not None for r in results)
    stats = {"n_completed_trials": len(results), "n_errored_trials": errors}
    found = {"id": str(uuid5(NAMESPACE_URL, f"assay-job:{name}")), "started_at": began, "finished_at": ended}
    return {**found, "n_total_trials": len(results), "stats": stats}


def _write_trial(trajectory: Trajectory, job: Path, names: FileNames, writing: ExportContext) -> dict[str, Any]:
    before = _source_words(trajectory)
    result = before.get("result")
    result = result if isinstance(result, dict) and result.get("trial_name") else _fresh_result(trajectory, writing)
    if trust_of(trajectory).doubt is not None:
        told = result.get("verifier_result") or {}
        result = {**result, "verifier_result": {**told, "rewards": {**told.get("rewards", {}), "integrity": 0.0}}}
    name = names.name(str(result.get("trial_name") or trajectory.attempt))
    folder = job / name
    folder.mkdir()
    for below in ("agent", "verifier"):
        (folder / below).mkdir()
    _write(folder / "result.json", result)
    native = {str(i) for i in before.get("native", ())} if isinstance(before.get("native"), list) else set()
    kept = [item for item in trajectory.evidence if item.id in native]
    for item in kept or _fresh_evidence(trajectory):
        _write_evidence(item, folder, trajectory, writing)
    _write_artifacts(trajectory, folder, before.get("manifest"), writing)
    _write(
        folder / "agent" / "trajectory.json", render_document(_without_native(trajectory, native), writing, "harbor")
    )
    return result


def _source_words(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the source trial's data; empty for other trajectories."""
    imported = trajectory.started.config.get(IMPORTED)
    fields = imported.get("fields") if isinstance(imported, dict) and imported.get("format") == "harbor" else None
    found = fields.get("harbor") if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}


def _without_native(trajectory: Trajectory, native: set[str]) -> Trajectory:
    """Returns the trajectory without data that has files of its own."""
    claims = [v for v in trajectory.verdicts if not (native and v.check == IMPORTED and v.reason.startswith(REASON))]
    if not native and _source_words(trajectory):  # read from a trial that had no evidence at all
        claims = [v for v in trajectory.verdicts if not (v.check == IMPORTED and v.reason.startswith(REASON))]
    finished = trajectory.finished and msgspec.structs.replace(trajectory.finished, artifacts={})
    config = _without_result(trajectory)
    started = msgspec.structs.replace(trajectory.started, config=config)
    evidence = tuple(item for item in trajectory.evidence if item.id not in native)
    return msgspec.structs.replace(
        trajectory, verdicts=tuple(claims), finished=finished, evidence=evidence, started=started
    )


def _without_result(trajectory: Trajectory) -> dict[str, Any]:
    words = _source_words(trajectory)
    if not words:
        return trajectory.started.config
    imported = trajectory.started.config[IMPORTED]
    kept = {k: v for k, v in words.items() if k not in ("result", "native", "manifest")}
    fields = {k: v for k, v in imported["fields"].items() if k != "harbor"} | ({"harbor": kept} if kept else {})
    return {**trajectory.started.config, IMPORTED: {**imported, "fields": fields}}


def _fresh_result(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    finished, verdict = trajectory.finished, outcome_verdict(trajectory)
    name = trajectory.attempt or trajectory.task
    required = {"result.json: id, trial_uri, task_id, config": "required: made of the names of attempt and task"}
    report_additions(trajectory, writing, required | {"result.json: agent_info.version": "required: `unknown`"})
    result: dict[str, Any] = {
        "id": str(uuid5(NAMESPACE_URL, f"assay-attempt:{name}")),
        "task_name": trajectory.task,
        "trial_name": name,
        "trial_uri": f"assay:{name}",
        "task_id": {"path": trajectory.task},
        "task_checksum": trajectory.task_digest or "unknown",
        "config": {"task": {"path": trajectory.task}, "trial_name": name},
        "agent_info": {"name": trajectory.agent, "version": "unknown"},
        "started_at": iso_or_none(trajectory.started.at),
        "finished_at": iso_or_none(finished.at) if finished is not None else None,
    }
    if trajectory.model is not None:
        result["agent_info"]["model_info"] = {"name": trajectory.model}
    rewards = _rewards(trajectory)
    if verdict is not None and rewards:
        result["verifier_result"] = {"rewards": rewards}
    result["exception_info"] = _exception(trajectory, writing)
    return {name: value for name, value in result.items() if value is not None}


def _rewards(trajectory: Trajectory) -> dict[str, float]:
    """Returns the rewards of a passed or failed verdict; else none."""
    verdict = outcome_verdict(trajectory)
    if verdict is None or trajectory.outcome not in ("pass", "fail"):
        return {}
    rewards = dict(verdict.rewards)
    if "reward" not in rewards:
        rewards["reward"] = verdict.score if verdict.score is not None else float(verdict.status == "pass")
    return rewards


def _exception(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any] | None:
    finished = trajectory.finished
    if finished is None or not (finished.stopped or finished.broke):
        return None
    if finished.stopped:
        kind = _STOPS.get(finished.stopped, "LimitReachedError")
    else:
        kind = _BREAKS.get(str(finished.broke), "EnvironmentFailedError")
    at = iso_or_none(finished.at) or iso_or_none(trajectory.started.at)
    if at is None:
        why = "Harbor wants the time at which an exception occurred, which is not known"
        writing.report_loss(Loss(trajectory.attempt, "finished.stopped" if finished.stopped else "finished.broke", why))
        return None
    message = finished.error or f"{finished.stopped or finished.broke}"
    return {"exception_type": kind, "exception_message": message, "exception_traceback": "", "occurred_at": at}


def _fresh_evidence(trajectory: Trajectory) -> list[Evidence]:
    """Returns the evidence that Harbor's viewer shows: the rewards and the text of the tests."""
    if _source_words(trajectory):
        return []
    rewards = _rewards(trajectory)
    found = [Evidence("", "state", "reward", {"values": rewards, "source": "verifier/reward.json"})] if rewards else []
    text = next(
        (e for e in trajectory.evidence if e.kind == "test_output" and isinstance(e.data.get("text"), str)), None
    )
    if text is not None:
        found.append(
            Evidence("", "state", "test_output", {**text.data, "path": "verifier/test-stdout.txt"}, text.blobs)
        )
    return found


def _write_evidence(item: Evidence, folder: Path, trajectory: Trajectory, writing: ExportContext) -> None:
    name = item.data.get("path") or item.data.get("source")
    target = _resolve_inside(folder, name if isinstance(name, str) else "")
    if target is None or name == "result.json":
        return
    content = _evidence_bytes(item, trajectory, writing)
    if content is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _evidence_bytes(item: Evidence, trajectory: Trajectory, writing: ExportContext) -> bytes | None:
    if item.kind == "reward":
        values = item.data.get("values", {})
        whole = str(item.data.get("source", "")).endswith(".json")
        return msgspec.json.encode(values) if whole else str(values.get("reward", 0.0)).encode()
    for blob in item.blobs:
        try:
            return writing.read_blob(blob)
        except StoreError as exc:
            writing.report_loss(Loss(trajectory.attempt, f"evidence.{item.kind}", str(exc)))
    text = item.data.get("text")
    return text.encode("utf-8", "replace") if isinstance(text, str) else None


def _write_artifacts(trajectory: Trajectory, folder: Path, manifest: Any, writing: ExportContext) -> None:
    artifacts = trajectory.finished.artifacts if trajectory.finished is not None else {}
    for path, digest in sorted(artifacts.items()):
        target = _resolve_inside(folder / "artifacts", path.lstrip("/"))
        if target is None or path.lstrip("/") == "manifest.json":
            writing.report_loss(Loss(trajectory.attempt, "finished.artifacts", f"{path} is outside of the trial"))
            continue
        try:
            content = writing.read_blob(digest)
        except StoreError as exc:
            writing.report_loss(Loss(trajectory.attempt, "finished.artifacts", str(exc)))
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as exc:
            writing.report_loss(Loss(trajectory.attempt, "finished.artifacts", f"{path}: {exc.strerror}"))
    if manifest is None and artifacts:
        entries = [
            {"source": p, "destination": p.lstrip("/"), "type": "file", "status": "ok"} for p in sorted(artifacts)
        ]
        manifest = entries
    if manifest is not None:
        (folder / "artifacts").mkdir(exist_ok=True)
        _write(folder / "artifacts" / "manifest.json", manifest)


def _resolve_inside(folder: Path, name: str) -> Path | None:
    """Returns a path below a folder for a recorded name; None where it leads outside."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\x00" in name or len(name) > 1000:
        return None
    return folder.joinpath(*parts)


def _write(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
