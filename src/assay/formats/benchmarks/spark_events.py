"""One attempt of SPARK: what it did, and what was recorded of its verification."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.formats.codex.events import read_events
from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.builder import Origin, TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction, loads, parse_time
from assay.formats.shared.round_trip_builder import count_or_none, get_path, number, objects_in, text_or_none
from assay.records import AttemptEnded, Noted, VerdictStatus

_LARGE = ("agent_stdout_full", "test_stdout_full", "ctrf_json", "type", "ts")
_STATUS: dict[str, VerdictStatus] = {"PASS": "pass", "FAIL": "fail", "PARTIAL": "fail", "INFRA_ERROR": "unknown"}
_CTRF = ("passed", "failed", "skipped", "pending", "other")


class SparkAttempt:
    """Builds one attempt."""

    def __init__(
        self, attempt: int, line: dict[str, Any] | None, record: dict[str, Any] | None, where: str = "attempts"
    ) -> None:
        self._number = attempt
        self._line, self._record = line, record
        self._where = where
        self.notes: list[dict[str, Any]] = []

    def read(
        self, origin: Origin, reading: ImportContext, bad: WarnFunction, task: str, skill: Path | None = None
    ) -> ImportedTrajectory:
        builder = TrajectoryBuilder(origin, reading)
        line = self._line if self._line is not None else self._record or {}
        result = line.get("result_json")
        result = result if isinstance(result, dict) else {}
        model = text_or_none(get_path(result, "config", "agent", "model_name"))
        error = self._read_output(builder, line, bad, model or "unknown")
        builder.fields |= {key: value for key, value in line.items() if key not in _LARGE}
        evidence = tuple(self._add_evidence(builder, line, result))
        for note in self.notes:
            data = {key: value for key, value in note.items() if key != "type"}
            builder.add(Noted(f"spark.{note['type']}", data, parse_time(note.get("ts"))))
        if skill is not None:
            builder.add_text_evidence("skill", skill.read_bytes().decode("utf-8", "replace"), file=skill.name)
        _judge(builder, line, evidence)
        agent = text_or_none(get_path(result, "agent_info", "name")) or "codex"
        return builder.finish(
            f"attempt {self._number}",
            ended=_build_end(result, line, error),
            task=task,
            agent=agent,
            model=model,
            number=self._number,
            at=parse_time(result.get("started_at")),
        )

    def _read_output(
        self, builder: TrajectoryBuilder, line: dict[str, Any], bad: WarnFunction, model: str
    ) -> str | None:
        """Reads the steps from the agent's output, keeping text between the events; returns its last error."""
        printed = text_or_none(line.get("agent_stdout_full"))
        if printed is None:
            return None
        events: list[tuple[str, Any]] = []
        words = []
        for position, text in enumerate(printed.split("\n")):
            try:
                event = loads(text) if text.startswith("{") else None
            except ValueError as exc:
                bad(f"{self._where} agent_stdout_full line {position + 1}", f"invalid JSON: {exc}")
                continue
            if event is not None:
                events.append((f"{self._where} agent_stdout_full line {position + 1}", event))
            elif text.strip():
                words.append(text)
        found = read_events(builder, events, bad, model)
        builder.fields |= {"printed": words} if words else {}
        builder.fields |= {"errors": found.errors} if found.errors else {}
        return found.errors[-1] if found.errors and found.ended is None else None

    def _add_evidence(self, builder: TrajectoryBuilder, line: dict[str, Any], result: dict[str, Any]) -> Iterator[str]:
        reward = number(line.get("reward"))
        if reward is not None:
            yield builder.add_evidence("reward", {"values": {"reward": reward}}, channel="audit")
        recorded = get_path(result, "verifier_result", "rewards")
        rewards = (
            {str(k): v for k, v in recorded.items() if number(v) is not None} if isinstance(recorded, dict) else {}
        )
        if rewards and rewards != {"reward": reward}:
            yield builder.add_evidence("reward", {"values": rewards, "file": "result_json"}, channel="audit")
        counts = _recorded_counts(line)
        if counts is not None:
            yield builder.add_evidence("test_report", counts, channel="audit")
        other = _recorded_counts(self._record or {}) if self._line is not None else None
        if other is not None and other != counts:
            yield builder.add_evidence("test_report", {**other, "file": "attempts.json"}, channel="audit")
        second = number((self._record or {}).get("reward")) if self._line is not None else None
        if second is not None and second != reward:
            data = {"values": {"reward": second}, "file": "attempts.json"}
            yield builder.add_evidence("reward", data, channel="audit")
        if (report := _parse_ctrf(line.get("ctrf_json"))) is not None:
            yield builder.add_evidence("test_report", report, channel="audit")
        if text := text_or_none(line.get("test_stdout_full")):
            yield builder.add_text_evidence("test_output", text)


