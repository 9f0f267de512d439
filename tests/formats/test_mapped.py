"""Files of unknown formats: the refusal drafts a mapping, and the mapping reads the file."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.formats.mapped.draft import draft_mapping
from assay.formats.mapped.format import MappedFormat
from assay.formats.mapped.mapping import load_mapping
from assay.formats.registry import find_format
from tests.formats.agents import steps_of
from tests.formats.generated import ROUND_TRIPS, Blobs, read_all
from tests.rollout.exchange.test_importing import imported

TALK: dict[str, Any] = {
    "meta": {"task": "t-1"},
    "model": "m",
    "success": True,
    "dialog": [
        {"speaker": "Customer", "utterance": "What is here?", "at": 1700000000},
        {"speaker": "Robot", "utterance": "I look.", "does": {"tool": "ls", "with": {"p": "."}}, "saw": "a.txt"},
        {"speaker": "Robot", "utterance": "One file."},
    ],
}
MAPPING = """
turns = "dialog"
role = "speaker"
text = "utterance"
time = "at"
calls = "does"
call_name = "tool"
call_arguments = "with"
result = "saw"
task = "meta.task"
model = "model"
reward = "success"
[roles]
Customer = "user"
Robot = "assistant"
"""


def stored(folder: Path, path: Path, mapping: str) -> tuple[Any, list[Any]]:
    """Imports `path` by a mapping; the report and the trajectories."""
    from assay.store import RunStore

    (folder / "map.toml").write_text(mapping)
    report = imported(folder / "s", path, map=str(folder / "map.toml"))
    with RunStore.open(folder / "s", report.run) as store:
        return report, list(store.trajectories())


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.jsonl", json.dumps(TALK) + "\n" + json.dumps(TALK) + "\n", ""),
        ("a.json", json.dumps([TALK, TALK], indent=1), ""),
        ("a.json", json.dumps({"about": "x", "data": {"runs": [TALK, TALK]}}), "data.runs"),
        ("a.json", json.dumps([{"runs": [TALK]}, {"runs": [TALK]}]), "runs"),
    ],
    ids=["lines", "array", "inside a document", "inside the items of an array"],
)
def test_a_mapping_reads_turns_calls_results_and_claims(name: str, text: str, rows: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    report, found = stored(tmp_path, tmp_path / name, f'rows = "{rows}"\n{MAPPING}')
    assert (report.read, report.unreadable_total) == (2, 0)
    one = found[0]
    assert [(s.actor, s.message) for s in one.steps] == [
        ("user", "What is here?"),
        ("agent", "I look."),
        ("agent", "One file."),
    ]
    assert [(c.name, c.parsed) for c in one.steps[1].tool_calls] == [("ls", {"p": "."})]
    assert [o.content for o in one.steps[1].observations] == ["a.txt"]
    assert (one.task, one.model, one.outcome, one.verdicts[0].marks) == ("t-1", "m", "pass", ("imported",))


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.jsonl", json.dumps(TALK) + "\n" + json.dumps(TALK) + "\n", 2),
        ("a.json", json.dumps({"version": 3, "episodes": [TALK, TALK]}, indent=2), 2),
        ("a.jsonl", '{"who": "user", "text": "hi"}\n{"who": "bot", "text": "hello"}\n', 1),
    ],
    ids=["lines", "inside a document", "one turn a line"],
)
def test_the_mapping_that_a_refusal_drafts_reads_the_file(name: str, text: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match=r"--map map\.toml") as caught:
        imported(tmp_path / "s", path)
    draft = str(caught.value).split("\n\n")[1].strip()
    assert draft == draft_mapping(path)
    report, found = stored(tmp_path, path, draft)
    assert (report.read, report.unreadable_total, report.remarks_total) == (count, 0, count - 1)
    assert {step.actor for one in found for step in one.steps} == {"user", "agent"}


CALLS: dict[str, Any] = {
    "one": ("does", {"tool": "ls", "with": {"p": 1}}),
    "several": ("actions", [{"name": "ls", "args": {"p": 1}}, {"name": "cat", "args": {}}]),
    "nested": ("tool_calls", [{"id": "c", "function": {"name": "ls", "arguments": '{"p": 1}'}}]),
    "with their result": ("invocation", {"function": "ls", "input": {"p": 1}, "result": "a.txt"}),
}
"""Calls of tools, as files of no known format have them: the key in a turn, and what it holds."""
PARTS = [{"type": "text", "text": "Parts."}]
WRAPPED: dict[str, Any] = {
    "lines": lambda runs: "".join(json.dumps(run) + "\n" for run in runs),
    "array": json.dumps,
    "document": lambda runs: json.dumps({"version": 3, "about": {"by": "x"}, "episodes": runs}, indent=1),
    "inside a document": lambda runs: json.dumps({"about": "x", "data": {"attempts": runs}}),
    "inside the items of an array": lambda runs: json.dumps([{"batch": [run]} for run in runs]),
}


@st.composite
def unknown_runs(draw: st.DrawFn) -> tuple[list[dict[str, Any]], tuple[int, int, int]]:
    """Runs in a shape of no known format, and the counts of their attempts, answers and calls."""
    role, text = (
        draw(st.sampled_from(["speaker", "who", "kind", "actor"])),
        draw(st.sampled_from(["utterance", "body"])),
    )
    user, agent = draw(st.sampled_from([("Customer", "Robot"), ("human", "Coder"), ("user", "GPT-4"), ("Q", "agent")]))
    place, (key, calls) = draw(st.sampled_from(["dialog", "events"])), CALLS[draw(st.sampled_from(sorted(CALLS)))]
    acts = draw(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=4))
    said = draw(st.sampled_from(["Hello.", PARTS]))
    runs = []
    for number, answers in enumerate(acts):
        turns: list[dict[str, Any]] = [{role: user, text: said}]
        for acting in answers:
            turns.append({role: agent, text: said, **({key: calls} if acting else {})})
            turns += [{role: "tool", text: "a.txt"}] * acting
        runs.append({"id": f"t{number}", "score": 1, "meta": {"tags": ["a"]}, place: turns})
    made = sum(map(sum, acts)) * (len(calls) if isinstance(calls, list) else 1)
    return runs, (len(runs), sum(map(len, acts)), made)


@settings(ROUND_TRIPS, max_examples=40)
@given(unknown_runs(), st.sampled_from(sorted(WRAPPED)))
def test_the_mapping_of_a_refusal_imports_the_file_with_its_counts(
    runs: tuple[list[dict[str, Any]], tuple[int, int, int]], wrapped: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder) / "unknown.json", Path(folder) / "map.toml"
        path.write_text(WRAPPED[wrapped](runs[0]))
        with pytest.raises(UserError, match=r"--map map\.toml") as caught:
            find_format(path)
        written.write_text(str(caught.value).split("\n\n")[1])
        found, problems = read_all(MappedFormat(load_mapping(written)), path, Blobs())
    steps = [step for one in found for step in steps_of(one)]
    assert not problems
    answers = sum(step.actor == "agent" for step in steps)
    assert (len(found), answers, sum(len(step.tool_calls) for step in steps)) == runs[1]
    assert {one.started.task for one in found} == {run["id"] for run in runs[0]}


KEYS = ["dialog", "role", "type", "name", "content", "text", "tool", "input", "result", "id", "a.b", "\U0001f916"]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=6) | st.sampled_from(KEYS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.long
@settings(ROUND_TRIPS, max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_draft_of_any_json_is_a_mapping_that_can_be_read(rows: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder) / "any.json", Path(folder) / "map.toml"
        path.write_text(json.dumps(rows))
        draft = draft_mapping(path)
        if draft is not None:
            written.write_text(draft)
            read_all(MappedFormat(load_mapping(written)), path, Blobs())


def test_speakers_are_quoted_as_toml(tmp_path: Path) -> None:
    turns = [{"speaker": "\U0001f916 bot", "utterance": "Hi."}, {"speaker": 'a "b"\x7f\n', "utterance": "Yes?"}]
    (tmp_path / "a.json").write_text(json.dumps([{"dialog": turns}]))
    (tmp_path / "map.toml").write_text(draft_mapping(tmp_path / "a.json") or "")
    assert set(load_mapping(tmp_path / "map.toml").roles) == {turn["speaker"] for turn in turns}


def test_a_speaker_of_a_later_run_and_a_first_run_without_turns_are_drafted(tmp_path: Path) -> None:
    late: dict[str, Any] = {
        "dialog": [{"speaker": "Customer", "utterance": "Hi."}, {"speaker": "Planner bot", "utterance": "Yes?"}]
    }
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in [{"dialog": []}, TALK, late]))
    draft = draft_mapping(path)
    assert draft is not None
    assert '"Planner bot" = "assistant"' in draft
    assert 'result = "saw"' in draft


def test_a_compressed_file_of_an_unknown_format_is_answered_with_a_mapping_too(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((json.dumps(TALK) + "\n").encode()))
    report = imported(tmp_path / "s", tmp_path / "a.jsonl.gz")
    ((what),) = report.unreadable
    assert f"--map map.toml {tmp_path / 'a.jsonl.gz'}" in what.problem
    assert stored(tmp_path, tmp_path / "a.jsonl.gz", what.problem.split("\n\n")[1])[0].read == 1


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_what_holds_files_of_an_unknown_format_is_answered_with_a_mapping_too(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "NOTES.md").write_text("hello")
    (folder / "talks.jsonl").write_text((json.dumps(TALK) + "\n") * 2)
    path = folder if kind == "folder" else Path(shutil.make_archive(str(tmp_path / "packed"), kind, folder))
    with pytest.raises(UserError, match=r"talks\.jsonl: Otherwise") as caught:
        imported(tmp_path / "s", path)
    assert f"--map map.toml {path}" in str(caught.value)
    report, found = stored(tmp_path, path, str(caught.value).split("\n\n")[1])
    assert (report.read, report.unreadable_total, report.remarks_total) == (2, 0, 1)
    assert [len(one.steps) for one in found] == [3, 3]


def test_what_a_mapping_does_not_find_is_told(tmp_path: Path) -> None:
    odd = [{"dialog": [{"speaker": "Ghost", "utterance": "boo"}, {"speaker": "Robot"}, 7]}, {"talk": []}]
    (tmp_path / "a.json").write_text(json.dumps(odd))
    report, _ = stored(tmp_path, tmp_path / "a.json", MAPPING)
    assert [u.place for u in report.unreadable] == ["[0].dialog[1]", "[0].dialog[2]", "[1]"]
    assert "'Ghost' is not in the mapping" in report.remarks[0].problem


@pytest.mark.parametrize(
    ("text", "said"),
    [('role = "x"', "missing required field `turns`"), ('turns = "a"\nrolle = "x"', "rolle"), ("turns =", "invalid")],
)
def test_an_invalid_mapping_is_refused_with_its_keys(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(UserError, match="its keys are turns, rows, role") as caught:
        load_mapping(tmp_path / "map.toml")
    assert said in str(caught.value)


def test_format_and_mapping_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([TALK]))
    with pytest.raises(UserError, match="exclude each other"):
        imported(tmp_path / "s", tmp_path / "a.json", map="map.toml", format="chat")
