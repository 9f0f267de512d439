"""The views of an attempt: its outline, its lines, and what they lead to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.errors import UserError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    Noted,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore, annotate, seal
from assay.viewer.exchanges import tokens_part
from assay.viewer.views import make_view
from tests.viewer.chains_made import LONG, make, png, shown, view_names

pytestmark = pytest.mark.newest


@pytest.fixture(params=["live", "sealed"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    make(tmp_path)
    if request.param == "sealed":
        seal(tmp_path, "r")
    return tmp_path


def lines_of(root: Path) -> list[dict[str, Any]]:
    outline = shown(root, "outline")["lines"]
    starts = range(0, len(outline["events"]), outline["at_once"])
    return [line for start in starts for line in shown(root, "lines", str(start))["lines"]]


def test_each_event_is_one_line_and_calls_stand_with_their_steps(root: Path) -> None:
    lines = shown(root, "outline")["lines"]
    assert lines["kinds"] == "ascssss" + "eevn" + "z"
    assert lines["heads"][1:4] == ["I look.", "m: request", "shell: ls"]
    assert lines["calls_of"][:4] == [-1, 1, -1, 4]
    assert lines["steps"] == [[0, 1], [1, 3], [2, 4], [3, 5], [4, 6]]
    assert lines["evidence"] == {"e1": 7, "e2": 8}


def test_flags_say_what_failed_and_what_is_not_certified(root: Path) -> None:
    lines = shown(root, "outline")["lines"]
    marked = {name: [n for n, f in enumerate(lines["flags"]) if f & bit] for name, bit in lines["flag_bits"].items()}
    assert marked["error"] == [4, 7, 9]
    assert (marked["tokens"], marked["uncertified"], marked["thought"]) == ([1, 2, 3], [3], [1])


def test_branches_and_agents_are_a_tree(root: Path) -> None:
    lanes = shown(root, "outline")["lines"]["lanes"]
    told = [(lane["name"], lane["kind"], lane["parent"], lane["cause"], lane["steps"]) for lane in lanes]
    assert told == [
        ("main", "main", -1, None, 3),
        ("c2", "branch", 0, "resample", 0),
        ("helper", "branch", 0, "sub_agent", 1),
        ("critic", "agent", 0, None, 1),
    ]


def test_a_verdict_leads_to_the_lines_that_say_why(root: Path) -> None:
    (verdict,) = shown(root, "outline")["verdicts"]
    first, second, gone = verdict["cited"]
    assert (first["place"]["at"], first["place"]["row"], first["place"]["line"]) == ("/evidence/data/stdout", 2, 7)
    assert first["place"]["text"] == "FAILED tests/test_a.py::test_b - assert"
    assert (second["place"]["at"], second["place"]["text"]) == ("/evidence/data/tests", "tests/test_a.py::test_b")
    assert gone["place"] is None


def test_a_finding_leads_to_what_it_quotes(root: Path) -> None:
    (finding,) = shown(root, "outline")["findings"]
    place = finding["quotes"][0]["place"]
    assert (place["line"], place["at"], place["row"]) == (4, "/step/observations/0/content", 3)
    assert LONG[place["offset"] :].startswith("needle here\n")
    assert finding["steps"] == [[2, 4]]


def test_pieces_hold_every_line_once_and_little_of_long_texts(root: Path) -> None:
    lines = lines_of(root)
    assert [line["line"] for line in lines] == list(range(12))
    content = lines[4]["seen"][0]["content"]
    assert content["length"] == len(LONG)
    assert len(json.dumps(lines[4])) < 10_000
    assert lines[3]["model_call"]["certificate"] == {"certified": False}


def test_a_test_report_shows_what_failed_first(root: Path) -> None:
    tests = lines_of(root)[8]["tests"]
    assert tests["shown"][0] == ["tests/test_a.py::test_b", "failed"]
    assert (len(tests["shown"]), tests["left_out"]) == (300, 101)


def test_the_parts_of_a_long_text_are_the_text(root: Path) -> None:
    first = shown(root, "text", "6", "/step/observations/0/content", "0")
    parts = [shown(root, "text", "6", "/step/observations/0/content", str(n)) for n in range(first["parts"])]
    assert "".join(part["text"] for part in parts) == LONG
    assert [part["line"] for part in parts] == [LONG.count("\n", 0, n * (1 << 16)) + 1 for n in range(len(parts))]
    assert json.loads(shown(root, "text", "2", "-", "0")["text"])["step"]["message"] == "I look."


def test_a_picture_is_shown_as_what_it_is(root: Path) -> None:
    found = shown(root, "picture", "7", "/step/observations/0/content")
    assert (found["type"], found["width"], found["height"]) == ("image/png", 20, 10)
    assert "no picture" in shown(root, "picture", "2", "/step/message")["problem"]


def test_a_call_shows_its_messages_and_its_tokens(root: Path) -> None:
    call = shown(root, "call", "1")
    assert [part["text"] for part in call["messages"][0]["parts"]] == ["hi"]
    assert call["answer"]["parts"][0]["text"] == "Hello\n!"
    tokens = shown(root, "tokens", "1", "0")
    assert (tokens["words"], tokens["ids"]) == (["Hel", "lo", "\n", "!"], [3, 4, 5, 6])
    assert tokens["logprobs"][0] == -0.1


@pytest.mark.parametrize(
    "parts",
    [
        ("lines", "7"), ("lines", "400"), ("lines", "x"), ("call", "2"), ("call", "999"), ("tokens", "2", "0"),
        ("tokens", "1", "5"), ("text", "2", "/step/none", "0"), ("text", "2", "/step/message", "9"),
        ("text", "2", "/step/tool_calls/-1", "0"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(root: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(UserError):
        shown(root, *parts)


def test_an_attempt_that_is_not_there_is_refused(root: Path) -> None:
    with pytest.raises(UserError, match=r"has no attempt '\.\./x'"):
        shown(root, "outline", chain="../x")


def test_every_view_that_an_export_holds_is_there(root: Path) -> None:
    found = [name for name in view_names(root, "r") if "/attempt/" in name or "/blob/" in name]
    assert len(found) == len(set(found))
    kinds = {name.split("/")[4] for name in found}
    assert kinds == {"outline", "course", "siblings", "lines", "changes", "call", "tokens", "text", "picture"}
    assert all(make_view(root, name) is not None for name in found)


def test_what_is_learnt_later_stands_behind_the_rest(root: Path) -> None:
    again: list[Body] = [
        EvidenceAdded(Evidence("x", "audit", "execution", {"argv": ["again"], "exit_code": 0})),
        VerdictAdded(Verdict("later", "outcome", "pass", 1.0, "again", ("x",))),
        Noted("audited", {"findings": []}),
    ]
    annotate(root, "r", "t@0.0", again)
    outline = shown(root, "outline")
    assert outline["lines"]["kinds"].endswith("zevn")
    assert [verdict["check"] for verdict in outline["verdicts"]] == ["tests", "later"]
    assert outline["verdicts"][1]["cited"][0]["place"]["line"] == 12
    assert outline["findings"] == []
    assert lines_of(root)[12]["id"] == "x"


def test_a_blob_is_read_by_parts(root: Path) -> None:
    with RunStore.open(root, "r") as store:
        text, binary = store.blobs.put(("é" * 50_000).encode()), store.blobs.put(png())
    parts = [json.loads(make_view(root, f"run/r/blob/{text}/{n}") or b"") for n in range(2)]
    assert "".join(part["text"] for part in parts) == "é" * 50_000
    shown_bytes = json.loads(make_view(root, f"run/r/blob/{binary}/0") or b"")
    assert shown_bytes["binary"]
    assert shown_bytes["text"].startswith("00000000  89 50 4e 47")
    assert json.loads(make_view(root, f"run/r/shown/{binary}") or b"")["type"] == "image/png"


def test_attempts_beside_one_are_told(tmp_path: Path) -> None:
    make(tmp_path, attempts=3)
    told = shown(tmp_path, "siblings")["attempts"]
    assert [(one["chain"], one["number"], one["outcome"]) for one in told] == [
        ("t@0.0", 0, "fail"), ("t@1.0", 1, "fail"), ("t@2.0", 2, "fail"),
    ]  # fmt: skip


def test_attempts_beside_one_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for name, number in (("t@0", 0), ("b", 3), ("c", 1)):
            started = AttemptStarted("r", name, "t", "d", "loop", None, 0, number, at=1.0)
            store.append(f"{name}.0", [started, AttemptEnded("it ended", at=2.0)])
    found = json.loads(make_view(tmp_path, "run/r/attempt/t%400.0/siblings") or b"")["attempts"]
    assert [one["number"] for one in found] == [0, 1, 3]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"text": "a→b", "ends": [1, 1, 3]}, ["a", "", "→b"]),
        ({"text": "ab", "ends": [1, 2]}, None),
        ({"text": 7}, None),
        ({"text": "ab", "ends": [2, 1, 2]}, None),
        ({"text": "ab", "ends": [-1, 1, 2]}, None),
        ({"text": "ab", "ends": ["x"] * 3}, None),
        ({"text": "ab", "ends": [0, 1, 9]}, None),
    ],
)
def test_tokens_are_cut_from_the_text_where_it_says_how(told: dict[str, Any], words: list[str] | None) -> None:
    call = ModelCall("c", "d", "m", {}, {"assay": told}, completion_token_ids=(1, 2, 3))
    assert tokens_part(call, 0)["words"] == words
