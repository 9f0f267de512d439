"""Reports of SWE-smith and SWE-bench evaluations whose attempt left no trajectory: the verdict and its evidence alone.

A report beside its trajectory is read with the trajectory (`swe_agent`); here it only gives a warning, so that no
attempt counts twice. So do tasks, validations and summaries, which look similar.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import load_document, warn_in
from assay.formats.shared.round_trip_builder import file_origin, find_file, is_object
from assay.formats.shared.sniffing import sniff
from assay.formats.swe_agent.report import OUTPUT, judge, report_of


class SweSmithFormat(ReadOnlyFormat):
    name: ClassVar[str] = "swe-smith"
    title: ClassVar[str] = "SWE-smith or SWE-bench evaluation report"
    why_read_only: ClassVar[str] = "a report is not a trajectory: export to swe-agent, which also writes reports"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if not is_object(seen) or "schema_version" in seen.paths:  # an ATIF document may hold a report among its facts
            return False
        lists = seen.has("FAIL_TO_PASS", "PASS_TO_PASS")
        summary = seen.has("ids_resolved", "resolved")
        return lists or summary or any(place.endswith("patch_successfully_applied") for place in seen.paths)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        found = load_document(path, bad)
        report = report_of(found)
        if report is None:
            bad("", _describe_document(found))
            return
        instance = report[0] or path.parent.name
        beside = _trajectory_of(path, instance)
        if beside is not None:
            bad("", f"the report is read with its trajectory: import {beside}")
            return
        builder = TrajectoryBuilder(file_origin(self.name, path), reading)
        builder.fields = {key: value for key, value in report[1].items() if key != "tests_status"}
        judge(builder, report[1], find_file(path.parent / OUTPUT))
        made_by = report[1].get("model_name_or_path")
        yield builder.finish(instance, task=instance, model=made_by if isinstance(made_by, str) else None)


def _trajectory_of(path: Path, instance: str) -> str | None:
    """Returns the path of the attempt's trajectory in SWE-agent's or SWE-smith's layout, or None."""
    beside = path.parent / f"{instance}.traj"
    smith = path.parent.parent.parent / "trajectories" / instance / f"{instance}.traj"
    exported = path.with_name(path.name.removesuffix(".report.json") + ".traj")
    found = find_file(beside, exported, smith)
    if found is None:
        return None
    return found.name if found.parent == path.parent else f"../../trajectories/{instance}/{found.name}"


def _describe_document(document: Any) -> str:
    if isinstance(document, dict):
        if "problem_statement" in document or "patch" in document:
            return "it is a task of SWE-smith, not a run"
        if "ids_resolved" in document:
            return "it is the summary of an evaluation, whose attempts have reports of their own"
        if "FAIL_TO_PASS" in document:
            return "it is the validation of a task, not a run"
    return "not a report of one instance"
