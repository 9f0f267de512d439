"""Results of tau-bench: an array of runs, each a conversation of an agent, a simulated user and the domain's tools.

Reads and writes `{task_id, trial, reward, info, traj}`. The reward is kept as recorded, with what the source says of
how it came about (`reward_info`: expected actions, digests, outputs), and decides nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Origin
from assay.formats.shared.losses import THROWAWAY, tell_losses
from assay.formats.shared.messages import chat_item, chat_plan, read_message
from assay.formats.shared.mirror import items_of
from assay.formats.shared.mirrored import (
    Mirrored,
    fields_of,
    number,
    origin_of,
    own,
    rewards_of,
    whole_number,
    write_array,
)
from assay.formats.shared.reading import Bad, at_place, json_items
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, Trajectory, VerdictStatus, canonical_bytes

__all__ = ["TauBenchFormat", "read_run"]

STOP = "###STOP###"


class TauBenchFormat:
    """See the module."""

    name: ClassVar[str] = "tau-bench"
    title: ClassVar[str] = "tau-bench results"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return seen.shape == "array" and seen.has("[].task_id", "[].reward") and not seen.has("[].traj[].index")

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        origin, bad = origin_of(self.name, path), at_place(reading, path.name)
        for position, run in json_items(path, (), bad):
            built = Mirrored(origin, reading, chat_item)
            if isinstance(run, dict) and read_run(built, run, bad, f"[{position}]"):
                yield finished(built, run, f"run {position}")
            elif not isinstance(run, dict):
                bad(f"[{position}]", f"expected a run, found {type(run).__name__}")

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        write_array(trajectories, target, lambda trajectory: self._run(trajectory, writing))

    def _run(self, trajectory: Trajectory, writing: Writing) -> dict[str, Any]:
        mine = own(trajectory, self.name)
        messages = items_of(trajectory, chat_item, chat_plan, writing, own=mine)
        fields = fields_of(trajectory) if mine else _fresh_fields(trajectory)
        run = {**fields, "traj": list(messages)}
        tell_losses(trajectory, None if mine else _again(run), writing, self.name)
        return run


def _again(run: dict[str, Any]) -> Imported:
    built = Mirrored(Origin(TauBenchFormat.name, "", ""), THROWAWAY, chat_item)
    read_run(built, run, lambda *_: None, "")
    return finished(built, run, "")


def _fresh_fields(trajectory: Trajectory) -> dict[str, Any]:
    rewards = rewards_of(trajectory)
    reward = rewards.get("reward", next(iter(rewards.values()), None))
    return {
        "task_id": trajectory.task,
        "trial": trajectory.number,
        "reward": reward,
        "info": {"task": {"instruction": next((s.message for s in trajectory.steps if s.actor == "user"), None)}},
    }


def read_run(built: Mirrored, run: dict[str, Any], bad: Bad, where: str) -> bool:
    """Reads a run into `built`; False where it has no conversation, which is said."""
    messages = run.get("traj")
    if not isinstance(messages, list):
        bad(f"{where}.traj", "a run has a list of messages")
        return False
    for position, message in enumerate(messages):
        read_message(built, message, bad, f"{where}.traj[{position}]")
    built.fields = {key: value for key, value in run.items() if key != "traj"}
    _judge(built, run, bad, where)
    return True


def _judge(built: Mirrored, run: dict[str, Any], bad: Bad, where: str) -> None:
    reward = number(run.get("reward"))
    info = run.get("info")
    told = info.get("reward_info") if isinstance(info, dict) else None
    if reward is None:
        if run.get("reward") is not None:
            bad(f"{where}.reward", f"expected a number, found {run['reward']!r}")
        built.verdict("unknown", None, "no reward was recorded by tau-bench")
        return
    evidence = [built.evidence("reward", {"values": {"reward": reward}})]
    if isinstance(told, dict):
        evidence.append(built.evidence("expectation", told))
    status: VerdictStatus = "pass" if abs(reward - 1.0) <= 1e-6 else "fail"
    built.verdict(status, reward, "as recorded by tau-bench", tuple(evidence), {"reward": reward})


def finished(built: Mirrored, run: dict[str, Any], key: str) -> Imported:
    """The trajectory of a run that was read."""
    trial = whole_number(run.get("trial"))
    task = run.get("task_id")
    last = built.steps[-1].message if built.steps else None
    ended = "the user ended the conversation" if built.steps and STOP in (last or "") else None
    return built.done(
        f"{key}: task {task} trial {trial}",
        ended=AttemptEnded(ended=ended, metrics=_metrics(run)),
        task=task if isinstance(task, str) else canonical_bytes(task).decode() if task is not None else None,
        number=trial or 0,
    )


def _metrics(run: dict[str, Any]) -> dict[str, float]:
    info = run.get("info")
    cost = number(info.get("user_cost")) if isinstance(info, dict) else None
    return {} if cost is None else {"user_cost": cost}
