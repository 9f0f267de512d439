"""Results of tau-bench: an array of runs, each a conversation of an agent, a simulated user and the domain's tools.

Reads and writes `{task_id, trial, reward, info, traj}`. The reward is kept as recorded, with what the source says of
how it came about (`reward_info`: expected actions, digests, outputs), and decides nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import WarnFunction, json_items, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.messages import plan_chat_messages, read_message, render_chat_message
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    count_or_none,
    file_origin,
    is_imported_from,
    named_rewards,
    number,
    source_fields,
    write_array,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, Trajectory, VerdictStatus, canonical_bytes

STOP = "###STOP###"


class TauBenchFormat:
    name: ClassVar[str] = "tau-bench"
    title: ClassVar[str] = "tau-bench results"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return seen.shape == "array" and seen.has("[].task_id", "[].reward") and not seen.has("[].traj[].index")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for position, run in json_items(path, (), bad):
            builder = RoundTripBuilder(origin, reading, render_chat_message)
            with skip_unreadable(bad, f"[{position}]"):
                if isinstance(run, dict) and read_run(builder, run, bad, f"[{position}]"):
                    yield finish_run(builder, run, f"run {position}")
                elif not isinstance(run, dict):
                    bad(f"[{position}]", f"expected a run, found {type(run).__name__}")

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        write_array(trajectories, target, lambda trajectory: self._run(trajectory, writing))

    def _run(self, trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
        mine = is_imported_from(trajectory, self.name)
        messages = restore_items(trajectory, render_chat_message, plan_chat_messages, writing, own=mine)
        fields = source_fields(trajectory) if mine else _fresh_fields(trajectory)
        run = {**fields, "traj": list(messages)}
        added = {"info.task.instruction": "the first message of the user"}
        report_losses(trajectory, None if mine else _read_back(run), writing, self.name, added=added)
        return run


def _read_back(run: dict[str, Any]) -> ImportedTrajectory:
    builder = RoundTripBuilder(Origin(TauBenchFormat.name, "", ""), THROWAWAY, render_chat_message)
    read_run(builder, run, lambda *_: None, "")
    return finish_run(builder, run, "")


def _fresh_fields(trajectory: Trajectory) -> dict[str, Any]:
    rewards = named_rewards(trajectory)
    reward = rewards.get("reward", next(iter(rewards.values()), None))
    return {
        "task_id": trajectory.task,
        "trial": trajectory.number,
        "reward": reward,
        "info": {"task": {"instruction": next((s.message for s in trajectory.steps if s.actor == "user"), None)}},
    }


def read_run(builder: RoundTripBuilder, run: dict[str, Any], bad: WarnFunction, where: str) -> bool:
    """Reads a run into `built`; False where it has no conversation, which is said."""
    messages = run.get("traj")
    if not isinstance(messages, list):
        bad(f"{where}.traj", "a run has a list of messages")
        return False
    for position, message in enumerate(messages):
        read_message(builder, message, bad, f"{where}.traj[{position}]")
    builder.fields = {key: value for key, value in run.items() if key != "traj"}
    builder.place = where
    _judge(builder, run)
    return True


def _judge(builder: RoundTripBuilder, run: dict[str, Any]) -> None:
    reward = builder.read_reward(run.get("reward"))
    info = run.get("info")
    reward_info = info.get("reward_info") if isinstance(info, dict) else None
    if reward is None:
        builder.add_verdict("unknown", None, "no reward was recorded by tau-bench")
        return
    evidence = [builder.add_evidence("reward", {"values": {"reward": reward}})]
    if isinstance(reward_info, dict):
        evidence.append(builder.add_evidence("expectation", reward_info))
    status: VerdictStatus = "pass" if abs(reward - 1.0) <= 1e-6 else "fail"
    builder.add_verdict(status, reward, "as recorded by tau-bench", tuple(evidence), {"reward": reward})


def finish_run(builder: RoundTripBuilder, run: dict[str, Any], key: str) -> ImportedTrajectory:
    trial = count_or_none(run.get("trial"))
    task = run.get("task_id")
    last = builder.steps[-1].message if builder.steps else None
    ended = "the user ended the conversation" if builder.steps and STOP in (last or "") else None
    return builder.finish(
        f"{key}: task {task} trial {trial}",
        ended=AttemptEnded(ended=ended, metrics=_metrics(run)),
        task=task if isinstance(task, str) else canonical_bytes(task).decode() if task is not None else None,
        number=trial or 0,
    )


def _metrics(run: dict[str, Any]) -> dict[str, float]:
    info = run.get("info")
    cost = number(info.get("user_cost")) if isinstance(info, dict) else None
    return {} if cost is None else {"user_cost": cost}
