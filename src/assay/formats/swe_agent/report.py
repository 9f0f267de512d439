"""Reads an evaluation of the SWE-bench kind: `report.json` and the raw `test_output.txt`.

Both are in one folder of an instance. The report is a claim and is kept unchanged, contradictions included (a patch
that was not applied and tests that pass).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.round_trip_builder import find_file, load_optional_document
from assay.records import VerdictStatus

REPORT, OUTPUT = "report.json", "test_output.txt"
_LISTS = (("FAIL_TO_PASS", True), ("PASS_TO_PASS", True), ("FAIL_TO_FAIL", False), ("PASS_TO_FAIL", False))
_PATCH = {"exists": "patch_exists", "applied": "patch_successfully_applied", "resolved": "resolved"}
_SMITH = "run_evaluation"


def is_report(value: Any) -> bool:
    """Returns whether a JSON value is the report of one instance."""
    return isinstance(value, dict) and isinstance(value.get("resolved"), bool) and "patch_successfully_applied" in value


def report_of(value: Any) -> tuple[str | None, dict[str, Any]] | None:
    """Returns instance and report of a `report.json`, which may be keyed by the instance; None where it is invalid."""
    if is_report(value):
        return None, value
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if is_report(inner):
            return str(name), inner
    return None


def report_beside(path: Path, instance: str) -> tuple[dict[str, Any] | None, Path | None]:
    """Returns report and test output of a trajectory, from beside it or from SWE-smith's folder."""
    smith = path.parent.parent.parent / _SMITH / instance
    plain = "/" not in instance and instance not in {"", ".", ".."}
    folders = (path.parent, smith) if plain else (path.parent,)
    reports = [path.with_suffix(f".{REPORT}"), *(folder / REPORT for folder in folders)]
    found = report_of(load_optional_document(*reports))
    if found is None or found[0] not in {None, instance}:
        return None, None
    return found[1], find_file(path.with_suffix(f".{OUTPUT}"), *(folder / OUTPUT for folder in folders))


def judge(builder: TrajectoryBuilder, report: dict[str, Any], output: Path | None) -> None:
    """Adds the report's evidence and its verdict."""
    said = {name: report[key] for name, key in _PATCH.items() if isinstance(report.get(key), bool)}
    evidence = [builder.add_evidence("patch", said, channel="audit")]
    tests = list(_tests(report.get("tests_status")))
    if isinstance(report.get("tests_status"), dict):
        counts = {status: sum(t["status"] == status for t in tests) for status in ("passed", "failed")}
        data = {"source": "report", "counts": counts, "total": len(tests), "tests": tests}
        evidence.append(builder.add_evidence("test_report", data, channel="audit"))
    if output is not None:
        text = output.read_bytes().decode("utf-8", "replace")
        evidence.append(builder.add_text_evidence("test_output", text, file=OUTPUT))
    resolved = report["resolved"]
    status: VerdictStatus = "pass" if resolved else "fail"
    builder.add_verdict(status, float(resolved), "as recorded by the evaluation's report.json", tuple(evidence))


def _tests(status: Any) -> Iterable[dict[str, Any]]:
    """Yields each test of the report with its status. Those of FAIL_TO_FAIL that "succeed" failed as intended."""
    if not isinstance(status, dict):
        return
    for name, passing in _LISTS:
        group = status.get(name)
        for key, good in (("success", passing), ("failure", not passing)):
            names = group.get(key) if isinstance(group, dict) else None
            for test in names if isinstance(names, list) else ():
                if isinstance(test, str):
                    yield {"id": test, "status": "passed" if good else "failed", "group": name}
