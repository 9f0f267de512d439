"""Job and trial folders of Harbor: the agent's actions, the verifier's output, artifacts of the final state.

A trial is one trajectory: `result.json`, `agent/trajectory.json` (ATIF; of a trial with steps, one for each), the
verifier's `reward.json` or `.txt`, `ctrf.json` and `test-stdout.txt`, and the files below `artifacts/`. Native logs of
agents are named and not read. Links inside a trial are not followed: their targets were not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.errors import UserError
from assay.formats.harbor.atif import DocumentPath, DocumentSummary, build_from_document, check_version, drop_end
from assay.formats.harbor.verifier import read_artifacts, read_verifier
from assay.formats.harbor.writer import write_job
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.builder import Origin, TrajectoryBuilder
from assay.formats.shared.json_stream import (
    WarnFunction,
    digest_file,
    json_fields,
    json_items,
    load_document,
    parse_time,
    warn_in,
)
from assay.formats.shared.round_trip_builder import objects_in
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, Trajectory, digest_bytes

_PROVIDER = ("Api", "RateLimit", "ServiceUnavailable", "APIConnection", "APIError", "ModelNotFound", "Authentication")
_READ = {"agent/trajectory.json", "verifier/reward.json", "verifier/reward.txt", "verifier/ctrf.json",
         "verifier/test-stdout.txt"}  # fmt: skip
_NAMED = 500


class HarborFormat:
    name: ClassVar[str] = "harbor"
    title: ClassVar[str] = "Harbor job and trial folders"
    provenance: ClassVar[Provenance] = "peer"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        return _is_trial(path) or _is_job(path)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        if not path.is_dir():
            raise UserError("not a folder: name the folder of a job or of a trial")
        if _is_trial(path):
            yield _trial(path, path.name, reading)
            return
        for folder in sorted(p for p in path.iterdir() if p.is_dir() and not p.is_symlink()):
            if _is_trial(folder):
                yield _trial(folder, f"{path.name}!{folder.name}", reading)
            elif (folder / "config.json").is_file() or (folder / "agent").is_dir():
                warn_in(reading, f"{path.name}!{folder.name}")("", "the trial has no result.json: it was cut")

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Makes a job folder with a trial for each trajectory."""
        write_job(trajectories, target, writing)


def _is_trial(path: Path) -> bool:
    return _own_file(path, "result.json") is not None and sniff(path / "result.json").has("trial_name", "task_name")


def _is_job(path: Path) -> bool:
    return _own_file(path, "result.json") is not None and sniff(path / "result.json").has("n_total_trials", "stats")


def _own_file(folder: Path, name: str) -> Path | None:
    """Returns a file of a trial; None where a link leads to it."""
    path = folder / name
    try:
        through = [path, *list(path.parents)[: len(Path(name).parts) - 1]]
        return path if path.is_file() and not any(p.is_symlink() for p in through) else None
    except OSError:
        return None


def _trial(folder: Path, file: str, reading: ImportContext) -> ImportedTrajectory:
    bad = warn_in(reading, file)
    result = _result(folder, bad)
    origin = Origin("harbor", file, _digest(folder))
    builder = TrajectoryBuilder(origin, reading)
    filled = _read_steps(folder, builder, result, DocumentPath(origin, reading, bad, ""))
    words: dict[str, Any] = {**builder.fields.get("harbor", {}), "result": result}
    others = {**_int_values(words.get("others")), **_unread_files(folder)}
    words |= {"others": others} if others else {}
    artifacts = read_artifacts(folder, builder, reading, bad)
    words["native"] = read_verifier(folder, result, builder, reading, bad)
    builder.fields["harbor"] = words
    started = _start_fields(result, filled)
    ended = filled.ended or _build_end(result)
    made = builder.finish(
        f"trial {result.get('trial_name', folder.name)}",
        ended=msgspec.structs.replace(ended, artifacts=artifacts),
        **started,
    )
    if filled.unfinished:
        return drop_end(made)
    return made


def _result(folder: Path, bad: WarnFunction) -> dict[str, Any]:
    try:
        found = load_document(folder / "result.json", bad, "result.json")
    except UserError as exc:
        bad("result.json", str(exc))
        return {}
    return found if isinstance(found, dict) else {}


def _digest(folder: Path) -> str:
    """Returns a digest over the files that identify a trial's content."""
    paths = [_own_file(folder, name) for name in ("result.json", "agent/trajectory.json")]
    return digest_bytes("".join(digest_file(path) for path in paths if path is not None).encode())


