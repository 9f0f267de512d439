"""AgentRewardBench's trajectories (JSON): runs of AgentLab in BrowserGym, converted by its authors.

Turns, models' messages and the summary are read; trees as objects and boxes of elements are left out, and screenshots
lie in other archives. What its experts and judges said of a run is in other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import load_document, warn_in
from assay.formats.shared.round_trip_builder import (
    WHOLE,
    count_or_none,
    file_origin,
    is_object,
    objects_in,
    text_or_empty,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff

from .episodes import EpisodeStep, add_episode, add_reward

_KEPT = ("benchmark", "experiment", "model_args", "flags", "summary_info", "valid")


class AgentRewardBenchFormat(ReadOnlyFormat):
    name: ClassVar[str] = "agent-reward-bench"
    title: ClassVar[str] = "AgentRewardBench trajectories of BrowserGym (JSON)"
    provenance: ClassVar[Provenance] = "peer"
    why_read_only: ClassVar[str] = "AgentRewardBench's files are converted from AgentLab's and only read"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return is_object(seen) and seen.has("benchmark", "experiment", "trajectory_dir", "goal")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        found = load_document(path, bad, largest=WHOLE)
        if not isinstance(found, dict):
            raise UserError("expected an object with `steps`")
        builder = TrajectoryBuilder(file_origin(self.name, path), reading)
        steps = objects_in(found.get("steps"))
        if not steps:
            bad("steps", "expected a list of steps")
        add_episode(
            builder, text_or_empty(found.get("goal")).rstrip("\n"), [_step(at, one) for at, one in enumerate(steps)]
        )
        builder.fields = {name: found.get(name) for name in _KEPT}
        summary = found.get("summary_info")
        ended = add_reward(builder, summary if isinstance(summary, dict) else {})
        yield builder.finish(
            path.stem,
            ended=ended,
            task=path.stem,
            agent=text_or_none(found.get("agent")) or "unknown",
            model=text_or_none(found.get("model")),
            seed=count_or_none(found.get("seed")) or 0,
        )


def _step(at: int, step: dict[str, Any]) -> EpisodeStep:
    return EpisodeStep(
        at,
        text_or_none(step.get("action")),
        text_or_none(step.get("reasoning")),
        text_or_empty(step.get("url")),
        "",
        text_or_empty(step.get("axtree")),
        text_or_empty(step.get("last_action_error")),
        step.get("chat_messages") or None,
        step.get("stats") or None,
    )