def _recorded_counts(line: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the counts that SPARK recorded; None where it recorded none."""
    passed, total = count_or_none(line.get("n_passed")), count_or_none(line.get("n_tests"))
    if passed is None and total is None:
        return None
    found: dict[str, Any] = {"source": "recorded", "counts": {} if passed is None else {"passed": passed}}
    return found | ({} if total is None else {"total": total})


def _parse_ctrf(report: Any) -> dict[str, Any] | None:
    """Returns a CTRF report's counts and tests; None without one."""
    results = get_path(report, "results")
    summary, tests = get_path(results, "summary"), get_path(results, "tests")
    if not isinstance(summary, dict) and not isinstance(tests, list):
        return None
    recorded = {status: count_or_none(get_path(summary, status)) for status in _CTRF}
    found: dict[str, Any] = {"source": "ctrf"}
    found["counts"] = {status: count for status, count in recorded.items() if count is not None}
    total = count_or_none(get_path(summary, "tests"))
    found |= {} if total is None else {"total": total}
    named = objects_in(tests)
    found["tests"] = [
        {"id": str(one.get("name")), "status": str(one.get("status"))}
        | {key: one[key] for key in ("message", "raw_status") if isinstance(one.get(key), str)}
        for one in named
    ]
    return found


def _judge(builder: TrajectoryBuilder, line: dict[str, Any], evidence: tuple[str, ...]) -> None:
    reward, said = builder.read_reward(line.get("reward")), text_or_none(line.get("status"))
    status = _STATUS.get(said or "")
    if status is None:
        # `ERROR` is of the attempt, not of its verifier: where tests were counted, or a reward earned, it was judged.
        judged = reward is not None and (said != "ERROR" or reward > 0 or bool(count_or_none(line.get("n_tests"))))
        status = "unknown" if reward is None or not judged else ("pass" if reward >= 1 else "fail")
    rewards = {} if reward is None else {"reward": reward}
    reason = "as recorded by SPARK" + (f": {said}" if said else "")
    builder.add_verdict(status, reward, reason, evidence, rewards)


def _build_end(result: dict[str, Any], line: dict[str, Any], error: str | None) -> AttemptEnded:
    problem = result.get("exception_info")
    kind = text_or_none(get_path(problem, "exception_type")) or text_or_none(get_path(problem, "type"))
    recorded = text_or_none(get_path(problem, "exception_message")) or text_or_none(get_path(problem, "message"))
    recorded = recorded or text_or_none(line.get("error")) or error
    stopped = "wall_s" if kind is not None and "Timeout" in kind else None
    times = (parse_time(get_path(result, "agent_execution", name)) for name in ("started_at", "finished_at"))
    began, over = times
    metrics = {} if began is None or over is None else {"agent_execution_s": over - began}
    words = ": ".join(word for word in (kind, recorded) if word) or None
    return AttemptEnded(stopped=stopped, error=words, metrics=metrics, at=parse_time(result.get("finished_at")))