def _read_steps(
    folder: Path, builder: TrajectoryBuilder, result: dict[str, Any], where: DocumentPath
) -> DocumentSummary:
    """Reads the agent's actions; of a trial in steps, one trajectory after the other."""
    whole = _own_file(folder, "agent/trajectory.json")
    if whole is not None:
        return _document(whole, builder, where.below("agent/trajectory.json"))
    filled, fields = DocumentSummary({}, None, unfinished=False), dict[str, Any]()
    for name in _step_names(folder, result):
        path = _own_file(folder, f"steps/{name}/agent/trajectory.json")
        if path is None:
            continue
        before = len(builder.steps)
        found = _document(path, builder, where.below(f"steps/{name}/agent/trajectory.json"))
        filled = found if not filled.started else filled
        fields |= {"steps": {**fields.get("steps", {}), name: builder.fields}} if builder.fields else {}
        for step in builder.steps[before:]:
            builder.change_step(step, extra={**step.extra, "harbor_step": name})
    builder.fields = fields
    if not builder.steps and result.get("agent_info"):
        where.bad("agent/trajectory.json", "missing: the agent's actions are unknown")
    return filled


def _document(path: Path, builder: TrajectoryBuilder, where: DocumentPath) -> DocumentSummary:
    fields = json_fields(path, ("steps", "subagent_trajectories"), where.bad)
    try:
        check_version(fields.get("schema_version"), where.bad)
    except UserError as exc:
        where.bad("", str(exc))
        return DocumentSummary({}, None, unfinished=False)
    filled = build_from_document(builder, fields, json_items(path, ("steps",), where.bad), where)
    embedded = [known_start for _, known_start in json_items(path, ("subagent_trajectories",), where.bad)]
    if embedded:
        builder.fields["subagent_trajectories"] = embedded
    return filled


def _step_names(folder: Path, result: dict[str, Any]) -> list[str]:
    told = [r["step_name"] for r in objects_in(result.get("step_results")) if isinstance(r.get("step_name"), str)]
    names = [name for name in told if "/" not in name and "\\" not in name and name not in ("", ".", "..")]
    steps = folder / "steps"
    there = sorted(p.name for p in steps.iterdir() if p.is_dir()) if steps.is_dir() and not steps.is_symlink() else []
    return [*dict.fromkeys([*names, *there])]


def _unread_files(folder: Path) -> dict[str, int]:
    """Returns the files of a trial that are not read, with their sizes."""
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        part = "/".join(path.parts[-2:])
        seen = name == "result.json" or part in _READ or name.startswith("artifacts/")
        if not seen and len(found) < _NAMED and path.is_file() and not path.is_symlink():
            found[name] = path.stat().st_size
    return found


def _int_values(values: Any) -> dict[str, int]:
    return {str(k): v for k, v in values.items() if isinstance(v, int)} if isinstance(values, dict) else {}


def _start_fields(result: dict[str, Any], filled: DocumentSummary) -> dict[str, Any]:
    info = result.get("agent_info")
    info = info if isinstance(info, dict) else {}
    model = info.get("model_info")
    name = model.get("name") if isinstance(model, dict) else None
    started: dict[str, Any] = {"agent": info.get("name"), "model": name, "task": result.get("task_name")}
    known = {k: v for k, v in started.items() if isinstance(v, str) and v}
    at = parse_time(result.get("started_at"))
    known_start = {k: v for k, v in filled.started.items() if v is not None}
    return {**known_start, **known, **({"at": at} if at is not None and "at" not in known_start else {})}


def _build_end(result: dict[str, Any]) -> AttemptEnded:
    metrics = _metrics(result.get("agent_result"))
    at, raised = parse_time(result.get("finished_at")), result.get("exception_info")
    if not isinstance(raised, dict):
        return AttemptEnded(metrics=metrics, at=at)
    kind, message = str(raised.get("exception_type", "")), str(raised.get("exception_message", ""))
    error = f"{kind}: {message}"[:4000]
    stopped, broke = _cause(kind)
    return AttemptEnded(None, stopped, broke, error, metrics, at=at)


def _cause(kind: str) -> tuple[str | None, str | None]:
    """Returns the limit that stopped a trial, or the boundary that failed, by Harbor's exception name."""
    stops = {"AgentTimeoutError": "wall_s", "CancelledError": "cancelled"}
    stops |= dict.fromkeys(("ContextWindowExceededError", "ContextLengthExceededError"), "tokens")
    stops |= dict.fromkeys(("OutputTokenExceededError", "OutputLengthExceededError"), "tokens")
    if kind in stops:
        return stops[kind], None
    if kind.startswith(("Verifier", "RewardFile", "AddTestsDir", "DownloadVerifierDir")):
        return None, "verifier"
    if kind.startswith(_PROVIDER):
        return None, "provider"
    return None, "agent" if kind.startswith(("Agent", "NonZeroAgentExit")) and "Setup" not in kind else "environment"


def _metrics(context: Any) -> dict[str, float]:
    if not isinstance(context, dict):
        return {}
    names = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
    known = {name: context.get(name) for name in names}
    return {k: float(v) for k, v in known.items() if isinstance(v, int | float) and not isinstance(v, bool)}
