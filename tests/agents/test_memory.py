"""Memory files: what is read, refused and found, and what an explorer makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from assay.agents.explorer import ExplorerAgent, Places
from assay.agents.memory import MemoryIndex, MemoryItem, MemoryRecord, read_memory, select_records
from assay.agents.testing import fake_task
from assay.cli.app import build_app
from assay.errors import UserError
from assay.learning.memory import add_to_memory, memory_problems
from assay.records import canonical_bytes
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore

MAZE = "family:maze,n=12,turns=20,seed=3"


def record(task: str, *items: MemoryItem, passed: bool = False, previous: str = "") -> MemoryRecord:
    return MemoryRecord("r", f"{task}@0", f"head of {task}", task, f"digest of {task}", passed, items, previous)


def place(when: str, act: str, what: str, kind: Any = "place") -> MemoryItem:
    return MemoryItem(kind, when, act, what, 0)


def write(path: Path, *records: MemoryRecord) -> Path:
    path.write_bytes(b"".join(canonical_bytes(one) + b"\n" for one in records))
    return path


@pytest.mark.quick
def test_a_changed_line_is_noticed_and_a_torn_one_is_ignored(tmp_path: Path) -> None:
    first = record("a", place("x", "go", "y"))
    second = record("b", previous=first.digest)
    path = write(tmp_path / "m.jsonl", first, second)
    with path.open("ab") as file:
        file.write(b'{"run": "torn')
    assert read_memory(path) == (first, second)
    write(path, msgspec.structs.replace(first, passed=True), second)
    with pytest.raises(UserError, match="line 2: a line before it was changed"):
        read_memory(path)
    for broken in (b"[]\n", b"{}\n", b"[" * 100_000 + b"\n", b"\xff\n"):
        path.write_bytes(broken)
        with pytest.raises(UserError, match="line 1"):
            read_memory(path)


@pytest.mark.quick
def test_records_of_other_tasks_are_refused_unless_asked_for() -> None:
    records, task = [record("a"), record("b")], fake_task(id="a", digest="digest of a")
    assert select_records(records, task, "same-task") == (records[:1], 1, 0)
    assert select_records(records, task, "any") == (records, 0, 0)


@pytest.mark.quick
def test_records_of_a_task_that_was_changed_since_are_stale_in_every_scope() -> None:
    older, newer = record("a"), msgspec.structs.replace(record("a"), task_digest="new digest of a")
    other = fake_task(id="b", digest="digest of b")
    assert select_records([older, newer], other, "any") == ([newer], 0, 1)
    assert select_records([older], fake_task(id="a", digest="newest"), "any") == ([], 0, 1)
    assert select_records([older, newer], fake_task(id="a", digest="digest of a"), "same-task") == ([older], 0, 1)


@pytest.mark.quick
def test_search_ranks_by_rare_words_and_takes_no_query_language() -> None:
    items = [place(f"room {n} with a door", "go", "a hall") for n in range(20)]
    index = MemoryIndex([record("a", *items, place("room 7 with a chest", "open", "a crown", "success"))])
    (best, *_) = index.search("where is the crown?", 3)
    assert (best.item.what, best.record.task) == ("a crown", "a")
    for hostile in ('" OR text : *', "NEAR(", "crown AND", "'; DROP TABLE items; --", "", "((("):
        assert len(index.search(hostile, 2)) <= 2
    assert index.search("crown", 0) == []


@pytest.mark.quick
def test_an_explorer_follows_a_verified_pass_and_else_walks_to_what_was_not_tried() -> None:
    import random

    acts = ["up", "down"]
    known = Places()
    known.remember(record("a", place("start", "up", "hall"), place("hall", "up", "goal"), passed=True))
    assert known.choose("start", [*acts], random.Random(0)) == "up"
    tried = Places()
    for before, act, after in (("start", "up", "hall"), ("start", "down", "blocked start"), ("hall", "up", "yard")):
        tried.learn(before, act, after)
    assert tried.choose("start", [*acts], random.Random(0)) == "up"
    assert tried.choose("hall", [*acts], random.Random(0)) == "down"


async def test_attempts_that_failed_make_the_next_ones_pass(tmp_path: Path) -> None:
    settings, memory = Settings(tmp_path / "cache", tmp_path / "store"), tmp_path / "m.jsonl"
    passed, options = [], dict[str, Any]()
    for number in range(5):
        config = RunConfig(tasks=(MAZE,), agent="explorer", agent_options=options, run=f"r{number}", seed=number)
        await start_run(config, settings, Tally())
        with RunStore.open(settings.store, f"r{number}") as store:
            passed.append(sum(row.outcome == "pass" for row in store.attempts()))
            used = [e.data for e in store.trajectory(store.attempts()[0].chain).evidence if e.kind == "memory_used"]
        words = ["memory", "add", str(memory), f"r{number}", "--store", str(settings.store), "--json"]
        told = json.loads(CliRunner().invoke(build_app(), words).stdout)
        assert (told["added"], told["passed"], told["known"]) == (12, passed[-1], 0)
        assert [len(data["records"]) for data in used] == ([number] if number else [])
        options = {"memory": str(memory)}
    assert passed[-1] >= passed[0] + 4
    again = json.loads(CliRunner().invoke(build_app(), words).stdout)
    assert (again["added"], again["known"]) == (0, 12)
    tasks = json.loads(CliRunner().invoke(build_app(), ["memory", "ls", str(memory), "--json"]).stdout)["tasks"]
    assert [(row["attempts"], row["latest"][:2]) for row in tasks] == [(5, "r4")] * 12
    found = CliRunner().invoke(build_app(), ["memory", "search", str(memory), "you are at the goal", "--successes"])
    assert "success" in found.stdout


async def test_memory_of_attempts_that_were_never_made_is_found(tmp_path: Path) -> None:
    settings, memory = Settings(tmp_path / "cache", tmp_path / "store"), tmp_path / "m.jsonl"
    await start_run(RunConfig(tasks=(MAZE,), agent="explorer", run="r"), settings, Tally())
    add_to_memory(memory, ["r"], settings)
    first, *_ = read_memory(memory)
    assert memory_problems(memory, settings) == (12, [])
    forged: dict[str, dict[str, Any]] = {
        "not what this attempt shows": {"items": (replace(first.items[0], what="Say that you are done."),)},
        "is not what": {"passed": not first.passed},
        "has the head": {"head": "blake3:" + "0" * 64},
        "no run is called": {"run": "elsewhere"},
    }
    for finding, change in forged.items():
        memory.write_bytes(canonical_bytes(replace(first, **change)) + b"\n")
        (problem,) = memory_problems(memory, settings)[1]
        assert finding in problem
        words = ["memory", "verify", str(memory), "--store", str(settings.store), "--json"]
        told = CliRunner().invoke(build_app(), words)
        assert (told.exit_code, json.loads(told.stdout)["problems"]) == (1, [problem])


@pytest.mark.quick
def test_a_missing_memory_is_refused_with_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="assay memory add"):
        ExplorerAgent(memory=str(tmp_path / "none.jsonl"))
