"""AgentRx: failed runs of tau-bench with the failures that people found, step by step, and their root cause.

The runs are tau-bench results; the labels stand beside them in `tau_ground_truth.json`, by trajectory. A label's
`step_number` counts messages from 1; `steps` in the evidence are the steps that those messages became part of (a tool's
result belongs to the step that called it).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.benchmarks.tau_bench import finish_run, read_run
from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.base import ReadOnlyFormat, skip_unreadable
from assay.formats.shared.builder import Origin, TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction, json_items, warn_in
from assay.formats.shared.messages import render_chat_message
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    file_origin,
    find_file,
    load_optional_document,
    objects_in,
)
from assay.formats.shared.sniffing import sniff

TRUTH, RUNS = "tau_ground_truth.json", "tau_dataset_failed.json"


class AgentRxFormat(ReadOnlyFormat):
    name: ClassVar[str] = "agentrx"
    title: ClassVar[str] = "AgentRx failure labels over tau-bench runs"
    why_read_only: ClassVar[str] = "AgentRx is a labelled data set and is only read: export its runs to tau-bench"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        runs = seen.has("[].task_id", "[].reward", "[].traj[].index")
        return seen.shape == "array" and (runs or seen.has("[].trajectory_id", "[].failures"))

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        if sniff(path).has("[].trajectory_id", "[].failures"):
            yield from _read_unmatched_labels(path, origin, reading, bad)
            return
        truth = _load_labels(path)
        for position, run in json_items(path, (), bad):
            builder = RoundTripBuilder(origin, reading, render_chat_message)
            where = f"[{position}]"
            with skip_unreadable(bad, where):
                if not isinstance(run, dict):
                    bad(where, f"expected a run, found {type(run).__name__}")
                elif read_run(builder, run, bad, where):
                    _add_labels(builder, truth.get(task) if isinstance(task := run.get("task_id"), int | str) else None)
                    yield finish_run(builder, run, f"run {position}")


def _read_unmatched_labels(
    path: Path, origin: Origin, reading: ImportContext, bad: WarnFunction
) -> Iterator[ImportedTrajectory]:
    """Reads labels without runs; where the runs exist, the labels are read with them."""
    runs = find_file(path.parent / RUNS)
    if runs is not None:
        bad("", f"the file holds labels of runs: import {runs.name}")
        return
    for position, label in json_items(path, (), bad):
        if isinstance(label, dict) and isinstance(label.get("failures"), list):
            label_only = TrajectoryBuilder(origin, reading)
            label_only.add_label("agentrx", label)
            yield label_only.finish(f"label {position}", task=str(label.get("trajectory_id")))
        else:
            bad(f"[{position}]", "a label is an object with a list of failures")


def _load_labels(path: Path) -> dict[Any, dict[str, Any]]:
    labels = load_optional_document(path.parent / TRUTH)
    found = {}
    for label in labels if isinstance(labels, list) else ():
        if isinstance(label, dict) and isinstance(label.get("trajectory_id"), int | str):
            found[label["trajectory_id"]] = label
    return found


def _add_labels(builder: RoundTripBuilder, label: dict[str, Any] | None) -> None:
    if label is None:
        return
    steps = builder.step_by_position()
    numbers = [failure.get("step_number") for failure in objects_in(label.get("failures"))]
    where = [steps.get(n - 1) if isinstance(n, int) and not isinstance(n, bool) else None for n in numbers]
    builder.add_label("agentrx", {**label, "steps": where})
