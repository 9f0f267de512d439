"""Results of Terminal-Bench (`tb run`): `results.json` of a run, with all its trials, or of one trial.

They hold no turns but the instruction: outcome, tests, tokens and times. The agent and its model are in
`run_metadata.json` of the run's folder. In a folder with both kinds of file, a trial is the same attempt in both. Jobs
of Terminal-Bench 2 are read as `harbor`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import Origin, TrajectoryBuilder
from assay.formats.shared.json_stream import json_items, load_document, parse_time, warn_in
from assay.formats.shared.round_trip_builder import (
    count_or_none,
    file_origin,
    get_path,
    is_object,
    load_optional_document,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, VerdictStatus

_TRIAL = ("task_id", "is_resolved", "parser_results")
_STOPPED = {"agent_timeout": "wall_s", "context_length_exceeded": "tokens", "output_length_exceeded": "tokens"}
_BROKE = {
    "test_timeout": "verifier", "parse_error": "verifier", "agent_installation_failed": "agent",
    "unknown_agent_error": "agent", "fatal_llm_parse_error": "agent",
}  # fmt: skip
_META = "run_metadata.json"


class TerminalBenchFormat(ReadOnlyFormat):
    name: ClassVar[str] = "terminal-bench"
    title: ClassVar[str] = "Terminal-Bench results (results.json)"
    provenance: ClassVar[Provenance] = "peer"
    why_read_only: ClassVar[str] = "Terminal-Bench results are only read; write harbor, which its successor reads"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return is_object(seen) and (seen.has(*_TRIAL) or seen.has(*(f"results[].{key}" for key in _TRIAL)))

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad, origin = warn_in(reading, path.name), file_origin(self.name, path)
        run = load_optional_document(path.parent / _META, *(above / _META for above in list(path.parents)[1:4]))
        if sniff(path).has(*_TRIAL):
            yield _read_trial(load_document(path, bad), run, origin, reading)
            return
        for position, trial in json_items(path, ("results",), bad):
            if isinstance(trial, dict) and "task_id" in trial:
                yield _read_trial(trial, run, origin, reading)
            else:
                bad(f"results[{position}]", "expected a trial with a `task_id`")


def _read_trial(trial: Any, run: Any, origin: Origin, reading: ImportContext) -> ImportedTrajectory:
    builder = TrajectoryBuilder(origin, reading)
    instruction, name = text_or_none(get_path(trial, "instruction")), text_or_none(get_path(trial, "trial_name"))
    if instruction:
        builder.add_step("user", instruction)
    _judge(builder, trial)
    builder.fields = {key: value for key, value in trial.items() if key not in ("instruction", "parser_results")}
    reason = text_or_none(trial.get("failure_mode"))
    ended = AttemptEnded(
        stopped=_STOPPED.get(reason or ""),
        broke=_BROKE.get(reason or ""),
        error=reason if reason in _BROKE else None,
        metrics=_tokens(trial),
        at=parse_time(trial.get("trial_ended_at") or trial.get("agent_ended_at")),
    )
    return builder.finish(
        f"trial {name or trial.get('task_id')} {trial.get('id') or trial.get('uuid') or ''}".rstrip(),
        ended=ended,
        task=text_or_none(trial.get("task_id")),
        agent=text_or_none(get_path(run, "agent_name")) or "unknown",
        model=text_or_none(get_path(run, "model_name")),
        at=parse_time(trial.get("trial_started_at") or trial.get("agent_started_at")),
    )


def _tokens(trial: dict[str, Any]) -> dict[str, float]:
    """Returns the tokens used; none where both counts are 0, as agents have them that count none."""
    counts = {"prompt_tokens": trial.get("total_input_tokens"), "completion_tokens": trial.get("total_output_tokens")}
    known = {name: float(count) for name, value in counts.items() if (count := count_or_none(value)) is not None}
    return known if any(known.values()) else {}


def _judge(builder: TrajectoryBuilder, trial: dict[str, Any]) -> None:
    evidence = []
    tests = trial.get("parser_results")
    if isinstance(tests, dict):
        totals = Counter(str(status) for status in tests.values())
        named = [{"id": name, "status": str(status)} for name, status in tests.items()]
        data = {"source": "recorded", "counts": dict(totals), "total": len(tests), "tests": named}
        evidence.append(builder.add_evidence("test_report", data, channel="audit"))
    resolved, reason = trial.get("is_resolved"), text_or_none(trial.get("failure_mode"))
    status: VerdictStatus = "unknown"
    if isinstance(resolved, bool) and _BROKE.get(reason or "") != "verifier":
        status = "pass" if resolved else "fail"
    score = float(resolved) if isinstance(resolved, bool) and status != "unknown" else None
    why = f"as recorded by Terminal-Bench{f' ({reason})' if reason not in (None, 'unset', 'none') else ''}"
    builder.add_verdict(status, score, why, tuple(evidence))
