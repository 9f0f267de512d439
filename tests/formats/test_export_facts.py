"""What exports hold beyond the records, and what they keep: roles and accuracy in Inspect's log, tools in chat rows."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assay.formats.chat.format import ChatFormat
from assay.formats.inspect.format import InspectFormat
from assay.formats.interface import Addition, ExportContext
from assay.formats.registry import load_formats
from assay.learning.conversation import conversations
from assay.records import Trajectory
from assay.rollout.exchange.config import ExportConfig
from assay.rollout.exchange.exporting import export_run
from tests.formats.generated import Blobs, assembled, made_up, read_all
from tests.rollout.exchange.test_importing import imported, row, rows, settings_at

TOOL = {"name": "ls", "description": "Lists a folder.", "input_schema": {"type": "object", "properties": {}}}
SYSTEM = [{"role": "system", "content": "You act."}, {"role": "user", "content": "go"}]


def chat(path: Path, *found: dict[str, Any]) -> list[Trajectory]:
    """The trajectories of chat rows."""
    path.write_text("".join(json.dumps(one) + "\n" for one in found))
    return [assembled(one) for one in read_all(ChatFormat(), path, Blobs())[0]]


def written(trajectories: list[Trajectory], target: Path) -> dict[str, Any]:
    """A log of Inspect, with the number of additions to it."""
    InspectFormat().write(trajectories, target, ExportContext(Blobs().content, lambda _: None))
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def test_inspects_log_keeps_roles_and_shows_accuracy(tmp_path: Path) -> None:
    outcomes = ["pass", "pass", "fail", "unknown"]
    talks = [{"messages": SYSTEM, "metadata": {"task": f"t{n}", "outcome": o}} for n, o in enumerate(outcomes)]
    log = written(chat(tmp_path / "in.jsonl", *talks), tmp_path / "log.json")
    assert [m["role"] for m in log["samples"][0]["messages"]] == ["system", "user"]
    (score,) = log["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == pytest.approx(2 / 3)
    assert score["metrics"]["stderr"]["value"] == pytest.approx(1 / 3)
    assert (score["scored_samples"], score["unscored_samples"], log["results"]["total_samples"]) == (3, 1, 4)


def test_an_archive_of_inspect_holds_the_results_too(tmp_path: Path) -> None:
    trajectories = chat(tmp_path / "in.jsonl", {"messages": SYSTEM, "metadata": {"task": "t", "outcome": "pass"}})
    InspectFormat().write(trajectories, tmp_path / "log.eval", ExportContext(Blobs().content, lambda _: None))
    with zipfile.ZipFile(tmp_path / "log.eval") as log:
        header = json.loads(log.read("header.json"))
    assert header["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0


def test_tools_that_a_source_recorded_are_written_into_chat_rows(tmp_path: Path) -> None:
    step = {"step_id": 1, "source": "user", "message": "go"}
    agent = {"name": "a", "version": "1", "tool_definitions": [TOOL]}
    document = {"schema_version": "ATIF-v1.8", "agent": agent, "steps": [step]}
    (tmp_path / "t.json").write_text(json.dumps(document))
    run = imported(tmp_path / "s", tmp_path / "t.json").run
    export_run(run, ExportConfig("chat", str(tmp_path / "out.jsonl")), settings_at(tmp_path / "s"))
    (tool,) = json.loads((tmp_path / "out.jsonl").read_text())["tools"]
    assert tool["type"] == "function"
    assert tool["function"]["parameters"] == TOOL["input_schema"]


def test_a_transcript_of_imported_turns_has_the_tools_of_its_row(tmp_path: Path) -> None:
    gemini = {"function_declarations": [{"name": "look", "parameters": "none"}]}
    (one,) = chat(tmp_path / "in.jsonl", {"messages": SYSTEM, "tools": [TOOL, {"odd": 1}, gemini]})
    (transcript,) = conversations(one)
    schemas = [(tool["function"]["name"], tool["function"].get("parameters")) for tool in transcript.tools]
    assert schemas == [("ls", TOOL["input_schema"]), ("look", None)]


@pytest.mark.parametrize("format", [f for f in load_formats() if f.writes], ids=lambda f: f.name)
def test_every_format_names_what_it_adds_to_records_of_another(format: Any, tmp_path: Path) -> None:
    added: list[Addition] = []
    context = ExportContext(Blobs().content, lambda _: None, added.append)
    target = tmp_path / ("out" if format.name == "harbor" else "out.json")
    format.write([made_up(7, (), 3)], target, context)
    assert added
    assert all(one.field and one.why for one in added)


def test_the_sidecar_counts_additions(tmp_path: Path) -> None:
    run = imported(tmp_path / "s", rows(tmp_path / "log.jsonl", row("one"), row("two"))).run
    report = export_run(run, ExportConfig("inspect", str(tmp_path / "log.json")), settings_at(tmp_path / "s"))
    told = json.loads((tmp_path / "log.json.losses.json").read_text())
    found = {one["field"]: one["attempts"] for one in told["additions"]}
    assert found == report.additions
    assert found["samples[].target"] == 2
