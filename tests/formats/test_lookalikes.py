"""Documents that look like another format's, and versions that no reader knows: refused or told, never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.errors import UserError
from assay.formats.harbor.atif import AtifFormat
from assay.formats.registry import matching_formats
from assay.formats.swe_agent.format import SweAgentFormat
from tests.formats.generated import Blobs, read_all
from tests.rollout.exchange.test_importing import imported

LOOKALIKES: list[dict[str, Any]] = [
    {"trajectory": [{"state": [0.1, 0.2], "action": 3, "reward": 1.0}], "history": [{"loss": 0.2}]},
    {"trajectory": [{"action": "click", "url": "a"}], "task": "book a flight"},
    {"trajectory": [[1, 2], [3, 4]], "history": [1, 2, 3]},
    {"trajectory": {"points": [1, 2]}, "history": ["a"]},
    {"trajectory": "gs://bucket/file", "history": [{"version": 1}]},
]


@pytest.mark.parametrize("document", LOOKALIKES)
def test_a_document_that_only_names_its_fields_like_swe_agent_is_not_taken(
    document: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert not matching_formats(tmp_path / "run.json")


def test_entries_that_are_none_of_swe_agents_are_told(tmp_path: Path) -> None:
    good = {"action": "ls", "observation": "a.txt", "response": "I look", "thought": ""}
    document = {"trajectory": [good, {"x": 1}, {**good, "action": {"tool": "ls"}}], "history": [], "info": {}}
    (tmp_path / "run.traj").write_text(json.dumps(document))
    assert SweAgentFormat().recognises(tmp_path / "run.traj")
    _, problems = read_all(SweAgentFormat(), tmp_path / "run.traj", Blobs())
    assert [(p.place, p.problem.partition(":")[0]) for p in problems] == [
        ("trajectory[1]", "not an entry of SWE-agent"),
        ("trajectory[2].action", "expected text, found dict"),
    ]


def test_a_key_that_occurs_twice_in_a_document_is_told(tmp_path: Path) -> None:
    entry = '{"action": "ls", "action": "rm", "observation": "", "response": ""}'
    (tmp_path / "run.traj").write_text(f'{{"trajectory": [{entry}], "history": [], "info": {{}}}}')
    _, problems = read_all(SweAgentFormat(), tmp_path / "run.traj", Blobs())
    assert [p.problem for p in problems] == [
        "the key 'action' occurs more than once in an object: the last value is read"
    ]


def atif(path: Path, version: str) -> Path:
    step = {"step_id": 1, "source": "user", "message": "solve it"}
    path.write_text(json.dumps({"schema_version": version, "agent": {"name": "a", "version": "1"}, "steps": [step]}))
    return path


def test_a_newer_minor_version_of_atif_is_read_and_told(tmp_path: Path) -> None:
    found, problems = read_all(AtifFormat(), atif(tmp_path / "t.json", "ATIF-v1.11"), Blobs())
    assert len(found) == 1
    assert [(p.place, "newer than ATIF-v1.8" in p.problem) for p in problems] == [("schema_version", True)]


@pytest.mark.parametrize("version", ["ATIF-v2.0", "ATIF-draft", "1.4"])
def test_another_version_of_atif_is_refused_by_name(version: str, tmp_path: Path) -> None:
    path = atif(tmp_path / "t.json", version)
    with pytest.raises(UserError, match=f"schema_version is '{version}': ATIF-v1.0 to ATIF-v1.8 are read"):
        read_all(AtifFormat(), path, Blobs())
    report = imported(tmp_path / "s", path)
    assert (report.read, report.unreadable_total) == (0, 1)
