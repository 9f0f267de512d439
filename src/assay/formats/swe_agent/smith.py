"""Reports of SWE-smith and SWE-bench evaluations whose attempt left no trajectory: the verdict and its evidence alone.

A report that stands with its trajectory is read with the trajectory (`swe_agent`), and is told here as left to it, so
that no attempt counts twice. Tasks, validations and summaries, which look much alike, are told for what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Building
from assay.formats.shared.mirrored import is_object, origin_of, sibling
from assay.formats.shared.reading import at_place, document
from assay.formats.shared.sniffing import sniff
from assay.formats.swe_agent.report import OUTPUT, judge, report_of
from assay.records import Trajectory

__all__ = ["SweSmithFormat"]


class SweSmithFormat:
    """See the module."""

    name: ClassVar[str] = "swe-smith"
    title: ClassVar[str] = "SWE-smith or SWE-bench evaluation report"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = False

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if not is_object(seen) or "schema_version" in seen.paths:  # an ATIF document may hold a report among its facts
            return False
        lists = seen.has("FAIL_TO_PASS", "PASS_TO_PASS")
        summary = seen.has("ids_resolved", "resolved")
        return lists or summary or any(place.endswith("patch_successfully_applied") for place in seen.paths)

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        bad = at_place(reading, path.name)
        found = document(path)
        report = report_of(found)
        if report is None:
            bad("", _what_it_is(found))
            return
        instance = report[0] or path.parent.name
        beside = _trajectory_of(path, instance)
        if beside is not None:
            bad("", f"it is read with its trajectory: import {beside}")
            return
        built = Building(origin_of(self.name, path), reading)
        built.fields = {key: value for key, value in report[1].items() if key != "tests_status"}
        judge(built, report[1], sibling(path.parent / OUTPUT))
        made_by = report[1].get("model_name_or_path")
        yield built.done(instance, task=instance, model=made_by if isinstance(made_by, str) else None)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        """Does not write."""
        raise UserError("a report alone is no trajectory: export to swe-agent, which writes reports beside")


def _trajectory_of(path: Path, instance: str) -> str | None:
    """Where the attempt's trajectory is, as SWE-agent and SWE-smith lay it out; None where it is not there."""
    beside = path.parent / f"{instance}.traj"
    smith = path.parent.parent.parent / "trajectories" / instance / f"{instance}.traj"
    exported = path.with_name(path.name.removesuffix(".report.json") + ".traj")
    found = sibling(beside, exported, smith)
    if found is None:
        return None
    return found.name if found.parent == path.parent else f"../../trajectories/{instance}/{found.name}"


def _what_it_is(found: Any) -> str:
    if isinstance(found, dict):
        if "problem_statement" in found or "patch" in found:
            return "it is a task of SWE-smith and no run of one"
        if "ids_resolved" in found:
            return "it is the summary of an evaluation, whose attempts have reports of their own"
        if "FAIL_TO_PASS" in found:
            return "it is the validation of a task and no run of one"
    return "it is no report of one instance"
